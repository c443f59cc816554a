"""A look into captures or a lake: what `sql` and `ask` read, and values of any type as they are printed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from pathlib import Path, PurePath
from typing import Any

import click
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.instants import format_instant
from lowwater.link_names import is_link_name
from lowwater.replay.sql import EVER, CaptureFiles, Source
from lowwater.storage.captures import capture_path

LINK = "main1"
"""The link of a capture whose link nobody names."""


def named_captures(captures: Sequence[str]) -> list[tuple[str, Path]]:
    """Returns link and file of each `FILE` or `LINK=FILE`; the name of a file may have a `=`.
    Raises click.BadParameter if there is no such file, or one is given twice."""
    found: list[tuple[str, Path]] = []
    for text in captures:
        link, mark, rest = text.partition("=")
        named = bool(mark and is_link_name(link) and not Path(text).exists())
        link, name = (link, rest) if named else (LINK, text)
        try:
            path = capture_path(name)
        except ValueError as error:
            raise click.BadParameter(f"--capture {text}: {error}") from None
        if not path.is_file():
            why = "it is a folder: name a file in it" if path.is_dir() else "there is no such file"
            if path.exists() and not path.is_dir():
                why = "it is no regular file, and captures are read twice: write the stream to a file"
            raise click.BadParameter(f"--capture {text}: {why}")
        if (link, path) in found:
            raise click.BadParameter(f"--capture {text}: is given twice, and a link reads a capture once")
        found.append((link, path))
    return found


def open_source(captures: Sequence[str], lake: PurePath | None, start: int | None, end: int | None) -> Source:
    """Opens what `--capture` or `--lake` name, between two instants, ns; None for no bound."""
    if bool(captures) == (lake is not None):
        raise click.UsageError("give --capture FILE or --lake LAKE: one of them")
    span = EVER[0] if start is None else start, EVER[1] if end is None else end
    if lake is None:
        return CaptureFiles(named_captures(captures), span=span)
    from lowwater.lake.layout import lake_to_read
    from lowwater.replay.lake_views import LakeSource

    return LakeSource(lake_to_read(lake), span)


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
