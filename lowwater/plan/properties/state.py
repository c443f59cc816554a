"""Finds the state that a query carries from interval to interval (SEMANTICS I4), and whether it goes by arrival.

EXPLAIN shows it, and the scheduler of intervals reads it: the intervals of a query without state can run in any order.
"""

from __future__ import annotations

from lowwater.plan.operators import Node
from lowwater.plan.tree import walk

ROW = "_row"
"""Column with the number of a record on its links (SEMANTICS I4)."""

TIMESTAMP = "_timestamp"
"""Last column of an LFTA by arrival: the timestamp of the record; NULL for a record that the LFTA does not take."""


def by_arrival(plan: Node) -> bool:
    """Whether an operator of a plan makes progress with records only; then intervals go by arrival (I4)."""
    return any(node.origin for node in walk(plan))


def carried_state(plan: Node) -> list[str]:
    """Returns the reasons why the intervals of a query must run in order; empty if they can run in any order."""
    reasons = (f"{node.query}: {reason}" for node in walk(plan) if (reason := node.state()))
    return list(dict.fromkeys(reasons))


def hands_over(plan: Node) -> bool:
    """Whether a query hands its state to the next interval, so that no interval reads further back than it must.

    It does if the query is evaluated by arrival, since such a query is evaluated in one place. It also does if no
    operator with state stands above CLOSING_WHEN or the sampling operator. An operator with state above them may need
    rows of earlier epochs, so such a plan is evaluated from the start of its chain for every interval.
    """
    return by_arrival(plan) or (any(node.facts.outlives for node in walk(plan)) and _handed(plan))


def _handed(node: Node) -> bool:
    if node.facts.passes:
        return all(_handed(below) for below in node.inputs())
    return not any(below.facts.outlives for root in node.inputs() for below in walk(root))
