"""The rows of a statement of SQL as they are shown, and a look into a lake in a process of its own, with bounds on
rows, time and memory: what the page on which queries are written runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lowwater import processes
from lowwater.instants import format_instant
from lowwater.lake.layout import Lake
from lowwater.replay.lake_views import LakeSource
from lowwater.replay.preview import MOST_ROWS, Limits, answer_alone, ask_alone, shortened
from lowwater.replay.sql import Statement
from lowwater.replay.standing import standing_query
from lowwater.storage import paths

# Values of any type as they are printed.


def printable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Converts the columns of any statement to numbers, booleans, texts, and lists and objects of them. Instants are
    ISO 8601, whole numbers of more than 64 bits and other types texts; bytes that are no ASCII are `\\xNN`.

    Example:
        >>> printable(pa.record_batch({"n": pa.array([Decimal(7)], pa.decimal128(38, 0)), "b": [b"a!"]})).to_pylist()
        [{'n': 7, 'b': 'a!'}]
    """
    return pa.RecordBatch.from_arrays([_shown(column) for column in batch.columns], names=batch.schema.names)


def _shown(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _shown(column.dictionary_decode())
    if pa.types.is_floating(kind):
        column = column.cast(pa.float64())
        return pc.if_else(pc.is_finite(column), column, pa.scalar(None, pa.float64()))
    if pa.types.is_decimal(kind) and kind.scale == 0:
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid:
            return column.cast(pa.string())
    if _is_plain(kind):
        return column
    if pa.types.is_timestamp(kind):
        per = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[kind.unit]
        values = column.cast(pa.int64()).to_pylist()
        return pa.array([None if value is None else _instant(value * per) for value in values], pa.string())
    return pa.array([None if value is None else _text(value) for value in column.to_pylist()], pa.string())


def _is_plain(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _is_plain(kind.value_type)
    if pa.types.is_struct(kind):
        return all(_is_plain(kind.field(at).type) for at in range(kind.num_fields))
    return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_string(kind))


def _instant(value: int) -> str:
    try:
        return format_instant(value)
    except (ValueError, OverflowError):  # of a year that Python's dates do not have
        return f"{value} ns"


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return "".join(chr(each) if 32 <= each < 127 else f"\\x{each:02x}" for each in value)
    if isinstance(value, pa.MonthDayNano):
        months = f"{value.months} months " if value.months else ""
        days = f"{value.days} days " if value.days else ""
        return f"{months}{days}{Decimal(value.nanoseconds) / 10**9} s"
    if isinstance(value, list | dict | tuple):
        return json.dumps(value, default=_text)
    if isinstance(value, timedelta):
        return f"{value.total_seconds()} s"
    return str(value)


# A look by somebody who may see some links and tables, in a process of its own.

MEMORY = 256 << 20
"""Bytes that DuckDB may take; as many on the disk for what does not fit."""


@dataclass(frozen=True)
class LookRequest:
    """A statement, and what it may read; crosses the process as JSON."""

    lake: str
    text: str
    links: tuple[str, ...]
    tables: tuple[str, ...]
    start: int  # first timestamp of packets, and `_last` of rows, ns
    end: int  # exclusive


@dataclass(frozen=True)
class Look:
    """What came of a look."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]  # the first ones, values as text; None for NULL
    cut: bool  # whether there are more
    notes: tuple[str, ...]
    kept: str  # the standing query with these rows; empty for none


def look(request: LookRequest) -> Look:
    """Evaluates a statement.
    Raises SqlError if it is none that reads, or cannot be evaluated, and LakeError if the lake cannot be read."""
    source = LakeSource(
        Lake(paths.lake_path(request.lake)), (request.start, request.end), request.links, request.tables
    )
    rows: list[tuple[str | None, ...]] = []
    with Statement(source, request.text, MEMORY, 1, spilled=MEMORY) as asked:
        for batch in asked.batches():
            first = printable(batch.slice(0, MOST_ROWS + 1 - len(rows)))
            rows += zip(*(map(_shortened, column.to_pylist()) for column in first.columns), strict=True)
            if len(rows) > MOST_ROWS:
                break
        kept = standing_query(request.text, asked.schema, source.context())
        return Look(
            tuple(asked.schema.names), tuple(rows[:MOST_ROWS]), len(rows) > MOST_ROWS, tuple(asked.notes()), kept
        )


def _shortened(value: object) -> str | None:
    return shortened(_text(value) if isinstance(value, list | dict) else value)


def run_look(request: LookRequest, limits: Limits | None = None) -> Look:
    """Evaluates a statement in a process of its own.
    Raises LowwaterError if the statement or the lake is wrong, or it exceeds a bound."""
    found = ask_alone(__name__, "the statement", asdict(request), limits or Limits(), "://" in request.lake)
    return Look(
        **{
            **found,
            **{name: tuple(found[name]) for name in ("columns", "notes")},
            "rows": tuple(map(tuple, found["rows"])),
        }
    )


def _looked(asked: Mapping[str, Any]) -> dict[str, Any]:
    names = {name: tuple(asked[name]) for name in ("links", "tables")}
    return asdict(look(LookRequest(**{**asked, **names})))


def _answers(asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from answer_alone(asked, _looked)


if __name__ == "__main__":
    processes.serve(_answers)
