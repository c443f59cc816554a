"""What people ask of published rows: filters and orders, sums, curves over time, two versions of a table compared."""

from __future__ import annotations

import heapq
import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
from numpy.typing import NDArray

from lowwater import limits
from lowwater.errors import LakeError, nearest
from lowwater.instants import HOUR, SECOND, format_instant, parse_instant
from lowwater.lake import layout, tables, upkeep
from lowwater.lake.open_tables import at_version, cached_value, existing, newest
from lowwater.lake.results import published
from lowwater.lake.results.published_rows import of_query, published_within
from lowwater.storage import locks, paths

if TYPE_CHECKING:
    from deltalake import DeltaTable


# Sums of each file of a published table by the values of a column, so that a plot of a year opens no data. `lowwater
# maintain` writes them beside the tables, and the pages read them. They are a function of the file that they name,
# and files never change: what has none, or is newer than the last maintenance, is read itself.

ALL = "0"
"""Stands for the column of the sums of all rows together; no column has this name."""
BATCH = 65_536
LEAST = 100  # a table of fewer files has no sums: reading it is as fast
AT_ONCE = 512  # files whose sums are written by one commit
FILES_AT_A_TIME = 128  # files whose sums are read at a time

SUMS = pa.schema(
    [
        pa.field("column", pa.string(), nullable=False),  # the partition
        pa.field("path", pa.string(), nullable=False),  # of the file, as in the log of the table
        pa.field("hour", pa.int64(), nullable=False),  # of all of its rows
        pa.field("whole", pa.bool_(), nullable=False),  # no value was left out
        pa.field("values", pa.list_(pa.string()), nullable=False),  # NULL among them
        pa.field("rows", pa.list_(pa.int64()), nullable=False),  # number of rows of each value
        pa.field("numbers", pa.list_(pa.string()), nullable=False),  # columns that are summed
        pa.field("sums", pa.list_(pa.list_(pa.float64())), nullable=False),  # of each of them, by value
        pa.field("rest", pa.list_(pa.float64()), nullable=False),  # rows of values left out, and each sum of theirs
    ]
)
"""A row for each file of a table, and each column by whose values it is summed."""


def sums_path(table: PurePath) -> PurePath:
    """Returns the folder of the sums of a published table: `lake/sums/flows` of `lake/tables/flows`."""
    return table.parent.parent / "sums" / table.name


def is_number(kind: pa.DataType) -> bool:
    """Whether a column of this type can be summed."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def is_key(kind: pa.DataType) -> bool:
    """Whether there are sums by the values of a column of this type: texts, and whole numbers of few values."""
    return bool(pa.types.is_string(kind) or pa.types.is_integer(kind))


def make_sums(table: PurePath, dry_run: bool = False, fence: locks.Fence | None = None) -> tuple[int, int]:
    """Sums the files of a published table that have no sums yet, or with `dry_run` only counts them. Sums of files that
    are gone go once they are half. Returns number and bytes of the files that were summed, or would be.
    Raises LakeError if the table cannot be read, or the sums cannot be written."""
    opened, path = tables.open_table(table), sums_path(table)
    live = {row["path"]: row for row in tables.live_files(opened)} if opened is not None else {}
    if len(live) < LEAST or opened is None:
        return 0, 0
    known = _known(path)
    new = [row for name, row in live.items() if name not in known]
    if not dry_run:
        columns = [
            pa.field(field.name, tables.plain_type(field.type))
            for field in pa.schema(opened.schema().to_arrow())
            if of_query(field) and tables.safe_name(field.name) == field.name
        ]
        tables.create(path, SUMS, ["column"])
        for at in range(0, len(new), AT_ONCE):
            rows = [sums for row in new[at : at + AT_ONCE] for sums in _sums_of(table, columns, row)]
            tables.append_rows(path, pa.Table.from_pylist(rows, schema=SUMS), fence, FILES_AT_A_TIME)
        upkeep.compact(path, FILES_AT_A_TIME)
        gone = known - live.keys()
        if len(gone) >= len(live):
            _drop(path, gone)
    return len(new), sum(row["size_bytes"] for row in new)


def _known(path: PurePath) -> set[str]:
    """Names the files of a table that have sums: each has those of all rows together."""
    return {name for batch in _stored(path, ALL, ["path"]) for name in batch.column("path").to_pylist()}


def _drop(path: PurePath, gone: Iterable[str]) -> None:
    names = pa.array(sorted(gone), pa.string())
    for column in sorted({row["partition.column"] for row in tables.live_files(existing(path))}):
        batches = [
            batch.filter(pc.invert(pc.is_in(batch.column("path"), value_set=names)))
            for batch in _stored(path, column, [field.name for field in SUMS if field.name != "column"])
        ]
        kept = pa.Table.from_batches(batches)
        kept = kept.add_column(0, SUMS.field("column"), [[column] * kept.num_rows])
        tables.replace_rows(path, kept, pc.field("column") == column)


def _sums_of(table: PurePath, columns: Sequence[pa.Field], row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the rows of `SUMS` of a file: one without a key, and one for each column that is a key."""
    hour = int(row["partition._hour"])
    numbers = [field.name for field in columns if is_number(field.type)]
    dataset = tables.files_dataset(table, [(row["path"], pads.field("_hour") == hour)], pa.schema(columns))
    with tables.lake_errors(f"{table}: the table cannot be read"):
        rows = dataset.to_table() if row["num_records"] <= limits.SUMS_ROWS_AT_ONCE else None
        for key in (None, *(field for field in columns if is_key(field.type))):
            names = list(dict.fromkeys([*([] if key is None else [key.name]), *numbers]))
            if rows is None:
                batches = dataset.to_batches(names, batch_size=BATCH, batch_readahead=2)
            else:
                batches = rows.select(names).to_batches() if names else rows.to_batches()
            grouped = _grouped(batches, key, numbers)
            if grouped is None:
                continue
            whole = grouped.num_rows <= limits.SUMMED_VALUES
            chosen = grouped if whole else grouped.take(_largest(grouped, numbers))
            sums = ["rows", *(f"sum {name}" for name in numbers)]
            rest = [float(pc.sum(grouped.column(name)).as_py() - pc.sum(chosen.column(name)).as_py()) for name in sums]
            yield {
                "column": ALL if key is None else key.name,
                "path": row["path"],
                "hour": hour,
                "whole": whole,
                "values": chosen.column("value").to_pylist(),
                "rows": chosen.column("rows").to_pylist(),
                "numbers": numbers,
                "sums": [chosen.column(f"sum {name}").to_pylist() for name in numbers],
                "rest": rest,
            }


def _grouped(batches: Iterable[pa.RecordBatch], key: pa.Field | None, numbers: Sequence[str]) -> pa.Table | None:
    """Sums rows of a file by a column as text; None if it has too many values to be a key."""
    whole_number = key is not None and pa.types.is_integer(key.type)
    totals = [("rows", "sum"), *((f"sum {name}", "sum") for name in numbers)]
    parts: list[pa.Table] = []
    held = 0
    for batch in batches:
        size = batch.num_rows
        value = pa.nulls(size, pa.string()) if key is None else batch.column(key.name)
        arrays = {"value": value, "rows": pa.repeat(pa.scalar(1, pa.int64()), size)}
        arrays |= {f"sum {name}": pc.fill_null(batch.column(name).cast(pa.float64()), 0.0) for name in numbers}
        parts.append(_added(pa.table(arrays), totals))
        held += parts[-1].num_rows
        if held > limits.SUMS_HELD or (whole_number and parts[-1].num_rows > limits.SUMMED_NUMBERS):
            parts = [_added(pa.concat_tables(parts), totals)]
            held = parts[0].num_rows
            if held > limits.SUMS_HELD // 2 or (whole_number and held > limits.SUMMED_NUMBERS):
                return None
    if not parts:
        return None
    grouped = _added(pa.concat_tables(parts), totals) if len(parts) > 1 else parts[0]
    if whole_number and grouped.num_rows > limits.SUMMED_NUMBERS:
        return None
    return grouped.set_column(0, "value", grouped.column("value").cast(pa.string()))


def _added(rows: pa.Table, totals: Sequence[tuple[str, str]]) -> pa.Table:
    added = rows.group_by("value").aggregate(list(totals))
    return added.select(["value", *(f"{name}_sum" for name, _ in totals)]).rename_columns(rows.column_names)


def _largest(grouped: pa.Table, numbers: Sequence[str]) -> list[int]:
    """Chooses the values that are kept: the largest ones by rows, and by each sum."""
    chosen: set[int] = set()
    for name in ("rows", *(f"sum {number}" for number in numbers)):
        chosen.update(pc.select_k_unstable(grouped, limits.LARGEST_SUMS, [(name, "descending")]).to_pylist())
    return sorted(chosen)


def read_sums(
    table: PurePath, column: str, number: str, names: pa.Array, seen: set[str], whole: bool
) -> Iterator[tuple[pa.Table, bool]]:
    """Yields the sums of files of a table by the values of a column, some hundred files at a time: rows `hour`, `value`
    (text) and `amount`, and whether they are the rest, the amounts of all values without sums.

    Args:
        column: column of the values; `ALL` for one sum a file.
        number: column that is summed; empty for the number of rows.
        seen: gets the paths of the files whose sums were yielded; the others have none.
        whole: whether to leave files out of which some values have no sums.
    """
    wanted = ["path", "hour", "whole", "values", "rows", "rest", *(["numbers", "sums"] if number else [])]
    with tables.lake_errors(f"{sums_path(table)}: the sums cannot be read"):
        for batch in _stored(sums_path(table), column, wanted):
            chosen = pc.is_in(batch.column("path"), value_set=names)
            rows = _some(batch, pc.and_(chosen, batch.column("whole")) if whole else chosen)
            index = np.zeros(rows.num_rows, np.int64)
            if number:
                rows, index = _with_number(rows, number)
            fresh = np.array([name not in seen for name in rows.column("path").to_pylist()], bool)
            rows, index = _some(rows, pa.array(fresh)), index[fresh]
            seen.update(rows.column("path").to_pylist())
            if rows.num_rows:
                yield _amounts(rows, number, index), False
                part = np.flatnonzero(~rows.column("whole").to_numpy(zero_copy_only=False))
                if len(part):
                    yield _rest(rows.take(pa.array(part)), index[part] + bool(number)), True


def _some(rows: pa.RecordBatch, chosen: pa.BooleanArray) -> pa.RecordBatch:
    """Returns the chosen rows; all of them are not copied."""
    return rows if pc.all(chosen).as_py() else rows.filter(chosen)


def _with_number(rows: pa.RecordBatch, number: str) -> tuple[pa.RecordBatch, NDArray[np.int64]]:
    """Returns the rows that have sums of a number, and its index among the sums of each."""
    named = rows.column("numbers")
    has = np.flatnonzero(pc.equal(named.flatten(), number).to_numpy(zero_copy_only=False))
    owners = pc.list_parent_indices(named).to_numpy()[has]
    each_has = len(has) == rows.num_rows and len(np.unique(owners)) == len(has)
    return rows if each_has else rows.take(pa.array(owners)), has - _begins(named)[owners]


def _begins(lists: pa.ListArray) -> NDArray[np.int64]:
    """Returns where each of some lists begins among the values of all."""
    begins: NDArray[np.int64] = np.searchsorted(pc.list_parent_indices(lists).to_numpy(), np.arange(len(lists)))
    return begins


def _amounts(rows: pa.RecordBatch, number: str, index: NDArray[np.int64]) -> pa.Table:
    amounts = rows.column("rows").flatten().cast(pa.float64())
    if number:
        sums = rows.column("sums")
        amounts = sums.flatten().take(pa.array(_begins(sums) + index)).flatten()
    hours = rows.column("hour").take(pc.list_parent_indices(rows.column("values")))
    return pa.table({"hour": hours, "value": rows.column("values").flatten(), "amount": amounts})


def _rest(rows: pa.RecordBatch, index: NDArray[np.int64]) -> pa.Table:
    rest = rows.column("rest")
    amounts = rest.flatten().take(pa.array(_begins(rest) + index))
    return pa.table({"hour": rows.column("hour"), "value": pa.nulls(rows.num_rows, pa.string()), "amount": amounts})


def _stored(path: PurePath, column: str, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yields columns of the stored sums by a column, none where there is no table of them."""
    opened = tables.open_table(path)
    if opened is None:
        return
    files = [row["path"] for row in tables.live_files(opened) if row["partition.column"] == column]
    if files:
        parts = [(name, pads.field("column") == column) for name in files]
        dataset = tables.files_dataset(path, parts, SUMS)
        few = pads.ParquetFragmentScanOptions(pre_buffer=False)
        sizes = {"batch_size": FILES_AT_A_TIME, "batch_readahead": 1, "fragment_readahead": 1}
        yield from dataset.to_batches(list(names), fragment_scan_options=few, **sizes)


# Sums of a published number over time, by the values of a key with the largest sums: the data of a plot. Rows, or the
# sums of whole files, are added up in one pass.


@dataclass(frozen=True)
class Curve:
    """A series of a plot: its name, and a value for each part of time."""

    name: str
    values: tuple[float, ...]


@dataclass(frozen=True)
class Curves:
    """A number over time, by the largest values of a key."""

    start: int  # first instant, ns
    step: int  # length of a part of time, ns
    curves: tuple[Curve, ...]  # the series, largest first; the last is the sum of all others, where there are others
    # whether the key had so many values that the choice of the largest, and their sums, are not exact
    approximate: bool = False
    # parts of time, by their number, in which nothing is known -> why; their values are 0 and mean nothing
    absent: Mapping[int, str] = field(default_factory=dict)


_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400)
LENGTHS = (*(10**power for power in range(9)), *(seconds * SECOND for seconds in _SECONDS))
"""Lengths of the parts of a plot, ns."""
GROUPED = 1 << 16
"""Rows that are summed at a time: a file of an hour has few, and a group costs as much."""
OTHERS = "all others"
LARGEST = 1e300
"""Largest sum that is drawn."""
ODD = "no finite sum"


def part_length(span: int, grain: int = 1) -> int:
    """Returns the length of the parts (ns) into which a plot divides a span (ns): a usual one, at least `grain`.

    Example:
        >>> part_length(86_400 * SECOND) // SECOND, part_length(3600 * SECOND, 60 * SECOND) // SECOND
        (900, 60)
    """
    least = max(1, grain, -(-span // limits.PLOT_PARTS))
    usual = next((length for length in LENGTHS if length >= least), -(-least // LENGTHS[-1]) * LENGTHS[-1])
    return usual if usual % grain == 0 else -(-least // grain) * grain


def curves(table: ResultTable, row_query: RowQuery, number: str, key: str, most: int = 6, grain: int = 1) -> Curves:
    """Sums a column over time, for the `most` values of a key with the largest sums; counts rows, or makes one series,
    where a name is empty. `grain`: shortest useful part of time, ns, such as the length of a query's epochs.
    Raises LakeError if a filter or a column is wrong, or the table cannot be read."""
    if key:
        table.require(key)
    kind = table.require(number) if number else pa.int64()
    if not is_number(kind):
        raise LakeError(f"query {table.query}: values of column {number!r} cannot be added", f"its type is {kind}")
    step = part_length(row_query.end - row_query.start, grain)
    begin = row_query.start // step * step
    sums = _Sums(-(-(row_query.end - begin) // step))
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch, is_rest in table.amounts(row_query, number, key, by_hour=step % HOUR == 0):
        at = pc.divide(pc.subtract(batch.column(LAST), begin), step)
        if is_rest:
            sums.add_rest(at, batch.column("amount"))
            continue
        held.append(pa.record_batch({"at": at, "value": batch.column("value"), "amount": batch.column("amount")}))
        rows += batch.num_rows
        if rows >= GROUPED:
            sums.add(pa.Table.from_batches(held))
            held, rows = [], 0
    if held:
        sums.add(pa.Table.from_batches(held))
    named, others = sums.largest(most) if key else ([(number, sums.total())], None)
    found = [("NULL" if name is None else str(name), values) for name, values in named]
    found += [(OTHERS, others)] if others is not None else []
    # NaN, infinite, or so large that a plot of it cannot be computed
    odd = np.any([~(np.abs(values) <= LARGEST) for _, values in found], axis=0) if found else np.zeros(0, bool)
    series = tuple(Curve(name, tuple(np.where(odd, 0.0, values).tolist())) for name, values in found)
    return Curves(begin, step, series, sums.approximate and bool(key), dict.fromkeys(np.flatnonzero(odd).tolist(), ODD))


class _Sums:
    """Adds up amounts by part of time and value, in bounded memory."""

    def __init__(self, parts: int) -> None:
        self.approximate = False  # whether values were added up as others before all amounts were known
        self._parts = parts
        self._groups: list[pa.Table] = []
        self._held = 0
        self._others = np.zeros(parts)

    def add(self, rows: pa.Table) -> None:
        """Adds amounts; columns `at` (part of time), `value` and `amount`."""
        self._groups.append(_curves_grouped(rows))
        self._held += self._groups[-1].num_rows
        if self._held > min(limits.PLOT_SUMS, GROUPED + 2 * self._groups[0].num_rows):
            self._join()

    def add_rest(self, at: pa.Array, amounts: pa.Array) -> None:
        """Adds amounts of values that are not known by name."""
        np.add.at(self._others, at.to_numpy(zero_copy_only=False), amounts.to_numpy(zero_copy_only=False))
        self.approximate = True

    def total(self) -> NDArray[np.float64]:
        return self._others + sum((_by_part(group, self._parts) for group in self._groups), np.zeros(self._parts))

    def largest(self, most: int) -> tuple[list[tuple[Any, NDArray[np.float64]]], NDArray[np.float64] | None]:
        """Returns the largest values with their sums, the largest first, and those of all others; None without any."""
        if not self._groups:
            return [], self._others if self.approximate else None
        rows = _curves_grouped(pa.concat_tables(self._groups))
        totals = _totals(rows)
        names = dict(zip(totals.column("value").to_pylist(), totals.column("amount_sum").to_pylist(), strict=True))
        tops = heapq.nlargest(most, names, key=lambda name: (names[name], repr(name)))
        values = rows.column("value")
        shown = [
            (name, _by_part(rows.filter(pc.is_null(values) if name is None else pc.equal(values, name)), self._parts))
            for name in tops
        ]
        if len(names) <= most and not self.approximate:
            return shown, None
        everything = self._others + _by_part(rows, self._parts)
        return shown, everything - sum((each for _, each in shown), np.zeros(self._parts))

    def _join(self) -> None:
        """Joins what is held; values beyond half of what may be held become others, the smallest ones first."""
        rows = _curves_grouped(pa.concat_tables(self._groups))
        if rows.num_rows > limits.PLOT_SUMS // 2:
            totals = _totals(rows).sort_by([("amount_sum", "descending")])
            kept = pc.less_equal(pc.cumulative_sum(totals.column("amount_count")), limits.PLOT_SUMS // 2)
            names = totals.filter(kept).column("value")
            chosen = pc.is_in(rows.column("value"), value_set=names.combine_chunks())
            self._others += _by_part(rows.filter(pc.invert(chosen)), self._parts)
            rows, self.approximate = rows.filter(chosen), True
        self._groups, self._held = [rows], rows.num_rows


def _curves_grouped(rows: pa.Table) -> pa.Table:
    grouped = rows.group_by(["at", "value"]).aggregate([("amount", "sum")])
    return grouped.rename_columns([name.removesuffix("_sum") for name in grouped.column_names])


def _totals(rows: pa.Table) -> pa.Table:
    """Returns the sum of each value, and in how many parts of time it is."""
    return rows.group_by("value").aggregate([("amount", "sum"), ("amount", "count")])


def _by_part(rows: pa.Table, parts: int) -> NDArray[np.float64]:
    sums: NDArray[Any] = np.bincount(rows.column("at").to_numpy(), rows.column("amount").to_numpy(), parts)
    return sums


# Published rows by the page: filtered, sorted and paged at one version of their table, in bounded memory. The results
# pages, their downloads and `lowwater diff` read them so; `published_rows` reads all rows of a range by time.

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
OPERATORS = (*COMPARISONS, "contains", "is null")
LAST = "_last"  # column of the instant up to which a packet could change the row, ns
DEEPEST = 10_000  # last row that can be paged to; more rows are downloaded or filtered
LATEST = (1 << 63) - 1  # last instant that a column holds, ns since the epoch
_HOUR = "partition._hour"
_PLACE = "0"  # name of a column that no query has
OPENED = 64  # files that are opened at a time


BOUNDS: dict[str, Callable[[Any, Any, int], Any]] = {
    "=": lambda low, high, value: pc.and_(pc.less_equal(low, value), pc.greater_equal(high, value)),
    "<": lambda low, high, value: pc.less(low, value),
    "<=": lambda low, high, value: pc.less_equal(low, value),
    ">": lambda low, high, value: pc.greater(high, value),
    ">=": lambda low, high, value: pc.greater_equal(high, value),
}
"""Comparison -> whether values between two bounds may meet it."""


@dataclass(frozen=True)
class Filter:
    """A condition on a column: `value` is text as people write it; unused for `is null`."""

    column: str
    operator: str
    value: str


@dataclass(frozen=True)
class RowQuery:
    """Which rows are wanted."""

    start: int  # first instant of `_last`, ns since the epoch
    end: int  # end of the instants, ns, exclusive
    filters: tuple[Filter, ...] = ()  # conditions that all hold
    sort: str = ""  # column to sort by; empty for the order of time
    descending: bool = False  # whether large values come first


@dataclass(frozen=True)
class ResultTable:
    """The table of a query at one version."""

    query: str
    version: int
    newest: int
    columns: pa.Schema
    span: tuple[int, int] | None  # smallest and largest `_last` of its rows, ns; None without rows
    path: PurePath
    identity: str  # name that Delta gave the table, and digest of the commit; another history has another one
    stored: pa.Schema  # all columns of the table, as Delta has them
    files: pa.Table  # its files by hour, with their rows and what the log knows of their values
    # is told the number of files that were just read; what it raises ends the reading
    watch: Callable[[int], None] = lambda files: None

    def opened(self) -> DeltaTable:
        return at_version(self.path, self.version)

    def count(self, row_query: RowQuery) -> int:
        """Counts the rows of a query. Without filters only files at the ends of the range are read.

        With filters on one column those files are read that have no sums by its values.
        Raises LakeError if a filter is wrong, or the table cannot be read."""
        files = self._files(row_query)
        inside = pa.array([False] * files.num_rows, pa.bool_())
        if not row_query.filters and f"min.{LAST}" in files.column_names:
            lows, highs = files.column(f"min.{LAST}"), files.column(f"max.{LAST}")
            inside = pc.and_(pc.greater_equal(lows, row_query.start), pc.less(highs, row_query.end)).fill_null(False)
        known = pc.sum(files.filter(inside).column("num_records")).as_py() or 0
        if row_query.filters:
            return sum(int(pc.sum(batch.column("amount")).as_py() or 0) for batch, _ in self.amounts(row_query, "", ""))
        read = self._batches(files.filter(pc.invert(inside)), row_query, ())
        return int(known) + sum(int(batch.num_rows) for batch in read)

    def amounts(
        self, row_query: RowQuery, number: str, key: str, by_hour: bool = True
    ) -> Iterator[tuple[pa.RecordBatch, bool]]:
        """Yields amounts that add up to the sums of a number (empty to count rows) by a key (empty for none): of rows,
        or, if `by_hour`, of whole files, one for each value, at the begin of the hour.

        These are columns `_last` (ns), `value` (text where it is a text or a whole number) and `amount`; and whether
        the values are unknown, because a file has too many.
        """
        files, seen = self._files(row_query), set[str]()
        column = self._summed_by(row_query, key)
        if by_hour and column is not None:
            hours = files.column(_HOUR).cast(pa.int64())
            first, end = -(-row_query.start // HOUR), row_query.end // HOUR
            inside = files.filter(pc.and_(pc.greater_equal(hours, first), pc.less(hours, end))).column("path")
            for rows, is_rest in self._summed(row_query, column, number, inside.combine_chunks(), seen):
                value = rows.column("value") if key else pa.nulls(rows.num_rows, pa.string())
                columns = {
                    LAST: pc.multiply(rows.column("hour"), HOUR),
                    "value": value,
                    "amount": rows.column("amount"),
                }
                for batch in pa.table(columns).to_batches():
                    yield batch, is_rest
            files = files.filter(pc.invert(pc.is_in(files.column("path"), value_set=pa.array(list(seen), pa.string()))))
        as_text = bool(key) and is_key(self.columns.field(key).type)
        for batch in self._batches(files, row_query, [name for name in dict.fromkeys((number, key)) if name]):
            value = batch.column(key) if key else pa.nulls(batch.num_rows, pa.string())
            amount = pa.repeat(pa.scalar(1.0), batch.num_rows)
            if number:
                amount = pc.fill_null(batch.column(number).cast(pa.float64()), 0.0)
            arrays = {LAST: batch.column(LAST), "value": value.cast(pa.string()) if as_text else value}
            yield pa.record_batch(arrays | {"amount": amount}), False

    def _summed_by(self, row_query: RowQuery, key: str) -> str | None:
        """Returns the column by whose values sums of whole files answer a query and a key; None if they cannot."""
        names = {each.column for each in row_query.filters} | ({key} if key else set())
        if not names:
            return ALL
        (name, *more) = names
        return name if not more and is_key(self.require(name)) else None

    def _summed(
        self, row_query: RowQuery, column: str, number: str, names: pa.Array, seen: set[str]
    ) -> Iterator[tuple[pa.Table, bool]]:
        """Yields the sums of files by the values that meet the filters of a query, which are all of this column."""
        for rows, is_rest in read_sums(self.path, column, number, names, seen, whole=bool(row_query.filters)):
            if row_query.filters:
                values = rows.column("value").cast(self.columns.field(column).type)
                numbered = pa.table([values, np.arange(rows.num_rows)], [column, _PLACE])
                met = tables.all_of(map(self._condition, row_query.filters))
                rows = rows.take(numbered.filter(met).column(_PLACE))
            yield rows, is_rest

    def batches(self, row_query: RowQuery, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a query with `_last`, by hour and else as stored, whatever its order; some are empty."""
        yield from self._batches(self._files(row_query), row_query, columns)

    def _batches(
        self, files: pa.Table, row_query: RowQuery, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        names = [*(self.columns.names if columns is None else columns), LAST]
        options = {"batch_size": BATCH, "batch_readahead": 1, "fragment_readahead": 1}
        predicate = self._predicate(row_query)
        with tables.lake_errors(f"{self.path}: the table cannot be read"):
            for at in range(0, files.num_rows, OPENED):
                some = files.slice(at, OPENED)
                yield from self._dataset(some).to_batches(columns=names, filter=predicate, **options)
                self.watch(some.num_rows)

    def page(self, row_query: RowQuery, offset: int, limit: int) -> pa.Table:
        """Reads rows `offset` to `offset + limit` of a query in its order; ties are by time, then by all columns.
        Raises LakeError if a filter or the column of the order is wrong, the page is too deep, or the table cannot be
        read."""
        if offset + limit > DEEPEST:
            raise LakeError(f"query {self.query}: pages end at row {DEEPEST:,}", "filter the rows, or download them")
        if row_query.sort:
            self.require(row_query.sort)
        order = "descending" if row_query.descending else "ascending"
        keys = dict.fromkeys([row_query.sort or LAST, LAST, *self.columns.names])
        sorting = [(name, order if at == 0 else "ascending", "at_end") for at, name in enumerate(keys)]
        best = self._best(row_query, sorting, offset + limit)
        return best.slice(offset, limit).select([*self.columns.names, LAST])

    def _best(self, row_query: RowQuery, sorting: list[tuple[str, str, str]], most: int) -> pa.Table:
        """Returns the first rows in an order; rows beyond the present last one are dropped as they come."""
        schema = pa.schema([*self.columns, pa.field(LAST, pa.int64())])
        best, held = schema.empty_table(), 0
        waiting: list[pa.Table] = []

        def merged() -> pa.Table:
            rows = pa.concat_tables([best, *waiting])
            return rows.take(pc.sort_indices(rows, sort_keys=sorting)[:most]).combine_chunks()

        for files, bound in self._in_order(row_query, sorting[0]):
            full = best.num_rows >= most
            if full and bound is not None and not _reaches(files, bound, sorting[0], best):
                break  # the rows of this file, and of those after it, all come later
            for batch in self._batches(files, row_query):
                rows = pa.Table.from_batches([batch]).cast(schema)
                rows = rows if best.num_rows < most else _before(rows, sorting[0], best)
                waiting.append(rows)
                held += rows.num_rows
                if held > limits.SORTED_HELD_ROWS:
                    best, waiting, held = merged(), [], 0
            if bound is not None and held:
                best, waiting, held = merged(), [], 0
        return merged() if waiting else best

    def _in_order(self, row_query: RowQuery, first: tuple[str, str, str]) -> Iterator[tuple[pa.Table, Any]]:
        """Yields the files of a query with the best value that the log knows of each, those with the best one first.

        Files of which the log knows no value come first, all together and with None.
        """
        name, order, _ = first
        files, least = self._likely(self._files(row_query), row_query), order == "ascending"
        column = f"{'min' if least else 'max'}.{name}"
        usable = column in files.column_names and pa.types.is_integer(files.schema.field(column).type)
        if not usable:
            yield files, None
            return
        bounds = files.column(column)
        unknown = files.filter(pc.is_null(bounds))
        if unknown.num_rows:
            yield unknown, None
        second = [(f"min.{LAST}", "ascending")] if f"min.{LAST}" in files.column_names and name != LAST else []
        known = files.filter(pc.is_valid(bounds)).sort_by([(column, order), *second])
        for at in range(known.num_rows):
            yield known.slice(at, 1), known.column(column)[at].as_py()

    def hours(self, row_query: RowQuery) -> list[int]:
        """Lists the hours since the epoch that may hold rows of a query."""
        hours: list[int] = pc.unique(self._files(row_query).column(_HOUR)).to_pylist()
        return hours

    def number_of_files(self, row_query: RowQuery) -> int:
        return int(self._files(row_query).num_rows)

    def _files(self, row_query: RowQuery) -> pa.Table:
        """Returns the files that may hold rows of a query, by hour."""
        hours = self.files.column(_HOUR)
        first, last = row_query.start // HOUR, (row_query.end - 1) // HOUR
        return self.files.filter(pc.and_(pc.greater_equal(hours, first), pc.less_equal(hours, last)))

    def _likely(self, files: pa.Table, row_query: RowQuery) -> pa.Table:
        """Leaves out the files in which no row meets the filters, as far as the log or the sums of values tell."""
        for each in row_query.filters:
            kind = self.require(each.column)
            if pa.types.is_integer(kind) and each.operator in BOUNDS and f"min.{each.column}" in files.column_names:
                lows, highs = files.column(f"min.{each.column}"), files.column(f"max.{each.column}")
                files = files.filter(BOUNDS[each.operator](lows, highs, _value(each, kind)).fill_null(True))
        column = self._summed_by(row_query, "")
        if not row_query.filters or column is None or files.num_rows < OPENED:
            return files
        seen, hours = set[str](), set[int]()
        names = files.column("path").combine_chunks()
        for rows, _ in self._summed(row_query, column, "", names, seen):
            hours.update(pc.unique(rows.column("hour")).to_pylist())
        unknown = pc.invert(pc.is_in(names, value_set=pa.array(sorted(seen), pa.string())))
        met = pc.is_in(files.column(_HOUR).cast(pa.int64()), value_set=pa.array(sorted(hours), pa.int64()))
        return files.filter(pc.or_(met, unknown))

    def _dataset(self, files: pa.Table) -> pads.Dataset:
        hours = (pads.field("_hour") == hour for hour in files.column(_HOUR).to_pylist())
        schema = pa.schema([*self.columns, pa.field(LAST, pa.int64()), pa.field("_hour", pa.int64())])
        return tables.files_dataset(self.path, zip(files.column("path").to_pylist(), hours, strict=True), schema)

    def _predicate(self, row_query: RowQuery) -> Any:
        return tables.all_of(
            [published_within(row_query.start, row_query.end), *(self._condition(each) for each in row_query.filters)]
        )

    def require(self, column: str) -> pa.DataType:
        """Returns the type of a column of the query. Raises LakeError if there is no such column."""
        if column not in self.columns.names:
            raise LakeError(f"query {self.query} has no column {column!r}", nearest(column, self.columns.names))
        return self.columns.field(column).type

    def _condition(self, asked: Filter) -> Any:
        kind, field = self.require(asked.column), pads.field(asked.column)
        if asked.operator == "is null":
            return field.is_null()
        if asked.operator == "contains":
            return pc.match_substring(field.cast(pa.string()), asked.value, ignore_case=True)
        if asked.operator not in OPERATORS:
            raise LakeError(f"there is no comparison {asked.operator!r}", f"there are: {', '.join(OPERATORS)}")
        return COMPARISONS[asked.operator](field, _value(asked, kind))


def result_table(lake: layout.Lake, query: str, version: int | None = None) -> ResultTable:
    """Opens the table of a query at a version, or the newest one.
    Raises LakeError if there is no such table or version, or files of the version are gone."""
    path = lake.table(query)
    with tables.lake_errors(f"{path}: the table cannot be read"):
        present = newest(path)
        if present is None:
            raise LakeError(f"query {query!r} has no published rows", "`lowwater status` says why")
        latest = existing(path).version()
    if version is not None and not 0 <= version <= latest:
        raise LakeError(f"table {query} has no version {version}", f"there are versions 0 to {latest}")
    chosen = latest if version is None else version
    with tables.lake_errors(f"{path}: version {chosen} of the table cannot be read"):
        if chosen == latest:
            return cached_value(path, "results", lambda _: _open(path, query, existing(path).version(), None))
        return _open(path, query, chosen, latest)


def _open(path: PurePath, query: str, version: int, latest: int | None) -> ResultTable:
    """Reads the log of a table up to a version; without `latest` the version is the newest one."""
    table = at_version(path, version)
    files = tables.files_of(table)
    gone = [name for name in files.column("path").to_pylist() if latest is not None and not paths.has_file(path / name)]
    if gone:
        raise LakeError(
            f"table {query}: {len(gone)} of {files.num_rows} files of version {version} were removed by "
            "`lowwater maintain`",
            "ask for a newer version",
        )
    known = pa.schema(table.schema().to_arrow())
    columns = pa.schema([pa.field(field.name, tables.plain_type(field.type)) for field in known if of_query(field)])
    span = None
    if files.num_rows and f"min.{LAST}" in files.column_names:
        low, high = pc.min(files.column(f"min.{LAST}")).as_py(), pc.max(files.column(f"max.{LAST}")).as_py()
        span = None if low is None or high is None else (low, high)
    if files.num_rows:
        exact = [LAST, *(field.name for field in columns if pa.types.is_integer(field.type))]
        bounds = [f"{side}.{name}" for side in ("min", "max") for name in exact]
        wanted = ["path", "num_records", _HOUR, *(name for name in bounds if name in files.column_names)]
        files = files.select(wanted).sort_by([(_HOUR, "ascending"), ("path", "ascending")]).combine_chunks()
    else:
        files = pa.schema([("path", pa.string()), ("num_records", pa.int64()), (_HOUR, pa.int64())]).empty_table()
    newest = version if latest is None else latest
    identity = f"{table.metadata().id} {published.commit_digest(path, version)}"
    return ResultTable(query, version, newest, columns, span, path, identity, known, files)


def _reaches(file: pa.Table, bound: int, first: tuple[str, str, str], best: pa.Table) -> bool:
    """Whether a file whose best value is `bound` may have a row before the last one of `best`: ties are by time."""
    name, order, _ = first
    last = best.column(name)[-1].as_py()
    if last is None or bound != last:
        return last is None or (bound < last if order == "ascending" else bound > last)
    earliest = file.column(f"min.{LAST}")[0].as_py() if f"min.{LAST}" in file.column_names else None
    return name == LAST or earliest is None or bool(earliest <= best.column(LAST)[-1].as_py())


def _before(rows: pa.Table, first: tuple[str, str, str], best: pa.Table) -> pa.Table:
    """Drops rows that come after the last one of `best` by the first key alone."""
    name, order, _ = first
    bound = best.column(name)[-1]
    if not bound.is_valid:
        return rows
    compare = pc.less_equal if order == "ascending" else pc.greater_equal
    return rows.filter(compare(rows.column(name), bound))


def _value(asked: Filter, kind: pa.DataType) -> pa.Scalar:
    text = asked.value.strip()
    value: object = text
    try:
        if pa.types.is_boolean(kind):
            value = {"true": True, "false": False}[text.lower()]
        elif pa.types.is_integer(kind):
            value = int(text)
        elif pa.types.is_floating(kind):
            value = float(text)
        return pa.scalar(value, kind)
    except (ValueError, KeyError, OverflowError, TypeError):  # Arrow's own errors are among them
        raise LakeError(f"{asked.value[:60]!r} is no value of column {asked.column!r}", f"its type is {kind}") from None


def instant_of(text: str, name: str) -> int:
    """Parses an instant of an address. Raises LakeError if it is no instant."""
    try:
        instant = parse_instant(text)
        if instant > LATEST:
            raise ValueError(f"{text!r} is after {format_instant(LATEST)}")
        return instant
    except ValueError as error:
        raise LakeError(f"{name}: {error}", f"write for example {format_instant(0)}") from None


# Compares two versions of a published table over a range of time: rows added, gone and changed, by the unique key.
# For `lowwater diff` and its page. Rows are compared hour by hour, so the memory is that of an hour at both versions.


Row = tuple[Any, ...]


@dataclass
class TableDiff:
    """The difference of two versions."""

    columns: tuple[str, ...]  # columns of both versions, in the order of the later one
    key: tuple[str, ...]  # columns that name a row; empty where whole rows are compared
    same: int = 0
    added: int = 0  # number of rows of the later version only
    gone: int = 0  # number of rows of the earlier version only
    changed: int = 0  # number of keys whose other columns differ
    # (`added`, `gone` or `changed`; row before; row after), the first ones of each hour
    examples: list[tuple[str, Row | None, Row | None]] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        return not (self.added or self.gone or self.changed)

    def __str__(self) -> str:
        return f"{self.added:,} added, {self.gone:,} gone, {self.changed:,} changed, {self.same:,} the same"

    def lines(self) -> Iterator[str]:
        """Yields the examples as text: `+` or `-` and the row as `column=value`; `~` with `column=before -> after`."""
        for kind, old, new in self.examples:
            values = zip(self.columns, old or new or (), new or old or (), strict=True)
            texts = (f"{name}={a!r}" if a is b or a == b else f"{name}={a!r} -> {b!r}" for name, a, b in values)
            yield " ".join([{"added": "+", "gone": "-", "changed": "~"}[kind], *texts])


def compare(
    before: ResultTable, after: ResultTable, key: Sequence[str], start: int, end: int, most: int = 100
) -> TableDiff:
    """Compares the rows with `_last` in [start, end), ns, of two versions of a table, by the columns of their unique
    key; rows with a key that occurs twice are compared as wholes.
    Raises LakeError if an hour has too many rows, or a table cannot be read."""
    columns = tuple(dict.fromkeys([*after.columns.names, *before.columns.names]))
    names = tuple(name for name in key if name in before.columns.names and name in after.columns.names)
    diff = TableDiff(columns, names if len(names) == len(key) else ())
    hours = sorted({hour for table in (before, after) for hour in table.hours(RowQuery(start, end))})
    for hour in hours:
        row_query = RowQuery(max(start, hour * HOUR), min(end, (hour + 1) * HOUR))
        _compare_hour(diff, _rows(before, row_query, columns), _rows(after, row_query, columns), most)
    return diff


def _rows(table: ResultTable, row_query: RowQuery, columns: Sequence[str]) -> Counter[Row]:
    if table.count(row_query) > limits.COMPARED_HOUR_ROWS:
        raise LakeError(
            f"table {table.query}: an hour has more than {limits.COMPARED_HOUR_ROWS:,} rows", "compare shorter ranges"
        )
    rows: Counter[Row] = Counter()
    absent = [name for name in columns if name not in table.columns.names]
    for batch in table.batches(row_query):
        values = {name: _equal_values(batch.column(name)) for name in batch.schema.names if name != LAST}
        values |= {name: [None] * batch.num_rows for name in absent}
        rows.update(zip(*(values[name] for name in columns), strict=True))
    return rows


def _equal_values(column: pa.Array) -> list[Any]:
    values: list[Any] = column.to_pylist()
    if not pa.types.is_floating(column.type):
        return values
    return [math.nan if value != value else value for value in values]  # in a tuple, only one object equals itself


def _compare_hour(diff: TableDiff, before: Counter[Row], after: Counter[Row], most: int) -> None:
    diff.same += (before & after).total()
    gone, added = before - after, after - before
    places = [diff.columns.index(name) for name in diff.key]
    if places:
        old, new = _by_key(gone, places), _by_key(added, places)
        for name in sorted(old.keys() & new.keys(), key=repr):
            if len(old[name]) == len(new[name]) == 1:
                diff.changed += 1
                _keep(diff, most, "changed", old[name][0], new[name][0])
                gone[old[name][0]] -= 1
                added[new[name][0]] -= 1
    diff.gone += gone.total()
    diff.added += added.total()
    for row in sorted(gone.elements(), key=repr)[:most]:
        _keep(diff, most, "gone", row, None)
    for row in sorted(added.elements(), key=repr)[:most]:
        _keep(diff, most, "added", None, row)


def _by_key(rows: Counter[Row], places: Sequence[int]) -> dict[Row, list[Row]]:
    return tables.grouped((tuple(row[place] for place in places), row) for row in rows.elements())


def _keep(diff: TableDiff, most: int, kind: str, before: Row | None, after: Row | None) -> None:
    if len(diff.examples) < most:
        diff.examples.append((kind, before, after))
