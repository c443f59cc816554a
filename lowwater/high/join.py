"""Windowed stream-stream joins on Spark: equality windows by a common name in event time, bands by a range of it.

One operator of the lowering (`lower`). Some joins are an OOP-Join instead (`oop_join`, `plan.joining`); what goes in
and what comes out is the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column as Spark
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lowwater.catalog.expr import Column, Expr, Type
from lowwater.high.buckets import bucket_of, bucketed
from lowwater.high.clock import ET, LAST, LATEST_MS, EventClock
from lowwater.high.columns import event_time, is_row, mark
from lowwater.high.expressions import SPARK_TYPES, lower, plain
from lowwater.high.frames import Counts, project
from lowwater.high.oop_join import JoinMachine, Promises
from lowwater.high.reach import reach
from lowwater.high.temporal import floor, long, window_end
from lowwater.plan.joining import oop_join
from lowwater.plan.nodes import Join, JoinKind

STRETCH = 4
"""Length of a stretch of values, in bands: then a fourth of the rows stand in two."""

MOST_REACH = 1 << 40
"""Longest reach of a band that is divided into stretches."""

_KINDS = {JoinKind.INNER: "inner", JoinKind.LEFT: "left", JoinKind.RIGHT: "right", JoinKind.OUTER: "full"}


@dataclass(frozen=True)
class Side:
    """One input of the join, its columns named by alias; its other columns carry a suffix of their own.

    Attributes:
        keys: how many columns, named by their numbers, are equal where rows meet.
    """

    frame: DataFrame
    suffix: str
    keys: int

    def __getitem__(self, name: str) -> Spark:
        return plain(name + self.suffix)

    @property
    def missing(self) -> Spark:
        return self[LAST].isNull()


def lower_join(
    node: Join, left: DataFrame, right: DataFrame, clock: EventClock, counts: Counts, promises: Mapping[int, Promises]
) -> DataFrame:
    """Pairs, unmatched rows of the kept sides, and the select items (SEMANTICS P4, V1).

    Args:
        node: the join.
        left, right: its inputs.
        clock: of the query.
        counts: of the query.
        promises: of the inputs (ns), by what all sources of the query promise together.
    """
    sides = join_side(node, left, clock, is_left=True), join_side(node, right, clock, is_left=False)
    joined = _by_promises(node, *sides, clock, counts, promises) if oop_join(node) else _natively(node, *sides, clock)
    totals = {"rows_out": F.count(F.lit(1))}
    totals |= {"left_unmatched": F.count_if(sides[1].missing), "right_unmatched": F.count_if(sides[0].missing)}
    joined = counts.observe(joined, "join", node, **totals)
    joined = _fill(node, joined, *sides).withColumn(LAST, _last(node, *sides))
    return project(joined.withColumn(ET, event_time(clock, F.col(LAST))), node.items)


def _natively(node: Join, left: Side, right: Side, clock: EventClock) -> DataFrame:
    condition = join_condition(node, left, right, clock)
    if node.residual is not None:
        condition = condition & _guarded(left, lower(node.residual))
    return left.frame.join(right.frame, condition, _KINDS[node.kind])


def _by_promises(
    node: Join, left: Side, right: Side, clock: EventClock, counts: Counts, promises: Mapping[int, Promises]
) -> DataFrame:
    """What an OOP-Join of the sides gives."""
    fields = [
        [(f"{alias}.{f.name}", SPARK_TYPES[f.type]) for f in below.fields]
        for alias, below in zip((node.left_alias, node.right_alias), node.inputs(), strict=True)
    ]
    kinds = (*(pair[0].type for pair in node.equalities), *((Type.INT,) if node.window.equality else ()))
    hidden = [(name + side.suffix, "bigint") for side in (left, right) for name in ("_value", LAST)]
    names = [tuple(name for name, _ in each) for each in fields]
    machine = JoinMachine(node, kinds, (names[0], names[1]), promises)
    both = _port(node, left, 0, kinds, fields).union(_port(node, right, 1, kinds, fields))
    return bucketed(node, both, machine, [*fields[0], *fields[1], *hidden], clock, counts)


def _port(
    node: Join, side: Side, port: int, kinds: Sequence[Type], fields: Sequence[Sequence[tuple[str, str]]]
) -> DataFrame:
    """One side as the rows that a `JoinMachine` takes, with the columns of both: those of the other are NULL."""
    keys = [side[str(number)] for number in range(side.keys)] + ([side["_value"]] if node.window.equality else [])
    bucket = bucket_of(zip(keys, kinds, strict=True), side.frame)
    own = [side[ET].alias(ET), side[LAST].alias(LAST), F.lit(port).alias("_port"), side["_value"].alias("_value")]
    named = [key.alias(f"_key{number}") for number, key in enumerate(keys)]
    # Spark resolves the names of what goes in as paths.
    columns = [
        (plain(name) if at == port else F.lit(None).cast(kind)).alias(f"_{at}_{number}")
        for at, each in enumerate(fields)
        for number, (name, kind) in enumerate(each)
    ]
    return side.frame.select(bucket, *own, *named, *columns)


def join_side(node: Join, frame: DataFrame, clock: EventClock, is_left: bool) -> Side:
    """One input as a side: its keys and the value of its window beside its columns, named by its event time."""
    alias, below = (node.left_alias, node.left) if is_left else (node.right_alias, node.right)
    suffix = "#left" if is_left else "#right"
    named = frame.select(*(plain(f.name).alias(f"{alias}.{f.name}") for f in below.fields), LAST, ET)
    value = lower(node.window.left if is_left else node.window.right)
    event = F.col(ET)
    if node.window.equality:
        # Equal values end at one instant, so that the name of that instant can be a key of the join.
        event = F.coalesce(event_time(clock, window_end(node.window, value, is_left)), event)
    keys = [lower(pair[0 if is_left else 1]).alias(f"{i}{suffix}") for i, pair in enumerate(node.equalities)]
    if not node.window.equality and not oop_join(node):
        keys.append(_stretch(node, value, event, is_left).alias(f"{len(keys)}{suffix}"))
    hidden = [value.alias("_value" + suffix), F.col(LAST).alias(LAST + suffix)]
    columns = [plain(f"{alias}.{f.name}") for f in below.fields]
    named = named.select(*columns, *keys, *hidden, mark(event)).withColumnRenamed(ET, ET + suffix)
    return Side(named, suffix, len(keys))


def join_condition(node: Join, left: Side, right: Side, clock: EventClock) -> Spark:
    """When two rows meet, but for the residual: window and equalities."""
    if node.window.equality:
        condition = (left[ET] == right[ET]) & left["_value"].eqNullSafe(right["_value"])
    else:
        condition = _band(node, left, right, clock)
    for number in range(left.keys):
        condition = condition & left[str(number)].eqNullSafe(right[str(number)])
    return condition


def _stretch(node: Join, value: Spark, event: Spark, is_left: bool) -> Spark:
    """A key of a band join beside its equalities: the stretch of values in which a row lies, or may find partners.

    Spark joins streams by equal keys only, and looks at every row of a key. A row of the side whose unmatched rows are
    not kept stands in each stretch where partners may be, two at most, so that a pair meets in one. Where bands are too
    long for that all rows have one key, which Spark must not see through.
    """
    below, above = node.window.below, node.window.above
    if abs(below) + abs(above) > MOST_REACH:
        return F.unix_millis(event) * long(0)
    length = STRETCH * max(1, below + above + 1)
    if is_left is (node.kind is not JoinKind.RIGHT):
        return floor(value, length)
    back, on = (below, above) if is_left else (above, below)
    first, last = floor(F.try_subtract(value, long(back)), length), floor(F.try_add(value, long(on)), length)
    return F.explode(F.when(is_row(event) & (first <= last), F.sequence(first, last)))


def _band(node: Join, left: Side, right: Side, clock: EventClock) -> Spark:
    window, values = node.window, (left["_value"], right["_value"])
    least, most = F.try_subtract(values[0], long(window.below)), F.try_add(values[0], long(window.above))
    later, earlier = band_reach_ms(node, clock)
    near = (right[ET] <= left[ET] + _interval(later)) & (left[ET] <= right[ET] + _interval(earlier))
    return _guarded(left, (values[1] >= least) & (values[1] <= most)) & near


def _guarded(side: Side, predicate: Spark) -> Spark:
    # From a bare predicate Spark infers that its columns are not NULL, and filters punctuation out by that.
    return F.when(is_row(side[ET]), predicate).otherwise(F.lit(False))


def band_reach_ms(node: Join, clock: EventClock) -> tuple[int, int]:
    """How much larger the event time (ms) of a right row may be than that of its left row, and the other way round."""
    bounds = reach(node.window)
    if bounds is None:
        return LATEST_MS, LATEST_MS
    return clock.reach_ms(bounds[0]), clock.reach_ms(bounds[1])


def _interval(milliseconds: int) -> Spark:
    return F.lit(timedelta(milliseconds=milliseconds))


def _last(node: Join, left: Side, right: Side) -> Spark:
    pair = F.greatest(left[LAST], right[LAST])  # the one of the two that is there, for an unmatched row
    alone = F.when(right.missing, window_end(node.window, left["_value"], left=True))
    alone = alone.when(left.missing, window_end(node.window, right["_value"], left=False))
    return F.coalesce(alone, pair)


def _fill(node: Join, joined: DataFrame, left: Side, right: Side) -> DataFrame:
    """Gives each column that an equality ties to the other side that side's value where its own side is missing."""
    window = [(node.window.left, node.window.right)] if node.window.equality else []
    ties = [*window, *node.equalities]  # the first that can fill a column does, as in the reference engine (V1)
    filled: dict[str, Spark] = {}
    for ours, theirs in ties:
        for own, other, side in ((ours, theirs, left), (theirs, ours, right)):
            if isinstance(own, Column) and own.name not in filled:
                filled[own.name] = _tied(own, other, side)
    return joined.select(*(filled.get(name, plain(name)).alias(name) for name in joined.columns))


def _tied(own: Column, other: Expr, side: Side) -> Spark:
    return F.when(side.missing, lower(other)).otherwise(lower(own))
