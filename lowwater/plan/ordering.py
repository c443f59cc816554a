"""Which operators see the order of their input (SEMANTICS O1).

Read by the planner, the engines and Spark's Python workers, which start with each query: nothing else is imported here.
"""

from __future__ import annotations

from lowwater.plan.nodes import Aggregation, Bucket, Expand, Map, Node, Running, Sampling, Union, WatchJoin

PASSING = (Map, Union, Bucket, Expand, WatchJoin)
"""The operators through which packets pass as such, each in its place (O1)."""


def order_dependent(node: Node) -> bool:
    """Whether the rows of an operator depend on the order of its input."""
    if isinstance(node, Running | Sampling):
        return True
    return isinstance(node, Aggregation) and any(a.udaf is not None and a.udaf.ordered for a in node.aggregates)
