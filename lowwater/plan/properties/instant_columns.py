"""Columns of instants beside temporal columns: `tb` in minutes is published with `tb_start`, a timestamp.

Derived from the fields of a query wherever its published form is known: by the sink of streams, publication, and
`run --instants`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lowwater.catalog.expr import Type
from lowwater.plan.operators import Field
from lowwater.plan.temporal import Temporal

INSTANT = pa.timestamp("us", tz="UTC")
"""Type of these columns; no column of a query has it."""


@dataclass(frozen=True)
class InstantColumn:
    """A column with the instants at which the epochs or windows of a temporal column begin.

    Attributes:
        name: name of the column.
        of: name of the temporal column.
        begins: its values as a function of the packet clock.
    """

    name: str
    of: str
    begins: Temporal


def instant_columns(fields: Sequence[Field]) -> tuple[InstantColumn, ...]:
    """Returns the instants of the temporal columns that are functions of the packet clock.

    A column of the query has the name before an instant, in any case of letters: readers such as Spark see no case.

    Example:
        >>> from lowwater.plan.temporal import CLOCK, Step
        >>> minute = Field("tb", Type.INT, CLOCK.then(Step("div", 60_000_000_000)))
        >>> [column.name for column in instant_columns([minute, Field("n", Type.INT)])]
        ['tb_start']
    """
    taken = {field.name.lower() for field in fields}
    found = []
    for field in fields:
        begins = field.temporal.begins if field.temporal and not field.temporal.origin else None
        name = f"{field.name}_time" if field.name.lower().endswith("_start") else f"{field.name}_start"
        if begins is not None and field.type is Type.INT and name.lower() not in taken:
            taken.add(name.lower())
            found.append(InstantColumn(name, field.name, begins))
    return tuple(found)


def instant_schema(fields: Sequence[Field]) -> pa.Schema:
    """Returns the columns of instants of a query."""
    return pa.schema([pa.field(column.name, INSTANT) for column in instant_columns(fields)])


def is_instant(kind: pa.DataType) -> bool:
    """Whether a published column of a type has instants, and is no column of its query."""
    return bool(pa.types.is_timestamp(kind))
