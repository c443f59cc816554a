"""Where one Spark query must become two, and whether rows of a query wait for promises.

Between the plan and `run`: parts of a cut plan run in order, the rows of one replayed into the next.
"""

from __future__ import annotations

from lowwater.high.python_group import keeps_python
from lowwater.plan.nodes import (
    Bucket,
    Cut,
    Expand,
    FilterJoin,
    Group,
    Join,
    JoinKind,
    Map,
    Node,
    Running,
    Sampling,
    Union,
    WatchJoin,
)
from lowwater.plan.state import counts_rows
from lowwater.plan.tree import with_inputs

STATEFUL = (Group, Join, FilterJoin, Running, Sampling)
"""The operators that keep rows or groups."""


def cut(node: Node) -> tuple[list[tuple[str, Node]], Node]:
    """Cuts a plan wherever an operator with state reads the rows of another one that Spark may lose between them.

    Rows of an outer band join leave it after the watermark that Spark shows to the operator, which would drop them as
    late. Where one of two operators keeps its state in Python, the last rows that the lower one lets go may reach the
    upper one when its timers have fired for the last time.

    Returns:
        The parts in the order in which they must run, each with the name by which a `Cut` leaf reads it, and the rest.
    """
    parts: list[tuple[str, Node]] = []
    # What counts rows is one operator to Spark.
    return parts, node if counts_rows(node) else _cut(node, parts)


def _cut(node: Node, parts: list[tuple[str, Node]]) -> Node:
    inputs = [_cut(below, parts) for below in node.inputs()]
    if isinstance(node, STATEFUL):
        inputs = [_materialised(below, parts) if _trails(below) or _python(node, below) else below for below in inputs]
    return with_inputs(node, inputs)


def _materialised(node: Node, parts: list[tuple[str, Node]]) -> Cut:
    name = f"{node.query}-part{len(parts) + 1}"
    parts.append((name, node))
    return Cut(node.query, node.fields, name)


def _python(node: Node, below: Node) -> bool:
    """Whether one of two operators that keep state, one reading the other's rows, keeps it in Python."""
    if isinstance(below, STATEFUL):
        return keeps_python(node) or keeps_python(below)
    return any(_python(node, each) for each in below.inputs())


def _trails(node: Node) -> bool:
    if isinstance(node, Join):
        return node.kind is not JoinKind.INNER and not node.window.equality
    return isinstance(node, Map | Union | Bucket | Expand | WatchJoin) and any(
        _trails(below) for below in node.inputs()
    )


def waits_for_promises(node: Node) -> bool:
    """Whether rows wait in a plan until a promise lets them go."""
    return counts_rows(node) or isinstance(node, STATEFUL) or any(waits_for_promises(each) for each in node.inputs())
