"""Decodes records into Arrow batches.

The reader calls it. It allocates the columns of a batch, lets the kernels of `packet` fill them, and wraps them
without a copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.capture.formats.classic import ROWS
from lowwater.capture.headers.fields import BATCH, NARROW, NULLABLE, WIDE, Columns, bits_of
from lowwater.capture.headers.packet import bitmaps, decode

_LINE = 64  # bytes of a cache line


class Memory:
    """Allocates memory for decoding, and can reuse it, because new pages cost as much as the writes to them.

    Args:
        again: whether to reuse the memory, which overwrites earlier batches; else every batch gets new memory.
    """

    def __init__(self, again: bool = True) -> None:
        self._again = again
        self._held: dict[str, NDArray[np.uint8]] = {}

    def bytes(self, name: str, size: int) -> NDArray[np.uint8]:
        """Returns uninitialised bytes for a purpose; with reuse, the same memory for the same name."""
        if not self._again:
            # Arrow's pool keeps freed memory, whereas NumPy would allocate new pages.
            return np.frombuffer(pa.allocate_buffer(size), np.uint8)
        if name not in self._held or len(self._held[name]) < size:
            self._held[name] = np.empty(size, np.uint8)
        return self._held[name][:size]

    def records(self, rows: int) -> NDArray[np.int64]:
        """Returns an int64 array of zeros, shape (ROWS, rows), for a scan."""
        records = self.bytes("records", ROWS * rows * 8).view(np.int64).reshape(ROWS, rows)
        records.fill(0)
        return records


@dataclass(frozen=True)
class Shape:
    """Columns of a batch.

    Attributes:
        schema: Arrow schema of the columns.
        wanted: mask of the columns, as `columns.bits_of`.
        columns: for each column its type, whether it has 64 bits, its row in the block, and its presence bit or -1.
    """

    schema: pa.Schema
    wanted: int
    columns: tuple[tuple[pa.DataType, bool, int, int], ...]


@cache
def shape_of(names: tuple[str, ...]) -> Shape:
    """Returns the shape of batches with these columns of `BATCH`, in this order."""
    bits = {name: bit for bit, name in enumerate(NULLABLE)}
    columns = []
    for name in names:
        wide = name in WIDE
        place = (WIDE if wide else NARROW).index(name)
        columns.append((BATCH.field(name).type, wide, place, bits.get(name, -1)))
    return Shape(pa.schema([BATCH.field(name) for name in names]), bits_of(*names), tuple(columns))


WHOLE = shape_of(tuple(BATCH.names))
"""Shape with all columns."""


def _block(
    kind: type[np.int64] | type[np.int32], columns: int, rows: int, memory: Memory
) -> tuple[pa.Buffer, NDArray[Any], int]:
    """Allocates a block: an Arrow buffer, the same memory as array (columns, rows), and bytes per column."""
    # One more cache line per column, because columns a power of two apart would all map to one set of the cache.
    stride = (rows * np.dtype(kind).itemsize // _LINE + 2) * _LINE
    data = memory.bytes(kind.__name__, stride * columns)
    return pa.py_buffer(data), data.view(kind).reshape(columns, -1), stride


@cache
def _zeros(size: int) -> pa.Buffer:
    return pa.py_buffer(np.zeros(size, np.uint8))


def _nothing(kind: pa.DataType, rows: int) -> pa.Array:
    """Returns a column of NULLs over memory that all these columns share."""
    zeros = _zeros(8 << rows.bit_length())
    return pa.Array.from_buffers(kind, rows, [zeros, zeros], null_count=rows)


def decode_batch(
    buffer: NDArray[np.uint8],
    records: NDArray[np.int64],
    positions: NDArray[np.int64],
    clock: int,
    link: int,
    memory: Memory | None = None,
    shape: Shape = WHOLE,
) -> tuple[pa.RecordBatch, int]:
    """Decodes sane records.

    Args:
        buffer: uint8 array that holds the records.
        records: int64 array (4, n), as `scan` fills it.
        positions: int64 array (n), numbers of the records in the capture.
        clock: largest sane timestamp of the capture before the records, ns.
        memory: memory for the batch; None for new memory.

    Returns:
        A batch of n rows of the shape's schema, and the clock after the records, ns.
    """
    rows = len(positions)
    memory = memory or Memory(again=False)
    wide_buffer, wide, wide_stride = _block(np.int64, len(WIDE), rows, memory)
    narrow_buffer, narrow, narrow_stride = _block(np.int32, len(NARROW), rows, memory)
    present = memory.bytes("present", -(-rows // 8) * 64).view(np.int64)
    present[rows:] = 0
    out = Columns(wide, narrow, shape.wanted)
    clock, everywhere, anywhere = decode(buffer, records, rows, positions, clock, link, out, present)
    size = len(present) // 8
    bits = memory.bytes("bits", len(NULLABLE) * size)
    bitmaps(present, rows, anywhere & ~everywhere & shape.wanted, bits.reshape(-1, size))
    bits_buffer, make, arrays = pa.py_buffer(bits), pa.Array.from_buffers, []
    for kind, is_wide, place, bit in shape.columns:
        if bit >= 0 and not anywhere >> bit & 1:
            arrays.append(_nothing(kind, rows))
            continue
        if is_wide:
            data = wide_buffer.slice(place * wide_stride, rows * 8)
        else:
            data = narrow_buffer.slice(place * narrow_stride, rows * 4)
        partly = bit >= 0 and not everywhere >> bit & 1
        arrays.append(make(kind, rows, [bits_buffer.slice(bit * size, size) if partly else None, data]))
    return pa.RecordBatch.from_arrays(arrays, schema=shape.schema), clock
