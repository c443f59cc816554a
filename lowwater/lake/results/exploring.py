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
from lowwater.lake.opened import existing, has_table, newest
from lowwater.lake.results.visible import HIDDEN
from lowwater.lake.tables import fetch_rows, lake_errors, live_files, table_dataset
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
    """

    query: str
    version: int
    newest: int
    columns: pa.Schema
    span: tuple[int, int] | None
    path: PurePath
    table: DeltaTable

    def count(self, wish: Wish) -> int:
        """Counts the rows of a wish.

        Raises:
            LakeError: a filter is wrong, or the table cannot be read.
        """
        predicate = self._predicate(wish)
        with lake_errors(f"{self.path}: the table cannot be read"):
            return int(self._dataset(predicate).count_rows(filter=predicate))

    def batches(self, wish: Wish, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a wish with `_last`, by hour and else as stored; some may be empty.

        Args:
            wish: the rows; its order is ignored.
            columns: columns of the query; None for all.
        """
        predicate = self._predicate(wish)
        names = [*(self.columns.names if columns is None else columns), LAST]
        with lake_errors(f"{self.path}: the table cannot be read"):
            dataset = self._dataset(predicate)
            for hour in self.hours(wish):
                yield from dataset.to_batches(
                    columns=names,
                    filter=predicate & (pads.field("_hour") == hour),
                    batch_size=BATCH,
                    batch_readahead=2,
                    fragment_readahead=1,
                )

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
        by_time = not wish.sort

        def merged() -> pa.Table:
            rows = pa.concat_tables([best, *waiting])
            return rows.take(pc.sort_indices(rows, sort_keys=sorting)[:most]).combine_chunks()

        hours = self.hours(wish)
        for hour in reversed(hours) if by_time and wish.descending else hours:
            within = Wish(max(wish.start, hour * HOUR), min(wish.end, (hour + 1) * HOUR), wish.filters)
            for batch in self.batches(within):
                rows = pa.Table.from_batches([batch]).cast(schema)
                rows = rows if best.num_rows < most else _before(rows, sorting[0], best)
                waiting.append(rows)
                held += rows.num_rows
                if held > HELD:
                    best, waiting, held = merged(), [], 0
            if by_time:  # the rows of another hour are all later, or all earlier
                best, waiting, held = merged(), [], 0
                if best.num_rows >= most:
                    break
        return merged() if waiting else best

    def hours(self, wish: Wish) -> list[int]:
        """Lists the hours since the epoch that may hold rows of a wish."""
        hours = sorted({int(partition["_hour"]) for partition in self.table.partitions()})
        return [hour for hour in hours if (hour + 1) * HOUR > wish.start and hour * HOUR < wish.end]

    def _dataset(self, predicate: Any) -> pads.Dataset:
        return fetch_rows(self.path, table_dataset(self.path, self.table), predicate)

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
    from deltalake import DeltaTable

    path = lake.table(query)
    with lake_errors(f"{path}: the table cannot be read"):
        present = newest(path) if has_table(path) else None
        if present is None:
            raise LakeError(f"query {query!r} has no published rows", "`lowwater status` says why")
        latest = existing(path).version()
    if version is not None and not 0 <= version <= latest:
        raise LakeError(f"table {query} has no version {version}", f"there are versions 0 to {latest}")
    chosen = latest if version is None else version
    with lake_errors(f"{path}: version {chosen} of the table cannot be read"):
        table = DeltaTable(str(path), version=chosen, storage_options=paths.storage_options(path))
        files = live_files(table)
        gone = [row["path"] for row in files if chosen != latest and not paths.has_file(path / row["path"])]
    if gone:
        raise LakeError(
            f"table {query}: {len(gone)} of {len(files)} files of version {chosen} were removed by `lowwater maintain`",
            "ask for a newer version",
        )
    known = pa.schema(table.schema().to_arrow())
    columns = pa.schema([pa.field(field.name, _plain(field.type)) for field in known if field.name not in HIDDEN])
    bounds = [(row.get(f"min.{LAST}"), row.get(f"max.{LAST}")) for row in files]
    lows, highs = [low for low, _ in bounds if low is not None], [high for _, high in bounds if high is not None]
    span = (min(lows), max(highs)) if lows and highs else None
    return ResultTable(query, chosen, latest, columns, span, path, table)


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) else kind


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
