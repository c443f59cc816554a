"""Digests of 64 bits: of the first bytes of frames, and of rows.

Digests of rows compare them or divide them into parts: the slices of the high level and the audit call it. Digests of
frames are stored by links that sample (SEMANTICS O5): packets with different headers are sampled independently, even at
the same instant, and a digest takes 8 bytes instead of 64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lowwater.capture.inlining import kernel

HEAD_BYTES = 64
"""Bytes of a frame in the digest; a shorter frame has all of its bytes in it."""


_BASIS = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)


@kernel
def _digest(source: Any, begins: Any, lengths: Any, target: Any) -> None:
    """Computes the 64-bit FNV-1a hash of every range."""
    for row in range(len(begins)):
        digest = _BASIS
        for at in range(begins[row], begins[row] + lengths[row]):
            digest = (digest ^ np.uint64(source[at])) * _PRIME
        target[row] = digest


def digests(buffer: NDArray[np.uint8], begins: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Returns the 64-bit FNV-1a hashes of n byte ranges [begin, begin + length); checks no bounds."""
    hashes = np.empty(len(begins), np.uint64)
    _digest(buffer, begins, lengths, hashes)
    return hashes


def heads(buffer: NDArray[np.uint8], begins: NDArray[np.int64], batch: pa.RecordBatch) -> pa.Int64Array:
    """Computes the 64-bit FNV-1a hash of the first HEAD_BYTES captured bytes of every frame. Returns n hashes as signed
    words, without NULL.

    Args:
        begins: shape (n), index of the frames in the buffer.
        batch: the decoded frames, n rows with `caplen`.
    """
    lengths = np.minimum(batch.column("caplen").to_numpy().astype(np.int64), HEAD_BYTES)
    return pa.array(digests(buffer, begins, lengths).view(np.int64))


_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio
_SHIFT = np.uint64(32)
_NULL = np.uint64(0x6A09E667F3BCC909)
"""Digest of NULL. A value may have the same digest: equal digests only make the caller compare the rows."""


def row_digests(columns: Sequence[pa.Array], rows: int) -> NDArray[np.uint64]:
    """Computes a digest for every row. Rows with equal bits, and NULL in the same columns, have equal digests.

    Args:
        columns: arrays of length `rows`; may be empty.
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
