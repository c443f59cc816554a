"""The columns of a chunk of records, as kernels and hosted values read them.

Between the batches of a link and `low.run`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.capture.frames import payload_of
from lowwater.catalog.calls import Coded
from lowwater.catalog.packets import ADDRESSES, PAYLOAD, stored
from lowwater.errors import LowwaterError
from lowwater.low.output import addresses

Pair = tuple[npt.NDArray[np.generic], npt.NDArray[np.generic]]
"""The values of a column, anything where NULL, and where it is valid."""


def numbers(batch: pa.RecordBatch, name: str, link: str) -> npt.NDArray[np.int64]:
    """A column without NULL.

    Raises:
        LowwaterError: the batch does not have it.
    """
    values: npt.NDArray[np.int64] = _column(batch, name, link).to_numpy()
    return values


def _column(batch: pa.RecordBatch, name: str, link: str) -> pa.Array:
    if name not in batch.schema.names:
        raise LowwaterError(f"the packets of link '{link}' have no column '{name}'", "read what needed_columns says")
    return batch.column(name)


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

    def where(self, wanted: npt.NDArray[np.bool_]) -> Columns:
        """The columns of some of the records."""
        return self if wanted.all() else Columns(self._batch.filter(pa.array(wanted)), self._link)

    def pair(self, name: str) -> Pair:
        """A stored column of numbers."""
        if name not in self._done:
            self._done[name] = self._convert(name)
        return self._done[name]

    def _convert(self, name: str) -> Pair:
        array = _column(self._batch, name, self._link)
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        data = array.buffers()[1]
        # The values under NULL are whatever the buffer holds: a kernel reads them and then ignores them.
        values = np.frombuffer(data, array.type.to_pandas_dtype(), len(array) + array.offset)[array.offset :]
        return values, valid

    def coded(self, name: str) -> Coded:
        """A column of expressions by its distinct values."""
        if name == PAYLOAD:
            return self._payload()
        if name not in ADDRESSES:
            return Coded.of(_column(self._batch, name, self._link))
        parts = [self.pair(part) for part in (ADDRESSES[name], f"{name}_hi", f"{name}_lo")]
        null = ~np.logical_and.reduce([valid for _, valid in parts])
        family, high, low = (np.where(null, 0, values).astype(np.int64) for values, _ in parts)
        return Coded.of(addresses(family, high, low, null))

    def _payload(self) -> Coded:
        """What is kept of every payload, one character a byte; NULL where its place or the frame is."""
        for name in stored([PAYLOAD]):
            _column(self._batch, name, self._link)
        coded = Coded.of(payload_of(self._batch))
        return replace(coded, values=[None if each is None else each.decode("latin-1") for each in coded.values])
