"""Queries by local day: rows by the days of a zone, whatever the intervals and the engine."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from lowwater.config import Config, Link
from lowwater.instants import HOUR
from lowwater.plan.context import Links
from lowwater.plan.queryset import plan_texts
from lowwater.replay.progress import Progress
from lowwater.replay.run_command import RunRequest, run
from tests.capturemaker import pcap_bytes, udp

BERLIN = 1_774_652_400  # 2026-03-28 00:00; on the 29th clocks go forward
APIA = 1_325_066_400  # 2011-12-28 00:00; the 30th is left out
DAYS = "SELECT day, count(*) AS packets, min(time) AS since FROM main1.DataProtocol GROUP BY local_day({}) AS day"
ROWS = [(20540, 24), (20541, 23), (20542, 24), (20543, 1)]


def rows(folder: Path, query: str, begin: int = BERLIN, interval: int | None = None) -> list[tuple[int, int]]:
    """Runs a query over a packet in the middle of each of 72 hours; returns its first two columns."""
    frame = udp("192.0.2.1", "198.51.100.1", 40000, 53, b"x")
    capture = folder / "a.pcap"
    capture.write_bytes(pcap_bytes([((begin + 1800 + 3600 * hour) * 10**9, frame) for hour in range(72)]))
    plan = plan_texts([("q.gsql", f"DEFINE {{ query_name 'q'; }} {query}")], Links(("main1",)))
    config, out = Config(links={"main1": Link()}), folder / "out"
    request = RunRequest(plan, config, [("main1", capture)], out, engine="reference", interval=interval)
    run(request, Progress(quiet=True))
    with (folder / "out" / "q.csv").open(newline="") as file:
        return [(int(row[0]), int(row[1])) for row in list(csv.reader(file))[1:]]


@pytest.mark.slow
@pytest.mark.parametrize("interval", [None, HOUR])
def test_bytes_by_local_day_over_a_change_of_clocks(tmp_path: Path, interval: int | None) -> None:
    assert rows(tmp_path, DAYS.format("time, 'Europe/Berlin'"), interval=interval) == ROWS


@pytest.mark.slow
@pytest.mark.parametrize("interval", [None, 7 * HOUR])
def test_windows_of_local_days(tmp_path: Path, interval: int | None) -> None:
    query = (
        "SELECT window_start, count(*) AS packets FROM d [RANGE 2, SLIDE 1, WA day];"
        " DEFINE { query_name 'd'; visibility 'internal'; }"
        " SELECT local_day(time, 'Europe/Berlin') AS day FROM main1.DataProtocol"
    )
    assert rows(tmp_path, query, interval=interval) == [(20539, 24), (20540, 47), (20541, 47), (20542, 25), (20543, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("interval", [None, 5 * HOUR])
def test_a_date_that_a_zone_leaves_out_is_no_idle_epoch(tmp_path: Path, interval: int | None) -> None:
    query = (
        "SELECT day, running_sum(1) AS packets FROM main1.DataProtocol"
        " GROUP BY local_day(time, 'Pacific/Apia') AS day, srcIP CLOSING_WHEN count(*) = 0"
    )
    assert rows(tmp_path, query, APIA, interval) == [(15336, 24), (15337, 48), (15339, 72)]
