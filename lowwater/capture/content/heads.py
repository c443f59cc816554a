"""The digest of the beginning of every frame, by which packets are sampled (SEMANTICS O5).

After decoding, where the settings ask for it. Two packets that differ in their headers are sampled apart, also within
one instant; the digest takes 8 bytes where what it is made of would take 64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.capture.inlining import kernel

HEAD_BYTES = 64
"""Bytes of a frame that the digest is of; all of a shorter one."""

_BASIS = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)


@kernel
def _digest(source: Any, begins: Any, lengths: Any, target: Any) -> None:
    """FNV-1a, 64 bits, of every range."""
    for row in range(len(begins)):
        digest = _BASIS
        for at in range(begins[row], begins[row] + lengths[row]):
            digest = (digest ^ np.uint64(source[at])) * _PRIME
        target[row] = digest


def digests(buffer: NDArray[np.uint8], begins: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint64]:
    """FNV-1a (64 bits) of n ranges of a buffer: bytes [begin, begin + length) each; no bounds are checked."""
    found = np.empty(len(begins), np.uint64)
    _digest(buffer, begins, lengths, found)
    return found


def heads(buffer: NDArray[np.uint8], begins: NDArray[np.int64], batch: pa.RecordBatch) -> pa.Int64Array:
    """FNV-1a (64 bits) of the first HEAD_BYTES captured bytes of every frame.

    Args:
        buffer: holds the frames.
        begins: shape (n), where they begin in it.
        batch: what was decoded of them, n rows with `caplen`.

    Returns:
        n values, the digests as signed words; none is NULL.
    """
    lengths = np.minimum(batch.column("caplen").to_numpy().astype(np.int64), HEAD_BYTES)
    return pa.array(digests(buffer, begins, lengths).view(np.int64))
