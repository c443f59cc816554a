"""Applies the rules: from the logical plan of a query to its two levels.

Third stage of the pipeline. Whatever reads packets directly becomes an LFTA (000, section 3.1; 004). Plans share the
queries that they read, so what has been rewritten once is not rewritten again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lowwater.errors import LawError
from lowwater.plan.operators import Node
from lowwater.plan.rules import Rule, Setting
from lowwater.plan.tree import with_inputs


@dataclass
class Rewriter:
    """Applies rules to an operator, to what is below it, and to it again, each as long as it applies.

    Attributes:
        rules: in order.
        setting: the setting of the query set.
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
