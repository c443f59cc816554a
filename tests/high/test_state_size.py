"""State does not grow with the length of the interval, where rate, keys and the ticks of the replay are the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lowwater.catalog.expr import Type
from lowwater.high.results import HighSettings
from lowwater.high.run import run_high
from lowwater.plan.nodes import Field, JoinKind
from tests.high.plans import COUNT, group, join
from tests.high.streams import SECOND, Row, column, epoch, leaf, write_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

HOUR = 3600 * SECOND
TICK = HOUR // 3
FIELDS = (Field("tb", Type.INT, epoch(10)), Field("k", Type.INT), Field("x", Type.INT))


def steady(hours: int, seed: int) -> list[Row]:
    """A row every ten seconds, the keys in turn; every seventh is on one side only."""
    every = range(hours * 360)
    return [((tb, tb % 5, tb), epoch(10).last(tb)) for tb in every if tb % 7 != seed]


def test_peak_state_is_the_same_for_a_day_as_for_an_hour(spark: SparkSession, tmp_path: Path) -> None:
    left, right = leaf("left", FIELDS), leaf("right", FIELDS)
    keys = [(FIELDS[0], column("tb")), (FIELDS[1], column("k"))]
    nodes = {"grouped": group(left, keys, [COUNT]), "joined": join(JoinKind.OUTER, left, right)}
    settings = HighSettings(tick=TICK, max_batches=1000, batch_rows=1)
    peaks = {}
    for hours in (1, 6, 24):
        folder = tmp_path / str(hours)
        inputs = {
            (name, "main1"): write_stream(folder / f"{name}.parquet", FIELDS, steady(hours, seed), hours * HOUR)
            for seed, name in enumerate(("left", "right"))
        }
        results = run_high(spark, nodes, inputs, 0, hours * HOUR, folder / "work", settings)
        assert {name: result.batches >= 3 * hours for name, result in results.items()} == dict.fromkeys(nodes, True)
        peaks[hours] = {name: result.state_rows for name, result in results.items()}
    for name in nodes:
        found = [peak[name] for peak in peaks.values()]
        assert 0 < max(found) < 1.1 * min(found), peaks
