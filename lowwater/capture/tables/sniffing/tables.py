"""Proposes how the records of a file are read, from a sample of it: `sniff`.

Above the modules of this folder. `lowwater init` and `lowwater inspect` use it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lowwater.capture.tables.delimited import TextOptions
from lowwater.capture.tables.sniffing.clocks import Disorder, disorder
from lowwater.capture.tables.sniffing.columns import MOST_COLUMNS, Column, SniffedColumns
from lowwater.capture.tables.sniffing.kinds import BEARABLE, UNITS
from lowwater.capture.tables.sniffing.objects import json_columns, parquet_columns
from lowwater.capture.tables.sniffing.pieces import TextSample, sample_text
from lowwater.capture.tables.sniffing.separated import separated_columns
from lowwater.errors import CaptureError
from lowwater.storage.failures import hint_of

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


__all__ = ["MOST_COLUMNS", "SniffedTable", "sniff"]
