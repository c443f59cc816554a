"""Adds record numbers to LFTAs whose packets reach an order-dependent operator over several branches (SEMANTICS O1).

After the rules. The rows of one LFTA are in order. To order the rows of two LFTAs of a link, each LFTA adds the record
number as its last column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from lowwater.catalog.expr import Column, Type
from lowwater.catalog.packets import RECORD_NUMBER
from lowwater.plan.operators import Field, Item, Lfta, LftaInput, Node
from lowwater.plan.rewriter import Rewriter
from lowwater.plan.rules.low import Setting
from lowwater.plan.tree import walk

NUMBER_COLUMN = "_record"
"""Name of the column with the record number."""


def with_numbers(plans: Sequence[Node]) -> list[Node]:
    """Returns the plans of a query set, with record numbers in the LFTAs whose readers need them. Plans share LFTAs."""
    names = {name for plan in plans for node in walk(plan) for name in unordered_lftas(node)}

    def numbered(node: Node, setting: Setting) -> Node | None:
        if not isinstance(node, LftaInput) or node.lfta.placed or node.lfta.name not in names:
            return None
        return replace(node, lfta=_numbered(node.lfta))

    rewriter = Rewriter((numbered,), Setting())
    return [rewriter.rewrite(plan) if names else plan for plan in plans]


def unordered_lftas(node: Node) -> set[str]:
    """Returns the LFTAs whose packets an order-dependent operator reads together with another LFTA of the same link."""
    if not node.order_dependent:
        return set()
    leaves = [leaf for below in node.inputs() for leaf in _packet_inputs(below, node.query)]
    times = Counter(link for leaf in leaves for link in leaf.lfta.links)
    return {leaf.lfta.name for leaf in leaves if any(times[link] > 1 for link in leaf.lfta.links)}


def _packet_inputs(node: Node, query: str) -> list[LftaInput]:
    """Returns the LFTAs whose rows reach an operator of a query as packets."""
    if isinstance(node, LftaInput):
        return [] if node.lfta.aggregates or node.query != query else [node]
    passes = node.facts.passes and node.query == query
    return [leaf for below in node.inputs() for leaf in _packet_inputs(below, query)] if passes else []


def _numbered(lfta: Lfta) -> Lfta:
    item, field = Item(NUMBER_COLUMN, Column(Type.INT, RECORD_NUMBER)), Field(NUMBER_COLUMN, Type.INT)
    return replace(lfta, keys=(*lfta.keys, item), fields=(*lfta.fields, field), placed=True)
