"""The records of a link, from its captures in order (T1): which are malformed at the ends of files (T3), when each
arrives and which are late (T2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from lowwater.catalog.time import is_late
from lowwater.instants import HOUR
from tests.model.rules.facts import FOREVER, Content, Link, Place, Span

SIDE, USUAL = 16, 4  # as in `capture.records.sanity`, which loads a compiler
UNSURE = 24 * HOUR

SANE, LATE, OUTSIDE, MALFORMED = "sane", "late", "outside", "malformed"


class Record(NamedTuple):
    """One account of a record (A1)."""

    position: int
    stamp: int
    arrival: int
    account: str

    @property
    def charged(self) -> int:
        """The instant whose interval counts it."""
        return self.stamp if self.account == SANE else self.arrival


@dataclass
class Capture:
    """A content under the name that counts, with what is derived from all captures of its link.

    Attributes:
        declared: the time that people, or a name, say it covers; `rotated`: its end is made up from a rotation.
        covers: coverage in force. clock: the largest timestamp of the captures before it, -1 before the first.
        sane: positions of the records that are sane by their own file; `strays`: how many of these lead at its end.
    """

    link: str
    content: Content
    place: Place
    declared: Span | None
    rotated: bool = False
    by_hand: bool = False
    whole: bool = True
    moment: int = 0  # of the last look that found it
    covers: Span = (0, 0)
    clock: int = -1
    sane: tuple[int, ...] = ()
    strays: int = 0
    followed: bool = False
    records: list[Record] = field(default_factory=list)

    @property
    def stamps(self) -> list[int]:
        """Timestamps that are sane by its own file."""
        return [self.content.stamps[at] for at in self.sane]

    @property
    def kept(self) -> list[int]:
        """Timestamps that are sane."""
        return self.stamps[: len(self.sane) - self.strays]

    @property
    def order(self) -> tuple[int, int, str, int]:
        """T1: declared start, else median; then median; then identity."""
        begin = self.declared[0] if self.declared else 0
        stamps = sorted(self.stamps)
        median = stamps[(len(stamps) - 1) // 2] if stamps else begin
        return (begin if self.declared else median), median, self.content.id, begin


@lru_cache(4096)
def sane_positions(stamps: tuple[int, ...], jump: int) -> tuple[int, ...]:
    """Positions of the records that no record of their own file shows to lead (T3)."""
    clocks = list(accumulate(stamps, max))
    if all(clock - stamp <= jump for clock, stamp in zip(clocks, stamps, strict=True)):
        return tuple(range(len(stamps)))
    from lowwater.capture.records.sanity import Judge  # loads a compiler

    jumps = Judge(jump).settle(np.array(stamps, np.int64), final=True)
    return tuple(np.flatnonzero(~jumps).tolist())


def _pause(stamps: Sequence[int]) -> int:
    return max((after - before for before, after in pairwise(accumulate(stamps, max))), default=0)


class Level(NamedTuple):
    """An end that leads all records of its file before it: their number and the largest of them, the least of it."""

    kept: int
    largest: int
    least: int


@lru_cache(4096)
def ends(stamps: tuple[int, ...], jump: int) -> tuple[Level, ...]:
    """The ends of a file that lead its own records, the longest first (T3)."""
    found = []
    for at in range(max(0, len(stamps) - SIDE), len(stamps)):
        least, before = min(stamps[at:]), stamps[:at]
        if not at:
            found.append(Level(0, -1, least))
        elif least - max(before) > max(jump, USUAL * _pause(before[-2 * SIDE :])):
            found.append(Level(at, max(before), least))
    return tuple(found)


@lru_cache(4096)
def begin(stamps: tuple[int, ...], jump: int) -> int:
    """The first timestamp of a file behind up to 16 that lie before the next 32 by more than a jump (T3)."""
    for at in range(min(SIDE, len(stamps) - SIDE - 1), 0, -1):
        behind = stamps[at : at + 2 * SIDE]
        if min(behind) - max(stamps[:at]) > max(jump, USUAL * _pause(behind)):
            return behind[0]
    return stamps[0]


def judge(captures: Sequence[Capture], jump: int) -> None:
    """Finds the records at the ends of captures, which are in order, that lead what follows (T3)."""
    having = [(capture, tuple(capture.stamps)) for capture in captures if capture.sane]
    clock = -1
    for number, (capture, stamps) in enumerate(having):
        behind = [(begin(other, jump), len(other)) for _, other in having[number + 1 :]]
        capture.strays, capture.followed = 0, bool(behind)
        for level in ends(stamps, jump):
            before = max(clock, level.largest)
            if before >= 0 and level.least - before <= jump:
                continue  # the clock of the link went on from there
            size = len(stamps) - level.kept
            if _leads(level, size, before, behind, jump, capture.declared):
                capture.strays = size
                break
        clock = max([clock, *capture.kept])


def _leads(
    level: Level, size: int, before: int, behind: Sequence[tuple[int, int]], jump: int, declared: Span | None
) -> bool:
    below = above = 0
    for first, count in behind:
        count = min(count, 2 * SIDE - below - above)
        if before - jump <= first < level.least - jump:
            below += count
        else:
            above += count
        if below + above == 2 * SIDE:
            break
    if below and below + (below + above if before >= 0 else 0) > size + above:
        return True
    return not above and declared is not None and 0 <= level.largest <= declared[1] + jump < level.least


def extent(capture: Capture, jump: int) -> Span:
    """First and largest timestamp within what is declared of a capture, for overlaps (T1), the last one included:
    without ends that lead, and begins that lie far before the rest."""
    stamps = tuple(capture.kept)
    if not stamps:
        return FOREVER, -1
    low, high = capture.declared or (0, FOREVER)
    first, largest = bounds(stamps, jump)
    return max(first, low), min(largest, high)


def bounds(stamps: tuple[int, ...], jump: int) -> Span:
    """First and largest of some timestamps, without an end that leads at least as many before it, and a begin that lies
    far before the rest. Of a few records that are far apart, the first one is no rule for the others."""
    leads = [level.largest for level in ends(stamps, jump) if 2 * level.kept >= len(stamps)]
    return begin(stamps, jump), min(leads, default=max(stamps))


def own_coverage(capture: Capture, jump: int, clock: int) -> Span:
    """What a capture covers by itself (T5), given the clock of the link before it."""
    stamps, declared = tuple(capture.kept), capture.declared
    if declared is not None:
        return declared if capture.whole else (declared[0], max(declared[0], min(declared[1], max(stamps, default=0))))
    if not stamps:
        return (capture.stamps[0],) * 2 if capture.sane else (0, 0)
    start, end, rest = stamps[0], max(stamps), begin(stamps, jump)
    if rest > start and (clock > start or rest - start > UNSURE):
        start = rest
    if not capture.followed:
        end = next((e.largest for e in ends(stamps, jump) if e.kept and e.least - e.largest > UNSURE), end)
    return start, max(start, end)


def account(captures: Sequence[Capture], settings: Link, life: Span) -> None:
    """Gives each record of captures, which are in order, its arrival and its account (T2, A1)."""
    clock = -1
    for capture in captures:
        capture.clock, capture.records = clock, []
        kept = {*capture.sane[: len(capture.sane) - capture.strays]}
        for position, stamp in enumerate(capture.content.stamps):
            if position in kept:
                clock = max(clock, stamp)
            arrival = clock if clock >= 0 else capture.covers[0]
            if position not in kept:
                what = MALFORMED
            elif not life[0] <= stamp < life[1]:
                what = OUTSIDE
            else:
                what = LATE if is_late(arrival, stamp, settings.skew) else SANE
            capture.records.append(Record(position, stamp, arrival, what))
