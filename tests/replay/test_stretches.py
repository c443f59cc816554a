"""Time in which nothing is recorded is one line and one run, however long it is (SEMANTICS I3)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lowwater.instants import HOUR, SECOND, format_instant
from lowwater.replay.job import Job
from lowwater.replay.schedule.backfill import backfill
from lowwater.replay.schedule.days import day_report, whole_range
from lowwater.replay.schedule.due import Due, DueSelection, due, statuses
from tests.capturemaker import pcap_bytes, udp
from tests.replay.support import QUERIES, lowwater, table_rows

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

SET = 490_896 * HOUR
"""2026-01-01T00:00Z: when the clock of a probe was set that began in 1970."""
TEXT = """DEFINE { query_name 'hosts'; }
SELECT tb, srcIP, count(*) AS packets FROM probe.DataProtocol GROUP BY time/3600 AS tb, srcIP
"""
CHAINED = """;
DEFINE { query_name 'sums'; }
SELECT tb, srcIP, count(*) AS packets, running_sum(len) AS total FROM probe.DataProtocol
GROUP BY time/86400 AS tb, srcIP CLOSING_WHEN count(*) = 0
"""


def probe(path: Path, instants: list[int]) -> Path:
    """A capture with a packet at each instant, ns."""
    frames = [(at, udp("192.0.2.1", "198.51.100.1", 40000 + number, 53)) for number, at in enumerate(instants)]
    path.write_bytes(pcap_bytes(frames))
    return path


def lake_of(folder: Path, since: int, until: int, policy: str, text: str, *captures: Path) -> Path:
    folder.mkdir()
    (folder / "q.gsql").write_text(text, encoding="utf-8")
    life = f'since = "{format_instant(since)}"\nuntil = "{format_instant(until)}"'
    lines = ['[interval]\nlength = "1h"', f'[query_sets.q]\nfiles = ["{folder / "q.gsql"}"]']
    lines.append(f'[links.probe]\nskew = "1s"\n{life}\npolicy = "{policy}"')
    (folder / "lowwater.toml").write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    for capture in captures:
        said = lowwater("ingest", "--lake", folder, "--link", "probe", capture)
        assert said.code == 0, said
    return folder


def opened(lake: Path) -> Job:
    return Job.open(lake, "q", QUERIES)


def lines(found: list[Due]) -> list[tuple[int, int, int]]:
    return [(each.start // HOUR, each.intervals, each.packets) for each in found]


@pytest.fixture
def from_1970(tmp_path: Path) -> Path:
    """20 packets from 1970 on, then 50 from 2026 on, in one capture."""
    early, late = [(5 + at) * SECOND for at in range(20)], [SET + (600 + 60 * at) * SECOND for at in range(50)]
    capture = probe(tmp_path / "probe.pcap", early + late)
    return lake_of(tmp_path / "lake", 5 * SECOND, late[-1] + SECOND, "fail", TEXT, capture)


@pytest.mark.slow
def test_56_years_between_two_hours_of_packets_are_a_few_lines(from_1970: Path) -> None:
    job = opened(from_1970)
    found = due(job, DueSelection())
    assert len(found) <= 5 and sum(each.intervals for each in found) == 490_897
    assert (found[0].packets, found[-1].packets) == (20, 50) and not any(each.blocked for each in found)
    assert [each.query_set for each in found] == [row.query_set for row in statuses(from_1970, QUERIES)]
    assert len(day_report([job], {}, SET)) <= 12
    assert len(whole_range(job, HOUR, SET).lacking) == len(found) - 2
    assert len(due(job, DueSelection(1000 * HOUR, 400_000 * HOUR))) == 1
    assert len(due(job, DueSelection(SET + HOUR, 2 * SET))) <= 3
    for command in ("plan", "status", "report"):
        said = lowwater(command, "--lake", from_1970, "--queries", QUERIES)
        assert said.code == 0 and len(said.out.splitlines()) < 25 and "intervals)" in said.out
    assert "490,897 intervals to run in" in lowwater("plan", "--lake", from_1970, "--queries", QUERIES).out


@pytest.mark.slow
def test_a_silence_is_run_once_and_hands_a_state_on(tmp_path: Path, runner: Runner) -> None:
    """In order of intervals or as a whole, a chained query and one of hours give the same rows."""
    far = SET + 500 * HOUR
    capture = probe(tmp_path / "p.pcap", [SET + SECOND, SET + 2 * SECOND, far + SECOND, far + 2 * SECOND])
    life = SET, far + HOUR
    covers = f"{format_instant(SET)}/{format_instant(far + HOUR)}"
    rows = {}
    for name, length in (("hours", "1h"), ("whole", "501h")):
        lake = lake_of(tmp_path / name, *life, "fail", TEXT + CHAINED)
        settings = lake / "lowwater.toml"
        settings.write_text(settings.read_text(encoding="utf-8").replace('"1h"', f'"{length}"'), encoding="utf-8")
        assert lowwater("ingest", "--lake", lake, "--link", "probe", "--covers", covers, capture).code == 0
        job = opened(lake)
        tried = backfill([job], due(job, DueSelection()), runner=runner)
        assert {each.state for each in tried} == {"done"}, [each.reason for each in tried]
        assert name == "whole" or len(tried) <= 30
        assert due(job, DueSelection()) == []
        if name == "hours":
            assert whole_range(job, SET, far).lacking == ()
        rows[name] = {query: table_rows(lake, query, 0, 1 << 62) for query in ("hosts", "sums")}
    assert rows["hours"] == rows["whole"] and len(rows["hours"]["hosts"]) == 2


@pytest.mark.slow
def test_a_part_of_a_longer_silence_leaves_a_state_of_its_own_where_others_continue_from_it(
    tmp_path: Path, runner: Runner
) -> None:
    """Where 3 h become 2 h, the state of the first 3 h is that of no interval. The others could never start."""
    capture = probe(tmp_path / "p.pcap", [SET + 4 * HOUR + SECOND])
    lake = lake_of(tmp_path / "lake", SET, SET + 6 * HOUR, "fail", CHAINED.lstrip(";"))
    settings = lake / "lowwater.toml"
    covers = f"{format_instant(SET)}/{format_instant(SET + 6 * HOUR)}"
    assert lowwater("ingest", "--lake", lake, "--link", "probe", "--covers", covers, capture).code == 0
    for before, length in (("1h", "3h"), ("3h", "2h")):
        settings.write_text(settings.read_text(encoding="utf-8").replace(f'"{before}"', f'"{length}"'))
        job = opened(lake)
        tried = backfill([job], due(job, DueSelection()), runner=runner)
        assert {each.state for each in tried} == {"done"}, [each.reason for each in tried]
        assert due(job, DueSelection()) == []
    assert [(row.start - SET) // HOUR for row in statuses(lake, QUERIES) if row.end <= SET + 6 * HOUR] == [0, 2, 4]


@pytest.mark.nightly
@pytest.mark.slow
def test_a_capture_in_the_middle_of_a_gap_that_was_published(tmp_path: Path, runner: Runner) -> None:
    ends = [probe(tmp_path / f"{at}.pcap", [SET + at * HOUR, SET + (at + 1) * HOUR]) for at in (0, 300)]
    lake = lake_of(tmp_path / "lake", SET, SET + 301 * HOUR, "publish", TEXT, *ends)
    job = opened(lake)
    tried = backfill([job], due(job, DueSelection()), runner=runner)
    assert all(each.published for each in tried) and len(tried) <= 6
    assert due(job, DueSelection()) == [] and len(table_rows(lake, "hosts", 0, 1 << 62)) == 3
    middle = probe(tmp_path / "middle.pcap", [SET + 150 * HOUR, SET + 151 * HOUR])
    assert lowwater("ingest", "--lake", lake, "--link", "probe", middle).code == 0
    found = due(job, DueSelection())
    assert {each.state for each in found} == {"stale"} and len(found) <= 6
    assert sum(each.packets for each in found) >= 2 and sum(each.intervals for each in found) == 298
    again = backfill([job], found, runner=runner)
    assert all(each.published for each in again) and due(job, DueSelection()) == []
    assert len(table_rows(lake, "hosts", 0, 1 << 62)) == 5
