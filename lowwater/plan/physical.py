"""Which physical operator runs each node, and why: what EXPLAIN says after `by`.

Read by EXPLAIN. What a promise closes is evaluated by slices of time (`plan.cuts.by_slices`); a state that outlives a
slice is kept by a stateful processor of Spark.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowwater.plan.context import ANY_LINK
from lowwater.plan.cuts import in_python
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
            return Physical("merge of files", "its promise is the least one of the links")
        return Physical("files", "rows and promises of one link")
    if by_arrival:
        what = "rows are numbered" if isinstance(node, Bucket) and node.rows else "the query is evaluated"
        return Physical("transformWithState", f"{what} in order of arrival; one bucket for all of the query")
    if isinstance(node, Map):
        return Physical("projection", "stateless: rows and promises pass through")
    if isinstance(node, Union):
        return Physical("union", "its promise is the least one of the inputs")
    if isinstance(node, Expand):
        return Physical("expansion", "stateless: one row out for each grouping set")
    if isinstance(node, Bucket):
        return Physical("expansion", "stateless: one row out for each window")
    if isinstance(node, Join):
        what = "hash join" if node.window.equality else "band join"
        return Physical(f"{what} in slices", "a promise closes the match windows of a slice: nothing is kept beyond it")
    if isinstance(node, FilterJoin):
        return Physical("semi join in slices", "a promise ends the wait of the rows of a slice")
    if isinstance(node, WatchJoin):
        return Physical("lookup", "the list is a table in the memory of each task: nothing waits")
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
    return Physical("hash aggregation in slices", "a group closes at the end of its epoch: nothing is kept beyond it")
