"""Rewrites the logical plan of a query into the high plan and its LFTAs, by applying rules.

Third stage of the pipeline. An operator that reads packets directly becomes an LFTA (000, section 3.1; 004). Queries
share the plans that they read, so the rewriter remembers its results.
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
    """Applies rules to an operator, then to its inputs, then to the operator again, until no rule applies.

    Attributes:
        rules: the rules, in order.
        setting: the facts of the query set that the rules read.
    """

    rules: Sequence[Rule]
    setting: Setting
    _rewritten: dict[int, tuple[Node, Node]] = field(default_factory=dict)

    def rewrite(self, node: Node) -> Node:
        """Returns the rewritten plan; the same node always gives the same plan.

        Raises:
            LawError: a rule changed the columns of an operator.
        """
        earlier = self._rewritten.get(id(node))
        if earlier is not None:
            return earlier[1]
        # Before the inputs change, because the rules split the levels where packets are read; and again afterwards.
        changed = self._apply(node)
        changed = with_inputs(changed, [self.rewrite(below) for below in changed.inputs()])
        changed = self._apply(changed)
        self._rewritten[id(node)] = (node, changed)
        return changed

    def _apply(self, node: Node) -> Node:
        again = True
        while again:
            again = False
            for rule in self.rules:
                result = rule(node, self.setting)
                if result is not None:
                    if [(f.name, f.type) for f in result.fields] != [(f.name, f.type) for f in node.fields]:
                        raise LawError(f"rule {rule.__name__} changes the columns of query {node.query}")
                    # An expression that a rule moved down may move further.
                    node = with_inputs(result, [self.rewrite(below) for below in result.inputs()])
                    again = True
        return node
