"""Splits an aggregation over sliding windows: panes below, windows of panes above.

The length of a pane is the greatest common divisor of RANGE and SLIDE, so every window consists of whole panes. The low
level holds one group per pane instead of one per window (paned windows; 002, section 4.1).
"""

from __future__ import annotations

from dataclasses import replace

from lowwater.catalog.expr import Binary, Column, Const, Type
from lowwater.plan.fields import make_fields, temporals
from lowwater.plan.operators import Bucket, Field, Group, Item, Map, Node, Source
from lowwater.plan.properties.state import ROW
from lowwater.plan.rules.groups import A, Merging, over_selection, partial_leaf, whole_reason
from lowwater.plan.rules.low import Selection, lfta_name
from lowwater.plan.rules.setting import Setting

PANE = "_pane"
"""Column with the number of a pane."""


def split_sliding_window(node: Node, setting: Setting) -> Node | None:
    """Returns both levels of a Group over a Bucket over packets; None for other plans."""
    if not isinstance(node, Group) or not isinstance(node.input, Bucket):
        return None
    bucket = node.input
    source = bucket.input
    if not isinstance(source, Source):
        return None
    keys = tuple(key for key in node.keys if key.expr != Column(Type.INT, bucket.name))
    if bucket.rows or whole_reason(node, [*keys, Item(PANE, bucket.attribute)], setting):
        return tagged(node, bucket, source, setting)
    length = bucket.pane
    panes = Item(PANE, Binary(Type.INT, "/", bucket.attribute, Const(Type.INT, length)))
    low = (*keys, panes)
    fields = make_fields(low, temporals(source.fields))
    merging = Merging.of(node.aggregates, setting)
    leaf = partial_leaf(node, source, low, fields, merging, setting)
    start = Binary(Type.INT, "*", Column(Type.INT, PANE), Const(Type.INT, length))
    number = next(field for field in bucket.fields if field.name == bucket.name)
    panes_tagged = replace(bucket, fields=(*leaf.fields, number), input=leaf, attribute=start)
    return replace(
        node,
        input=panes_tagged,
        predicate=None,
        keys=tuple(Item(key.name, Column(key.expr.type, key.name)) for key in node.keys),
        aggregates=tuple(merging.merged),
        having=merging.over(node.having) if node.having else None,
        items=tuple(Item(item.name, merging.over(item.expr)) for item in node.items),
    )


def split_bucket(node: Node, setting: Setting) -> Node | None:
    """Returns a Bucket over a selection LFTA, if no other rule splits the Bucket with its reader."""
    if not isinstance(node, Bucket) or not isinstance(node.input, Source):
        return None
    source = node.input
    selection = Selection.of(source, node.query, setting)
    stored = [field for field in source.fields if field.name != ROW]
    items = {field.name: selection.column(Column(field.type, field.name), field.name) for field in stored}
    leaf = selection.leaf(node.query, lfta_name(node.query, source, setting), None, node.every_record)
    if node.rows:
        # The projection drops the additional columns of the LFTA.
        same = tuple(Item(f.name, items.get(f.name, Column(f.type, f.name))) for f in source.fields)
        return replace(node, input=Map(node.query, source.fields, leaf, None, same))
    number = next(field for field in node.fields if field.name == node.name)
    return replace(node, input=leaf, fields=(*leaf.fields, number))


def tagged(node: A, bucket: Bucket, source: Source, setting: Setting) -> A:
    """Returns an aggregation over windows, with a selection LFTA below: the high level assigns the windows.

    Args:
        node: aggregation over the windows.
        bucket: the window assigner.
        source: the packets below the window assigner.
        setting: slots, thresholds and catalog of the query set.
    """
    selection = Selection.of(source, node.query, setting)
    # The high level numbers rows, because only there the rows of all links meet.
    attribute = bucket.attribute if bucket.rows else selection.over(bucket.attribute, "_attribute")
    partition = tuple(Item(item.name, selection.over(item.expr, item.name)) for item in bucket.partition)
    wid = Column(Type.INT, bucket.name)
    keys = tuple(key if key.expr == wid else Item(key.name, selection.over(key.expr, key.name)) for key in node.keys)
    aggregates = tuple(over_selection(aggregate, selection) for aggregate in node.aggregates)
    counted = bucket.counted
    if bucket.rows and not bucket.every_record:
        # Rows are counted before WHERE, so the high level needs all of those that are counted.
        high = selection.over(node.predicate) if node.predicate else None
        low, rest = selection.predicate(counted)
        counted = (rest or Const(Type.BOOL, True)) if counted is not None else None
    else:
        low, high = selection.predicate(node.predicate)
    leaf = selection.leaf(node.query, lfta_name(node.query, source, setting), low, bucket.every_record)
    number = Field(bucket.name, Type.INT, next(f.temporal for f in bucket.fields if f.name == bucket.name))
    fields = (*leaf.fields, number)
    tagged = replace(bucket, fields=fields, input=leaf, attribute=attribute, partition=partition, counted=counted)
    return replace(node, input=tagged, predicate=high, keys=keys, aggregates=aggregates)
