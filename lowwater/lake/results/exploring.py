"""What people ask of published rows: filters, a search, orders, numbers over time, two versions of a table compared."""

from __future__ import annotations

import ipaddress
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from lowwater import caches, extras, limits
from lowwater.errors import LakeError, nearest
from lowwater.instants import HOUR, SECOND, format_instant, format_moment, parse_instant, parse_moment
from lowwater.lake import layout, tables
from lowwater.lake.open_tables import at_version, cached_value, existing, newest
from lowwater.lake.results import published
from lowwater.lake.results.published_rows import of_query, published_within
from lowwater.plan.properties import Combine
from lowwater.storage import paths

if TYPE_CHECKING:
    import duckdb
    from deltalake import DeltaTable

# Conditions on rows, as SQL of DuckDB. Arrow's readers, which downloads and comparisons use, get the same ones.

COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
OPERATORS = (*COMPARISONS, "contains", "is null")
LAST = "_last"  # column of the instant up to which a packet could change the row, ns
DEEPEST = 10_000  # last row that can be paged to; more rows are downloaded or filtered
LATEST = (1 << 63) - 1  # last instant that a column holds, ns since the epoch
_HOUR = "partition._hour"
OPENED = 64  # files that are opened at a time
BATCH = 65_536
WORKERS = 2  # threads of an answer
LOOK = 0.2  # seconds between two looks whether an answer is still wanted


def is_number(kind: pa.DataType) -> bool:
    """Whether a column of this type has numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


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
    search: str = ""  # words that all are found in a row, each in any of its columns


@dataclass(frozen=True)
class _Condition:
    """A condition as SQL, with a `?` for each of its values."""

    text: str
    values: tuple[object, ...] = ()


def _any_of(conditions: Sequence[_Condition]) -> _Condition:
    text = " OR ".join(each.text for each in conditions)
    return _Condition(f"({text})", tuple(value for each in conditions for value in each.values))


_WORD = re.compile(r'"([^"]*)"|(\S+)')
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)(<=|>=|!=|=|<|>)(.+)", re.DOTALL)
_COMPARED = re.compile(r"(<=|>=|<|>)(.+)", re.DOTALL)
_NUMBER = r"[+-]?\d+(?:\.\d+)?"
_NUMBERS = re.compile(rf"({_NUMBER})-({_NUMBER})")
_DOTTED = re.compile(r"\d+(\.\d+){3}")
SEARCHED = (
    "write an address (10.1.0.7), a network (10.1.0.0/24), a range (10.1.0.1-10.1.0.9, 1000-2000), a number, >100, "
    "column=value, or a part of a text; quotes keep spaces together"
)


def _packed(text: str) -> bytes:
    """Returns an address as bytes that sort as addresses do. Raises ValueError: the text is none."""
    found = ipaddress.ip_address(text)
    return bytes([found.version]) + found.packed.rjust(16, b"\0")


def _is_within(text: str, bounds: tuple[bytes, bytes]) -> bool:
    try:
        return bounds[0] <= _packed(text) <= bounds[1]
    except ValueError:
        return False


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
        """Counts the rows of a query. Without conditions only files at the ends of the range are read.
        Raises LakeError if a condition is wrong, or the table cannot be read."""
        files, known = self._files(row_query), 0
        if not row_query.filters and not row_query.search and f"min.{LAST}" in files.column_names:
            lows, highs = files.column(f"min.{LAST}"), files.column(f"max.{LAST}")
            inside = pc.and_(pc.greater_equal(lows, row_query.start), pc.less(highs, row_query.end)).fill_null(False)
            known = pc.sum(files.filter(inside).column("num_records")).as_py() or 0
            files = files.filter(pc.invert(inside))
        if not files.num_rows:
            return int(known)
        (row,) = self._asked(files, row_query, "SELECT count(*) AS n FROM chosen").to_pylist()
        return int(known) + int(row["n"])

    def batches(self, row_query: RowQuery, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a query with `_last`, by hour and else as stored, whatever its order; some are empty."""
        names = [*(self.columns.names if columns is None else columns), LAST]
        files = self._files(row_query)
        if row_query.filters or row_query.search:
            text = f"SELECT {', '.join(map(quoted, names))} FROM chosen"
            yield from self._answered(files, row_query, text)
            return
        options = {"batch_size": BATCH, "batch_readahead": 1, "fragment_readahead": 1}
        predicate = published_within(row_query.start, row_query.end)
        with tables.lake_errors(f"{self.path}: the table cannot be read"):
            for at in range(0, files.num_rows, OPENED):
                some = files.slice(at, OPENED)
                yield from self._dataset(some).to_batches(columns=names, filter=predicate, **options)
                self.watch(some.num_rows)

    def page(self, row_query: RowQuery, offset: int, limit: int) -> pa.Table:
        """Reads rows `offset` to `offset + limit` of a query in its order; ties are by time, then by all columns.
        Raises LakeError if a condition or the column of the order is wrong, the page is too deep, or the table cannot
        be read."""
        if offset + limit > DEEPEST:
            raise LakeError(f"query {self.query}: pages end at row {DEEPEST:,}", "filter the rows, or download them")
        if row_query.sort:
            self.require(row_query.sort)
        keys = [quoted(name) for name in dict.fromkeys([row_query.sort or LAST, LAST, *self.columns.names])]
        keys[0] += " DESC" if row_query.descending else " ASC"
        order = ", ".join(f"{key} NULLS LAST" for key in keys)
        names = [*self.columns.names, LAST]
        text = f"SELECT {', '.join(map(quoted, names))} FROM chosen ORDER BY {order} LIMIT {limit} OFFSET {offset}"
        return self._asked(self._files(row_query), row_query, text).cast(self._shape())

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

    def _shape(self) -> pa.Schema:
        return pa.schema([*self.columns, pa.field(LAST, pa.int64())])

    def _dataset(self, files: pa.Table) -> pads.Dataset:
        hours = (pads.field("_hour") == hour for hour in files.column(_HOUR).to_pylist())
        schema = pa.schema([*self._shape(), pa.field("_hour", pa.int64())])
        return tables.files_dataset(self.path, zip(files.column("path").to_pylist(), hours, strict=True), schema)

    def asked(self, row_query: RowQuery, text: str, *values: object) -> pa.Table:
        """Evaluates a SELECT of DuckDB over `chosen`, the rows of a query with `_last`.
        Raises LakeError if a condition is wrong, or the table cannot be read."""
        return self._asked(self._files(row_query), row_query, text, *values)

    def _asked(self, files: pa.Table, row_query: RowQuery, text: str, *values: object) -> pa.Table:
        batches = list(self._answered(files, row_query, text, *values))
        return pa.Table.from_batches(batches[:1] + [each for each in batches[1:] if each.num_rows])

    def _answered(self, files: pa.Table, row_query: RowQuery, text: str, *values: object) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a SELECT over some files; the first batch may be empty."""
        extras.require("An answer over published rows", "sql")
        import duckdb

        conditions = self._conditions(row_query)
        where = " AND ".join(each.text for each in conditions) or "true"
        names = [unquote(name) for name in files.column("path").to_pylist()]  # the log writes paths as URLs
        with tables.lake_errors(f"{self.path}: the table cannot be read"):
            folder = paths.local_table(self.path, names)
        # Files lack the columns that have no value in them, and may have narrower types: the empty shape has all.
        sources = ["SELECT * FROM shape"]
        given: list[object] = []
        if names:
            sources.insert(0, "SELECT * FROM read_parquet(?, union_by_name = true, hive_partitioning = false)")
            given.append([str(folder / name) for name in names])
        given += [row_query.start, min(row_query.end, LATEST)]
        given += [value for each in conditions for value in each.values]
        rows = " UNION ALL BY NAME ".join(sources)
        whole = f"WITH chosen AS (SELECT * FROM ({rows}) WHERE {LAST} >= ? AND {LAST} < ? AND {where}) {text}"
        scratch = caches.make_folder("lowwater-results-")
        database = duckdb.connect(config=duckdb_settings(limits.EXPLORED_BYTES, WORKERS, str(scratch)))
        thread = ThreadPoolExecutor(1)
        try:
            database.register("shape", self._shape().empty_table())
            reader = self._waited(
                thread, database, lambda: database.sql(whole, params=[*given, *values]).to_arrow_reader(BATCH)
            )
            empty = pa.RecordBatch.from_pylist([], reader.schema)
            yield empty
            while (batch := self._waited(thread, database, lambda: next(reader, None))) is not None:
                yield batch
            self.watch(len(names))
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            first = str(error).partition("\n")[0]
            raise LakeError(f"{self.path}: the table cannot be read: {first}") from error
        finally:
            thread.shutdown()
            database.close()
            caches.remove_folder(scratch)

    def _waited(self, thread: ThreadPoolExecutor, database: duckdb.DuckDBPyConnection, work: Callable[[], Any]) -> Any:
        """Lets DuckDB work on another thread, and ends its work where nobody wants the answer any more."""
        future = thread.submit(work)
        try:
            while True:
                with suppress(TimeoutError):
                    return future.result(LOOK)
                self.watch(0)
        except BaseException:
            database.interrupt()
            raise

    def require(self, column: str) -> pa.DataType:
        """Returns the type of a column of the query. Raises LakeError if there is no such column."""
        if column not in self.columns.names:
            raise LakeError(f"query {self.query} has no column {column!r}", nearest(column, self.columns.names))
        return self.columns.field(column).type

    def _conditions(self, row_query: RowQuery) -> list[_Condition]:
        words = [spaced or word for spaced, word in _WORD.findall(row_query.search)]
        plain = [self._condition(each) for each in row_query.filters]
        return [*plain, *(self._found(row_query, word) for word in words)]

    def _condition(self, asked: Filter) -> _Condition:
        kind, name = self.require(asked.column), quoted(asked.column)
        if asked.operator == "is null":
            return _Condition(f"{name} IS NULL")
        if asked.operator == "contains":
            return _Condition(f"contains(lower(CAST({name} AS VARCHAR)), lower(?))", (asked.value,))
        if asked.operator not in OPERATORS:
            raise LakeError(f"there is no comparison {asked.operator!r}", f"there are: {', '.join(OPERATORS)}")
        return _compared(name, kind, asked.operator, _value(asked, kind).as_py())

    def _found(self, row_query: RowQuery, word: str) -> _Condition:
        """Finds a word of a search in any column.
        Raises LakeError if it is not understood, or no column has values of its kind."""
        if (pair := _ASSIGNED.fullmatch(word)) is not None:
            return self._condition(Filter(*pair.groups()))
        texts = [each.name for each in self.columns if pa.types.is_string(each.type)]
        if (bounds := self._bounds(word)) is not None:
            found = [self._within(row_query, name, bounds) for name in texts]
            return self._anywhere(word, "texts", found)
        numbers = [each for each in self.columns if is_number(each.type)]
        if (pair := _COMPARED.fullmatch(word)) is not None:
            value = _number(pair[2], word)
            found = [_compared(quoted(each.name), each.type, pair[1], value) for each in numbers]
            return self._anywhere(word, "numbers", found)
        if (pair := _NUMBERS.fullmatch(word)) is not None:
            low, high = (_number(text, word) for text in pair.groups())
            found = [_Condition(f"{quoted(each.name)} BETWEEN ? AND ?", (low, high)) for each in numbers]
            return self._anywhere(word, "numbers", found)
        found = []
        if re.fullmatch(_NUMBER, word):
            found = [_compared(quoted(each.name), each.type, "=", _number(word, word)) for each in numbers]
        found += [self._condition(Filter(name, "contains", word)) for name in texts]
        return self._anywhere(word, "texts", found)

    def _within(self, row_query: RowQuery, column: str, bounds: tuple[bytes, bytes]) -> _Condition:
        """The rows whose text is an address within bounds. Python looks at each text once, not at each row."""
        whole = replace(row_query, search="")
        known = self.asked(whole, f"SELECT DISTINCT {quoted(column)} AS text FROM chosen WHERE text IS NOT NULL")
        found = [text for text in known.column("text").to_pylist() if _is_within(text, bounds)]
        return _Condition(f"{quoted(column)} IN (SELECT unnest(CAST(? AS VARCHAR[])))", (found,))

    def _bounds(self, word: str) -> tuple[bytes, bytes] | None:
        """The first and the last address that a word of a search names; None if it names none."""
        try:
            if "/" in word and (word[:1].isdecimal() or ":" in word):
                network = ipaddress.ip_network(word, strict=False)
                return _packed(str(network[0])), _packed(str(network[-1]))
            first, dash, last = word.partition("-")
            if dash and ("." in first or ":" in first) and not _NUMBERS.fullmatch(word):
                return _packed(first), _packed(last)
            if _DOTTED.fullmatch(word) or word.count(":") > 1:
                return _packed(word), _packed(word)
        except ValueError as error:
            if ":" in word and "/" not in word and "-" not in word:
                return None  # a text with colons, such as a hardware address
            raise LakeError(f"the search {word[:60]!r} is not understood: {error}", SEARCHED) from None
        return None

    def _anywhere(self, word: str, kind: str, found: Sequence[_Condition]) -> _Condition:
        if not found:
            what = f"the search {word[:60]!r} finds nothing: query {self.query} has no column of {kind}"
            raise LakeError(what, SEARCHED)
        return _any_of(found)


def _compared(name: str, kind: pa.DataType, comparison: str, value: object) -> _Condition:
    # NaN is above all numbers in DuckDB, and meets no comparison here.
    real = f" AND NOT isnan({name})" if pa.types.is_floating(kind) and comparison in (">", ">=") else ""
    return _Condition(f"({name} {comparison} ?{real})", (value,))


def _number(text: str, word: str) -> int | float:
    try:
        found = int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
    except ValueError:
        raise LakeError(f"the search {word[:60]!r} is not understood: {text[:60]!r} is no number", SEARCHED) from None
    if not -LATEST <= found <= LATEST:
        raise LakeError(f"the search {word[:60]!r} is not understood: no column has such a number", SEARCHED)
    return found


def quoted(name: str) -> str:
    """Returns a name as SQL writes it."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def duckdb_settings(memory: int, workers: int, scratch: str) -> dict[str, Any]:
    """Returns the settings of a DuckDB that keeps within some bytes, and loads nothing from elsewhere. `scratch`:
    folder for what does not fit."""
    return {
        "memory_limit": f"{memory >> 20}MiB",
        "threads": workers,
        "temp_directory": scratch,
        "python_enable_replacements": False,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
    }


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
        elif pa.types.is_timestamp(kind):
            return pa.scalar(parse_moment(text), pa.int64()).cast(kind)
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


# A published number over time, by the values of a key with the largest ones: the data of a plot.


@dataclass(frozen=True)
class Curve:
    """A series of a plot: its name, and a value for each part of time, None where it has no row; and what its values
    come to over all parts, by the way in which they are combined, or None."""

    name: str
    values: tuple[float | None, ...]
    total: float | None = None


@dataclass(frozen=True)
class Curves:
    """A number over time, by the largest values of a key."""

    start: int  # first instant, ns
    step: int  # length of a part of time, ns
    curves: tuple[Curve, ...]  # the series, largest first; the last has all others together, where there are others
    combine: Combine = Combine.SUM  # what became of several rows of a part of time
    # parts of time, by their number, of which nothing is known -> why
    absent: Mapping[int, str] = field(default_factory=dict)


_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400)
LENGTHS = (*(10**power for power in range(9)), *(seconds * SECOND for seconds in _SECONDS))
"""Lengths of the parts of a plot, ns."""
OTHERS = "all others"
LARGEST = 1e300
"""Largest value that is drawn."""
ODD = "no finite value"
SEVERAL = "several rows, whose values cannot be combined"


def part_length(span: int, grain: int = 1) -> int:
    """Returns the length of the parts (ns) into which a plot divides a span (ns): a usual one, and a multiple of
    `grain`.

    Example:
        >>> part_length(86_400 * SECOND) // SECOND, part_length(3600 * SECOND, 60 * SECOND) // SECOND
        (900, 60)
    """
    least = max(1, grain, -(-span // limits.PLOT_PARTS))
    usual = next((length for length in LENGTHS if length >= least), -(-least // LENGTHS[-1]) * LENGTHS[-1])
    return usual if usual % grain == 0 else -(-least // grain) * grain


_COMBINED = {  # (of the rows of a part, of parts) -> the value, and its weight
    Combine.SUM: ("sum(number)", "sum(value)", "sum(value)"),
    Combine.LARGEST: ("max(number)", "max(value)", "max(value)"),
    Combine.SMALLEST: ("min(number)", "min(value)", "sum(size)"),
    Combine.MEAN: ("sum(CAST(number AS DOUBLE) * weight)", "sum(value)", "sum(size)"),
    Combine.ALONE: ("CASE WHEN count(*) = 1 THEN any_value(number) END", "NULL", "sum(size)"),
}
"""How a number is combined: over the rows of a part of time, over several values of a key, and by what the values of
the key are ranked."""


def curves(
    table: ResultTable,
    row_query: RowQuery,
    number: str,
    key: str,
    most: int = 6,
    grain: int = 1,
    combine: Combine = Combine.SUM,
    weight: str = "",
) -> Curves:
    """Combines a column over time, for the `most` largest values of a key; counts rows, or makes one series, where a
    name is empty.
    Raises LakeError if a condition or a column is wrong, or the table cannot be read.

    Args:
        grain: shortest useful part of time, ns, such as the length of a query's epochs.
        combine: how values of several rows are combined.
        weight: column of the weights of means.
    """
    if key:
        table.require(key)
    _require_number(table, number)
    step = part_length(row_query.end - row_query.start, grain)
    begin = row_query.start // step * step
    of_rows, of_parts, rank = _COMBINED[combine]
    text = f"""
        , parts AS MATERIALIZED (
            SELECT part, name, CAST({of_rows} AS DOUBLE) AS value, count(*) AS size,
                CAST(sum(weight) FILTER (WHERE number IS NOT NULL) AS DOUBLE) AS weights
            FROM (SELECT ({LAST} - ?) // ? AS part, {quoted(key) if key else "NULL"} AS name,
                {quoted(number) if number else "1"} AS number,
                {quoted(weight) if weight else "1"} AS weight FROM chosen)
            GROUP BY part, name),
        tops AS (
            SELECT name, row_number() OVER (ORDER BY {rank} DESC NULLS LAST, CAST(name AS VARCHAR)) AS place
            FROM parts GROUP BY name QUALIFY place <= ?)
        SELECT part, coalesce(place, 0) AS place, CAST(any_value(tops.name) AS VARCHAR) AS name,
            CASE WHEN place IS NULL THEN {of_parts} ELSE any_value(value) END AS value,
            sum(weights) AS weights, sum(size) AS size
        FROM parts LEFT JOIN tops ON parts.name IS NOT DISTINCT FROM tops.name GROUP BY part, place ORDER BY part"""
    rows = table.asked(row_query, text, begin, step, most if key else 1).to_pylist()
    return _drawn(rows, begin, step, -(-(row_query.end - begin) // step), combine, None if key else number)


def _require_number(table: ResultTable, number: str) -> None:
    kind = table.require(number) if number else pa.int64()
    if not is_number(kind):
        raise LakeError(f"query {table.query}: values of column {number!r} are no numbers", f"its type is {kind}")


def _drawn(
    rows: Sequence[dict[str, Any]], begin: int, step: int, parts: int, combine: Combine, only: str | None
) -> Curves:
    by_place: dict[int, list[dict[str, Any]]] = tables.grouped((row["place"], row) for row in rows)
    series, absent = [], dict[int, str]()
    for place in sorted(by_place, key=lambda place: (place == 0, place)):
        found = by_place[place]
        if place == 0 and combine is Combine.ALONE:
            continue
        values: list[float | None] = [None] * parts
        for row in found:
            values[row["part"]], why = _combined(row, combine)
            if why and absent.get(row["part"]) != ODD:
                absent[row["part"]] = why
        name = found[0]["name"] or "NULL" if only is None else only
        series.append(Curve(name if place else OTHERS, tuple(values), _total(found, combine)))
    for at in list(absent):
        if absent[at] == SEVERAL and any(curve.values[at] is not None for curve in series):
            del absent[at]
    drawn = (
        replace(curve, values=tuple(None if at in absent else value for at, value in enumerate(curve.values)))
        for curve in series
    )
    return Curves(begin, step, tuple(drawn), combine, absent)


def _combined(row: Mapping[str, Any], combine: Combine) -> tuple[float | None, str]:
    """Returns the value of a part of a plot; without one that can be shown, why, or nothing where its rows have none.
    `row`: of a query with `value`, `weights` and `size`."""
    value: float | None = row["value"]
    if combine is Combine.MEAN and value is not None:
        value = value / row["weights"] if row["weights"] else None
    if value is not None and not abs(value) <= LARGEST:
        return None, ODD
    return value, SEVERAL if value is None and combine is Combine.ALONE and row["size"] > 1 else ""


def _total(rows: Sequence[dict[str, Any]], combine: Combine) -> float | None:
    values: list[float] = [row["value"] for row in rows if row["value"] is not None]
    if not values or combine is Combine.ALONE:
        return None
    if combine is Combine.MEAN:
        weights: float = sum(row["weights"] for row in rows if row["value"] is not None)
        return math.fsum(values) / weights if weights else None
    if combine is Combine.SUM:
        return sum(values)
    return max(values) if combine is Combine.LARGEST else min(values)


# A published number by the values of one or two columns, or by day and hour: bars, and fields of a grid.

DAY_AND_HOUR = "day and hour"
"""In place of two columns: the days and the hours of UTC."""


@dataclass(frozen=True)
class Grid:
    """A number by the largest values of a column, and of a second one; names are texts, NULL among them.

    Attributes:
        rows: the values of the first column, largest first; of days the oldest first.
        columns: those of the second column; one empty name without one.
        values: (place of the row, place of the column) -> value; None where rows have none that can be shown.
        absent: place -> why its value is None.
        hidden: how many more values the two columns have.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: Mapping[tuple[int, int], float | None]
    hidden: tuple[int, int]
    absent: Mapping[tuple[int, int], str]


def grid(
    table: ResultTable,
    row_query: RowQuery,
    number: str,
    key: str,
    across: str = "",
    most: tuple[int, int] = (20, 20),
    combine: Combine = Combine.SUM,
    weight: str = "",
) -> Grid:
    """Combines a column for the largest values of a key, and of a second column `across`; counts rows where `number` is
    empty. `across` as DAY_AND_HOUR: by the days and hours of `_last`, for all of them, without a key.
    Raises LakeError if a condition or a column is wrong, or the table cannot be read."""
    _require_number(table, number)
    if across == DAY_AND_HOUR:
        first, second = f"({LAST} // {24 * HOUR})", f"({LAST} // {HOUR} % 24)"
        most, orders = (limits.PLOT_PARTS, 24), ("a", "b")
    else:
        for name in (key, across):
            if name:
                table.require(name)
        first, second = (quoted(name) if name else "NULL" for name in (key, across))
        rank = f"{_COMBINED[combine][2]} DESC NULLS LAST"
        orders = f"{rank}, CAST(a AS VARCHAR)", f"{rank}, CAST(b AS VARCHAR)"
    text = f"""
        , fields AS MATERIALIZED (
            SELECT a, b, CAST({_COMBINED[combine][0]} AS DOUBLE) AS value, count(*) AS size,
                CAST(sum(weight) FILTER (WHERE number IS NOT NULL) AS DOUBLE) AS weights
            FROM (SELECT {first} AS a, {second} AS b, {quoted(number) if number else "1"} AS number,
                {quoted(weight) if weight else "1"} AS weight FROM chosen)
            GROUP BY a, b),
        ones AS (SELECT a AS name, row_number() OVER (ORDER BY {orders[0]}) AS place, count(*) OVER () AS many
            FROM fields GROUP BY a QUALIFY place <= ?),
        others AS (
            SELECT b AS name, row_number() OVER (ORDER BY {orders[1]}) AS place,
                (SELECT count(*) FROM (SELECT DISTINCT b FROM fields)) AS many
            FROM (SELECT fields.* FROM fields JOIN ones ON a IS NOT DISTINCT FROM ones.name)
            GROUP BY b QUALIFY place <= ?)
        SELECT ones.place - 1 AS line, CAST(ones.name AS VARCHAR) AS a, ones.many AS rows, others.place - 1 AS field,
            CAST(others.name AS VARCHAR) AS b, others.many AS columns, value, weights, size
        FROM ones CROSS JOIN others
        LEFT JOIN fields ON a IS NOT DISTINCT FROM ones.name AND b IS NOT DISTINCT FROM others.name
        ORDER BY line, field"""
    found = table.asked(row_query, text, *most).to_pylist()
    names: list[dict[int, str]] = [{}, {}]
    values: dict[tuple[int, int], float | None] = {}
    absent: dict[tuple[int, int], str] = {}
    for each in found:
        place = each["line"], each["field"]
        for of, at, name in zip(names, place, (each["a"], each["b"]), strict=True):
            of[at] = "NULL" if name is None else name
        if each["size"] is None:  # no row has both
            continue
        values[place], why = _combined(each, combine)
        if values[place] is None:
            absent[place] = why or "no value"
    rows, columns = (tuple(of[place] for place in sorted(of)) for of in names)
    many = (found[0]["rows"], found[0]["columns"]) if found else (0, 0)
    hidden = many[0] - len(rows), many[1] - len(columns)
    return Grid(rows, columns if across else ("",) * bool(columns), values, hidden, absent)


# Comparison of two versions, hour by hour, so the memory is that of an hour at both versions.


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
    if pa.types.is_timestamp(column.type):
        return [None if value is None else format_moment(value) for value in column.cast(pa.int64()).to_pylist()]
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
