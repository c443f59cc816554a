"""Whole days: their quality, from the ledgers, a report of the last one, and which intervals are not published."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

import pyarrow as pa
import pyarrow.compute as pc

from lowwater.config import Config
from lowwater.documents import stored_object
from lowwater.instants import DAY, WEEK, spoken_duration, spoken_instant
from lowwater.lake import layout, tables, words
from lowwater.lake.ledgers import coverage, files, intervals, runs
from lowwater.lake.ledgers.captures import Captures
from lowwater.lake.sheets import share_text
from lowwater.quality.reports import IntervalAudit, interval_audits
from lowwater.replay.job import Job
from lowwater.replay.schedule import due

# What a day is worth, which rules flap, what a change did: the page *Quality* and the report show it.

NEWEST_AUDITS = 24
"""Newest audits of a query set in which flapping is looked for, and most audits before and after a change."""
FEWEST_CHANGES = 3
"""A rule flaps that changed its outcome so often in them."""


def trust(state: str, reason: str, audit: IntervalAudit | None) -> tuple[str, str]:
    """What an interval is worth, in a word, and why; the reason is empty where it is trusted."""
    word = words.WORDS[state].worth if state in words.WORDS else words.ABSENT
    if word == words.TRUSTED and audit is not None and audit.verdict != "passed":
        word = words.DOUBTFUL
    if word == words.TRUSTED:
        return word, ""
    why = reason or (audit.messages[0] if audit is not None and audit.messages else state)
    return word, why.partition("; ")[0]


@dataclass(frozen=True)
class LinkDay:
    """A link over a day."""

    link: str  # its name
    lost: int  # time that no capture covers, ns
    late: float | None  # share of its records that were refused as late; None where nothing was audited
    before: float | None  # the same a week before


def link_day(
    lake: layout.Lake, config: Config, link: str, captures: Captures, start: int, end: int, judged: int = 0
) -> LinkDay:
    """Measures a link over [start, end), ns, as far as it lives, and its captures or what is published (until `judged`,
    ns) reach: what an interval is published without is lost, also behind the last capture."""
    settings = config.link(link)
    reached = max((capture.covers_to for capture in captures), default=start)
    reached = max(reached, judged)
    begin = max(start, settings.since or 0)
    until = min(end, reached if settings.until is None else settings.until)
    lost = 0
    if begin < until:
        lost = round((1 - coverage.covered_share(link, captures, settings, begin, until)) * (until - begin))
    late, before = (runs.late_share(lake, link, at, at + end - start) for at in (start, start - WEEK))
    return LinkDay(link, lost, late, before)


@dataclass(frozen=True)
class Flapping:
    """A rule whose outcome changed often: how often, in how many audits, and in how many of them it failed."""

    query_set: str
    rule: str
    title: str
    changes: int
    audits: int
    failed: int


def flapping(lake: layout.Lake, sets: Iterable[str], start: int, end: int) -> list[Flapping]:
    """Finds the rules of query sets that flap over the newest audits of the intervals that begin in [start, end)."""
    rows = runs.read_qualities(lake, start, end)
    named = rows.filter(pc.is_in(rows.column("query_set"), pa.array(list(sets), pa.string())))
    kept = ["query_set", "expectation", "interval_start", "success", "title", "kind"]
    chosen = named.select(kept).to_pylist()
    chosen.sort(key=lambda row: (row["query_set"], row["expectation"], row["interval_start"]))
    found = []
    for (name, _), outcomes in groupby(chosen, key=lambda row: (row["query_set"], row["expectation"])):
        newest = list(outcomes)[-NEWEST_AUDITS:]
        changes = sum(one["success"] != other["success"] for one, other in pairwise(newest))
        if changes >= FEWEST_CHANGES:
            failed, last = sum(not row["success"] for row in newest), newest[-1]
            found.append(Flapping(name, last["kind"], last["title"] or last["kind"], changes, len(newest), failed))
    return sorted(found, key=lambda each: (-each.changes, each.query_set, each.title))


@dataclass(frozen=True)
class Change:
    """What is different since a release or a text of queries."""

    query_set: str  # its name
    at: int  # when the first run of it ended, ns since the epoch
    what: str  # "release 1 -> 2", "queries", or both
    worse: tuple[str, ...]  # titles of rules that hold less often than before
    better: tuple[str, ...]  # titles of rules that hold more often


def last_change(lake: layout.Lake, query_set: str) -> Change | None:
    """Compares the audits of a query set after its newest release or text of queries with those before."""
    audits = sorted(
        (row for row in runs.read_replays(lake, query_set) if row.stage == runs.AUDIT), key=lambda row: row.finished_at
    )
    by_run = [(row, stored_object(row.settings)) for row in audits]
    marks = [(row, settings.get("release", ""), settings.get("queries", "")) for row, settings in by_run]
    at = next((n for n in range(len(marks) - 1, 0, -1) if marks[n][1:] != marks[n - 1][1:] and marks[n - 1][1]), None)
    if at is None:
        return None
    (_, old, text), (row, new, other) = marks[at - 1], marks[at]
    what = [f"release {old} -> {new}"] * (old != new) + ["queries"] * (text != other)
    near = marks[max(0, at - NEWEST_AUDITS) : at], marks[at : at + NEWEST_AUDITS]
    before, after = ({(each.interval_start, each.interval_end) for each, *_ in part} for part in near)
    starts = [start for start, _ in before | after]
    quality = runs.read_qualities(lake, min(starts), max(starts) + 1)
    shares: dict[str, list[list[bool]]] = {}
    for each in quality.filter(pc.equal(quality.column("query_set"), query_set)).to_pylist():
        interval = each["interval_start"], each["interval_end"]
        if interval in after or interval in before:
            title = each["title"] or each["kind"]
            shares.setdefault(title, [[], []])[interval in after].append(each["success"])
    both = {title: [sum(part) / len(part) for part in parts] for title, parts in shares.items() if all(parts)}
    worse = tuple(sorted(title for title, (was, now) in both.items() if now < was))
    better = tuple(sorted(title for title, (was, now) in both.items() if now > was))
    return Change(query_set, row.finished_at, " and ".join(what), worse, better)


@dataclass(frozen=True)
class DayQuality:
    """The quality of a stretch of time."""

    words: Mapping[str, int]  # word of `trust` -> number of intervals
    why: str  # the first reason why one is not trusted
    links: Sequence[LinkDay]
    flaps: Sequence[Flapping]
    changes: Sequence[Change]

    def lines(self) -> list[str]:
        """Five lines: what the intervals are worth, lost traffic, late records, rules that flap, and changes."""
        worth = ", ".join(f"{self.words[word]:,} {word}" for word in words.TRUST if self.words.get(word))
        lost = ", ".join(f"{each.link} {spoken_duration(each.lost)}" for each in self.links if each.lost)
        late = ", ".join(
            f"{each.link} {share_text(each.late)} (a week before "
            f"{'unknown' if each.before is None else share_text(each.before)})"
            for each in self.links
            if each.late
        )
        flapped = ", ".join(f"{each.title} ({each.changes} changes in {each.audits} audits)" for each in self.flaps[:3])
        changed = "; ".join(
            f"{each.query_set}: {each.what}, holds less often: {', '.join(each.worse[:3]) or 'no rule'}"
            for each in self.changes
        )
        return [
            f"Intervals: {worth or 'none'}" + (f"; the first: {self.why[:200]}" if self.why else ""),
            f"Lost traffic: {lost or 'none'}",
            f"Late records: {late or 'none'}",
            f"Rules that flap: {flapped or 'none'}",
            f"Changes: {changed or 'none'}",
        ]


def day_quality(
    lake: layout.Lake,
    config: Config,
    captures: Mapping[str, Captures],
    query_sets: Iterable[str],
    worth: Iterable[tuple[str, str, int, int]],
    start: int,
    end: int,
) -> DayQuality:
    """Measures [start, end), ns, of which `worth` has the intervals: word and reason of `trust`, their number, and
    where they end, ns."""
    worths: Counter[str] = Counter()
    first, judged = "", start
    for word, why, number, until in worth:
        worths[word] += number
        first = first or why
        if word not in (words.REFUSED, words.ABSENT):
            judged = max(judged, until)
    query_sets = list(query_sets)
    return DayQuality(
        worths,
        first,
        [link_day(lake, config, link, captures[link], start, end, judged) for link in sorted(captures)],
        flapping(lake, query_sets, max(0, start - WEEK), end),
        [change for name in query_sets if (change := last_change(lake, name)) is not None],
    )


# The report, which the DAG `lowwater_digest` sends: five lines on quality, then what each query set has published and
# what is due.

LOOKED_AT = 31 * DAY
"""How far back intervals that are due are listed, ns."""
NAMED = 5
"""Most intervals of a query set that are named."""


def day_report(jobs: Iterable[Job], unplanned: Mapping[str, str], now: int) -> list[str]:
    """Writes the lines of the report on the day that ends at `now`, ns. `unplanned`: query set that cannot be planned
    -> why. Raises LakeError if a ledger cannot be read."""
    jobs = list(jobs)
    lines: list[str] = _quality(jobs, now) if jobs else []
    unread: list[str] = []
    for job in jobs:
        lines += _published(job, now)
        lines += _due(job, now)
        unread += files.unread_lines(job.lake, job.config, job.plan.links, hint=False)
    lines += dict.fromkeys(unread)
    return lines + [f"{name} cannot be planned: {why.partition(chr(10))[0]}" for name, why in unplanned.items()]


def _quality(jobs: Sequence[Job], now: int) -> list[str]:
    """The day in five lines; of changes those that came in it."""
    lake, start = jobs[0].lake, max(0, now - DAY)
    captures = {link: rows for job in jobs for link, rows in job.captures().items()}
    sets = [job.query_set for job in jobs]
    found = day_quality(lake, jobs[0].config, captures, sets, _worth(jobs, captures, start, now), start, now)
    return replace(found, changes=[each for each in found.changes if each.at >= start]).lines()


def _worth(
    jobs: Sequence[Job], captures: Mapping[str, Captures], start: int, end: int
) -> Iterator[tuple[str, str, int, int]]:
    """Yields what the intervals that begin in [start, end) are worth, why, how many they are, and where they end."""
    audits = {audit.key: audit for audit in interval_audits(jobs[0].lake, start, end)}
    for job in jobs:
        mine, rows = {link: captures[link] for link in job.plan.links}, runs.read_replays(job.lake, job.query_set)
        states = intervals.set_status(due.expected(job, mine), rows, wanted=lambda begin, _: start <= begin < end)
        for bounds, together in groupby(states, lambda row: (row.start, row.end)):
            first = intervals.gravest(list(together))
            yield *trust(first.shown, first.why, audits.get((job.query_set, *bounds))), first.intervals, bounds[1]


def _published(job: Job, now: int) -> list[str]:
    """What the intervals that ran in the day have come to by its end."""
    states: dict[tuple[int, int], dict[str, str]] = {}
    for row in runs.read_replays(job.lake, job.query_set):
        if now - DAY <= row.finished_at < now and (row.stage == runs.PUBLISH or row.state == words.FAILED):
            found = states.setdefault((row.interval_start, row.interval_end), {})
            if words.FAILED in (row.state, *found.values()):
                found.clear()
            found[row.query] = row.state
    counts = Counter(words.gravest(found.values()) for found in states.values())
    told = ", ".join(f"{counts[word]:,} {word}" for word in reversed(words.WORDS) if counts[word])
    return [f"{job.query_set}: {told or 'nothing ran'}"]


def _due(job: Job, now: int) -> list[str]:
    begin = max(0, (now - LOOKED_AT) // job.length * job.length)
    work = due.due(job, due.DueSelection(begin, None))
    if not work:
        return []
    number = sum(each.intervals for each in work)
    blocked = sum(each.intervals for each in work if each.blocked)
    counts: Counter[str] = Counter()
    for each in work:
        counts[each.word] += each.intervals
    kinds = ", ".join(f"{count:,} {state}" for state, count in sorted(counts.items()))
    lines = [f"{job.query_set}: {number:,} due ({kinds})" + (f", {blocked:,} cannot start" if blocked else "")]
    for each in work[:NAMED]:
        why = each.blocked or "; ".join(each.reasons)
        until = f" to {spoken_instant(each.end)}" if each.intervals > 1 else ""
        lines.append(f"  {spoken_instant(each.start)}{until}, {each.word}: {why[:300]}")
    more = sum(each.intervals for each in work[NAMED:])
    return lines + ([f"  and {more:,} more"] if more else [])


# Whole is `done`: provisional, incomplete, stale and missing intervals are not. Airflow's consumers ask it.


@dataclass(frozen=True)
class WholeRange:
    """The intervals of a range, and what is visible of them."""

    # (first instant in ns, state, reason) of each interval, or stretch without records, that is not done
    lacking: tuple[tuple[int, str, str], ...]
    versions: dict[str, int]  # query -> version of its table at that time, for readers that want to see one state


def whole_range(job: Job, start: int, end: int) -> WholeRange:
    """Asks the ledgers for every interval of [start, end).
    Raises ConfigError if the range does not bound whole intervals, and LakeError if a ledger cannot be read."""
    # Versions come first: what the ledgers then call done is in them, or was replaced by rows that are newer.
    versions = {}
    for query in job.plan.queries:
        table = tables.open_table(job.lake.table(query.name))
        if table is not None:
            versions[query.name] = table.version()
    job.require_bounds(start, end)
    lacking = []
    replays = runs.read_replays(job.lake, job.query_set, (start, end))
    rows = intervals.set_status(due.expected(job, job.captures()), replays, start, end)
    worst = [intervals.gravest(together) for _, together in groupby(rows, lambda row: (row.start, row.end))]
    # What is done stays so for consumers while it runs again: its rows are there until then.
    for row in due.with_running(job.lake, [row for row in worst if row.state != words.DONE]):
        lacking.append((row.start, row.shown, row.why))
    return WholeRange(tuple(lacking), versions)
