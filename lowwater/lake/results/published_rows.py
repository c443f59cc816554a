"""Published rows read back from `tables/` in the order of time, for `lowwater rows` and the pages.

They are read in bounded memory: an hour with many rows is divided, and its parts are sorted one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from lowwater.errors import LakeError, nearest
from lowwater.instants import HOUR, format_instant
from lowwater.lake import layout
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.runs import ReplayRow, read_replays
from lowwater.lake.ledgers.statements import QUERY, new_name
from lowwater.lake.results.published import HourFile, by_hour, damages
from lowwater.lake.tables import files_dataset, files_of, lake_errors, open_table, plain_type, within
from lowwater.lake.words import BLOCKED, DAMAGED, DONE
from lowwater.limits import SORTED_ROWS
from lowwater.plan.properties import is_instant
from lowwater.storage import paths

if TYPE_CHECKING:
    from deltalake import DeltaTable

LEAST = 1_000  # fewest rows that are read at a time
PARTS = 3_600  # parts of an hour whose rows are counted; a part with too many rows is divided again
BATCH = 65_536
CONTROL = ("_last", "_hour")
"""Columns of a table by which intervals find their rows."""


@dataclass(frozen=True)
class PublishedRows:
    """The published rows of a query in [start, end), ns."""

    lake: Lake
    query: str
    start: int
    end: int
    columns: tuple[str, ...]
    rows: int
    # columns with the instants of temporal columns, which are given too; empty unless asked for
    instants: tuple[str, ...] = ()
    query_set: str = ""  # that published them
    absent: tuple[str, ...] = ()  # ranges without a publication, as text
    not_done: tuple[str, ...] = ()  # intervals that are not done, as text: by the ledger, or by `due.as_they_stand`
    told: tuple[str, ...] = ()  # what the captures hold that the rows leave out (`remarks`), by `due.as_they_stand`

    def meets(self, start: int, end: int) -> bool:
        """Whether an interval, ns, has a part of the range."""
        return start < self.end and self.start < end

    @property
    def notes(self) -> tuple[str, ...]:
        return *self.absent, *self.not_done, *self.told

    def batches(self, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yields the rows by time (`_last`), then by all columns. More than SORTED_ROWS of one instant stay as stored.
        Raises LakeError if the table cannot be read."""
        left = self.rows if limit is None else min(limit, self.rows)
        most = SORTED_ROWS if limit is None else min(SORTED_ROWS, max(limit, LEAST))
        path, columns = self.lake.table(self.query), (*self.columns, *self.instants)
        table = open_table(path)
        assert table is not None
        for batch in sorted_rows(path, table, columns, self.start, self.end, most):
            if left <= 0:
                return
            yield batch.slice(0, left).select(columns)
            left -= batch.num_rows


def sorted_rows(
    path: PurePath, table: DeltaTable, columns: tuple[str, ...], start: int, end: int, most: int = SORTED_ROWS
) -> Iterator[pa.RecordBatch]:
    """Yields rows of an open table with `_last`, by time (`_last`), then by the columns. At most `most` rows are sorted
    at a time; more of one instant stay as stored.
    Raises LakeError if the table cannot be read."""
    files = _files_between(table, start, end)
    schema = _schema(table)
    read = pa.schema([schema.field(name) for name in (*columns, "_last")])
    keys = [(name, "ascending", "at_end") for name in ("_last", *columns)]
    with lake_errors(f"{path}: the table cannot be read"):
        for hour, parts in files.items():  # whoever stops reading has asked a store for no further file
            dataset = files_dataset(path, _placed(hour, parts), schema)
            begin, until = max(start, hour * HOUR), min(end, (hour + 1) * HOUR)
            for first, last in _parts(dataset, begin, until, most):
                scan = _scan(dataset, [*columns, "_last"], first, last)
                if last - first == 1:
                    yield from scan
                elif (rows := pa.Table.from_batches(scan, read)).num_rows:
                    yield from rows.take(pc.sort_indices(rows, sort_keys=keys)).combine_chunks().to_batches(BATCH)


def published_rows(
    lake: Lake, query: str, start: int | None = None, end: int | None = None, instants: bool = False
) -> PublishedRows:
    """Finds the published rows of a query in [start, end), ns; None for the first or the last published instant.
    Raises LakeError if there is no such query, nothing of it is published in the range, or the table cannot be read."""
    table = open_table(lake.table(query))
    query_rows = [row for row in read_replays(lake) if row.query == query]
    newest = {row.interval: row for row in query_rows if row.is_published}
    if table is None or not newest:
        raise _unknown(lake, query, bool(query_rows))
    first, last = min(instant for instant, _ in newest), max(instant for _, instant in newest)
    begin, until = first if start is None else start, last if end is None else end
    spans = sorted(bounds for bounds in newest if bounds[0] < until and bounds[1] > begin)
    if not spans:
        asked = [("from ", start), ("to ", end)]
        text = " ".join(f"{word}{format_instant(bound)}" for word, bound in asked if bound is not None)
        known = f"{format_instant(first)} to {format_instant(last)}"
        hint = f"{known} is published; `lowwater status` says why the rest is not"
        raise LakeError(f"query {query}: nothing is published {text}", hint)
    rows = rows_between(lake, query, begin, until, instants)
    assert rows is not None
    damaged = damages(lake, query, query_rows)
    shown = [
        replace(newest[bounds], state=DAMAGED, reason=damaged[bounds]) if bounds in damaged else newest[bounds]
        for bounds in spans
    ]
    absent, not_done = tuple(_absent(spans, begin, until)), tuple(_not_done(shown))
    return replace(rows, query_set=shown[-1].query_set, absent=absent, not_done=not_done)


def rows_between(lake: Lake, query: str, start: int, end: int, instants: bool = False) -> PublishedRows | None:
    """Finds the rows of a query in [start, end), ns, without notes; None if the query has no table.
    Raises LakeError if the table cannot be read."""
    table = open_table(lake.table(query))
    if table is None:
        return None
    arrow = pa.schema(table.schema().to_arrow())
    columns = tuple(field.name for field in arrow if of_query(field))
    times = tuple(field.name for field in arrow if is_instant(field.type) and not of_query(field)) if instants else ()
    with lake_errors(f"{lake.table(query)}: the table cannot be read"):
        rows = 0
        for hour, parts in _files_between(table, start, end).items():
            cut = [file for file in parts if not file.is_inside(start, end)]
            rows += sum(file.rows for file in parts) - sum(file.rows for file in cut)
            if cut:
                dataset = files_dataset(lake.table(query), _placed(hour, cut), _schema(table))
                rows += dataset.count_rows(filter=published_within(start, end))
    return PublishedRows(lake, query, start, end, columns, rows, instants=times)


def of_query(column: pa.Field) -> bool:
    """Whether a column of a published table is one of its query: no control column, and no derived instants."""
    derived = is_instant(column.type) and (column.metadata or {}).get(b"comment") != layout.MOMENT.encode()
    return column.name not in CONTROL and not derived


def _unknown(lake: Lake, query: str, ran: bool) -> LakeError:
    now, called = new_name(lake, QUERY, query)
    if now:
        return LakeError(called, f"ask for {now}")
    names = [path.name for path in paths.children(lake.table(query).parent)]
    if ran or lake.table(query).name in names:  # a ledger that was restored alone knows nothing of the table
        return LakeError(
            f"query {query} is not published yet", "`lowwater status` says why, `lowwater backfill` runs it"
        )
    hint = nearest(query, names) or "`lowwater status` lists the queries"
    none = "nothing is published yet: `lowwater plan` says what is due, `lowwater backfill` runs it"
    return LakeError(f"there is no published query {query!r}", hint if names else none)


def _absent(spans: list[tuple[int, int]], begin: int, until: int) -> Iterator[str]:
    at = begin
    for first, last in [*spans, (until, until)]:
        if first > at:
            yield f"nothing is published from {format_instant(at)} to {format_instant(first)}"
        at = max(at, last)


def _not_done(rows: list[ReplayRow]) -> Iterator[str]:
    for row in rows:
        if row.state != DONE:
            yield state_words(row.interval_start, row.interval_end, row.state, row.reason)


def state_words(start: int, end: int, state: str, reason: str) -> str:
    """What a note says of an interval that is not done."""
    verb = "" if state == BLOCKED else "is "
    return f"{format_instant(start)} to {format_instant(end)} {verb}{state}: {reason}"


def published_within(begin: int, until: int) -> Any:
    """Returns the condition that a published row is of [begin, until), ns, by which other hours are not read."""
    return within("_hour", begin // HOUR, (until - 1) // HOUR + 1) & within("_last", begin, until)


def _files_between(table: DeltaTable, start: int, end: int) -> dict[int, list[HourFile]]:
    """Returns the files of the hours of [start, end), ns, by hour in order."""
    hours = by_hour(files_of(table))
    return {hour: files for hour, files in hours.items() if start // HOUR <= hour <= (end - 1) // HOUR}


def _placed(hour: int, files: Sequence[HourFile]) -> list[tuple[str, Any]]:
    return [(file.name, pads.field("_hour") == hour) for file in files]


def _schema(table: DeltaTable) -> pa.Schema:
    return pa.schema([pa.field(field.name, plain_type(field.type)) for field in pa.schema(table.schema().to_arrow())])


def _scan(dataset: pads.Dataset, columns: list[str], begin: int, until: int) -> Iterator[pa.RecordBatch]:
    chosen, ahead = published_within(begin, until), {"batch_readahead": 2, "fragment_readahead": 1}
    yield from dataset.to_batches(columns=columns, filter=chosen, batch_size=BATCH, **ahead)


def _parts(dataset: pads.Dataset, begin: int, until: int, most: int) -> Iterator[tuple[int, int]]:
    """Yields parts of [begin, until), ns, with at most `most` rows or of one instant; no parts without a row."""
    if until <= begin:
        return
    width = -(-(until - begin) // PARTS)
    counts = np.zeros(PARTS, np.int64)
    for batch in _scan(dataset, ["_last"], begin, until):
        counts += np.bincount((batch.column("_last").to_numpy() - begin) // width, minlength=PARTS)
    at, count_so_far = 0, 0
    for part, count in enumerate(counts.tolist()):
        if count_so_far and count_so_far + count > most:
            yield begin + at * width, begin + part * width
            at, count_so_far = part, 0
        if count > most and width > 1:
            yield from _parts(dataset, begin + part * width, min(until, begin + (part + 1) * width), most)
            at = part + 1
        elif count:
            at, count_so_far = (at if count_so_far else part), count_so_far + count
    if count_so_far:
        yield begin + at * width, until
