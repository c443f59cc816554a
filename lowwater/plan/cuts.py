"""Which plans are evaluated by slices of time, where a plan is cut, and whether rows of a query wait for promises.

Read by EXPLAIN, and by `high.query_runs`: parts of a cut plan run in order, the rows of one read by the next. The
slices
of an operator whose state outlives a slice are evaluated in order; all the others need none (docs/adr/0049, 0052).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowwater.plan.operators import Cut, Node
from lowwater.plan.properties.state import by_arrival, counts_rows
from lowwater.plan.tree import walk, with_inputs

_OWN = "one of both has a state that outlives a slice of time: its slices are evaluated in order"


@dataclass(frozen=True)
class Part:
    """A plan of its own below another one.

    Attributes:
        name: by which a `Cut` reads its rows.
        node: its plan.
        reader: the operator that its rows are replayed into.
        why: why that cannot stand in one plan with it.
    """

    name: str
    node: Node
    reader: Node
    why: str


def cut(node: Node) -> tuple[list[Part], Node]:
    """Cuts a plan wherever an operator with a state that outlives a slice meets another one that keeps rows or groups.

    Returns:
        The parts in the order in which they must run, and the rest, with a `Cut` in place of each.
    """
    # What counts rows is evaluated as a whole.
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
        # Of each operator the nearest ones with state, itself or below it in the same part.
        self._nearest: dict[int, list[Node]] = {}

    def take(self, node: Node) -> None:
        """Cuts an operator off its inputs where it must be; they have been taken."""
        inputs = [self._read(node, below) for below in node.inputs()]
        self.made[id(node)] = with_inputs(node, inputs)
        if node.facts.waits:
            self._nearest[id(node)] = [node]
            return
        below = [near for each in node.inputs() for near in self._nearest[id(each)]]
        self._nearest[id(node)] = list({id(near): near for near in below}.values())

    def _read(self, node: Node, below: Node) -> Node:
        """What an operator reads: the rows of an operator below or of a part."""
        why = _apart(node, self._nearest[id(below)])
        if not why:
            return self.made[id(below)]
        if id(below) not in self._leaves:
            part = Part(f"{below.query}-part{len(self.parts) + 1}", self.made[id(below)], node, why)
            self.parts.append(part)
            self._leaves[id(below)] = Cut(below.query, below.fields, part.name)
        return self._leaves[id(below)]


def _apart(node: Node, nearest: Sequence[Node]) -> str:
    """Why an operator is not evaluated with those below it; empty where it is."""
    if not node.facts.waits:
        return ""
    return _OWN if nearest and any(each.facts.outlives for each in (node, *nearest)) else ""


def by_slices(node: Node) -> bool:
    """Whether any part of an interval can be evaluated by itself, from the records that it reads before it."""
    return not (by_arrival(node) or any(each.facts.outlives for each in walk(node)))


def waits_for_promises(node: Node) -> bool:
    """Whether rows wait in a plan until a promise lets them go."""
    return counts_rows(node) or any(each.facts.waits for each in walk(node))
