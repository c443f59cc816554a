"""Checks the stream of a query row by row, in bounded memory: schema, ownership, promises.

Reads `streams/` for the measures of the queries. A check counts the rows that break its rule and keeps the first of
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lowwater.catalog.streams import CONTROL, PUNCTUATION, ROW
from lowwater.plan.operators import Field
from lowwater.plan.properties.schemas import result_schema
from lowwater.plan.temporal import INT64_MAX

BATCH = 65536
EXAMPLE_ROWS = 1000
"""Number of rows that are kept as examples of a broken rule."""

EARLIEST, LATEST = -INT64_MAX - 1, INT64_MAX
"""Stand for an instant that is NULL. No engine writes NULL, so a row with one breaks the rules."""

Instants = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]


@dataclass
class BrokenRows:
    """The rows that break a rule.

    Attributes:
        total: number of rows that break the rule.
        rows: the first of them, at most EXAMPLE_ROWS, as published, with the control columns.
    """

    total: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class StreamCheck:
    """The result of the checks of a stream over an interval.

    Attributes:
        rows: data rows.
        columns: faults of the schema of the files; empty without any.
        open_ns: time from the highest promise to the end of the interval, ns; 0 if the stream is closed (T6).
        not_owned: rows whose last instant is not in the interval (I1).
        below_promise: rows that come after a punctuation that excludes them (P1).
    """

    rows: int
    columns: str
    open_ns: int
    not_owned: BrokenRows
    below_promise: BrokenRows


def check_stream(
    files: Sequence[Path], fields: Sequence[Field], start: int, end: int, whole: bool = False
) -> StreamCheck:
    """Checks the files of a stream over [start, end), ns.

    Rows are checked only if the control columns exist; without them nothing can be said of a row.

    Args:
        files: the files of the interval, in order.
        fields: the fields of the query's plan node.
        start: first instant of the interval, ns since the epoch.
        end: end of the interval, ns since the epoch, exclusive.
        whole: whether to read every column, not the control columns alone; for files that have changed since they were
            written.
    """
    try:
        columns, readable = _schema_faults(files, result_schema(fields))
        for path in files if whole else ():
            with pq.ParquetFile(path) as file:
                for _ in file.iter_batches(BATCH):
                    pass
        if readable:
            return _check_rows(files, start, end, columns)
    except (OSError, pa.ArrowException) as error:
        columns = f"a file cannot be read: {str(error).splitlines()[0]}"
    return StreamCheck(0, columns, 0, BrokenRows(), BrokenRows())


def _check_rows(files: Sequence[Path], start: int, end: int, columns: str) -> StreamCheck:
    promises = _Promises.read(files)
    owned, late = _Positions(), _Positions()
    rows = 0
    for number, first, batch in _batches(files):
        is_row = _marks(pc.equal(batch.column("_kind"), ROW))
        last, tick = _instants(batch.column("_last"), EARLIEST), _instants(batch.column("_tick"), LATEST)
        rows += int(is_row.sum())
        owned.add(number, first, is_row & ((last < start) | (last >= end)))
        late.add(number, first, is_row & (last < promises.before(tick)))
    broken = [BrokenRows(positions.total, list(_fetch(files, positions))) for positions in (owned, late)]
    return StreamCheck(rows, columns, max(0, end - (promises.highest if promises.any else start)), *broken)


def _schema_faults(files: Sequence[Path], planned: pa.Schema) -> tuple[str, bool]:
    """The schema faults of the first file that has any, and whether all files have the control columns."""
    faults, readable = "", True
    for path in files:
        schema = pq.read_schema(path)
        faults = faults or _differences(path.name, schema, planned)
        readable = readable and not _differences(path.name, schema, CONTROL, others=True)
    return faults, readable


def _differences(file: str, schema: pa.Schema, planned: pa.Schema, others: bool = False) -> str:
    parts = [f"column {name} is missing" for name in planned.names if name not in schema.names]
    for field_ in planned:
        if field_.name in schema.names and schema.field(field_.name).type != field_.type:
            parts.append(f"column {field_.name} is {schema.field(field_.name).type}, not {field_.type}")
    if not others:
        parts += [f"column {name} is not in the plan" for name in schema.names if name not in planned.names]
    return f"{file}: {'; '.join(parts)}" if parts else ""


def _batches(files: Sequence[Path]) -> Iterator[tuple[int, int, pa.RecordBatch]]:
    """Yields number of the file, number of the batch's first row in the file, and the control columns of the batch."""
    for number, path in enumerate(files):
        first = 0
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(BATCH, columns=["_kind", "_tick", "_last"]):
                yield number, first, batch
                first += batch.num_rows


def _instants(values: pa.Array, missing: int) -> Instants:
    filled: Instants = pc.fill_null(values, missing).to_numpy()
    return filled


def _marks(values: pa.Array) -> Marks:
    marks: Marks = pc.fill_null(values, False).to_numpy(zero_copy_only=False)
    return marks


@dataclass(frozen=True)
class _Promises:
    """The promises of a stream.

    Attributes:
        ticks: ticks of the promises, ascending.
        bounds: highest promise up to each tick, ns.
    """

    ticks: Instants
    bounds: Instants

    @staticmethod
    def read(files: Sequence[Path]) -> _Promises:
        ticks, bounds = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for _, _, batch in _batches(files):
            promises = batch.filter(pc.equal(batch.column("_kind"), PUNCTUATION))
            ticks.append(_instants(promises.column("_tick"), LATEST))
            bounds.append(_instants(promises.column("_last"), EARLIEST))
        all_ticks, all_bounds = np.concatenate(ticks), np.concatenate(bounds)
        order = np.argsort(all_ticks, kind="stable")
        return _Promises(all_ticks[order], np.maximum.accumulate(all_bounds[order]) if len(all_bounds) else all_bounds)

    @property
    def any(self) -> bool:
        return len(self.ticks) > 0

    @property
    def highest(self) -> int:
        return int(self.bounds[-1])

    def before(self, ticks: Instants) -> Instants:
        """The promise that holds for each row: rows of a tick precede its punctuation (P5), so only earlier ticks
        count."""
        if not self.any:
            return np.full(len(ticks), EARLIEST)
        earlier = np.searchsorted(self.ticks, ticks, side="left")
        return np.where(earlier > 0, self.bounds[np.maximum(earlier - 1, 0)], EARLIEST)


@dataclass
class _Positions:
    """Positions of the rows that break a rule: their number, and the first as (number of the file, number of the
    row)."""

    total: int = 0
    places: list[tuple[int, int]] = field(default_factory=list)

    def add(self, file: int, first: int, marks: Marks) -> None:
        self.total += int(marks.sum())
        room = EXAMPLE_ROWS - len(self.places)
        self.places += [(file, first + int(row)) for row in np.flatnonzero(marks)[:room]]


def _fetch(files: Sequence[Path], positions: _Positions) -> Iterator[dict[str, Any]]:
    """Reads the rows at some positions."""
    for number in sorted({file for file, _ in positions.places}):
        numbers = np.array([row for file, row in positions.places if file == number])
        first = 0
        with pq.ParquetFile(files[number]) as file:
            for batch in file.iter_batches(BATCH):
                in_batch = numbers[(numbers >= first) & (numbers < first + batch.num_rows)] - first
                first += batch.num_rows
                yield from batch.take(pa.array(in_batch, pa.int64())).to_pylist()
