"""Looks: what of the last days a query set lacks, what of it can run now, and why the rest cannot; once or again and
again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path, PurePath
from typing import NamedTuple

from lowwater.config import Config, load_config
from lowwater.documents import FILE_NAME, stored_object
from lowwater.errors import AwayError, LakeError, LowwaterError
from lowwater.high.runner import Runner
from lowwater.instants import SECOND, format_instant, range_words
from lowwater.lake import clocks, layout, query_sets, words
from lowwater.lake.answers import answered, make_ledgers
from lowwater.lake.ingestion.arrivals import Found, Watch, not_refused
from lowwater.lake.ingestion.folders import look as look_into_folders
from lowwater.lake.ingestion.settled import Folders, lying
from lowwater.lake.ledgers import files
from lowwater.lake.ledgers.captures import Captures
from lowwater.lake.ledgers.intervals import gravest, merged, set_status, without
from lowwater.lake.ledgers.runs import ReplayRow, read_replays, tell_untold
from lowwater.lake.tables import grouped
from lowwater.lake.words import FAILED
from lowwater.replay.interval import Outcome
from lowwater.replay.job import Job
from lowwater.replay.progress import Progress
from lowwater.replay.schedule import ingesting, links
from lowwater.replay.schedule.backfill import BackfillListener, IntervalResult, Order, backfill
from lowwater.replay.schedule.due import UNAPPROVED, Due, DueSelection, due, expected, open_jobs, timeless
from lowwater.replay.stages.runners import runner_of
from lowwater.storage import paths
from lowwater.storage.failures import outages

# The clock of a schedule says when to look, not what to look at. Each look reads the ledgers anew and remembers next
# to nothing, so it does not matter how many were missed, who looks, or what became of the one before. `lowwater
# watch` and the DAGs `keep_*` of Airflow run what it finds.

SHORTEST_PAUSE = 60 * SECOND
"""Pause after the first failure, ns; each further one doubles it."""

BEHIND = "an earlier interval of its chain comes first: "
"""Begin of the reason why a later interval of a chained set does not run."""


@dataclass(frozen=True)
class Left:
    """An interval, or a stretch without records, that is not run in this look."""

    due: Due
    why: str
    news: bool = False  # whether nobody was told yet that it cannot start. That a run failed was told by the run.

    @property
    def failed(self) -> bool:
        """Whether its last run failed, and the inputs are still those; otherwise it cannot start."""
        return not self.due.blocked and self.due.state == FAILED


@dataclass(frozen=True)
class Findings:
    """What a look at a query set has found."""

    query_set: str
    runs: tuple[Due, ...]  # the intervals to run, in the order in which they begin
    # intervals that a later look takes up by itself: their links may still report, another process is at work on them,
    # what failed pauses, or a person must approve them
    waits: tuple[Left, ...]
    # intervals that only another capture, or a person, can change: they cannot start, or failed on these inputs
    stuck: tuple[Left, ...]


def look(job: Job, now: int, by: str = "") -> Findings:
    """Looks at a query set, and keeps in the lake when that was. What it finds is news until `keep_told`; with the name
    of a look, `by`, so is what that told before somebody tried it again.
    Raises LakeError if a ledger cannot be read, or the look cannot be kept."""
    job.prepare()
    tell_untold(job.lake)
    now = clocks.present(job.lake, now)
    before = query_sets.last_look(job.lake.root, job.query_set)
    job = replace(job, passed=now)  # not the latest ever: a clock that was years ahead is right again
    found = _Look(job, now).findings()
    told = [each for each in before.told if not by or each.by != by]
    stuck = [news for left in found.stuck for news in ([left] if left.failed else _news(left, told))]
    waits = _on_their_way(job, now, stuck) if any(left.news for left in stuck) else []
    stuck = [left for left in stuck if not any(left.due is other.due for other in waits)]
    old = (left for left in stuck if not (left.news or left.failed))
    query_sets.store_look(job.lake.root, job.query_set, query_sets.LastLook(now, tuple(_told(old))))
    waiting = sorted((*found.waits, *waits), key=lambda left: left.due.start)
    return replace(found, stuck=tuple(stuck), waits=tuple(waiting))


def asked(job: Job, start: int, end: int, now: int, kinds: Sequence[str] = ()) -> Findings:
    """What of a range [start, end), ns, runs, waits or is stuck at this moment, for a task that a look has made for it
    and that runs now, perhaps days later; nothing of what a run would leave as it is. What has failed runs: whoever
    clears a task asks for that. `kinds`: only what is in one of these states; empty for all.
    Raises ConfigError if the range does not bound whole intervals, and LakeError if a ledger cannot be read."""
    now = clocks.present(job.lake, now)
    job = replace(job, passed=now)
    found = _Look(job, now, (start, end), kinds).findings()
    stuck = [replace(left, news=True) for left in found.stuck]
    lie = _on_their_way(job, now, stuck) if stuck else []
    for at, left in enumerate(stuck):  # no look tells of it again, so it is told with what will change it
        stuck[at] = replace(left, why="; ".join([left.why, *(each.why for each in lie if each.due is left.due)]))
    return replace(found, stuck=tuple(stuck))


def waiting(job: Job, now: int) -> tuple[Left, ...]:
    """Returns what a look at a query set would leave to a later one; nothing is kept of it.
    Raises LakeError if a ledger cannot be read."""
    return _Look(replace(job, passed=now), now).findings().waits


def state_now(job: Job, start: int, end: int, now: int) -> tuple[str, str]:
    """The state of a range [start, end), ns, that no run would change, and the reason: of its gravest interval."""
    expects = expected(replace(job, passed=now), job.captures())
    rows = list(set_status(expects, read_replays(job.lake, job.query_set, (start, end)), start, end))
    worst = gravest(rows) if rows else None
    return (worst.shown, worst.why) if worst else ("not expected", "nothing is recorded there, and nothing is expected")


class Fate(NamedTuple):
    """What has become of intervals that follow one another and are alike."""

    start: int
    end: int
    intervals: int
    state: str  # as `status` shows it
    why: str  # of the first of them

    @property
    def title(self) -> str:
        return range_words(self.start, self.end, self.intervals)


def fates(job: Job, start: int, end: int, now: int) -> list[Fate]:
    """What has become of each interval of a range [start, end), ns; those that follow one another and are done, or in
    another state for the same reason, are told together."""
    expects = expected(replace(job, passed=clocks.present(job.lake, now)), job.captures())
    rows = set_status(expects, read_replays(job.lake, job.query_set, (start, end)), start, end)
    found = list[Fate]()
    for (begin, until), mine in groupby(
        sorted(rows, key=lambda row: (row.start, row.end)), lambda row: (row.start, row.end)
    ):
        worst = gravest(mine)
        fate = Fate(begin, until, worst.intervals, worst.shown, worst.why)
        last = found[-1] if found else None
        if last and last.end == begin and last.state == fate.state and timeless(last.why) == timeless(fate.why):
            found[-1] = last._replace(end=until, intervals=last.intervals + fate.intervals)
        else:
            found.append(fate)
    return found


def keep_told(root: PurePath, query_set: str, told: Iterable[Left], by: str = "") -> None:
    """Keeps what was told of a look, so that it is no news for the next one. Whoever tells calls it afterwards: a look
    of which nobody hears was not there.
    Raises LakeError if it cannot be kept."""
    if more := tuple(_told(told, by)):
        before = query_sets.last_look(root, query_set)
        query_sets.store_look(root, query_set, replace(before, told=(*before.told, *more)))


def _told(stuck: Iterable[Left], by: str = "") -> Iterator[query_sets.Told]:
    return (query_sets.Told(left.due.start, left.due.end, left.why, by) for left in stuck)


def _on_their_way(job: Job, now: int, stuck: Iterable[Left]) -> list[Left]:
    """The news among what is stuck that files change which lie there for the next ingest: after a pause, it begins
    together with the look."""
    # Imported only here: most looks have no news.
    from lowwater.lake.files.patterns import declared_coverage

    lie = [
        (link, path.name, declared_coverage(job.config.link(link), path) or (0, now))
        for link, path in lying(job.lake, job.config, job.plan.links, now)
    ]
    waits = []
    for left in stuck:
        first = next((each for each in lie if each[2][0] < left.due.end and left.due.start < each[2][1]), None)
        if left.news and left.due.blocked and first is not None:
            waits.append(Left(left.due, f"link {first[0]!r}: {first[1]} lies there, and is not ingested yet"))
    return waits


def _news(left: Left, told: Iterable[query_sets.Told]) -> list[Left]:
    """Divides what is stuck into the part that was told before and the part that was not."""
    due, why = left.due, timeless(left.why)  # instants move with each look
    same = [each for each in told if timeless(each.why) == why]
    if due.intervals == 1:
        return [replace(left, news=not any(each.start <= due.start and due.end <= each.end for each in same))]
    known = merged((max(each.start, due.start), min(each.end, due.end)) for each in same)
    length = (due.end - due.start) // due.intervals
    parts = [(span, True) for span in without([(due.start, due.end)], known)] + [(span, False) for span in known]
    return [
        replace(left, due=replace(due, start=start, end=end, intervals=(end - start) // length), news=news)
        for (start, end), news in sorted(parts)
    ]


class _Look:
    """One look at a query set, or at a range of it of which somebody asks."""

    def __init__(self, job: Job, now: int, span: tuple[int, int] | None = None, kinds: Sequence[str] = ()) -> None:
        self._job, self._now, self._span, self._kinds = job, now, span, tuple(kinds)
        schedule, length = job.config.schedule, job.length
        self._begin = max(0, now - schedule.look_back) // length * length
        self._settled = max(0, now - job.config.replay.patience)

    @cached_property
    def _captures(self) -> dict[str, Captures]:
        return self._job.captures()

    @cached_property
    def _rows(self) -> dict[tuple[int, int], list[ReplayRow]]:
        """The rows of the ledger about the last days."""
        span = self._begin, max(self._now, self._begin + 1) + self._job.length
        return grouped((row.interval, row) for row in read_replays(self._job.lake, self._job.query_set, span))

    def findings(self) -> Findings:
        runs: list[Due] = []
        waits: list[Left] = []
        stuck: list[Left] = []
        broken = ""  # why a chain does not go on
        for interval in self._due():
            why, lasting = self._hindrance(interval, first=not runs)
            if broken:
                waits.append(Left(interval, BEHIND + broken))
            elif why:
                (stuck if lasting else waits).append(Left(interval, why))
                if self._job.chained:
                    broken = range_words(interval.start, interval.end, interval.intervals)
            else:
                runs.append(interval)
        return Findings(self._job.query_set, tuple(runs), tuple(waits), tuple(stuck))

    def _due(self) -> Iterable[Due]:
        """The due intervals of the last days, or of the range; a stretch is divided where the patience with its links
        ends."""
        if self._span is not None:
            yield from due(self._job, DueSelection(*self._span, self._kinds))
            return
        length = self._job.length
        edge = self._settled // length * length
        for interval in due(self._job, DueSelection(self._begin, None)):
            if interval.end > self._now and interval.blocked:
                if interval.intervals > 1 and (over := self._now // length * length) > interval.start:
                    yield _part(interval, interval.start, over, length)
                continue  # it is not over yet
            if interval.intervals > 1 and interval.start < edge < interval.end:
                yield _part(interval, interval.start, edge, length)
                yield _part(interval, edge, interval.end, length)
            else:
                yield interval

    def _hindrance(self, interval: Due, first: bool) -> tuple[str, bool]:
        """Why an interval does not run now, or nothing; and whether no later look changes that by itself."""
        asked = self._span is not None
        if interval.running and not asked:  # else its lock says so, and is waited for
            return interval.running, False
        if interval.end > self._settled:
            ready = links.link_readiness(self._job, interval.start, interval.end, patient=True)
            if ready.missing:
                until = format_instant(interval.end + self._job.config.replay.patience)
                return f"its links may report until {until}: {'; '.join(ready.missing)}", False
        if interval.blocked:
            return interval.blocked, interval.blocked != UNAPPROVED
        rows = self._rows.get((interval.start, interval.end), [])
        if rows and interval.state == FAILED and not asked and (reason := self._pause(interval, rows)) is not None:
            return reason
        if first and self._job.chained:
            lacks = _lacks_state(self._job, interval.start, interval.end, self._captures)
            return lacks, bool(lacks) and not (asked and self._is_behind(interval.start))
        return "", False

    def _is_behind(self, start: int) -> bool:
        """Whether an interval of the last days before an instant is due, so that a look runs it, or tells of it."""
        return self._begin < start and bool(due(self._job, DueSelection(self._begin, start)))

    def _pause(self, interval: Due, rows: Sequence[ReplayRow]) -> tuple[str, bool] | None:
        """Why what failed is not tried again yet; None if it is: after a pause that grows, or once its inputs changed.
        What the same inputs would do again is not tried on them."""
        failed = [row for row in rows if row.state == FAILED]
        last = failed[-1]
        account = stored_object(last.accounting)
        inputs = self._job.inputs(interval.start, interval.end, self._captures)
        digests = {query.name: inputs.digest(query) for query in self._job.plan.queries}
        if account.get("tried") not in (self._job.attempted(inputs.tried(digests)), self._job.attempted({})):
            return None
        cause = last.reason.partition("\n")[0]
        if account.get("repeats"):
            until = "once its inputs, suites, limits, what is accepted or Lowwater change"
            return f"failed: {last.stage}: {cause}; it is tried again {until}", True
        tries = sum(stored_object(row.accounting).get("tried") == account.get("tried") for row in failed)
        pause = min(SHORTEST_PAUSE << min(tries - 1, 40), self._job.config.schedule.longest_pause)
        if self._now >= last.finished_at + pause or last.finished_at > self._now:
            return None
        return f"failed: {last.stage}: {cause}; it is tried again at {format_instant(last.finished_at + pause)}", False


def edited(job: Job, start: int, end: int, edition: str) -> Outcome | None:
    """The outcome of an interval that a look has found by another `edition` of queries and settings than the present
    one; None for the same. All intervals of a look run by one edition: an edit takes effect at the next look."""
    why = "its queries, suites or settings were edited after the look: the next look runs it"
    return Outcome(start, end, words.WAITING, why, {}, False) if job.edition != edition else None


def waits_for(job: Job, start: int, end: int) -> Outcome | None:
    """The outcome of an interval of a chained set that does not run, since the one before it is not published."""
    lacks = _lacks_state(job, start, end, job.captures()) if job.chained else ""
    return Outcome(start, end, words.WAITING, lacks, {}, False) if lacks else None


def _lacks_state(job: Job, start: int, end: int, captures: Mapping[str, Captures]) -> str:
    """Why an interval cannot continue from the one before it; empty where it can."""
    try:
        job.inputs(start, end, captures).require_states()
    except LakeError as error:
        return error.message
    return ""


def _part(interval: Due, start: int, end: int, length: int) -> Due:
    return replace(interval, start=start, end=end, intervals=max(1, (end - start) // length))


# Again and again, for `lowwater watch`: ingests what is new, then runs what a look finds due, set by set. The clock
# is an argument: the tests let months pass.

MOST = 100
"""Most intervals of a query set that run in one look; the next one takes up the rest, after it has ingested."""


@dataclass(frozen=True)
class LookResult:
    """What a look did."""

    refusals: tuple[ingesting.Refusal, ...] = ()
    found: tuple[Findings, ...] = ()
    results: tuple[IntervalResult, ...] = ()
    unplanned: dict[str, LowwaterError] = field(default_factory=dict)  # query set that cannot be planned -> its error
    # an error of the disk, of Spark or of another process, which ended the look or a part of it
    hindered: LowwaterError | None = None
    more: bool = False  # whether more can run at once
    # link -> what is wrong with its settings, so that its files wait
    faults: dict[str, str] = field(default_factory=dict)

    @property
    def sound(self) -> bool:
        """Whether nothing failed, and nothing was refused, or found for the first time that cannot start."""
        news = any(left.news for found in self.found for left in found.stuck)
        failed = any(result.state == FAILED for result in self.results)
        return not (self.refusals or self.unplanned or self.faults or self.hindered or news or failed)


class Looker:
    """Looks at query sets of a lake; without names at those of the settings. `alone`: whether each look is the only one
    of its process, which then remembers no refused file; `settle`: time without a write after which a file is complete,
    ns."""

    def __init__(
        self,
        root: PurePath,
        names: Sequence[str],
        queries: Path,
        tell: Callable[[str, bool], None],
        listener: BackfillListener | None = None,
        workers: int = 1,
        spark: str | None = None,
        stopped: Callable[[], bool] = lambda: False,
        clock: Callable[[], int] = time.time_ns,
        alone: bool = False,
        settle: int = 10 * SECOND,
    ) -> None:
        self._root, self._names, self._queries = root, names, queries
        self._tell, self._listener, self._workers, self._spark = tell, listener, workers, spark
        self._stopped, self._clock, self._alone = stopped, clock, alone
        self._lake = layout.lake_to_read(root)
        make_ledgers(self._lake)

        def passed() -> int:
            return clocks.present(self._lake, clock())

        watch = Watch(self._lake, settle, clock=passed)
        self._ingesting = ingesting.Ingesting(self._lake, watch, tell, stopped, passed, spark)
        self._doubts: list[str] = []
        self._runner: tuple[object, Runner] | None = None
        self._unread: list[str] = []
        self._had_settings = False

    def look(self) -> LookResult:
        """Looks once.
        Raises ConfigError if the settings are wrong, and KeyboardInterrupt if the user interrupted it; running
        intervals were finished first."""
        try:
            with outages():
                return self._look(self._settings())
        except LakeError as error:  # a full disk, a store that is away, another process
            self._ingesting.complain(error)
            return LookResult(hindered=error)

    def _settings(self) -> Config:
        """Reads the settings. Raises AwayError where they were there and are gone: by those of a lake without any it
        would publish everything anew."""
        config, there = load_config(self._root), paths.has_file(self._root / FILE_NAME)
        if self._had_settings and not there:
            layout.lake_to_read(self._root)
            raise AwayError(f"{self._root / FILE_NAME}: was there, and is gone", "put it back, or start the watch anew")
        self._had_settings = there
        return config

    def _look(self, config: Config) -> LookResult:
        self.ingest(config)
        doubts = clocks.doubts(self._lake, time.time_ns())
        for line in doubts:
            if line not in self._doubts:
                self._tell(line, True)
        self._doubts = doubts
        unplanned: dict[str, LowwaterError] = {}
        jobs = open_jobs(self._root, self._names, self._queries, unplanned.__setitem__, runs=True)
        found = tuple(look(job, self._clock()) for job in jobs)
        work = [each for one in found for each in one.runs[:MOST]]
        results: list[IntervalResult] = []
        if work and not self._stopped():
            runner = self._runner_of(config)
            results = backfill(jobs, work, self._workers, Order.OLDEST, self._listener, runner)
        more = any(len(one.runs) > MOST for one in found)
        refusals = tuple(self._ingesting.refusals)
        hindered, faults = self._ingesting.hindered, self._ingesting.faults
        return LookResult(refusals, found, tuple(results), unplanned, hindered, more, faults)

    def ingest(self, config: Config) -> ingesting.Ingesting:
        """Ingests every file that is new, or has changed, and is complete, whichever interval it is of."""
        if any(link.patterns for link in config.links.values()):
            folders, found, watch = Folders(self._lake, config, self._clock()), list[Found](), self._ingesting.watch
            settled = folders.settled is not None if self._alone else folders.whole
            if not settled:
                with folders.asking():
                    found = watch.look(config)
                    found = not_refused(self._lake, config, found) if self._alone else found
            busy = self._ingesting.take(found, config)
            if not settled:
                with folders.asking():
                    written = look_into_folders(self._lake, config, self._clock)
                folders.keep(watch.found, found, written)
            about = repr((config, config.ended))
            lines = answered(
                self._lake, "unread, of a watch", about, lambda: files.unread_lines(self._lake, config, hint=False)
            )
            for line in lines if busy or lines != self._unread else ():
                if line not in self._unread:
                    self._tell(line, True)
            self._unread = lines
        return self._ingesting

    def _runner_of(self, config: Config) -> Runner:
        wanted = config.spark, config.replay
        if self._runner is None or self._runner[0] != wanted:
            self._runner = wanted, runner_of("lowwater watch", config, Progress(quiet=True), self._spark)
        return self._runner[1]


def pause_after(hindered: int, config: Config) -> int:
    """The time to the next look, ns, after so many in a row that the disk or another process hindered."""
    every = config.schedule.every
    return every if not hindered else max(every, min(every << min(hindered, 40), config.schedule.longest_pause))


# Does a run that somebody has asked for leave its interval alone? It is in no state that was asked for, or its links
# may still report.


def left_alone(job: Job, start: int, end: int, deadline: float, only: Sequence[str]) -> Outcome | None:
    """The outcome of an interval that does not run; None if it may. After the instant `deadline`, s of the wall clock,
    only links of policy `wait` are waited for; `only` are states in which it runs, empty for all.
    Raises ConfigError if it is no interval of the query set, and GapError if a link of it will not report."""
    job.require_bounds(start, end)
    if only and not due(job, DueSelection(start, end, tuple(only))):
        return Outcome(start, end, query_sets.SKIPPED, f"skipped: the interval is not {' or '.join(only)}", {}, False)
    ready = links.link_readiness(job, start, end, time.time() < deadline)
    if ready.failure is not None:
        raise ready.failure
    if ready.missing:
        return Outcome(start, end, query_sets.UNREPORTED, "; ".join(ready.missing), {}, False)
    return None
