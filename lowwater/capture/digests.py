"""Row digests: 64-bit hashes that compare rows or divide them into parts.

Called by the slices of the high level and by the audit. Hashes of frames are in `content.retention`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lowwater.capture.content.retention import digests

_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio
_SHIFT = np.uint64(32)
_NULL = np.uint64(0x6A09E667F3BCC909)
"""Digest of NULL. A value may have the same digest: equal digests only make the caller compare the rows."""


def row_digests(columns: Sequence[pa.Array], rows: int) -> NDArray[np.uint64]:
    """Computes a digest for every row. Rows with equal bits, and NULL in the same columns, have equal digests.

    Args:
        columns: arrays of length `rows`; may be empty.
        rows: number of rows.
    """
    hashes = np.zeros(rows, np.uint64)
    for column in columns:
        words = _words(column)
        if column.null_count:
            words[pc.is_null(column).to_numpy(zero_copy_only=False)] = _NULL
        hashes = (hashes ^ words) * _SPREAD
        hashes ^= hashes >> _SHIFT
    return hashes


def _words(column: pa.Array) -> NDArray[np.uint64]:
    """Returns a column as 64-bit words: the numbers themselves, or digests of texts and addresses."""
    if pa.types.is_floating(column.type):
        bits: NDArray[np.uint64] = column.fill_null(0.0).to_numpy(zero_copy_only=False).view(np.uint64).copy()
        return bits
    if pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
        values: NDArray[np.int64] = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        return values.astype(np.uint64)
    whole = column.cast(pa.large_binary())
    offsets = np.frombuffer(whole.buffers()[1], np.int64)[whole.offset : whole.offset + len(whole) + 1]
    data = whole.buffers()[2]
    buffer = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return digests(buffer, offsets[:-1], np.diff(offsets))
