"""Keys of several columns as one number a row: equal numbers where all columns are equal, NULL to NULL.

Below the joins of a slice.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[np.int64]


def codes(columns: Sequence[pa.Array], rows: int) -> tuple[Numbers, int]:
    """The number of each row, and how many there may be.

    Args:
        columns: of equal length; none where all rows are equal.
        rows: how many.
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
    """A column whose equal values have equal bits: both zeros are one, and so are all NaN."""
    if column.type != pa.float64():
        return column
    values = column.fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0
    return pa.array(np.where(np.isnan(values), np.nan, values), mask=column.is_null().to_numpy(zero_copy_only=False))
