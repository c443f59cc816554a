"""Drops: records that a capture says were lost before they could be written, and the instants between which they fell.

Formats count them in two ways: what was lost since the record before (packet blocks of pcapng, ERF), and a counter
that rises (statistics blocks of pcapng, snoop, the statistics of tools). All of it is what one file says. How the
counter of a file goes on in the next one is decided where captures are read together (`lake.ledgers.drops`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowwater.instants import SECOND, format_instant
from lowwater.limits import DROP_RANGES

PCAPNG, SNOOP, ERF, SURICATA = "pcapng", "snoop", "erf", "suricata"
ZEEK_STATS, ZEEK_LOSS, ZEEK_REPORTER = "zeek stats", "zeek capture_loss", "zeek reporter"

WHOLES = (SURICATA, ZEEK_STATS, ZEEK_LOSS, ZEEK_REPORTER)
"""Sources that say how many packets they saw: the records of their links are no packets."""

BELIEVED = 1 << 48
"""A counter from here on is no number of packets: recorders write all bits for "not known", and no link of 1 Tbit/s
loses so many in a day."""

_WIDTHS = tuple(minutes * 60 * SECOND for minutes in (1, 5, 15, 60, 360, 1440))
"""Drops of one stretch of time are one range: of the first of these lengths that leaves few enough. Each is a multiple
of the one before, and of each interval that people take, either it is a part or a multiple."""

UNKNOWN = -1
"""Stands for an instant that is not known in arrays."""


@dataclass(frozen=True, slots=True)
class Drops:
    """Records that were lost between two instants.

    Attributes:
        start: instant, ns, after which they fell: that of a record or a reading before; None for the begin of the file.
        end: instant, ns, of the record or reading that tells; None for the end of the file.
        count: how many.
        source: who counted, such as `pcapng`. Different sources of one link tell of the same losses.
        whole: records that the same source counted between the instants, the lost ones included; 0 if it does not say.
    """

    start: int | None
    end: int | None
    count: int
    source: str
    whole: int = 0


@dataclass(frozen=True, slots=True)
class Reading:
    """What a counter said at an instant.

    Attributes:
        count: lost records since it began.
        end: the instant, ns; None where it is not known.
        since: instant, ns, at which the counter began; None where nothing says so.
        told: drops that records tell by themselves since the reading before; they are in `count` too.
        records: records since the begin of the file, or of its section.
        received: received records since the counter began, the lost ones included; None without such a number.
    """

    count: int
    end: int | None
    since: int | None = None
    told: int = 0
    records: int = 0
    received: int | None = None

    def goes_on(self, before: Reading) -> bool:
        """Whether this is the first reading in a file, or in a section of one, of a counter that was read before: then
        what it said before is in it.

        It is if both began at one instant. Where one does not say when, it is if the received records say so: they are
        more than what this file has, and not fewer than before and those of this file.
        """
        if self.count < before.count:
            return False
        if self.since is not None and before.since is not None:
            return abs(self.since - before.since) <= SECOND
        if self.received is not None and before.received is not None:
            more = self.received > self.records + self.count
            return more and self.received >= before.received + self.records
        return False


@dataclass(frozen=True, slots=True)
class Counter:
    """What a file says of a counter, whose first reading may have what was lost before the file.

    Attributes:
        name: what it belongs to in the file, such as an interface.
        first: its first reading, which no range of the file has.
        last: its last reading.
        older: whether most of the first reading is of the time before the file.
    """

    name: str
    source: str
    first: Reading
    last: Reading
    older: bool = False

    def adds(self, before: Counter | None = None) -> Drops | None:
        """Returns what the first reading adds, given the same counter in the file before; None for nothing."""
        first = self.first
        if before is not None and self._follows(before):
            start, count, whole = before.last.end, first.count - before.last.count, first.received or 0
            return self._drops(start, count, whole - (before.last.received or 0))
        return None if self.older else self._drops(first.since, first.count, first.received or 0)

    def _follows(self, before: Counter) -> bool:
        if self.source == SNOOP:  # it counts from the first record of a file on; where it does not, the file was cut
            return 0 < before.last.count <= self.first.count
        return self.first.goes_on(before.last)

    def _drops(self, start: int | None, count: int, whole: int) -> Drops | None:
        count = max(count - self.first.told, 0)
        whole = max(whole, 0) if self.source in WHOLES else 0
        return Drops(start, self.first.end, count, self.source, whole) if count else None


@dataclass(frozen=True)
class DeclaredDrops:
    """What a capture says of one interface.

    Attributes:
        ranges: drops of the file itself, in order of time.
        counters: counters whose first reading is not in `ranges`.
    """

    ranges: tuple[Drops, ...] = ()
    counters: tuple[Counter, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.ranges or self.counters)

    def alone(self) -> list[Drops]:
        """All drops, as far as this file alone tells."""
        return [*self.ranges, *(drops for counter in self.counters if (drops := counter.adds()) is not None)]

    def text(self) -> str:
        """Writes it as JSON; empty if there is nothing to say."""
        if not self:
            return ""
        ranges = [[each.start, each.end, each.count, each.source, each.whole] for each in self.ranges]
        counters = [
            [
                each.name,
                each.source,
                *(list(asdict(reading).values()) for reading in (each.first, each.last)),
                each.older,
            ]
            for each in self.counters
        ]
        return json.dumps({"ranges": ranges, "counters": counters})

    @staticmethod
    def of_object(stored: Mapping[str, Any]) -> DeclaredDrops:
        """Reads what `text` has written."""
        return DeclaredDrops(
            tuple(Drops(*each) for each in stored.get("ranges", ())),
            tuple(
                Counter(name, source, Reading(*first), Reading(*last), older)
                for name, source, first, last, older in stored.get("counters", ())
            ),
        )


NO_DROPS = DeclaredDrops()


def joined(parts: Sequence[DeclaredDrops]) -> DeclaredDrops:
    """Joins what a file says of several interfaces."""
    ranges: list[Drops] = []
    for source in dict.fromkeys(each.source for part in parts for each in part.ranges):
        tally = DropTally(source)
        tally.put([each for part in parts for each in part.ranges if each.source == source])
        ranges += tally.ranges()
    return DeclaredDrops(tuple(ranges), tuple(counter for part in parts for counter in part.counters))


def total(drops: Iterable[Drops]) -> int:
    """The number of lost records: sources tell of the same losses, so that which has most counts."""
    counts: dict[str, int] = {}
    for each in drops:
        counts[each.source] = counts.get(each.source, 0) + each.count
    return max(counts.values(), default=0)


def drop_words(drops: Sequence[Drops]) -> str:
    """Says what a file says of lost records; empty for none."""
    count = total(drops)
    drops = [each for each in drops if each.count]
    if not drops:
        return ""
    starts, ends = [each.start for each in drops], [each.end for each in drops]
    begin = "" if None in starts else f" from {format_instant(min(filter(None, starts), default=0))}"
    end = "" if None in ends else f" to {format_instant(max(filter(None, ends), default=0))}"
    return f"it says that {count:,} record{' was' if count == 1 else 's were'} lost{begin}{end}"


class DropTally:
    """The drops of a source, in bounded memory: those of one stretch of time are one range, however they are added."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._level = 0
        self._ranges: dict[tuple[int, int], list[int]] = {}  # places in time -> start, end, count, whole

    def put(self, drops: Iterable[Drops]) -> None:
        """Adds some drops of this source."""
        for each in drops:
            values = (UNKNOWN if value is None else value for value in (each.start, each.end, each.count, each.whole))
            self.add(*(np.array([value], np.int64) for value in values))

    def add(
        self,
        starts: NDArray[np.int64],
        ends: NDArray[np.int64],
        counts: NDArray[np.int64],
        wholes: NDArray[np.int64] | None = None,
    ) -> None:
        """Adds drops, each between two instants (ns, UNKNOWN for none)."""
        if not len(starts):
            return
        wholes = np.zeros(len(starts), np.int64) if wholes is None else wholes
        low, high = np.minimum(starts, ends), np.maximum(starts, ends)
        starts, ends = np.where(ends == UNKNOWN, starts, low), np.where(ends == UNKNOWN, UNKNOWN, high)
        places, at = np.unique(self._places(starts, ends), axis=0, return_inverse=True)
        merged = np.zeros((4, len(places)), np.int64)
        merged[0], merged[1] = np.iinfo(np.int64).max, -2
        at = at.reshape(-1)
        np.minimum.at(merged[0], at, starts)
        np.maximum.at(merged[1], at, ends)
        np.add.at(merged[2], at, counts)
        np.add.at(merged[3], at, wholes)
        for place, values in zip(map(tuple, places.tolist()), merged.T.tolist(), strict=True):
            self._merge(place, values)
        while len(self._ranges) > DROP_RANGES:
            self._widen()

    def ranges(self) -> list[Drops]:
        """The drops so far, in order of time."""
        rows = sorted(self._ranges.values())
        return [
            Drops(None if start == UNKNOWN else start, None if end == UNKNOWN else end, count, self.source, whole)
            for start, end, count, whole in rows
        ]

    def _places(self, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
        if self._level == len(_WIDTHS):
            return np.zeros((len(starts), 2), np.int64)
        width = _WIDTHS[self._level]
        # what ends at an edge fell before it; -1 and its like, the unknown, stay apart
        last = np.where(ends > starts, ends - 1, ends)
        return np.stack([starts // width, last // width], axis=1)

    def _merge(self, place: tuple[int, int], values: list[int]) -> None:
        start, end, count, whole = self._ranges.get(place, values)
        if place in self._ranges:
            values = [min(start, values[0]), max(end, values[1]), count + values[2], whole + values[3]]
        self._ranges[place] = values

    def _widen(self) -> None:
        rows, self._ranges = list(self._ranges.values()), {}
        self._level += 1
        columns = np.array(rows, np.int64).T
        for place, values in zip(map(tuple, self._places(columns[0], columns[1]).tolist()), rows, strict=True):
            self._merge(place, values)


class CounterLog:
    """Readings of a counter, in the order of a file. What is lost between two of them goes to a tally."""

    def __init__(self, name: str, tally: DropTally) -> None:
        self.name = name
        self._tally = tally
        self._first: Reading | None = None
        self._second: Reading | None = None
        self._last: Reading | None = None
        self._part = 0

    def read(self, reading: Reading, part: int = 0, earlier: int = 0) -> None:
        """Takes the next reading; `part` is the section of the file that has it, which may begin another counter.
        `earlier`: drops that records told in the sections before, after the reading before."""
        before, self._last = self._last, reading
        same_part, self._part = part == self._part, part
        if before is None:
            self._first = reading
            return
        self._second = self._second or reading
        apart = before.since is not None and reading.since is not None and abs(before.since - reading.since) > SECOND
        if same_part and not apart:
            goes_on, count = True, risen(before.count, reading.count)
        else:
            goes_on = reading.goes_on(before)
            count = reading.count - (before.count if goes_on else 0)
        start = before.end if goes_on or reading.since is None else reading.since
        received = (reading.received or 0) - ((before.received or 0) if goes_on else 0)
        whole = max(received, 0) if self._tally.source in WHOLES else 0
        told = reading.told + (earlier if goes_on else 0)  # a counter that began anew has none of those
        count = max(count - told, 0)
        if count or whole:
            self._tally.put([Drops(start, reading.end, count, self._tally.source, whole)])

    def counter(self) -> Counter | None:
        """Returns what the file says of the counter; None without a reading."""
        if self._first is None or self._last is None:
            return None
        return Counter(self.name, self._tally.source, self._first, self._last, self._older(self._first))

    def _older(self, first: Reading) -> bool:
        """Whether a counter that is read again and again had been running for longer than between two readings."""
        if self._tally.source not in WHOLES or self._second is None or first.end is None or self._second.end is None:
            return False
        return first.since is None or first.end - first.since > 2 * (self._second.end - first.end)


def risen(before: int, now: int) -> int:
    """How far a counter rose. One that is less than before began anew, unless it had 32 bits and ran over.

    Example:
        >>> risen(10, 25), risen(25, 10), risen(2**32 - 5, 7)
        (15, 10, 12)
    """
    if now >= before:
        return now - before
    ran_over = 3 << 30 <= before < 1 << 32 and now < 1 << 30
    return now + (1 << 32) - before if ran_over else now
