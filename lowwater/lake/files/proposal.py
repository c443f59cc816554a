"""Settings for captures that are there: their links, patterns, rotation, interval and skews, from what they hold.

Before a lake exists; `lowwater init` writes it down. Only a sample of the files of each link is read whole.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lowwater.capture.inspect import CaptureFacts, InterfaceFacts
from lowwater.config import Link
from lowwater.errors import ConfigError
from lowwater.instants import HOUR, SECOND
from lowwater.lake.files.dates import LENGTHS, Dating, dating
from lowwater.lake.files.names import Named, alike, name_links
from lowwater.lake.files.parting import Part, overlap, parts, pause
from lowwater.lake.files.sample import Sample, earliest, largest

MOST_FILES = 200_000
"""Files of a folder that are looked at; a tree of more is no folder of captures."""

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
        dating: what the dates in the names say.
        skew: bound of the disorder, ns.
        latest: the largest lateness in the sample, ns, also of a file behind the one before; above the skew where to
            admit it would be long.
        facts: the facts of the files of the sample.
        since: from when its captures cover, ns, not after the first record; None without a record.
        until: to when they do, ns, after the last record; None without one.
        of: pattern of files of several links that overlap in time, of which this is one; empty where it is alone.
        mixed: whether its own files overlap in time.
        tolerance: of pauses between its files, ns, where some are longer than what is tolerated anyway and no
            longer than the silences inside of its files; else 0.
    """

    named: Named
    dating: Dating
    skew: int
    latest: int
    facts: tuple[CaptureFacts, ...]
    since: int | None
    until: int | None
    of: str = ""
    mixed: bool = False
    tolerance: int = 0

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
    read = Sample(folder, sample, progress)
    found = [part for group in alike(_files(folder)) for part in parts(group, read)]
    by_names = {part.group.names: part for part in found}
    links = [
        link
        for named in name_links(part.group for part in found)
        if (link := _link(read, named, by_names[named.names])) is not None
    ]
    if not links:
        raise ConfigError(f"{folder}: there is no capture in it", "name the folder in which the capture files lie")
    lengths = [length for each in links if (length := each.dating.rotation) in LENGTHS and length and length > HOUR]
    links.sort(key=lambda each: each.named.link)
    return Proposal(tuple(links), max(lengths, default=HOUR), read.skipped)


def _files(folder: Path) -> list[str]:
    """Relative names of the files below a folder, without hidden ones; links to other folders are not followed."""
    found: list[str] = []
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [(Path(where) / name).relative_to(folder).as_posix() for name in names if not name.startswith(".")]
        if len(found) > MOST_FILES:
            raise ConfigError(f"{folder}: more than {MOST_FILES:,} files", "name a folder with the captures alone")
    return [name for name in found if (folder / name).is_file()]


def _link(sample: Sample, named: Named, part: Part) -> Proposed | None:
    """What is proposed for the files of a link; None where none of those that are read is a capture."""
    names = sample.in_order(named.names)
    read = sample.spread(names or named.names)
    facts = [found for name in read if (found := sample.facts(name)) is not None]
    if not facts:
        return None
    interfaces = [each for capture in facts for each in capture.interfaces]
    latest = max((each.lateness.largest for each in interfaces), default=0)
    behind = 0 if part.mixed else max(overlap(names, sample, read), 0)
    skew = max(_skew(interfaces), _usual(behind))
    dates = dating(sample.folder, named, facts, skew)
    since, until = dates.since, dates.until
    if dates.rotation is None:
        begins = [begin for each in facts if (begin := earliest(each, skew)) is not None]
        ends = [end for each in facts if (end := largest(each)) is not None]
        since, until = min(begins, default=None), max(ends) + 1 if ends else None
    between = 0 if part.mixed or dates.rotation else pause(names, sample, read)
    silence = max((length for each in interfaces for _, length in each.gaps.longest()), default=0)
    tolerance = _usual(between) if Link().gap_tolerance < between <= silence else 0
    return Proposed(named, dates, skew, max(latest, behind), tuple(facts), since, until, part.of, part.mixed, tolerance)


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
