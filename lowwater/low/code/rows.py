"""Output columns of an LFTA: the code that writes a row into them, and the buffers that become Arrow as they are.

Between the generated code of `low.nodes` and `low.runtime.output`. A column is written in its own type, so a row that
leaves is written once and never copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.catalog.expr import Const, Type
from lowwater.catalog.streams import STREAM_TYPES
from lowwater.low.code.values import FALSE, TRUE, indented, negation

Array = npt.NDArray[np.generic]
_DTYPES: dict[Type, type[np.generic]] = {Type.FLOAT: np.float64, Type.BOOL: np.uint8, Type.IP: np.uint8}
LONGEST = 17
"""Bytes of an address."""


@dataclass(frozen=True)
class Output:
    """A column.

    Attributes:
        type: the type of the values.
        nullable: whether any may be NULL.
        constant: the one value of a text of the plan, which no code writes; else None.
        written: whether code writes it.
    """

    type: Type
    nullable: bool = False
    constant: str | None = None
    written: bool = True

    @staticmethod
    def fixed(expr: Const) -> Output:
        """A text that is the same in every row."""
        return Output(Type.STRING, constant=None if expr.value is None else str(expr.value), written=False)

    def parameters(self, name: str) -> list[str]:
        """The names of its arrays: values, ends of addresses, validity."""
        found = [f"o{name}"] if self.written else []
        found += [f"e{name}"] if self.type is Type.IP else []
        return [*found, f"n{name}"] if self.nullable else found

    def arrays(self, rows: int) -> list[Array]:
        """Room for some rows, in the order of the parameters."""
        if not self.written:
            return []
        wide = rows * LONGEST if self.type is Type.IP else rows
        found: list[Array] = [room(wide, _DTYPES.get(self.type, np.int64))]
        if self.type is Type.IP:
            ends = room(rows + 1, np.int32)
            ends[0] = 0
            found.append(ends)
        return [*found, room(rows, np.uint8)] if self.nullable else found

    def lines(self, name: str, words: Sequence[str], null: str, at: str = "size") -> list[str]:
        """The statements that write a row.

        Args:
            name: the name of the column in the code.
            words: the value; a boolean is 0 or 1.
            null: whether it is NULL.
            at: the name of the row's number.
        """
        if self.type is Type.IP:
            here = f"e{name}[{at} + 1] = put_address(o{name}, int(e{name}[{at}]), {', '.join(words)})"
            lines = [here] if null == FALSE else [f"e{name}[{at} + 1] = e{name}[{at}]"]
            if null not in (TRUE, FALSE):
                lines = [f"if {null}:", *indented(lines), "else:", *indented([here])]
        else:
            lines = [f"o{name}[{at}] = {words[0]}"]
        if self.nullable:
            lines.append(f"n{name}[{at}] = {'0' if null == TRUE else f'1 if {negation(null)} else 0'}")
        return lines

    def array(self, arrays: Sequence[Array], rows: int, texts: Sequence[str]) -> pa.Array:
        """The rows as Arrow; `texts` are those that the numbers stand for."""
        if not self.written:
            return pa.repeat(pa.scalar(self.constant, pa.string()), rows)
        valid = None
        if self.nullable and not arrays[-1][:rows].all():
            valid = _bits(arrays[-1], rows)
        values = arrays[0]
        if self.type is Type.IP:
            buffers = [valid, pa.py_buffer(arrays[1][: rows + 1]), pa.py_buffer(values)]
            return pa.Array.from_buffers(pa.binary(), rows, buffers)
        kind = pa.int64() if self.type is Type.STRING else STREAM_TYPES[self.type]
        data = _bits(values, rows) if self.type is Type.BOOL else pa.py_buffer(values)
        found = pa.Array.from_buffers(kind, rows, [valid, data])
        return pa.array(texts, pa.string()).take(found) if self.type is Type.STRING else found


def _bits(flags: Array, rows: int) -> pa.Buffer:
    """Bytes that are 0 or 1 as bits."""
    return pa.py_buffer(np.packbits(flags[:rows].view(np.uint8), bitorder="little"))


def room(length: int, dtype: type[np.generic]) -> Array:
    """An array of Arrow's memory, which is used again when nothing holds it; not emptied."""
    return np.frombuffer(pa.allocate_buffer(length * np.dtype(dtype).itemsize), dtype)


class Rows:
    """Rows of one LFTA that wait to be written.

    Args:
        outputs: columns.
        capacity: rows.
        lasts: whether the code writes `_last` of every row.

    Attributes:
        arrays: parameters of the code: ticks, `_last`, then the columns.
    """

    def __init__(self, outputs: Sequence[Output], capacity: int, lasts: bool) -> None:
        self.capacity = capacity
        self._outputs = outputs
        self._clocks = 1 + lasts
        self.renew()

    def renew(self) -> None:
        """Takes new room; what the old one holds is the readers'."""
        self._parts = [output.arrays(self.capacity) for output in self._outputs]
        clocks = [room(self.capacity, np.int64) for _ in range(self._clocks)]
        self.arrays: list[Array] = [*clocks, *(array for part in self._parts for array in part)]

    def columns(self, rows: int, texts: Sequence[str]) -> list[pa.Array]:
        """The columns of the first rows."""
        pairs = zip(self._outputs, self._parts, strict=True)
        return [output.array(part, rows, texts) for output, part in pairs]

    def clock(self, at: int, rows: int) -> npt.NDArray[np.int64]:
        """The ticks of the first rows (0), or their `_last` (1) where the code writes it."""
        found: npt.NDArray[np.int64] = self.arrays[at][:rows].view(np.int64)
        return found

    def values(self, column: int, rows: int) -> npt.NDArray[np.int64]:
        """The integers of a column, anything where NULL."""
        return self._parts[column][0][:rows].view(np.int64)
