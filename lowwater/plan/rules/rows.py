"""Gives a selection LFTA to aggregations that need rows one by one: CLOSING_WHEN and the sampling operator.

Both operators process rows in canonical order (SEMANTICS O1, O4), with all rows of a group in one place. So a group
table with ejection cannot do a part of their work.
"""

from __future__ import annotations

from dataclasses import replace

from lowwater.catalog.expr import conjunction, conjuncts
from lowwater.plan.operators import Bucket, Node, Running, Sampling, Source
from lowwater.plan.properties.cost import safe
from lowwater.plan.rules.groups import over_selection, selected
from lowwater.plan.rules.low import Selection, lfta_name
from lowwater.plan.rules.setting import Setting
from lowwater.plan.rules.windows import tagged


def split_row_by_row(node: Node, setting: Setting) -> Node | None:
    """Returns both levels of a Running or Sampling over packets; None for other plans."""
    if isinstance(node, Running) and isinstance(node.input, Source):
        return selected(node, node.input, setting)
    if isinstance(node, Running) and isinstance(node.input, Bucket) and isinstance(node.input.input, Source):
        return tagged(node, node.input, node.input.input, setting)
    if isinstance(node, Sampling) and isinstance(node.input, Source):
        return _sampled(node, node.input, setting)
    return None


def _sampled(node: Sampling, source: Source, setting: Setting) -> Sampling:
    """Returns the sampling operator over a selection LFTA.

    Conjuncts after the first stateful one stay high: the state sees the rows that pass the conjuncts before it.
    """
    parts = conjuncts(node.predicate)
    threshold = setting.threshold(node.query)
    first = next((at for at, part in enumerate(parts) if not safe(part, threshold)), len(parts))
    above = parts[first:]
    whole = replace(node, predicate=conjunction(parts[:first]), keys=node.keys)
    selection = Selection.of(source, node.query, setting)
    supers = tuple(over_selection(aggregate, selection) for aggregate in node.supers)
    keys = tuple(replace(key, expr=selection.over(key.expr, key.name)) for key in node.keys)
    aggregates = tuple(over_selection(aggregate, selection) for aggregate in node.aggregates)
    low, high = selection.predicate(whole.predicate)
    late = conjunction([*conjuncts(high), *(selection.over(part) for part in above)])
    leaf = selection.leaf(node.query, lfta_name(node.query, source, setting), low)
    return replace(node, input=leaf, predicate=late, keys=keys, aggregates=aggregates, supers=supers)
