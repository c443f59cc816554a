"""The intervals of a query set, and the status of each: missing, done, stale and so on (SEMANTICS I3, S2)."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import pairwise
from typing import TYPE_CHECKING

from lowwater.catalog.time import uncovered
from lowwater.documents import stored_object
from lowwater.errors import LakeError
from lowwater.instants import format_instant
from lowwater.lake import layout, locks
from lowwater.lake.ledgers import statements
from lowwater.lake.ledgers.captures import Captures, life_of
from lowwater.lake.ledgers.runs import AUDIT, PUBLISH, ReplayRow, interval_replays, read_replays, record_replays
from lowwater.lake.ledgers.states import NOWHERE
from lowwater.lake.words import (
    BLOCKED,
    DAMAGED,
    DONE,
    FAILED,
    HALF,
    HELD,
    INCOMPLETE,
    KEPT,
    MISSING,
    PROVISIONAL,
    REACHED,
    ROLLED_BACK,
    STALE,
    VISIBLE,
    WARNED,
    gravity,
)
from lowwater.plan.temporal import END_OF_TIME

if TYPE_CHECKING:
    from lowwater.config import Link

# The intervals of a query set, and the stretches of time in which nothing is recorded (SEMANTICS I3). A stretch is
# one range of whole intervals, listed and run as one interval, so that no cost grows with how long a link was silent
# or not captured. Between the ledgers and the status: nothing here enumerates the intervals of a stretch.

Range = tuple[int, int]
"""A range of instants (ns) or of numbers of intervals; the end is exclusive."""

LONGEST_GAP, LONGEST_SILENCE = 1, 100
"""Most intervals in a row without a record that are listed one by one: not covered by some link; covered by all."""


@dataclass(frozen=True)
class Timetable:
    """The intervals of a query set; interval n is [n * length, (n + 1) * length), ns."""

    length: int  # length of an interval, ns
    # numbers of the intervals from the first coverage of the links, or the first `since`, to the last coverage, or the
    # last look of a schedule
    life: Range
    # numbers of the intervals that are listed one by one, as disjoint ranges in order: records count in them, or the
    # coverage of a link begins or ends inside
    busy: tuple[Range, ...] = ()
    gaps: tuple[Range, ...] = ()  # instants that some link does not cover within its life, as disjoint ranges in order
    bounds: tuple[int, ...] = ()  # numbers, ascending, at which coverage begins or ends
    # numbers, ascending, from which what an interval reads of other time is covered, or is not
    turns: tuple[int, ...] = ()

    def count(self, start: int, end: int) -> int:
        """Number of intervals in [start, end), ns, at least one."""
        return max(1, (end - start) // self.length)

    def intervals(self, runs: Iterable[Range] = (), start: int | None = None, end: int | None = None) -> list[Range]:
        """Lists the intervals and stretches as [start, end), ns, in order; with both bounds, all time between them.
        `runs`: those that have run; a stretch stands as it ran while nothing is recorded in it."""
        first = 0 if start is None else -(-start // self.length)
        window = first, END_OF_TIME if end is None else end // self.length
        asked = [window] if start is not None and end is not None else []
        listed, ran = set(), []
        for run in runs:
            if self.is_superseded(run):
                continue
            if run[0] % self.length or run[1] % self.length:  # of another length
                listed |= {run} if start is None and end is None else set()
                continue
            numbers = _clipped(self._numbers(run), window)
            if numbers[0] < numbers[1]:
                listed.add(self._instants(numbers))
                ran.append(numbers)
        domain = [_clipped(each, window) for each in merged([self.life, *self.busy, *asked])]
        for numbers in domain:
            listed.update(self._instants((at, at + 1)) for at in self._busy_in(*numbers))
        for idle in without(without(domain, self.busy), merged(ran)):
            listed.update(self._instants(piece) for piece in self._pieces(idle))
        return sorted(listed)

    def is_superseded(self, run: Range) -> bool:
        """Whether a stretch that ran as one interval is none any more, since a record counts in it now."""
        first, last = self._numbers(run)
        return last - first > 1 and next(iter(self._busy_in(first, last)), None) is not None

    def _numbers(self, run: Range) -> Range:
        return run[0] // self.length, -(-run[1] // self.length)

    def _instants(self, numbers: Range) -> Range:
        return numbers[0] * self.length, numbers[1] * self.length

    def _busy_in(self, first: int, last: int) -> Iterator[int]:
        at = max(0, bisect_right(self.busy, (first, END_OF_TIME)) - 1)
        while at < len(self.busy) and self.busy[at][0] < last:
            yield from range(max(first, self.busy[at][0]), min(last, self.busy[at][1]))
            at += 1

    def _pieces(self, idle: Range) -> Iterator[Range]:
        """Divides idle intervals into stretches, each in one state, and single intervals where they are few."""
        for piece in _divided(idle, self.bounds):
            if self.in_gap(*self._instants(piece)):
                yield from _folded(piece, LONGEST_GAP)
            else:
                for part in _divided(piece, self.turns):
                    yield from _folded(part, LONGEST_SILENCE)

    def in_gap(self, start: int, end: int) -> bool:
        """Whether some link does not cover a part of [start, end), ns."""
        at = bisect_right(self.gaps, (start, END_OF_TIME)) - 1
        return (at >= 0 and self.gaps[at][1] > start) or (at + 1 < len(self.gaps) and self.gaps[at + 1][0] < end)


def timetable(
    captures: Mapping[str, Captures],
    settings: Mapping[str, Link],
    length: int,
    occupied: Sequence[Range],
    through: int = 0,
    reach: int = 0,
    passed: int = 0,
) -> Timetable:
    """Finds the intervals of a query set.

    Args:
        through: instant (ns) up to which rows are due although every link has ended; 0 while one has not.
        reach: how far before its begin an interval reads, ns.
        passed: instant (ns) up to which a look of the schedule has seen time pass: what no capture covers until then is
            missing; 0 where nobody looks.
    """
    life, gaps, single, bounds, turns = (0, 0), [], list(occupied), set(), set()
    lives = {name: life_of(settings[name]) for name in captures}
    alive = ([_clipped(span, lives[name]) for span in rows.spans] for name, rows in captures.items())
    spans = [own for each in alive if (own := [span for span in each if span[0] < span[1]])]
    since = [link.since for name in captures if (link := settings[name]).since is not None]
    begins = [*(each[0][0] for each in spans), *(since if spans or passed else ())]
    if begins:
        ends = [end for _, end in lives.values()]
        # No link has reported to the end of a later interval, unless all links have ended; a look knows what is over.
        last, over = max((each[-1][1] for each in spans), default=0), -(-max(ends) // length)
        life = min(begins) // length, max(last // length, min(passed // length, over), -(-through // length))
    for name, rows in captures.items():
        link = settings[name]
        stretches = rows.joined(link.gap_tolerance)
        edges = {edge for span in stretches for edge in span}
        skewed = {at for at, _ in link.turns}
        for edge in edges | skewed | {at for at in (link.since, link.until) if at is not None}:
            bounds |= {edge // length, -(-edge // length)}
            turns |= {(edge - link.at(edge).longest_skew) // length, -(-(edge + reach) // length) + (reach > 0)}
        single += [_clipped((edge // length, edge // length + 1), life) for edge in edges if edge % length]
        gaps += without([lives[name]], stretches)
    busy, absent = tuple(merged(single)), tuple(merged(gaps))
    return Timetable(length, life, busy, absent, tuple(sorted(bounds)), tuple(sorted(turns)))


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Joins ranges that overlap or touch; empty ones are left out.

    Example:
        >>> merged([(5, 7), (1, 3), (3, 4), (9, 9)])
        [(1, 4), (5, 7)]
    """
    joined: list[Range] = []
    for begin, end in sorted(ranges):
        if begin >= end:
            continue
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((begin, end))
    return joined


def without(ranges: Iterable[Range], taken: Sequence[Range]) -> list[Range]:
    """Returns what disjoint ranges leave of others; both are in order.

    Example:
        >>> without([(0, 10), (20, 25)], [(2, 3), (8, 21)])
        [(0, 2), (3, 8), (21, 25)]
    """
    return [left for begin, end in ranges for left in uncovered(taken, begin, end)]


@dataclass(frozen=True)
class Piece:
    """A range of time, ns, and what is newest there: the number of a publication, or the place of a row."""

    start: int
    end: int
    number: int


def visible(numbers: Mapping[Range, int]) -> list[Piece]:
    """Returns what is newest at each time: the largest number of the ranges that have it.

    Example:
        >>> visible({(0, 10): 1, (4, 6): 2})
        [Piece(start=0, end=4, number=1), Piece(start=4, end=6, number=2), Piece(start=6, end=10, number=1)]
    """
    ranges = sorted((start, end, number) for (start, end), number in numbers.items() if start < end)
    if all(one[1] <= other[0] for one, other in pairwise(ranges)):
        return [Piece(*each) for each in ranges]
    bounds = sorted({bound for start, end, _ in ranges for bound in (start, end)})
    pieces: list[Piece] = []
    begun: list[tuple[int, int]] = []  # (-number, end)
    at = 0
    for begin, until in pairwise(bounds):
        while at < len(ranges) and ranges[at][0] <= begin:
            heappush(begun, (-ranges[at][2], ranges[at][1]))
            at += 1
        while begun and begun[0][1] <= begin:
            heappop(begun)
        if begun:
            number = -begun[0][0]
            if pieces and pieces[-1].end == begin and pieces[-1].number == number:
                pieces[-1] = Piece(pieces[-1].start, until, number)
            else:
                pieces.append(Piece(begin, until, number))
    return pieces


def _clipped(numbers: Range, window: Range) -> Range:
    return max(numbers[0], window[0]), min(numbers[1], window[1])


def _divided(numbers: Range, cuts: Sequence[int]) -> Iterator[Range]:
    first, last = numbers
    for cut in cuts[bisect_right(cuts, first) : bisect_left(cuts, last)]:
        yield first, cut
        first = cut
    yield first, last


def _folded(numbers: Range, longest: int) -> Iterator[Range]:
    first, last = numbers
    if last - first > longest:
        yield numbers
    else:
        yield from ((at, at + 1) for at in range(first, last))


# Status of every interval of every query: missing, done, stale and so on (SEMANTICS T6, S1, S4). Reads the ledgers
# only; the caller brings the current digests of the inputs, which need the plan, and what tables lack.

NEVER = "never run"
SILENT = "never run; no record lies in these intervals, which run as one"
"""Reason of a stretch that can run (I3)."""
UNCOVERED = 'ingest what covers it, or set policy = "publish", by which one run publishes it as incomplete'
"""What is said beside the gap of a stretch."""
RUN_AGAIN = ": run the interval again"
NOTHING_MISSING = "nothing is missing any more, or what is missing is accepted"


@dataclass(frozen=True)
class StatusInputs:
    """A query set and its current inputs, for the status of its intervals [start, end), ns."""

    name: str
    queries: tuple[str, ...]
    times: Timetable
    digest: Callable[[str, int, int], str]  # of the inputs of a query now, hex
    # why captures that the interval reads must be ingested again; empty if they need not
    outdated: Callable[[int, int], str] = lambda start, end: ""
    # reasons why a run cannot start now; empty if it can
    lacking: Callable[[int, int], Sequence[str]] = lambda start, end: ()
    # how the inputs differ from those of the publication, given its accounting
    changed: Callable[[str, int, int, str], str] = lambda query, start, end, accounting: "its inputs have changed since"
    # why an interval with unchanged inputs must run again: its state is gone; or empty
    lost: Callable[[str, int, int], str] = lambda query, start, end: ""
    # what is known to be missing now, although its coverage has no gap (T6)
    missing: Callable[[int, int], Sequence[str]] = lambda start, end: ()
    # what is known to be missing and accepted now, with who accepted it and why
    accepted: Callable[[int, int], Sequence[str]] = lambda start, end: ()
    # the gaps that its publication lets pass; None to take the reason that it gave
    gaps: Callable[[int, int], Sequence[str]] | None = None
    # which links have not reported to its end and their skew; empty where all have
    unsettled: Callable[[int, int], str] = lambda start, end: ""
    # which packets that a run would read were removed; empty where none were
    removed: Callable[[int, int], str] = lambda start, end: ""
    # intervals whose published rows the table of a query does not have, and why, given its rows of the ledger
    damages: Callable[[str, Sequence[ReplayRow]], Mapping[Range, str]] = lambda query, rows: {}


@dataclass(frozen=True)
class StatusRow:
    """State of a query over the interval, or the stretch of intervals without a record (I3), of [start, end), ns."""

    query_set: str
    query: str
    start: int
    end: int
    state: str
    reason: str
    rows: int | None  # number of visible rows according to the last publication; None without one
    lacking: tuple[str, ...] = ()  # reasons why a due interval cannot run
    intervals: int = 1  # number of the intervals: more than one in a stretch, which runs as one interval
    removed: str = ""  # of a kept one, which packets were removed: the end of its reason

    @property
    def shown(self) -> str:
        """State to show: `cannot start` comes before every other."""
        return BLOCKED if self.lacking else self.state

    @property
    def why(self) -> str:
        """Reasons why the interval is not done, and why it cannot run."""
        if not self.lacking:
            return self.reason
        state_text = "" if self.reason == NEVER else f"{self.state}: {self.reason}"
        return "; ".join(filter(None, (state_text, *(cause for cause in self.lacking if cause not in state_text))))


def status(lake: layout.Lake, sets: Iterable[StatusInputs]) -> list[StatusRow]:
    """Computes the state of every interval with coverage, or with a run, by set, interval and query."""
    return [row for inputs in sets for row in set_status(inputs, read_replays(lake, inputs.name))]


def set_status(
    expected: StatusInputs,
    replays: Iterable[ReplayRow],
    start: int | None = None,
    end: int | None = None,
    wanted: Callable[[int, int], bool] = lambda start, end: True,
    runs: Iterable[tuple[int, int]] = (),
) -> Iterator[StatusRow]:
    """Computes the state of the intervals of one query set; with both bounds, of all between them.

    Args:
        replays: rows of the ledger of this set, oldest first; with bounds, at least those that meet the range.
        wanted: whether the interval [start, end), ns, is asked for; the others cost nothing.
        runs: further intervals that have run, of which no rows are given since they are not wanted.
    """
    newest: dict[Range, dict[tuple[str, str], ReplayRow]] = defaultdict(dict)
    published: dict[str, list[ReplayRow]] = {query: [] for query in expected.queries}
    for row in replays:
        if row.query in ("", *expected.queries):
            newest[row.interval][row.query, row.stage] = row
            if row.stage == PUBLISH and row.query:
                published[row.query].append(row)
    damaged = {
        (query, *bounds): why
        for query, rows in published.items()
        for bounds, why in expected.damages(query, rows).items()
    }
    over = {(query, *bounds): why for query, rows in published.items() for bounds, why in _published_over(rows)}
    for bounds in [*_replaced(newest, published, expected.times)]:
        del newest[bounds]
    longer = sorted(run for run in newest if run[1] - run[0] > expected.times.length)
    # A stretch stands as it ran, unless another one, or an interval of it, was published since.
    length = expected.times.length
    gone = {(first, last) for _, first, last in over if first % length == last % length == 0}
    for bounds in expected.times.intervals({*newest, *runs} - gone, start, end):
        if not wanted(*bounds):
            continue
        around = longer[max(0, bisect_right(longer, (bounds[0], END_OF_TIME)) - 1)] if longer else (0, 0)
        if bounds not in newest and around[0] <= bounds[0] and bounds[1] <= around[1]:
            found = _of_part(expected, *bounds, around, list(newest[around].values()), damaged, over)
        else:
            found = _of_interval(expected, *bounds, list(newest.get(bounds, {}).values()), damaged, over)
        yield from filter(None, (_as_kept(expected, row, published[row.query]) for row in found))


def _as_kept(expected: StatusInputs, row: StatusRow, published: Sequence[ReplayRow]) -> StatusRow | None:
    """Returns the state of a query, which is `kept` where no run can reach it any more (S11). None where nothing of it
    is published, whatever stages ran, and intervals of other lengths are published over all of it: they stay."""
    was = row.state
    waits = was == PROVISIONAL and expected.unsettled(row.start, row.end) != ""  # else it can be confirmed still
    if was not in REACHED and not waits and (was, row.reason) != (INCOMPLETE, NOTHING_MISSING):
        return row  # what is known to be missing there is told on; what only packets told nobody knows any more
    length = expected.times.length
    # One of another length would not run itself, but those of the present one that meet it.
    removed = expected.removed(row.start // length * length, -(-row.end // length) * length)
    if not removed and was == STALE:  # what is published of captures that are gone, and read otherwise than today
        removed = "; ".join(cause for cause in row.lacking if cause.endswith(NOWHERE))
    if not removed:
        return row
    others = merged(other.interval for other in published if other.is_published)
    if was == MISSING and not without([(row.start, row.end)], others):
        return None
    why = "" if was == INCOMPLETE else row.reason.removesuffix(RUN_AGAIN).removesuffix(removed).removesuffix("; ")
    reason = f"{was}: {why}; {removed}" if why else f"{was}; {removed}"
    return replace(row, state=KEPT, reason=reason, lacking=(), removed=removed)


def _published_over(rows: Sequence[ReplayRow]) -> Iterator[tuple[Range, str]]:
    """Yields the intervals of publications, oldest first, of which another one has a part since, and which has it (S2):
    what is visible there is not theirs any more, whatever their inputs are."""
    published = [row.interval for row in rows if row.is_published]
    newest = {bounds: at for at, bounds in enumerate(published)}
    if all(one[1] <= other[0] for one, other in pairwise(sorted(newest))):
        return
    pieces = visible(newest)
    whole = {(piece.start, piece.end) for piece in pieces if published[piece.number] == (piece.start, piece.end)}
    begins = [piece.start for piece in pieces]
    for start, end in newest.keys() - whole:
        near = pieces[bisect_right(begins, start) - 1 : bisect_left(begins, end)]
        first, last = published[next(piece.number for piece in near if piece.number > newest[start, end])]
        which = f"{format_instant(first)} to {format_instant(last)}"
        if first <= start and end <= last:
            yield (start, end), f"it was published since as a part of {which}"
        else:
            yield (start, end), f"a part of it was published since, in {which}"


def _replaced(
    newest: Iterable[Range], published: Mapping[str, Sequence[ReplayRow]], times: Timetable
) -> Iterator[Range]:
    """Yields the intervals of another length over all of which every query was published again since (S2), as far as
    the set has intervals there."""
    length = times.length
    others = [bounds for bounds in newest if bounds[0] % length or bounds[1] % length]
    if not others:
        return
    by_start = {
        query: sorted((row.interval_start, row.interval_end, row.finished_at) for row in rows)
        for query, rows in published.items()
    }
    last = {(row.query, row.interval): row.finished_at for rows in published.values() for row in rows}
    domain = [(first * length, end * length) for first, end in merged([times.life, *times.busy])]
    for bounds in others:
        listed = [part for each in domain if (part := _clipped(bounds, each))[0] < part[1]] or [bounds]
        for query, rows in by_start.items():
            first, end = bisect_right(rows, (bounds[0] - length, END_OF_TIME)), bisect_right(rows, (bounds[1],))
            since = last.get((query, bounds), 0)
            newer = [(begin, until) for begin, until, at in rows[first:end] if at > since]
            if without(listed, merged(newer)):
                break
        else:
            yield bounds


def _of_part(
    expected: StatusInputs,
    start: int,
    end: int,
    run: tuple[int, int],
    rows: Sequence[ReplayRow],
    damaged: Mapping[tuple[str, int, int], str],
    over: Mapping[tuple[str, int, int], str],
) -> Iterator[StatusRow]:
    """Yields the states of a part of a stretch that ran as one interval."""
    if not expected.times.is_superseded(run):
        count, length = expected.times.count(start, end), expected.times.length
        # Others continue from the end of a stretch, and have its state; one of another length ends elsewhere.
        own = end < run[1] and (run[0] % length or run[1] % length)
        for row in _of_interval(expected, *run, rows, damaged, over):
            part = replace(row, start=start, end=end, intervals=count)
            lost = expected.lost(row.query, start, end) if own and row.state in VISIBLE else ""
            lacking = tuple(expected.lacking(start, end)) if lost else part.lacking
            yield replace(part, state=STALE, reason=lost, lacking=lacking) if lost else part
        return
    published = {row.query for row in rows if row.is_published}
    why = f"it was published as a part of {format_instant(run[0])} to {format_instant(run[1])}"
    for row in _of_interval(expected, start, end, (), {}, {}):
        yield replace(row, state=STALE, reason=why) if row.query in published else row


def _of_interval(
    expected: StatusInputs,
    start: int,
    end: int,
    rows: Sequence[ReplayRow],
    damaged: Mapping[tuple[str, int, int], str],
    over: Mapping[tuple[str, int, int], str],
) -> Iterator[StatusRow]:
    count = expected.times.count(start, end)
    states = {}
    for query in expected.queries:
        key = query, start, end
        states[query] = _of_query(expected, *key, rows, damaged.get(key, ""), over.get(key, ""))
    visible = [query for query, (state, _) in states.items() if state in VISIBLE]
    waits = any(state not in VISIBLE for state, _ in states.values())
    lacking = tuple(expected.lacking(start, end)) if waits else ()
    if lacking and count > 1 and expected.times.in_gap(start, end):
        lacking = (*lacking, UNCOVERED)
    for query, (state, reason) in states.items():
        published = [row for row in rows if row.query == query and row.is_published]
        if visible and state in (MISSING, HELD) and not published:
            reason = f"published: {', '.join(visible)}; not: {query} ({reason}){RUN_AGAIN}"
            state = HALF
        visible_rows = published[-1].rows if published else None
        blocked = () if state in VISIBLE else lacking
        if reason == NEVER and count > 1 and not lacking:
            reason = SILENT
        yield StatusRow(expected.name, query, start, end, state, reason, visible_rows, blocked, count)


def _of_query(
    expected: StatusInputs, query: str, start: int, end: int, rows: Sequence[ReplayRow], damage: str, over: str
) -> tuple[str, str]:
    query_rows = sorted((row for row in rows if row.query in (query, "")), key=lambda row: row.finished_at)
    if not query_rows:
        return MISSING, NEVER
    published = [row for row in query_rows if row.query == query and row.is_published]
    if query_rows[-1].state == FAILED:
        note = "; what was published before is still visible" if published else ""
        cause = query_rows[-1].reason.partition("\n")[0]  # the first failure of an audit; the report has all
        return FAILED, f"{query_rows[-1].stage}: {cause}{note}"
    held = query_rows[-1].stage == AUDIT and query_rows[-1].digest == expected.digest(query, start, end)
    consent = stored_object(query_rows[-1].accounting).get("consent") if held else None
    audited = f"approved by {consent}; the next look publishes it" if consent else "audited and not published"
    if not published:
        if held:
            return HELD, audited
        return MISSING, f"{query_rows[-1].stage} was the last stage that ran"
    if damage:
        return DAMAGED, damage
    if published[-1].state == ROLLED_BACK and not published[-1].digest:
        return STALE, published[-1].reason  # lifted
    if over or published[-1].digest != expected.digest(query, start, end):
        if held:
            return HELD, f"{audited}; what was published before is still visible"
        return STALE, over or expected.changed(query, start, end, published[-1].accounting)
    for reason in (expected.lost(query, start, end), expected.outdated(start, end)):
        if reason:
            return STALE, reason
    state, reason = published[-1].state, published[-1].reason
    # What is missing may have become known, or have been read or set aside, only after the publication.
    missing = expected.missing(start, end) if state in (DONE, PROVISIONAL, INCOMPLETE) else ()
    if state == INCOMPLETE and expected.gaps is not None:
        return state, "; ".join([*expected.gaps(start, end), *missing]) or NOTHING_MISSING
    if missing:
        return INCOMPLETE, "; ".join(missing)
    # A capture that came later may have shown that the coverage behind the interval ends sooner (T5).
    if state == DONE and (waits := expected.unsettled(start, end)):
        return PROVISIONAL, waits
    return state, "; ".join(expected.accepted(start, end)) if state == DONE else reason


def gravest(rows: Iterable[StatusRow]) -> StatusRow:
    """Returns the row that stands for an interval: that with the most important state."""
    return min(rows, key=lambda row: gravity(row.state))


# Consent of a person to an interval whose audit warned, kept with the audit that it is of. The next look publishes the
# interval then, without running it again. Other inputs make another audit, which asks anew.


def awaited(rows: Iterable[ReplayRow]) -> list[ReplayRow]:
    """The audits of an interval, of its rows oldest first, that ended with warnings, where nothing has run since; none
    if it does not wait. Rows of queries that the set had before are of no concern."""
    newest: dict[str, ReplayRow] = {}
    for row in rows:
        if row.stage != AUDIT or row.state == FAILED:
            newest.clear()
        else:
            newest[row.query] = row
    waits = all(stored_object(row.accounting).get("verdict") == WARNED for row in newest.values())
    return list(newest.values()) if waits else []


def consented(rows: Iterable[ReplayRow], digests: Mapping[str, str] | None = None) -> bool:
    """Whether a person has approved the newest audit of an interval, of its rows oldest first. `digests`: query ->
    digest of the present inputs; None to ask for no inputs."""
    audits = awaited(rows)
    return bool(audits) and all(
        "consent" in stored_object(row.accounting) and (digests is None or digests.get(row.query) == row.digest)
        for row in audits
    )


def approve(lake: layout.Lake, query_set: str, start: int, end: int, by: str) -> None:
    """Keeps that a person approves the publication of an interval.
    Raises BusyError if a run is at work on it, and LakeError if it does not wait for approval, or the ledger cannot be
    written."""
    with locks.hold_range(lake, query_set, start, end) as fence:
        rows = [row for row in interval_replays(lake, query_set, start, end) if row.interval_end == end]
        audits = awaited(row for row in rows if row.interval_start == start)
        if not audits:
            raise LakeError(f"{query_set} {format_instant(start)} does not wait for approval", "look at its page again")
        last = max(row.finished_at for row in audits)
        said = statements.Statement(last, by, statements.APPROVE, "", start=start, end=end, query_set=query_set)
        at = statements.state(lake, [said])[0].at
        consent = {"consent": by, "statement": at}
        given = [
            replace(row, finished_at=at, accounting=json.dumps(stored_object(row.accounting) | consent))
            for row in audits
        ]
        record_replays(replace(lake, fence=fence), given)
