"""The optimised Spark plan keeps punctuation: no filter below a watermark that does not read the event time."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lowwater.catalog.expr import Type
from lowwater.high.feeds import Feed, Replay
from lowwater.high.lower import Lowering
from lowwater.high.results import HighSettings
from lowwater.high.run import run_session
from lowwater.plan.nodes import Bucket, Expand, Field, Node
from tests.high.plans import select
from tests.high.streams import FLOWS, SECOND, binary, column, epoch, flows, leaf, number, write_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
LOUD = binary(">", column("x"), number(2), Type.BOOL)


def optimised(frame: DataFrame, work: Path) -> list[str]:
    """The lines of the optimised plan of a finished run of a streaming DataFrame."""
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(work / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    text = str(query._jsq.explainInternal(True))
    return text.split("== Optimized Logical Plan ==")[1].split("== Physical Plan ==")[0].splitlines()


def trapped(lines: list[str]) -> list[str]:
    """Filters below a watermark that do not read the event time."""
    found: list[str] = []
    watermark: int | None = None
    for line in lines:
        depth = len(line) - len(line.lstrip(" :+-"))
        if watermark is not None and depth <= watermark:
            watermark = None
        if "EventTimeWatermark" in line:
            watermark = depth
        elif watermark is not None and "Filter" in line and not re.search(r"_et#\d+", line):
            found.append(line)
    return found


def lowering(session: SparkSession, work: Path) -> Lowering:
    feeds = {}
    for name, seed in (("l", 1), ("r", 2)):
        rows = flows(40, 300, seed)
        feeds[name] = Feed.scan(write_stream(work / f"{name}.parquet", FLOWS, rows, 400 * SECOND, 5 * SECOND))
    replay = Replay.over(list(feeds.values()), 400 * SECOND, 100 * SECOND, 2)
    reels = {
        name: replay.lay_out([feed], replay.promised([feed]), FLOWS, work / "reels" / name)
        for name, feed in feeds.items()
    }
    return Lowering(session, replay.clock, reels)


def plans() -> dict[str, Node]:
    items = {f.name: column(f.name, f.type) for f in FLOWS}
    quiet = select(leaf("l", FLOWS), LOUD, items, FLOWS)
    wid = Field("w", Type.INT, epoch(20))
    windows = Bucket("q", (*FLOWS, wid), quiet, column("tb"), 5, 2, "w")
    sets = Expand("q", (*FLOWS, Field("g", Type.INT)), quiet, ("k", "ip"), (("k",), ()), "g")
    return {"windows": windows, "sets": sets, "select": quiet}


@pytest.mark.parametrize("guarded", [True, False], ids=["rule excluded", "case alone"])
@pytest.mark.parametrize("name", ["select", "windows", "sets"])
def test_predicates_stay_above_the_watermark(spark: SparkSession, tmp_path: Path, name: str, guarded: bool) -> None:
    session = run_session(spark, HighSettings())
    if not guarded:
        session.conf.set("spark.sql.optimizer.excludedRules", "")
    lines = optimised(lowering(session, tmp_path).frame(plans()[name]), tmp_path)
    assert any("EventTimeWatermark" in line for line in lines)
    assert trapped(lines) == []


def test_the_trap_is_real_and_seen(spark: SparkSession, tmp_path: Path) -> None:
    session = run_session(spark, HighSettings())
    session.conf.set("spark.sql.optimizer.excludedRules", "")
    naive = lowering(session, tmp_path).frame(leaf("l", FLOWS)).filter("x > 2")
    assert trapped(optimised(naive, tmp_path))
