"""JSON lines: parses lines with Python's decoder, and takes the values of the fields by name.

Between `blocks` and `reader`. A line that is no object is malformed, and so is one with a value of another type.
Arrow's reader is not used: hostile lines end its process (ADR 63).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from types import NoneType
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.capture.formats.sources import Source
from lowwater.capture.tables.blocks import (
    ENCODING,
    LONG,
    SYNTAX,
    Block,
    Piece,
    Places,
    Refusals,
    TextBlocks,
    make_piece,
)
from lowwater.capture.tables.delimited import type_name, with_ends
from lowwater.catalog.records import INSTANT, ISO, LIST, PROTOCOL_NAME, SECONDS, RecordField, RecordLayout
from lowwater.catalog.values import Type
from lowwater.errors import ConfigError
from lowwater.limits import EVENT_TYPES, JSON_OBJECT_BYTES


class _Decimal(str):
    """A number with a fraction, as written, so that a time keeps all of its digits."""

    __slots__ = ()


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
    INSTANT: ((_Decimal, int, str), pa.string()),
    PROTOCOL_NAME: ((int, str), pa.string()),
    LIST: ((str,), pa.string()),
}
_TYPE_KEYS = {"suricata": "event_type", "zeek": "_path"}
"""Tool -> member with the type of an event. Zeek writes it only where it sends logs as one stream."""

_SAMPLED = 100
"""Events of a piece in which names that no field reads are looked for."""


class JsonParser:
    """Parses a file of JSON lines; iterate it once.

    Args:
        source: its decompressed bytes.
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
        exact = any(field.form in (SECONDS, INSTANT) for field in layout.fields)
        decoder = json.JSONDecoder(parse_float=_Decimal if exact else None, parse_constant=_refuse)
        self._scan: Callable[[str, int], tuple[Any, int]] = decoder.scan_once  # type: ignore[attr-defined]

    def __iter__(self) -> Iterator[Callable[[], Piece]]:
        """Yields the work on each block, in order."""
        for block in self.blocks:
            yield partial(self.piece, block)

    def piece(self, block: Block) -> Piece:
        """Parses the lines of a block."""
        places = Places(block.offset + block.begins, block.ends - block.begins, block.lines)
        refusals = Refusals(len(block))
        refusals.add(np.flatnonzero(block.long), LONG)
        refusals.add(block.no_utf8(), ENCODING)
        parsed: list[int] = []
        unread: list[int] = []
        values: list[list[Any]] = [[] for _ in self._layout.fields]
        objects: list[dict[str, Any]] = []
        sample: list[dict[str, Any]] = []
        size = 0
        left_out: Counter[str] = Counter()
        overhead = 0
        for index in np.flatnonzero(refusals.codes == 0).tolist():
            found = self._object(block.record(index))
            kind = None if found is None else self._other_type(found)
            if found is None:
                unread.append(index)
            elif kind is not None:
                overhead += int(places.lengths[index])
                left_out[kind if kind in left_out or len(left_out) < EVENT_TYPES else "others"] += 1
            else:
                parsed.append(index)
                objects.append(found)
                size += int(places.lengths[index])
                if size > JSON_OBJECT_BYTES:
                    self._extend(values, objects)
                    sample = sample or objects[:_SAMPLED]
                    objects, size = [], 0
        self._extend(values, objects)
        sample = sample or objects[:_SAMPLED]
        refusals.add(np.array(unread, np.int64), SYNTAX)
        columns = [_column(column, field) for column, field in zip(values, self._layout.fields, strict=True)]
        raw, refused = [column for column, _ in columns], [flags for _, flags in columns]
        absent = frozenset(
            field.name
            for field, column, flags in zip(self._layout.fields, raw, refused, strict=True)
            if column.null_count == len(column) and not flags.any()
        )
        if self._layout.format:
            raw = with_ends(self._layout, raw)
        piece = make_piece(self._layout, places, np.array(parsed, np.int64), raw, refusals, refused)
        unknown = self._unknown(sample, absent) if sample and absent else frozenset()
        return replace(
            piece,
            left_out=tuple(left_out.items()),
            overhead=overhead,
            absent=absent if sample else None,
            unknown=unknown,
        )

    def _unknown(self, sample: Sequence[dict[str, Any]], absent: Collection[str]) -> frozenset[str]:
        """Returns the names that no field reads, and that stand beside an absent one in every event of a sample."""
        paths = {path for field in self._layout.fields for path in (field.path, *field.others)}
        known = {path[:end] for path in paths for end in range(1, len(path) + 1)}
        known |= {(name,) for name in _TYPE_KEYS.values()}
        unknown: set[str] = set()
        for above in {field.path[:-1] for field in self._layout.fields if field.name in absent}:
            beside = [found for event in sample if isinstance(found := _logged(event, above), dict)]
            shared = set.intersection(*map(set, beside)) if beside else set()
            unknown |= {".".join((*above, name)) for name in shared if (*above, name) not in known}
        return frozenset(type_name(name) for name in unknown)

    def _extend(self, values: list[list[Any]], objects: list[dict[str, Any]]) -> None:
        """Adds the values of objects to the columns."""
        for column, field in zip(values, self._layout.fields, strict=True):
            told = self._values(objects, field)
            if not {list, dict}.isdisjoint(map(type, told)):
                # A block of lists would be many times larger in memory than in its file, and no field reads one.
                told = [_COMPOUND if isinstance(value, (list, dict)) else value for value in told]
            column += told

    def _values(self, objects: list[dict[str, Any]], field: RecordField) -> list[Any]:
        if not self._layout.format:
            if len(field.path) == 1:
                (name,) = field.path
                return [parsed.get(name) for parsed in objects]
            return [_value(parsed, field.path) for parsed in objects]
        paths = (field.path, *field.others)
        values = [_first(parsed, paths) for parsed in objects]
        if field.form == LIST:
            return [_listed(value) for value in values]
        return values

    def _other_type(self, parsed: dict[str, Any]) -> str | None:
        """Returns the type of an event that is not of the protocol; None for an event that is."""
        key = _TYPE_KEYS.get(self._layout.format)
        if key is None or (key == "_path" and key not in parsed):
            return None
        kind = parsed.get(key)
        return None if kind == self._layout.member else type_name(kind if isinstance(kind, str) else "")

    def _object(self, line: bytes) -> dict[str, Any] | None:
        try:
            text = line.decode("utf-8").strip(_BLANKS)
            parsed, end = self._scan(text, 0)
        except (ValueError, RecursionError, StopIteration):
            return None
        return parsed if end == len(text) and isinstance(parsed, dict) else None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no value of JSON")


def _value(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def _logged(value: Any, path: tuple[str, ...]) -> Any:
    """Returns a member of an event; of a list on the way, that of its first element."""
    for name in path:
        if isinstance(value, list):
            value = value[0] if value else None
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def _first(found: Any, paths: tuple[tuple[str, ...], ...]) -> Any:
    return next((value for path in paths if (value := _logged(found, path)) is not None), None)


def _listed(value: Any) -> Any:
    """Returns a list as text: its elements with commas between them, `\\x2c` for a comma inside of one.

    A list of objects, and an object, are JSON. A value that is nested too deeply becomes bytes, which no field accepts.
    """
    try:
        if isinstance(value, list) and not any(isinstance(part, dict | list) for part in value):
            return ",".join(_element(part).replace(",", "\\x2c") for part in value)
        return value if value is None else _element(value)
    except RecursionError:
        return b""


def _element(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "T" if value else "F"
    return json.dumps(_with_floats(value)) if isinstance(value, dict | list) else str(value)


def _with_floats(value: Any) -> Any:
    """Returns a value of JSON with plain numbers."""
    if isinstance(value, dict):
        return {name: _with_floats(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_with_floats(part) for part in value]
    return float(value) if isinstance(value, _Decimal) else value


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
    if field.form in (SECONDS, INSTANT, PROTOCOL_NAME):
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
