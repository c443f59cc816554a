"""Proposes how the records of a file are read that nobody has described: tool, format, columns, clock."""

from __future__ import annotations

import codecs
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lowwater import instants, limits
from lowwater.capture.formats import archives, sources
from lowwater.capture.tables import columnar, delimited, logs
from lowwater.capture.tables.blocks import Flags, nanoseconds, typed
from lowwater.capture.tables.options import TextOptions
from lowwater.catalog.protocols import READY
from lowwater.catalog.records import ISO, SECONDS, RecordField, RecordLayout
from lowwater.catalog.values import Type
from lowwater.errors import CaptureError
from lowwater.storage.failures import hint_of

# Samples of files. The sample of a text file is whole lines from its begin, its middle and its end, in bounded time and
# memory; a compressed file is decompressed up to SAMPLE_UNPACKED_BYTES. The type of a column is the narrowest by which
# the reader can read nearly all values: each is tried with the conversions of the reader (`capture.tables.blocks`), so
# a proposal holds for the values that it was made from.


_STEP = 1 << 20


@dataclass(frozen=True)
class TextSample:
    """Some lines of a text file."""

    compression: str  # name of the compression; empty for a plain file
    pieces: tuple[bytes, ...]  # whole lines in the order of the file, the first piece from its begin
    whole: bool  # whether the pieces are the file
    head: bytes  # its first bytes, at least those that tell an archive


def sample_text(path: Path) -> TextSample:
    """Reads a sample of a text file. Raises CaptureError if the file cannot be read."""
    _, stream = sources.open_source(path)
    try:
        stored = sources.PeekableSource(stream)
        with closing(stored):
            compression = sources.compression_of(stored.peek(32))
            if not compression:
                return _plain(stored, stream.size)
            unpacked = sources.DecompressedSource(stored, hashed=False)
            with closing(unpacked):
                return _unpacked(compression, unpacked)
    except OSError as error:
        raise CaptureError(f"{path}: cannot be read: {error.strerror}", "check the path") from error


def _plain(source: sources.PeekableSource, size: int) -> TextSample:
    first = _take(source, limits.SAMPLE_FIRST_BYTES)
    if len(first) < limits.SAMPLE_FIRST_BYTES or not source.rewinds:
        return TextSample("", (_lines(first, begin=True, end=True),), True, first[: archives.HEAD])
    pieces = [_lines(first, begin=True, end=False)]
    for offset in (size // 2, size - limits.SAMPLE_LATER_BYTES):
        if offset >= limits.SAMPLE_FIRST_BYTES:
            source.rewind(offset)
            pieces.append(_lines(_take(source, limits.SAMPLE_LATER_BYTES), begin=False, end=False))
    return TextSample("", tuple(pieces), False, first[: archives.HEAD])


def _unpacked(compression: str, source: sources.Source) -> TextSample:
    first = _take(source, limits.SAMPLE_FIRST_BYTES)
    if len(first) < limits.SAMPLE_FIRST_BYTES:
        return TextSample(compression, (_lines(first, begin=True, end=True),), True, first[: archives.HEAD])
    steps: list[bytes] = []
    size = len(first)
    while size < limits.SAMPLE_UNPACKED_BYTES and (step := _take(source, _STEP)):
        size += len(step)
        steps.append(step[: limits.SAMPLE_LATER_BYTES] if len(step) == _STEP else step[-limits.SAMPLE_LATER_BYTES :])
    chosen = dict.fromkeys((len(steps) // 2, len(steps) - 1)) if steps else {}
    later = tuple(_lines(steps[number], begin=False, end=False) for number in chosen)
    pieces = (_lines(first, begin=True, end=False), *later)
    return TextSample(compression, pieces, False, first[: archives.HEAD])


def _take(source: sources.Source, size: int) -> bytes:
    buffer, filled = bytearray(size), 0
    view = memoryview(buffer)
    while filled < size and (count := source.readinto(view[filled:])):
        filled += count
    return bytes(view[:filled])


def _lines(data: bytes, begin: bool, end: bool) -> bytes:
    """Returns the whole lines of a piece.

    Args:
        data: bytes of a file.
    """
    first = 0 if begin else data.find(b"\n") + 1
    last = len(data) if end else data.rfind(b"\n") + 1
    return data[first:last]


BEARABLE = 0.001
"""Largest share of the values of a column that its proposed type may refuse."""

NULLS = ("-", "NA", "N/A", "null", "NULL", "\\N", "nan", "NaN", "None")
"""Texts that stand for NULL in a column whose other values are no texts."""

UNITS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_EARLIEST, _LATEST = 315_532_800, 4_133_980_800
"""Instants from 1980 to 2100, s: integers between them, in some unit, are times."""

_PROBED = 200
_LEADING_ZERO = r"^[-+]?0[0-9]"


@dataclass(frozen=True)
class Kind:
    """The type of a column, and its values as instants if they are times."""

    type: Type
    form: str = ""  # form of a time, as in `RecordField`
    unit: str = ""  # unit in which a time is proposed: `s`, `ms`, `us` or `ns`; empty for any other column
    bounds: tuple[int, int] | None = None  # smallest and largest integer; None for other types
    # instants of the values, ns, -1 for NULL and for values that are refused; None for no times
    stamps: NDArray[np.int64] | None = None
    nulls: tuple[str, ...] = ()  # texts, beside the empty one, that stand for NULL
    refused: int = 0  # number of values that the type refuses
    empty: bool = False  # whether no value of the sample tells the type
    comma: str = ""  # a value with a comma, where nearly all could be numbers by it; empty for none


def kind_of_texts(texts: pa.Array, numbers: bool = True) -> Kind:
    """Returns the type of a column of texts.

    Args:
        texts: strings, NULL for absent values.
        numbers: whether a text may be a number or a boolean; False for texts of JSON.
    """
    if texts.null_count == len(texts):
        return Kind(Type.STRING, empty=True)
    kind = _plain_kind(texts, numbers)
    if kind.type is not Type.STRING or not numbers:
        return kind
    marks = pc.is_in(pc.utf8_trim_whitespace(texts), pa.array(NULLS)).fill_null(False)
    without = pc.if_else(marks, pa.scalar(None, pa.string()), texts)
    if without.null_count in (texts.null_count, len(texts)):
        return kind
    other = _plain_kind(without, numbers)
    if other.type is Type.STRING:
        return kind
    marked = pc.unique(pc.utf8_trim_whitespace(texts.filter(marks))).to_pylist()
    return replace(other, nulls=tuple(sorted(marked)))


def kind_of_values(values: pa.Array) -> Kind | None:
    """Returns the type of a column that its file has typed; None for types without a counterpart."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return kind_of_values(values.dictionary_decode())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind):
        texts, bad = typed(values, RecordField("", Type.STRING))
        fitting = kind_of_texts(texts)
        # A file of typed columns has NULL itself, so a dash in it is a text.
        fitting = Kind(Type.STRING) if fitting.nulls else fitting
        return None if bad.any() else fitting
    if pa.types.is_timestamp(kind):
        return _instants(values, ISO)
    if pa.types.is_boolean(kind):
        return Kind(Type.BOOL)
    if pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0):
        return _fitting(values, Type.INT) or Kind(Type.FLOAT)
    if pa.types.is_decimal(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind):
        times = None if pa.types.is_float32(kind) else _instants(values, SECONDS)
        return times or _fitting(values, Type.FLOAT)
    return None


def _plain_kind(texts: pa.Array, numbers: bool) -> Kind:
    """Returns the first type in the order of narrowness that reads nearly all texts."""
    padded = bool(pc.any(pc.match_substring_regex(texts, _LEADING_ZERO)).as_py())
    plain = not padded or bool(pc.any(pc.match_substring(texts, ".")).as_py())
    fitting: Kind | None = None
    if numbers and not padded:
        fitting = _fitting(texts, Type.INT)
    if fitting is None and numbers and plain:
        fitting = _instants(texts, SECONDS) or _fitting(texts, Type.FLOAT)
    if fitting is None and numbers:
        fitting = _fitting(texts, Type.BOOL)
    return fitting or _fitting(texts, Type.IP) or _instants(texts, ISO) or Kind(Type.STRING)


def _fitting(values: pa.Array, kind: Type) -> Kind | None:
    """Returns a type if it reads nearly all of the values."""
    column, refused = _read(values, RecordField("", kind))
    if column is None:
        return None
    if kind is not Type.INT:
        return Kind(kind, refused=refused)
    bounds = pc.min_max(column)
    least, most = bounds["min"].as_py() or 0, bounds["max"].as_py() or 0
    fitting = Kind(kind, bounds=(least, most), refused=refused)
    unit = next((name for name, size in UNITS.items() if _timely(least, size) and _timely(most, size)), "")
    if not unit:
        return fitting
    stamps, null = nanoseconds(column, RecordField("", kind), UNITS[unit])
    return replace(fitting, unit=unit, stamps=np.where(null, -1, stamps))


def _timely(value: int, unit: int) -> bool:
    return _EARLIEST <= value * unit // 1_000_000_000 < _LATEST


def _instants(values: pa.Array, form: str) -> Kind | None:
    """Returns the kind of a time in a form if it reads nearly all of the values, and decimal seconds are near today."""
    field = RecordField("", Type.INT, form=form)
    column, refused = _read(values, field)
    if column is None:
        return None
    stamps, null = nanoseconds(column, field, 1)
    stamps = np.where(null, -1, stamps)
    told = stamps[stamps >= 0]
    if not len(told):
        return None
    if form == SECONDS and not (_timely(int(told.min()), 1) and _timely(int(told.max()), 1)):
        return None
    unit = next(name for name, size in UNITS.items() if not np.any(told % size))
    return Kind(Type.INT, form, unit, None, stamps, refused=refused)


def _read(values: pa.Array, field: RecordField) -> tuple[pa.Array | None, int]:
    """Converts values as the reader does; None if that refuses too many, which few of them show at first."""
    told = values.drop_null()
    if not len(told):
        return None, 0
    step = max(len(told) // _PROBED, 1)
    probe = told.take(pa.array(np.arange(0, len(told), step)))
    if _refused(typed(probe, field)[1]) > max(len(probe) * BEARABLE * 10, 1 if len(told) > 1 / BEARABLE else 0):
        return None, 0
    column, bad = typed(values, field)
    refused = _refused(bad)
    return (column, refused) if refused <= len(told) * BEARABLE else (None, refused)


def _refused(flags: Flags) -> int:
    return int(np.count_nonzero(flags))


@dataclass(frozen=True)
class Column:
    """A column that can be read."""

    name: str  # its name in the file; empty without one
    position: int | None  # its number in the file, from 1; None in JSON
    path: tuple[str, ...]  # names that lead to it; empty without a name
    kind: Kind
    rises: bool = False  # whether it holds integers that never fall, at least two of them different
    absent: int = 0  # records of the sample that are not among the values of its type, since they have none
    odd: str = ""  # which values are no times, in words, where nearly all others are; else empty

    @property
    def label(self) -> str:
        """Its name for messages."""
        return self.name or f"column {self.position}"


@dataclass
class SniffedColumns:
    """The columns of a sample."""

    columns: list[Column] = field(default_factory=list)
    records: int = 0  # number of records of the sample
    left_out: dict[str, str] = field(default_factory=dict)  # column that cannot be read -> why


# The clock of a sample. The skew of the link bounds the disorder of its clock, so the smallest one keeps the most
# records for the least waiting.

NEARLY = 0.999
"""Share of the records whose lateness is compared."""

_DAY = 24 * instants.HOUR

FALLING = 0.9
"""Share of the steps that go back in a column that falls."""


@dataclass(frozen=True)
class Disorder:
    """How far the instants of a column run behind the largest one before them."""

    absent: int  # number of records without an instant
    largest: int  # largest lateness, ns
    nearly: int  # lateness that the share NEARLY of the records does not exceed, ns
    falls: bool  # whether the column goes back at nearly every step
    constant: bool  # whether all instants are equal, of two at least
    days: bool = False  # whether all instants are midnights, of two at least


def disorder(stamps: NDArray[np.int64], absent: int = 0) -> Disorder:
    """Measures the disorder of instants.

    Args:
        stamps: instants in the order of the file, ns; -1 for none.
        absent: number of further records without an instant.
    """
    told = stamps[stamps >= 0]
    if not len(told):
        return Disorder(len(stamps) + absent, 0, 0, False, True)
    late = np.maximum.accumulate(told) - told
    steps = np.diff(told)
    moved = np.count_nonzero(steps)
    return Disorder(
        absent=len(stamps) - len(told) + absent,
        largest=int(late.max()),
        nearly=int(np.sort(late)[int(np.ceil(NEARLY * len(late))) - 1]),
        falls=bool(moved > 1 and np.count_nonzero(steps < 0) >= FALLING * moved),
        constant=len(told) > 1 and not moved,
        days=len(told) > 1 and not np.any(told % _DAY),
    )


# Which tool wrote a log

_LINES = 1000
"""Most lines of a sample that are looked at."""

_LONGEST = 1 << 16
"""Longest line that is looked at, bytes."""

_KNOWN = 0.75
"""Least share of the members of an object that a protocol of Zeek knows: a log of another type shares the flow."""

_HINT = "leave it out, or describe its columns in a PROTOCOL block, as docs/records.md shows"


@dataclass(frozen=True)
class SniffedLog:
    """A log that a ready protocol reads."""

    kind: str  # kind of its link: `zeek`, `suricata` or `nfdump`
    protocol: str
    others: Mapping[str, int]  # ready protocols of further records of the sample -> number of these records

    @property
    def layout(self) -> RecordLayout:
        """The fields of its records."""
        return _layout(self.protocol)


def sniff_log(path: Path) -> SniffedLog | None:
    """Finds the ready protocol of a log; None if the file is no log of a tool.
    Raises CaptureError if the file cannot be read, or its tool has no ready protocol for this log."""
    sample = sample_text(path)
    lines = [line.strip() for piece in sample.pieces for line in piece.split(b"\n")[: _LINES // len(sample.pieces)]]
    lines = [line.removeprefix(b"\xef\xbb\xbf") for line in lines if 0 < len(line) <= _LONGEST]
    if not lines:
        return None
    if lines[0].startswith((b"#separator ", b"#fields")):
        return _zeek_text(path, lines)
    if lines[0].startswith(b"{"):
        objects = list(_objects(lines))
        return _suricata(path, objects) or _zeek_json(objects)
    return _nfdump(lines)


def _layout(protocol: str) -> RecordLayout:
    layout = READY[protocol].layout
    assert layout is not None
    return layout


def _of_kind(kind: str) -> dict[str, str]:
    """Returns the type of log of each ready protocol of a tool."""
    return {name: _layout(name).member for name, protocol in READY.items() if protocol.kind == kind}


def _log(kind: str, counts: Mapping[str, int]) -> SniffedLog:
    """Returns the log of a tool by the numbers of records of each protocol; that of the most is read."""
    ordered = sorted(counts, key=lambda name: -counts[name])
    return SniffedLog(kind, ordered[0], {name: counts[name] for name in ordered[1:]})


def _zeek_text(path: Path, lines: Sequence[bytes]) -> SniffedLog:
    words = len("#path ")  # whatever the separator
    paths = [line[words:].decode("utf-8", "replace") for line in lines if line.startswith(b"#path")]
    members = _of_kind("zeek")
    counts = Counter(name for said in paths for name, member in members.items() if said and logs.belongs(said, member))
    if counts:
        return _log("zeek", counts)
    said = f"the log {paths[0][:60]!r} of Zeek" if paths else "a log of Zeek without a line #path"
    raise CaptureError(f"{path}: is {said}; ready are {', '.join(members)}", _HINT)


def _objects(lines: Iterable[bytes]) -> Iterable[dict[str, Any]]:
    for line in lines:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def _suricata(path: Path, objects: Sequence[Mapping[str, Any]]) -> SniffedLog | None:
    types = Counter(str(value["event_type"]) for value in objects if {"event_type", "timestamp"} <= value.keys())
    if not types or types.total() * 2 < len(objects):
        return None
    members = _of_kind("suricata")
    counts = {name: types[member] for name, member in members.items() if types[member]}
    if not counts:
        seen = ", ".join(delimited.type_name(kind) for kind in sorted(types)[:10])
        raise CaptureError(
            f"{path}: is an EVE log of Suricata with events {seen}; ready are {', '.join(members)}", _HINT
        )
    return _log("suricata", counts)


def _zeek_json(objects: Sequence[Mapping[str, Any]]) -> SniffedLog | None:
    """Returns the Zeek log whose fields are those of the objects; None if no log has nearly all of them."""
    members = Counter(name for value in objects for name in value if name != "_path")
    flows = members["ts"] * 2 > len(objects) and members["uid"] * 2 > len(objects)
    if not flows or not (members["id.orig_h"] or members["id"]):
        return None
    said = Counter(str(value["_path"]) for value in objects if "_path" in value)
    counts = {name: count for name, kind in _of_kind("zeek").items() if (count := said[kind])}
    if counts:
        return _log("zeek", counts)
    if said:
        return None
    known = {
        name: {".".join(path) for field in _layout(name).fields for path in (field.path, *field.others)} | {"id"}
        for name in _of_kind("zeek")
    }
    shares = {name: sum(members[member] for member in names) / members.total() for name, names in known.items()}
    best = max(shares, key=lambda name: shares[name])
    return SniffedLog("zeek", best, {}) if shares[best] >= _KNOWN else None


def _nfdump(lines: Sequence[bytes]) -> SniffedLog | None:
    """Returns the protocol of nfdump if the first line is its header: the clock and an address, by its names."""
    names = {name.strip() for name in lines[0].decode("utf-8", "replace").split(",")}
    fields = {field.name: {path[0] for path in (field.path, *field.others)} for field in _layout("NFDUMP").fields}
    needed = (fields["timestamp"], fields["srcIP"] | fields["destIP"], fields["ipkt"] | fields["ibyt"])
    return SniffedLog("nfdump", "NFDUMP", {}) if all(names & few for few in needed) else None


# The proposal

# JSON lines and parquet

WHOLE = 0.9
"""Least share of the lines that are objects."""

DEEPEST = 4
"""Most names of a path."""


LONGEST_VALUE = 1024
"""A longer text, in bytes, is a text and nothing else."""

_TOO_MANY = f"it is behind the first {limits.PROPOSED_COLUMNS:,} columns"


def json_columns(sample: TextSample) -> SniffedColumns | None:
    """Returns the columns of JSON lines; None if too many lines are no objects."""
    paths: dict[tuple[str, ...], dict[int, Any]] = {}
    sniffed = SniffedColumns()
    lines = 0
    for piece in sample.pieces:
        for line in piece.splitlines():
            if not line.strip():
                continue
            lines += 1
            record = _object(line)
            if record is None:
                continue
            for path, value in _leaves(record):
                if path in paths or len(paths) < limits.PROPOSED_COLUMNS:
                    paths.setdefault(path, {})[sniffed.records] = value
                else:
                    sniffed.left_out[".".join(path)[:200]] = _TOO_MANY
                    if len(sniffed.left_out) > limits.PROPOSED_COLUMNS:
                        return None
            sniffed.records += 1
    if not sniffed.records or sniffed.records < WHOLE * lines:
        return None
    for path, told in paths.items():
        kind = _json_kind(list(told.values()), path)
        name = ".".join(path)
        if isinstance(kind, str):
            sniffed.left_out[name[:200]] = kind
        else:
            # Values stand for themselves here: a column for each name and a cell for each line would be a square.
            absent = sniffed.records - len(told)
            sniffed.columns.append(Column(name, None, path, kind, _rises(kind, list(told.values())), absent))
    return sniffed


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _leaves(record: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in record.items():
        path = (*above, name)
        if isinstance(value, dict) and len(path) < DEEPEST:
            yield from _leaves(value, path)
        else:
            yield path, value


def kind_of_json(values: list[Any]) -> Kind | None:
    """Returns the type of values of JSON, as Python has them; None for types without a counterpart."""
    kind = _json_kind(values, ())
    return None if isinstance(kind, str) else kind


def kind_of_refused(texts: pa.Array) -> Kind:
    """Returns the type of texts that another type refuses: FLOAT where their comma is, or may be, a decimal one; of
    texts that all stand for NULL, the marks."""
    if all(text.strip() in NULLS for text in texts.to_pylist()):
        return Kind(Type.STRING, nulls=tuple(sorted({text.strip() for text in texts.to_pylist()})))
    kind, (comma, _) = kind_of_texts(texts), _comma(texts)
    return Kind(Type.FLOAT, comma=comma) if kind.type is Type.STRING and comma else kind


def _json_kind(values: list[Any], path: tuple[str, ...]) -> Kind | str:
    """Returns the type of the values of a path, or why it has none."""
    kinds = Counter(type(value) for value in values if value is not None)
    if not kinds:
        return "it has no value in the sample"
    if len(path) > 1 and any("." in name for name in path):
        return "a path of several names has a dot in one of them"
    if not set(kinds) <= {int, float} and len(kinds) > 1:
        (kind, count), *_ = kinds.most_common()
        if count < (1 - BEARABLE) * kinds.total():
            return f"its values are of several types: {', '.join(sorted(_WORDS.get(k, k.__name__) for k in kinds))}"
        values = [value if type(value) is kind else None for value in values]
        kinds = Counter({kind: count})
    if set(kinds) <= {bool}:
        return Kind(Type.BOOL)
    if set(kinds) <= {str}:
        try:
            return kind_of_texts(pa.array(values, pa.string()), numbers=False)
        except (UnicodeEncodeError, pa.ArrowException):
            return "its texts are no UTF-8"
    if set(kinds) <= {int, float}:
        return _numbers(values, kinds)
    return f"its values are {_WORDS.get(kinds.most_common(1)[0][0], 'of another type')}"


def _numbers(values: list[Any], kinds: Counter[type]) -> Kind | str:
    try:
        if float not in kinds:
            return kind_of_values(pa.array(values, pa.int64())) or Kind(Type.INT)
        # Python's text of a float has all digits of a time in microseconds.
        texts = [None if value is None else repr(value) for value in values]
        kind = kind_of_texts(pa.array(texts, pa.string()))
        return kind if kind.type is not Type.STRING and not kind.nulls else Kind(Type.FLOAT)
    except (OverflowError, pa.ArrowException):
        return Kind(Type.FLOAT)


_WORDS = {list: "lists", dict: "objects", str: "texts", int: "numbers", float: "numbers", bool: "booleans"}


def _rises(kind: Kind, values: list[Any]) -> bool:
    if kind.type is not Type.INT or kind.form:
        return False
    told: list[int] = [value for value in values if type(value) is int]
    return len(set(told)) > 1 and all(one <= other for one, other in pairwise(told))


def parquet_columns(path: Path) -> SniffedColumns:
    """Returns the columns of a parquet file, from the first rows of its first, middle and last row group.
    Raises CaptureError if the file cannot be read."""
    sniffed = SniffedColumns()
    with columnar.open_parquet(path) as file:
        leaves: dict[tuple[str, ...], int | None] = {}
        names = Counter(file.schema_arrow.names)
        for number, column in enumerate(file.schema_arrow, 1):
            if names[column.name] > 1:
                sniffed.left_out[column.name[:200]] = "several columns have this name"
                continue
            for leaf in _struct_leaves(column):
                if len(leaves) < limits.PROPOSED_COLUMNS:
                    leaves[leaf] = number if len(leaf) == 1 else None
                else:
                    sniffed.left_out[".".join(leaf)[:200]] = _TOO_MANY
        columns = list(dict.fromkeys(leaf[0] for leaf in leaves))
        columnar.require_pages(path, file, [(column,) for column in columns])
        parts = _parquet_parts(path, file, columns)
    sniffed.records = sum(part.num_rows for part in parts)
    if not sniffed.records:
        raise CaptureError(f"{path}: has no records", "wait until it has some, or leave it out")
    for leaf, position in leaves.items():
        values = _leaf_values(path, parts, leaf)
        if values is None:
            sniffed.columns.append(Column(".".join(leaf), position, leaf, Kind(Type.STRING)))
            continue
        name = ".".join(leaf)
        kind = None if values.null_count == len(values) and not _textual(values.type) else kind_of_values(values)
        if kind is None:
            absent = values.null_count == len(values)
            sniffed.left_out[name[:200]] = "it has no value in the sample" if absent else f"its type is {values.type}"
            continue
        rises = kind.type is Type.INT and not kind.form and pa.types.is_integer(values.type) and _climbs(values)
        sniffed.columns.append(Column(name, position, leaf, kind, rises))
    return sniffed


def _leaf_values(path: Path, parts: list[pa.RecordBatch], leaf: tuple[str, ...]) -> pa.Array | None:
    """Returns the values of a column; None for texts of which some are longer than any number, address or time."""
    try:
        values = [columnar.column_at(part, leaf) for part in parts]
        if max(map(columnar.longest_text, values)) > LONGEST_VALUE:
            return None
        plain = [each.dictionary_decode() if pa.types.is_dictionary(each.type) else each for each in values]
        return pa.chunked_array(plain).combine_chunks()
    except pa.ArrowException as error:
        reason = str(error).splitlines()[0]
        raise CaptureError(f"{path}: is no readable parquet file: {reason}", "write the file again") from error


def _struct_leaves(column: pa.Field, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    path = (*above, column.name)
    if pa.types.is_struct(column.type) and len(path) < DEEPEST:
        for inner in column.type:
            yield from _struct_leaves(inner, path)
    else:
        yield path


def _textual(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary))


def _climbs(values: pa.Array) -> bool:
    steps: NDArray[np.int64] = np.diff(pc.drop_null(values).cast(pa.int64()).to_numpy())
    return bool(len(steps) and np.all(steps >= 0) and np.any(steps))


def _parquet_parts(path: Path, file: pq.ParquetFile, columns: list[str]) -> list[pa.RecordBatch]:
    groups = file.metadata.num_row_groups
    parts: list[pa.RecordBatch] = []
    try:
        for group in sorted({0, groups // 2, groups - 1} & set(range(groups))):
            if file.metadata.row_group(group).total_byte_size > limits.SAMPLE_GROUP_BYTES and parts:
                continue
            batches = file.iter_batches(limits.SAMPLE_ROWS, row_groups=[group], columns=columns, use_threads=False)
            parts += [part for part in [next(batches, None)] if part is not None and part.num_rows]
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise CaptureError(f"{path}: is no readable parquet file: {reason}", "write the file again") from error
    return parts


# Delimited text: separator, quote and header. Each candidate is read by the parser of links, so a proposal divides the
# lines as ingest will.

MOST_HEADERS = 0.1
"""Largest share of the records that may be headers again."""

SEPARATORS = (",", "\t", ";", "|", " ", ":", "^", "\x01")


Candidate = tuple[TextOptions, SniffedColumns]


def separated_columns(sample: TextSample) -> list[Candidate]:
    """Returns the columns by every form of text that divides nearly all records into equally many values, best first.

    A form is better the more of its columns are of a type narrower than text, then the fewer columns it has. Where no
    separator divides the lines, they are one column.
    """
    candidates: list[Candidate] = []
    for separator in SEPARATORS:
        for quote in _quotes(sample.pieces[0], separator):
            found = _columns(sample, TextOptions(separator, quote))
            if found is not None:
                candidates.append(found)
    single = [] if candidates else [_columns(sample, TextOptions(), least=1)]
    return sorted([*candidates, *(found for found in single if found)], key=_worth, reverse=True)


def _worth(candidate: Candidate) -> tuple[int, int]:
    columns = candidate[1].columns
    typed = sum(column.kind.type is not Type.STRING for column in columns)
    return typed, -len(columns)


def _quotes(first: bytes, separator: str) -> list[str]:
    """Returns the quotes to be tried: the common one, then others that the text suggests."""
    mark = separator.encode()
    if mark not in first:
        return []
    others = ["'"] if b"'" + mark in first and mark + b"'" in first else []
    return ['"', *others, *([""] if b'"' in first else [])]


def _columns(sample: TextSample, options: TextOptions, least: int = 2) -> Candidate | None:
    """Returns the columns by a form of text; None where it does not divide the records into equally many values."""
    width = _width(sample.pieces[0], options)
    if not least <= width <= limits.PROPOSED_COLUMNS:
        return None
    parts: list[pa.RecordBatch] = []
    records, starts = 0, False
    for number, piece in enumerate(sample.pieces):
        read = _tables_read(piece, options, width, number == 0)
        if read is None:
            return None
        batches, count, begins = read
        parts += batches
        records += count
        starts = begins if number == 0 else starts
    if not parts:
        return None
    table = _without_headers(pa.Table.from_batches(parts).combine_chunks(), starts)
    if table.num_rows < WHOLE * records:
        return None
    *columns, lines = (column.combine_chunks() for column in table.columns)
    if options.separator == ":" and _cuts_times(columns):
        return None
    commas = [_comma(column.slice(int(starts))) for column in columns]
    decimal = "," if any(sure for _, sure in commas) else "."
    values = [_with_points(column, int(starts)) for column in columns] if decimal == "," else columns
    header = starts and _is_header([column[0].as_py() for column in values], values)
    names = [(column[0].as_py() or "").strip() for column in columns] if header else None
    columns, values = ([column.slice(int(header)) for column in some] for some in (columns, values))
    kinds = [replace(kind_of_texts(column), comma=comma) for column, (comma, _) in zip(values, commas, strict=True)]
    nulls = tuple(dict.fromkeys(("", *(mark for kind in kinds for mark in kind.nulls))))
    made = SniffedColumns(records=len(columns[0]))
    for at, (column, kind) in enumerate(zip(columns, kinds, strict=True)):
        name = names[at] if names else ""
        unique = names is not None and names.count(name) == 1
        rises = kind.type is Type.INT and not kind.form and _separated_rises(column, kind.nulls)
        odd = _odd_times(values[at], lines.slice(int(header))) if kind.type is Type.STRING else ""
        made.columns.append(Column(name, at + 1, (name,) if unique and name else (), kind, rises, odd=odd))
    return TextOptions(options.separator, options.quote, header, nulls, decimal), made


_COMMA = r"^\s*[-+]?[0-9]+(,[0-9]+)?\s*$"
_DECIMAL_COMMA = r"^\s*[-+]?(0+,|[0-9]{4,},|[0-9]+,([0-9]{1,2}|[0-9]{4,})\s*$)"
"""Of numbers with a comma, those in which it cannot stand between thousands."""


def _comma(texts: pa.Array) -> tuple[str, bool]:
    """Returns one of the texts with a comma, where nearly all are numbers with at most one, else an empty text; and
    whether the comma is a decimal one in some, and not between thousands in all."""
    held = pc.match_substring(texts, ",").fill_null(False)
    if not pc.any(held).as_py():
        return "", False
    told = texts.filter(pc.invert(pc.is_in(pc.utf8_trim_whitespace(texts), pa.array(("", *NULLS))))).drop_null()
    numbers = pc.sum(pc.match_substring_regex(told, _COMMA)).as_py() or 0
    if numbers < (1 - BEARABLE) * len(told):
        return "", False
    return texts.filter(held)[0].as_py().strip(), bool(pc.any(pc.match_substring_regex(told, _DECIMAL_COMMA)).as_py())


def _with_points(texts: pa.Array, first: int) -> pa.Array:
    """Returns the texts of a column as the reader reads them by a decimal comma. `first`: where values may begin."""
    pointed = delimited.with_point(texts)
    kinds = (kind_of_texts(each.slice(first)) for each in (pointed, texts))
    return pointed if any(kind.type is Type.FLOAT or kind.form == SECONDS for kind in kinds) else texts


def _cuts_times(columns: Sequence[pa.Array]) -> bool:
    """Whether a colon between columns is one of times: two neighbours are a finer time together."""
    pairs = (pc.binary_join_element_wise(one, other, ":") for one, other in pairwise(columns))
    return any(_instants(pair, ISO) is not None or _nearly(pair, ISO) is not None for pair in pairs)


_NEARLY_TIMES = 0.9
"""Least share of the values of a column that are times, where the others are told."""

_MOST_ODD = 3
"""Most values that are no times in a column of times, and are told with a command that leaves their lines out."""


def _nearly(texts: pa.Array, form: str) -> Flags | None:
    """Returns flags of the texts that are no times of a form; None where too many are not."""
    field = RecordField("", Type.INT, form=form)
    told = texts.drop_null()
    probe = told.take(pa.array(np.arange(0, len(told), max(len(told) // _PROBED, 1))))
    least = (1 - _NEARLY_TIMES) * len(probe)
    if not len(told) or _refused(typed(probe, field)[1]) > max(least, 1):
        return None
    column, bad = typed(texts, field)
    times = column.drop_null()
    if _refused(bad) > max((1 - _NEARLY_TIMES) * len(told), 1) or not len(times):
        return None
    return bad if form == ISO or _timely(pc.min(times).as_py(), 1) else None


def _odd_times(texts: pa.Array, lines: pa.Array) -> str:
    """Says which values of a column are no times, where nearly all are; else an empty text.

    Args:
        texts: the values of a column of texts.
        lines: the line of each, from 1; 0 where it is not known.
    """
    bad = next((bad for form in (ISO, SECONDS) if (bad := _nearly(texts, form)) is not None), None)
    if bad is None or not bad.any():
        return ""
    odd = np.flatnonzero(bad)
    first, shown = int(odd[0]), repr(texts[int(odd[0])].as_py()[:60])
    of = [int(line) for line in lines.take(pa.array(odd[:_MOST_ODD])).to_pylist()]
    if len(odd) > _MOST_ODD or not all(of):
        where = f" in line {of[0]:,}" if of[0] else ""
        return f"not in {len(odd):,} of {len(texts):,} records: {shown}{where} is none"
    where = f"line{'s' if len(of) > 1 else ''} {' and '.join(f'{line:,}' for line in of)}"
    command = (
        f"tail -n +{of[0]}"
        if of == [int(lines[0].as_py())] and not first
        else f"sed '{';'.join(f'{line}d' for line in of)}'"
    )
    return f"not in {where}: {shown} is none; read it again without, such as `{command} OLD > NEW` writes it"


def _without_headers(table: pa.Table, starts: bool) -> pa.Table:
    """Leaves out the records that repeat the first one, where they are few: files that were joined have several."""
    if not starts or not table.num_rows:
        return table
    same = pa.array(np.ones(table.num_rows, np.bool_))
    for column in (column.combine_chunks() for column in table.columns[:-1]):  # the last one has the lines
        equal = pc.equal(column, column[0]).fill_null(False) if column[0].is_valid else column.is_null()
        same = pc.and_(same, equal)
    repeated = pc.sum(same).as_py() - 1
    if not 0 < repeated <= MOST_HEADERS * table.num_rows:
        return table
    kept = pc.invert(same).to_numpy(zero_copy_only=False)
    kept[0] = True
    return table.filter(pa.array(kept))


def _tables_layout(width: int) -> RecordLayout:
    return RecordLayout("", tuple(RecordField(f"c{at}", Type.STRING, at) for at in range(1, width + 1)))


def _width(piece: bytes, options: TextOptions) -> int:
    """Returns the most frequent number of values of the records of a piece; 0 where there are too many."""
    lines = piece.split(b"\n", 1000)[:1000]
    mark = options.separator.encode()
    if (
        piece.count(mark) > limits.SAMPLE_SEPARATORS
        or max(line.count(mark) for line in lines) >= 4 * limits.PROPOSED_COLUMNS
    ):
        return 0
    parser = _parser(piece, options, 1)
    try:
        next(iter(parser))
    except CaptureError:
        return 0
    return parser.width


def _parser(piece: bytes, options: TextOptions, width: int) -> delimited.DelimitedParser:
    source = sources.Stream(io.BytesIO(piece), owned=False)
    plain = TextOptions(options.separator, options.quote, False)
    return delimited.DelimitedParser(Path(), source, _tables_layout(width), plain, lambda: False)


def _tables_read(
    piece: bytes, options: TextOptions, width: int, first: bool
) -> tuple[list[pa.RecordBatch], int, bool] | None:
    """Reads a piece as columns of texts, and one of their lines, 0 if it is not the first piece; None where it has
    another number of values. Returns the whole records, the number of all records, and whether the first one is
    whole."""
    parser = _parser(piece, options, width)
    batches: list[pa.RecordBatch] = []
    records, starts = 0, False
    try:
        for work in parser:
            read = work()
            starts = starts or (not records and len(read.whole) > 0 and int(read.whole[0]) == 0)
            records += len(read.places)
            assert read.places.lines is not None
            lines = read.places.lines[read.whole] if first else np.zeros(len(read.whole), np.int64)
            batches.append(read.columns.append_column("", pa.array(lines)))
    except CaptureError:
        return None
    return (batches, records, starts) if not records or parser.width == width else None


def _is_header(first: list[str | None], columns: list[pa.Array]) -> bool:
    """Whether the first record has the names of the columns: texts above columns of another type."""
    if not any(first) or any(text is not None and len(text) > 200 for text in first):
        return False
    odd = typed = 0
    for text, column in zip(first, columns, strict=True):
        kind = kind_of_texts(column.slice(1))
        if kind.type is Type.STRING:
            continue
        typed += 1
        alone = kind_of_texts(pa.array([None if text in NULLS else text], pa.string()))
        odd += alone.type is Type.STRING and not alone.empty
    return bool(typed) and 2 * odd > typed


def _separated_rises(texts: pa.Array, nulls: tuple[str, ...]) -> bool:
    plain = pc.if_else(pc.is_in(texts, pa.array(nulls, pa.string())), pa.scalar(None, pa.string()), texts).drop_null()
    try:
        steps = np.diff(plain.cast(pa.int64()).to_numpy())
    except pa.ArrowInvalid:
        return False
    return bool(len(steps) and np.all(steps >= 0) and np.any(steps))


TIMES = ("time", "ts", "timestamp", "start", "seconds", "elapsed")
"""Names of a clock whose values are near no instant: times since the begin of a measurement."""

_PARQUET = b"PAR1"


@dataclass(frozen=True)
class SniffedTable:
    """Proposal for the records of a file."""

    kind: str  # kind of the link: `csv`, `json` or `parquet`
    compression: str  # name of the compression; empty for none
    text: TextOptions
    columns: tuple[Column, ...]  # the columns that can be read, in the order of the file
    clock: int | None  # index of the clock in `columns`; None if no column can be the clock
    clockless: str  # why there is no clock; empty if there is one
    unit: str  # unit of the clock: `s`, `ms`, `us` or `ns`
    guessed: bool  # whether the unit of the clock is a guess, since its values are near no instant of today
    left_out: dict[str, str]  # column that cannot be read -> why
    disorders: dict[int, Disorder]  # index of a column of times -> how far it runs behind in the sample
    records: int


def sniff(path: Path) -> SniffedTable:
    """Proposes how the records of a file are read; reads a sample of bounded size.
    Raises CaptureError if the file cannot be read, or is no table of records."""
    try:
        with path.open("rb") as file:
            head = file.read(4)
    except OSError as error:
        raise CaptureError(f"{path}: cannot be read: {error.strerror}", hint_of(error, "check the path")) from error
    if head == _PARQUET:
        return _with_clock("parquet", "", TextOptions(), parquet_columns(path))
    sample = sample_text(path)
    kind, text, columns = _of_text(path, sample)
    return _with_clock(kind, sample.compression, text, columns)


def _of_text(path: Path, sample: TextSample) -> tuple[str, TextOptions, SniffedColumns]:
    first = sample.pieces[0]
    if (archive := archives.archive_of(sample.head)) is not None:
        raise CaptureError(f"{path}: is {archive.what}, and no table", archive.remedy(path))
    if sample.compression and (inner := sources.compression_of(sample.head)):
        raise CaptureError(f"{path}: is compressed again, as {inner}", "decompress it once")
    if not first.strip():
        raise CaptureError(f"{path}: has no records", "wait until it has some, or leave it out")
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise CaptureError(
            f"{path}: is text in UTF-16, and texts are read as UTF-8",
            "write it again, such as `iconv -f utf-16 -t utf-8 OLD > NEW` does",
        )
    if re.match(rb"\s*\[\s*\{", first):
        raise CaptureError(
            f"{path}: is one array of JSON, and records are read from lines of JSON, one object each",
            "write each element as a line, such as `jq -c '.[]' OLD > NEW` does",
        )
    if order := _utf16(first):
        raise CaptureError(
            f"{path}: is text in UTF-16 without a byte order mark, and texts are read as UTF-8",
            f"write it again, such as `iconv -f {order} -t utf-8 OLD > NEW` does",
        )
    if b"\r" in first.strip() and b"\n" not in first:
        raise CaptureError(
            f"{path}: its lines end with a carriage return alone, and lines end with LF or CRLF",
            r"write it again, such as `tr '\r' '\n' < OLD > NEW` does",
        )
    if b"\0" in first[: 1 << 16]:
        raise CaptureError(f"{path}: is no text, no parquet file and no capture", "leave it out")
    if first.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") and (objects := json_columns(sample)) is not None:
        return "json", TextOptions(), objects
    if first.removeprefix(codecs.BOM_UTF8)[:4].lower() == b"sep=":
        line = first.removeprefix(codecs.BOM_UTF8).partition(b"\n")[0].decode("utf-8", "replace").strip()
        raise CaptureError(
            f"{path}: its first line, {line!r}, is for Excel, and no record",
            "remove the line, such as `tail -n +2 OLD > NEW` does",
        )
    if (place := _no_utf8(first)) is not None:
        raise CaptureError(
            f"{path}: is no text in UTF-8, from line {place} on",
            "write it again from the encoding that it has, such as `iconv -f windows-1252 -t utf-8 OLD > NEW` does",
        )
    candidates = separated_columns(sample)
    if not candidates or (len(candidates[0][1].columns) == 1 and _clock(candidates[0][1])[0] is None):
        raise CaptureError(
            f"{path}: is no table: no separator divides its lines into equally many values",
            "leave it out, or write the settings of its link by hand, as docs/records.md shows",
        )
    if not any(_clock(columns)[0] is not None for _, columns in candidates):
        return "csv", *candidates[0]
    # Among the separators the one with a clock and the most columns of numbers, times and addresses is right.
    best = next(chosen for chosen in candidates if _clock(chosen[1])[0] is not None)
    return "csv", *best


def _utf16(first: bytes) -> str:
    """The order of bytes of UTF-16 without a mark, by the zeros beside the signs of ASCII; empty for other bytes."""
    part = first[: 1 << 12]
    part = part[: len(part) // 2 * 2]
    halves = {"utf-16le": (part[1::2], part[::2]), "utf-16be": (part[::2], part[1::2])}
    for name, (zeros, signs) in halves.items():
        if len(part) > 8 and zeros.count(0) > 0.7 * len(zeros) and not signs.count(0):
            return name
    return ""


def _no_utf8(first: bytes) -> int | None:
    """The first line that is no UTF-8 where so many are not that it is the encoding, and no damage; else None. The last
    line of a sample may be cut."""
    odd = [number for number, line in enumerate(first.split(b"\n")[:-1], 1) if not _decodes(line)]
    return odd[0] if len(odd) > BEARABLE * first.count(b"\n") else None


def _decodes(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _with_clock(kind: str, compression: str, text: TextOptions, columns: SniffedColumns) -> SniffedTable:
    clock, why, disorders = _clock(columns)
    unit, guessed = "", False
    if clock is not None:
        unit = columns.columns[clock].kind.unit
    else:
        clock = _by_name(columns)
        if clock is not None:
            why, guessed = "", True
            name = columns.columns[clock].name
            unit = next((unit for unit in UNITS if name.endswith(f"_{unit}")), "s")
    return SniffedTable(
        kind, compression, text, tuple(columns.columns), clock, why, unit, guessed, columns.left_out, disorders,
        columns.records,
    )  # fmt: skip


def _clock(columns: SniffedColumns) -> tuple[int | None, str, dict[int, Disorder]]:
    """Chooses the clock: the time in nearly every record that runs behind the least; the first one of several."""
    disorders = {
        index: disorder(column.kind.stamps, column.absent)
        for index, column in enumerate(columns.columns)
        if column.kind.stamps is not None
    }
    if not disorders:
        if odd := next((column for column in columns.columns if column.odd), None):
            return None, f"{odd.label} has times, but {odd.odd}", disorders
        alone = "; its only line may be a header" if columns.records == 1 else ""
        return None, f"no column has times{alone}", disorders
    full = [index for index, found in disorders.items() if found.absent <= BEARABLE * columns.records]
    names = {index: columns.columns[index].label for index in disorders}
    if not full:
        return None, f"its times ({', '.join(names.values())}) are absent in some records", disorders
    full = [index for index in full if not disorders[index].days]
    if not full:
        return None, f"its times ({', '.join(names.values())}) are days", disorders
    rising = [index for index in full if not disorders[index].falls]
    if not rising:
        return None, f"its time {names[full[0]]} falls, and a clock rises: sort the file by it", disorders
    return min(rising, key=lambda index: (disorders[index].constant, disorders[index].nearly, index)), "", disorders


def _by_name(columns: SniffedColumns) -> int | None:
    """Returns the index of a column of integers that rises and is called a time; None without one."""
    for index, column in enumerate(columns.columns):
        stem = next((column.name.removesuffix(f"_{u}") for u in UNITS if column.name.endswith(f"_{u}")), column.name)
        if column.rises and stem.lower().rpartition(".")[2] in TIMES:
            return index
    return None
