"""Which files of like names are captures of several links: a link's own do not overlap in time (SEMANTICS T1).

Between the names and the proposal. Captures of one link begin where others end, within their disorder; captures of
several links that were taken at the same time overlap, and a number in their names tells the links apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from lowwater.instants import SECOND
from lowwater.lake.files.names import Alike
from lowwater.lake.files.sample import Sample, largest

DISORDER = 10 * SECOND
"""Captures that overlap by more are of several links; by less, where it is less than half of either, disorder."""

MOST_PLACES = 6
"""Numbers of a name of which it is tried which ones tell the links apart."""

Span = tuple[int, int]
"""The first and the largest timestamp of a file, ns."""


@dataclass(frozen=True)
class Part:
    """Files of one link.

    Attributes:
        group: the files.
        of: pattern of all files of like names, where they are of several links that overlap in time; else empty.
        mixed: whether its files overlap in time, and no number in their names tells why.
    """

    group: Alike
    of: str = ""
    mixed: bool = False


def parts(group: Alike, sample: Sample) -> list[Part]:
    """The files of a group by link: all of them one, unless captures overlap in time."""
    names = sample.in_order(group.names)
    if len(names) < 2 or not _overlaps(names, sample, sample.spread(names)):
        return [Part(group)]
    spans = _spans(names, sample)
    known = Alike({name: group.counters[name] for name in spans})
    differing = known.differing[:MOST_PLACES]
    choices = [places for count in range(1, len(differing) + 1) for places in combinations(differing, count)]
    apart = [found for places in choices if not _mixed(found := group.by(places), spans)]
    return [Part(each, of=group.pattern) for each in min(apart, key=len)] if apart else [Part(group, mixed=True)]


def _mixed(groups: Iterable[Alike], spans: Mapping[str, Span]) -> bool:
    return any(together(spans[name] for name in each.names if name in spans) for each in groups)


def together(spans: Iterable[Span]) -> bool:
    """Whether some of the files were taken at the same time, so that they are not of one link."""
    ordered = sorted(spans)
    return any(_beside(before, after) for before, after in pairwise(ordered))


def overlap(names: Sequence[str], sample: Sample, read: Iterable[str]) -> int:
    """By how much a file that was read whole overlaps the next one, at most, ns; of files in order."""
    return max((-pause for pause in _pauses(names, sample, read)), default=0)


def pause(names: Sequence[str], sample: Sample, read: Iterable[str]) -> int:
    """The longest time from the end of a file that was read whole to the next one, at most, ns; of files in order."""
    return max(_pauses(names, sample, read), default=0)


def _pauses(names: Sequence[str], sample: Sample, read: Iterable[str]) -> Iterator[int]:
    after = dict(pairwise(names))
    for name in read:
        span, follower = _span(name, sample), after.get(name)
        if span and follower and (begins := sample.first(follower)) is not None:
            yield begins - span[1]


def _overlaps(names: Sequence[str], sample: Sample, read: Iterable[str]) -> bool:
    """Whether files that are read whole were taken at the same time as the next ones; those are read where it seems."""
    after = dict(pairwise(names))
    for name in read:
        span, follower = _span(name, sample), after.get(name)
        begins = sample.first(follower) if follower else None
        if span and follower and begins is not None and begins < span[1]:
            beside = _span(follower, sample)
            if beside and _beside(span, beside):
                return True
    return False


def _beside(before: Span, after: Span) -> bool:
    shared = min(before[1], after[1]) - after[0]
    shorter = min(before[1] - before[0], after[1] - after[0])
    return shared > 0 and (shared > DISORDER or 2 * shared >= shorter)


def _spans(names: Sequence[str], sample: Sample) -> dict[str, Span]:
    return {name: span for name in names if (span := _span(name, sample)) is not None}


def _span(name: str, sample: Sample) -> Span | None:
    facts, first = sample.facts(name), sample.first(name)
    end = largest(facts) if facts else None
    return None if first is None or end is None else (first, end)
