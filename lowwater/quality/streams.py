"""The stream of a query held against the law, row by row, in bounded memory.

Between `streams/` and the measures of the queries. A check counts the rows that break it and keeps the first of them.
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
KEPT = 1000
"""Most rows that are kept of those that break one rule."""

LEAST, MOST = -INT64_MAX - 1, INT64_MAX
"""Of instants: what stands for one that is NULL, which no engine writes, so that the row breaks the rules."""

Instants = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]


@dataclass
class Broken:
    """The rows that break a rule.

    Attributes:
        total: how many there are.
        rows: the first of them, at most KEPT, in their published form with the control columns.
    """

    total: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class StreamCheck:
    """What a stream is like over an interval.

    Attributes:
        rows: data rows.
        columns: what is wrong with the schema of its files; empty if nothing is.
        open_ns: from its highest promise to the end of the interval; 0 if it is closed (T6).
        not_owned: rows whose last instant is not in the interval (I1).
        below_promise: rows that come after a punctuation which excludes them (P1).
    """

    rows: int
    columns: str
    open_ns: int
    not_owned: Broken
    below_promise: Broken


def check_stream(
    files: Sequence[Path], fields: Sequence[Field], start: int, end: int, whole: bool = False
) -> StreamCheck:
    """Checks the files of a stream over [start, end), ns.

    Rows are looked at only where the control columns are there: without them nothing can be said of a row.

    Args:
        files: the files of the interval, in order.
        fields: the fields of the query's plan node.
        start: the start of the interval; `end` its end.
        whole: whether every column is read, not the control columns alone: for files that are not what they were.
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
    return StreamCheck(0, columns, 0, Broken(), Broken())


def _check_rows(files: Sequence[Path], start: int, end: int, columns: str) -> StreamCheck:
    promises = _Promises.read(files)
    owned, kept = _Positions(), _Positions()
    rows = 0
    for number, first, batch in _batches(files):
        is_row = _marks(pc.equal(batch.column("_kind"), ROW))
        last, tick = _instants(batch.column("_last"), LEAST), _instants(batch.column("_tick"), MOST)
        rows += int(is_row.sum())
        owned.add(number, first, is_row & ((last < start) | (last >= end)))
        kept.add(number, first, is_row & (last < promises.before(tick)))
    broken = [Broken(found.total, list(_fetch(files, found))) for found in (owned, kept)]
    return StreamCheck(rows, columns, max(0, end - (promises.highest if promises.any else start)), *broken)


def _schema_faults(files: Sequence[Path], planned: pa.Schema) -> tuple[str, bool]:
    """What is wrong with the first file of another schema, and whether all of them have the control columns."""
    faults, readable = "", True
    for path in files:
        found = pq.read_schema(path)
        faults = faults or _differences(path.name, found, planned)
        readable = readable and not _differences(path.name, found, CONTROL, others=True)
    return faults, readable


def _differences(file: str, found: pa.Schema, planned: pa.Schema, others: bool = False) -> str:
    parts = [f"column {name} is missing" for name in planned.names if name not in found.names]
    for each in planned:
        if each.name in found.names and found.field(each.name).type != each.type:
            parts.append(f"column {each.name} is {found.field(each.name).type}, not {each.type}")
    if not others:
        parts += [f"column {name} is not in the plan" for name in found.names if name not in planned.names]
    return f"{file}: {'; '.join(parts)}" if parts else ""


def _batches(files: Sequence[Path]) -> Iterator[tuple[int, int, pa.RecordBatch]]:
    """The control columns: number of the file, number of the first row in it, batch."""
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
        ticks: at which they were made, in order.
        bounds: the highest promise up to each.
    """

    ticks: Instants
    bounds: Instants

    @staticmethod
    def read(files: Sequence[Path]) -> _Promises:
        ticks, bounds = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for _, _, batch in _batches(files):
            promises = batch.filter(pc.equal(batch.column("_kind"), PUNCTUATION))
            ticks.append(_instants(promises.column("_tick"), MOST))
            bounds.append(_instants(promises.column("_last"), LEAST))
        made, said = np.concatenate(ticks), np.concatenate(bounds)
        order = np.argsort(made, kind="stable")
        return _Promises(made[order], np.maximum.accumulate(said[order]) if len(said) else said)

    @property
    def any(self) -> bool:
        return len(self.ticks) > 0

    @property
    def highest(self) -> int:
        return int(self.bounds[-1])

    def before(self, ticks: Instants) -> Instants:
        """The bound of each row: the rows of a tick precede its punctuation (P5), so only earlier ticks count."""
        if not self.any:
            return np.full(len(ticks), LEAST)
        earlier = np.searchsorted(self.ticks, ticks, side="left")
        return np.where(earlier > 0, self.bounds[np.maximum(earlier - 1, 0)], LEAST)


@dataclass
class _Positions:
    """Where broken rows are: how many, and the first of them as (number of the file, number of the row)."""

    total: int = 0
    places: list[tuple[int, int]] = field(default_factory=list)

    def add(self, file: int, first: int, marks: Marks) -> None:
        self.total += int(marks.sum())
        room = KEPT - len(self.places)
        self.places += [(file, first + int(row)) for row in np.flatnonzero(marks)[:room]]


def _fetch(files: Sequence[Path], found: _Positions) -> Iterator[dict[str, Any]]:
    """The rows at some positions."""
    for number in sorted({file for file, _ in found.places}):
        wanted = np.array([row for file, row in found.places if file == number])
        first = 0
        with pq.ParquetFile(files[number]) as file:
            for batch in file.iter_batches(BATCH):
                here = wanted[(wanted >= first) & (wanted < first + batch.num_rows)] - first
                first += batch.num_rows
                yield from batch.take(pa.array(here, pa.int64())).to_pylist()
