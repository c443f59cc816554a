"""Finds what a query carries from interval to interval (SEMANTICS I4), and what its rows go by.

Read by EXPLAIN and by whoever schedules intervals: a query without such state can be replayed in any order.
"""

from __future__ import annotations

from lowwater.plan.operators import Bucket, Node
from lowwater.plan.tree import walk

ROW = "_row"
"""Column of a record's number on its links (SEMANTICS I4)."""


def by_arrival(plan: Node) -> bool:
    """Whether something in a plan makes progress with records only: then intervals are those of arrival (I4)."""
    return any(node.origin for node in walk(plan))


def counts_rows(plan: Node) -> bool:
    """Whether a plan has windows of rows."""
    return any(isinstance(node, Bucket) and node.rows for node in walk(plan))


def carried_state(plan: Node) -> list[str]:
    """Why the intervals of a query follow one another; empty where they can be replayed in any order."""
    reasons = (f"{node.query}: {reason}" for node in walk(plan) if (reason := node.state()))
    return list(dict.fromkeys(reasons))


def hands_over(plan: Node) -> bool:
    """Whether the state of a query goes from interval to interval, so that each reads no further back than it must.

    It does where rows are counted, since all of such a query is evaluated in one place. It does where nothing with a
    state of its own stands above CLOSING_WHEN or the sampling operator: what does may need rows of earlier epochs, so
    that such a plan is evaluated from the beginning of its chain each time.
    """
    return counts_rows(plan) or (any(node.facts.outlives for node in walk(plan)) and _handed(plan))


def _handed(node: Node) -> bool:
    if node.facts.passes:
        return all(_handed(below) for below in node.inputs())
    below = (each for one in node.inputs() for each in walk(one))
    return not any(each.facts.outlives for each in below)
