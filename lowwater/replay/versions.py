"""Versions of published tables: when and why each was made, which one a person means, and how an earlier one becomes
visible again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path, PurePath

from lowwater.documents import json_value, stored_object
from lowwater.errors import LakeError
from lowwater.instants import format_instant, parse_instant
from lowwater.lake import keys, layout, locks, tables, words
from lowwater.lake.ledgers import runs, statements
from lowwater.lake.ledgers.captures import Captures, read_captures
from lowwater.lake.results import pins, publish
from lowwater.lake.results.exploring import TableDiff, compare, result_table
from lowwater.lake.results.published import Act, LogEntry, damage_of, read_entry, version_of
from lowwater.plan import properties, queryset
from lowwater.replay.job import Job
from lowwater.replay.schedule.links import jobs

# The log of the table says what was published when; the ledger `replays` says why.

PREVIOUS = "previous"
PUBLISHED, FOREIGN = "published", "changed by another program"

Range = tuple[int, int]


@dataclass(frozen=True)
class PublishedVersion:
    """A version of a published table in which rows differ from those of the version before."""

    version: int
    at: int  # when it was made, by the clock of its writer, ns since the epoch
    what: str  # `published`, `rolled back`, or `changed by another program`
    start: int | None = None  # first instant of its interval, ns since the epoch; None if it is of no interval
    end: int | None = None  # end of its interval, ns since the epoch, exclusive; None if it is of no interval
    state: str = ""  # state of the interval then; empty if the ledger does not know
    rows: int | None = None  # rows of the interval then; None if the ledger does not know
    # how its inputs differ from those of the version of the interval before, or who rolled it back and why
    why: tuple[str, ...] = ()


@dataclass(frozen=True)
class VersionChoice:
    """A version as a person names it."""

    text: str
    number: int | None = None  # its number; None if it is named otherwise
    # the version that was the newest at this instant, ns since the epoch; None if it is named otherwise
    instant: int | None = None

    @staticmethod
    def parse(text: str) -> VersionChoice:
        """Reads a number, an ISO 8601 instant, or `previous`. Raises ValueError for anything else.

        Example:
            >>> VersionChoice.parse("4").number, VersionChoice.parse("previous").number
            (4, None)
        """
        if text == PREVIOUS:
            return VersionChoice(text)
        if text.isascii() and text.isdigit():
            return VersionChoice(text, number=int(text[:20]))
        try:
            return VersionChoice(text, instant=parse_instant(text))
        except ValueError:
            raise ValueError(f"{text!r} is no version: write its number, an ISO 8601 instant, or {PREVIOUS}") from None

    def find(self, lake: layout.Lake, query: str, span: Range | None = None) -> int:
        """Returns the number of the version; `span`: the interval whose versions count, None for all.
        Raises LakeError if there is no such version."""
        hint = f"`lowwater history {query}` lists the versions"
        if self.number is not None:
            return self.number
        entries = _entries(lake, query)
        if self.instant is not None:
            found = next((entry.version for entry in entries if entry.at <= self.instant), None)
            if found is None:
                raise LakeError(f"table {query} has no version of {format_instant(self.instant)} or before", hint)
            return found
        made = [entry.version for entry, _ in zip(_meeting(entries, span), range(2), strict=False)]
        if len(made) < 2:
            of = f" of the interval of {format_instant(span[0])}" if span else ""
            raise LakeError(f"table {query} has no version{of} before the newest one", hint)
        return made[1]


def published_versions(
    lake: layout.Lake, query: str, span: Range | None = None, most: int | None = None
) -> list[PublishedVersion]:
    """Lists the versions of a published table whose rows differ, newest first: only of intervals that meet `span`, and
    at most `most` of them.
    Raises LakeError if there is no such table, or its log cannot be read."""
    rows = _publications(lake, query, span)
    links = {name for row in rows for name in _inputs(row).get("links", {})}
    captures = read_captures(lake, sorted(links))
    entries = _meeting(_entries(lake, query), span)
    chosen = ((entry, of) for entry in entries for of in _intervals(entry, span))
    return [_described(*each, rows, captures) for each in islice(chosen, most)]


def _intervals(entry: LogEntry, span: Range | None) -> Sequence[Range | None]:
    """Returns the intervals that a commit published, and that meet a range, newest first; None for one of another
    program."""
    if entry.publication is None:
        return [None]
    of = entry.publication.start, entry.publication.end
    # Older versions of Lowwater wrote no numbers.
    published = [each for each in entry.numbers if of[0] <= each[0] and each[1] <= of[1]] or [of]
    wanted = (each for each in published if span is None or (each[0] < span[1] and span[0] < each[1]))
    return sorted(wanted, reverse=True)


def _entries(lake: layout.Lake, query: str) -> Iterator[LogEntry]:
    """Yields the commits that changed rows, newest first, as far back as the log goes."""
    path: PurePath = lake.table(query)
    version = result_table(lake, query).newest
    while version >= 0 and (entry := read_entry(path, version)) is not None:
        if entry.changes or entry.publication is not None:
            yield entry
        version -= 1


def _meeting(entries: Iterator[LogEntry], span: Range | None) -> Iterator[LogEntry]:
    """Yields the commits that published an interval which meets a range; without a range all."""
    for entry in entries:
        of = entry.publication
        if span is None or (of is not None and of.start < span[1] and span[0] < of.end):
            yield entry


def _described(
    entry: LogEntry, of: Range | None, rows: Sequence[runs.ReplayRow], captures: dict[str, Captures]
) -> PublishedVersion:
    if of is None:
        operation = str(entry.told.get("operation", "")).lower()
        by = str(entry.told.get("engineInfo") or entry.told.get("clientVersion") or "")
        return PublishedVersion(entry.version, entry.at, FOREIGN, why=(" by ".join(filter(None, (operation, by))),))
    same = [row for row in rows if row.interval == of]
    # The row of a killed run is missing. Those of older versions have no number: they were written behind the commit.
    now = next((row for row in same if _is_of(row, entry)), None)
    before = next((row for row in reversed(same) if now is not None and row.finished_at < now.finished_at), None)
    state, count = (now.state, now.rows) if now is not None else ("", None)
    what, why = PUBLISHED, tuple[str, ...]()
    if publish.ROLLED_BACK_NOTE in entry.told:
        told = json_value(entry.told[publish.ROLLED_BACK_NOTE])
        what, why = words.ROLLED_BACK, (f"to version {told['version']} by {told['by']}: {told['why']}",)
    elif now is not None and before is None:
        why = ("first publication",)
    elif now is not None and before is not None and _inputs(now):
        why = tuple(keys.differences(_inputs(before), _inputs(now), captures))
    return PublishedVersion(entry.version, entry.at, what, *of, state, count, why)


def _is_of(row: runs.ReplayRow, entry: LogEntry) -> bool:
    return row.finished_at >= entry.at if row.publication is None else version_of(row.publication) == entry.version


def _publications(lake: layout.Lake, query: str, span: Range | None = None) -> list[runs.ReplayRow]:
    rows = runs.read_replays(lake, span=span, stage=runs.PUBLISH)
    return [row for row in rows if row.query == query and row.state != words.FAILED]


def _inputs(row: runs.ReplayRow) -> keys.Summary:
    """The parts of the inputs of a publication; empty in rows of an older version."""
    found: keys.Summary = stored_object(row.accounting).get("inputs", {})
    return found


# Bounds of a published interval, and the unique key of a query.


def interval_of(lake: layout.Lake, query: str, at: int) -> tuple[int, int]:
    """Returns the newest published interval of a query that begins at an instant, [start, end), ns.
    Raises LakeError if no interval of the query that begins there was published."""
    rows = _publications(lake, query)
    bounds = [(row.interval_start, row.interval_end) for row in rows if row.interval_start == at]
    if not bounds:
        starts = sorted({row.interval_start for row in rows})
        nearest = min(starts, key=lambda start: abs(start - at), default=None)
        raise LakeError(
            f"--at {format_instant(at)}: no interval of {query} that begins there is published",
            f"the nearest begins at {format_instant(nearest)}" if nearest is not None else "`lowwater status` says why",
        )
    return bounds[-1]


def key_of(root: PurePath, queries: Path, query: str) -> tuple[str, ...]:
    """Returns the unique key of a query by the plan of its set; empty if no plan of today has the query or its key."""
    for job in jobs(root, queries):  # of one that cannot be planned whole rows are compared
        for plan in job.plan.queries:
            if plan.name == query:
                return properties.unique_key(plan.logical) or ()
    return ()


# An earlier version becomes visible, or that is lifted: acts of a person. The row of the ledger has the digest of the
# present inputs, whose rows the person refused. So nothing runs until they change or the roll back is lifted
# (SEMANTICS S7).


@dataclass(frozen=True)
class RollbackTarget:
    """A published interval of a query."""

    job: Job
    query: queryset.QueryPlan
    start: int
    end: int

    @staticmethod
    def find(root: PurePath, queries: Path, query: str, at: int) -> RollbackTarget:
        """Finds the newest published interval of a query that begins at an instant.
        Raises LakeError if there is no such query or interval, or its rows are the state of later intervals."""
        lake = layout.lake_to_read(root)
        table = result_table(lake, query).opened()
        start, end = interval_of(lake, query, at)
        job = Job.open(root, table.metadata().configuration.get(tables.OWNER) or "", queries)
        chosen = next((each for each in job.plan.queries if each.name == query), None)
        if chosen is None:
            raise LakeError(f"query set {job.query_set} has no query {query!r} any more", "add the query again")
        if properties.hands_over(chosen.high):
            raise LakeError(
                f"query {query}: its intervals continue one another, so one alone cannot be rolled back",
                "change the query or its settings, and run `lowwater backfill`",
            )
        return RollbackTarget(job, chosen, start, end)

    def compared(self, version: int) -> TableDiff:
        """Returns what a roll back to a version changes: rows added, gone and changed."""
        lake, name = self.job.lake, self.query.name
        key = properties.unique_key(self.query.logical) or ()
        return compare(result_table(lake, name), result_table(lake, name, version), key, self.start, self.end)

    def roll_back(self, version: int, by: str, why: str) -> int:
        """Makes the rows of an earlier version visible again, and records who did it and why.
        Raises BusyError if a run is at work on the interval, and LakeError if the version does not have the interval,
        or the table cannot be written."""

        def act(target: RollbackTarget, last: runs.ReplayRow) -> runs.ReplayRow:
            job, query = target.job, target.query
            inputs = job.inputs(target.start, target.end, job.captures())
            before, said = (
                result_table(job.lake, query.name).version,
                target.said(statements.ROLL_BACK, by, why, version),
            )
            told = {"by": by, "why": why}
            about = job.lake, job.query_set, query.name, query.high.fields, target.start, target.end
            with pins.publishing(job.lake, job.query_set, [each.name for each in job.plan.queries]) as act:
                made = publish.restore(*about, version, told, act)
                target.mark_others(act)
            rolled_back = {"from": before, "to": version, **told, "statement": said}
            return replace(
                last,
                reason=f"to version {version} by {by}: {why}",
                digest=inputs.digest(query),
                rows=made.rows,
                accounting=json.dumps({"rolled_back": rolled_back, "inputs": inputs.key(query).summary}),
                publication=made.number,
            )

        return self._record(act).rows or 0

    def said(self, act: str, by: str, why: str, version: int | None = None) -> int:
        """Keeps what a person says of the interval. Returns when, by which the row of the ledger names it."""
        what = "" if version is None else str(version)
        about = statements.Statement(
            0, by, act, why, "", "", what, self.start, self.end, query_set=self.job.query_set, query=self.query.name
        )
        return statements.state(self.job.lake, [about])[0].at

    def mark_others(self, act: Act) -> None:
        """Says in the other tables of the set that their rows of the interval belong to an act too."""
        lake, query_set = self.job.lake, self.job.query_set
        for query in self.job.plan.queries:
            if query.name != self.query.name:
                last = runs.last_published(lake, query_set, query.name, self.start, self.end)
                if last is not None and not damage_of(lake, query_set, query.name, self.start, self.end):
                    span = self.start, self.end
                    number, at = publish.mark(lake, query.name, [span], act)[span], _after(lake, query_set, self)
                    runs.record_replays(lake, [replace(last, finished_at=at, publication=number)])

    def lift(self, by: str, why: str) -> None:
        """Lifts a roll back: the interval is stale, and the next backfill runs it again.
        Raises BusyError if a run is at work on the interval, and LakeError if the interval is not rolled back."""

        def act(target: RollbackTarget, last: runs.ReplayRow) -> runs.ReplayRow:
            if last.state != words.ROLLED_BACK or not last.digest:
                raise LakeError(
                    f"query {target.query.name}: the interval of {format_instant(target.start)} is not rolled back",
                    "`lowwater status` shows the intervals that are",
                )
            lifted = {"by": by, "why": why, "statement": target.said(statements.LIFT, by, why)}
            accounting = json.dumps({**stored_object(last.accounting), "lifted": lifted})
            return replace(last, reason=f"rolled back, lifted by {by}: {why}", digest="", accounting=accounting)

        self._record(act)

    def _record(self, act: Callable[[RollbackTarget, runs.ReplayRow], runs.ReplayRow]) -> runs.ReplayRow:
        """Acts under the lock of the interval, and appends the row that says so."""
        query_set, name = self.job.query_set, self.query.name
        with locks.run_attempt(self.job.lake, query_set, self.start, self.end) as (_, fence):
            lake = replace(self.job.lake, fence=fence)
            # The other tables of the set are marked, as what the former holder left them.
            tables.fence_off([*(lake.table(query.name) for query in self.job.plan.queries), lake.replays], fence)
            tables.check_owner(lake.table(name), query_set)
            last = runs.last_published(lake, query_set, name, self.start, self.end)
            if last is None:
                raise LakeError(
                    f"query {name}: the interval of {format_instant(self.start)} was replaced by intervals of another "
                    "length",
                    "roll those back: `lowwater status` lists them",
                )
            row = act(replace(self, job=replace(self.job, lake=lake)), last)
            at = _after(lake, query_set, self)
            row = replace(row, stage=runs.PUBLISH, state=words.ROLLED_BACK, finished_at=at, timings="{}")
            runs.record_replays(lake, [row])
            return row


def _after(lake: layout.Lake, query_set: str, target: RollbackTarget) -> int:
    """The time of a new row of the ledger, ns: later than all rows of the interval."""
    rows = runs.read_replays(lake, query_set, (target.start, target.end))
    return max(time.time_ns(), max((each.finished_at for each in rows), default=0) + 1)
