"""The intervals of a query set, and the stretches of time in which nothing is recorded (SEMANTICS I3).

A stretch is one range of whole intervals, listed and run as one interval, so that no cost grows with how long a link
was silent or not captured. Between the ledgers and the status: nothing here enumerates the intervals of a stretch.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lowwater.config import Link
from lowwater.instants import format_instant
from lowwater.lake.ledgers.captures import Captures
from lowwater.plan.temporal import END_OF_TIME

Range = tuple[int, int]
"""A range of instants (ns) or of numbers of intervals; the end is exclusive."""

LONGEST_GAP, LONGEST_SILENCE = 1, 100
"""Most intervals in a row without a record that are listed one by one: not covered by some link; covered by all."""


@dataclass(frozen=True)
class Timetable:
    """The intervals of a query set; interval n is [n * length, (n + 1) * length), ns.

    Attributes:
        length: length of an interval, ns.
        life: numbers of the intervals from the first coverage of the links, or the first `since`, to the last coverage,
            or the last look of a schedule.
        busy: numbers of the intervals that are listed one by one, as disjoint ranges in order: records count in them,
            or the coverage of a link begins or ends inside.
        gaps: instants that some link does not cover within its life, as disjoint ranges in order.
        bounds: numbers, ascending, at which coverage begins or ends.
        turns: numbers, ascending, from which what an interval reads of other time is covered, or is not.
    """

    length: int
    life: Range
    busy: tuple[Range, ...] = ()
    gaps: tuple[Range, ...] = ()
    bounds: tuple[int, ...] = ()
    turns: tuple[int, ...] = ()

    def count(self, start: int, end: int) -> int:
        """Number of intervals in [start, end), ns, at least one."""
        return max(1, (end - start) // self.length)

    def intervals(self, runs: Iterable[Range] = (), start: int | None = None, end: int | None = None) -> list[Range]:
        """Lists the intervals and stretches as [start, end), ns, in order.

        Args:
            runs: intervals and stretches that have run. A stretch stands as it ran while nothing is recorded in it.
            start: begin of the range that is asked for, ns; None for no bound.
            end: end of that range, ns. With both bounds, all time between them is listed.
        """
        window = (
            0 if start is None else -(-start // self.length),
            END_OF_TIME if end is None else end // self.length,
        )
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
        for first, last in domain:
            listed.update(self._instants((at, at + 1)) for at in self._busy_in(first, last))
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
        captures: link of the set -> its captures.
        settings: link -> its settings.
        length: length of an interval, ns.
        occupied: numbers of the intervals in which records count.
        through: instant (ns) up to which rows are due although every link has ended; 0 while one has not.
        reach: how far before its begin an interval reads, ns.
        passed: instant up to which a look of the schedule has seen time pass, ns: what no capture covers until then is
            missing; 0 where nobody looks.
    """
    life, gaps, single, bounds, turns = (0, 0), [], list(occupied), set(), set()
    spans = [rows.spans for rows in captures.values() if rows.spans]
    since = [link.since for name in captures if (link := settings[name]).since is not None]
    begins = [*(each[0][0] for each in spans), *(since if spans or passed else ())]
    if begins:
        ends = [END_OF_TIME if (until := settings[name].until) is None else until for name in captures]
        # No link has reported to the end of a later interval, unless all links have ended; a look knows what is over.
        last = max([each[-1][1] for each in spans] + [min(passed, max(ends))])
        life = min(begins) // length, max(last // length, -(-through // length))
    for name, rows in captures.items():
        link = settings[name]
        stretches = rows.joined(link.gap_tolerance)
        edges = {edge for span in stretches for edge in span}
        for edge in edges | {at for at in (link.since, link.until) if at is not None}:
            bounds |= {edge // length, -(-edge // length)}
            turns |= {(edge - link.longest_skew) // length, -(-(edge + reach) // length) + (reach > 0)}
        single += [_clipped((edge // length, edge // length + 1), life) for edge in edges if edge % length]
        lives = (link.since or 0, END_OF_TIME if link.until is None else link.until)
        gaps += without([lives], stretches)
    return Timetable(
        length,
        life,
        tuple(merged(single)),
        tuple(merged(gaps)),
        tuple(sorted(bounds)),
        tuple(sorted(turns)),
    )


def range_words(start: int, end: int, intervals: int) -> str:
    """Names an interval by its begin, and a stretch by its begin, end (ns) and number of intervals.

    Example:
        >>> range_words(0, 3600 * 10**9, 1), range_words(0, 7200 * 10**9, 2)
        ('1970-01-01T00:00:00Z', '1970-01-01T00:00:00Z to 1970-01-01T02:00:00Z (2 intervals)')
    """
    begin = format_instant(start)
    return begin if intervals == 1 else f"{begin} to {format_instant(end)} ({intervals:,} intervals)"


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
    left: list[Range] = []
    for begin, end in ranges:
        at = max(0, bisect_left(taken, (begin, begin)) - 1)
        while begin < end and at < len(taken) and taken[at][0] < end:
            if taken[at][0] > begin:
                left.append((begin, taken[at][0]))
            begin = max(begin, taken[at][1])
            at += 1
        if begin < end:
            left.append((begin, end))
    return left


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
