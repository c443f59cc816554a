"""Division of files with similar names into links: the captures of one link do not overlap in time (SEMANTICS T1).

Between the names and the proposal. A capture of a link begins where another ends, within its disorder. Captures of
several links, taken at the same time, overlap; a number in their names tells the links apart. Files whose names differ
in a word are of one link where each begins as the one before ends (`joining`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from lowwater.instants import SECOND
from lowwater.lake.files.names import NameGroup
from lowwater.lake.files.parts import plain
from lowwater.lake.files.sample import Sample, largest
from lowwater.lake.ledgers.silences import FACTOR

DISORDER = 10 * SECOND
"""A longer overlap means several links; so does a shorter one of at least half of the shorter capture."""

MOST_PLACES = 6
"""Most numbers of a name that are tried to tell the links apart."""

Span = tuple[int, int]
"""First and largest timestamp of a file, ns."""


@dataclass(frozen=True)
class JoinedGroup:
    """Files whose names differ in a word, and that are of one link by their times.

    Attributes:
        names: names of the files, sorted.
        patterns: their patterns.
        bare: a name with placeholders for what differs.
    """

    names: tuple[str, ...]
    patterns: tuple[str, ...]
    bare: str


@dataclass(frozen=True)
class LinkGroup:
    """The files of a link.

    Attributes:
        group: the files.
        of: pattern of all files with similar names, if these are of several links; else empty.
        mixed: whether its files overlap in time, and no number in their names explains it.
        notes: other readings of the names, for the user.
    """

    group: NameGroup | JoinedGroup
    of: str = ""
    mixed: bool = False
    notes: tuple[str, ...] = ()


def split_by_link(group: NameGroup, sample: Sample) -> list[LinkGroup]:
    """Divides the files of a group by link; all are of one link unless captures overlap in time."""
    names = _apart(sample.in_order(group.names))
    if len(names) < 2 or not _overlaps(names, sample, sample.spread(names)):
        return [LinkGroup(group)]
    spans = _spans(names, sample)
    differing = group.differing(spans)[:MOST_PLACES]
    choices = [places for count in range(1, len(differing) + 1) for places in combinations(differing, count)]
    disorder = sample.disorder(names)
    choices_apart = [divided for places in choices if not _mixed(divided := group.by(places), spans, disorder)]
    return (
        [LinkGroup(members, of=", ".join(group.patterns)) for members in min(choices_apart, key=len)]
        if choices_apart
        else [LinkGroup(group, mixed=True)]
    )


def _apart(names: Sequence[str]) -> list[str]:
    """Leaves out a file that lies there compressed, or decompressed, as well."""
    return list({plain(name): name for name in reversed(names)}.values())[::-1]


def _mixed(groups: Iterable[NameGroup], spans: Mapping[str, Span], disorder: int) -> bool:
    return any(any_overlap((spans[name] for name in group.names if name in spans), disorder) for group in groups)


def any_overlap(spans: Iterable[Span], disorder: int = 0) -> bool:
    """Whether some files were taken at the same time, and so are of different links."""
    ordered = sorted(spans)
    return any(beside(before, after, disorder) for before, after in pairwise(ordered))


def overlap(names: Sequence[str], sample: Sample, read: Iterable[str]) -> int:
    """Returns the largest overlap (ns) of a file among `read` with the next one; names are in order of time."""
    return max((-pause for pause in _pauses(names, sample, read)), default=0)


def pause(names: Sequence[str], sample: Sample, read: Iterable[str], silence: int) -> int:
    """Returns the longest usual pause (ns) between a file among `read` and the next one; names are in order of time.

    A pause that is long beside the silences inside of files is a gap: the recorder was stopped.

    Args:
        names: the files.
        sample: knows their records.
        read: the files that were read to the end.
        silence: longest silence inside of files, ns.
    """
    return max((length for length in _pauses(names, sample, read) if length <= FACTOR * silence), default=0)


def _pauses(names: Sequence[str], sample: Sample, read: Iterable[str]) -> Iterator[int]:
    after = dict(pairwise(names))
    for name in read:
        found, follower = span(name, sample), after.get(name)
        if found and follower and (begins := sample.first(follower)) is not None:
            yield begins - found[1]


def _overlaps(names: Sequence[str], sample: Sample, read: Iterable[str]) -> bool:
    """Whether a file among `read` was taken at the same time as the next one, which is read only if they overlap."""
    after = dict(pairwise(names))
    for name in read:
        found, follower = span(name, sample), after.get(name)
        begins = sample.first(follower) if follower else None
        if found and follower and begins is not None and begins < found[1]:
            other = span(follower, sample)
            if other and beside(found, other, sample.disorder((name, follower))):
                return True
    return False


def beside(before: Span, after: Span, disorder: int = 0) -> bool:
    """Whether two files were taken at the same time.

    Args:
        before: the file that begins first.
        after: the other one.
        disorder: by how much the records of a log are behind, ns, since it writes them when they end; 0 for packets.
    """
    shared = min(before[1], after[1]) - after[0]
    if disorder:
        return shared > max(DISORDER, disorder)
    shorter = min(before[1] - before[0], after[1] - after[0])
    return shared > 0 and (shared > DISORDER or 2 * shared >= shorter)


def _spans(names: Sequence[str], sample: Sample) -> dict[str, Span]:
    return {name: found for name in names if (found := span(name, sample)) is not None}


def span(name: str, sample: Sample) -> Span | None:
    """First and largest timestamp of a file, ns; None without a record."""
    facts, first = sample.facts(name), sample.first(name)
    end = largest(facts) if facts else None
    return None if first is None or end is None else (first, end)
