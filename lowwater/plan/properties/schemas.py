"""Arrow schemas of a plan node's fields, in the forms of `catalog.streams`.

Every stage that writes or reads rows of a stream uses them.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lowwater.catalog.streams import CONTROL, STREAM_TYPES, TABLE_TYPES
from lowwater.plan.operators import Field
from lowwater.plan.properties.instant_columns import instant_schema


def value_schema(fields: Sequence[Field]) -> pa.Schema:
    """Returns the fields as columns of a stream, without the control columns."""
    return pa.schema([pa.field(field.name, STREAM_TYPES[field.type]) for field in fields])


def stream_schema(fields: Sequence[Field]) -> pa.Schema:
    """Returns the columns of a stream between stages: the fields, then CONTROL (SEMANTICS P5)."""
    return pa.schema([*value_schema(fields), *CONTROL])


def result_schema(fields: Sequence[Field]) -> pa.Schema:
    """Returns the columns of a query's stream: the fields in published types, their instants, then CONTROL."""
    return pa.schema([*visible_schema(fields), *CONTROL])


def visible_schema(fields: Sequence[Field]) -> pa.Schema:
    """Returns the columns that readers of a published table see: the fields in published types, then their instants."""
    return pa.schema([*published_schema(fields), *instant_schema(fields)])


def published_schema(fields: Sequence[Field]) -> pa.Schema:
    """Returns the fields in published types, with addresses as texts."""
    return pa.schema([pa.field(field.name, TABLE_TYPES[field.type]) for field in fields])
