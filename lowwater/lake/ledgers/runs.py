"""Ledgers that runs and audits write: violations, heartbeats, replays, results of audits, measures, lateness."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from functools import cached_property, reduce
from hashlib import sha256
from operator import or_
from pathlib import Path, PurePath
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lowwater import errors, instants
from lowwater.caches import cache_folder
from lowwater.config import Config, Link
from lowwater.lake import layout, open_tables, tables
from lowwater.lake.ledgers.captures import files_by_link
from lowwater.lake.words import DONE, FAILED
from lowwater.storage.locks import Fence

# Every write is one commit and may be repeated.

MOST_PARTS = 100
"""Most parts of a publication among those of `Publications`; of a longer one, each question looks at it."""
LOW, HIGH, AUDIT, PUBLISH = "low", "high", "audit", "publish"


Range = tuple[int, int]
"""An interval [start, end), ns."""


def record_violations(lake: layout.Lake, link: str, settings: Link, start: int, end: int, rows: pa.Table) -> None:
    """Replaces the violations of a link and its skew that arrive in [start, end), ns, by these rows: capture, position,
    timestamp, arrival, lateness. Each has the skew of the period that it arrives in."""
    if not rows.num_rows and not read_violations(lake, link, settings, start, end).num_rows:
        return
    parts = [layout.VIOLATIONS.empty_table()]
    for skew, begin, until in _skews(settings, start, end):
        part = rows.filter(tables.within("arrival", begin, until))
        parts.append(with_constants(part, layout.VIOLATIONS, {"link": link, "skew": skew}))
    tables.replace_rows(lake.violations, pa.concat_tables(parts), _of_skews(link, settings, start, end), lake.fence)


def _skews(settings: Link, start: int, end: int) -> list[tuple[int, int, int]]:
    """Divides [start, end), ns, where the skew of a link is another one: (skew, from, to)."""
    pieces = ((max(start, piece.since), min(end, piece.until), piece) for piece in settings.pieces())
    return [(piece.settings.skew, begin, until) for begin, until, piece in pieces if begin < until]


def _of_skews(link: str, settings: Link, start: int, end: int) -> pc.Expression:
    """The condition that a row is of the violations of a link that arrive in [start, end), ns, by its skews there."""
    pieces = _skews(settings, start, end) or [(settings.skew, start, end)]
    parts = [(pc.field("skew") == skew) & tables.within("arrival", *span) for skew, *span in pieces]
    return (pc.field("link") == link) & reduce(or_, parts)


def read_violations(
    lake: layout.Lake, link: str, settings: Link, start: int, end: int, near: Range | None = None
) -> pa.Table:
    """Reads the violations of a link by its skew that arrive in [start, end), ns, in order. `near`: a range that holds
    it, for who asks about several of its parts: it is read once."""
    if near is not None:
        key = "violations", link, settings.skew, settings.turns, *near
        whole = open_tables.cached_value(lake.violations, key, lambda _: read_violations(lake, link, settings, *near))
        return whole.filter(tables.within("arrival", start, end))
    rows = tables.read_rows(lake.violations, layout.VIOLATIONS, _of_skews(link, settings, start, end))
    return rows.sort_by([("arrival", "ascending"), ("capture", "ascending"), ("position", "ascending")])


def charged_violations(lake: layout.Lake, config: Config, links: Iterable[str], start: int, end: int) -> pa.Table:
    """Reads the violations that arrive in [start, end), ns, by the skews in force, link by link."""
    found = [read_violations(lake, link, config.link(link), start, end) for link in sorted(links)]
    return pa.concat_tables([layout.VIOLATIONS.empty_table(), *found])


def record_heartbeats(
    lake: layout.Lake, query_set: str, start: int, end: int, rows: pa.Table, kept: Iterable[str] = ()
) -> None:
    """Replaces the operator statistics of a query set over [start, end), ns, but for LFTAs that are kept, by these
    rows: HEARTBEATS without `query_set`, one for every LFTA, link and minute. A minute that a bound of the interval
    cuts counts only its part in the interval, so that runs of any length add up."""
    table = with_constants(rows, layout.HEARTBEATS, {"query_set": query_set})
    replaced = (pc.field("query_set") == query_set) & tables.within("start", start, end)
    if names := sorted(kept):
        replaced &= ~pc.field("lfta").isin(pa.array(names, pa.string()))
    tables.replace_rows(lake.heartbeats, table, replaced, lake.fence)


def read_heartbeats(lake: layout.Lake, query_set: str, start: int, end: int, near: Range | None = None) -> pa.Table:
    """Reads the operator statistics of a query set over [start, end), ns; `near` as of `read_violations`."""
    if near is not None:
        key = "heartbeats", query_set, *near
        whole = open_tables.cached_value(lake.heartbeats, key, lambda _: read_heartbeats(lake, query_set, *near))
        return whole.filter(tables.within("start", start, end))
    chosen = (pc.field("query_set") == query_set) & tables.within("start", start, end)
    return _counted(tables.read_rows(lake.heartbeats, layout.HEARTBEATS, chosen))


def read_statistics(lake: layout.Lake, lftas: Sequence[str], most: int) -> pa.Table:
    """Reads the HEARTBEATS rows with statistics of some LFTAs, of any query set, at most so long (ns) before the newest
    row."""
    chosen = pc.field("lfta").isin(pa.array(sorted(set(lftas)), pa.string()))
    # Files of an older lake lack `records`, so rows without statistics are visible only after a read.
    columns = pa.schema([layout.HEARTBEATS.field(name) for name in ("start", "records")])
    when = tables.read_rows(lake.heartbeats, columns, chosen).drop_null()
    if not when.num_rows:
        return layout.HEARTBEATS.empty_table()
    latest = pc.max(when.column("start")).as_py()
    rows = tables.read_rows(lake.heartbeats, layout.HEARTBEATS, chosen & (pc.field("start") > latest - most))
    return _counted(rows.filter(pc.is_valid(rows.column("records"))))


def _counted(rows: pa.Table) -> pa.Table:
    """Takes outcomes that an older version did not know as 0."""
    for name in layout.LATER_OUTCOMES:
        index = rows.schema.get_field_index(name)
        rows = rows.set_column(index, rows.schema.field(index), pc.fill_null(rows.column(name), 0))
    return rows


def with_constants(rows: pa.Table, schema: pa.Schema, constants: Mapping[str, str | int]) -> pa.Table:
    """Converts rows to the schema of a ledger: adds constant columns, and NULL for other missing columns."""
    columns = []
    for column in schema:
        if column.name in constants:
            columns.append(pa.repeat(pa.scalar(constants[column.name], column.type), rows.num_rows))
        elif column.nullable and column.name not in rows.column_names:
            columns.append(pa.nulls(rows.num_rows, column.type))
        else:
            values = rows[column.name]
            columns.append(values if values.type == column.type else values.cast(column.type))
    return pa.Table.from_arrays(columns, schema=schema)


@dataclass(frozen=True, slots=True)
class ReplayRow:
    """A row of `replays`: the result of a stage of a run."""

    query_set: str
    query: str  # name of the output query; empty for the whole set
    interval_start: int
    interval_end: int
    stage: str  # low, high, audit or publish
    state: str  # done, provisional, incomplete, rolled back or failed
    finished_at: int  # wall clock, ns
    reason: str = ""
    digest: str = ""  # digest of the inputs (S1)
    rows: int | None = None
    settings: str = "{}"  # settings of the run, JSON
    timings: str = "{}"  # seconds of the steps, JSON
    accounting: str = "{}"  # accounts of links and LFTAs, JSON
    # number of the publication in the log of the table; None of other stages and older versions
    publication: int | None = None

    @property
    def interval(self) -> tuple[int, int]:
        return self.interval_start, self.interval_end

    @property
    def is_published(self) -> bool:
        """Whether it is of a publication that succeeded."""
        return self.stage == PUBLISH and self.state != FAILED


def record_replays(lake: layout.Lake, rows: list[ReplayRow]) -> None:
    """Appends rows in one commit; the newest row of (query set, query, interval, stage) counts."""
    if rows:
        tables.append_rows(lake.replays, tables.table_of(rows, layout.REPLAYS), lake.fence)


def read_replays(
    lake: layout.Lake,
    query_set: str | None = None,
    span: tuple[int, int] | None = None,
    stage: str | None = None,
    newest: int | None = None,
) -> list[ReplayRow]:
    """Reads rows of the ledger, oldest first: of a query set, of intervals that meet a span [start, end), ns, of a
    stage, or about so many of the newest rows; None for all."""
    wanted = [] if query_set is None else [pc.field("query_set") == query_set]
    if span is not None:
        wanted += [pc.field("interval_start") < span[1], pc.field("interval_end") > span[0]]
    if stage is not None:
        wanted.append(pc.field("stage") == stage)
    if newest is not None:
        at = pa.schema([layout.REPLAYS.field("finished_at")])
        finished = tables.read_rows(lake.replays, at, tables.all_of(wanted)).column("finished_at")
        if len(finished) > newest:
            wanted.append(pc.field("finished_at") >= int(np.sort(finished.to_numpy())[-newest]))
    return replay_rows(tables.read_rows(lake.replays, layout.REPLAYS, tables.all_of(wanted)))


def interval_replays(lake: layout.Lake, query_set: str, start: int, end: int) -> tuple[ReplayRow, ...]:
    """Reads the rows of the ledger about intervals that meet [start, end), ns, oldest first; again only once the ledger
    has changed, since a run asks for those of its interval a dozen times."""
    key = "replays", query_set, start, end
    return open_tables.cached_value(lake.replays, key, lambda _: tuple(read_replays(lake, query_set, (start, end))))


def replay_rows(rows: pa.Table) -> list[ReplayRow]:
    """Returns rows of the ledger as objects, oldest first."""
    pool: dict[int, int] = {}  # by column: a dictionary for every row of a year takes more than the rows
    columns = (tables.column_values(rows.column(column.name), pool) for column in fields(ReplayRow))
    return sorted((ReplayRow(*values) for values in zip(*columns, strict=True)), key=lambda row: row.finished_at)


def replayed_sets(lake: layout.Lake) -> set[str]:
    """Names of the query sets that ever ran, as the log of the ledger says."""
    with tables.lake_errors(f"{lake.replays}: the table cannot be read"):
        table = tables.open_table(lake.replays)
        return set() if table is None else {row["partition.query_set"] for row in tables.live_files(table)}


def last_published(lake: layout.Lake, query_set: str, query: str, start: int, end: int) -> ReplayRow | None:
    """Returns the publication of the visible rows of [start, end); None if there is none, or several made them."""
    return last_of(interval_replays(lake, query_set, start, end), query, start, end)


def published_until(lake: layout.Lake, query_set: str, query: str, at: int) -> ReplayRow | None:
    """Returns the publication of the visible rows up to an instant; None if there is none, or it goes on behind it."""
    return _newest(interval_replays(lake, query_set, at - 1, at), query, lambda row: row.interval_end == at)


def last_of(rows: Iterable[ReplayRow], query: str, start: int, end: int) -> ReplayRow | None:
    """What `last_published` returns, of rows of the ledger about a range that holds the interval, oldest first."""
    meeting = (row for row in rows if row.interval_start < end and row.interval_end > start)
    return _newest(meeting, query, lambda row: row.interval == (start, end))


def _newest(rows: Iterable[ReplayRow], query: str, fits: Callable[[ReplayRow], bool]) -> ReplayRow | None:
    """Returns the newest publication of a query, of rows oldest first, if it fits."""
    published = [row for row in rows if row.query == query and row.is_published]
    return published[-1] if published and fits(published[-1]) else None


class Publications:
    """The publications of a query set as they are now, read once, for whoever asks about many intervals. `span`: those
    that meet [start, end), ns, are enough; None for all."""

    def __init__(self, lake: layout.Lake, query_set: str, span: tuple[int, int] | None = None) -> None:
        self._lake, self._query_set, self._span = lake, query_set, span
        self._coming: dict[tuple[str, int], ReplayRow] = {}

    def expect(self, query: str, start: int, end: int, digest: str) -> None:
        """Lets a publication of [start, end), ns, count that is on its way: what follows is planned behind it."""
        row = ReplayRow(self._query_set, query, start, end, PUBLISH, DONE, 0, digest=digest)
        self._coming[query, end] = row

    def expects(self, query: str, at: int) -> bool:
        """Whether the publication up to an instant, ns, is on its way."""
        return (query, at) in self._coming

    @cached_property
    def _placed(self) -> tuple[int, dict[int, list[ReplayRow]], list[ReplayRow]]:
        """The shortest length of an interval, the rows of those by the multiples of it that they meet, longer rows."""
        rows = [row for row in read_replays(self._lake, self._query_set, self._span, PUBLISH) if row.state != FAILED]
        length = max(1, min((row.interval_end - row.interval_start for row in rows), default=1))
        placed: dict[int, list[ReplayRow]] = defaultdict(list)
        longer = []
        for row in rows:
            first, last = row.interval_start // length, (row.interval_end - 1) // length
            if last - first > MOST_PARTS:
                longer.append(row)
            else:
                for part in range(first, last + 1):
                    placed[part].append(row)
        return length, placed, longer

    def meeting(self, start: int, end: int) -> list[ReplayRow]:
        """The publications that meet [start, end), ns, oldest first."""
        length, placed, longer = self._placed
        parts: Iterable[int] = range(start // length, (end - 1) // length + 1)
        if (end - start) // length > len(placed):
            parts = placed
        near = {id(row): row for part in parts for row in placed.get(part, ())}
        meeting = (row for row in (*near.values(), *longer) if row.interval_start < end and row.interval_end > start)
        return sorted(meeting, key=lambda row: row.finished_at)

    def last(self, query: str, start: int, end: int) -> ReplayRow | None:
        """Returns what `last_published` does."""
        return _newest(self.meeting(start, end), query, lambda row: row.interval == (start, end))

    def until(self, query: str, at: int) -> ReplayRow | None:
        """Returns what `published_until` does."""
        coming = self._coming.get((query, at))
        return coming or _newest(self.meeting(at - 1, at), query, lambda row: row.interval_end == at)


def record_quality(
    lake: layout.Lake, query_set: str, found: Mapping[Range, tuple[pa.Table, pa.Table]], again: bool = True
) -> None:
    """Replaces the audit results of intervals of a query set: QUALITY, a row for every expectation, and QUARANTINE,
    both without the columns of the interval. `again`: False if none of the intervals was ever audited."""
    rows, broken = ({span: tables_[at] for span, tables_ in found.items()} for at in (0, 1))
    replaced, failed = _of_intervals(query_set, [*found]), _of_all(query_set, broken, layout.QUARANTINE)
    if failed.num_rows or (again and tables.read_rows(lake.quarantine, layout.QUARANTINE, replaced).num_rows):
        tables.replace_rows(lake.quarantine, failed, replaced, lake.fence)
    _write(lake.quality, _of_all(query_set, rows, layout.QUALITY), replaced, again, lake.fence)


def _of_all(
    query_set: str,
    rows: Mapping[Range, pa.Table],
    schema: pa.Schema,
    constants: Mapping[str, str | int] = MappingProxyType({}),
) -> pa.Table:
    """The rows of several intervals with the columns that say of which they are."""
    whole, counts = pa.concat_tables(rows.values()), [table.num_rows for table in rows.values()]
    for name, bounds in zip(("interval_start", "interval_end"), zip(*rows, strict=True), strict=True):
        whole = whole.append_column(name, pa.array(np.repeat(np.array(bounds, np.int64), counts)))
    return with_constants(whole, schema, {"query_set": query_set, **constants})


def read_quality(lake: layout.Lake, query_set: str | None = None, start: int = 0, end: int = 0) -> pa.Table:
    """Reads the newest audit results of [start, end), ns, of a query set; all results of all sets without one."""
    chosen = None if query_set is None else _of_interval(query_set, start, end)
    return tables.read_rows(lake.quality, layout.QUALITY, chosen)


def read_qualities(lake: layout.Lake, start: int, end: int) -> pa.Table:
    """Reads the newest audit results of every interval that begins in [start, end), ns."""
    return tables.read_rows(lake.quality, layout.QUALITY, tables.within("interval_start", start, end))


def read_quarantine(lake: layout.Lake, query_set: str, start: int, end: int) -> pa.Table:
    """Reads the rows that failed the newest audit of [start, end), ns, of a query set."""
    return tables.read_rows(lake.quarantine, layout.QUARANTINE, _of_interval(query_set, start, end))


def _of_interval(query_set: str, start: int, end: int) -> pc.Expression:
    return _of_intervals(query_set, [(start, end)])


def _of_intervals(query_set: str, spans: Sequence[Range]) -> pc.Expression:
    # The first condition is one that the statistics of a file decide.
    near = tables.within("interval_start", min(start for start, _ in spans), max(end for _, end in spans))
    exact = ((pc.field("interval_start") == start) & (pc.field("interval_end") == end) for start, end in spans)
    return (pc.field("query_set") == query_set) & near & reduce(or_, exact)


# Measures and lateness grow with every audit. The newest row of a key counts.

LONG = 400 * instants.DAY
"""Shorter ranges are read by naming their months, so that no other partition is opened."""


@dataclass(frozen=True)
class LinkLateness:
    """A row of `lateness`; see `layout.LATENESS`. Instants and durations are ns."""

    link: str
    interval_start: int
    interval_end: int
    skew: int
    refused: int
    largest: int
    busiest: int
    bounds: NDArray[np.int64]
    counts: NDArray[np.int64]
    measured_at: int


def record_metrics(lake: layout.Lake, query_set: str, measured: Mapping[Range, pa.Table], again: bool) -> None:
    """Replaces the measures of intervals of a query set: METRICS without the columns of the interval. `again`: False if
    the ledger has none of them."""
    rows = _of_all(query_set, measured, layout.METRICS)
    _write(lake.metrics, rows, _of_intervals(query_set, [*measured]), again, lake.fence)


def _write(path: PurePath, rows: pa.Table, replaced: pc.Expression, again: bool, fence: Fence | None) -> None:
    if again:
        tables.replace_rows(path, rows, replaced, fence)
    else:
        tables.append_rows(path, rows, fence)  # touches no file, however large the compacted ones are


def record_measures(
    lake: layout.Lake, query_set: str, measured: Mapping[Range, Mapping[str, pa.Table]], now: int, again: bool
) -> None:
    """Replaces the measures of intervals of a query set, in the tables of `layout.MEASURES`: interval -> name -> rows,
    of which those of one name have one schema. `again`: False if `metrics`, which an audit writes before them, has none
    of the intervals."""
    replaced = _of_intervals(query_set, [*measured])
    for name in next(iter(measured.values())):
        mine = {span: of_interval[name] for span, of_interval in measured.items()}
        path, schema = lake.measures(name), layout.measures_schema(next(iter(mine.values())).schema)
        if any(table.num_rows for table in mine.values()) or (again and tables.open_table(path) is not None):
            tables.create(path, schema, ["query_set"], about=layout.MEASURES[name])
            _write(path, _of_all(query_set, mine, schema, {"measured_at": now}), replaced, again, lake.fence)


def read_measures(lake: layout.Lake, name: str, start: int, end: int) -> pa.Table:
    """Reads a table of `layout.MEASURES` about intervals that begin in [start, end), ns, with the columns that it has;
    none without one."""
    path = lake.measures(name)
    if (table := tables.open_table(path)) is None:
        return pa.table({})
    chosen = tables.within("interval_start", start, end)
    with tables.lake_errors(f"{path}: the table cannot be read"):
        dataset = tables.fetch_rows(path, tables.table_dataset(path, table), chosen)
        return tables.chosen_rows(dataset, dataset.schema.names, chosen)


def read_metrics(
    lake: layout.Lake, query_set: str | None = None, start: int = 0, end: int = 1 << 62, subject: str | None = None
) -> pa.Table:
    """Reads the measures of intervals that begin in [start, end), ns: of a query set, of a link or query; None for
    all."""
    chosen = tables.within("interval_start", start, end)
    if query_set is not None:
        chosen &= pc.field("query_set") == query_set
    if subject is not None:
        chosen &= pc.field("subject") == subject
    return tables.read_rows(lake.metrics, layout.METRICS, chosen)


def record_lateness(lake: layout.Lake, rows: Sequence[LinkLateness]) -> None:
    """Appends the lateness of links, without rows that are stored already, as newer than what another machine wrote
    whose clock may be ahead."""
    stored: dict[str, set[object]] = {}
    latest = -1
    for link in {row.link for row in rows}:
        begins = [row.interval_start for row in rows if row.link == link]
        before = read_lateness(lake, link, min(begins), max(begins) + 1)
        stored[link] = {_comparable(row) for row in before}
        latest = max([latest, *(row.measured_at for row in before)])
    new = [row for row in rows if _comparable(row) not in stored[row.link]]
    if new:
        records = [
            {**vars(row), "measured_at": max(row.measured_at, latest + 1), "month": _month(row.interval_start)}
            for row in new
        ]
        tables.append_rows(lake.lateness, pa.Table.from_pylist(records, schema=layout.LATENESS), lake.fence)


def _comparable(row: LinkLateness) -> tuple[int, int, int, int, int, int, tuple[int, ...]]:
    counts = (*row.bounds.tolist(), *row.counts.tolist())
    return row.interval_start, row.interval_end, row.skew, row.refused, row.largest, row.busiest, counts


def read_lateness(lake: layout.Lake, link: str, start: int = 0, end: int = 1 << 62) -> list[LinkLateness]:
    """Reads the lateness of a link in the intervals that begin in [start, end), ns, in order."""
    chosen, of_link = tables.within("interval_start", start, end), pc.field("link") == link
    if end - start < LONG:
        months = {_month(at) for at in range(start, end, instants.DAY)} | {_month(max(start, end - 1))}
        files = [name for name in lateness_files(lake, link) if name.partition("month=")[2].partition("/")[0] in months]
        with tables.lake_errors(f"{lake.lateness}: the table cannot be read"):
            rows = tables.files_dataset(lake.lateness, [(name, of_link) for name in files], layout.LATENESS)
            rows = rows.to_table([name for name in layout.LATENESS.names if name != "month"])
    else:
        rows = tables.read_rows(lake.lateness, layout.LATENESS, of_link & chosen)
    scalars = rows.select([name for name in layout.LATENESS.names if name not in ("month", "bounds", "counts")])
    lists = list(zip(_lists(rows, "bounds"), _lists(rows, "counts"), strict=True))
    newest = {}
    numbered = scalars.append_column("place", [np.arange(scalars.num_rows)]).filter(chosen)  # lists are not moved
    for row in numbered.sort_by("measured_at").to_pylist():
        bounds, counts = lists[row.pop("place")]
        newest[row["interval_start"], row["interval_end"]] = LinkLateness(**row, bounds=bounds, counts=counts)
    return [newest[key] for key in sorted(newest)]


def lateness_files(lake: layout.Lake, link: str) -> tuple[str, ...]:
    """Names the files with the lateness of a link; they are others whenever it has changed."""
    names: Mapping[str, tuple[str, ...]] = open_tables.cached_value(lake.lateness, "lateness files", files_by_link)
    return names.get(link, ())


def _month(at: int) -> str:
    return instants.format_instant(at)[:7]


def late_share(lake: layout.Lake, link: str, start: int, end: int) -> float | None:
    """Share of the records of a link that were refused as late, in the intervals that begin in [start, end), ns."""
    rows = read_lateness(lake, link, max(0, start), end)
    records = sum(int(sum(row.counts)) for row in rows)
    return sum(row.refused for row in rows) / records if records else None


def _lists(rows: pa.Table, name: str) -> list[NDArray[np.int64]]:
    column = rows.column(name).combine_chunks()
    if not len(column):
        return []
    ends = np.cumsum(pc.list_value_length(column).to_numpy()).tolist()
    values = column.flatten().to_numpy()
    return [values[begin:end] for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


# Failures of intervals that could not be written to the ledger, since the disk was full or the store was away. They
# wait on this machine, in the cache of this user, and the next process here that can write to the lake tells them. One
# file for each interval: the newest failure of it.

_held: dict[Path, bytes] = {}
"""Those that this machine has no room for either; they last as long as this process."""


def keep_untold(lake: layout.Lake, row: ReplayRow) -> None:
    """Keeps the failure of an interval for the next process that can write to the lake."""
    name = sha256(json.dumps([row.query_set, row.interval_start, row.interval_end]).encode()).hexdigest()[:24]
    data = json.dumps(asdict(row)).encode()
    path = _untold_folder(lake) / f"{name}.json"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.with_suffix(".new").write_bytes(data)
        path.with_suffix(".new").replace(path)
    except OSError:
        _held[path] = data


def tell_untold(lake: layout.Lake) -> None:
    """Writes what was kept to the ledger. What cannot be written yet stays.
    Raises LakeError if the ledger cannot be read or written."""
    kept = dict(_kept(lake))
    if not kept:
        return
    known = {(row.query_set, row.interval, row.finished_at) for row in read_replays(lake)}
    untold = [row for row in kept.values() if row and (row.query_set, row.interval, row.finished_at) not in known]
    record_replays(lake, sorted(untold, key=lambda row: row.finished_at))
    for path in kept:
        _held.pop(path, None)
        with suppress(OSError):
            path.unlink()


def _kept(lake: layout.Lake) -> Iterator[tuple[Path, ReplayRow | None]]:
    """What is kept, by its file; None for what nobody can read."""
    folder = _untold_folder(lake)
    with suppress(OSError):
        for path in sorted(folder.glob("*.json")):
            yield path, _untold_row(path.read_bytes())
    yield from ((path, _untold_row(data)) for path, data in [*_held.items()] if path.parent == folder)


def _untold_row(data: bytes) -> ReplayRow | None:
    try:
        return ReplayRow(**json.loads(data))
    except (ValueError, TypeError):
        return None


def _untold_folder(lake: layout.Lake) -> Path:
    try:
        home = cache_folder()
    except errors.LowwaterError:
        home = Path("/nonexistent")  # in memory only
    absolute = lake.root.absolute() if isinstance(lake.root, Path) else lake.root
    return home / "untold" / sha256(str(absolute).encode()).hexdigest()[:24]
