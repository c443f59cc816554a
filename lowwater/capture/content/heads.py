"""Digests of the first bytes of frames. Sampling chooses packets by them (SEMANTICS O5).

It runs after decoding, for links that store the digest. Packets with different headers are sampled independently, even
at the same instant. A digest takes 8 bytes instead of 64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
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
    """Computes the 64-bit FNV-1a hash of the first HEAD_BYTES captured bytes of every frame.

    Args:
        buffer: the bytes of the frames.
        begins: shape (n), index of the frames in the buffer.
        batch: the decoded frames, n rows with `caplen`.

    Returns:
        n hashes as signed words, without NULL.
    """
    lengths = np.minimum(batch.column("caplen").to_numpy().astype(np.int64), HEAD_BYTES)
    return pa.array(digests(buffer, begins, lengths).view(np.int64))
