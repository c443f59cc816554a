"""`[links.NAME.covers]`: lines that fit no file, or two; lines that are removed; `run`, which does not read them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lowwater.config import load_config
from lowwater.errors import ConfigError, OverlapError
from lowwater.instants import format_instant
from lowwater.lake.ingestion.arrivals import arrivals
from lowwater.lake.ingestion.ingest import IngestResult, ingest
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import Capture, put_captures, read_captures
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
        (found,) = ingest_new(root)
        (row,) = rows(root)
        assert found.state == ("replaced" if covered else "added") and row.packets == 3
        assert ingest_new(root) == [], "no file is new a second time"
    assert (row.covers_from, row.covers_to) == expected
    assert row.declared == (None if "rotation" not in after else expected)


def test_an_empty_file_whose_line_is_removed_covers_nothing(tmp_path: Path) -> None:
    root, pattern = tmp_path / "lake", {"captures": f"{tmp_path}/a-%Y%m%d%H.pcap"}
    settled(tmp_path / "a-2027011508.pcap", [])
    for told, covered in (({"rotation": "1h"}, (at(0), at(3600))), ({}, (0, 0))):
        settings(root, {**pattern, **told})
        ingest_new(root)
        assert [(row.covers_from, row.covers_to) for row in rows(root)] == [covered]
        assert ingest_new(root) == []


@pytest.mark.slow
def test_what_covers_declared_by_hand_or_before_the_ledger_knew_stands(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    settings(root, {"captures": f"{tmp_path}/a-%Y%m%d%H.pcap"})
    path = settled(tmp_path / "a-2027011508.pcap", [100, 500, 900])
    lake, config = open_lake(root), load_config(root)
    ingest(lake, "a", [path], config, (at(0), at(7200)))
    for by_hand in (True, None):
        (row,) = rows(root)
        put_captures(lake, [replace(row, by_hand=by_hand)], [row])
        assert ingest_new(root) == []
        (known,) = ingest(lake, "a", [path], config)
        assert known.state == "known" and rows(root)[0].declared == (at(0), at(7200))
        (ended,) = ingest(lake, "a", [path], config, growing=True)
        assert ended.state == "replaced" and rows(root)[0].growing
        ingest(lake, "a", [path], config)
        assert (rows(root)[0].declared, rows(root)[0].by_hand) == ((at(0), at(7200)), by_hand)


def test_the_same_bytes_under_another_name_leave_the_coverage(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    settings(root, {"captures": f"{tmp_path}/a-%Y%m%d%H.pcap", "rotation": "1h"})
    capture(tmp_path / "a-2027011508.pcap", [100, 500, 900])
    ingest_new(root)
    (known,) = ingest(open_lake(root), "a", [capture(tmp_path / "copy.pcap", [100, 500, 900])], load_config(root))
    assert known.state == "known" and rows(root)[0].declared == (at(0), at(3600))


def test_two_files_that_one_line_fits_are_told_by_the_line(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    settings(root, {"covers": {"node-*.pcap": span(0, 7200)}})
    paths = [capture(tmp_path / f"node-{n}.pcap", [3600 * n, 3600 * n + 60]) for n in range(2)]
    with pytest.raises(OverlapError) as refused:
        ingest(open_lake(root), "a", paths, load_config(root))
    said = str(refused.value)
    assert "both have their coverage from the line 'node-*.pcap' of [links.a.covers]" in said
    assert "several links" not in said and "a link of its own" not in said and "a line for each file" in said
    settings(root, {"covers": {"node-0.pcap": span(0, 3600), "node-*.pcap": span(3600, 7200)}})
    ingest(open_lake(root), "a", paths, load_config(root))
    assert [row.declared for row in rows(root)] == [(at(0), at(3600)), (at(3600), at(7200))]


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


def test_a_line_for_a_file_that_is_in_the_lake_and_no_more_on_disk_is_told_of_by_nobody(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    settings(root, {"covers": {"two*": span(0, HOUR)}})
    path = capture(tmp_path / "two.pcap", [1, 2])
    assert "note:" not in lowwater("ingest", "--lake", root, "--link", "a", path).err
    other = capture(tmp_path / "three.pcap", [HOUR, HOUR + 5])
    path.unlink()
    assert "note:" not in lowwater("ingest", "--lake", root, "--link", "a", other).err


def test_covers_for_several_files_names_the_section(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    settings(root, {})
    files = [capture(tmp_path / f"{n}.pcap", [n]) for n in range(2)]
    said = lowwater("ingest", "--lake", root, "--link", "a", "--covers", span(0, HOUR), *files)
    assert said.code == 2 and "a line for each in [links.a.covers]" in said.err
    with pytest.raises(ConfigError, match=r"\[links\.a\.covers\]"):
        ingest(open_lake(root), "a", files, load_config(root), (at(0), at(HOUR)))


def test_run_reads_no_coverage(tmp_path: Path) -> None:
    """Its files are a link's whole life (T5); what they are said to cover in a lake is no matter to it."""
    files = [capture(tmp_path / f"node-{n}.pcap", [HOUR * n, HOUR * n + 60]) for n in range(2)]
    (tmp_path / "q.gsql").write_text("SELECT time, len FROM a.ETH", encoding="utf-8")
    links = tmp_path / "links.toml"
    links.write_text(f'[links.a]\n[links.a.covers]\n"node-*.pcap" = "{span(0, 2 * HOUR)}"\n', encoding="utf-8")
    given = [word for path in files for word in ("--capture", f"a={path}")]
    out = ("--engine", "reference", "--out", tmp_path / "out")
    said = lowwater("run", tmp_path / "q.gsql", *given, "--links", links, *out)
    assert said.code == 0, said.err
    assert len((tmp_path / "out" / "q.csv").read_text().splitlines()) == 5
