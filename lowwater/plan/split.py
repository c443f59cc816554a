"""Applies the rules: from the logical plan of a query to its two levels.

Third stage of the pipeline. Whatever reads packets directly becomes an LFTA (000, section 3.1; 004). Plans share the
queries that they read, so what has been rewritten once is not rewritten again.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field, replace

from lowwater.errors import LawError
from lowwater.plan.nodes import FilterJoin, Join, Lfta, LftaInput, Node, Union
from lowwater.plan.rules import LEVELS, LOGICAL, Rule, Setting


@dataclass
class Rewriter:
    """Applies rules to an operator, to what is below it, and to it again, each as long as it applies.

    Attributes:
        rules: in order.
        setting: of the query set.
    """

    rules: Sequence[Rule]
    setting: Setting
    _done: dict[int, tuple[Node, Node]] = field(default_factory=dict)

    def rewrite(self, node: Node) -> Node:
        """The plan after the rules; the same node gives the same plan.

        Raises:
            LawError: a rule changed the columns of an operator.
        """
        known = self._done.get(id(node))
        if known is not None:
            return known[1]
        # Once before what is below has changed, since levels are cut where packets are read, and once after.
        changed = self._apply(node)
        changed = with_inputs(changed, [self.rewrite(below) for below in changed.inputs()])
        changed = self._apply(changed)
        self._done[id(node)] = (node, changed)
        return changed

    def _apply(self, node: Node) -> Node:
        again = True
        while again:
            again = False
            for rule in self.rules:
                found = rule(node, self.setting)
                if found is not None:
                    if [(f.name, f.type) for f in found.fields] != [(f.name, f.type) for f in node.fields]:
                        raise LawError(f"rule {rule.__name__} changes the columns of query {node.query}")
                    # What a rule moved down may move on from there.
                    node = with_inputs(found, [self.rewrite(below) for below in found.inputs()])
                    again = True
        return node


def with_inputs(node: Node, inputs: Sequence[Node]) -> Node:
    """The operator over other inputs with the same columns."""
    if all(new is old for new, old in zip(inputs, node.inputs(), strict=True)):
        return node
    if isinstance(node, Union):
        return replace(node, branches=tuple(inputs))
    if isinstance(node, Join | FilterJoin):
        return replace(node, left=inputs[0], right=inputs[1])
    return replace(node, input=inputs[0])  # type: ignore[call-arg]


def walk(*roots: Node, done: Container[int] = ()) -> Iterator[Node]:
    """Every operator of some plans, each once, inputs first; but those whose identity is done."""
    seen: set[int] = set()
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node
        elif id(node) not in seen and id(node) not in done:
            seen.add(id(node))
            stack.append((node, True))
            stack += [(below, False) for below in reversed(node.inputs())]


def lftas_of(*nodes: Node) -> list[Lfta]:
    """The LFTAs below high-level plans, each once, in order of first use.

    Raises:
        LawError: two of them have one name.
    """
    found: dict[str, Lfta] = {}
    for node in walk(*nodes):
        if isinstance(node, LftaInput) and found.setdefault(node.lfta.name, node.lfta) != node.lfta:
            raise LawError(f"two LFTAs are called {node.lfta.name}")
    return list(found.values())


__all__ = ["LEVELS", "LOGICAL", "Rewriter", "Setting", "lftas_of", "walk", "with_inputs"]
