"""`Temporal.last` as a Spark expression: from values of an attribute back to the instants that end them.

The Spark side of `plan.temporal`, read by the lowering of groups.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from lowwater.plan.nodes import Field
from lowwater.plan.temporal import END_OF_TIME, Component, Step, Temporal


def last(temporal: Temporal, value: Column) -> Column:
    """The largest instant (ns) at which a packet may still change a row of this value; NULL of NULL.

    Held to the last sane instant, as in the plan; so is one that does not fit 64 bits.
    """
    latest = long(END_OF_TIME - 1)
    ends = [F.coalesce(_end(steps, value, temporal.increasing), latest) for steps in temporal.components]
    return F.when(value.isNotNull(), F.least(F.greatest(*ends) if len(ends) > 1 else ends[0], latest))


def group_end(fields: Sequence[Field]) -> Column:
    """`group_last` of key columns; a group none of whose temporal keys has a value ends with the replay."""
    ends = [
        last(field.temporal, F.col(f"`{field.name}`"))
        for field in fields
        if field.temporal and not field.temporal.origin
    ]
    return F.least(*ends, long(END_OF_TIME - 1))


def long(value: int) -> Column:
    """A 64-bit literal."""
    return F.lit(value).cast("bigint")


def _end(steps: Component, value: Column, at_most: bool) -> Column:
    for step in reversed(steps):
        if step.op == "neg":
            value, at_most = F.try_subtract(long(0), value), not at_most
        elif step.op == "add":
            value = F.try_subtract(value, long(step.by))
        elif step.op == "mul":
            value = _quotient(value, step.by, up=not at_most)
        else:
            value = _undivided(value, step, at_most)
    return value


def floor(value: Column, by: int) -> Column:
    """The quotient rounded down; NULL of NULL, or where 64 bits do not hold the multiple below the value."""
    return F.call_function("div", F.try_subtract(value, F.pmod(value, long(by))), long(by))


def _quotient(value: Column, by: int, up: bool) -> Column:
    below = floor(value, by)
    return below + F.when(F.pmod(value, long(by)) == 0, long(0)).otherwise(long(1)) if up else below


def _undivided(value: Column, step: Step, at_most: bool) -> Column:
    # The division truncates toward zero, so the values around zero have the widest preimage.
    whole = F.try_multiply(value, long(step.by))
    if at_most:
        return F.try_add(whole, F.when(value >= 0, long(step.by - 1)).otherwise(long(0)))
    return F.try_subtract(whole, F.when(value <= 0, long(step.by - 1)).otherwise(long(0)))
