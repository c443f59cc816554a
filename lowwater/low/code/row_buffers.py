"""Output columns of an LFTA: the code that writes a row, and the buffers that become Arrow arrays without a copy.

Between the generated code and `low.runtime.heartbeat`. Each column is written in its own type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.catalog import expr as ex, schemas
from lowwater.low.code.expressions import FALSE, TRUE, indented, negation

Array = npt.NDArray[np.generic]
Int64Array = npt.NDArray[np.int64]

_DTYPES: dict[ex.Type, type[np.generic]] = {ex.Type.FLOAT: np.float64, ex.Type.BOOL: np.uint8, ex.Type.IP: np.uint8}
ADDRESS_BYTES = 17
"""Most bytes of an IP value."""


@dataclass(frozen=True)
class OutputColumn:
    """An output column.

    Attributes:
        nullable: whether a value may be NULL.
        constant: the value of a constant string column, which no code writes; else None.
        written: whether code writes the column.
    """

    type: ex.Type
    nullable: bool = False
    constant: str | None = None
    written: bool = True

    @staticmethod
    def fixed(expr: ex.Const) -> OutputColumn:
        """Returns a column with the same string in every row."""
        return OutputColumn(ex.Type.STRING, constant=None if expr.value is None else str(expr.value), written=False)

    def parameters(self, name: str) -> list[str]:
        """Returns the names of its arrays: values, ends of addresses, validity."""
        names = [f"o{name}"] if self.written else []
        names += [f"e{name}"] if self.type is ex.Type.IP else []
        return [*names, f"n{name}"] if self.nullable else names

    def arrays(self, rows: int) -> list[Array]:
        """Allocates arrays for some rows, in the order of the parameters."""
        if not self.written:
            return []
        size = rows * ADDRESS_BYTES if self.type is ex.Type.IP else rows
        arrays: list[Array] = [allocate(size, _DTYPES.get(self.type, np.int64))]
        if self.type is ex.Type.IP:
            ends = allocate(rows + 1, np.int32)
            ends[0] = 0
            arrays.append(ends)
        return [*arrays, allocate(rows, np.uint8)] if self.nullable else arrays

    def lines(self, name: str, words: Sequence[str], null: str, at: str = "size") -> list[str]:
        """Returns the statements that write a row.

        Args:
            words: the code of the value's words; a boolean is 0 or 1.
            at: the name of the row's number.
        """
        if self.type is ex.Type.IP:
            write_address = f"e{name}[{at} + 1] = put_address(o{name}, int(e{name}[{at}]), {', '.join(words)})"
            lines = [write_address] if null == FALSE else [f"e{name}[{at} + 1] = e{name}[{at}]"]
            if null not in (TRUE, FALSE):
                lines = [f"if {null}:", *indented(lines), "else:", *indented([write_address])]
        else:
            lines = [f"o{name}[{at}] = {words[0]}"]
        if self.nullable:
            lines.append(f"n{name}[{at}] = {'0' if null == TRUE else f'1 if {negation(null)} else 0'}")
        return lines

    def array(self, arrays: Sequence[Array], rows: int, texts: Sequence[str]) -> pa.Array:
        """Returns the first rows as an Arrow array.

        Args:
            arrays: the arrays of `arrays`.
        """
        if not self.written:
            return pa.repeat(pa.scalar(self.constant, pa.string()), rows)
        valid = None
        if self.nullable and not arrays[-1][:rows].all():
            valid = _bits(arrays[-1], rows)
        values = arrays[0]
        if self.type is ex.Type.IP:
            buffers = [valid, pa.py_buffer(arrays[1][: rows + 1]), pa.py_buffer(values)]
            return pa.Array.from_buffers(pa.binary(), rows, buffers)
        kind = pa.int64() if self.type is ex.Type.STRING else schemas.STREAM_TYPES[self.type]
        data = _bits(values, rows) if self.type is ex.Type.BOOL else pa.py_buffer(values)
        column = pa.Array.from_buffers(kind, rows, [valid, data])
        return pa.array(texts, pa.string()).take(column) if self.type is ex.Type.STRING else column


def _bits(flags: Array, rows: int) -> pa.Buffer:
    """Packs bytes that are 0 or 1 into bits."""
    return pa.py_buffer(np.packbits(flags[:rows].view(np.uint8), bitorder="little"))


def allocate(length: int, dtype: type[np.generic]) -> Array:
    """Allocates an array in Arrow's memory pool, without clearing it. The pool reuses it when nothing refers to it."""
    return np.frombuffer(pa.allocate_buffer(length * np.dtype(dtype).itemsize), dtype)


class RowBuffer:
    """The rows of one LFTA that are not written yet.

    Args:
        capacity: the most rows.
        lasts: whether the code writes `_last` of every row.

    Attributes:
        arrays: arguments of the code: ticks, `_last` if written, then the arrays of the columns.
    """

    def __init__(self, outputs: Sequence[OutputColumn], capacity: int, lasts: bool) -> None:
        self.capacity = capacity
        self._outputs = outputs
        self._clocks = 1 + lasts
        self.renew()

    def renew(self) -> None:
        """Allocates new arrays; readers now own the old ones."""
        self._parts = [output.arrays(self.capacity) for output in self._outputs]
        clocks = [allocate(self.capacity, np.int64) for _ in range(self._clocks)]
        self.arrays: list[Array] = [*clocks, *(array for part in self._parts for array in part)]

    def columns(self, rows: int, texts: Sequence[str]) -> list[pa.Array]:
        """Returns the columns of the first rows."""
        pairs = zip(self._outputs, self._parts, strict=True)
        return [output.array(part, rows, texts) for output, part in pairs]

    def clock(self, at: int, rows: int) -> npt.NDArray[np.int64]:
        """Returns the ticks of the first rows (at 0), or their `_last` (at 1) if the code writes it."""
        instants: npt.NDArray[np.int64] = self.arrays[at][:rows].view(np.int64)
        return instants

    def values(self, column: int, rows: int) -> npt.NDArray[np.int64]:
        """Returns the integers of a column; the value of a NULL is arbitrary."""
        return self._parts[column][0][:rows].view(np.int64)
