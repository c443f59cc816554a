"""Finds what a query carries from interval to interval (SEMANTICS I4).

Read by EXPLAIN and by whoever schedules intervals: a query without such state can be replayed in any order.
"""

from __future__ import annotations

from collections.abc import Sequence

from lowwater.catalog.expr import Column
from lowwater.plan.nodes import (
    Aggregation,
    Bucket,
    Expand,
    Field,
    FilterJoin,
    Join,
    Map,
    Node,
    Running,
    Sampling,
    Union,
    WatchJoin,
)
from lowwater.plan.tree import walk

ROWS = "rows"
"""Origin of attributes that count rows."""

ROW = "_row"
"""Column of a record's number on its links (SEMANTICS I4)."""

HANDED = (Running, Sampling)
"""The operators whose state can be handed over from interval to interval."""


def off_clock(fields: Sequence[Field]) -> str:
    """The origin of the temporal columns where none is a function of the clock; else empty."""
    origins = [field.temporal.origin for field in fields if field.temporal]
    return origins[0] if origins and all(origins) else ""


def by_arrival(plan: Node) -> bool:
    """Whether something in a plan makes progress with records only: then intervals are those of arrival (I4)."""
    return any(origin_of(node) for node in walk(plan))


def counts_rows(plan: Node) -> bool:
    """Whether a plan has windows of rows."""
    return any(isinstance(node, Bucket) and node.rows for node in walk(plan))


def carried_state(plan: Node) -> list[str]:
    """Why the intervals of a query follow one another; empty where they can be replayed in any order."""
    reasons = (f"{node.query}: {reason}" for node in walk(plan) if (reason := _carried(node)))
    return list(dict.fromkeys(reasons))


def _carried(node: Node) -> str:
    if isinstance(node, Running):
        return "CLOSING_WHEN keeps groups from epoch to epoch"
    if isinstance(node, Sampling):
        return "the sampling operator carries its state into the next epoch"
    if isinstance(node, Bucket) and node.rows:
        return "rows are numbered from the beginning of the chain"
    origin = origin_of(node)
    return f"{origin} is no function of the clock" if origin and origin != ROWS else ""


def origin_of(node: Node) -> str:
    """The attribute by which an operator makes progress where that is no function of the clock; else empty."""
    if isinstance(node, Bucket) and node.rows:
        return ROWS
    if isinstance(node, Aggregation):
        return off_clock(node.key_fields)
    if isinstance(node, Join):
        return node.window.left_time.origin
    if isinstance(node, FilterJoin) and isinstance(node.right_time, Column):
        name = node.right_time.name.removeprefix(f"{node.right_alias}.")
        return off_clock([field for field in node.right.fields if field.name == name])
    return ""


def hands_over(plan: Node) -> bool:
    """Whether the state of a query goes from interval to interval, so that each reads no further back than it must.

    It does where rows are counted, since all of such a query is evaluated in one place. It does where nothing with a
    state of its own stands above CLOSING_WHEN or the sampling operator: what does may need rows of earlier epochs, so
    that such a plan is evaluated from the beginning of its chain each time.
    """
    return counts_rows(plan) or (any(isinstance(node, HANDED) for node in walk(plan)) and _handed(plan))


def _handed(node: Node) -> bool:
    if isinstance(node, Map | Union | Bucket | Expand | WatchJoin):
        return all(_handed(below) for below in node.inputs())
    below = (each for one in node.inputs() for each in walk(one))
    return not any(isinstance(each, HANDED) for each in below)
