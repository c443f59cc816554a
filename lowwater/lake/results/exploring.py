"""Published rows by the page: filtered, sorted and paged at one version of their table, in bounded memory.

Beside `visible`, which reads all rows of a range by time. The results pages, their downloads and `lowwater diff` read
through this module.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lowwater.errors import LakeError
from lowwater.instants import HOUR, format_instant, parse_instant
from lowwater.lake.datasets import pads
from lowwater.lake.layout import Lake
from lowwater.lake.opened import cached_value, existing, newest
from lowwater.lake.results.visible import of_query, plain_type
from lowwater.lake.tables import files_dataset, lake_errors
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
_HOUR = "partition._hour"
HELD = 262_144
"""Rows that are held while sorting, beside the page."""


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
        table: the open table.
        files: its files by hour, with their rows and what the log knows of their values.
    """

    query: str
    version: int
    newest: int
    columns: pa.Schema
    span: tuple[int, int] | None
    path: PurePath
    table: DeltaTable
    files: pa.Table

    def count(self, wish: Wish) -> int:
        """Counts the rows of a wish. Without filters only files at the ends of the range are read.

        Raises:
            LakeError: a filter is wrong, or the table cannot be read.
        """
        predicate, files = self._predicate(wish), self._files(wish)
        inside = pa.array([False] * files.num_rows, pa.bool_())
        if not wish.filters and f"min.{LAST}" in files.column_names:
            lows, highs = files.column(f"min.{LAST}"), files.column(f"max.{LAST}")
            inside = pc.and_(pc.greater_equal(lows, wish.start), pc.less(highs, wish.end)).fill_null(False)
        known = pc.sum(files.filter(inside).column("num_records")).as_py() or 0
        with lake_errors(f"{self.path}: the table cannot be read"):
            return known + int(self._dataset(files.filter(pc.invert(inside))).count_rows(filter=predicate))

    def batches(self, wish: Wish, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a wish with `_last`, by hour and else as stored; some may be empty.

        Args:
            wish: the rows; its order is ignored.
            columns: columns of the query; None for all.
        """
        yield from self._batches(self._files(wish), wish, columns)

    def _batches(self, files: pa.Table, wish: Wish, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        names = [*(self.columns.names if columns is None else columns), LAST]
        options = {"batch_size": BATCH, "batch_readahead": 2, "fragment_readahead": 2}
        predicate = self._predicate(wish)
        with lake_errors(f"{self.path}: the table cannot be read"):
            yield from self._dataset(files).to_batches(columns=names, filter=predicate, **options)

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
        files, least = self._files(wish), order == "ascending"
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

    def _files(self, wish: Wish) -> pa.Table:
        """Returns the files that may hold rows of a wish, by hour."""
        hours = self.files.column(_HOUR)
        first, last = wish.start // HOUR, (wish.end - 1) // HOUR
        return self.files.filter(pc.and_(pc.greater_equal(hours, first), pc.less_equal(hours, last)))

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
        value = pa.scalar(_value(asked, kind), kind)
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
    from deltalake import DeltaTable

    table = DeltaTable(str(path), version=version, storage_options=paths.storage_options(path))
    files = pa.table(table.get_add_actions(flatten=True))
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
        files = files.sort_by([(_HOUR, "ascending"), ("path", "ascending")]).combine_chunks()
    else:
        files = pa.schema([("path", pa.string()), ("num_records", pa.int64()), (_HOUR, pa.int64())]).empty_table()
    return ResultTable(query, version, version if latest is None else latest, columns, span, path, table, files)


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


def _value(asked: Filter, kind: pa.DataType) -> Any:
    text = asked.value.strip()
    try:
        if pa.types.is_boolean(kind):
            return {"true": True, "false": False}[text.lower()]
        if pa.types.is_integer(kind):
            return int(text)
        if pa.types.is_floating(kind):
            return float(text)
        return text
    except (ValueError, KeyError):
        raise LakeError(f"{asked.value!r} is no value of column {asked.column!r}", f"its type is {kind}") from None


def instant_of(text: str, name: str) -> int:
    """Parses an instant of an address.

    Raises:
        LakeError: it is no instant.
    """
    try:
        return parse_instant(text)
    except ValueError as error:
        raise LakeError(f"{name}: {error}", f"write for example {format_instant(0)}") from None
