"""Columns of all packets from values of few of them: most packets hold no message of an application.

Below `applications` and `hello`. A column of texts keeps the memory of the few; only offsets and the bitmap are
made for all rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.capture.inlining import kernel


@kernel
def _fill(chosen: Any, valid: Any, few: Any, bits: Any, many: Any) -> None:
    """Puts the values of the chosen rows into zeros, and marks them; `valid` is the bitmap of `few`, or empty."""
    for place in range(len(chosen)):
        if len(valid) == 0 or valid[place >> 3] >> (place & 7) & 1:
            row = chosen[place]
            bits[row >> 3] |= 1 << (row & 7)
            many[row] = few[place]


@kernel
def _bound(chosen: Any, valid: Any, few: Any, bits: Any, many: Any) -> None:
    """Fills the offsets of texts, which rows without one repeat, and marks the rows with one."""
    row = 0
    for place in range(len(chosen)):
        last = chosen[place]
        while row <= last:
            many[row] = few[place]
            row += 1
        if len(valid) == 0 or valid[place >> 3] >> (place & 7) & 1:
            bits[last >> 3] |= 1 << (last & 7)
    while row < len(many):
        many[row] = few[len(chosen)]
        row += 1


def spread(values: pa.Array, chosen: NDArray[np.int64], rows: int) -> pa.Array:
    """Returns a column with the values at the chosen rows and NULL elsewhere.

    Args:
        values: shape (m): integers, or strings; no slice of an array.
        chosen: shape (m), rows, ascending.
        rows: number of rows of the column.

    Example:
        >>> spread(pa.array(["a", None, "c"]), np.array([0, 2, 3]), 5).to_pylist()
        ['a', None, None, 'c', None]
    """
    kind = values.type
    if values.null_count == len(values):
        return pa.nulls(rows, kind)
    validity, numbers, *data = values.buffers()
    valid = NO_BITS if validity is None else read_only(validity, np.uint8)
    bits = np.zeros(-(-rows // 8), np.uint8)
    if data:
        many, few = np.empty(rows + 1, np.int32), read_only(numbers, np.int32)
        _bound(chosen, valid, few, bits, many)
    else:
        width = np.int32 if kind == _INT32 else np.int64
        many, few = np.zeros(rows, width), read_only(numbers, width)
        _fill(chosen, valid, few, bits, many)
    return pa.Array.from_buffers(kind, rows, [pa.py_buffer(bits), pa.py_buffer(many), *data])


def new_bytes(size: int) -> NDArray[np.uint8]:
    """Returns uninitialised memory of Arrow's pool, which keeps what is freed, whereas NumPy takes new pages."""
    return np.frombuffer(pa.allocate_buffer(size), np.uint8)


def read_only(buffer: pa.Buffer, kind: Any) -> NDArray[Any]:
    """Returns the memory of a buffer; numba compiles a kernel for memory that may be written anew."""
    values: NDArray[Any] = np.frombuffer(buffer, kind)
    values.flags.writeable = False
    return values


_INT32 = pa.int32()
NO_BITS = read_only(pa.py_buffer(b""), np.uint8)
"""The bitmap of a column without NULL."""
