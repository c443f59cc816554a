"""Where one Spark query must become two, and whether rows of a query wait for promises.

Read by EXPLAIN, and by `high.run`: parts of a cut plan run in order, the rows of one replayed into the next. An output
is one Spark query, with all that is below it, wherever Spark's operators can follow one another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowwater.plan.joining import oop_join
from lowwater.plan.nodes import (
    Aggregation,
    Cut,
    FilterJoin,
    Group,
    Join,
    JoinKind,
    Node,
    Running,
    Sampling,
)
from lowwater.plan.state import counts_rows
from lowwater.plan.tree import walk, with_inputs

STATEFUL = (Group, Join, FilterJoin, Running, Sampling)
"""The operators that keep rows or groups."""

_TRAILS = "rows of an outer band join leave it after the watermark that its reader sees, which would drop them as late"
_PYTHON = "one of both keeps its state in Python: the last rows of the lower one come when the other's timers are over"


@dataclass(frozen=True)
class Part:
    """A Spark query of its own below another one.

    Attributes:
        name: by which a `Cut` reads its rows.
        node: its plan.
        reader: the operator that its rows are replayed into.
        why: why that cannot stand in one Spark query with it.
    """

    name: str
    node: Node
    reader: Node
    why: str


def cut(node: Node) -> tuple[list[Part], Node]:
    """Cuts a plan wherever an operator with state reads the rows of another one that Spark may lose between them.

    Returns:
        The parts in the order in which they must run, and the rest, with a `Cut` in place of each.
    """
    # What counts rows is one operator to Spark.
    if counts_rows(node):
        return [], node
    cuts = _Cuts()
    for each in walk(node):
        cuts.take(each)
    return cuts.parts, cuts.made[id(node)]


class _Cuts:
    """Cuts a plan, inputs first and each operator once, since chains are long and operators shared.

    Attributes:
        parts: found so far.
        made: operators as they are after the cuts, by the identity of those before.
    """

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.made: dict[int, Node] = {}
        self._leaves: dict[int, Cut] = {}
        # Of each operator the nearest ones with state, itself or below it in the same Spark query.
        self._nearest: dict[int, list[Node]] = {}

    def take(self, node: Node) -> None:
        """Cuts an operator off its inputs where it must be; they have been taken."""
        inputs = [self._read(node, below) for below in node.inputs()]
        self.made[id(node)] = with_inputs(node, inputs)
        if isinstance(node, STATEFUL):
            self._nearest[id(node)] = [node]
            return
        below = [near for each in node.inputs() for near in self._nearest[id(each)]]
        self._nearest[id(node)] = list({id(near): near for near in below}.values())

    def _read(self, node: Node, below: Node) -> Node:
        """What an operator reads: the rows of an operator below or of a part."""
        why = _lost(node, self._nearest[id(below)])
        if not why:
            return self.made[id(below)]
        if id(below) not in self._leaves:
            part = Part(f"{below.query}-part{len(self.parts) + 1}", self.made[id(below)], node, why)
            self.parts.append(part)
            self._leaves[id(below)] = Cut(below.query, below.fields, part.name)
        return self._leaves[id(below)]


def _lost(node: Node, nearest: Sequence[Node]) -> str:
    """Why rows of operators with state may be lost on the way to an operator; empty where they are not."""
    if not isinstance(node, STATEFUL):
        return ""
    if any(_trails(each) for each in nearest):
        return _TRAILS
    return _PYTHON if nearest and any(keeps_python(each) for each in (node, *nearest)) else ""


def _trails(node: Node) -> bool:
    return isinstance(node, Join) and node.kind is not JoinKind.INNER and not node.window.equality


def in_python(node: Aggregation) -> str:
    """The first aggregate of an operator that has its state in Python; empty for none."""
    return next((a.function for a in node.aggregates if a.udaf is not None and a.udaf.make is not None), "")


def keeps_python(node: Node) -> bool:
    """Whether an operator itself keeps its state in Python."""
    if isinstance(node, Join):
        return bool(oop_join(node))
    return isinstance(node, Running | Sampling) or (isinstance(node, Group) and bool(in_python(node)))


def waits_for_promises(node: Node) -> bool:
    """Whether rows wait in a plan until a promise lets them go."""
    return counts_rows(node) or any(isinstance(each, STATEFUL) for each in walk(node))
