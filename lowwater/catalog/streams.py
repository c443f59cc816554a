"""Arrow types of streams: the form between stages, and the published form.

Rows of `lfta/` and `streams/` are the fields of their plan node, then CONTROL (SEMANTICS P5). A punctuation row has
every column; one that it does not promise is NULL. `streams/` have the published form, addresses as texts, since the
files of their rows become those of `tables/`.
"""

from __future__ import annotations

import pyarrow as pa

from lowwater.catalog.expr import Type

ROW = "row"
PUNCTUATION = "punctuation"

LAST = "_last"
TICK = "_tick"
"""Control columns that operators read: the last instant of a row, and the virtual time at which it came, ns."""

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
        pa.field(LAST, pa.int64(), nullable=False),  # row: last instant, ns (I1); punctuation: no later row is below
        pa.field("_kind", pa.string(), nullable=False),  # ROW or PUNCTUATION
        pa.field(TICK, pa.int64(), nullable=False),  # virtual time of the emission, ns
        pa.field("_until", pa.int64(), nullable=False),  # lull: last of its ticks; else equal to _tick (T4)
        pa.field("_period", pa.int64(), nullable=False),  # lull: ns between its ticks; else 0
    ]
)
