"""Published rows by the page: filtered, sorted and paged at one version of their table, in bounded memory.

Beside `visible`, which reads all rows of a range by time. The results pages, their downloads and `lowwater diff` read
through this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from lowwater.errors import LakeError
from lowwater.instants import HOUR, format_instant, parse_instant
from lowwater.lake.layout import Lake
from lowwater.lake.opened import at_version, cached_value, existing, newest
from lowwater.lake.results.published_log import commit_digest
from lowwater.lake.results.sums import ALL, is_key, read_sums
from lowwater.lake.results.visible import of_query, plain_type
from lowwater.lake.tables import files_dataset, files_of, lake_errors
from lowwater.plan.text import nearest
from lowwater.storage import paths

if TYPE_CHECKING:
    from deltalake import DeltaTable

OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "contains", "is null")
LAST = "_last"
"""Column of the instant up to which a packet could change the row, ns."""
DEEPEST = 10_000
"""Last row that can be paged to; more rows are downloaded or filtered."""
BATCH = 65_536
LATEST = (1 << 63) - 1
"""Last instant that a column holds, ns since the epoch."""
_HOUR = "partition._hour"
_PLACE = "0"
"""Name of a column that no query has."""
HELD = 1 << 15
"""Rows that are held while sorting, beside the page."""
OPENED = 64
"""Files that are opened at a time."""


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
class Wish:
    """Which rows are wanted.

    Attributes:
        start: first instant of `_last`, ns since the epoch.
        end: end of the instants, ns, exclusive.
        filters: conditions that all hold.
        sort: column to sort by; empty for the order of time.
        descending: whether large values come first.
    """

    start: int
    end: int
    filters: tuple[Filter, ...] = ()
    sort: str = ""
    descending: bool = False


@dataclass(frozen=True)
class ResultTable:
    """The table of a query at one version.

    Attributes:
        query: name of the query.
        version: version of the Delta table.
        newest: newest version of the table.
        columns: names and types of the columns of the query.
        span: smallest and largest `_last` of its rows, ns; None without rows.
        path: folder of the table.
        identity: name that Delta gave the table, and digest of the commit; another history has another one.
        stored: all columns of the table, as Delta has them.
        files: its files by hour, with their rows and what the log knows of their values.
        watch: is told the number of files that were just read; what it raises ends the reading.
    """

    query: str
    version: int
    newest: int
    columns: pa.Schema
    span: tuple[int, int] | None
    path: PurePath
    identity: str
    stored: pa.Schema
    files: pa.Table
    watch: Callable[[int], None] = lambda files: None

    def opened(self) -> DeltaTable:
        """Opens the table at this version."""
        return at_version(self.path, self.version)

    def count(self, wish: Wish) -> int:
        """Counts the rows of a wish. Without filters only files at the ends of the range are read.

        With filters on one column those files are read that have no sums by its values.

        Raises:
            LakeError: a filter is wrong, or the table cannot be read.
        """
        files = self._files(wish)
        inside = pa.array([False] * files.num_rows, pa.bool_())
        if not wish.filters and f"min.{LAST}" in files.column_names:
            lows, highs = files.column(f"min.{LAST}"), files.column(f"max.{LAST}")
            inside = pc.and_(pc.greater_equal(lows, wish.start), pc.less(highs, wish.end)).fill_null(False)
        known = pc.sum(files.filter(inside).column("num_records")).as_py() or 0
        if wish.filters:
            return sum(int(pc.sum(batch.column("amount")).as_py() or 0) for batch, _ in self.amounts(wish, "", ""))
        read = self._batches(files.filter(pc.invert(inside)), wish, ())
        return int(known) + sum(int(batch.num_rows) for batch in read)

    def amounts(self, wish: Wish, number: str, key: str, by_hour: bool = True) -> Iterator[tuple[pa.RecordBatch, bool]]:
        """Yields amounts that add up to the sums of a number by a key: of rows, or of whole files.

        Args:
            wish: the rows; its order is ignored.
            number: column to sum; empty to count rows.
            key: column of the values; empty for none.
            by_hour: whether a file may be one amount for each value, at the begin of its hour.

        Yields:
            Columns `_last` (ns), `value` (text where it is a text or a whole number) and `amount`; and whether the
            values are unknown, because a file has too many.
        """
        files, seen = self._files(wish), set[str]()
        column = self._summed_by(wish, key)
        if by_hour and column is not None:
            hours = files.column(_HOUR).cast(pa.int64())
            first, end = -(-wish.start // HOUR), wish.end // HOUR
            inside = files.filter(pc.and_(pc.greater_equal(hours, first), pc.less(hours, end))).column("path")
            for rows, is_rest in self._summed(wish, column, number, inside.combine_chunks(), seen):
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
        for batch in self._batches(files, wish, [name for name in dict.fromkeys((number, key)) if name]):
            value = batch.column(key) if key else pa.nulls(batch.num_rows, pa.string())
            amount = pa.repeat(pa.scalar(1.0), batch.num_rows)
            if number:
                amount = pc.fill_null(batch.column(number).cast(pa.float64()), 0.0)
            arrays = {LAST: batch.column(LAST), "value": value.cast(pa.string()) if as_text else value}
            yield pa.record_batch(arrays | {"amount": amount}), False

    def _summed_by(self, wish: Wish, key: str) -> str | None:
        """Returns the column by whose values sums of whole files answer a wish and a key; None if they cannot."""
        names = {each.column for each in wish.filters} | ({key} if key else set())
        if not names:
            return ALL
        (name, *more) = names
        return name if not more and is_key(self.require(name)) else None

    def _summed(
        self, wish: Wish, column: str, number: str, names: pa.Array, seen: set[str]
    ) -> Iterator[tuple[pa.Table, bool]]:
        """Yields the sums of files by the values that meet the filters of a wish, which are all of this column."""
        for rows, is_rest in read_sums(self.path, column, number, names, seen, whole=bool(wish.filters)):
            if wish.filters:
                values = rows.column("value").cast(self.columns.field(column).type)
                numbered = pa.table([values, np.arange(rows.num_rows)], [column, _PLACE])
                met = reduce(lambda left, right: left & right, [self._condition(each) for each in wish.filters])
                rows = rows.take(numbered.filter(met).column(_PLACE))
            yield rows, is_rest

    def batches(self, wish: Wish, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a wish with `_last`, by hour and else as stored; some may be empty.

        Args:
            wish: the rows; its order is ignored.
            columns: columns of the query; None for all.
        """
        yield from self._batches(self._files(wish), wish, columns)

    def _batches(self, files: pa.Table, wish: Wish, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        names = [*(self.columns.names if columns is None else columns), LAST]
        options = {"batch_size": BATCH, "batch_readahead": 1, "fragment_readahead": 1}
        predicate = self._predicate(wish)
        with lake_errors(f"{self.path}: the table cannot be read"):
            for at in range(0, files.num_rows, OPENED):
                some = files.slice(at, OPENED)
                yield from self._dataset(some).to_batches(columns=names, filter=predicate, **options)
                self.watch(some.num_rows)

    def page(self, wish: Wish, offset: int, limit: int) -> pa.Table:
        """Reads rows `offset` to `offset + limit` of a wish in its order; ties are by time, then by all columns.

        Raises:
            LakeError: a filter or the column of the order is wrong, the page is too deep, or the table cannot be read.
        """
        if offset + limit > DEEPEST:
            raise LakeError(f"query {self.query}: pages end at row {DEEPEST:,}", "filter the rows, or download them")
        if wish.sort:
            self.require(wish.sort)
        order = "descending" if wish.descending else "ascending"
        keys = dict.fromkeys([wish.sort or LAST, LAST, *self.columns.names])
        sorting = [(name, order if at == 0 else "ascending", "at_end") for at, name in enumerate(keys)]
        best = self._best(wish, sorting, offset + limit)
        return best.slice(offset, limit).select([*self.columns.names, LAST])

    def _best(self, wish: Wish, sorting: list[tuple[str, str, str]], most: int) -> pa.Table:
        """Returns the first rows in an order; rows beyond the present last one are dropped as they come."""
        schema = pa.schema([*self.columns, pa.field(LAST, pa.int64())])
        best, held = schema.empty_table(), 0
        waiting: list[pa.Table] = []

        def merged() -> pa.Table:
            rows = pa.concat_tables([best, *waiting])
            return rows.take(pc.sort_indices(rows, sort_keys=sorting)[:most]).combine_chunks()

        for files, bound in self._in_order(wish, sorting[0]):
            full = best.num_rows >= most
            if full and bound is not None and not _reaches(files, bound, sorting[0], best):
                break  # the rows of this file, and of those after it, all come later
            for batch in self._batches(files, wish):
                rows = pa.Table.from_batches([batch]).cast(schema)
                rows = rows if best.num_rows < most else _before(rows, sorting[0], best)
                waiting.append(rows)
                held += rows.num_rows
                if held > HELD:
                    best, waiting, held = merged(), [], 0
            if bound is not None and held:
                best, waiting, held = merged(), [], 0
        return merged() if waiting else best

    def _in_order(self, wish: Wish, first: tuple[str, str, str]) -> Iterator[tuple[pa.Table, Any]]:
        """Yields the files of a wish with the best value that the log knows of each, those with the best one first.

        Files of which the log knows no value come first, all together and with None.
        """
        name, order, _ = first
        files, least = self._likely(self._files(wish), wish), order == "ascending"
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

    def hours(self, wish: Wish) -> list[int]:
        """Lists the hours since the epoch that may hold rows of a wish."""
        hours: list[int] = pc.unique(self._files(wish).column(_HOUR)).to_pylist()
        return hours

    def number_of_files(self, wish: Wish) -> int:
        """Returns how many files may hold rows of a wish."""
        return int(self._files(wish).num_rows)

    def _files(self, wish: Wish) -> pa.Table:
        """Returns the files that may hold rows of a wish, by hour."""
        hours = self.files.column(_HOUR)
        first, last = wish.start // HOUR, (wish.end - 1) // HOUR
        return self.files.filter(pc.and_(pc.greater_equal(hours, first), pc.less_equal(hours, last)))

    def _likely(self, files: pa.Table, wish: Wish) -> pa.Table:
        """Leaves out the files in which no row meets the filters, as far as the log or the sums of values tell."""
        for each in wish.filters:
            kind = self.require(each.column)
            if pa.types.is_integer(kind) and each.operator in BOUNDS and f"min.{each.column}" in files.column_names:
                lows, highs = files.column(f"min.{each.column}"), files.column(f"max.{each.column}")
                files = files.filter(BOUNDS[each.operator](lows, highs, _value(each, kind)).fill_null(True))
        column = self._summed_by(wish, "")
        if not wish.filters or column is None or files.num_rows < OPENED:
            return files
        seen, hours = set[str](), set[int]()
        names = files.column("path").combine_chunks()
        for rows, _ in self._summed(wish, column, "", names, seen):
            hours.update(pc.unique(rows.column("hour")).to_pylist())
        unknown = pc.invert(pc.is_in(names, value_set=pa.array(sorted(seen), pa.string())))
        met = pc.is_in(files.column(_HOUR).cast(pa.int64()), value_set=pa.array(sorted(hours), pa.int64()))
        return files.filter(pc.or_(met, unknown))

    def _dataset(self, files: pa.Table) -> pads.Dataset:
        hours = (pads.field("_hour") == hour for hour in files.column(_HOUR).to_pylist())
        schema = pa.schema([*self.columns, pa.field(LAST, pa.int64()), pa.field("_hour", pa.int64())])
        return files_dataset(self.path, zip(files.column("path").to_pylist(), hours, strict=True), schema)

    def _predicate(self, wish: Wish) -> Any:
        hours = (pads.field("_hour") >= wish.start // HOUR) & (pads.field("_hour") <= (wish.end - 1) // HOUR)
        span = (pads.field(LAST) >= wish.start) & (pads.field(LAST) < wish.end)
        return reduce(lambda left, right: left & right, [self._condition(each) for each in wish.filters], hours & span)

    def require(self, column: str) -> pa.DataType:
        """Returns the type of a column of the query.

        Raises:
            LakeError: there is no such column.
        """
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
        value = _value(asked, kind)
        if asked.operator in ("=", "!="):
            return field == value if asked.operator == "=" else field != value
        return {"<": field < value, "<=": field <= value, ">": field > value, ">=": field >= value}[asked.operator]


def result_table(lake: Lake, query: str, version: int | None = None) -> ResultTable:
    """Opens the table of a query at a version.

    Args:
        lake: the open lake.
        query: an output query.
        version: version of the table; None for the newest.

    Raises:
        LakeError: there is no such table or version, or files of the version are gone.
    """
    path = lake.table(query)
    with lake_errors(f"{path}: the table cannot be read"):
        present = newest(path)
        if present is None:
            raise LakeError(f"query {query!r} has no published rows", "`lowwater status` says why")
        latest = existing(path).version()
    if version is not None and not 0 <= version <= latest:
        raise LakeError(f"table {query} has no version {version}", f"there are versions 0 to {latest}")
    chosen = latest if version is None else version
    with lake_errors(f"{path}: version {chosen} of the table cannot be read"):
        if chosen == latest:
            return cached_value(path, "results", lambda _: _open(path, query, existing(path).version(), None))
        return _open(path, query, chosen, latest)


def _open(path: PurePath, query: str, version: int, latest: int | None) -> ResultTable:
    """Reads the log of a table up to a version; without `latest` the version is the newest one."""
    table = at_version(path, version)
    files = files_of(table)
    gone = [name for name in files.column("path").to_pylist() if latest is not None and not paths.has_file(path / name)]
    if gone:
        raise LakeError(
            f"table {query}: {len(gone)} of {files.num_rows} files of version {version} were removed by "
            "`lowwater maintain`",
            "ask for a newer version",
        )
    known = pa.schema(table.schema().to_arrow())
    columns = pa.schema([pa.field(field.name, plain_type(field.type)) for field in known if of_query(field)])
    span = None
    if files.num_rows and f"min.{LAST}" in files.column_names:
        low, high = pc.min(files.column(f"min.{LAST}")).as_py(), pc.max(files.column(f"max.{LAST}")).as_py()
        span = None if low is None or high is None else (low, high)
    if files.num_rows:
        bounds = [f"{side}.{name}" for side in ("min", "max") for name in (LAST, *_numbers(columns))]
        wanted = ["path", "num_records", _HOUR, *(name for name in bounds if name in files.column_names)]
        files = files.select(wanted).sort_by([(_HOUR, "ascending"), ("path", "ascending")]).combine_chunks()
    else:
        files = pa.schema([("path", pa.string()), ("num_records", pa.int64()), (_HOUR, pa.int64())]).empty_table()
    newest = version if latest is None else latest
    identity = f"{table.metadata().id} {commit_digest(path, version)}"
    return ResultTable(query, version, newest, columns, span, path, identity, known, files)


def _numbers(columns: pa.Schema) -> list[str]:
    """Names the columns whose bounds in the log are exact."""
    return [field.name for field in columns if pa.types.is_integer(field.type)]


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
    """Parses an instant of an address.

    Raises:
        LakeError: it is no instant.
    """
    try:
        instant = parse_instant(text)
        if instant > LATEST:
            raise ValueError(f"{text!r} is after {format_instant(LATEST)}")
        return instant
    except ValueError as error:
        raise LakeError(f"{name}: {error}", f"write for example {format_instant(0)}") from None
