"""The columns of a chunk of records, as kernels and hosted values read them.

Between the batches of a link and `low.run`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.capture.content.frames import payload_of
from lowwater.catalog.calls import DictionaryColumn
from lowwater.catalog.packets import ADDRESSES, PAYLOAD, stored
from lowwater.errors import LowwaterError

Pair = tuple[npt.NDArray[np.generic], npt.NDArray[np.generic]]
"""The values of a column, anything where NULL, and where it is valid: a bit a record, or a boolean of hosted values."""


def numbers(batch: pa.RecordBatch, name: str, link: str) -> npt.NDArray[np.int64]:
    """A column without NULL.

    Raises:
        LowwaterError: the batch does not have it.
    """
    return _values(_column(batch, name, link)).view(np.int64)


def _column(batch: pa.RecordBatch, name: str, link: str) -> pa.Array:
    if name not in batch.schema.names:
        raise LowwaterError(f"the packets of link '{link}' have no column '{name}'", "read what needed_columns says")
    return batch.column(name)


def _values(array: pa.Array) -> npt.NDArray[np.generic]:
    # The values under NULL are whatever the buffer holds: a kernel reads them and then ignores them.
    whole = np.frombuffer(array.buffers()[1] or b"", array.type.to_pandas_dtype(), len(array) + array.offset)
    return _aligned(whole[array.offset :])


def _bits(array: pa.Array, ones: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """A bit a record from bit 0 on, 1 where it is valid."""
    if array.null_count == 0:
        return ones
    data = array.buffers()[0]
    if array.offset % 8 == 0:
        return np.frombuffer(data, np.uint8)[array.offset // 8 :]
    begin, end = array.offset // 8, (array.offset + len(array) + 7) // 8
    bits = np.unpackbits(np.frombuffer(data, np.uint8)[begin:end], bitorder="little")[array.offset % 8 :]
    packed = np.packbits(bits, bitorder="little")
    packed.flags.writeable = False
    return packed


def _aligned(values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    # One type for all chunks, or the kernel is compiled for another one.
    if not values.flags.aligned:
        values = values.copy()
    values.flags.writeable = False
    return values


class Columns:
    """The columns of a chunk, each converted once for all that read it.

    Args:
        batch: stored columns.
        link: named by errors.
    """

    def __init__(self, batch: pa.RecordBatch, link: str) -> None:
        self._batch = batch
        self._link = link
        self._done: dict[str, Pair] = {}
        self.rows = len(batch)
        self._ones = np.full((self.rows + 7) // 8, 255, np.uint8)
        self._ones.flags.writeable = False

    def where(self, wanted: npt.NDArray[np.bool_]) -> Columns:
        """The columns of some of the records."""
        return self if wanted.all() else Columns(self._batch.filter(pa.array(wanted)), self._link)

    def pair(self, name: str) -> Pair:
        """A stored column of numbers."""
        if name not in self._done:
            array = _column(self._batch, name, self._link)
            self._done[name] = _values(array), _bits(array, self._ones)
        return self._done[name]

    def give(self, name: str, values: npt.NDArray[np.generic]) -> None:
        """Adds a column that is not stored, without NULL."""
        self._done[name] = _aligned(values), self._ones

    def coded(self, name: str) -> DictionaryColumn:
        """A column of expressions by its distinct values."""
        if name == PAYLOAD:
            return self._payload()
        if name not in ADDRESSES:
            return DictionaryColumn.of(_column(self._batch, name, self._link))
        parts = [_column(self._batch, part, self._link) for part in stored([name])]
        null = np.logical_or.reduce([part.is_null().to_numpy(zero_copy_only=False) for part in parts])
        family, high, low = (np.where(null, 0, _values(part)).astype(np.int64) for part in parts)
        return DictionaryColumn.of(addresses(family, high, low, null))

    def _payload(self) -> DictionaryColumn:
        """What is kept of every payload, one character a byte; NULL where its place or the frame is."""
        for name in stored([PAYLOAD]):
            _column(self._batch, name, self._link)
        coded = DictionaryColumn.of(payload_of(self._batch))
        return replace(coded, values=[None if each is None else each.decode("latin-1") for each in coded.values])


def addresses(
    family: npt.NDArray[np.int64],
    high: npt.NDArray[np.int64],
    low: npt.NDArray[np.int64],
    null: npt.NDArray[np.bool_],
) -> pa.Array:
    """Address values of `catalog.values` from their words: one byte of family, then 4 or 16 bytes.

    Args:
        family: 4 or 6; shape (n).
        high: upper 64 bits of an IPv6 address, 0 of IPv4; shape (n).
        low: lower 64 bits, or the 32 bits of IPv4; shape (n).
        null: whether there is no address; shape (n).
    """
    short = (family == 4) & ~null
    image = np.zeros((len(family), 17), np.uint8)
    image[:, 0] = family
    image[:, 1:9] = high.astype(">i8").view(np.uint8).reshape(-1, 8)
    image[:, 9:] = low.astype(">i8").view(np.uint8).reshape(-1, 8)
    image[short, 1:5] = image[short, 13:]
    length = np.where(null, 0, np.where(short, 5, 17))
    data = np.ascontiguousarray(image[np.arange(17) < length[:, None]])
    offsets = np.zeros(len(family) + 1, np.int32)
    np.cumsum(length, out=offsets[1:])
    valid = pa.array(~null).buffers()[1] if null.any() else None
    return pa.Array.from_buffers(pa.binary(), len(family), [valid, pa.py_buffer(offsets), pa.py_buffer(data)])
