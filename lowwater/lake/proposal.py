"""Settings for captures that are there: their links, patterns, rotation, interval and skews, from what they hold.

Before a lake exists; `lowwater init` writes it down. Only a sample of the files of each link is read whole.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from lowwater.capture.header import open_capture
from lowwater.capture.inspect import CaptureFacts, InterfaceFacts, inspect
from lowwater.config import HOUR, SECOND, Link
from lowwater.errors import CaptureError, ConfigError
from lowwater.lake.naming import Named, by_link
from lowwater.lake.rotation import declared_coverage

MOST_FILES = 200_000
"""Files of a folder that are looked at; a tree of more is no folder of captures."""

MINUTE, DAY = 60 * SECOND, 24 * HOUR
LENGTHS = tuple(MINUTE * n for n in (1, 2, 5, 10, 15, 20, 30)) + tuple(HOUR * n for n in (1, 2, 3, 4, 6, 8, 12, 24))
"""Lengths that a rotation is taken for, and of which an interval can be."""

SKEWS = tuple(SECOND * n // 10 for n in (1, 2, 5, 10, 20, 50, 100, 200, 300, 600, 1200, 3000, 6000, 18000, 36000))
MOST_SKEW = 10 * SECOND
"""Above this bound a skew that admits every record of the sample is only proposed where it costs few records."""

BEARABLE = 0.001
"""Share of the records that a proposed skew may refuse."""


@dataclass(frozen=True)
class Proposed:
    """A link as its files show it.

    Attributes:
        named: its files by their names.
        rotation: ns; None where the names do not say it.
        guessed: whether one file had to tell the rotation.
        ahead: how far the instants in the names are ahead of the records, ns, where it is a difference of zones.
        skew: bound of the disorder, ns.
        latest: the largest lateness in the sample, ns; above the skew where to admit it would be long.
        facts: of the files of the sample.
        since: begin of the earliest file, ns; `until` the end of the latest; None without a dated name or a record.
    """

    named: Named
    rotation: int | None
    guessed: bool
    ahead: int
    skew: int
    latest: int
    facts: tuple[CaptureFacts, ...]
    since: int | None
    until: int | None

    @property
    def interfaces(self) -> tuple[InterfaceFacts, ...]:
        """Of all files of the sample."""
        return tuple(each for facts in self.facts for each in facts.interfaces)


@dataclass(frozen=True)
class Proposal:
    """What is proposed for a folder.

    Attributes:
        links: in order of their names.
        interval: ns.
        skipped: files that are no captures, with why.
    """

    links: tuple[Proposed, ...]
    interval: int
    skipped: dict[str, str] = field(default_factory=dict)


def propose(folder: Path, sample: int, progress: Callable[[str], None] = lambda text: None) -> Proposal:
    """Looks through a folder of captures.

    Args:
        folder: with the files of all links, in folders or side by side.
        sample: files of each link that are read whole.
        progress: is told what is being read.

    Raises:
        ConfigError: there is no capture in it, or too many files.
    """
    skipped: dict[str, str] = {}
    found = []
    for named in by_link(_files(folder)):
        facts = []
        for name in _spread(named.names, sample):
            progress(name)
            try:
                open_capture(folder / name)
                facts.append(inspect(folder / name, Link().jump, Link().skew))
            except CaptureError as error:
                skipped[name] = error.message
        if facts:
            found.append(_link(folder, named, facts))
    if not found:
        raise ConfigError(f"{folder}: there is no capture in it", "name the folder in which the capture files lie")
    lengths = [each.rotation for each in found if each.rotation in LENGTHS and each.rotation and each.rotation > HOUR]
    links = sorted(found, key=lambda each: each.named.link)
    return Proposal(tuple(links), max(lengths, default=HOUR), skipped)


def _files(folder: Path) -> list[str]:
    """Relative names of the files below a folder, without hidden ones; links to other folders are not followed."""
    found: list[str] = []
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [(Path(where) / name).relative_to(folder).as_posix() for name in names if not name.startswith(".")]
        if len(found) > MOST_FILES:
            raise ConfigError(f"{folder}: more than {MOST_FILES:,} files", "name a folder with the captures alone")
    return [name for name in found if (folder / name).is_file()]


def _spread(names: Sequence[str], count: int) -> list[str]:
    """The first, the last and some between them."""
    if len(names) <= count:
        return list(names)
    step = (len(names) - 1) / max(count - 1, 1)
    return [names[round(number * step)] for number in range(count)]


def _link(folder: Path, named: Named, facts: Sequence[CaptureFacts]) -> Proposed:
    starts = _starts(folder, named)
    durations = [each.duration or 0 for capture in facts for each in capture.interfaces]
    rotation = _rotation(starts, durations)
    ahead = _ahead(folder, named, facts) if rotation else 0
    interfaces = [each for capture in facts for each in capture.interfaces]
    latest = max((each.lateness.largest for each in interfaces), default=0)
    since, until = _life(interfaces)
    if starts and rotation:
        since, until = starts[0] - ahead, starts[-1] - ahead + rotation
    return Proposed(named, rotation, len(starts) == 1, ahead, _skew(interfaces), latest, tuple(facts), since, until)


def _life(interfaces: Sequence[InterfaceFacts]) -> tuple[int | None, int | None]:
    """The smallest and the largest timestamp of the sample, ns; None without a record."""
    known = [each.summary for each in interfaces if each.summary]
    first = min((each.smallest for each in known if each.smallest is not None), default=None)
    return first, max((each.largest for each in known if each.largest is not None), default=None)


def _starts(folder: Path, named: Named) -> list[int]:
    """When the files begin by their names, ns, in order."""
    found = [_named_start(folder, named, folder / name) for name in named.names]
    return sorted({start for start in found if start is not None})


def _named_start(folder: Path, named: Named, path: Path) -> int | None:
    """When a file begins by its name, taken as UTC, ns."""
    if not named.dated:
        return None
    pattern = f"{folder.absolute().as_posix().replace('%', '%%')}/{named.pattern}"
    coverage = declared_coverage(Link(captures=pattern, rotation=SECOND), path)
    return coverage[0] if coverage else None


def _rotation(starts: Sequence[int], durations: Sequence[int]) -> int | None:
    """The most frequent distance of two files; of a lone file the next usual length above what it holds."""
    if len(starts) == 1:
        return next((length for length in LENGTHS if length >= max(durations, default=0)), None)
    distances = Counter(after - before for before, after in pairwise(starts))
    if not distances:
        return None
    (length, count), *_ = sorted(distances.items(), key=lambda each: (-each[1], each[0]))
    return length if 2 * count >= len(starts) - 1 else None


def _ahead(folder: Path, named: Named, facts: Sequence[CaptureFacts]) -> int:
    """How far the names are ahead of the records, where it is the same whole number of quarters of an hour in all."""
    found = set()
    for each in facts:
        firsts = [s.smallest for i in each.interfaces if (s := i.summary) and s.smallest is not None]
        start = _named_start(folder, named, each.path)
        if firsts and start is not None:
            found.add((start - min(firsts) + 7 * MINUTE + MINUTE // 2) // (15 * MINUTE) * 15 * MINUTE)
    ahead = found.pop() if len(found) == 1 else 0
    return ahead if abs(ahead) <= 14 * HOUR else 0


def _skew(interfaces: Sequence[InterfaceFacts]) -> int:
    """The least usual bound that admits all records, or nearly all where that would be long."""
    largest = max((each.lateness.largest for each in interfaces), default=0)
    bound = _usual(largest)
    if bound <= MOST_SKEW:
        return bound
    nearly = max((each.lateness.quantile(1 - BEARABLE) or 0 for each in interfaces), default=0)
    return min(bound, _usual(nearly))


def _usual(lateness: int) -> int:
    return next((skew for skew in SKEWS if skew >= lateness), lateness)
