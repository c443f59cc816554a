"""CLOSING_WHEN in a lake: states go from interval to interval, in order, whatever the length of the intervals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lowwater.capture.generate import GeneratedCapture
from lowwater.config import HOUR
from lowwater.errors import LakeError
from lowwater.lake.layout import open_lake
from lowwater.lake.records import PUBLISH, read_replays, record_replays
from lowwater.replay.interval import statuses
from lowwater.replay.job import Job
from tests.replay.support import END, QUERIES, START, ingest_all, leftovers, replay_range, table_rows, write_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
TEXT = """DEFINE { query_name 'hosts'; }
SELECT tb, srcIP, count(*) AS cnt, sum(len) AS bytes, running_sum(len) AS total, FIRST(destPort) AS port
FROM main1.DataProtocol
GROUP BY time/1500 AS tb, srcIP
CLOSING_WHEN count(*) = 0 OR total > 4000
"""


def lake_of(folder: Path, captures: list[GeneratedCapture], length: str) -> Path:
    folder.mkdir()
    query = folder / "chain.gsql"
    query.write_text(TEXT, encoding="utf-8")
    write_settings(folder, length=length, sets={"chain": query})
    ingest_all(folder, [each for each in captures if each.link == "main1"])
    return folder


def test_hours_in_order_are_the_whole(captures: list[GeneratedCapture], tmp_path: Path, spark: SparkSession) -> None:
    hours, whole = lake_of(tmp_path / "hours", captures, "1h"), lake_of(tmp_path / "whole", captures, "3h")
    with pytest.raises(LakeError, match="query hosts: the interval of 2026-01-01T01:00:00Z takes up the state of that"):
        replay_range(hours, spark, START + HOUR, START + 2 * HOUR, query_set="chain")
    replay_range(hours, spark, START, END, query_set="chain")
    replay_range(whole, spark, START, END, query_set="chain")
    rows = table_rows(whole, "hosts")
    assert table_rows(hours, "hosts") == rows and len(rows) > 10
    assert leftovers(hours) == [] and len(list((hours / "state" / "chain" / "hosts").iterdir())) == 3
    found = replay_range(hours, spark, START, END, query_set="chain")
    assert not any(outcome.committed for outcome in found)
    _published_anew_makes_stale(hours)


def _published_anew_makes_stale(lake: Path) -> None:
    def states() -> list[str]:
        return [row.state for row in statuses(lake, QUERIES) if row.query_set == "chain"]

    assert states() == ["done"] * 3
    opened = open_lake(lake)
    rows = [row for row in read_replays(opened, "chain") if row.stage == PUBLISH and row.interval_start == START]
    record_replays(opened, [replace(rows[-1], digest="0" * 64, finished_at=rows[-1].finished_at + 1)])
    assert states()[1] == "stale"
    job = Job.open(lake, "chain", QUERIES)
    with pytest.raises(LakeError, match="which is not published"):
        job.inputs(START + HOUR, START + 2 * HOUR, job.captures()).require()
