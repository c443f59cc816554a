"""Many small files: how many commits and comparisons an ingest makes, and that no file is lost between portions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lowwater.config import Config, Link
from lowwater.lake import tables
from lowwater.lake.ingestion import batch, known_files as replacement
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import Lake
from tests.lake.support import at, capture, stamps

CONFIG = Config(links={"a": Link(skew="1s")})


def files(folder: Path, count: int) -> list[Path]:
    return [capture(folder / f"{number}.pcap", [10 * number, 10 * number + 9]) for number in range(count)]


def versions(lake: Lake) -> list[int]:
    opened = [tables.open_table(path) for path in (lake.packets, lake.contents)]
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
    compared = counted(monkeypatch, batch, "begin_alike")
    before = versions(lake)
    results = ingest(lake, "a", files(tmp_path, 60), CONFIG)
    assert [each.state for each in results] == ["added"] * 60
    assert [now - then for now, then in zip(versions(lake), before, strict=True)] == [3, 3]
    assert not compared
    assert stamps(lake) == [at(10 * number + more) for number in range(60) for more in (0, 9)]


@pytest.mark.slow
def test_files_that_are_read_again_are_replaced_in_as_few_commits(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = files(tmp_path, 12)
    ingest(lake, "a", paths, CONFIG)
    seen, before = stamps(lake), versions(lake)
    monkeypatch.setattr(replacement, "DECODER_VERSION", 99)
    compared = counted(monkeypatch, batch, "begin_alike")
    assert [each.state for each in ingest(lake, "a", paths, CONFIG)] == ["replaced"] * 12
    assert versions(lake)[1] - before[1] == 2 and not compared
    assert stamps(lake) == seen
    assert [each.state for each in ingest(lake, "a", paths, CONFIG)] == ["known"] * 12
