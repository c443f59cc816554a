"""Arrow batches around the decoding kernel.

Between `decode` and the reader: allocates the columns of a batch, lets the kernel fill them, and wraps them without
a copy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.capture.decode import BATCH, NARROW, NULLABLE, WIDE, bitmaps, decode

_LINE = 64  # bytes of a cache line


def _block(kind: type[np.int64] | type[np.int32], columns: int, rows: int) -> tuple[pa.Buffer, NDArray[Any], int]:
    """A zeroed Arrow buffer as (columns, rows) array, and its bytes per column."""
    # One more line per column: columns a power of two apart would all fall into one set of the cache.
    stride = (rows * np.dtype(kind).itemsize // _LINE + 2) * _LINE
    buffer = pa.allocate_buffer(stride * columns)
    array = np.frombuffer(buffer, kind).reshape(columns, -1)
    array.fill(0)
    return buffer, array, stride


def decode_batch(
    buffer: NDArray[np.uint8], records: NDArray[np.int64], positions: NDArray[np.int64], clock: int, link: int
) -> tuple[pa.RecordBatch, int]:
    """Decodes sane records.

    Args:
        buffer: holds them.
        records: shape (4, n), as `scan` fills it.
        positions: shape (n), their numbers in the capture.
        clock: largest sane timestamp of the capture before them, ns.
        link: link type of the capture.

    Returns:
        A batch of n rows, schema `BATCH`, and the clock after them, ns.
    """
    rows = len(positions)
    wide_buffer, wide, wide_stride = _block(np.int64, len(WIDE), rows)
    narrow_buffer, narrow, narrow_stride = _block(np.int32, len(NARROW), rows)
    present = np.zeros(-(-rows // 8) * 8, np.uint32)
    clock = decode(buffer, records, rows, positions, clock, link, wide, narrow, present)
    bits = np.empty((-(-len(NULLABLE) // 8) * 8, len(present) // 8), np.uint8)
    bitmaps(present, rows, bits)
    everywhere = int(np.bitwise_and.reduce(present[:rows], initial=np.uint32(0xFFFFFFFF)))
    arrays = []
    for field in BATCH:
        if field.type == pa.int64():
            data = wide_buffer.slice(WIDE.index(field.name) * wide_stride, rows * 8)
        else:
            data = narrow_buffer.slice(NARROW.index(field.name) * narrow_stride, rows * 4)
        valid = None
        if field.nullable and not everywhere >> NULLABLE.index(field.name) & 1:
            valid = pa.py_buffer(bits[NULLABLE.index(field.name)])
        arrays.append(pa.Array.from_buffers(field.type, rows, [valid, data]))
    return pa.RecordBatch.from_arrays(arrays, schema=BATCH), clock
