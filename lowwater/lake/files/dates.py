"""Dates in the names of a link's files: begin and length of coverage, checked against the records of a sample.

Between the sample and the proposal. A date that a record contradicts is not used. Otherwise uncovered time would pass
for silence, and records outside of the coverage would be in no account (SEMANTICS T5).
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
from lowwater.lake.files.names import LinkFiles
from lowwater.lake.files.rotation import declared_coverage
from lowwater.lake.files.sample import earliest, largest

MINUTE = 60 * SECOND
LENGTHS = tuple(MINUTE * n for n in (1, 2, 5, 10, 15, 20, 30)) + tuple(HOUR * n for n in (1, 2, 3, 4, 6, 8, 12, 24))
"""Candidates for the length of a rotation, and of an interval."""

NEAR = 20
"""Divisor for tolerances: a link begins, and a single file fills its time, within this part of a rotation."""


@dataclass(frozen=True)
class NameDates:
    """Coverage of a link's files according to their names.

    Attributes:
        rotation: time that a file covers from the instant in its name, ns; None if the names do not tell.
        why: reason why there is no rotation, for the user; else empty.
        guessed: whether the rotation is guessed from a single file.
        ahead: lead of the instants in the names over the records, ns, if it is a difference of time zones.
        since: begin of the files' coverage, ns; None without a rotation.
        until: end of the files' coverage, ns; None without a rotation.
    """

    rotation: int | None = None
    why: str = ""
    guessed: bool = False
    ahead: int = 0
    since: int | None = None
    until: int | None = None


def check_dates(folder: Path, named: LinkFiles, facts: Sequence[CaptureFacts], skew: int) -> NameDates:
    """Reads the dates in the names of a link's files, and checks them against the records of a sample.

    Args:
        folder: folder to which the names are relative.
        named: the files of a link.
        facts: facts of some of the files, among them the first and the last file with a record.
        skew: bound of the disorder of the link, ns.
    """
    if not named.dated:
        return NameDates(why="the files have no date in their names")
    starts = {folder / name: start for name in named.names if (start := _start(folder, named, name)) is not None}
    dated = [capture for capture in facts if capture.path in starts and largest(capture) is not None]
    if not dated:
        return NameDates(why="no file holds a record by which the dates in the names can be checked")
    ordered = sorted(starts.values())
    distances = [after - before for before, after in pairwise(ordered)]
    single = len(starts) == 1
    if 0 in distances:
        return NameDates(why="several files have the same date in their names")
    rotation = _next_length(dated[0]) if single else _most_frequent(distances)
    if rotation is None:
        return NameDates(why="the dates in the names are at no regular distance")
    if contradicting := _no_restart(ordered, starts, dated, rotation, skew):
        name = format_instant(starts[contradicting.path])
        return NameDates(
            why=f"most files are {format_duration(rotation)} apart by their names, but the records of that of {name} "
            "go on when the next one begins"
        )
    ahead = _ahead(starts, dated)
    since, until = ordered[0] - ahead, ordered[-1] - ahead + rotation
    for capture in dated:
        start = starts[capture.path] - ahead
        bounds = (start - (skew if start > since else 0), start + rotation + (skew if start + rotation < until else 0))
        if single:
            tolerance = rotation // NEAR
            if not (start <= _begin(capture, skew) <= start + tolerance and until - tolerance <= _end(capture) < until):
                return NameDates(why=_contradiction(named, capture, starts[capture.path], skew))
        elif not bounds[0] <= _begin(capture, skew) <= _end(capture) < bounds[1]:
            return NameDates(why=_contradiction(named, capture, starts[capture.path], skew))
    first = min(dated, key=lambda capture: starts[capture.path])
    late = _begin(first, skew)
    if starts[first.path] == ordered[0] and late > since + rotation // NEAR:
        since = late  # the capture began within the time of its first file
    return NameDates(rotation, "", single, ahead, since, until)


def _no_restart(
    ordered: Sequence[int], starts: Mapping[Path, int], dated: Sequence[CaptureFacts], rotation: int, skew: int
) -> CaptureFacts | None:
    """Returns a file that another one follows sooner than its rotation, though its records go on; None without one.

    A recorder that is started again begins a file at once. The file before it then covers to its last record (T5).
    """
    following = dict(pairwise(ordered))
    ahead = _ahead(starts, dated)
    for capture in dated:
        start = starts[capture.path]
        after = following.get(start)
        if after is not None and after < start + rotation - skew and _end(capture) + ahead > after + skew:
            return capture
    return None


def _start(folder: Path, named: LinkFiles, name: str) -> int | None:
    """Returns the instant in the name of a file, taken as UTC, ns; None without one."""
    pattern = f"{folder.absolute().as_posix().replace('%', '%%')}/{named.pattern}"
    coverage = declared_coverage(Link(captures=(pattern,), rotation=SECOND), folder / name)
    return coverage[0] if coverage else None


def _next_length(facts: CaptureFacts) -> int | None:
    durations = [interface.duration or 0 for interface in facts.interfaces]
    return next((length for length in LENGTHS if length >= max(durations)), None)


def _most_frequent(distances: Sequence[int]) -> int | None:
    """Returns the most frequent distance, if at least half of the distances have it."""
    (length, count), *_ = sorted(Counter(distances).items(), key=lambda item: (-item[1], item[0]))
    return length if 2 * count >= len(distances) else None


def _ahead(starts: Mapping[Path, int], facts: Sequence[CaptureFacts]) -> int:
    """Returns the lead of the names over the records if all have the same, in whole quarters of an hour; else 0."""
    offsets = set()
    for capture in facts:
        first = earliest(capture, 0)
        if first is not None:
            offsets.add((starts[capture.path] - first + 7 * MINUTE + MINUTE // 2) // (15 * MINUTE) * 15 * MINUTE)
    ahead = offsets.pop() if len(offsets) == 1 else 0
    return ahead if abs(ahead) <= 14 * HOUR else 0


def _begin(facts: CaptureFacts, skew: int) -> int:
    return earliest(facts, skew) or 0


def _end(facts: CaptureFacts) -> int:
    return largest(facts) or 0


def _contradiction(named: LinkFiles, facts: CaptureFacts, start: int, skew: int) -> str:
    name = next(candidate for candidate in named.names if facts.path.as_posix().endswith(candidate))
    begin, end = format_instant(_begin(facts, skew)), format_instant(_end(facts))
    return f"the records contradict the names: {name} says {format_instant(start)}, its records are of {begin} to {end}"
