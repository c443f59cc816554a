"""What the pages know of a lake: its ledgers, read once for as long as nothing was written to them.

Below every page. A snapshot is kept until the version of a ledger, the settings or a query file changes.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.dataset as pads

from lowwater.config import FILE_NAME, Config, load_config
from lowwater.errors import LowwaterError
from lowwater.lake.layout import QUALITY, REPLAYS, Lake, open_lake
from lowwater.lake.ledgers.captures import Captures, ingested_links, read_captures
from lowwater.lake.ledgers.interval_states import (
    BLOCKED,
    HALF,
    MISSING,
    STALE,
    StatusRow,
    covered,
    gravest,
    interval_status,
)
from lowwater.lake.ledgers.runs import FAILED, ReplayRow
from lowwater.lake.locks import held_ranges
from lowwater.lake.tables import open_table, read_rows
from lowwater.quality.verdicts import IntervalAudit, Key, interval_audits
from lowwater.replay.interval import expected
from lowwater.replay.job import Job
from lowwater.replay.schedule.link_queries import jobs

RUNNING, HELD, WARNED = "running", "held", "warned"
"""States that `lowwater status` does not know: at work now, audited and not published, published with warnings."""


@dataclass(frozen=True)
class Interval:
    """What became of one interval of a query set.

    Attributes:
        query_set: its name.
        start: ns; `end` its end.
        state: the gravest of its queries.
        reason: why it is not done.
        rows: of all its queries, as published; None where nothing is.
    """

    query_set: str
    start: int
    end: int
    state: str
    reason: str
    rows: int | None

    @property
    def key(self) -> Key:
        return self.query_set, self.start, self.end


GRAVITY = (
    *(RUNNING, FAILED, BLOCKED, HALF, MISSING, HELD),
    *(STALE, "incomplete", "provisional", WARNED, "done"),
)
"""The states, the one to look at first before the others."""


@dataclass(frozen=True)
class Part:
    """The intervals that begin in [start, end), ns.

    Attributes:
        replays: what is recorded of each interval, oldest first.
        audits: the newest of each.
        intervals: what became of them, by query set and time.
    """

    start: int
    end: int
    replays: Mapping[Key, Sequence[ReplayRow]]
    audits: Mapping[Key, IntervalAudit]
    intervals: Sequence[Interval]

    def of(self, key: Key) -> Interval | None:
        """The interval of a key."""
        return next((each for each in self.intervals if each.key == key), None)


FAILURES = pa.schema([QUALITY.field(name) for name in ("query_set", "interval_start", "interval_end", "success")])
"""Columns of `quality` that say which intervals have something wrong."""


class Record(NamedTuple):
    """A row of `replays` without its long texts."""

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
    """The ledgers of a lake at one moment.

    Attributes:
        lake: the lake; `config` its settings.
        captures: the captures of every link.
        records: all rows of `replays`, oldest first.
        jobs: the query sets that can be planned, by name.
        unplanned: those that cannot, and why.
    """

    lake: Lake
    config: Config
    captures: Mapping[str, Captures]
    records: Sequence[Record]
    jobs: Mapping[str, Job]
    unplanned: Mapping[str, str]
    _parts: dict[tuple[int, int], Part] = field(default_factory=dict, repr=False)
    _restricted: dict[frozenset[str], Snapshot] = field(default_factory=dict, repr=False)

    @cached_property
    def keys(self) -> set[Key]:
        """Every interval that was ever run."""
        return {(each.query_set, each.interval_start, each.interval_end) for each in self.records}

    @cached_property
    def warned(self) -> set[Key]:
        """The intervals whose newest audit found something, critical or not."""
        rows = read_rows(self.lake.quality, FAILURES, pads.field("success") == False)  # noqa: E712
        return {tuple(row.values()) for row in rows.drop_columns(["success"]).to_pylist()}

    @cached_property
    def span(self) -> tuple[int, int] | None:
        """From the first coverage or run to the last, ns; None for an empty lake."""
        bounds = [(each.covers_from, each.covers_to) for rows in self.captures.values() for each in rows]
        bounds += [(start, end) for _, start, end in self.keys]
        return (min(first for first, _ in bounds), max(last for _, last in bounds)) if bounds else None

    def part(self, start: int, end: int) -> Part:
        """The intervals that begin in [start, end), ns.

        Whether inputs have changed since is asked of these only, since that takes the plan.
        """
        found = self._parts.get((start, end))
        if found is None:
            found = self._parts[start, end] = _part(self, start, end)
        at_work = {name: held_ranges(self.lake, name) for name in self.jobs}
        return replace(found, intervals=[_running(each, at_work) for each in found.intervals])

    def only(self, sees: Callable[[str], bool]) -> Snapshot:
        """What somebody may see: some query sets, their intervals, and the links that they read.

        Args:
            sees: whether a query set, by its name.
        """
        known = {*self.jobs, *self.unplanned, *(each[0] for each in self.keys)}
        names = frozenset(name for name in known if sees(name))
        if names == known:
            return self
        if names not in self._restricted:
            jobs = {name: job for name, job in self.jobs.items() if name in names}
            links = {link for job in jobs.values() for link in job.plan.links}
            self._restricted[names] = replace(
                self,
                captures={link: rows for link, rows in self.captures.items() if link in links},
                records=[each for each in self.records if each.query_set in names],
                jobs=jobs,
                unplanned={name: why for name, why in self.unplanned.items() if name in names},
                _parts={},
                _restricted={},
            )
        return self._restricted[names]


def _part(known: Snapshot, start: int, end: int) -> Part:
    chosen = (pads.field("interval_start") >= start) & (pads.field("interval_start") < end)
    rows = sorted(read_rows(known.lake.replays, REPLAYS, chosen).to_pylist(), key=lambda row: row["finished_at"])
    replays: dict[Key, list[ReplayRow]] = defaultdict(list)
    for row in rows:
        replays[row["query_set"], row["interval_start"], row["interval_end"]].append(ReplayRow(**row))
    audits = {each.key: each for each in interval_audits(known.lake, start, end)}
    found = []
    for name, job in sorted(known.jobs.items()):
        links = {link: known.captures[link] for link in job.plan.links}
        wanted = expected(job, links)
        bounds = {key[1:] for key in replays if key[0] == name}
        mine = [row for rows in links.values() for row in rows]
        bounds |= {each for each in covered(mine, job.length) if start <= each[0] < end}
        for begin, until in sorted(bounds):
            key = name, begin, until
            newest = {(row.query, row.stage): row for row in replays.get(key, ())}
            states = interval_status(wanted, begin, until, list(newest.values()))
            found.append(_interval(key, states, audits.get(key)))
    return Part(start, end, dict(replays), audits, found)


def _interval(key: Key, rows: Sequence[StatusRow], audit: IntervalAudit | None) -> Interval:
    first = gravest(rows)
    state, reason = first.shown, first.why
    if audit is not None and audit.messages and (state == FAILED or (audit.verdict == WARNED and state == "done")):
        state = FAILED if state == FAILED else WARNED
        reason = "; ".join(message.replace(f", {audit.interval}", "") for _, message in audit.brief)
    if audit is not None and state == MISSING and audit.verdict != FAILED:
        state, reason = HELD, "audited and not published"
    visible = [row.rows for row in rows if row.rows is not None]
    return Interval(*key, state, reason, sum(visible) if visible else None)


def _running(found: Interval, at_work: Mapping[str, Mapping[tuple[int, int], str]]) -> Interval:
    if (found.start, found.end) not in at_work[found.query_set]:
        return found
    return replace(found, state=RUNNING, reason="a process is at work on it")


class Board:
    """The door to a lake for the pages.

    Args:
        root: folder of the lake.
        queries: folder of the query sets.
    """

    def __init__(self, root: Path, queries: Path) -> None:
        self.root, self.queries = root.absolute(), queries.absolute()
        self._lock = threading.Lock()
        self._known: tuple[object, Snapshot] | None = None

    def now(self) -> Snapshot:
        """The ledgers as they are.

        Raises:
            LakeError: there is no lake, or a ledger cannot be read.
            ConfigError: its settings are wrong.
        """
        with self._lock:
            lake = Lake(self.root)
            versions = self._versions(lake)
            if self._known is None or self._known[0] != versions:
                self._known = versions, self._read()
            return self._known[1]

    def _versions(self, lake: Lake) -> object:
        tables = [open_table(path) for path in (lake.captures, lake.replays, lake.quality, lake.lateness)]
        files = [self.root / FILE_NAME, *sorted(self.queries.rglob("*"))]
        times = [(str(path), path.stat().st_mtime_ns) for path in files if path.is_file()]
        return [None if table is None else table.version() for table in tables], times

    def _read(self) -> Snapshot:
        lake = open_lake(self.root, make=False)
        unplanned: dict[str, str] = {}

        def tell(name: str, error: LowwaterError) -> None:
            unplanned[name] = str(error)

        sets = {job.query_set: job for job in jobs(self.root, self.queries, tell)}
        captures: dict[str, Captures] = {}
        for job in sets.values():
            captures |= job.captures()
        captures |= read_captures(lake, set(ingested_links(lake)) - set(captures))
        rows = read_rows(lake.replays, RECORDS).sort_by("finished_at").drop_columns(["finished_at"])
        records = [Record(*row) for row in zip(*(column.to_pylist() for column in rows.columns), strict=True)]
        return Snapshot(lake, load_config(self.root), captures, records, sets, unplanned)
