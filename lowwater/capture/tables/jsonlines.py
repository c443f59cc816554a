"""JSON lines: parses lines with Python's decoder, and takes the values of the fields by name.

Between `blocks` and `reader`. A line that is no object is malformed, and so is one with a value of another type.
Arrow's reader is not used: hostile lines end its process (ADR 63).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from types import NoneType
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.capture.formats.sources import Source
from lowwater.capture.tables.blocks import Block, TextBlocks
from lowwater.capture.tables.pieces import ENCODING, LONG, SYNTAX, Piece, Places, Refusals, make_piece
from lowwater.catalog.records import ISO, SECONDS, RecordField, RecordLayout
from lowwater.catalog.types import Type
from lowwater.errors import ConfigError


class _Decimal(str):
    """A number with a fraction, as written, so that a time keeps all of its digits."""

    __slots__ = ()


DECODED_BYTES = 1 << 18
"""Bytes of lines whose objects are in memory at a time: they take many times as much."""

_BLANKS = " \t\n\r"
_COMPOUND = object()
"""Stands for a list or an object, which no field reads."""

_TYPES: dict[Type, tuple[tuple[type, ...], pa.DataType]] = {
    Type.BOOL: ((bool,), pa.bool_()),
    Type.INT: ((int,), pa.int64()),
    Type.FLOAT: ((float, int), pa.float64()),
    Type.STRING: ((str,), pa.string()),
    Type.IP: ((str,), pa.string()),
}
_FORMS: dict[str, tuple[tuple[type, ...], pa.DataType]] = {
    SECONDS: ((_Decimal, int, str), pa.string()),
    ISO: ((str,), pa.string()),
}


class JsonParser:
    """Parses a file of JSON lines; iterate it once.

    Args:
        source: its decompressed bytes.
        layout: the fields, by name.
        damaged: as for `TextBlocks`.

    Attributes:
        blocks: the blocks of the file.
        overhead: 0; the file has no header.

    Raises:
        ConfigError: a field is read by position.
    """

    overhead = 0

    def __init__(self, source: Source, layout: RecordLayout, damaged: Callable[[], bool]) -> None:
        for field in layout.fields:
            if field.position is not None:
                raise ConfigError(
                    f"{field.name} of {layout.protocol} reads column {field.position}, and JSON lines have names",
                    f"write a name: {field.name} get_csv_{field.type} (name '{field.name}')",
                )
        self.blocks = TextBlocks(source, damaged=damaged)
        self._layout = layout
        exact = any(field.form == SECONDS for field in layout.fields)
        decoder = json.JSONDecoder(parse_float=_Decimal if exact else None, parse_constant=_refuse)
        self._scan: Callable[[str, int], tuple[Any, int]] = decoder.scan_once  # type: ignore[attr-defined]

    def __iter__(self) -> Iterator[Callable[[], Piece]]:
        """Yields the work on each block, in order."""
        for block in self.blocks:
            yield partial(self._piece, block)

    def _piece(self, block: Block) -> Piece:
        places = Places(block.offset + block.begins, block.ends - block.begins, block.lines)
        refusals = Refusals(len(block))
        refusals.add(np.flatnonzero(block.long), LONG)
        refusals.add(block.no_utf8(), ENCODING)
        parsed: list[int] = []
        unread: list[int] = []
        values: list[list[Any]] = [[] for _ in self._layout.fields]
        records: list[dict[str, Any]] = []
        size = 0
        for index in np.flatnonzero(refusals.codes == 0).tolist():
            line = block.record(index)
            found = self._object(line)
            if found is None:
                unread.append(index)
                continue
            parsed.append(index)
            records.append(found)
            size += len(line)
            if size > DECODED_BYTES:
                self._extend(values, records)
                records, size = [], 0
        self._extend(values, records)
        refusals.add(np.array(unread, np.int64), SYNTAX)
        columns = [_column(column, field) for column, field in zip(values, self._layout.fields, strict=True)]
        raw, refused = [column for column, _ in columns], [flags for _, flags in columns]
        return make_piece(self._layout, places, np.array(parsed, np.int64), raw, refusals, refused)

    def _extend(self, values: list[list[Any]], records: list[dict[str, Any]]) -> None:
        """Adds the values of records to the columns."""
        for column, field in zip(values, self._layout.fields, strict=True):
            if len(field.path) == 1:
                (name,) = field.path
                told = [record.get(name) for record in records]
            else:
                told = [_value(record, field.path) for record in records]
            if not {list, dict}.isdisjoint(map(type, told)):
                # A block of lists would be many times larger in memory than in its file, and no field reads one.
                told = [_COMPOUND if isinstance(value, (list, dict)) else value for value in told]
            column += told

    def _object(self, line: bytes) -> dict[str, Any] | None:
        try:
            text = line.decode("utf-8").strip(_BLANKS)
            found, end = self._scan(text, 0)
        except (ValueError, RecursionError, StopIteration):
            return None
        return found if end == len(text) and isinstance(found, dict) else None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no value of JSON")


def _value(found: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if not isinstance(found, dict):
            return None
        found = found.get(name)
    return found


def _column(values: list[Any], field: RecordField) -> tuple[pa.Array, NDArray[np.bool_]]:
    """Returns the values of a field, NULL where they have another type, and flags of these."""
    kinds, arrow = _FORMS[field.form] if field.form else _TYPES[field.type]
    refused = np.zeros(len(values), np.bool_)
    if not set(map(type, values)) <= {*kinds, NoneType}:
        if field.type is Type.FLOAT:
            values = [float(value) if type(value) is _Decimal else value for value in values]
        for index, value in enumerate(values):
            if value is not None and type(value) not in kinds:
                refused[index], values[index] = True, None
    if field.form == SECONDS:
        values = [str(value) if type(value) is int else value for value in values]
    try:
        return pa.array(values, arrow), refused
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        for index, value in enumerate(values):
            try:
                pa.scalar(value, arrow)
            except (pa.ArrowException, OverflowError, UnicodeEncodeError):
                refused[index], values[index] = True, None
        return pa.array(values, arrow), refused
