"""A look: what of the last days a query set lacks, what of it can run now, and why the rest cannot.

The clock of a schedule says when to look, not what to look at. Each look reads the ledgers anew and remembers next to
nothing, so it does not matter how many were missed, who looks, or what became of the one before. `lowwater watch` and
the DAGs `keep_*` of Airflow run what it finds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lowwater.documents import stored_object
from lowwater.errors import LakeError
from lowwater.instants import SECOND, format_instant
from lowwater.lake.kinds import WAITING
from lowwater.lake.ledgers import untold
from lowwater.lake.ledgers.captures import Captures
from lowwater.lake.ledgers.interval_states import HELD
from lowwater.lake.ledgers.runs import AUDIT, FAILED, ReplayRow, read_replays
from lowwater.lake.ledgers.timetable import merged, range_words, without
from lowwater.lake.looks import LastLook, Told, last_look, store_look
from lowwater.link_names import family_of
from lowwater.replay.consent import WARNED, consented
from lowwater.replay.interval import Outcome
from lowwater.replay.job import Job
from lowwater.replay.schedule.due import Due, DueSelection, due
from lowwater.replay.schedule.link_readiness import link_readiness

SHORTEST_PAUSE = 60 * SECOND
"""Pause after the first failure, ns; each further one doubles it."""

BEHIND = "an earlier interval of its chain comes first: "
"""Begin of the reason why a later interval of a chained set does not run."""


@dataclass(frozen=True)
class Left:
    """An interval, or a stretch without records, that is not run in this look.

    Attributes:
        due: the interval.
        why: why it is not run.
        news: whether that is told for the first time: it cannot start, and the look before did not say so.
    """

    due: Due
    why: str
    news: bool = False


@dataclass(frozen=True)
class Findings:
    """What a look at a query set has found.

    Attributes:
        query_set: name of the query set.
        runs: the intervals to run, in the order in which they begin.
        waits: intervals that a later look takes up by itself: their links may still report, another process is at work
            on them, what failed pauses, or a person must approve them.
        stuck: intervals that only another capture, or a person, can change: they cannot start, or failed on these
            inputs.
    """

    query_set: str
    runs: tuple[Due, ...]
    waits: tuple[Left, ...]
    stuck: tuple[Left, ...]


def look(job: Job, now: int) -> Findings:
    """Looks at a query set, and keeps in the lake when that was and what it told.

    Args:
        job: the query set.
        now: current time, ns since the epoch.

    Raises:
        LakeError: a ledger cannot be read, or the look cannot be kept.
    """
    job.prepare()
    untold.tell(job.lake)
    before = last_look(job.lake.root, job.query_set)
    job = replace(job, passed=max(now, before.at))
    found = _Look(job, now).findings()
    stuck = [news for left in found.stuck for news in _news(left, before.told)]
    waits = _on_their_way(job, now, stuck) if any(left.news for left in stuck) else []
    stuck = [left for left in stuck if not any(left.due is other.due for other in waits)]
    store_look(job.lake.root, job.query_set, LastLook(job.passed, tuple(_told(stuck))))
    return replace(
        found, stuck=tuple(stuck), waits=tuple(sorted((*found.waits, *waits), key=lambda left: left.due.start))
    )


def _told(stuck: Iterable[Left]) -> Iterator[Told]:
    return (Told(left.due.start, left.due.end, left.why) for left in stuck)


def _on_their_way(job: Job, now: int, stuck: Iterable[Left]) -> list[Left]:
    """The news among what is stuck that files change which lie there for the next ingest: after a pause, it begins
    together with the look."""
    # Imported only here: most looks have no news.
    from lowwater.lake.files.rotation import declared_coverage
    from lowwater.lake.ingestion.watching import Watch
    from lowwater.replay.schedule.ingesting import not_refused

    families = {family_of(link) for link in job.plan.links}
    names = [name for name, link in job.config.links.items() if family_of(name) in families and link.captures]
    watches = [Watch(job.lake, 0, link=name, clock=lambda: now) for name in names]
    found = not_refused(job.lake, [each for watch in watches for each in watch.look(job.config)])
    lie = [
        (each.link, path.name, declared_coverage(job.config.link(each.link), path) or (0, now))
        for each in found
        for path, _ in each.complete
    ]
    waits = []
    for left in stuck:
        first = next((each for each in lie if each[2][0] < left.due.end and left.due.start < each[2][1]), None)
        if left.news and left.due.blocked and first is not None:
            waits.append(Left(left.due, f"link {first[0]!r}: {first[1]} lies there, and is not ingested yet"))
    return waits


def _news(left: Left, told: Iterable[Told]) -> list[Left]:
    """Divides what is stuck into the part that was told before and the part that was not."""
    due = left.due
    if due.intervals == 1:
        same = any(each.start <= due.start and due.end <= each.end and _alike(each.why, left.why) for each in told)
        return [replace(left, news=not same)]
    known = merged((max(each.start, due.start), min(each.end, due.end)) for each in told)
    length = (due.end - due.start) // due.intervals
    parts = [(span, True) for span in without([(due.start, due.end)], known)] + [(span, False) for span in known]
    return [
        replace(left, due=replace(due, start=start, end=end, intervals=(end - start) // length), news=news)
        for (start, end), news in sorted(parts)
    ]


def _alike(told: str, why: str) -> bool:
    """Whether two reasons are the same but for instants, which move with each look."""
    return told.translate(_DIGITS) == why.translate(_DIGITS)


_DIGITS = str.maketrans("", "", "0123456789")


class _Look:
    """One look at a query set.

    Args:
        job: the query set, with the intervals that have passed by now.
        now: current time, ns since the epoch.
    """

    def __init__(self, job: Job, now: int) -> None:
        self._job, self._now = job, now
        self._captures = job.captures()
        schedule, length = job.config.schedule, job.length
        self._begin = max(0, now - schedule.look_back) // length * length
        self._settled = max(0, now - job.config.replay.patience)
        self._rows: dict[tuple[int, int], list[ReplayRow]] = {}
        for row in read_replays(job.lake, job.query_set, (self._begin, max(now, self._begin + 1) + length)):
            self._rows.setdefault((row.interval_start, row.interval_end), []).append(row)

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
                broken = self._chained(interval)
            else:
                runs.append(interval)
        return Findings(self._job.query_set, tuple(runs), tuple(waits), tuple(stuck))

    def _chained(self, interval: Due) -> str:
        return range_words(interval.start, interval.end, interval.intervals) if self._job.chained else ""

    def _due(self) -> Iterable[Due]:
        """The due intervals of the last days; a stretch is divided where the patience with its links ends."""
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
        if interval.running:
            return interval.running, False
        if interval.end > self._settled:
            ready = link_readiness(self._job, interval.start, interval.end, patient=True)
            if ready.missing:
                until = format_instant(interval.end + self._job.config.replay.patience)
                return f"its links may report until {until}: {'; '.join(ready.missing)}", False
        if interval.blocked:
            return interval.blocked, True
        rows = self._rows.get((interval.start, interval.end), [])
        if rows and interval.state == FAILED and (reason := self._pause(interval, rows)) is not None:
            return reason
        if interval.state == HELD and self._job.approval and _verdict(rows) == WARNED and not consented(rows):
            return "held: its audit warned, and a person must approve it", False
        if first and self._job.chained:
            lacks = _lacks_state(self._job, interval.start, interval.end, self._captures)
            return lacks, bool(lacks)
        return "", False

    def _pause(self, interval: Due, rows: Sequence[ReplayRow]) -> tuple[str, bool] | None:
        """Why what failed is not tried again yet; None if it is: after a pause that grows, or once its inputs changed.
        What the same inputs would do again is not tried on them."""
        failed = [row for row in rows if row.state == FAILED]
        last = failed[-1]
        account = stored_object(last.accounting)
        inputs = self._job.inputs(interval.start, interval.end, self._captures)
        digests = {query.name: inputs.digest(query) for query in self._job.plan.queries}
        if account.get("tried") not in (self._job.attempted(digests), self._job.attempted({})):
            return None
        cause = last.reason.partition("\n")[0]
        if account.get("repeats"):
            return (
                f"failed: {last.stage}: {cause}; it is tried again once its inputs, its suites or Lowwater change",
                True,
            )
        tries = sum(stored_object(row.accounting).get("tried") == account.get("tried") for row in failed)
        pause = min(SHORTEST_PAUSE << min(tries - 1, 40), self._job.config.schedule.longest_pause)
        if self._now >= last.finished_at + pause or last.finished_at > self._now:
            return None
        return f"failed: {last.stage}: {cause}; it is tried again at {format_instant(last.finished_at + pause)}", False


def waits_for(job: Job, start: int, end: int) -> Outcome | None:
    """The outcome of an interval of a chained set that does not run, since the one before it is not published.

    Args:
        job: the query set.
        start: first instant of the interval, ns since the epoch.
        end: end of the interval, ns since the epoch, exclusive.
    """
    lacks = _lacks_state(job, start, end, job.captures()) if job.chained else ""
    return Outcome(start, end, WAITING, lacks, {}, False) if lacks else None


def _lacks_state(job: Job, start: int, end: int, captures: Mapping[str, Captures]) -> str:
    """Why an interval cannot continue from the one before it; empty where it can."""
    try:
        job.inputs(start, end, captures).require_states()
    except LakeError as error:
        return error.message
    return ""


def _verdict(rows: Sequence[ReplayRow]) -> str:
    """The verdict of the newest audit."""
    audits = [row for row in rows if row.stage == AUDIT and row.query]
    return str(stored_object(audits[-1].accounting).get("verdict", "")) if audits else ""


def _part(interval: Due, start: int, end: int, length: int) -> Due:
    return replace(interval, start=start, end=end, intervals=max(1, (end - start) // length))
