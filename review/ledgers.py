"""Reads the ledgers of a lake for the review pages and caches them as a snapshot.

Every page uses it. The cache is valid until the version of a ledger, the settings, a query file or a suite changes.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from itertools import groupby
from pathlib import Path, PurePath
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar, cast

import pyarrow as pa
import pyarrow.dataset as pads

from lowwater.config import Config, load_config
from lowwater.documents import FILE_NAME
from lowwater.errors import LowwaterError
from lowwater.lake.layout import QUALITY, REPLAYS, Lake, lake_to_read
from lowwater.lake.ledgers.captures import Captures, ingested_links, read_captures
from lowwater.lake.ledgers.intervals import StatusRow, gravest, set_status
from lowwater.lake.ledgers.runs import ReplayRow, replay_rows
from lowwater.lake.locks import at_work
from lowwater.lake.open_tables import identity
from lowwater.lake.query_sets import FOLDER
from lowwater.lake.results.published import table_version
from lowwater.lake.tables import column_values, lake_errors, read_rows
from lowwater.lake.words import DONE, RUNNING
from lowwater.quality.reports import IntervalAudit, Key, interval_audits
from lowwater.quality.suites import FOLDER as FOLDER_OF_SUITES
from lowwater.replay.job import Job
from lowwater.replay.schedule.due import expected, who_works
from lowwater.replay.schedule.links import jobs, retired_sets
from lowwater.storage.paths import children, folders, lake_path, listed, state

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Interval:
    """State of one interval of a query set."""

    query_set: str  # name of the query set
    start: int  # first instant of the interval, ns since the epoch
    end: int  # end of the interval, ns since the epoch, exclusive
    state: str  # gravest state of its queries
    reason: str  # why the interval is not done; empty if it is
    rows: int | None  # number of published rows of all queries; None without a publication
    intervals: int = 1  # number of the intervals: more than one in a stretch without records (I3), which runs as one
    by_audit: bool = False  # whether the reason is what its newest audit says

    @property
    def key(self) -> Key:
        return self.query_set, self.start, self.end


@dataclass(frozen=True)
class Part:
    """The intervals that begin in a range of time."""

    start: int  # first instant of the range, ns since the epoch
    end: int  # end of the range, ns since the epoch, exclusive
    replays: Mapping[Key, Sequence[ReplayRow]]  # rows of the ledger `replays` by interval, oldest first
    audits: Mapping[Key, IntervalAudit]  # newest audit by interval
    intervals: Sequence[Interval]  # states of the intervals, ordered by query set and time

    def of(self, key: Key) -> Interval | None:
        """Returns the interval of a key; None if the range does not hold it."""
        return next((interval for interval in self.intervals if interval.key == key), None)


FAILURES = pa.schema([QUALITY.field(name) for name in ("query_set", "interval_start", "interval_end", "success")])
"""Columns of `quality` that identify intervals with failed expectations."""


class Record(NamedTuple):
    """A row of `replays` without its long text columns."""

    query_set: str
    query: str
    interval_start: int
    interval_end: int
    stage: str
    state: str
    rows: int | None
    timings: str


RECORDS = pa.schema([REPLAYS.field(name) for name in (*Record._fields, "finished_at")])


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The ledgers of a lake at one moment."""

    lake: Lake  # the lake
    config: Config  # settings of the lake
    captures: Mapping[str, Captures]  # captures by link
    records: Sequence[Record]  # all rows of `replays`, oldest first
    jobs: Mapping[str, Job]  # query sets that can be planned, by name
    unplanned: Mapping[str, str]  # why query sets cannot be planned, or are retired, by name
    _parts: dict[tuple[int, int], Part] = field(default_factory=dict, repr=False)
    _restricted: dict[frozenset[str], Snapshot] = field(default_factory=dict, repr=False)
    _computed: dict[object, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def keys(self) -> set[Key]:
        """Keys of all intervals that ran at least once."""
        return {(record.query_set, record.interval_start, record.interval_end) for record in self.records}

    @cached_property
    def warned(self) -> set[Key]:
        """Keys of the intervals whose newest audit has a failed expectation, critical or not."""
        rows = read_rows(self.lake.quality, FAILURES, pads.field("success") == False)  # noqa: E712
        return {tuple(row.values()) for row in rows.drop_columns(["success"]).to_pylist()}

    @cached_property
    def span(self) -> tuple[int, int] | None:
        """First and last instant of all captures and runs, ns since the epoch; None for an empty lake."""
        ends = ((rows.begin, rows.end) for rows in self.captures.values())
        bounds = [(begin, end) for begin, end in ends if begin is not None and end is not None]
        bounds += [(start, end) for _, start, end in self.keys]
        return (min(first for first, _ in bounds), max(last for _, last in bounds)) if bounds else None

    def part(self, start: int, end: int) -> Part:
        """Returns the intervals that begin in [start, end), ns since the epoch.

        Only these intervals are checked for changed inputs, because the check needs the plan.
        """
        part = self._parts.get((start, end))
        if part is None:
            part = self._parts[start, end] = _part(self, start, end)
        held = {name: at_work(self.lake, name) for name in self.jobs}
        return replace(part, intervals=[_running(interval, held) for interval in part.intervals])

    def only(self, sees: Callable[[str], bool]) -> Snapshot:
        """Returns the snapshot that a user may see: permitted query sets, their intervals and links. `sees`: whether
        the user may see the query set of a name."""
        all_names = {*self.jobs, *self.unplanned, *(key[0] for key in self.keys)}
        names = frozenset(name for name in all_names if sees(name))
        if names == all_names:
            return self
        if names not in self._restricted:
            jobs = {name: job for name, job in self.jobs.items() if name in names}
            links = {link for job in jobs.values() for link in job.plan.links}
            self._restricted[names] = replace(
                self,
                captures={link: rows for link, rows in self.captures.items() if link in links},
                records=[record for record in self.records if record.query_set in names],
                jobs=jobs,
                unplanned={name: why for name, why in self.unplanned.items() if name in names},
                _parts={},
                _restricted={},
                _computed={},
            )
        return self._restricted[names]


def kept_by_snapshot(function: Callable[Concatenate[Snapshot, P], T]) -> Callable[Concatenate[Snapshot, P], T]:
    """Keeps the results of a function in the snapshot that it gets, so that they go when the snapshot does.

    A cache of the process would hold old snapshots, and each has all captures of the lake.
    """

    @wraps(function)
    def kept(snapshot: Snapshot, *args: P.args, **named: P.kwargs) -> T:
        key = function, args, tuple(sorted(named.items()))
        if key not in snapshot._computed:
            snapshot._computed[key] = function(snapshot, *args, **named)
        result: T = snapshot._computed[key]
        return result

    return cast("Callable[Concatenate[Snapshot, P], T]", kept)


def _part(snapshot: Snapshot, start: int, end: int) -> Part:
    chosen = (pads.field("interval_end") > start) & (pads.field("interval_start") < end)
    replays: dict[Key, list[ReplayRow]] = defaultdict(list)
    every = replay_rows(read_rows(snapshot.lake.replays, REPLAYS, chosen))
    for row in every:
        replays[row.query_set, row.interval_start, row.interval_end].append(row)
    audits = {audit.key: audit for audit in interval_audits(snapshot.lake, start, end)}
    intervals = []
    for name, job in sorted(snapshot.jobs.items()):
        links = {link: snapshot.captures[link] for link in job.plan.links}
        ran = [row for row in every if row.query_set == name]  # oldest first, whatever their intervals
        others = [key[1:] for key in snapshot.keys - replays.keys() if key[0] == name]
        states = set_status(expected(job, links), ran, wanted=lambda begin, _: start <= begin < end, runs=others)
        for bounds, together in groupby(states, lambda row: (row.start, row.end)):
            key = name, *bounds
            intervals.append(_interval(key, list(together), audits.get(key)))
    return Part(start, end, dict(replays), audits, intervals)


def _interval(key: Key, rows: Sequence[StatusRow], audit: IntervalAudit | None) -> Interval:
    first = gravest(rows)
    state, reason = first.shown, first.why
    by_audit = audit is not None and bool(audit.messages) and audit.says(state, reason)
    if audit is not None and by_audit:
        state = audit.verdict
        messages = [message.replace(f", {audit.interval}", "") for _, message in audit.brief]
        reason = "; ".join([*messages, *filter(None, [reason] if first.shown == DONE else ())])
    visible = [row.rows for row in rows if row.rows is not None]
    return Interval(*key, state, reason, sum(visible) if visible else None, first.intervals, by_audit)


def _running(interval: Interval, held: Mapping[str, Mapping[tuple[int, int], str]]) -> Interval:
    who = who_works(held[interval.query_set], interval.start, interval.end)
    return replace(interval, state=RUNNING, reason=who) if who else interval


class Ledgers:
    """Gives the pages access to a lake. Reads its ledgers again only after a change."""

    def __init__(self, root: PurePath, queries: Path) -> None:
        self.root, self.queries = lake_path(root), queries.absolute()
        self._lock = threading.Lock()
        self._cached: tuple[object, object, Snapshot] | None = None

    def now(self) -> Snapshot:
        """Returns the current snapshot of the ledgers.
        Raises LakeError if there is no lake, or a ledger cannot be read, and ConfigError if the settings of the lake
        are wrong."""
        with self._lock:
            lake = Lake(self.root)
            versions = self._versions(lake)
            if self._cached is None or self._cached[:2] != (versions, _named_times(self._cached[2])):
                snapshot = self._read()
                self._cached = versions, _named_times(snapshot), snapshot
            return self._cached[2]

    def _versions(self, lake: Lake) -> object:
        ledgers = (lake.contents, lake.sightings, lake.statements, lake.replays, lake.quality, lake.lateness)
        tables: list[object] = []
        for path in ledgers:
            with lake_errors(f"{path}: cannot be read"):
                tables.append(identity(path))
        tables += [table_version(path) for path in folders(lake.root / "tables")]
        times = _times(self.queries.rglob("*"))
        looks = [(path.name, state(path)) for path in children(self.root / FOLDER)]
        suites = sorted(listed(self.root / FOLDER_OF_SUITES))
        return tables, state(self.root / FILE_NAME), times, looks, suites

    def _read(self) -> Snapshot:
        lake = lake_to_read(self.root)
        unplanned = retired_sets(self.root, self.queries)

        def tell(name: str, error: LowwaterError) -> None:
            unplanned[name] = str(error)

        sets = {job.query_set: job for job in jobs(self.root, self.queries, tell)}
        captures: dict[str, Captures] = {}
        for job in sets.values():
            captures |= job.captures()
        captures |= read_captures(lake, set(ingested_links(lake)) - set(captures))
        rows = read_rows(lake.replays, RECORDS).sort_by("finished_at").drop_columns(["finished_at"])
        pool: dict[int, int] = {}
        columns = (column_values(column, pool) for column in rows.columns)
        records = [Record(*row) for row in zip(*columns, strict=True)]
        return Snapshot(lake, load_config(self.root), captures, records, sets, unplanned)


def _times(files: Iterable[Path]) -> list[tuple[str, int]]:
    return [(str(path), path.stat().st_mtime_ns) for path in sorted(files) if path.is_file()]


def _named_times(snapshot: Snapshot) -> list[tuple[str, int]]:
    """The files that settings and queries name, wherever they are, and when each was written."""
    named = {Path(file) for section in snapshot.config.query_sets.values() for file in section.files}
    return _times(named.union(*(job.named_files for job in snapshot.jobs.values())))
