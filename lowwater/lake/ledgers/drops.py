"""Drops that the captures of a link declare, over all of its files: which counters go on from file to file, and which
intervals the drops fall into (SEMANTICS A1).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lowwater.capture.records.drops import Counter, DeclaredDrops, Drops
from lowwater.instants import format_instant


@dataclass(frozen=True, slots=True)
class Lost:
    """Drops that a capture declares, within what it covers.

    Attributes:
        file: name of the file that says so.
        what: identity of its content; empty for a log beside the captures, whose drops are known by their times.
        begin: first instant, ns, at which they may have fallen.
        end: instant, ns, before which they fell; `begin` for a single one.
    """

    file: str
    what: str
    begin: int
    end: int
    drops: Drops

    def meets(self, start: int, end: int) -> bool:
        """Whether they may have fallen into [start, end), ns."""
        return self.begin < end and max(self.end, self.begin + 1) > start


def lost_of(captures: Iterable[tuple[str, str, DeclaredDrops, int, int]]) -> list[Lost]:
    """Returns what captures declare, in order of time: a counter that goes on adds what it rose since the file before.

    Args:
        captures: name, identity, drops and coverage [from, to), ns, of each capture of a link that declares some, in
            the order of SEMANTICS T1. A file that covers nothing has no more than the times of its drops.
    """
    found: list[Lost] = []
    before: dict[tuple[str, str], Counter] = {}
    for file, what, declared, covers_from, covers_to in captures:
        own = list(declared.ranges)
        for counter in declared.counters:
            key = counter.name, counter.source
            added = counter.adds(before.get(key))
            before[key] = counter
            if added is not None:
                own.append(added)
        found += (Lost(file, what, *_within(each, covers_from, covers_to), each) for each in own)
    return in_order(found)


def in_order(found: Iterable[Lost]) -> list[Lost]:
    """Sorts drops by time."""
    return sorted(found, key=lambda lost: (lost.begin, lost.end, lost.file, lost.what))


def _within(drops: Drops, covers_from: int, covers_to: int) -> tuple[int, int]:
    """Returns the part of their time that the capture covers: what it lost would be in it. Where no part of it is
    covered, or it covers nothing, one of the two is wrong, and the other stands."""
    begin = covers_from if drops.start is None else drops.start
    end = max(covers_to if drops.end is None else drops.end, begin)
    if covers_from >= covers_to:
        return begin, end
    low, high = max(begin, covers_from), min(end, covers_to)
    return (low, high) if low <= high else (covers_from, covers_to)


def counted(lost: Sequence[Lost]) -> tuple[int, int]:
    """Returns the number of lost records, and of those that their source saw, 0 if it does not say. Different sources
    tell of the same losses, so that which has most counts."""
    sums: dict[str, tuple[int, int]] = {}
    for each in lost:
        count, whole = sums.get(each.drops.source, (0, 0))
        sums[each.drops.source] = count + each.drops.count, whole + each.drops.whole
    return max(sums.values(), default=(0, 0))


def span_words(lost: Sequence[Lost]) -> str:
    """Says between which instants drops fell; at least one."""
    begin, end = min(each.begin for each in lost), max(each.end for each in lost)
    if begin == end:
        return f"at {format_instant(begin)}"
    return f"between {format_instant(begin)} and {format_instant(end)}"
