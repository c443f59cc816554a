"""The states of the intervals of query sets; those that are due, why, and the work they need."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cache, lru_cache
from pathlib import Path, PurePath
from statistics import median
from typing import Any

from lowwater import documents, instants
from lowwater.catalog.time import uncovered
from lowwater.config import load_config
from lowwater.errors import ConfigError, LakeError, LowwaterError, QueryError
from lowwater.lake import layout, locks, words
from lowwater.lake.answers import Question, answered
from lowwater.lake.keys import Key, differences, is_judged_otherwise
from lowwater.lake.ledgers import coverage, intervals, missing, runs
from lowwater.lake.ledgers.captures import Capture, Captures
from lowwater.lake.packets import PacketFiles
from lowwater.lake.results.publish import require_types
from lowwater.lake.results.published import damages
from lowwater.lake.results.published_rows import PublishedRows, state_words
from lowwater.plan import properties, queryset, temporal
from lowwater.replay import remarks
from lowwater.replay.job import IntervalInputs, Job, TrialChanges, query_files, require_owned
from lowwater.replay.schedule.links import known_sets, set_names
from lowwater.replay.stages.inputs import last_instant

# The state of every interval.


def statuses(
    root: PurePath, queries: Path, tell: Callable[[str, LowwaterError], None] | None = None
) -> list[intervals.StatusRow]:
    """The state of every interval of the query sets of `set_names`. `tell`: called with each query set that cannot be
    planned and the error; None raises the first error."""
    sets = []
    for name in set_names(root, queries):
        try:
            job = Job.open(root, name, queries)
            sets.append(States(job))
            if job.unread is not None and tell is not None:
                tell(name, job.unread)
        except LowwaterError as error:
            if tell is None:
                raise
            tell(name, error)
    lake = layout.lake_to_read(root)
    return with_running(lake, [row for each in sets for row in each.rows()])


class States:
    """The states of all intervals of a query set, but for those that are at work: an answer that stands, or what the
    ledgers say. Raises LowwaterError if it cannot be asked."""

    def __init__(self, job: Job) -> None:
        self._job, self._question = job, Question(job.lake, f"states of {job.query_set}", job.footing)
        if self._question.answer is None:
            with self._question.asking():
                self._expected = expected(job, job.captures())

    def rows(self) -> list[intervals.StatusRow]:
        """The states, by interval and query. Raises LakeError if the lake cannot be read."""
        if self._question.answer is None:
            with self._question.asking():
                replays = runs.read_replays(self._job.lake, self._job.query_set)
                rows = [*intervals.set_status(self._expected, replays)]
            self._question.keep([[getattr(row, name) for row in rows] for name in _COLUMNS])
            return rows
        columns = dict(zip(_COLUMNS, self._question.answer, strict=True))
        columns["lacking"] = map(tuple, columns["lacking"])
        return [intervals.StatusRow(*values) for values in zip(*columns.values(), strict=True)]


_COLUMNS = [each.name for each in fields(intervals.StatusRow)]


def as_they_stand(rows: PublishedRows, queries: Path) -> PublishedRows:
    """Rows with what `status` says of their intervals now, such as stale or incomplete, and why others of that time
    cannot start; with what the ledger said when they were published where their query set cannot be planned.
    `queries`: as for `statuses`."""
    try:
        job = Job.open(rows.lake.root, rows.query_set, queries)
        captures = job.captures()
        told = [str(note) for note in job.plan.notes if note.query == rows.query]
        for query in (each for each in job.plan.queries if each.name == rows.query):
            told += remarks.of_packets(query, captures, rows.start, rows.end)
            told += remarks.of_begin(query, captures, start=rows.start)
            settings = {link: job.config.link(link) for link in job.plan.links}
            with suppress(LakeError):  # packets that are damaged or gone are told by the states below
                told += remarks.of_links_lately(query, rows.lake, captures, settings, rows.start, rows.end)
        replays = runs.read_replays(rows.lake, rows.query_set, (rows.start, rows.end))
        # Also of those that the range cuts, and of those of another length.
        found = [*intervals.set_status(expected(job, captures), replays, wanted=rows.meets)]
        states = with_running(rows.lake, found)
    except LowwaterError:
        return rows
    own = [row for row in states if row.query == rows.query]
    published = [row for row in own if row.rows is not None]
    not_done = [state_words(row.start, row.end, row.shown, row.why) for row in published if row.shown != words.DONE]
    there = intervals.merged((row.start, row.end) for row in published)  # of another length, they may overlap
    unpublished = (row for row in own if row.rows is None and row.lacking)
    waiting = [row for row in unpublished if [*uncovered(there, row.start, row.end)] == [(row.start, row.end)]]
    not_done += [state_words(row.start, row.end, row.shown, row.why) for row in waiting]
    return replace(rows, not_done=tuple(not_done) if published else rows.not_done, told=tuple(told))


def with_running(lake: layout.Lake, rows: Sequence[intervals.StatusRow]) -> list[intervals.StatusRow]:
    """Returns the states of intervals, of which those are `running` on which a process is at work now."""
    held = {name: locks.at_work(lake, name) for name in {row.query_set for row in rows}}
    shown = []
    for row in rows:
        who = who_works(held[row.query_set], row.start, row.end)
        shown.append(replace(row, state=words.RUNNING, reason=who, lacking=()) if who else row)
    return shown


def who_works(held: Mapping[tuple[int, int], str], start: int, end: int) -> str:
    """Which process is at work on [start, end), ns, or a part of it, of the ranges that are held: no other run may
    begin there (S5). Empty if none is."""
    return next((who for (first, last), who in held.items() if first < end and start < last), "")


def expected(job: Job, captures: Mapping[str, Captures]) -> intervals.StatusInputs:
    """Collects what `status` needs to know of a query set, given the captures of its links."""
    queries = {query.name: query for query in job.plan.queries}
    known, past = job.known_missing(captures), runs.Publications(job.lake, job.query_set)
    times = times_of(job, captures)
    longest = max((job.config.link(link).longest_skew for link in job.plan.links), default=0)

    @lru_cache(4)  # an interval asks several times, and for each of its queries
    def inputs(start: int, end: int) -> IntervalInputs:
        return job.inputs(start, end, captures, known, past)

    @lru_cache(4)
    def outdated(start: int, end: int) -> str:
        return "; ".join(inputs(start, end).outdated())

    @lru_cache(4)
    def absent(start: int, end: int) -> Sequence[str]:
        return inputs(start, end).missing_texts()

    def changed(query: str, start: int, end: int, accounting: str) -> str:
        before = documents.stored_object(accounting).get("inputs", {})
        return "; ".join(differences(before, inputs(start, end).key(queries[query]).summary, captures))

    def gaps(start: int, end: int) -> list[str]:
        now = inputs(start, end)
        return coverage.gap_texts(known.beside_damage(now.gaps()), captures, now.why_needed)

    return intervals.StatusInputs(
        job.query_set,
        tuple(queries),
        times,
        digest=lambda query, start, end: inputs(start, end).digest(queries[query]),
        outdated=outdated,
        lacking=lambda start, end: inputs(start, end).lacking(),
        changed=changed,
        lost=lambda query, start, end: inputs(start, end).lost(queries[query]),
        missing=absent,
        accepted=lambda start, end: inputs(start, end).accepted_texts() if known.accepts else (),
        gaps=gaps,
        # Of a year of intervals few end where coverage does.
        unsettled=lambda start, end: inputs(start, end).open() if times.in_gap(end, end + longest) else "",
        removed=lambda start, end: "; ".join(inputs(start, end).removed()) if known.horizons else "",
        damages=lambda query, rows: damages(job.lake, query, rows),
    )


def times_of(job: Job, captures: Mapping[str, Captures]) -> intervals.Timetable:
    """The intervals of a query set, given the captures of its links."""
    rows = {link: Captures.of(captures.get(link, ())) for link in job.plan.links}
    at = max((each.end or 0 for each in rows.values()), default=0) // job.length * job.length
    starts = job.inputs(at, at + job.length, captures).link_starts(job.plan.queries)
    return intervals.timetable(
        rows,
        {link: job.config.link(link) for link in rows},
        job.length,
        missing.occupied_intervals(PacketFiles.of(job.lake), rows, job.config, job.length),
        end_of_rows(job, captures),
        at - min(starts.values(), default=at),
        job.passed,
    )


def end_of_rows(job: Job, captures: Mapping[str, Captures]) -> int:
    """The first instant (ns) after the last possible row of a query set whose links have all ended and are fully
    covered; 0 where a link goes on or its end is unknown."""
    ends = []
    for name in job.plan.links:
        settings = job.config.link(name)
        covered = Captures.of(captures.get(name, ())).end or 0
        if settings.until is None or covered + settings.gap_tolerance < settings.until:
            return 0
        ends.append(settings.until)
    if not ends:
        return 0
    last = max(last_instant(job.config, query, max(ends) - 1) for query in job.plan.queries)
    return last + 1 if last < temporal.END_OF_TIME - 1 else 0


# The work of an interval: packets from file statistics, seconds and bytes from earlier runs.

NEWEST = 200
"""Number of newest runs that the estimate uses."""


@dataclass(frozen=True)
class Estimate:
    """The cost of a run: fixed seconds, seconds for each packet, and bytes stored between the stages."""

    fixed: float | None = None  # seconds of a run without packets; None without earlier runs
    per_packet: float = 0.0  # seconds for each packet
    stored: float | None = None  # bytes for each packet in `lfta/` and `streams/`; None without earlier runs

    def seconds(self, packets: int) -> float | None:
        """The estimated seconds of a run over a number of packets."""
        return None if self.fixed is None else round(self.fixed + self.per_packet * packets, 1)

    def bytes(self, packets: int) -> int | None:
        """The estimated bytes that a run stores between the stages; its temporary files need about as much."""
        return None if self.stored is None else round(self.stored * packets)


@dataclass(frozen=True)
class PacketEstimate:
    """The number of packets that a run reads, exact or estimated."""

    packets: int = 0
    exact: bool = True


def packet_estimate(files: PacketFiles, inputs: IntervalInputs) -> PacketEstimate:
    """Counts the packets that a run reads, from the statistics of the files. One that is read whole counts exactly, as
    nearly all do for intervals of hours; one that is read in part by its share of time, so that the sum is an estimate.
    """
    packets, exact = 0.0, True
    for link, read_from in inputs.link_starts(inputs.plan.queries).items():
        settings = inputs.config.link(link)
        begin = max(read_from, settings.since or 0)
        end = inputs.end if settings.until is None else min(inputs.end, settings.until)
        captures = Captures.of(inputs.captures.get(link, ()))
        for at in captures.meeting(begin, end):
            for row in files.in_force(captures[at]):
                share = _share(row["min.timestamp"], row["max.timestamp"], begin, end)
                packets += share * row["num_records"]
                late = share == 0 and row["min.arrival"] < inputs.end and row["max.arrival"] >= inputs.start
                exact = exact and share in (0, 1) and not late
    return PacketEstimate(round(packets), exact)


def _share(smallest: int, largest: int, start: int, end: int) -> float:
    """The share of the time from `smallest` to `largest`, ns, that lies in [start, end), 0 to 1."""
    span = largest - smallest + 1
    return max(0, min(end, largest + 1) - max(start, smallest)) / span


def estimate(job: Job, captures: Mapping[str, Sequence[Capture]], known: missing.KnownMissing) -> Estimate:
    """Fits a line of least squares through the newest runs; takes the median if their packet counts are too similar."""
    replays = runs.read_replays(job.lake, job.query_set, newest=NEWEST * (1 + 3 * len(job.plan.queries)))
    seconds: dict[tuple[int, int], dict[str, float]] = {}
    sizes: dict[tuple[int, int], dict[tuple[str, str], int]] = {}
    for row in replays:
        if row.state != words.FAILED:
            if (size := documents.stored_object(row.accounting).get("stored")) is not None:
                sizes.setdefault((row.interval_start, row.interval_end), {})[row.stage, row.query] = size
            spent = seconds.setdefault((row.interval_start, row.interval_end), {})
            spent[row.stage] = float(documents.stored_object(row.timings).get(row.stage, spent.get(row.stage, 0.0)))
    newest, files = list(seconds.items())[-NEWEST:], PacketFiles.of(job.lake)
    ran, stored = [], []
    for interval, spent in newest:
        packets = packet_estimate(files, job.inputs(*interval, captures, known)).packets
        if sum(spent.values()):
            ran.append((packets, sum(spent.values())))
        if packets and interval in sizes:
            stored.append(sum(sizes[interval].values()) / packets)
    return replace(_fitted_line(ran), stored=median(stored) if stored else None)


def _fitted_line(ran: Sequence[tuple[int, float]]) -> Estimate:
    if not ran:
        return Estimate()
    typical = median(spent for _, spent in ran)
    mean = sum(packets for packets, _ in ran) / len(ran)
    spread = sum((packets - mean) ** 2 for packets, _ in ran)
    if spread <= (mean / 10) ** 2 * len(ran):  # a tenth about the mean says nothing of what a packet costs
        return Estimate(typical)
    average = sum(spent for _, spent in ran) / len(ran)
    slope = sum((packets - mean) * (spent - average) for packets, spent in ran) / spread
    fixed = average - slope * mean
    return Estimate(typical) if slope <= 0 or fixed < 0 else Estimate(fixed, slope)


# What is due is read from the ledgers and the plans of the queries; nothing runs. `lowwater plan` shows it, and
# `replay.schedule.backfill` runs it.

UNAPPROVED = "held: its audit warned, and a person must approve it"
"""Why an interval does not run that was audited with warnings, where the settings ask for approval."""

_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")

CHANGES = "the state of the interval before changes"
"""Reason of an interval of a chained set that becomes stale when an earlier interval runs."""


@dataclass(frozen=True)
class Due:
    """An interval of a query set that should run, or a stretch of intervals without a record, which runs as one."""

    query_set: str
    start: int
    end: int
    state: str  # one of `words.DUE`; provisional or incomplete if it would be done
    reasons: tuple[str, ...]
    queries: tuple[str, ...]  # queries that are in a due state
    packets: int  # number of packets that the run reads; 0 if it only confirms a publication
    seconds: float | None  # estimated duration, s; None without earlier runs
    # estimated size in `lfta/` and `streams/`, and meanwhile in `_work/`; None without earlier runs
    bytes: int | None = None
    blocked: str = ""  # why the interval cannot start; empty if it can
    exact: bool = True  # whether the packets were counted rather than estimated
    at_edge: bool = False  # whether only the begin or end of captures blocks it, so that `through_end` would run it
    intervals: int = 1  # number of the intervals: more than one in a stretch
    running: str = ""  # which process is at work on it, or on some of it; empty if none is
    word: str = ""  # what `status` calls it: its state, unless it cannot start or is running
    # query -> why it is in this state, where the inputs of its published rows have changed
    causes: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)


def timeless(why: str) -> str:
    """A reason without the instants in it, in which reasons of one kind differ."""
    return _INSTANT.sub("", why)


@dataclass(frozen=True)
class DueSelection:
    """Limits the intervals of a plan: `start` and `end` are bounds of intervals in ns, None for no limit."""

    start: int | None = None
    end: int | None = None
    kinds: tuple[str, ...] = ()

    def holds(self, start: int, end: int) -> bool:
        """Whether an interval lies in the range."""
        return (self.start is None or start >= self.start) and (self.end is None or end <= self.end)

    @property
    def span(self) -> tuple[int, int] | None:
        """The range, ns; None without both bounds."""
        return None if self.start is None or self.end is None else (self.start, self.end)

    def wants(self, state: str) -> bool:
        """Whether intervals of this state are selected; what is held is missing, or stale where it was published."""
        kinds = {words.HALF: {words.MISSING}, words.HELD: {words.MISSING, words.STALE}}.get(state, {state})
        return not self.kinds or not kinds.isdisjoint(self.kinds)


def open_jobs(
    root: PurePath,
    names: Sequence[str],
    queries: Path,
    tell: Callable[[str, LowwaterError], None] | None = None,
    changes: TrialChanges | None = None,
    runs: bool = False,
) -> list[Job]:
    """Opens query sets by name; without names those of `set_names`.
    `tell`: called with each configured set that cannot be planned and the error; None raises the first error. With
    `runs` a set whose suites cannot be read or judged is one of these: nothing of it runs. Otherwise it is told, too.
    Raises ConfigError if there is no such query set, or none at all, and LowwaterError if a named query set cannot be
    planned over the lake, or is the only one and cannot run."""

    def opened(name: str) -> Job:
        job = Job.open(root, name, queries, changes)

        def fits() -> bool:
            if changes is None:  # a trial publishes nothing
                require_owned(job)
            for query in job.plan.queries:
                require_types(job.lake, query.name, query.high.fields)
            return True

        answered(job.lake, f"tables of {name}, {changes is None}", job.footing, fits)
        return job

    def told(jobs: Sequence[Job]) -> list[Job]:
        """Leaves out what cannot run, and tells why."""
        wrong: dict[str, LowwaterError] = {}
        for job in jobs:
            try:
                if runs:
                    job.require_suites()
                elif job.unread is not None:
                    raise job.unread
            except ConfigError as error:
                wrong[job.query_set] = error
        if runs and wrong and (tell is None or len(wrong) == len(jobs)):
            raise next(iter(wrong.values()))
        for name, cause in wrong.items():
            if tell is not None:
                tell(name, cause)
        return [job for job in jobs if not (runs and job.query_set in wrong)]

    if names:
        return told([opened(name) for name in dict.fromkeys(names)])
    configured, _ = known_sets(root, queries)
    jobs: list[Job] = []
    errors: dict[str, LowwaterError] = {}
    for name in sorted(configured or (path.stem for path in queries.glob("*.gsql"))):
        try:
            jobs.append(opened(name))
        except LowwaterError as error:
            errors[name] = error
    if configured and tell is None and errors:
        raise next(iter(errors.values()))
    if not jobs:
        causes = "\n".join(f"query set {name}: {cause}" for name, cause in errors.items())
        hint = f"write [query_sets.NAME] with files = [...] in {documents.FILE_NAME}, or name a folder: --queries"
        if errors:
            config = load_config(root)
            wrong = (name for name, cause in errors.items() if isinstance(cause, QueryError))
            files = " ".join(shlex.quote(str(file)) for name in wrong for file in query_files(config, name, queries))
            hint = f"`lowwater check {files} --lake {shlex.quote(str(root))}` checks them again" if files else ""
        raise ConfigError(causes or f"there is no query set: neither in the settings nor in {queries}", hint)
    if configured and tell is not None:  # of a folder nobody is told: examples read links that this lake does not have
        for name, cause in errors.items():
            tell(name, cause)
    return told(jobs)


def due(job: Job, selection: DueSelection, kept: list[intervals.StatusRow] | None = None) -> list[Due]:
    """The intervals of a query set that are due, oldest first. In a chained set, published ones become stale when an
    earlier one runs, whose digest is an input of each (I4): they are included. `kept` gets the states of those that no
    run can reach (S11).
    Raises ConfigError if the range does not bound whole intervals."""
    _check_bounds(job, selection)
    # Most often nothing is due, which is remembered; whatever is due changes when it runs.
    about = f"{job.footing} {selection.start} {selection.end}"
    asked = selection.start is None, selection.end is None
    nothing = Question(job.lake, f"nothing due of {job.query_set}, {asked}", about)
    if nothing.answer:
        return []
    unreached: list[intervals.StatusRow] = []
    with nothing.asking():
        found = _due_now(job, selection, unreached)
    if kept is not None:
        kept += unreached
    if not (found or unreached or selection.kinds):
        nothing.keep(True)
    return found


def _due_now(job: Job, selection: DueSelection, kept: list[intervals.StatusRow]) -> list[Due]:
    captures = job.captures()
    groups: dict[tuple[int, int], list[intervals.StatusRow]] = defaultdict(list)
    replays = runs.read_replays(job.lake, job.query_set, selection.span)

    def wanted(start: int, end: int) -> bool:
        return selection.holds(start, end) and start % job.length == end % job.length == 0

    for row in intervals.set_status(expected(job, captures), replays, selection.start, selection.end, wanted):
        groups[row.start, row.end].append(row)
        if row.state == words.KEPT:
            kept.append(row)
    due_intervals: list[Due] = []
    chain = _Chain([query for query in job.plan.queries if properties.hands_over(query.high)])
    files, known = PacketFiles.of(job.lake), job.known_missing(captures)
    guess = cache(lambda: estimate(job, captures, known))
    held, past = locks.at_work(job.lake, job.query_set), runs.Publications(job.lake, job.query_set)
    behind = ""
    for (start, end), rows in sorted(groups.items()):
        inputs = job.inputs(start, end, captures, known, past)
        interval = _due(inputs, chain.rows_then(inputs, rows), guess, files)
        if interval is not None and interval.state == words.HELD and not interval.blocked and job.approval:
            mine = [row for row in replays if (row.interval_start, row.interval_end) == (start, end)]
            if intervals.awaited(mine) and not intervals.consented(mine):
                interval = replace(interval, blocked=UNAPPROVED)
        if interval is not None and interval.state == words.DAMAGED and not interval.blocked:
            damaged = {row.query for row in rows if row.state == words.DAMAGED}
            interval = replace(interval, blocked=inputs.refused(damaged))
        if interval is not None and selection.wants(interval.state):
            if behind and not interval.blocked:
                interval = replace(interval, blocked=behind)
            elif interval.blocked and job.chained and not behind and not inputs.removed():
                behind = f"an earlier interval of its chain cannot, that of {instants.format_instant(start)}"
            who = who_works(held, start, end)
            due_intervals.append(replace(interval, running=who, word=words.RUNNING if who else interval.word))
            if not inputs.removed():  # its state is what it is: what follows goes on from it
                chain.runs(inputs, interval)
    return due_intervals


@dataclass
class _Chain:
    """Predicts which intervals of a chained set become stale when earlier ones run (I4); used in order of time."""

    queries: Sequence[queryset.QueryPlan]  # queries that hand a state over
    # (query, instant) of states that will change, because the interval that ends there is published again
    anew: set[tuple[str, int]] = field(default_factory=set)
    halted: bool = False  # whether an interval cannot start, so that no later one runs

    def rows_then(self, inputs: IntervalInputs, rows: Sequence[intervals.StatusRow]) -> list[intervals.StatusRow]:
        """The states of an interval's queries after the earlier intervals have run."""
        queries = self._taken_up_anew(inputs)
        if not any(row.query in queries and row.state in words.VISIBLE for row in rows):
            return list(rows)
        lacking = tuple(inputs.lacking())
        return [
            replace(row, state=words.STALE, reason=CHANGES, lacking=lacking)
            if row.query in queries and row.state in words.VISIBLE
            else row
            for row in rows
        ]

    def runs(self, inputs: IntervalInputs, due: Due) -> None:
        self.halted = self.halted or bool(due.blocked)
        if self.halted:
            return
        changed = self._taken_up_anew(inputs)
        for query in self.queries:
            if query.name in changed or not inputs.published(query):
                self.anew.add((query.name, inputs.end))

    def _taken_up_anew(self, inputs: IntervalInputs) -> set[str]:
        queries = (query for query in self.queries if (query.name, inputs.start) in self.anew)
        return {query.name for query in queries if inputs.takes_up(query)}


def outdated_audits(job: Job, selection: DueSelection) -> list[tuple[int, int]]:
    """The intervals whose newest audit used other custom suites or limits than the present ones, oldest first. They are
    not due, since neither changes a row. None where the present suites cannot be read."""
    if job.unread is not None:
        return []
    present = {query.name: job.audit_key(query.name, "") for query in job.plan.queries}
    about = f"{job.footing} {present} {selection}"
    found: list[tuple[int, int]] = answered(
        job.lake, f"audits of {job.query_set}", about, lambda: _judged_otherwise(job, present, selection)
    )
    return found


def _judged_otherwise(job: Job, present: Mapping[str, Key], selection: DueSelection) -> list[tuple[int, int]]:
    newest: dict[tuple[int, int], dict[str, dict[str, Any]]] = {}
    for row in runs.read_replays(job.lake, job.query_set, stage=runs.AUDIT):
        judged = newest.setdefault((row.interval_start, row.interval_end), {})
        if row.state == words.FAILED:
            judged.clear()  # it is due
        else:
            judged[row.query] = documents.stored_object(row.accounting)
    return sorted(
        (start, end)
        for (start, end), judged in newest.items()
        if end - start == job.length  # others cannot be audited again by themselves
        if selection.holds(start, end)
        if any(query in judged and is_judged_otherwise(judged[query], now) for query, now in present.items())
    )


def _check_bounds(job: Job, selection: DueSelection) -> None:
    if selection.start is not None and selection.end is not None:
        job.require_bounds(selection.start, selection.end)
    for bound in (selection.start, selection.end):
        if bound is not None and bound % job.length:
            job.require_bounds(bound, bound + job.length)


def _due(
    inputs: IntervalInputs, rows: Sequence[intervals.StatusRow], guess: Callable[[], Estimate], files: PacketFiles
) -> Due | None:
    first = intervals.gravest(rows)
    state = first.state
    if state not in words.DUE or (state in words.TO_CONFIRM and inputs.state(inputs.gaps())[0] != words.DONE):
        return None
    mine = [
        row for row in rows if row.state in words.DUE and (row.state != words.INCOMPLETE or state == words.INCOMPLETE)
    ]
    texts = {
        words.PROVISIONAL: "every link has reported to its end and the skew since",
        words.INCOMPLETE: intervals.NOTHING_MISSING,
    }
    lines = [line for row in mine if row.state == state for line in row.reason.split("; ")]
    reasons = (texts[state],) if state in texts else tuple(dict.fromkeys(lines))
    gaps = [gap for gap in inputs.gaps() if not inputs.passes(gap)] if first.lacking else []
    others = inputs.outdated() or inputs.rolled_back()
    edge = bool(gaps) and not others and all(inputs.at_edge(gap) for gap in gaps)
    reads = PacketEstimate() if state in words.TO_CONFIRM else packet_estimate(files, inputs)
    seconds = 0.0 if state in words.TO_CONFIRM else guess().seconds(reads.packets)
    return Due(
        inputs.query_set,
        inputs.start,
        inputs.end,
        state,
        reasons,
        tuple(row.query for row in mine),
        reads.packets,
        seconds,
        guess().bytes(reads.packets),
        "; ".join(first.lacking),
        reads.exact,
        edge,
        first.intervals,
        word=first.shown,
        causes={row.query: tuple(row.reason.split("; ")) for row in mine if row.state == state == words.STALE},
    )
