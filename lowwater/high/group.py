"""Aggregation by epochs on Spark: a group is named by the instant after which it is final.

One operator of the lowering (`lower`).
"""

from __future__ import annotations

import math

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lowwater.catalog.expr import Expr, Type
from lowwater.high.clock import ET, LAST, EventClock
from lowwater.high.columns import event_time
from lowwater.high.expressions import beforehand, lower, plain
from lowwater.high.frames import Counts, keep, project
from lowwater.high.python_group import lower_python_group
from lowwater.high.temporal import group_end, long
from lowwater.plan.cuts import in_python
from lowwater.plan.nodes import Aggregate, Aggregation, Group

OVERFLOW = "LOWWATER_SUM_OVERFLOW"
_LOW = (1 << 32) - 1
_BITS = {"and_aggr": F.bit_and, "or_aggr": F.bit_or, "xor_aggr": F.bit_xor}


def lower_group(node: Group, frame: DataFrame, clock: EventClock, counts: Counts) -> DataFrame:
    """WHERE, GROUP BY, HAVING and the select items; Spark closes a group when the watermark reaches its name.

    Integer sums are exact; one that does not fit 64 bits ends the query by an error (SEMANTICS O3).
    """
    frame = counts.filtered(frame, node, node.predicate)
    if in_python(node):
        return finish(node, lower_python_group(node, frame, clock, counts), counts)
    arguments = {a.name: a.argument for a in node.aggregates if a.argument is not None}
    read = [*((item.name, item.expr) for item in node.keys), *arguments.items()]
    frame = frame.select(*(lower(expr).alias(name) for name, expr in read))
    frame = frame.withColumn(ET, event_time(clock, group_end(node.key_fields)))
    keys = [plain(item.name) for item in node.keys]
    states = [state for aggregate in node.aggregates for state in _states(aggregate)]
    found = frame.groupBy(*keys, ET).agg(F.count(F.lit(1)).alias("_rows"), *states)
    results = [_result(node.query, aggregate).alias(aggregate.name) for aggregate in node.aggregates]
    return finish(node, found.select(*keys, *results, group_end(node.key_fields).alias(LAST), ET, "_rows"), counts)


def finish(node: Aggregation, found: DataFrame, counts: Counts) -> DataFrame:
    """HAVING and the select items over finished groups, which say how many `_rows` each has."""
    having = node.having
    if having is not None:
        found, having = beforehand(found, having, "_kept")
    kept = F.lit(True) if having is None else F.coalesce(lower(having), F.lit(False))
    totals = {"rows_in": F.sum("_rows"), "groups": F.count(F.lit(1)), "rows_out": F.count_if(kept)}
    return project(keep(counts.observe(found, "group", node, **totals), having), node.items)


def _exact(aggregate: Aggregate) -> bool:
    argument: Expr | None = aggregate.argument
    return argument is not None and argument.type is not Type.FLOAT


def _states(aggregate: Aggregate) -> list[Column]:
    name, value = aggregate.name, plain(aggregate.name)
    if aggregate.function == "count":
        return [F.count(F.lit(1) if aggregate.argument is None else value).alias(name)]
    if aggregate.function in _BITS:
        whole = value.cast("int") if aggregate.type is Type.BOOL else value
        return [_BITS[aggregate.function](whole).alias(name)]
    if aggregate.function in ("min", "max"):
        return [(F.min if aggregate.function == "min" else F.max)(value).alias(name)]
    sums = [F.sum(value).alias(name)]
    if _exact(aggregate):
        # Upper and lower 32 bits apart: exact for 2^31 rows, and many times cheaper to keep as state than a decimal.
        sums = [F.sum(F.shiftright(value, 32)).alias(name), F.sum(value.bitwiseAND(long(_LOW))).alias(f"{name}#low")]
    return [*sums, F.count(value).alias(f"{name}#n")] if aggregate.function == "avg" else sums


def _result(query: str, aggregate: Aggregate) -> Column:
    name, value = aggregate.name, plain(aggregate.name)
    if aggregate.function in _BITS and aggregate.type is Type.BOOL:
        return value.cast("boolean")
    if aggregate.function not in ("sum", "avg"):
        return value
    if not _exact(aggregate):
        value = F.nullif(value, F.lit(math.nan))  # a sum that is NaN has no value (V2); on Spark NaN equals itself
        return value / F.nullif(plain(f"{name}#n"), long(0)) if aggregate.function == "avg" else value
    low = plain(f"{name}#low")
    high, low = value + F.shiftright(low, 32), low.bitwiseAND(long(_LOW))
    if aggregate.function == "avg":
        total = high.cast("double") * F.lit(float(_LOW + 1)) + low.cast("double")
        return total / F.nullif(plain(f"{name}#n"), long(0)).cast("double")
    fits = high.isNull() | high.between(long(-(1 << 31)), long((1 << 31) - 1))
    at = ", at {};{}".format(*aggregate.place) if aggregate.place[0] else ""
    message = F.lit(f"{OVERFLOW}:{query}{at}:{name}:")
    return F.when(fits, F.shiftleft(high, 32).bitwiseOR(low)).otherwise(F.raise_error(message))
