"""Splits a selection of packets: LFTA-safe conjuncts and expressions below, the rest above.

A selection that is LFTA-safe as a whole becomes an LFTA, without an operator above it.
"""

from __future__ import annotations

from dataclasses import replace

from lowwater.catalog.expr import conjuncts
from lowwater.plan.operators import Item, LftaInput, Map, Node, Source
from lowwater.plan.properties.cost import safe
from lowwater.plan.rules.low import Selection, lfta_name, make_lfta
from lowwater.plan.rules.setting import Setting


def split_selection(node: Node, setting: Setting) -> Node | None:
    """Returns the LFTA of a Map over packets, below the rest of the Map; None for other plans."""
    if not isinstance(node, Map) or not isinstance(node.input, Source):
        return None
    source = node.input
    name, threshold = lfta_name(node.query, source, setting), setting.threshold(node.query)
    parts = [*conjuncts(node.predicate), *(item.expr for item in node.items)]
    if not setting.arrival and all(safe(part, threshold) for part in parts):
        lfta = make_lfta(source, name, node.predicate, node.items, (), 1, node.fields)
        return LftaInput(node.query, node.fields, lfta)
    selection = Selection.of(source, node.query, setting)
    items = tuple(Item(item.name, selection.over(item.expr, item.name)) for item in node.items)
    low, high = selection.predicate(node.predicate)
    return replace(node, input=selection.leaf(node.query, name, low), predicate=high, items=items)
