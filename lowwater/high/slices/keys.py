"""Encodes keys of several columns as one number for each row: equal keys have equal numbers, and NULL equals NULL.

Groups and joins of a slice use it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[np.int64]


def codes(columns: Sequence[pa.Array], rows: int) -> tuple[Numbers, int]:
    """Encodes the key of each row as a number; also returns an upper limit of the numbers.

    Args:
        columns: key columns of equal length; empty if all rows are equal.
        rows: number of rows.
    """
    numbers, size = np.zeros(rows, np.int64), 1
    for column in columns:
        coded = normal(column).dictionary_encode()
        places = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64) + 1
        numbers, size = numbers * (len(coded.dictionary) + 1) + places, size * (len(coded.dictionary) + 1)
        if size > 1 << 31:  # the next column may have as many values again
            again = pa.array(numbers).dictionary_encode()
            numbers, size = again.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(again.dictionary)
    return numbers, size


def normal(column: pa.Array) -> pa.Array:
    """Makes equal values of a column equal in bits: one zero, one NaN."""
    if column.type != pa.float64():
        return column
    values = column.fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0
    return pa.array(np.where(np.isnan(values), np.nan, values), mask=column.is_null().to_numpy(zero_copy_only=False))
