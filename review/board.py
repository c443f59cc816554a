"""What the pages know of a lake: its ledgers, read once for as long as nothing was written to them.

Below every page. A snapshot is kept until the version of a ledger, the settings or a query file changes.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from lowwater.config import FILE_NAME, Config, format_instant, load_config
from lowwater.errors import LowwaterError
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledger import Capture, ingested_links, read_captures
from lowwater.lake.records import FAILED, PUBLISH, Replay, read_replays
from lowwater.lake.status import Expected, StatusRow, status
from lowwater.lake.tables import open_table, safe_name
from lowwater.quality.verdicts import Audited, Key, audited
from lowwater.replay.job import Job
from lowwater.replay.readers import jobs

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
    *(RUNNING, FAILED, "half published", "missing", HELD),
    *("stale", "incomplete", "provisional", WARNED, "done"),
)
"""The states, the one to look at first before the others."""


@dataclass(frozen=True)
class Snapshot:
    """The ledgers of a lake at one moment.

    Attributes:
        lake: the lake; `config` its settings.
        captures: of every link.
        replays: oldest first.
        audits: the newest of each interval.
        jobs: the query sets that can be planned, by name.
        unplanned: those that cannot, and why.
    """

    lake: Lake
    config: Config
    captures: Mapping[str, Sequence[Capture]]
    replays: Sequence[Replay]
    audits: Mapping[Key, Audited]
    jobs: Mapping[str, Job]
    unplanned: Mapping[str, str]

    @cached_property
    def of_interval(self) -> Mapping[Key, Sequence[Replay]]:
        """What is recorded of each interval."""
        found: dict[Key, list[Replay]] = defaultdict(list)
        for row in self.replays:
            found[row.query_set, row.interval_start, row.interval_end].append(row)
        return found

    @cached_property
    def published(self) -> Mapping[tuple[str, str, int, int], Replay]:
        """The last publication of each query and interval."""
        rows = (row for row in self.replays if row.stage == PUBLISH and row.state != FAILED)
        return {(row.query_set, row.query, row.interval_start, row.interval_end): row for row in rows}

    def intervals(self, start: int, end: int) -> Sequence[Interval]:
        """What became of the intervals that begin in [start, end), ns, by query set and time.

        Whether the inputs of an interval have changed since is asked of these only, since that takes the plan.
        """
        return _intervals(self, start, end)

    @property
    def span(self) -> tuple[int, int] | None:
        """From the first coverage or run to the last, ns; None for an empty lake."""
        bounds = [(each.covers_from, each.covers_to) for rows in self.captures.values() for each in rows]
        bounds += [(start, end) for _, start, end in self.of_interval]
        return (min(first for first, _ in bounds), max(last for _, last in bounds)) if bounds else None

    def running(self, key: Key) -> bool:
        """Whether a process is at work on an interval."""
        name = safe_name(f"{key[0]} {format_instant(key[1])}")
        if not (self.lake.work / name).is_dir():
            return False
        try:
            os.kill(int((self.lake.locks / f"{name}.lock").read_text() or "0"), 0)
        except (OSError, ValueError):
            return False  # killed: its folder is left for the next attempt
        return True

    def __hash__(self) -> int:
        return id(self)


@lru_cache(maxsize=64)
def _intervals(known: Snapshot, start: int, end: int) -> tuple[Interval, ...]:
    found: dict[Key, list[StatusRow]] = defaultdict(list)
    for job in known.jobs.values():
        for row in status(known.lake, [_expected(known, job, start, end)]):
            if start <= row.start < end:
                found[row.query_set, row.start, row.end].append(row)
    return tuple(_interval(known, key, rows) for key, rows in sorted(found.items()))


def _expected(known: Snapshot, job: Job, start: int, end: int) -> Expected:
    """What `status` asks of a query set; outside of [start, end) inputs count as unchanged."""
    queries = {query.name: query for query in job.plan.queries}
    captures = job.captures()

    def digest(query: str, begin: int, until: int) -> str:
        recorded = known.published.get((job.query_set, query, begin, until))
        if recorded is not None and not start <= begin < end:
            return recorded.digest
        return job.inputs(begin, until, captures).digest(queries[query])

    def outdated(begin: int, until: int) -> str:
        inside = start <= begin < end
        return "; ".join(job.inputs(begin, until, captures).outdated()) if inside else ""

    return Expected(job.query_set, tuple(queries), tuple(job.plan.links), job.length, digest, outdated)


def _interval(known: Snapshot, key: Key, rows: Sequence[StatusRow]) -> Interval:
    state, reason = min(((row.state, row.reason) for row in rows), key=lambda each: GRAVITY.index(each[0]))
    audit = known.audits.get(key)
    if audit is not None and audit.messages and (state == FAILED or (audit.verdict == WARNED and state == "done")):
        state = FAILED if state == FAILED else WARNED
        reason = "; ".join(message.replace(f", {audit.interval}", "") for message in audit.messages)
    if audit is not None and state == "missing" and audit.verdict != FAILED:
        state, reason = HELD, "audited and not published"
    if known.running(key):
        state, reason = RUNNING, "a process is at work on it"
    visible = [row.rows for row in rows if row.rows is not None]
    return Interval(*key, state, reason, sum(visible) if visible else None)


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
        tables = [open_table(path) for path in (lake.captures, lake.replays, lake.quality)]
        files = [self.root / FILE_NAME, *sorted(self.queries.rglob("*"))]
        times = [(str(path), path.stat().st_mtime_ns) for path in files if path.is_file()]
        return [None if table is None else table.version() for table in tables], times

    def _read(self) -> Snapshot:
        lake = open_lake(self.root, make=False)
        unplanned: dict[str, str] = {}

        def tell(name: str, error: LowwaterError) -> None:
            unplanned[name] = str(error)

        sets = {job.query_set: job for job in jobs(self.root, self.queries, tell)}
        links = {*ingested_links(lake), *(link for job in sets.values() for link in job.plan.links)}
        audits = {each.key: each for each in audited(lake)}
        return Snapshot(
            lake, load_config(self.root), read_captures(lake, links), read_replays(lake), audits, sets, unplanned
        )
