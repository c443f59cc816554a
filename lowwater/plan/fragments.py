"""Splits a plan into fragments, where two operators keep state that one plan cannot evaluate together.

EXPLAIN shows the fragments, and `high.query_runs` runs them in order: each reads the rows of earlier ones. Most plans
are evaluated by slices of time and need no split. The slices of an operator whose state outlives a slice are evaluated
in order (docs/adr/0049).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowwater.plan.operators import Cut, Node
from lowwater.plan.properties.state import by_arrival
from lowwater.plan.tree import walk, with_inputs

_REASON = "one of the two carries state from slice to slice, so its slices run in order"


@dataclass(frozen=True)
class Fragment:
    """A plan whose rows another plan reads.

    Attributes:
        name: the name by which a `Cut` reads its rows.
        node: its plan.
        reader: the operator that reads its rows.
        why: why the reader cannot stand in the same plan.
    """

    name: str
    node: Node
    reader: Node
    why: str


def fragment_plan(node: Node) -> tuple[list[Fragment], Node]:
    """Splits a plan where an operator whose state outlives a slice meets another operator that keeps rows or groups.

    Returns:
        The fragments in the order of their evaluation, and the remaining plan, with a `Cut` in place of each fragment.
    """
    # A plan by arrival is evaluated in one piece.
    if by_arrival(node):
        return [], node
    splitter = _Splitter()
    for part in walk(node):
        splitter.take(part)
    return splitter.fragments, splitter.rewritten[id(node)]


class _Splitter:
    """Splits a plan, inputs first. It visits shared operators once, and needs no recursion for long chains.

    Attributes:
        fragments: the fragments so far.
        rewritten: identity of an operator -> the operator after the split.
    """

    def __init__(self) -> None:
        self.fragments: list[Fragment] = []
        self.rewritten: dict[int, Node] = {}
        self._leaves: dict[int, Cut] = {}
        # Identity of an operator -> the nearest operators with state, itself or below it in the same fragment.
        self._nearest: dict[int, list[Node]] = {}

    def take(self, node: Node) -> None:
        """Splits an operator off its inputs where necessary. Its inputs were visited before."""
        inputs = [self._read(node, below) for below in node.inputs()]
        self.rewritten[id(node)] = with_inputs(node, inputs)
        if node.facts.waits:
            self._nearest[id(node)] = [node]
            return
        below = [near for below in node.inputs() for near in self._nearest[id(below)]]
        self._nearest[id(node)] = list({id(near): near for near in below}.values())

    def _read(self, node: Node, below: Node) -> Node:
        """Returns the input of an operator: the rewritten operator below it, or a Cut that reads a fragment."""
        why = _separation(node, self._nearest[id(below)])
        if not why:
            return self.rewritten[id(below)]
        if id(below) not in self._leaves:
            fragment = Fragment(f"{below.query}-part{len(self.fragments) + 1}", self.rewritten[id(below)], node, why)
            self.fragments.append(fragment)
            self._leaves[id(below)] = Cut(below.query, below.fields, fragment.name)
        return self._leaves[id(below)]


def _separation(node: Node, nearest: Sequence[Node]) -> str:
    """Returns why an operator cannot be evaluated in one plan with the operators below it; empty if it can."""
    if not node.facts.waits:
        return ""
    return _REASON if nearest and any(operator.facts.outlives for operator in (node, *nearest)) else ""


def by_slices(node: Node) -> bool:
    """Whether any part of an interval can be evaluated by itself, from the records that it reads before that part."""
    return not (by_arrival(node) or any(part.facts.outlives for part in walk(node)))


def waits_for_promises(node: Node) -> bool:
    """Whether a plan holds rows back until a promise."""
    return by_arrival(node) or any(part.facts.waits for part in walk(node))
