"""What a query set has of each day, in one line: may a report of it go out, and what is missing if not.

A day is one of the calendar of a time zone. Intervals have the states of `lowwater status`; time of a day that is of no
interval is missing too, since nobody recorded it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from lowwater.catalog.localdays import LocalDays
from lowwater.catalog.time import uncovered
from lowwater.instants import SECOND, spoken_span
from lowwater.lake import words
from lowwater.lake.ledgers.intervals import StatusRow, gravest, merged
from lowwater.lake.sheets import ANSWER, SET, STATE, WHEN, Sheet


@dataclass(frozen=True)
class Stretch:
    """An interval of a query set, or equal ones that follow one another, with the gravest word of its queries.

    Attributes:
        start, end: ns, the end exclusive.
        intervals: their number, of one length.
    """

    query_set: str
    start: int
    end: int
    intervals: int
    word: str
    why: str


@dataclass(frozen=True)
class DayState:
    """A day of a query set.

    Attributes:
        start, end: of the day, ns, the end exclusive.
        counts: number of its intervals by word, the gravest first.
        why: first reason of the first interval that has the gravest word.
        unrecorded: stretches of the day, ns, that are of no interval.
    """

    day: date
    query_set: str
    start: int
    end: int
    counts: dict[str, int]
    why: str
    unrecorded: tuple[tuple[int, int], ...]

    @property
    def word(self) -> str:
        """The gravest word of its intervals; `missing` where there is none."""
        return next(iter(self.counts), words.MISSING)

    @property
    def whole(self) -> bool:
        """Whether all of the day is published, of the inputs of today, and nothing of it is known to be missing."""
        return not self.unrecorded and words.WORDS[self.word].visible and not words.WORDS[self.word].runs

    @property
    def answer(self) -> str:
        """May its report go out: `yes`, or `no` and what is missing.

        Example:
            >>> hour = 3_600 * 10**9
            >>> known = Stretch("q", 0, 23 * hour, 23, "done", ""), Stretch("q", 23 * hour, 24 * hour, 1, "failed", "x")
            >>> [day.answer for day in day_states(known, LocalDays("UTC"))]
            ['no: 1 of 24 intervals is failed: x']
        """
        total = sum(self.counts.values())
        told = []
        for word, count in self.counts.items():
            if word != words.DONE:
                why = f": {self.why}" if word == self.word and self.why else ""
                verb = "" if word == words.BLOCKED else "is " if count == 1 else "are "
                told.append(f"{count:,} of {total:,} intervals {verb}{word}{why}")
        told += [f"nothing was recorded {spoken_span(*span)}" for span in self.unrecorded]
        return "; ".join([f"{'yes' if self.whole else 'no'}: {told[0]}", *told[1:]]) if told else "yes"


def days_sheet(days: Iterable[DayState]) -> Sheet:
    """Returns the days as a table: may a report of each go out?"""
    columns = {"day": WHEN, "query set": SET, "state": STATE, "report": ANSWER}
    return Sheet(columns, [(day.day.isoformat(), day.query_set, day.word, day.answer) for day in days])


def stretches(rows: Iterable[StatusRow]) -> Iterator[Stretch]:
    """Yields what the queries of each interval come to."""
    intervals: dict[tuple[str, int, int], list[StatusRow]] = defaultdict(list)
    for row in rows:
        intervals[row.query_set, row.start, row.end].append(row)
    for (query_set, start, end), of_queries in intervals.items():
        worst = gravest(of_queries)
        yield Stretch(query_set, start, end, worst.intervals, worst.shown, worst.why)


def day_states(found: Iterable[Stretch], zone: LocalDays) -> list[DayState]:
    """Returns each day from the first to the last in which a query set has an interval, in order of days. An interval
    counts for each day that it meets."""
    sets: dict[str, list[Stretch]] = defaultdict(list)
    for each in found:
        sets[each.query_set].append(each)
    states = []
    for query_set, of_set in sets.items():
        of_set.sort(key=lambda stretch: stretch.start)
        met: dict[int, list[Stretch]] = defaultdict(list)
        for each in of_set:
            for day in range(zone.value(each.start // SECOND), zone.value((each.end - 1) // SECOND) + 1):
                met[day].append(each)
        for day in range(min(met), max(met) + 1):
            start, end = zone.first(day) * SECOND, zone.first(day + 1) * SECOND
            if start < end:  # else the zone has left this date out
                states.append(_state(query_set, date(1970, 1, 1) + timedelta(days=day), met[day], (start, end)))
    return sorted(states, key=lambda state: (state.day, state.query_set))


def _state(query_set: str, day: date, met: list[Stretch], span: tuple[int, int]) -> DayState:
    counts: Counter[str] = Counter()
    why: dict[str, str] = {}
    for each in met:
        length = (each.end - each.start) // each.intervals
        first, last = max(each.start, span[0]) - each.start, min(each.end, span[1]) - each.start
        counts[each.word] += -(-last // length) - first // length
        why.setdefault(each.word, each.why.partition("; ")[0])
    ordered = {word: counts[word] for word in sorted(counts, key=words.gravity)}
    gaps = tuple(uncovered(merged((each.start, each.end) for each in met), *span))
    return DayState(day, query_set, *span, ordered, why.get(next(iter(ordered), ""), ""), gaps)
