"""Turns argument columns into partial aggregates; several families of native aggregates use these functions.

At the bottom of `lowwater.catalog.native`.
"""

from __future__ import annotations

import pyarrow as pa


def as_it_is(values: pa.Array) -> pa.Array:
    """Returns the values unchanged."""
    return values


def present(values: pa.Array) -> pa.Array:
    """Returns 1 for every value and 0 for every NULL."""
    return values.is_valid().cast(pa.int64())


def integers(values: pa.Array) -> pa.Array:
    """Returns booleans as 0 and 1, and integers unchanged."""
    return values.cast(pa.int64())
