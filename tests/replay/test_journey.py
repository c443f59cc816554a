"""A first user's hour: nine captures of nine nodes, as tcpdump leaves them, from `init` to `report` without an edit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lowwater.config import load_config
from lowwater.instants import HOUR, SECOND, parse_instant
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import ingested_links, read_captures
from lowwater.lake.ledgers.missing import lake_records_outside
from lowwater.lake.tables import open_table
from lowwater.lake.words import WAITING
from lowwater.replay.job import Job
from lowwater.replay.schedule.backfill import backfill
from lowwater.replay.schedule.due import DueSelection, due
from tests.breadth import each_push, some
from tests.capturemaker import pcap_bytes, tcp
from tests.replay.support import lowwater

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

BEGIN, END = parse_instant("2021-09-30T01:52:00Z"), parse_instant("2021-09-30T02:38:00Z")
NODES = range(1, 10)
LAYOUTS = [
    ("one folder", "dated", "one file"),
    ("nine folders", "undated", "one file"),
    ("one folder", "undated", "-G 900"),
    ("nine folders", "dated", "-G 900"),
    ("one folder", "dated", "-C"),
    ("nine folders", "undated", "-C"),
]
"""Folders, names and rotation, each pair of what they may be."""
FRAME = tcp("10.0.0.1", "10.0.0.2", 1024, 80)
QUERY = "SELECT tb, count(*) as cnt FROM [all].TCP GROUP BY time/60 as tb"

pytestmark = pytest.mark.slow


def records(node: int) -> list[int]:
    """When the packets of a node were seen, ns; nodes begin and end some seconds apart."""
    first = BEGIN + node * 2_417 * SECOND // 1000
    return [at for at in range(first, END + node * 1_301 * SECOND // 1000, 7 * SECOND) if at % HOUR < 3599 * SECOND]


def rotated(stamps: list[int], rotation: str) -> Iterator[list[int]]:
    """The packets by file."""
    if rotation == "one file":
        yield stamps
    elif rotation == "-G 900":
        for part in range(4):
            begin = stamps[0] // SECOND * SECOND + part * 900 * SECOND
            yield [at for at in stamps if begin <= at < begin + 900 * SECOND]
    else:
        for start in range(0, len(stamps), 100):
            yield stamps[start : start + 100]


def name(node: int, layout: tuple[str, str, str], number: int, first: int) -> str:
    """As tcpdump would call a file: -G by its format, -C by a number behind the name of the first one."""
    folders, dates, rotation = layout
    seconds = (first - parse_instant("2021-09-30")) // SECOND
    date = f"_20210930-{seconds // 3600:02d}{seconds // 60 % 60:02d}{seconds % 60:02d}" if dates == "dated" else ""
    counter = f"-{number:02d}" if rotation == "-G 900" and dates == "undated" else ""
    end = str(number) if rotation == "-C" and number else ""
    address = f"10.{node}.0.1{node}"
    stem = f"{address}/trace" if folders == "nine folders" else f"node_{address}"
    return f"{stem}{date}{counter}.pcap{end}"


def write(folder: Path, layout: tuple[str, str, str]) -> dict[int, int]:
    """Writes the captures; node -> packets."""
    for node in NODES:
        begin = records(node)[0]
        for number, stamps in enumerate(rotated(records(node), layout[2])):
            # -G names each file by its own begin, -C all of them by that of the first.
            since = begin + number * 900 * SECOND if layout[2] == "-G 900" else begin
            path = folder / name(node, layout, number, since)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(pcap_bytes([(at, FRAME) for at in stamps], nanoseconds=True))
    return {node: len(records(node)) for node in NODES}


def begun(tmp_path: Path, layout: tuple[str, str, str]) -> tuple[Path, dict[int, int]]:
    """A lake after `init` and `ingest`, and how many packets each node has."""
    packets = write(tmp_path / "captures", layout)
    lake, query = tmp_path / "lake", tmp_path / "per_minute.gsql"
    query.write_text(QUERY)
    said = lowwater("init", tmp_path / "captures", "--lake", lake, "--query", query)
    assert said.code == 0, said.err
    assert layout[0] != "one folder" or "belong to 9 links" in said.out
    said = lowwater("ingest", "--lake", lake)
    assert said.code == 0, said.err
    assert said.out.count("malformed") == 1, "one table"
    return lake, packets


def ids(layout: tuple[str, str, str]) -> str:
    return ", ".join(layout)


@pytest.mark.parametrize("layout", some(LAYOUTS, 2), ids=ids)
def test_every_packet_is_of_a_link_in_its_life_and_the_plan_names_it(
    tmp_path: Path, layout: tuple[str, str, str]
) -> None:
    lake, packets = begun(tmp_path, layout)
    captures, config = read_captures(opened := open_lake(lake), ingested_links(opened)), load_config(lake)
    assert len(captures) == len(config.links) == len(NODES)
    assert sorted(sum(each.packets for each in rows) for rows in captures.values()) == sorted(packets.values())
    for link, rows in captures.items():
        life = config.link(link)
        assert life.since is not None and life.until is None and life.timezone == "UTC"
        for each in rows:
            assert each.smallest is not None and each.largest is not None
            assert life.since <= each.smallest and each.covers_from <= each.smallest <= each.largest <= each.covers_to
        assert min(each.covers_from for each in rows) <= life.since, "no gap before its first record"
        assert (life.rotation == 900 * SECOND) == (layout[1:] == ("dated", "-G 900"))
    said = lowwater("plan", "--lake", lake, "--format", "json")
    assert said.code == 0, said.err
    work = json.loads(said.out)["intervals"]
    assert [each["from"] for each in work] == ["2021-09-30T01:00:00Z", "2021-09-30T02:00:00Z"]
    assert sum(each["packets"] for each in work) == sum(packets.values()) and all(each["exact"] for each in work)
    assert work[1]["blocked"].count("9 links") == 1, "said once, for all of them"
    assert work[1]["at_edge"] and not work[0]["blocked"], "no gap is inside: all that is left is where captures end"


@pytest.mark.slow
@pytest.mark.parametrize(
    "layout",
    each_push(
        [
            (("one folder", "dated", "-G 900"),),
            (("one folder", "dated", "one file"),),
            (("nine folders", "undated", "-C"),),
        ],
        3,
    ),
    ids=ids,
)
def test_every_packet_is_published_or_named(tmp_path: Path, layout: tuple[str, str, str], runner: Runner) -> None:
    """The whole way; what does not run is named, and `through_end` runs the rest."""
    lake, packets = begun(tmp_path, layout)
    job = Job.open(lake, "per_minute", tmp_path)
    for each in (job, replace(job, through_end=True)):
        tried = backfill([each], due(each, DueSelection()), runner=runner)
        assert all(one.published or (one.state == WAITING and one.reason) for one in tried), tried
        named = sum(one.due.packets for one in tried if not one.published)
        assert published(lake) + named == sum(packets.values())
    assert not named and published(lake) == sum(packets.values())
    shown = lowwater("report", "--lake", lake)
    assert shown.code == 0 and "per_minute, 2021-09-30T01:00:00Z" in shown.out


def published(lake: Path) -> int:
    """The packets that the rows of the table count."""
    table = open_table(lake / "tables" / "per_minute")
    return sum(table.to_pyarrow_table().column("cnt").to_pylist()) if table else 0


@pytest.mark.captures
def test_real_captures_as_they_come(tmp_path: Path, captures_dir: Path) -> None:
    """26 real captures in one folder: a link each, nothing refused, no packet outside of the life that is proposed."""
    lake, folder = tmp_path / "lake", captures_dir / "traffic"
    said = lowwater("init", folder, "--lake", lake)
    assert said.code == 0 and not said.err.startswith("error"), said.err
    said = lowwater("ingest", "--lake", lake)
    assert said.code == 0, said.err
    opened, config = open_lake(lake), load_config(lake)
    captures = read_captures(opened, ingested_links(opened))
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {each.path for rows in captures.values() for each in rows} == {str(path) for path in files}
    for link in captures:
        assert config.link(link).rotation is None, "no name of these says what a file covers"
        assert [count.all for _, count in lake_records_outside(opened, link, config.link(link))] in ([], [0]), link
