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

NO_TIME, TIME_RANGE, TIME_JUMP, LONG, COLUMNS, SYNTAX, ENCODING = (
    "no-time", "time-range", "time-jump", "length", "columns", "syntax", "encoding",
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


@dataclass(frozen=True)
class Piece:
    """Consecutive records of a file.

    Attributes:
        places: where all of the records stand.
        whole: indices of the records with a value or NULL in every column and a time within range, ascending.
        stamps: timestamps of the whole records, ns.
        columns: the stored columns of the whole records.
        reasons: index -> why the record is malformed.
    """

    places: Places
    whole: NDArray[np.int64]
    stamps: NDArray[np.int64]
    columns: pa.RecordBatch
    reasons: dict[int, str]


def make_piece(
    layout: RecordLayout,
    places: Places,
    parsed: NDArray[np.int64],
    raw: Sequence[pa.Array],
    reasons: dict[int, str],
    refused: Sequence[NDArray[np.bool_]] | None = None,
) -> Piece:
    """Types the values of parsed records, and reads their times.

    Args:
        layout: the fields, in the order of `raw`.
        places: where all records stand.
        parsed: indices of the parsed records, ascending.
        raw: the values of each field for the parsed records: texts, or values that the file has typed.
        reasons: index -> why another record is malformed; gets those of the parsed records.
        refused: flags of the values of each field that the parser refuses; None for none.
    """
    good = np.ones(len(parsed), np.bool_)

    def refuse(flags: NDArray[np.bool_], reason: str) -> None:
        new = flags & good
        if new.any():
            reasons.update(dict.fromkeys(parsed[new].tolist(), reason))
            good[new] = False

    columns: list[pa.Array] = []
    stamps = np.zeros(len(parsed), np.int64)
    timeless = np.zeros(len(parsed), np.bool_)
    for number, (field, values) in enumerate(zip(layout.fields, raw, strict=True)):
        column, bad = typed(values, field)
        refuse(bad if refused is None else bad | refused[number], f"value of {field.name}")
        if field.stored == layout.clock:
            stamps, timeless = nanoseconds(column, field, layout.unit)
        columns += stored_columns(column, field)
    refuse(timeless, NO_TIME)
    refuse(stamps < 0, TIME_RANGE)
    batch = pa.RecordBatch.from_arrays(columns, schema=layout.schema)
    if not good.all():
        batch = batch.filter(pa.array(good))
    return Piece(places, parsed[good], stamps[good], batch, reasons)
