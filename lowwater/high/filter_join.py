"""FILTER_JOIN on Spark: a left semi join of packets of one link, with an exact band (SEMANTICS O6).

One operator of the lowering (`lower`). Spark keeps a left row until it met a right one or none may come any more, and
gives it out once.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lowwater.catalog.expr import Column, Type
from lowwater.high.clock import ET, LAST, EventClock
from lowwater.high.columns import event_time
from lowwater.high.expressions import lower, plain
from lowwater.high.frames import Counts, project
from lowwater.high.join import join_condition, join_side
from lowwater.high.order import ORDER, link_of
from lowwater.high.temporal import last, long
from lowwater.plan.nodes import Field, FilterJoin, Join, JoinKind, Node, Window
from lowwater.plan.ranges import filter_time

_LINK = "_link"


def as_join(node: FilterJoin) -> Join:
    """The windowed join whose left rows, each once, are those that pass: r.t - range <= s.t <= r.t, and one link."""
    time = filter_time(node)
    window = Window(node.left_time, node.right_time, time, time, below=node.range, above=0)
    left, right = (_with_link(below) for below in node.inputs())
    link = tuple(Column(Type.INT, f"{alias}.{_LINK}") for alias in (node.left_alias, node.right_alias))
    keys = (*node.keys, (link[0], link[1]))
    aliases = node.left_alias, node.right_alias
    return Join(node.query, node.fields, JoinKind.INNER, left, right, *aliases, window, keys, None, node.items)


def lower_filter_join(
    node: FilterJoin, left: DataFrame, right: DataFrame, clock: EventClock, counts: Counts
) -> DataFrame:
    """The left rows that pass, and the select items over them."""
    join = as_join(node)
    inputs = (frame.withColumn(_LINK, link_of(plain(ORDER))) for frame in (left, right))
    r, s = (join_side(join, frame, clock, is_left) for frame, is_left in zip(inputs, (True, False), strict=True))
    passed = r.frame.join(s.frame, join_condition(join, r, s, clock), "left_semi")
    passed = counts.observe(passed, "join", node, rows_out=F.count(F.lit(1)))
    time, value = join.window.left_time, lower(node.left_time)
    end = last(time, value if time.increasing else F.try_subtract(value, long(node.range)))
    passed = passed.withColumn(LAST, end)
    return project(passed.withColumn(ET, event_time(clock, F.col(LAST))), node.items)


def _with_link(node: Node) -> Node:
    return replace(node, fields=(*node.fields, Field(_LINK, Type.INT)))
