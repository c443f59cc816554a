"""`[links.NAME.covers]`: lines that fit no file, or two; lines that are removed; `run`, which does not read them."""

from __future__ import annotations

import gzip
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from lowwater.config import load_config
from lowwater.errors import LowwaterError
from lowwater.instants import format_instant
from lowwater.lake.ingestion.arrivals import arrivals
from lowwater.lake.ingestion.batch import IngestResult
from lowwater.lake.ingestion.folders import look
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers import statements
from lowwater.lake.ledgers.captures import Capture, read_captures
from tests.lake.support import at, capture
from tests.lake.test_outside import settings
from tests.replay.support import lowwater

HOUR = 3600


def span(begin: float, end: float) -> str:
    """A value of `covers`: seconds after BASE."""
    return f"{format_instant(at(begin))}/{format_instant(at(end))}"


def rows(root: Path) -> list[Capture]:
    return list(read_captures(open_lake(root), ["a"])["a"])


def settled(path: Path, seconds: Iterable[float]) -> Path:
    """A capture that was written a minute ago: ingest looks twice at what is younger."""
    then = time.time() - 60
    os.utime(capture(path, seconds), (then, then))
    return path


def ingest_new(root: Path) -> list[IngestResult]:
    """What `lowwater ingest` takes up without files."""
    lake, config = open_lake(root), load_config(root)
    return ingest(lake, "a", arrivals(lake, config)["a"].new, config)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"covers": {"a-*": span(0, 7200)}}, {}, (at(100), at(900))),
        ({"rotation": "1h"}, {}, (at(100), at(900))),
        ({"rotation": "1h", "covers": {"a-*": span(0, 7200)}}, {"rotation": "1h"}, (at(0), at(3600))),
        ({"rotation": "1h"}, {"rotation": "2h"}, (at(0), at(7200))),
    ],
)
def test_a_line_that_is_removed_takes_its_coverage_with_it(
    before: dict[str, Any], after: dict[str, Any], expected: tuple[int, int], tmp_path: Path
) -> None:
    root, pattern = tmp_path / "lake", {"captures": f"{tmp_path}/a-%Y%m%d%H.pcap"}
    settled(tmp_path / "a-2027011508.pcap", [100, 500, 900])
    for told, covered in ((before, None), (after, expected)):
        settings(root, {**pattern, **told})
        assert [each.state for each in ingest_new(root)] == ([] if covered else ["added"])
        (row,) = rows(root)
        assert row.packets == 3 and ingest_new(root) == [], "no file is new for what the settings say of it"
    assert (row.covers_from, row.covers_to) == expected
    assert row.declared == (None if "rotation" not in after else expected)


@pytest.mark.slow
def test_what_covers_declared_by_hand_stands(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    settings(root, {"captures": f"{tmp_path}/a-%Y%m%d%H.pcap"})
    path = settled(tmp_path / "a-2027011508.pcap", [100, 500, 900])
    lake, config = open_lake(root), load_config(root)
    ingest(lake, "a", [path], config, (at(0), at(7200)))
    assert ingest_new(root) == []
    (known,) = ingest(lake, "a", [path], config)
    assert known.state == "known" and rows(root)[0].declared == (at(0), at(7200))
    (ended,) = ingest(lake, "a", [path], config, growing=True)
    assert ended.state == "replaced" and rows(root)[0].growing
    ingest(lake, "a", [path], config)
    assert (rows(root)[0].declared, rows(root)[0].by_hand) == ((at(0), at(7200)), True)


@pytest.mark.slow
@pytest.mark.parametrize("ahead", ["of what was seen", "of what was said"])
def test_covers_is_of_the_file_that_it_names_though_the_clock_was_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: str
) -> None:
    root, now = tmp_path / "lake", time.time_ns
    settings(root, {"captures": f"{tmp_path}/*.pcap"})
    path = settled(tmp_path / "trace.pcap", [100, 900])
    with monkeypatch.context() as context:
        context.setattr(time, "time_ns", lambda: now() + 24 * HOUR * 10**9)
        if ahead == "of what was seen":
            ingest_new(root)
        else:
            statements.state(open_lake(root), [statements.Statement(0, "me", statements.ACCEPT, "", "b")])
            ingest_new(root)
            path = settled(tmp_path / "other.pcap", [900])
    settled(path, [7300, 7400])
    ingest(open_lake(root), "a", [path], load_config(root), (at(7200), at(10800)))
    covers = [(row.covers_from, row.covers_to) for row in rows(root)]
    assert covers == [(at(100), at(900)), (at(7200), at(10800))]


@pytest.mark.slow
def test_a_link_that_comes_makes_nothing_whole_that_was_still_written(tmp_path: Path) -> None:
    root, link = tmp_path / "lake", {"captures": f"{tmp_path}/a_%Y%m%d%H.pcap", "rotation": "1h"}
    settings(root, link)
    path = settled(tmp_path / "a_2027011508.pcap", range(0, 1000, 10))
    ingest(open_lake(root), "a", [path], load_config(root), growing=True)
    with (root / "lowwater.toml").open("a") as file:
        file.write(f"[links.b]\ncaptures = {link['captures']!r}\nrotation = '1h'\n")
    settled(path, range(0, 3600, 10))
    look(open_lake(root), load_config(root))
    assert rows(root)[0].covers_to == at(990)
    ingest_new(root)
    assert rows(root)[0].covers_to == at(3600)


@pytest.mark.slow
def test_what_another_link_refuses_is_not_whole_while_it_is_written(tmp_path: Path) -> None:
    root, link = tmp_path / "lake", {"captures": f"{tmp_path}/a_%Y%m%d%H.pcap", "rotation": "1h"}
    settings(root, link)
    with (root / "lowwater.toml").open("a") as file:
        file.write(f"[links.b]\ncaptures = {link['captures']!r}\nkind = 'zeek'\nprotocol = 'ZEEK_CONN'\n")
    path = settled(tmp_path / "a_2027011508.pcap", range(0, 1000, 10))
    refused: dict[Path, LowwaterError] = {}
    ingest(open_lake(root), "b", [path], load_config(root), refusals=refused)
    assert [*refused] == [path]
    ingest(open_lake(root), "a", [path], load_config(root), growing=True)
    assert rows(root)[0].covers_to == at(990)


@pytest.mark.slow
def test_what_covers_declared_stays_with_a_file_that_is_packed_and_then_decoded_otherwise(tmp_path: Path) -> None:
    root, path = tmp_path / "lake", tmp_path / "a.pcap"
    settings(root, {"captures": f"{tmp_path}/a.pcap*"})
    ingest(open_lake(root), "a", [settled(path, [100, 500])], load_config(root), covers=(at(0), at(HOUR)))
    (tmp_path / "a.pcap.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    for lines in ({}, {"payload": 100}, {"payload": 200}):
        settings(root, {"captures": f"{tmp_path}/a.pcap*", **lines})
        ingest(open_lake(root), "a", [tmp_path / "a.pcap.gz"], load_config(root))
        look(open_lake(root), load_config(root))
        (row,) = rows(root)
        assert (row.declared, row.by_hand) == ((at(0), at(HOUR)), True)


def test_lines_that_fit_no_file_are_told_once_by_ingest(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    files = [capture(tmp_path / name, [n * HOUR, n * HOUR + 9]) for n, name in enumerate(("one[1].pcap", "two.pcap"))]
    covers = {
        "two.pcap": span(HOUR, 2 * HOUR),
        f"{tmp_path}/two.pcap": span(0, 60),
        "one[1].pcap": span(0, 60),
        "tow.pcap": span(0, 60),
        "20*": span(0, 60),
    }
    settings(root, {"captures": f"{tmp_path}/*.pcap", "covers": covers})
    for words in ((), ("--link", "a", *files)):
        said = lowwater("ingest", "--lake", root, *words)
        notes = [line for line in said.err.splitlines() if line.startswith("note: [links.a.covers]")]
        assert said.code == 0 and len(notes) == 4, said.err
        for line, hint in zip(
            notes,
            ("without its folder", "write 'one[[]1].pcap' for brackets", "is it 'two.pcap'?", "* for any"),
            strict=True,
        ):
            assert hint in line and "no file of link 'a' fits" in line
