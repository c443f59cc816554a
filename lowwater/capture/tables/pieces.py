"""Parsed records of a piece of a file: typed columns of the whole ones, and the reasons of the others.

Between the parsers, which fill it, and `reader`, which judges the times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.capture.tables.values import nanoseconds, stored_columns, typed
from lowwater.catalog.records import RecordLayout

NO_TIME, TIME_RANGE, TIME_JUMP, LONG, COLUMNS, SYNTAX, ENCODING, HEADER = (
    "no-time", "time-range", "time-jump", "length", "columns", "syntax", "encoding", "header",
)  # fmt: skip


@dataclass(frozen=True)
class Places:
    """Where the records of a piece stand.

    Attributes:
        offsets: offset of each record in the decompressed file; in parquet, the number of its row.
        lengths: length of each record, bytes; 0 in parquet.
        lines: line of each record, from 1; None in parquet.
    """

    offsets: NDArray[np.int64]
    lengths: NDArray[np.int64]
    lines: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.offsets)


class Refusals:
    """Why records of a piece are malformed.

    Args:
        count: number of records of the piece.

    Attributes:
        codes: code of the reason of each record; 0 for a whole record.
        names: the reason of each code.
    """

    def __init__(self, count: int) -> None:
        self.codes = np.zeros(count, np.int16)
        self.names = [""]

    def add(self, chosen: NDArray[np.int64], reason: str) -> None:
        """Refuses records, by index, for a reason; a record that is refused already keeps its reason."""
        if not len(chosen):
            return
        if reason not in self.names:
            self.names.append(reason)
        self.codes[chosen[self.codes[chosen] == 0]] = self.names.index(reason)


@dataclass(frozen=True)
class Piece:
    """Consecutive records of a file.

    Attributes:
        places: where all of the records stand.
        whole: indices of the records with a value or NULL in every column and a time within range, ascending.
        stamps: timestamps of the whole records, ns.
        columns: the stored columns of the whole records; texts may be in dictionaries.
        refusals: why others are malformed.
        left_out: type and number of the records of other types, which are neither whole nor malformed.
        overhead: bytes of these records, and of lines that are no records.
        absent: fields that no record has; None without records, and where the header of the file says it.
        unknown: then, columns of the records that no field reads.
    """

    places: Places
    whole: NDArray[np.int64]
    stamps: NDArray[np.int64]
    columns: pa.RecordBatch
    refusals: Refusals
    left_out: tuple[tuple[str, int], ...] = ()
    overhead: int = 0
    absent: frozenset[str] | None = None
    unknown: frozenset[str] = frozenset()


def make_piece(
    layout: RecordLayout,
    places: Places,
    parsed: NDArray[np.int64],
    raw: Sequence[pa.Array],
    refusals: Refusals,
    refused: Sequence[NDArray[np.bool_]] | None = None,
) -> Piece:
    """Types the values of parsed records, and reads their times.

    Args:
        layout: the fields, in the order of `raw`.
        places: where all records stand.
        parsed: indices of the parsed records, ascending.
        raw: the values of each field for the parsed records: texts, or values that the file has typed.
        refusals: why other records are malformed; gets those of the parsed records.
        refused: flags of the values of each field that the parser refuses; None for none.
    """
    columns: list[pa.Array] = []
    stamps = np.zeros(len(parsed), np.int64)
    timeless = np.zeros(len(parsed), np.bool_)
    for number, (field, values) in enumerate(zip(layout.fields, raw, strict=True)):
        column, bad = typed(values, field)
        bad = bad if refused is None else bad | refused[number]
        if bad.any():
            refusals.add(parsed[bad], f"value of {field.name}")
        if field.stored == layout.clock:
            stamps, timeless = nanoseconds(column, field, layout.unit)
        columns += stored_columns(column, field)
    if timeless.any():
        refusals.add(parsed[timeless], NO_TIME)
    refusals.add(parsed[stamps < 0], TIME_RANGE)
    fields = zip(layout.schema, columns, strict=True)
    schema = pa.schema([stored.with_type(column.type) for stored, column in fields])
    batch = pa.RecordBatch.from_arrays(columns, schema=schema)
    if not refusals.codes.any():
        return Piece(places, parsed, stamps, batch, refusals)
    good = refusals.codes[parsed] == 0
    return Piece(places, parsed[good], stamps[good], batch.filter(pa.array(good)), refusals)
