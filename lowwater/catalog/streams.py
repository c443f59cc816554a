"""Arrow types of streams: the form between stages, and the published form.

Rows of `lfta/` and `streams/` are the fields of their plan node, then CONTROL (SEMANTICS P5). A punctuation row has
every column; one that it does not promise is NULL. `tables/` hold rows only, addresses as text, then `_last`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from lowwater.catalog.expr import Type
from lowwater.catalog.values import format_ip, format_mac

ROW = "row"
PUNCTUATION = "punctuation"

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
        pa.field("_last", pa.int64(), nullable=False),  # row: last instant, ns (I1); punctuation: no later row is below
        pa.field("_kind", pa.string(), nullable=False),  # ROW or PUNCTUATION
        pa.field("_tick", pa.int64(), nullable=False),  # virtual time of the emission, ns
        pa.field("_until", pa.int64(), nullable=False),  # lull: last of its ticks; else equal to _tick (T4)
        pa.field("_period", pa.int64(), nullable=False),  # lull: ns between its ticks; else 0
    ]
)

_TEXTS: dict[Type, Callable[[Any], str]] = {Type.IP: format_ip, Type.MAC: format_mac}


def published(values: pa.Array, kind: Type) -> pa.Array:
    """A column of a stream in its published form: addresses as texts, each distinct one written once."""
    if kind not in _TEXTS:
        return values
    encoded = values.dictionary_encode()
    texts = pa.array([_TEXTS[kind](value) for value in encoded.dictionary.to_pylist()], pa.string())
    return texts.take(encoded.indices)
