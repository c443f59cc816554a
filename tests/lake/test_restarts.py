"""What files cover whose recorder was stopped and started again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from lowwater.config import load_config
from lowwater.errors import OverlapError
from lowwater.instants import SECOND, format_instant
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.ledgers.coverage import gap_texts, gaps
from lowwater.replay.job import Job
from lowwater.replay.schedule.due import DueSelection, due
from tests.lake.support import at, capture

MINUTE, HOUR = 60, 3600
QUERY = "DEFINE { query_name n; } SELECT tb, count(*) FROM a.ETH GROUP BY time/60 AS tb\n"


def named(root: Path, begin: float, records: Iterable[float], prefix: str = "cap") -> Path:
    """A capture that is named by the instant (seconds after BASE) at which its recorder began it."""
    name = format_instant(at(begin)).replace("-", "").replace(":", "")
    return capture(root.parent / f"{prefix}_{name}.pcap", records)


def world(root: Path, lines: str = "", rotation: bool = True) -> Lake:
    root.mkdir(parents=True)
    (root / "n.gsql").write_text(QUERY)
    pattern = f'captures = "{root.parent}/*_%Y%m%dT%H%M%SZ.pcap*"\nrotation = "1h"\n' if rotation else ""
    (root / "lowwater.toml").write_text(f'[query_sets.n]\nfiles = ["n.gsql"]\n[links.a]\n{pattern}{lines}\n')
    return open_lake(root)


def put(lake: Lake, files: Sequence[Path]) -> None:
    ingest(lake, "a", files, load_config(lake.root))


def spans(lake: Lake) -> list[tuple[float, float]]:
    """Covered ranges, in minutes after BASE."""
    base = at(0)
    return [
        ((b - base) / SECOND / MINUTE, (e - base) / SECOND / MINUTE) for b, e in read_captures(lake, "a")["a"].spans
    ]


def states(root: Path, through_end: bool = False) -> dict[int, tuple[str, int]]:
    """Hour after BASE -> the state that a run would publish, or that it cannot start, and the records charged."""
    job = replace(Job.open(root, "n", root), through_end=through_end)
    found, captures = {}, job.captures()
    for each in due(job, DueSelection()):
        inputs = job.inputs(each.start, each.end, captures)
        scan = inputs.scan("a")
        state = "blocked" if each.blocked else inputs.state(inputs.gaps())[0]
        found[(each.start - at(0)) // (HOUR * SECOND)] = state, scan.sane + scan.violations.num_rows
    return found


def every(begin: float, end: float, step: float = 10) -> list[float]:
    return [begin + step * n for n in range(int((end - begin) / step))]


def restarted(root: Path) -> list[Path]:
    """Three whole hours; the recorder stops at 03:10 and is started again at 03:20."""
    files = [named(root, HOUR * n, every(HOUR * n, HOUR * (n + 1))) for n in range(3)]
    files.append(named(root, 3 * HOUR, every(3 * HOUR, 3 * HOUR + 600)))
    begins = [3 * HOUR + 1200 + HOUR * n for n in range(3)]
    return [*files, *(named(root, begin, every(begin, begin + HOUR)) for begin in begins)]


@pytest.mark.slow
def test_a_file_that_begins_inside_the_rotation_of_another_ends_it_at_its_last_record(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    lake = world(root)
    files = restarted(root)
    put(lake, files)
    assert spans(lake) == [(0, 180 + 590 / 60), (200, 380)]
    assert states(root) == {
        0: ("done", 360), 1: ("done", 360), 2: ("done", 360), 3: ("blocked", 300), 4: ("done", 360), 5: ("done", 360),
        6: ("blocked", 120),
    }  # fmt: skip
    config, captures = load_config(root), read_captures(lake, "a")
    (gap,) = gaps("a", captures["a"], config.link("a"), at(3 * HOUR), at(4 * HOUR))
    (text,) = gap_texts([gap], captures)
    assert "2027-01-15T11:09:50Z to 2027-01-15T11:20:00Z" in text
    assert "(the last record of cap_20270115T110000Z.pcap: another capture begins before its rotation is over)" in text
    assert states(root, through_end=True)[3] == ("blocked", 300), "a gap between two captures"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("records", "kept"),
    [
        (every(HOUR + 1200, 2 * HOUR), (("blocked", 360), "added")),
        (every(HOUR + 1189.5, 2 * HOUR), (("done", 361), "added")),  # its clock was put back by less than the skew
        ([HOUR + 600.5], (("done", 1), "replaced")),  # of one packet, in the time of those before
        (every(HOUR + 600, 2 * HOUR), (("done", 300), "replaced")),  # corrected: it has other records of the same time
        ([second + 1200 for second in every(HOUR, HOUR + 600)], (("done", 60), "replaced")),  # a clock was corrected
    ],
)
def test_a_recorder_that_writes_its_file_anew_takes_no_records_away(
    records: list[float], kept: tuple[tuple[str, int], str], tmp_path: Path
) -> None:
    """Files named by the hour, and a recorder that is started again: the second half has the name of the first one."""
    root = tmp_path / "lake"
    lake = world(root)
    hours = [every(0, HOUR), every(HOUR, HOUR + (600 if len(records) == 60 else 1200)), every(2 * HOUR, 3 * HOUR)]
    put(lake, [named(root, HOUR * n, part) for n, part in enumerate(hours)])
    path = named(root, HOUR, records)
    (result,) = ingest(lake, "a", [path], load_config(root))
    assert (states(root)[1], result.state) == kept


@pytest.mark.slow
def test_another_version_of_a_file_that_is_shorter_than_the_skew_replaces_it(tmp_path: Path) -> None:
    """A file without a date that is written anew, and does not begin with its old bytes, as a parquet file of all
    records so far; and its name, used again for the records behind them."""
    lake = world(tmp_path / "lake", 'skew = "5m"', rotation=False)
    path = tmp_path / "dump.pcap"
    found = []
    for records in (every(0, 200), every(0, 900, 9), every(800, 1500)):
        (result,) = ingest(lake, "a", [capture(path, records)], load_config(lake.root))
        found.append((result.state, sum(row.packets for row in read_captures(lake, "a")["a"])))
    assert found == [("added", 20), ("replaced", 100), ("added", 170)]


@pytest.mark.slow
def test_what_a_person_declares_stands(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    lake = world(root)
    first, second = named(root, 0, [0, 600]), named(root, 1200, [1200, 4700])
    config = load_config(root)
    ingest(lake, "a", [first], config, covers=(at(0), at(1200)))
    put(lake, [second])
    assert spans(lake) == [(0, 80)], "the person knows that the link was quiet"
    third = named(root, 4000, [4705], "x")
    with pytest.raises(OverlapError, match="declared to overlap by 100s"):
        put(lake, [named(root, 9000, [9000, 9200])])
        ingest(lake, "a", [third], config, covers=(at(1100), at(1300)))


@pytest.mark.slow
def test_a_clock_that_was_put_back_is_told_with_both_readings(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    lake = world(root, rotation=False)
    offsets = (HOUR, HOUR, 1, 1)  # so that the bytes of two differ
    files = [
        capture(tmp_path / f"p_{n + 1:05}.pcap", [t + offset for t in every(HOUR * n, HOUR * (n + 1))])
        for n, offset in enumerate(offsets)
    ]
    with pytest.raises(OverlapError) as refused:
        put(lake, files)
    said = str(refused.value)
    assert "p_00003.pcap begins at 2027-01-15T10:00:01Z, 59 min 49 s before" in said and "p_00002.pcap ends" in said
    assert "goes on to 2027-01-15T10:59:51Z" in said and "or the clock of the recorder was put back" in said
    assert 'one recorder: set skew = "1h" in [links.a]' in said and "two recorders: " in said
    (root / "lowwater.toml").write_text(
        (root / "lowwater.toml").read_text()
        + 'skew = "1h"\ngap_tolerance = "11s"\nsince = "2027-01-15T09:00:00Z"\nuntil = "2027-01-15T12:00:00Z"\n'
    )
    put(lake, files)
    assert states(root) == {1: ("done", 360), 2: ("done", 720), 3: ("done", 360)}
    rows = Job.open(root, "n", root).inputs(at(2 * HOUR), at(3 * HOUR), read_captures(lake, "a")).scan("a")
    assert (rows.sane, rows.violations.num_rows) == (720, 0)


@pytest.mark.slow
def test_a_restart_makes_the_hour_before_stale_though_no_record_of_it_lies_there(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    lake = world(root)
    put(lake, [named(root, 0, every(0, 600))])
    job = Job.open(root, "n", root)
    (query,) = job.plan.queries
    before = job.inputs(at(0), at(HOUR), job.captures())
    assert before.state(before.require())[0] == "provisional", "an hour, as far as its only file says"
    put(lake, [named(root, 3000, every(HOUR + 5, 2 * HOUR))])
    after = job.inputs(at(0), at(HOUR), job.captures())
    assert after.digest(query) != before.digest(query)
    assert [(gap.since, gap.until) for gap in after.gaps()] == [(at(590), at(3000))]


@pytest.mark.slow
@pytest.mark.parametrize("length", [5, 1200])
def test_the_skew_of_the_hint_admits_every_record(length: int, tmp_path: Path) -> None:
    """Of a file in the middle of another one, the records are late by more than the two overlap."""
    root = tmp_path / "lake"
    lake = world(root, rotation=False)
    files = [
        capture(tmp_path / "p_1.pcap", every(0, HOUR)),
        capture(tmp_path / "p_2.pcap", every(600, 600 + length, 1)),
    ]
    with pytest.raises(OverlapError) as refused:
        put(lake, files)
    skew = re.search(r'set skew = "(\w+)"', refused.value.hint)
    assert skew
    bounds = f'since = "{format_instant(at(0))}"\nuntil = "{format_instant(at(HOUR))}"\n'
    (root / "lowwater.toml").write_text((root / "lowwater.toml").read_text() + f'skew = "{skew[1]}"\n{bounds}')
    put(lake, files)
    scan = Job.open(root, "n", root).inputs(at(0), at(HOUR), read_captures(lake, "a")).scan("a")
    assert (scan.sane, scan.violations.num_rows) == (360 + length, 0)
