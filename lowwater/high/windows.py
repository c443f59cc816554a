"""Sliding windows on Spark: one row out for each window that a row, or a pane of rows, belongs to.

One operator of the lowering (`lower`). Stateless: the aggregation above closes a window when the promise allows.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lowwater.high.clock import ET
from lowwater.high.columns import is_row
from lowwater.high.expressions import lower
from lowwater.high.temporal import floor, long
from lowwater.plan.nodes import Bucket


def lower_bucket(node: Bucket, frame: DataFrame) -> DataFrame:
    """The rows with the numbers of their windows (WID; 002, Figure A-2); a row without a value is in none."""
    value = lower(node.attribute)
    first = floor(F.try_subtract(value, long(node.range)), node.slide) + long(1)
    last = floor(value, node.slide)
    # Spark infers from a bare generator that its array is not empty, and would filter punctuation out by that.
    numbers = F.when(is_row(F.col(ET)) & (first <= last), F.sequence(first, last))
    return frame.withColumn(node.name, F.explode(numbers))
