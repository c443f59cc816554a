"""CUBE, ROLLUP and GROUPING_SETS on Spark: one row out for each grouping set.

One operator of the lowering (`lower`). Stateless.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lowwater.high.clock import ET
from lowwater.high.columns import is_row
from lowwater.high.expressions import plain
from lowwater.high.temporal import long
from lowwater.plan.nodes import Expand


def lower_expand(node: Expand, frame: DataFrame) -> DataFrame:
    """The rows once for each set, with its number; a key that the set leaves out is NULL."""
    numbers = F.array(*(long(number) for number in range(len(node.sets))))
    # As for windows: the event time holds what Spark infers from a generator above the watermark.
    frame = frame.withColumn(node.name, F.explode(F.when(is_row(F.col(ET)), numbers)))
    kept = {key: [number for number, names in enumerate(node.sets) if key in names] for key in node.keys}
    masked = {key: F.when(plain(node.name).isin(sets), plain(key)) for key, sets in kept.items() if sets}
    masked |= {key: F.lit(None).cast(frame.schema[key].dataType) for key, sets in kept.items() if not sets}
    return frame.select(*(masked.get(name, plain(name)).alias(name) for name in frame.columns))
