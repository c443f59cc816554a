"""Arrow types of streams, between stages and as published.

A row of `lfta/` or `streams/` has the fields of its plan node, then CONTROL (SEMANTICS P5). A punctuation row has all
columns; a column without a promise is NULL. `streams/` has the published types, with addresses as texts, since its
files become files of `tables/`.
"""

from __future__ import annotations

import pyarrow as pa

from lowwater.catalog.expr import Type

ROW = "row"
PUNCTUATION = "punctuation"

LAST = "_last"
TICK = "_tick"
"""Control columns that operators read: last instant of a row (I1), and virtual time of its emission; both ns."""

STREAM_TYPES: dict[Type, pa.DataType] = {
    Type.BOOL: pa.bool_(),
    Type.INT: pa.int64(),
    Type.FLOAT: pa.float64(),
    Type.IP: pa.binary(),
    Type.MAC: pa.int64(),
    Type.STRING: pa.string(),
}

TABLE_TYPES: dict[Type, pa.DataType] = {**STREAM_TYPES, Type.IP: pa.string(), Type.MAC: pa.string()}

CONTROL = pa.schema(
    [
        pa.field(
            LAST, pa.int64(), nullable=False
        ),  # row: last instant, ns (I1); punctuation: a lower bound of later rows
        pa.field("_kind", pa.string(), nullable=False),  # ROW or PUNCTUATION
        pa.field(TICK, pa.int64(), nullable=False),  # virtual time of the emission, ns
        pa.field("_until", pa.int64(), nullable=False),  # lull: its last tick, ns; else equal to _tick (T4)
        pa.field("_period", pa.int64(), nullable=False),  # lull: ns between its ticks; else 0
    ]
)
