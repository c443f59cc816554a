"""Aggregation in two phases: sub-aggregates of any rows, then groups of the sub-aggregates.

`plan.shares` makes them where no column of GROUP BY divides the rows, as between the two levels. They are no operators
of a plan: only the high level meets them, in a stage of an evaluation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import pyarrow as pa

from lowwater.catalog.expr import Type
from lowwater.catalog.functions import Columns, PartialColumn
from lowwater.catalog.native import ADD
from lowwater.catalog.streams import STREAM_TYPES
from lowwater.plan.operators import Aggregate, Field, Group, Key, Node

ROWS = PartialColumn("_rows", None, ADD)
"""The number of rows of a group. The suffix is the whole name: it belongs to no aggregate."""


def partial_columns(aggregate: Aggregate) -> Columns:
    """Returns a native aggregate in Arrow: its partial columns and its value."""
    native, argument = aggregate.native, aggregate.argument
    assert native is not None, aggregate.function
    return native.columns(None if argument is None else argument.type, aggregate.type)


@dataclass(frozen=True)
class SubGroup(Group, facts=replace(Group.facts, label="sub-aggregation")):
    """First phase: keys and partial aggregates of its rows, and no value yet. A group may have several rows."""

    def key(self, below: Sequence[Key]) -> Key:
        """Returns none: a group may have several rows."""
        return None


@dataclass(frozen=True)
class SuperGroup(Group, facts=replace(Group.facts, label="aggregation of sub-aggregates")):
    """Second phase: merges the rows of a SubGroup; values, HAVING and items are those of the whole."""


def in_phases(node: Group) -> tuple[SubGroup, SuperGroup]:
    """Divides an aggregation whose aggregates are all native. The second phase has yet the input of the first."""
    parts = {part.name: getattr(node, part.name) for part in fields(node)}
    return SubGroup(**parts | {"fields": (*node.key_fields, *_partial_fields(node))}), SuperGroup(**parts)


def _partial_fields(node: Group) -> Iterator[Field]:
    kinds = {arrow: kind for kind, arrow in reversed(STREAM_TYPES.items())}
    yield Field(ROWS.suffix, Type.INT)
    for aggregate in node.aggregates:
        empty = None if aggregate.argument is None else pa.array([], STREAM_TYPES[aggregate.argument.type])
        for column in partial_columns(aggregate).partials:
            kind = Type.INT if column.of is None else kinds[column.of(empty).type]
            yield Field(aggregate.name + column.suffix, kind)


def splits(node: Node) -> bool:
    """Whether an operator can run in two phases."""
    return isinstance(node, Group) and all(each.native is not None for each in node.aggregates)
