"""Copies of packets that a link drops, on both engines, beside a self join in SQL (SEMANTICS D2 to D6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lowwater.config import load_config
from lowwater.instants import HOUR
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from lowwater.replay.interval import replay
from lowwater.replay.job import Job
from lowwater.replay.progress import Progress
from lowwater.replay.schedule.due import statuses
from tests.capturemaker import pcap_bytes
from tests.lake.support import BASE
from tests.lake.test_copies import SECOND, SKEW, oracle, packets
from tests.replay.support import column_rows

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

QUERIES = """
DEFINE { query_name 'sizes'; }
SELECT tb, ttl, count(*) AS n FROM a.UDP GROUP BY time/10 AS tb, ttl;
DEFINE { query_name 'each'; }
SELECT timestamp, ttl FROM a.UDP;
DEFINE { query_name 'pairs'; }
SELECT A.time AS t, A.ttl AS p, B.ttl AS q FROM a.UDP A JOIN a.UDP B WHERE A.time = B.time - 1;
"""
SETTINGS = """
[replay]
task_packets = 40
[thresholds]
violating = 0.5
[links.a]
skew = "2s"
duplicates = "drop 3s"
"""
COLUMNS = {"sizes": ("tb", "ttl", "n"), "each": ("timestamp", "ttl"), "pairs": ("t", "p", "q")}
RECORDS = packets(11, 160)
Rows = dict[str, Counter[tuple[int, ...]]]


def admitted() -> Iterator[tuple[int, int]]:
    """(timestamp, TTL) of the packets that are neither late nor copies."""
    copied, clock = oracle(RECORDS), 0
    for number, (stamp, frame, *_) in enumerate(RECORDS):
        clock = max(clock, stamp)
        if clock - stamp <= SKEW and number not in copied:
            yield stamp, frame[22]


def expected() -> Rows:
    kept = list(admitted())
    sizes = Counter((stamp // SECOND // 10, ttl) for stamp, ttl in kept)
    pairs = Counter(
        (stamp // SECOND, ttl, other)
        for stamp, ttl in kept
        for later, other in kept
        if stamp // SECOND == later // SECOND - 1
    )
    return {"sizes": Counter((*key, n) for key, n in sizes.items()), "each": Counter(kept), "pairs": pairs}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "lake").mkdir()
    (tmp_path / "a.pcap").write_bytes(pcap_bytes(RECORDS, nanoseconds=True))
    (tmp_path / "q.gsql").write_text(QUERIES)
    (tmp_path / "lake" / "lowwater.toml").write_text(SETTINGS)
    return tmp_path


def rows(lake: Path, start: int, end: int) -> Rows:
    return {query: column_rows(lake, query, columns, start, end) for query, columns in COLUMNS.items()}


@pytest.mark.slow
def test_a_replay_has_the_same_rows_and_says_why_it_is_stale(folder: Path, runner: Runner) -> None:
    lake, config = open_lake(folder / "lake"), load_config(folder / "lake")
    start = BASE // HOUR * HOUR
    for number, part in reversed([(0, RECORDS[:70]), (1, RECORDS[70:])]):
        path = folder / f"{number}.pcap"
        path.write_bytes(pcap_bytes(part, nanoseconds=True))
        ingest(lake, "a", [path], config, (start - HOUR + number * HOUR, start + 2 * number * HOUR))
    job = Job.open(folder / "lake", "q", folder)
    (outcome,) = replay(job, start, start + HOUR, None, Progress(quiet=True), runner)
    assert outcome.state == "done"
    assert rows(folder / "lake", start, start + HOUR) == expected()
    (row,) = [row for row in statuses(folder / "lake", folder) if row.query == "each" and row.start == start]
    assert row.state == "done"
    (folder / "lake" / "lowwater.toml").write_text(SETTINGS.replace("drop 3s", "report 3s"))
    (row,) = [row for row in statuses(folder / "lake", folder) if row.query == "each" and row.start == start]
    assert row.state == "stale" and "duplicates was drop 3s by content, is kept" in row.reason
    job = Job.open(folder / "lake", "q", folder)
    (outcome,) = replay(job, start, start + HOUR, None, Progress(quiet=True), runner)
    assert outcome.state == "done"
    assert sum(rows(folder / "lake", start, start + HOUR)["each"].values()) == sum(expected()["each"].values()) + len(
        oracle(RECORDS)
    )
