"""Packets of one link that come to an operator over several branches: which of two was first (SEMANTICS O1).

After the rules. The rows of an LFTA are in order; those of two LFTAs of a link are told apart by the number of the
record, which they then bring as their last column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from lowwater.catalog.expr import Column, Type
from lowwater.catalog.packets import RECORD_NUMBER
from lowwater.plan.operators import Field, Item, Lfta, LftaInput, Node
from lowwater.plan.rewriter import Rewriter
from lowwater.plan.rules.setting import Setting
from lowwater.plan.tree import walk

NUMBER = "_record"
"""Name of the column."""


def with_numbers(plans: Sequence[Node]) -> list[Node]:
    """The plans of a query set with the numbers of records where an operator asks for them; LFTAs are shared."""
    names = {name for plan in plans for node in walk(plan) for name in united(node)}

    def numbered(node: Node, setting: Setting) -> Node | None:
        if not isinstance(node, LftaInput) or node.lfta.placed or node.lfta.name not in names:
            return None
        return replace(node, lfta=_numbered(node.lfta))

    rewriter = Rewriter((numbered,), Setting())
    return [rewriter.rewrite(plan) if names else plan for plan in plans]


def united(node: Node) -> set[str]:
    """The LFTAs whose packets come to an operator that sees their order, beside others of the same link."""
    if not node.order_dependent:
        return set()
    leaves = [leaf for below in node.inputs() for leaf in _packets(below, node.query)]
    times = Counter(link for leaf in leaves for link in leaf.lfta.links)
    return {leaf.lfta.name for leaf in leaves if any(times[link] > 1 for link in leaf.lfta.links)}


def _packets(node: Node, query: str) -> list[LftaInput]:
    """The LFTAs whose rows come to an operator of a query as packets."""
    if isinstance(node, LftaInput):
        return [] if node.lfta.aggregates or node.query != query else [node]
    passes = node.facts.passes and node.query == query
    return [leaf for below in node.inputs() for leaf in _packets(below, query)] if passes else []


def _numbered(lfta: Lfta) -> Lfta:
    item, field = Item(NUMBER, Column(Type.INT, RECORD_NUMBER)), Field(NUMBER, Type.INT)
    return replace(lfta, keys=(*lfta.keys, item), fields=(*lfta.fields, field), placed=True)
