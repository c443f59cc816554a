"""The event time of `clock` as Spark columns.

Apart from `clock`, because the Python workers import that one and would pay for Spark's function module.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from lowwater.high.clock import ET, LATEST_MS, SLACK_MS, EventClock
from lowwater.plan.temporal import END_OF_TIME


def event_time(clock: EventClock, last: Column) -> Column:
    """`EventClock.row_ms` of last instants (ns), as the event time of a row."""
    steps = F.least(last, F.lit(END_OF_TIME)) + F.lit(clock.unit - clock.base).cast("bigint")
    if clock.unit > 1:
        steps = F.call_function("div", steps, F.lit(clock.unit).cast("bigint"))
    return mark(F.timestamp_millis(F.least(steps, F.lit(LATEST_MS))))


def mark(column: Column) -> Column:
    """Names a timestamp as the event time of its rows, with the watermark's delay that Spark looks for."""
    return column.alias(ET, metadata={"spark.watermarkDelayMs": SLACK_MS})


def is_row(event: Column) -> Column:
    """Whether a row is data and no punctuation, by its event time alone."""
    return event < F.timestamp_millis(F.lit(SLACK_MS))
