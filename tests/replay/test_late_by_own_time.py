"""Rules T3 and T6: the audit judges records that were refused as late by their own time as by their arrival, and its
verdict depends on no order of captures or runs.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lowwater.errors import AuditError, GapError
from lowwater.instants import HOUR, SECOND
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.runs import read_quality
from lowwater.lake.tables import open_table
from lowwater.replay.job import Job
from lowwater.replay.schedule.looks import look
from tests.capturemaker import pcap_bytes, udp
from tests.replay.support import QUERIES, START, lowwater
from tests.replay.test_unread import QUERY, packets, run, shown

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

pytestmark = pytest.mark.slow

HOURS = 6
AHEAD = {"30y": 30 * 365 * 86_400, "3h": 3 * 3600}


def world(folder: Path, ahead: dict[int, int], count: int = 60) -> tuple[Path, list[Path]]:
    """A lake, and its six hours of so many packets, evenly; those of some numbers are seconds ahead."""
    lake, captures = folder / "lake", folder / "cap"
    lake.mkdir(parents=True)
    captures.mkdir()
    (lake / "q.gsql").write_text(QUERY)
    (lake / "lowwater.toml").write_text(
        '[query_sets.q]\nfiles = ["q.gsql"]\n'
        '[links.cap]\ncaptures = "../cap/cap_%Y%m%d%H.pcap"\nrotation = "1h"\nskew = "1s"\n'
    )
    paths = []
    for hour in range(HOURS):
        numbers = range(hour * count, (hour + 1) * count)
        seconds = [number * 3600 // count + ahead.get(number, 0) for number in numbers]
        paths.append(captures / f"cap_20260101{hour:02}.pcap")
        stamps = [START + second * SECOND for second in seconds]
        paths[-1].write_bytes(pcap_bytes([(stamp, udp("10.0.0.1", "10.0.0.2", 4000, 53)) for stamp in stamps]))
    return lake, paths


def take(lake: Path, paths: Sequence[Path]) -> None:
    said = lowwater("ingest", "--lake", lake, "--link", "cap", *paths)
    assert said.code == 0, said


def judge(lake: Path, runner: Runner, hours: Sequence[int]) -> dict[int, str]:
    """Runs hours, in this order; hour -> what came of it."""
    came = {}
    for hour in hours:
        try:
            ((came[hour], _),) = run(lake, runner, hour, hour)
        except AuditError:
            came[hour] = "failed"
        except GapError:
            came[hour] = "cannot start"
    return came


def own_time(lake: Path) -> dict[int, tuple[int, int, int, int]]:
    """Hour -> records read and refused by arrival, and by own time."""
    table = open_table(open_lake(lake).measures("skew"))
    rows: list[dict[str, Any]] = [] if table is None else table.to_pyarrow_table().to_pylist()
    names = ("read", "violating", "own_read", "own_violating")
    return {(row["interval_start"] - START) // HOUR: tuple(row[name] for name in names) for row in rows}


def said(lake: Path, hour: int) -> list[tuple[str, str]]:
    """(severity, message) of what the suite of late records finds in an hour."""
    rows = read_quality(open_lake(lake), "q", START + hour * HOUR, START + (hour + 1) * HOUR).to_pylist()
    return [(row["severity"], row["messages"]) for row in rows if row["suite"] == "skew" and not row["success"]]


def due(lake: Path, hour: int) -> bool:
    """Whether a look would run an hour."""
    return START + hour * HOUR in {each.start for each in look(Job.open(lake, "q", QUERIES), START + 9 * HOUR).runs}


@pytest.mark.parametrize("end", ["first", "last"])
@pytest.mark.parametrize("lead", AHEAD)
def test_no_hour_lacks_a_record_where_one_at_an_end_is_ahead(
    tmp_path: Path, runner: Runner, end: str, lead: str
) -> None:
    lake, paths = world(tmp_path, {60 if end == "first" else 119: AHEAD[lead]})
    take(lake, paths)
    assert set(judge(lake, runner, range(HOURS - 1)).values()) == {"done"}
    assert own_time(lake) == {hour: (60 - (hour == 1), 0, 60 - (hour == 1), 0) for hour in range(HOURS - 1)}
    assert packets(lake) == [60, 59, 60, 60, 60] and not [
        text for hour in range(HOURS - 1) for text in said(lake, hour)
    ]


@pytest.mark.parametrize("lead", [AHEAD["30y"], pytest.param(10 * 3600, marks=pytest.mark.nightly)])
def test_hours_behind_a_clock_that_is_believed_fail_in_any_order(tmp_path: Path, runner: Runner, lead: int) -> None:
    ahead = dict.fromkeys(range(60, 120), lead)
    forward = [*range(HOURS - 1)]
    ways: dict[str, list[tuple[list[int], list[int]]]] = {  # files that come, and hours that run then
        "all at once": [([*range(HOURS)], forward)],
        "backward": [([*range(HOURS)], forward[::-1])],
        "the wrong file last": [([0, 2, 3, 4, 5], [2, 3, 4]), ([1], [0, 1, 2, 3, 4])],
        "from the last": [([each], []) for each in (5, 4, 3, 2, 1)] + [([0], [3, 1, 0, 2, 4])],
    }
    found = {}
    for way, steps in ways.items():
        lake, paths = world(tmp_path / way.replace(" ", "_"), ahead)
        for files, hours in steps:
            take(lake, [paths[each] for each in files])
            came = judge(lake, runner, hours)
        verdicts = {hour: [severity for severity, _ in said(lake, hour)] for hour in came}
        found[way] = {hour: (came[hour], own_time(lake).get(hour), verdicts[hour]) for hour in sorted(came)}
    whole = found["all at once"]
    assert all(each == whole for each in found.values()), found
    for hour in (2, 3, 4):
        state, counts, severities = whole[hour]
        assert (state, counts and counts[2:]) == ("failed", (60, 60)) and "critical" in severities
    assert whole[0][0] != "failed" and whole[0][2] == []


def test_what_is_said_and_how_a_person_accepts_it(tmp_path: Path, runner: Runner) -> None:
    lake, paths = world(tmp_path, dict.fromkeys(range(60, 120), AHEAD["30y"]))
    take(lake, paths)
    with pytest.raises(AuditError) as caught:
        run(lake, runner, 2, 2)
    span = "2026-01-01T02:00:00Z to 2026-01-01T03:00:00Z"
    assert (
        f"link cap, {span}: 0 of 0 records (0%) are later than the skew of 1s by arrival, and 60 of 60 (100%) by their "
        "own time, more than the critical limit of 10%; of its own time: cap_2026010102.pcap; captures: "
        "cap_2026010102.pcap"
    ) in caught.value.message
    assert shown(lake)[2][0] == "failed" and not (lake / "tables").exists()
    # It is not tried again as it is, and it is once a person has accepted what is missing, as the hint says.
    assert due(lake, 2) is False
    hint = caught.value.hint.partition("to accept that for good: lowwater ")[2]
    done = lowwater(*shlex.split(hint.replace("TEXT", "'the recorder was set'")), "--queries", QUERIES, "--by", "Ann")
    assert done.code == 0, done
    assert due(lake, 2) is True
    assert run(lake, runner, 2, 2) == [("done", True)] and packets(lake) == []
    assert said(lake, 2) == [] and "by Ann: the recorder was set" in shown(lake)[2][1]
    assert judge(lake, runner, [3]) == {3: "failed"}, "nobody has accepted that hour"


def test_a_few_are_warned_of_where_they_belong_and_where_they_arrived(tmp_path: Path, runner: Runner) -> None:
    """Of 200 an hour, three of hour 1 come in the file of hour 2."""
    lake, paths = world(tmp_path, dict.fromkeys((430, 431, 432), -3000), 200)
    take(lake, paths)
    assert judge(lake, runner, [1, 2]) == {1: "incomplete", 2: "done"}
    assert own_time(lake) == {1: (200, 0, 203, 3), 2: (200, 3, 197, 0)}
    ((severity, text),) = said(lake, 1)
    assert (
        severity == "warning" and "0 of 200 records (0%) are later than the skew of 1s by arrival, and 3 of 203" in text
    )
    assert "of its own time: cap_2026010102.pcap" in text
    ((severity, text),) = said(lake, 2)
    assert "3 of 200 records (1.5%) are later than the skew of 1s by arrival, and 0 of 197 (0%) by their own" in text
