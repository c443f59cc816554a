"""Intervals and captures of any length, links that come and go, late files: what is due, and what keeps it waiting."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowwater.instants import HOUR, SECOND, parse_instant
from lowwater.lake.keys import differences
from lowwater.lake.layout import open_lake
from lowwater.replay.job import Job
from lowwater.replay.schedule.due import DueSelection, due
from lowwater.replay.schedule.links import link_readiness
from tests.capturemaker import pcap_bytes, tcp
from tests.replay.support import lowwater

pytestmark = pytest.mark.slow
BEGIN = parse_instant("2026-03-29T00:00:00Z")
QUARTER = 900 * SECOND
FRAME = tcp("10.0.0.1", "10.0.0.2", 1024, 80)
QUERY = "DEFINE { query_name 'q'; } SELECT tb, count(*) AS cnt FROM [both].ETH GROUP BY time/60 AS tb"
SETTINGS = """
[sets]
both = ["a", "b"]
[query_sets.q]
files = ["q.gsql"]
interval = "{interval}"
[links.a]
captures = "a-%Y%m%dT%H%M.pcap"
rotation = "15min"
since = "2026-03-29T00:00:00Z"
until = "2026-03-29T04:00:00Z"
[links.b]
captures = "b-%Y%m%d.pcap"
rotation = "1d"
timezone = "Europe/Berlin"
{b}
"""


def put(lake: Path, name: str, begin: int, length: int) -> None:
    (lake / name).write_bytes(pcap_bytes([(begin + at, FRAME) for at in range(0, length, 60 * SECOND)]))


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Four hours: of `a` quarters of an hour, of `b` the day of Berlin, which begins an hour before in UTC."""
    (tmp_path / "q.gsql").write_text(QUERY)
    settle(tmp_path)
    for number in range(16):
        put(tmp_path, f"a-20260329T{number // 4:02d}{number % 4 * 15:02d}.pcap", BEGIN + number * QUARTER, QUARTER)
    put(tmp_path, "b-20260329.pcap", BEGIN, 4 * HOUR)
    assert lowwater("ingest", "--lake", tmp_path).code == 0
    return tmp_path


def settle(lake: Path, interval: str = "1h", b: str = 'policy = "fail"') -> Job:
    (lake / "lowwater.toml").write_text(SETTINGS.format(interval=interval, b=b))
    open_lake(lake)
    return Job.open(lake, "q", lake)


def shape(job: Job, asked: DueSelection | None = None) -> list[tuple[float, float, bool]]:
    """Begin and length in hours of what is due, and whether it can start."""
    found = due(job, asked or DueSelection())
    return [((each.start - BEGIN) / HOUR, (each.end - each.start) / HOUR, not each.blocked) for each in found]


@pytest.mark.parametrize(("interval", "hours"), [("15min", 0.25), ("90min", 1.5), ("2h", 2), ("4h", 4), ("1d", 24)])
def test_any_length_of_an_interval(interval: str, hours: float, lake: Path) -> None:
    job = settle(lake, interval)
    found = shape(job)
    assert {length for _, length, _ in found} == {hours}
    assert all((start * HOUR + BEGIN) % round(hours * HOUR) == 0 for start, _, _ in found), "anchored at the epoch"
    four = [(start, ready) for start, _, ready in found if start >= 0 and start + hours <= 4]
    assert len(four) == 4 // hours and all(ready for _, ready in four)


def test_a_missing_file_blocks_exactly_its_intervals(lake: Path) -> None:
    (lake / "a-20260329T0230.pcap").unlink()
    fresh = lake / "fresh"
    fresh.mkdir()
    for path in lake.glob("*.pcap"):
        path.rename(fresh / path.name)
    (fresh / "q.gsql").write_text(QUERY)
    settle(fresh)
    assert lowwater("ingest", "--lake", fresh).code == 0
    job = settle(fresh)
    asked = DueSelection(BEGIN, BEGIN + 4 * HOUR)
    assert [ready for _, _, ready in shape(job, asked)] == [True, True, False, True]
    (blocked,) = [each for each in due(job, asked) if each.blocked]
    assert "link 'a': no capture covers 2026-03-29T02:30:00Z to 2026-03-29T02:45:00Z" in blocked.blocked
    waits = link_readiness(job, blocked.start, blocked.end, patient=True)
    assert "link 'a': no capture covers 2026-03-29T02:30:00Z" in waits.missing[0] and waits.failure is None
    failure = link_readiness(job, blocked.start, blocked.end, patient=False).failure
    assert failure is not None and (failure.link, failure.since) == ("a", BEGIN + 2 * HOUR + 2 * QUARTER)


@pytest.mark.parametrize(("policy", "ready"), [("fail", False), ("wait", False), ("exclude", True)])
def test_the_policy_of_a_silent_link(policy: str, ready: bool, lake: Path) -> None:
    job = settle(lake, b=f'policy = "{policy}"')
    start, end = BEGIN + 22 * HOUR, BEGIN + 23 * HOUR
    assert shape(job, DueSelection(start, end)) == [(22, 1, ready)]
    impatient = link_readiness(job, start, end, patient=False)
    assert (impatient.ready, impatient.failure is not None) == (ready, policy == "fail")


def test_a_late_file_changes_exactly_its_intervals(lake: Path) -> None:
    job = settle(lake, "15min", 'since = "2026-03-28T23:00:00Z"')
    starts = range(BEGIN, BEGIN + 2 * HOUR, QUARTER)

    def parts(start: int) -> dict[str, object]:
        return job.inputs(start, start + QUARTER, job.captures()).key(job.plan.queries[0]).summary

    before = {start: parts(start) for start in starts}
    # The file of a quarter comes again, with one record more at its end.
    late = BEGIN + 3 * QUARTER
    records = [*range(0, QUARTER, 60 * SECOND), QUARTER - SECOND]
    (lake / "a-20260329T0045.pcap").write_bytes(pcap_bytes([(late + at, FRAME) for at in records]))
    said = lowwater("ingest", "--lake", lake, "--link", "a")
    assert said.code == 0 and said.out.count("replaced") == 1
    changed = [start for start in starts if parts(start) != before[start]]
    assert changed == [late]
    lines = differences(before[late], parts(late), job.captures())
    assert "link a: capture a-20260329T0045.pcap was added" in lines
