"""JSON lines, and logs of Zeek and nfdump in their own text formats.

Between `blocks` and `reader`. A line that is no object is malformed, and so is one with a value of another type.
Arrow's reader is not used: hostile lines end its process (ADR 63). Logs are read as the ready protocols of
`catalog.protocols` say. A log is text below header lines, which say which columns the records below them have; Zeek
writes JSON lines, too, as Suricata does.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lowwater import errors, limits
from lowwater.capture.formats.sources import Source
from lowwater.capture.tables import blocks, statistics
from lowwater.capture.tables.delimited import Numbers, Section, SectionedParser, Splitter, type_name, with_ends
from lowwater.catalog import protocols, records
from lowwater.catalog.values import Type


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
    records.SECONDS: ((_Decimal, int, str), pa.string()),
    records.ISO: ((str,), pa.string()),
    records.INSTANT: ((_Decimal, int, str), pa.string()),
    records.PROTOCOL_NAME: ((int, str), pa.string()),
    records.LIST: ((str,), pa.string()),
}
_TYPE_KEYS = {"suricata": "event_type", "zeek": "_path"}
"""Tool -> member with the type of an event. Zeek writes it only where it sends logs as one stream."""

_SAMPLED = 100
"""Events of a piece in which names that no field reads are looked for."""


class JsonParser:
    """Parses a file of JSON lines; iterate it once. Raises ConfigError if a field is read by position.

    Args:
        source: its decompressed bytes.
        damaged: as for `TextBlocks`.

    Attributes:
        overhead: 0; the file has no header.
    """

    overhead = 0

    def __init__(self, source: Source, layout: records.RecordLayout, damaged: Callable[[], bool]) -> None:
        for field in layout.fields:
            if field.position is not None:
                raise errors.ConfigError(
                    f"{field.name} of {layout.protocol} reads column {field.position}, and JSON lines have names",
                    f"write a name: {field.name} get_csv_{field.type} (name '{field.name}')",
                )
        self.blocks = blocks.TextBlocks(source, damaged=damaged)
        self._layout = layout
        exact = any(field.form in (records.SECONDS, records.INSTANT) for field in layout.fields)
        decoder = json.JSONDecoder(parse_float=_Decimal if exact else None, parse_constant=_refuse)
        self._scan: Callable[[str, int], tuple[Any, int]] = decoder.scan_once  # type: ignore[attr-defined]

    def __iter__(self) -> Iterator[Callable[[], blocks.Piece]]:
        """Yields the work on each block, in order."""
        for block in self.blocks:
            yield partial(self.piece, block)

    def piece(self, block: blocks.Block) -> blocks.Piece:
        places = blocks.Places(block.offset + block.begins, block.ends - block.begins, block.lines)
        refusals = blocks.Refusals(len(block))
        refusals.add(np.flatnonzero(block.long), blocks.LONG)
        refusals.add(block.no_utf8(), blocks.ENCODING)
        parsed: list[int] = []
        unread: list[int] = []
        values: list[list[Any]] = [[] for _ in self._layout.fields]
        objects: list[dict[str, Any]] = []
        sample: list[dict[str, Any]] = []
        size = 0
        left_out: Counter[str] = Counter()
        telling, told = statistics.TELLING.get(self._layout.format, ()), list[statistics.Told]()
        overhead = 0
        for index in np.flatnonzero(refusals.codes == 0).tolist():
            found = self._object(block.record(index))
            kind = None if found is None else self._other_type(found)
            if found is None:
                unread.append(index)
            elif kind is not None:
                overhead += int(places.lengths[index])
                if kind in telling and (tells := statistics.told(self._layout.format, kind, found)) is not None:
                    told.append(tells)
                left_out[kind if kind in left_out or len(left_out) < limits.EVENT_TYPES else "others"] += 1
            else:
                parsed.append(index)
                objects.append(found)
                size += int(places.lengths[index])
                if size > limits.JSON_OBJECT_BYTES:
                    self._extend(values, objects)
                    sample = sample or objects[:_SAMPLED]
                    objects, size = [], 0
        self._extend(values, objects)
        sample = sample or objects[:_SAMPLED]
        refusals.add(np.array(unread, np.int64), blocks.SYNTAX)
        columns = [_column(column, field) for column, field in zip(values, self._layout.fields, strict=True)]
        raw, refused = [column for column, _, _ in columns], [flags for _, flags, _ in columns]
        written = [others for _, _, others in columns]
        absent = frozenset(
            field.name
            for field, column, flags in zip(self._layout.fields, raw, refused, strict=True)
            if column.null_count == len(column) and not flags.any()
        )
        if self._layout.format:
            raw = with_ends(self._layout, raw)
        piece = blocks.make_piece(self._layout, places, np.array(parsed, np.int64), raw, refusals, refused, written)
        unknown = self._unknown(sample, absent) if sample and absent else frozenset()
        return replace(
            piece,
            left_out=tuple(left_out.items()),
            overhead=overhead,
            absent=absent if sample else None,
            unknown=unknown,
            told=tuple(told),
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
        for column, field in zip(values, self._layout.fields, strict=True):
            told = self._values(objects, field)
            if not {list, dict}.isdisjoint(map(type, told)):
                # A block of lists would be many times larger in memory than in its file, and no field reads one.
                told = [_COMPOUND if isinstance(value, (list, dict)) else value for value in told]
            column += told

    def _values(self, objects: list[dict[str, Any]], field: records.RecordField) -> list[Any]:
        if not self._layout.format:
            if len(field.path) == 1:
                (name,) = field.path
                return [parsed.get(name) for parsed in objects]
            return [_value(parsed, field.path) for parsed in objects]
        paths = (field.path, *field.others)
        values = [_first(parsed, paths) for parsed in objects]
        if field.form == records.LIST:
            return [_all_listed(value) for value in values]
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


def _all_listed(value: Any) -> Any:
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


def _column(values: list[Any], field: records.RecordField) -> tuple[pa.Array, NDArray[np.bool_], Mapping[int, Any]]:
    """Returns the values of a field, NULL where they have another type, flags of these, and the first of them."""
    kinds, arrow = _FORMS[field.form] if field.form else _TYPES[field.type]
    refused = np.zeros(len(values), np.bool_)
    written: dict[int, Any] = {}

    def refuse(index: int, value: Any) -> None:
        if len(written) < blocks.UNREAD_VALUES:
            written[index] = value
        refused[index], values[index] = True, None

    if not set(map(type, values)) <= {*kinds, NoneType}:
        if field.type is Type.FLOAT:
            values = [float(value) if type(value) is _Decimal else value for value in values]
        for index, value in enumerate(values):
            if value is not None and type(value) not in kinds:
                refuse(index, value)
    if field.form in (records.SECONDS, records.INSTANT, records.PROTOCOL_NAME):
        values = [str(value) if type(value) is int else value for value in values]
    try:
        return pa.array(values, arrow), refused, written
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        for index, value in enumerate(values):
            try:
                pa.scalar(value, arrow)
            except (pa.ArrowException, OverflowError, UnicodeEncodeError):
                refuse(index, value)
        return pa.array(values, arrow), refused, written


# nfdump's flows: a header, the flows, and a summary behind them. The columns are found by the header, since versions of
# nfdump have others.

_TIMES = {"ts", "firstSeen"}
"""Names of the clock; a line with one of them between commas is a header."""

_NAMED = {"sa", "da", "srcAddr", "dstAddr"}
"""Names of addresses, one of which every flow has; statistics (`nfdump -s`) have a column `val`."""

_TOTALS = b"flows,bytes,packets,"
_WORDS = (b"Summary", b"No matched flows", b"Time window:", b"Total flows processed:", b"Sys:")
_STATISTICS = "statistics"
_NULL = ("", "0000-00-00 00:00:00.000")


class NfdumpParser(SectionedParser):
    """Parses the CSV of nfdump; iterate it once. Arguments as of `SectionedParser`."""

    def __init__(self, path: Path, source: Source, layout: records.RecordLayout, damaged: Callable[[], bool]) -> None:
        super().__init__(path, source, layout, damaged)
        self._totals = False

    def marks(self, block: blocks.Block) -> NDArray[np.int64]:
        """Returns the lines that do not begin with a digit, and those behind them: totals follow their names."""
        if not len(block):
            return np.empty(0, np.int64)
        first = np.frombuffer(block.data, np.uint8)[block.begins]
        words = np.flatnonzero((first < ord("0")) | (first > ord("9")))
        near = np.concatenate([[0], words, words + 1])
        return np.unique(near[near < len(block)])

    def head(self, line: bytes) -> bool:
        """Reads a line that may be of a header or a summary."""
        line = line.strip()
        totals, self._totals = self._totals, line.startswith(_TOTALS)
        if self._totals or line.startswith(_WORDS):
            return False
        names = [name.strip() for name in line.decode("utf-8", "replace").split(",")]
        if not _TIMES.isdisjoint(names):
            left_out = "" if _NAMED & set(names) else _STATISTICS
            section = Section(Splitter(",", "", _NULL, 0, ()), (), left_out=left_out)
            self.begin_section(names, tuple(names), section)
            return False
        return not totals

    def no_header(self, line: bytes) -> errors.CaptureError:
        return errors.CaptureError(
            f"{self._path}: begins with {line[:60]!r}, and the CSV of nfdump begins with the names of its columns",
            "write it with nfdump -o csv, without -q",
        )

    def other_log(self, name: str) -> errors.CaptureError:
        return errors.CaptureError(
            f"{self._path}: has {name} of nfdump, and {self._layout.protocol} reads flows",
            "write it with nfdump -o csv, without -s",
        )


# Zeek's logs: text below lines `#fields`, or JSON lines. The first line of a file says which. (Zeek's ASCII writer:
# src/logging/writers/ascii, src/threading/formatters/Ascii.cc.)

_HASH, _BRACE = ord("#"), ord("{")
_ESCAPE = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|(\\))")
_BARE = ("separator", "set_separator", "empty_field", "unset_field", "path", "fields")


class ZeekParser(SectionedParser):
    """Parses a log of Zeek; iterate it once. Arguments as of `SectionedParser`."""

    def __init__(self, path: Path, source: Source, layout: records.RecordLayout, damaged: Callable[[], bool]) -> None:
        super().__init__(path, source, layout, damaged)
        self._objects = JsonParser(source, layout, damaged)
        # section of records that tell drops -> their type, columns and separator
        self._telling: dict[int, tuple[str, list[str], str]] = {}
        self._said: dict[str, str] = {}
        self._separator = "\t"
        self._json: bool | None = None

    def __iter__(self) -> Iterator[Callable[[], blocks.Piece]]:
        for block in self.blocks:
            if self._json is None and len(block):
                self._json = block.data[block.begins[0]] == _BRACE
            yield partial(self._objects.piece, block) if self._json else partial(self.piece, block, self.numbers(block))
        self.check()

    def marks(self, block: blocks.Block) -> NDArray[np.int64]:
        """Returns the indices of the lines that begin with `#`. Zeek escapes it where a value begins with it."""
        if not len(block):
            return np.empty(0, np.int64)
        return np.flatnonzero(np.frombuffer(block.data, np.uint8)[block.begins] == _HASH)

    def head(self, line: bytes) -> bool:
        """Reads a line with `#`; lines with other words, such as `#close`, are comments."""
        text = line.decode("utf-8", "replace").rstrip("\r\n")[1:]
        if text.startswith("separator "):
            self._separator = self._one_character(text.partition(" ")[2])
            self._said = {}
            return False
        word, _, value = text.partition(self._separator)
        if word in _BARE:
            self._said[word] = value
        if word == "fields":
            if "\ufffd" in text:
                raise errors.CaptureError(f"{self._path}: its line #fields is not UTF-8", "check kind of the link")
            self._begin(value.split(self._separator))
        return False

    def no_header(self, line: bytes) -> errors.CaptureError:
        """Returns the error for a log without `#fields`; `line` is its first record."""
        return errors.CaptureError(
            f"{self._path}: has no line #fields, and is no JSON: its first record is {line[:60]!r}",
            'give the log as Zeek wrote it, or describe its columns in a PROTOCOL block and write kind = "csv"',
        )

    def _one_character(self, text: str) -> str:
        value = _unescaped(text.encode())
        if len(value) != 1 or value in b"\n\r\0#" or value[0] > 0x7E:
            raise errors.CaptureError(
                f"{self._path}: its line #separator says {text[:40]!r}, and a separator is one character of ASCII",
                "write the log with Zeek's own separator, or as JSON",
            )
        return value.decode("ascii")

    def _begin(self, names: list[str]) -> None:
        path = self._said.get("path", "")
        unset = self._said.get("unset_field", "-")
        lists = self._said.get("set_separator", ",")
        empty = self._said.get("empty_field", "(empty)")
        key = (self._separator, lists, empty, unset, path, tuple(names))
        left_out = "" if belongs(path, self._layout.member) else type_name(path)
        section = Section(Splitter(self._separator, "", (unset,), 0, ()), (), lists, empty, left_out)
        self.begin_section(names, key, section)
        if left_out in statistics.TELLING["zeek"]:
            self._telling[self._headers[key]] = left_out, names, self._separator

    def piece(self, block: blocks.Block, numbers: Numbers) -> blocks.Piece:
        piece, told = super().piece(block, numbers), []
        for at in np.flatnonzero(np.isin(numbers, list(self._telling))).tolist() if self._telling else ():
            kind, names, separator = self._telling[int(numbers[at])]
            values = block.record(at).decode("utf-8", "replace").rstrip("\r\n").split(separator)
            if (tells := statistics.told("zeek", kind, dict(zip(names, values, strict=False)))) is not None:
                told.append(tells)
        return replace(piece, told=tuple(told))

    def other_log(self, name: str) -> errors.CaptureError:
        """Returns the error for a file without records of the protocol; `name` is the type that it has."""
        named = [
            protocol.name
            for protocol in protocols.READY.values()
            if protocol.layout is not None
            and protocol.layout.format == self._layout.format
            and belongs(name, protocol.layout.member)
        ]
        hint = f"name {named[0]} in FROM" if named else 'describe it in a PROTOCOL block, and write kind = "csv"'
        message = f"{self._path}: is the log {name!r} of Zeek, and {self._layout.protocol} reads"
        return errors.CaptureError(f"{message} {self._layout.member!r}", hint)

    def values(self, section: Section, fields: tuple[records.RecordField, ...], raw: list[pa.Array]) -> list[pa.Array]:
        """Returns the texts without Zeek's signs: `(empty)` is the empty text, `\\x09` a tab.

        Sets and vectors have commas between their elements, and keep `\\x2c` for a comma inside of one.
        """
        columns = []
        for field, values in zip(fields, raw, strict=True):
            if field.type is Type.STRING and not field.form:
                columns.append(_plain(_emptied(values, section.empty)))
            elif field.form == records.LIST:
                columns.append(_listed(_emptied(values, section.empty), section.lists))
            else:
                columns.append(values)
        return columns


def belongs(path: str, member: str) -> bool:
    """Whether a log is of a type: sites add words to the name, as in `conn_long`."""
    return not path or path == member or (path.startswith(member) and not path[len(member)].isalnum())


def _emptied(values: pa.Array, empty: str) -> pa.Array:
    return pc.if_else(pc.equal(values, empty), "", values) if empty else values


def _listed(values: pa.Array, separator: str) -> pa.Array:
    """Returns lists with commas between their elements, without escapes but `\\x2c`."""

    def written(text: str) -> str:
        elements = text.split(separator) if separator else [text]
        return ",".join(_zeek_text(element).replace(",", "\\x2c") for element in elements)

    odd = pc.match_substring(values, "\\")
    if separator != ",":
        odd = pc.or_(odd, pc.or_(pc.match_substring(values, ","), pc.match_substring(values, separator)))
    return _each_text(values, odd, written)


def _plain(values: pa.Array) -> pa.Array:
    return _each_text(values, pc.match_substring(values, "\\"), _zeek_text)


def _each_text(values: pa.Array, odd: pa.Array, change: Callable[[str], str]) -> pa.Array:
    """Changes the texts; calls the function only if one of them is odd, and once for equal texts."""
    if not pc.any(odd).as_py():
        return values
    encoded = values.dictionary_encode()
    texts = [change(text) for text in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices)


def _zeek_text(written: str) -> str:
    """Returns a text without escapes; bytes that are no UTF-8 stay `\\xff`, as in Zeek's JSON."""
    return _unescaped(written.encode()).decode("utf-8", "backslashreplace")


def _unescaped(text: bytes) -> bytes:
    return _ESCAPE.sub(lambda match: match[2] or bytes.fromhex(match[1].decode("ascii")), text)
