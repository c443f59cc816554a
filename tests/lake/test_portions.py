"""Many small files: how many commits and comparisons an ingest makes, and that no file is lost between portions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings, strategies as st

from lowwater.config import Config, Link
from lowwater.lake import tables
from lowwater.lake.ingestion import batch, replacement
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import Lake, open_lake
from tests.breadth import examples
from tests.lake.support import at, capture, stamps
from tests.lake.test_coverage import row

CONFIG = Config(links={"a": Link(skew="1s")})


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return open_lake(tmp_path_factory.mktemp("empty") / "lake")


def files(folder: Path, count: int) -> list[Path]:
    return [capture(folder / f"{number}.pcap", [10 * number, 10 * number + 9]) for number in range(count)]


def versions(lake: Lake) -> list[int]:
    opened = [tables.open_table(path) for path in (lake.packets, lake.captures)]
    return [table.version() for table in opened if table is not None]


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[object]:
    """The calls of a function from here on."""
    calls: list[object] = []
    real: Callable[..., Any] = getattr(owner, name)

    def call(*args: Any) -> Any:
        calls.append(args)
        return real(*args)

    monkeypatch.setattr(owner, name, call)
    return calls


@pytest.mark.slow
def test_commits_are_those_of_portions_and_a_file_is_compared_with_few(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "COMMIT_CAPTURES", 20)
    replaces = counted(monkeypatch, replacement.LedgerFiles, "_replaces")
    overlaps = counted(monkeypatch, replacement, "_overlap")
    before = versions(lake)
    results = ingest(lake, "a", files(tmp_path, 60), CONFIG)
    assert [each.state for each in results] == ["added"] * 60
    assert [now - then for now, then in zip(versions(lake), before, strict=True)] == [3, 3]
    assert len(replaces) == 0 and len(overlaps) <= 60
    assert stamps(lake) == [at(10 * number + more) for number in range(60) for more in (0, 9)]


@pytest.mark.slow
def test_files_that_are_read_again_are_replaced_in_as_few_commits(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = files(tmp_path, 12)
    ingest(lake, "a", paths, CONFIG)
    seen, before = stamps(lake), versions(lake)
    monkeypatch.setattr(replacement, "DECODER_VERSION", 99)
    replaces = counted(monkeypatch, replacement.LedgerFiles, "_replaces")
    assert [each.state for each in ingest(lake, "a", paths, CONFIG)] == ["replaced"] * 12
    assert versions(lake)[1] - before[1] == 1 and len(replaces) <= 24
    assert stamps(lake) == seen
    assert [each.state for each in ingest(lake, "a", paths, CONFIG)] == ["known"] * 12


DECLARED = st.one_of(st.none(), st.integers(0, 2).map(lambda at: (at * 100, at * 100 + 50)))
LEDGER_FILES = st.builds(
    lambda sha, path, first, packets, declared, by_hand: replacement.LedgerFile(
        (
            row(
                0,
                100,
                f"{sha}",
                path=f"{path}.pcap",
                first=first if packets else None,
                packets=packets,
                declared_from=declared and declared[0],
                declared_to=declared and declared[1],
                covers_from=declared[0] if declared else first,
                covers_to=declared[1] if declared else first + 60,
                by_hand=by_hand,
                bytes=10,
            ),
        )
    ),
    *(st.integers(0, 2), st.integers(0, 2), st.integers(0, 2), st.integers(0, 1), DECLARED, st.booleans()),
)


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None)
@given(st.lists(LEDGER_FILES, max_size=6), LEDGER_FILES)
def test_every_file_that_a_new_one_replaces_is_looked_at(
    empty: Lake, files: list[replacement.LedgerFile], new: replacement.LedgerFile
) -> None:
    ledger = replacement.LedgerFiles(empty, "a", CONFIG.link("a"))
    named = [replacement.LedgerFile((replace(file.row, attempt=f"{number}"),)) for number, file in enumerate(files)]
    for file in named:
        ledger._include(file)
    longer = replacement.LedgerFile((replace(new.row, bytes=20),))
    with patch.object(replacement, "starts_with", lambda *_: True):
        right = [file for file in named if ledger._replaces(longer, file, CONFIG.link("a"), 20) is not None]
    assert {file.row.attempt for file in right} <= {file.row.attempt for file in ledger._alike(longer)}
