"""Proposes how the records of a file are read, from a sample of it: `sniff`.

Above the modules of this folder. `lowwater init` and `lowwater inspect` use it.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lowwater.capture.formats.sources import Stream
from lowwater.capture.tables.columnar import column_at, longest_text, open_parquet
from lowwater.capture.tables.delimited import DelimitedParser, TextOptions
from lowwater.capture.tables.sniffing.columns import (
    BEARABLE,
    MOST_COLUMNS,
    NULLS,
    UNITS,
    Column,
    Disorder,
    Kind,
    SniffedColumns,
    TextSample,
    disorder,
    kind_of_texts,
    kind_of_values,
    sample_text,
)
from lowwater.catalog.records import RecordField, RecordLayout
from lowwater.catalog.types import Type
from lowwater.errors import CaptureError
from lowwater.storage.failures import hint_of

# Columns of a sample of JSON lines and of parquet, by the paths of their values.

WHOLE = 0.9
"""Least share of the lines that are objects."""

DEEPEST = 4
"""Most names of a path."""

SAMPLED_ROWS = 10_000
"""Rows of a row group that are read, bounded also by GROUP_BYTES."""

GROUP_BYTES = 256 << 20
"""Largest row group that is read for a sample, bytes without compression."""

LONGEST_VALUE = 1024
"""A longer text, in bytes, is a text and nothing else."""

_TOO_MANY = f"it is behind the first {MOST_COLUMNS:,} columns"


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
                if path in paths or len(paths) < MOST_COLUMNS:
                    paths.setdefault(path, {})[sniffed.records] = value
                else:
                    sniffed.left_out[".".join(path)[:200]] = _TOO_MANY
                    if len(sniffed.left_out) > MOST_COLUMNS:
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

    Raises:
        CaptureError: the file cannot be read.
    """
    sniffed = SniffedColumns()
    with open_parquet(path) as file:
        leaves: dict[tuple[str, ...], int | None] = {}
        names = Counter(file.schema_arrow.names)
        for number, column in enumerate(file.schema_arrow, 1):
            if names[column.name] > 1:
                sniffed.left_out[column.name[:200]] = "several columns have this name"
                continue
            for leaf in _struct_leaves(column):
                if len(leaves) < MOST_COLUMNS:
                    leaves[leaf] = number if len(leaf) == 1 else None
                else:
                    sniffed.left_out[".".join(leaf)[:200]] = _TOO_MANY
        parts = _parquet_parts(path, file, list(dict.fromkeys(leaf[0] for leaf in leaves)))
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
        values = [column_at(part, leaf) for part in parts]
        if max(map(longest_text, values)) > LONGEST_VALUE:
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
            if file.metadata.row_group(group).total_byte_size > GROUP_BYTES and parts:
                continue
            batches = file.iter_batches(SAMPLED_ROWS, row_groups=[group], columns=columns, use_threads=False)
            parts += [part for part in [next(batches, None)] if part is not None and part.num_rows]
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise CaptureError(f"{path}: is no readable parquet file: {reason}", "write the file again") from error
    return parts


# Columns of a sample of delimited text: separator, quote and header. Each candidate is read by the parser of links,
# so a proposal divides the lines as ingest will.

SEPARATORS = (",", "\t", ";", "|", " ", ":", "^", "\x01")

_MOST_SEPARATORS = 1 << 22
"""Separators in a sample, beyond which a candidate costs more memory than it is worth."""

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
    if not least <= width <= MOST_COLUMNS:
        return None
    parts: list[pa.RecordBatch] = []
    records, starts = 0, False
    for number, piece in enumerate(sample.pieces):
        read = _read(piece, options, width)
        if read is None:
            return None
        batches, count, begins = read
        parts += batches
        records += count
        starts = begins if number == 0 else starts
    if not parts:
        return None
    table = pa.Table.from_batches(parts).combine_chunks()
    if table.num_rows < WHOLE * records:
        return None
    columns = [table.column(at).combine_chunks() for at in range(width)]
    names = _header([column[0].as_py() for column in columns], columns) if starts else None
    header = names is not None
    columns = [column.slice(1) for column in columns] if header else columns
    kinds = [kind_of_texts(column) for column in columns]
    nulls = tuple(dict.fromkeys(("", *(mark for kind in kinds for mark in kind.nulls))))
    made = SniffedColumns(records=len(columns[0]))
    for at, (column, kind) in enumerate(zip(columns, kinds, strict=True)):
        name = names[at] if names else ""
        unique = names is not None and names.count(name) == 1
        rises = kind.type is Type.INT and not kind.form and _separated_rises(column, kind.nulls)
        made.columns.append(Column(name, at + 1, (name,) if unique and name else (), kind, rises))
    return TextOptions(options.separator, options.quote, header, nulls), made


def _layout(width: int) -> RecordLayout:
    return RecordLayout("", tuple(RecordField(f"c{at}", Type.STRING, at) for at in range(1, width + 1)))


def _width(piece: bytes, options: TextOptions) -> int:
    """Returns the most frequent number of values of the records of a piece; 0 where there are too many."""
    lines = piece.split(b"\n", 1000)[:1000]
    mark = options.separator.encode()
    if piece.count(mark) > _MOST_SEPARATORS or max(line.count(mark) for line in lines) >= 4 * MOST_COLUMNS:
        return 0
    parser = _parser(piece, options, 1)
    try:
        next(iter(parser))
    except CaptureError:
        return 0
    return parser.width


def _parser(piece: bytes, options: TextOptions, width: int) -> DelimitedParser:
    source = Stream(io.BytesIO(piece), owned=False)
    plain = TextOptions(options.separator, options.quote, False)
    return DelimitedParser(Path(), source, _layout(width), plain, lambda: False)


def _read(piece: bytes, options: TextOptions, width: int) -> tuple[list[pa.RecordBatch], int, bool] | None:
    """Reads a piece as columns of texts; None where it has another number of values.

    Returns:
        The whole records, the number of all records, and whether the first one is whole.
    """
    parser = _parser(piece, options, width)
    batches: list[pa.RecordBatch] = []
    records, starts = 0, False
    try:
        for work in parser:
            read = work()
            starts = starts or (not records and len(read.whole) > 0 and int(read.whole[0]) == 0)
            records += len(read.places)
            batches.append(read.columns)
    except CaptureError:
        return None
    return (batches, records, starts) if not records or parser.width == width else None


def _header(first: list[str | None], columns: list[pa.Array]) -> list[str] | None:
    """Returns the names of the columns if the first record has them: texts above columns of another type.

    Args:
        first: values of the first record.
        columns: the columns with it.
    """
    if not any(first) or any(text is not None and len(text) > 200 for text in first):
        return None
    odd = typed = 0
    for text, column in zip(first, columns, strict=True):
        kind = kind_of_texts(column.slice(1))
        if kind.type is Type.STRING:
            continue
        typed += 1
        alone = kind_of_texts(pa.array([None if text in NULLS else text], pa.string()))
        odd += alone.type is Type.STRING and not alone.empty
    return [(text or "").strip() for text in first] if typed and 2 * odd > typed else None


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
    """Proposal for the records of a file.

    Attributes:
        kind: kind of the link: `csv`, `json` or `parquet`.
        compression: name of the compression; empty for none.
        text: how delimited text is written.
        columns: the columns that can be read, in the order of the file.
        clock: index of the clock in `columns`; None if no column can be the clock.
        clockless: why there is no clock; empty if there is one.
        unit: unit of the clock: `s`, `ms`, `us` or `ns`.
        guessed: whether the unit of the clock is a guess, since its values are near no instant of today.
        left_out: column that cannot be read -> why.
        disorders: index of a column of times -> how far it runs behind in the sample.
        records: number of records of the sample.
    """

    kind: str
    compression: str
    text: TextOptions
    columns: tuple[Column, ...]
    clock: int | None
    clockless: str
    unit: str
    guessed: bool
    left_out: dict[str, str]
    disorders: dict[int, Disorder]
    records: int


def sniff(path: Path) -> SniffedTable:
    """Proposes how the records of a file are read; reads a sample of bounded size.

    Raises:
        CaptureError: the file cannot be read, or is no table of records.
    """
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
    if not first.strip():
        raise CaptureError(f"{path}: has no records", "wait until it has some, or leave it out")
    if b"\0" in first[: 1 << 16]:
        raise CaptureError(f"{path}: is no text, no parquet file and no capture", "leave it out")
    if first.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") and (objects := json_columns(sample)) is not None:
        return "json", TextOptions(), objects
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
        return None, "no column has times", disorders
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
