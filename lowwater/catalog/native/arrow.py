"""Values of argument columns that several native aggregates keep as partial results.

At the bottom of `lowwater.catalog.native`.
"""

from __future__ import annotations

import pyarrow as pa


def as_it_is(values: pa.Array) -> pa.Array:
    """The values themselves."""
    return values


def present(values: pa.Array) -> pa.Array:
    """1 for a value, 0 for NULL."""
    return values.is_valid().cast(pa.int64())


def integers(values: pa.Array) -> pa.Array:
    """Booleans as 0 and 1, integers as they are."""
    return values.cast(pa.int64())
