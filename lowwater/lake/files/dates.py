"""What the dates in the names of a link's files claim: when each begins and how long it covers, by their records.

Between the sample and the proposal. A claim that a record contradicts is not made: what a file is said to cover but
does not hold would pass for silence, and a record outside of it would be in no account (SEMANTICS T5).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from lowwater.capture.inspect import CaptureFacts
from lowwater.config import Link
from lowwater.instants import HOUR, SECOND, format_duration, format_instant
from lowwater.lake.files.names import Named
from lowwater.lake.files.rotation import declared_coverage
from lowwater.lake.files.sample import earliest, largest

MINUTE = 60 * SECOND
LENGTHS = tuple(MINUTE * n for n in (1, 2, 5, 10, 15, 20, 30)) + tuple(HOUR * n for n in (1, 2, 3, 4, 6, 8, 12, 24))
"""Lengths that a rotation is taken for, and of which an interval can be."""

NEAR = 20
"""A file begins with its link, and a lone one fills its time, but for one part in so many."""


@dataclass(frozen=True)
class Dating:
    """What the names of a link's files say.

    Attributes:
        rotation: how long a file covers from the instant in its name, ns; None where the names do not say it.
        why: why there is none, for a person; empty where there is one.
        guessed: whether one file had to tell it.
        ahead: how far the instants in the names are ahead of the records, ns, where it is a difference of zones.
        since: from when the files cover, ns; None without a rotation.
        until: to when.
    """

    rotation: int | None = None
    why: str = ""
    guessed: bool = False
    ahead: int = 0
    since: int | None = None
    until: int | None = None


def dating(folder: Path, named: Named, facts: Sequence[CaptureFacts], skew: int) -> Dating:
    """What the dates in the names say, where the records of a sample do not contradict it.

    Args:
        folder: the folder of the names.
        named: the files of a link.
        facts: of some of them; of the first and the last that hold a record for one.
        skew: bound of the disorder of the link, ns.
    """
    if not named.dated:
        return Dating(why="the files have no date in their names")
    starts = {folder / name: start for name in named.names if (start := _start(folder, named, name)) is not None}
    known = [each for each in facts if each.path in starts and largest(each) is not None]
    if not known:
        return Dating(why="no file holds a record by which the dates in the names can be checked")
    ordered = sorted(starts.values())
    distances = [after - before for before, after in pairwise(ordered)]
    lone = len(starts) == 1
    if 0 in distances:
        return Dating(why="several files have the same date in their names")
    rotation = _next_length(known[0]) if lone else _most_frequent(distances)
    if rotation is None:
        return Dating(why="the dates in the names are at no regular distance")
    if min(distances, default=rotation) < rotation - skew:
        return Dating(why=f"most files are {format_duration(rotation)} apart by their names, but not all that far")
    ahead = _ahead(starts, known)
    since, until = ordered[0] - ahead, ordered[-1] - ahead + rotation
    for each in known:
        start = starts[each.path] - ahead
        bounds = (start - (skew if start > since else 0), start + rotation + (skew if start + rotation < until else 0))
        if lone:
            near = rotation // NEAR
            if not (start <= _begin(each, skew) <= start + near and until - near <= _end(each) < until):
                return Dating(why=_contradiction(named, each, starts[each.path], skew))
        elif not bounds[0] <= _begin(each, skew) <= _end(each) < bounds[1]:
            return Dating(why=_contradiction(named, each, starts[each.path], skew))
    first = min(known, key=lambda each: starts[each.path])
    late = _begin(first, skew)
    if starts[first.path] == ordered[0] and late > since + rotation // NEAR:
        since = late  # the capture began inside of the time of its first file
    return Dating(rotation, "", lone, ahead, since, until)


def _start(folder: Path, named: Named, name: str) -> int | None:
    """When a file begins by its name, taken as UTC, ns."""
    pattern = f"{folder.absolute().as_posix().replace('%', '%%')}/{named.pattern}"
    coverage = declared_coverage(Link(captures=pattern, rotation=SECOND), folder / name)
    return coverage[0] if coverage else None


def _next_length(facts: CaptureFacts) -> int | None:
    durations = [each.duration or 0 for each in facts.interfaces]
    return next((length for length in LENGTHS if length >= max(durations)), None)


def _most_frequent(distances: Sequence[int]) -> int | None:
    """The most frequent distance of two files, where it is that of half of them."""
    (length, count), *_ = sorted(Counter(distances).items(), key=lambda each: (-each[1], each[0]))
    return length if 2 * count >= len(distances) else None


def _ahead(starts: Mapping[Path, int], facts: Sequence[CaptureFacts]) -> int:
    """How far the names are ahead of the records, where it is the same whole number of quarters of an hour in all."""
    found = set()
    for each in facts:
        first = earliest(each, 0)
        if first is not None:
            found.add((starts[each.path] - first + 7 * MINUTE + MINUTE // 2) // (15 * MINUTE) * 15 * MINUTE)
    ahead = found.pop() if len(found) == 1 else 0
    return ahead if abs(ahead) <= 14 * HOUR else 0


def _begin(facts: CaptureFacts, skew: int) -> int:
    return earliest(facts, skew) or 0


def _end(facts: CaptureFacts) -> int:
    return largest(facts) or 0


def _contradiction(named: Named, facts: CaptureFacts, start: int, skew: int) -> str:
    name = next(each for each in named.names if facts.path.as_posix().endswith(each))
    begin, end = format_instant(_begin(facts, skew)), format_instant(_end(facts))
    return f"the records contradict the names: {name} says {format_instant(start)}, its records are of {begin} to {end}"
