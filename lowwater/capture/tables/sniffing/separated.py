"""Columns of a sample of delimited text: separator, quote and header.

Each candidate is read by the parser of links, so a proposal divides the lines as ingest will.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.capture.formats.sources import Stream
from lowwater.capture.tables.delimited import DelimitedParser, TextOptions
from lowwater.capture.tables.sniffing.columns import MOST_COLUMNS, Column, SniffedColumns
from lowwater.capture.tables.sniffing.kinds import NULLS, kind_of_texts
from lowwater.capture.tables.sniffing.pieces import TextSample
from lowwater.catalog.records import RecordField, RecordLayout
from lowwater.catalog.types import Type
from lowwater.errors import CaptureError

SEPARATORS = (",", "\t", ";", "|", " ", ":", "^", "\x01")
WHOLE = 0.9
"""Least share of the records that have as many values as the file."""

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
        rises = kind.type is Type.INT and not kind.form and _rises(column, kind.nulls)
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


def _rises(texts: pa.Array, nulls: tuple[str, ...]) -> bool:
    plain = pc.if_else(pc.is_in(texts, pa.array(nulls, pa.string())), pa.scalar(None, pa.string()), texts).drop_null()
    try:
        steps = np.diff(plain.cast(pa.int64()).to_numpy())
    except pa.ArrowInvalid:
        return False
    return bool(len(steps) and np.all(steps >= 0) and np.any(steps))
