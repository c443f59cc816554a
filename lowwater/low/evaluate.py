"""The columns of a chunk of records, and one expression over them with generated code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.capture.content.stored import payload_of
from lowwater.catalog import calls, expr as ex, schemas
from lowwater.catalog.values import words_from_ip
from lowwater.errors import LowwaterError
from lowwater.low.code import compiler, expressions, kernel, row_buffers

# Columns of a chunk

Pair = tuple[npt.NDArray[np.generic], npt.NDArray[np.generic]]
"""The values of a column, arbitrary where NULL, and its validity: a bit a record, or a boolean for host values."""


def numbers(batch: pa.RecordBatch, name: str, link: str) -> npt.NDArray[np.int64]:
    """Returns an integer column that has no NULL.

    Raises:
        LowwaterError: the batch does not have the column.
    """
    return _values(_column(batch, name, link)).view(np.int64)


def _column(batch: pa.RecordBatch, name: str, link: str) -> pa.Array:
    if name not in batch.schema.names:
        raise LowwaterError(f"the packets of link '{link}' have no column '{name}'", "read what needed_columns says")
    return batch.column(name)


def _values(array: pa.Array) -> npt.NDArray[np.generic]:
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    # The buffer holds arbitrary values for NULL: a kernel reads them and then ignores them.
    buffer = np.frombuffer(array.buffers()[1] or b"", array.type.to_pandas_dtype(), len(array) + array.offset)
    return _aligned(buffer[array.offset :])


def _bits(array: pa.Array, ones: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Returns the validity of a column, a bit a record from bit 0 on."""
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
    # The same array type for all chunks, since numba would compile the kernel again for another type.
    if not values.flags.aligned:
        values = values.copy()
    values.flags.writeable = False
    return values


class ChunkColumns:
    """The columns of a chunk. Each is converted once for all its readers."""

    def __init__(self, batch: pa.RecordBatch, link: str) -> None:
        self._batch = batch
        self._link = link
        self._pairs: dict[str, Pair] = {}
        self.rows = len(batch)
        self._ones = np.full((self.rows + 7) // 8, 255, np.uint8)
        self._ones.flags.writeable = False

    def where(self, mask: npt.NDArray[np.bool_]) -> ChunkColumns:
        """Returns the columns of the selected records.

        Args:
            mask: shape (records), whether a record is selected.
        """
        return self if mask.all() else ChunkColumns(self._batch.filter(pa.array(mask)), self._link)

    def pair(self, name: str) -> Pair:
        """Returns values and validity of a stored column of numbers."""
        if name not in self._pairs:
            array = _column(self._batch, name, self._link)
            self._pairs[name] = _values(array), _bits(array, self._ones)
        return self._pairs[name]

    def give(self, name: str, values: npt.NDArray[np.generic]) -> None:
        """Adds a computed column without NULL."""
        self._pairs[name] = _aligned(values), self._ones

    def coded(self, name: str) -> calls.DictionaryColumn:
        """Returns a column of expressions, dictionary-encoded."""
        if name == schemas.PAYLOAD:
            return self._payload()
        if not (names := schemas.address_parts(name)):
            return calls.DictionaryColumn.of(_column(self._batch, name, self._link))
        parts = [_column(self._batch, part, self._link) for part in names]
        null = np.logical_or.reduce([part.is_null().to_numpy(zero_copy_only=False) for part in parts])
        family, high, low = (np.where(null, 0, _values(part)).astype(np.int64) for part in parts)
        return calls.DictionaryColumn.of(addresses(family, high, low, null))

    def _payload(self) -> calls.DictionaryColumn:
        """Returns the stored payloads as strings, one character a byte; NULL without a frame or a transport header."""
        for name in schemas.stored([schemas.PAYLOAD]):
            _column(self._batch, name, self._link)
        payloads = calls.DictionaryColumn.of(payload_of(self._batch))
        texts = [None if payload is None else payload.decode("latin-1") for payload in payloads.values]
        return replace(payloads, values=texts)


def addresses(
    family: npt.NDArray[np.int64],
    high: npt.NDArray[np.int64],
    low: npt.NDArray[np.int64],
    null: npt.NDArray[np.bool_],
) -> pa.Array:
    """Returns IP values of `catalog.values` from their words.

    Args:
        family: 4 or 6; shape (n).
        high: the upper 64 bits of an IPv6 address, 0 for IPv4; shape (n).
        low: the lower 64 bits, or the 32 bits of IPv4; shape (n).
        null: whether there is no address; shape (n).
    """
    short = (family == 4) & ~null
    padded = np.zeros((len(family), 17), np.uint8)
    padded[:, 0] = family
    padded[:, 1:9] = high.astype(">i8").view(np.uint8).reshape(-1, 8)
    padded[:, 9:] = low.astype(">i8").view(np.uint8).reshape(-1, 8)
    padded[short, 1:5] = padded[short, 13:]
    length = np.where(null, 0, np.where(short, 5, 17))
    data = np.ascontiguousarray(padded[np.arange(17) < length[:, None]])
    offsets = np.zeros(len(family) + 1, np.int32)
    np.cumsum(length, out=offsets[1:])
    valid = pa.array(~null).buffers()[1] if null.any() else None
    return pa.Array.from_buffers(pa.binary(), len(family), [valid, pa.py_buffer(offsets), pa.py_buffer(data)])


# One expression, with generated code of its own


class ExpressionKernel:
    """An expression, compiled to a function of columns.

    Attributes:
        hosted, beside: its host values and their columns, as in the Emitter.
    """

    def __init__(self, expr: ex.Expr, compiled: bool) -> None:
        inputs = expressions.Inputs()
        emit = expressions.Emitter(inputs, clocked=False)
        value = emit.value(expr)
        self._output = row_buffers.OutputColumn(expr.type, nullable=True)
        words = [f"int({value.words[0]})"] if expr.type is ex.Type.BOOL else list(value.words)
        body = [*emit.lines, *self._output.lines("0", words, value.null), "size += 1"]
        names = [
            "rows",
            *self._output.parameters("0"),
            *(f"{kind}_{at}" for at in range(len(emit.beside)) for kind in "hg"),
        ]
        names += [word for param in inputs.params for word in inputs.param(param).words]
        names += [f"{kind}{at}" for at in range(len(inputs.columns)) for kind in "cm"]
        lines = [f"def evaluate({', '.join(names)}):", "    size = 0", "    for i in range(rows):"]
        text = "\n".join([*lines, *expressions.indented(expressions.indented(body)), "    return size"])
        self.columns = tuple(inputs.columns)
        self.hosted, self.beside = tuple(emit.hosted), tuple(emit.beside)
        self._params = arguments(inputs.params)
        self._code = compiler.load([kernel.GeneratedFunction("evaluate", text, True)], compiled)["evaluate"]

    def of(self, columns: ChunkColumns, beside: Sequence[row_buffers.Array], texts: Sequence[str]) -> pa.Array:
        """Returns the values of all records, in the types of streams."""
        rows = row_buffers.RowBuffer([self._output], columns.rows, lasts=False)
        stored_columns = [part for name in self.columns for part in columns.pair(name)]
        self._code(columns.rows, *rows.arrays[1:], *beside, *self._params, *stored_columns)
        return rows.columns(columns.rows, texts)[0]


def arguments(params: Sequence[ex.Const | ex.Param]) -> list[Any]:
    """Returns the values of parameters as words.

    Raises:
        LowwaterError: a parameter has no value.
    """
    words: list[Any] = []
    for param in params:
        if isinstance(param, ex.Param):
            raise LowwaterError(f"the parameter ${param.name} has no value", f"give --param {param.name}=VALUE")
        value = param.value
        if isinstance(value, bytes):
            words += words_from_ip(value)
        else:
            # The same type for every value, since numba would compile the kernel again for another type.
            words.append(float(value) if param.type is ex.Type.FLOAT and isinstance(value, int) else value)
    return words
