"""Which of its two physical forms a join has: Spark's own join of streams, or the OOP-Join of 002.

Read by EXPLAIN and the lowering; and by Spark's Python workers, so it imports nothing but the operators.
"""

from __future__ import annotations

from lowwater.catalog.expr import Call, columns_of, walk
from lowwater.plan.nodes import Join, JoinKind


def oop_join(node: Join) -> str:
    """Why a join is an OOP-Join; empty where Spark's own can do as much, since that one is several times as quick.

    Spark holds each row of a full outer band against all rows of its key, and evaluates a function of Python before or
    after a join: within, where it decides which rows of a kept side are unmatched, it cannot.
    """
    if node.kind is JoinKind.INNER:
        return ""
    if across := _across(node):
        return f"{across} reads both sides, and decides which rows are unmatched"
    return "" if node.window.equality or node.kind is not JoinKind.OUTER else "a band that keeps both sides"


def _across(node: Join) -> str:
    """A function that the residual calls with columns of both sides."""
    for call in walk(node.residual) if node.residual is not None else ():
        if isinstance(call, Call) and len({name.partition(".")[0] for name in columns_of(call)}) > 1:
            return call.function.name
    return ""
