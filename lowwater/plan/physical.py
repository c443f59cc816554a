"""Which physical operator runs each node, and why: what EXPLAIN says after `by`.

Read by EXPLAIN. Native Spark wherever Spark has the operator; a stateful processor where it has not; the low level
where Gigascope has it.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowwater.plan.context import ANY_LINK
from lowwater.plan.cuts import in_python
from lowwater.plan.joining import oop_join
from lowwater.plan.nodes import (
    Aggregation,
    Bucket,
    Expand,
    FilterJoin,
    Join,
    LftaInput,
    Map,
    Node,
    Running,
    Sampling,
    Union,
    WatchJoin,
)
from lowwater.plan.state import off_clock


@dataclass(frozen=True)
class Physical:
    """A physical operator: its name, and the reason of the choice."""

    operator: str
    reason: str


def physical(node: Node, by_arrival: bool = False) -> Physical:
    """The physical operator of a node of the high level; all of a query by arrival are in one bucket."""
    if isinstance(node, LftaInput):
        if len(node.lfta.links) > 1 or ANY_LINK in node.lfta.links:
            return Physical("Spark union", "the watermark is the least promise of the links")
        return Physical("Spark source", "rows and promises of one link")
    if by_arrival:
        what = "rows are numbered" if isinstance(node, Bucket) and node.rows else "the query is evaluated"
        return Physical("transformWithState", f"{what} in order of arrival; one bucket for all of the query")
    if isinstance(node, Map):
        return Physical("Spark projection", "stateless: rows and punctuation pass through")
    if isinstance(node, Union):
        return Physical("Spark union", "the watermark is the least promise of the inputs")
    if isinstance(node, Expand):
        return Physical("Spark explode", "stateless: one row out for each grouping set")
    if isinstance(node, Bucket):
        return Physical("Spark explode", "stateless: one row out for each window")
    if isinstance(node, Join):
        if why := oop_join(node):
            return Physical("OOP-Join", f"{why}; each side is purged by the promise of the other")
        what = "equality" if node.window.equality else "band"
        return Physical("Spark stream-stream join", f"all of this {what}, and quicker than an OOP-Join")
    if isinstance(node, FilterJoin):
        return Physical("Spark stream-stream left semi join", "a row waits until a key lets it pass or none may come")
    if isinstance(node, WatchJoin):
        return Physical("Spark broadcast join", "the list is a table in the memory of each task: nothing waits")
    assert isinstance(node, Aggregation)
    return _aggregation(node)


def _aggregation(node: Aggregation) -> Physical:
    if isinstance(node, Running):
        return Physical(
            "transformWithState",
            "groups outlive their epoch; one bucket, since idle epochs are counted over all of them",
        )
    if isinstance(node, Sampling):
        return Physical(
            "transformWithState",
            "states see rows in canonical order; one bucket, since a supergroup without rows ends by those of others",
        )
    if own := in_python(node):
        reason = f"Spark has no {own}; the groups of a bucket are one blob of state"
        return Physical("transformWithState", reason)
    origin = off_clock(node.key_fields)
    if origin:
        return Physical("transformWithState", f"the epoch is of {origin}, not of the clock, which is Spark's watermark")
    return Physical("Spark streaming aggregation", "a group closes at the end of its epoch")
