"""Proposed settings for existing captures: links, patterns, rotation, interval and skews.

Used by `lowwater init`, before a lake exists. Only a sample of the files of every link is read to the end.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from lowwater.capture.inspect import CaptureFacts, InterfaceFacts
from lowwater.config import Link
from lowwater.errors import ConfigError
from lowwater.instants import HOUR, SECOND
from lowwater.lake.files.dates import LENGTHS, NameDates, check_dates
from lowwater.lake.files.doubles import doubles
from lowwater.lake.files.logs import LogProposal
from lowwater.lake.files.names import LinkFiles, NameGroup, group_names, name_links
from lowwater.lake.files.parting import LinkGroup, overlap, pause, split_by_link
from lowwater.lake.files.protocols import RecordProposal
from lowwater.lake.files.sample import Sample, earliest, largest
from lowwater.storage import objects
from lowwater.storage.captures import StoredCapture

MOST_FILES = 200_000
"""Most files of a folder; a tree of more is no folder of captures."""

SKEWS = tuple(SECOND * n // 10 for n in (1, 2, 5, 10, 20, 50, 100, 200, 300, 600, 1200, 3000, 6000, 18000, 36000))
MOST_SKEW = 10 * SECOND
"""A longer skew is proposed only if a shorter one would refuse too many records."""

BEARABLE = 0.001
"""Largest share of the records that a proposed skew may refuse."""


@dataclass(frozen=True)
class LinkProposal:
    """Proposed settings of a link.

    Attributes:
        named: its files, by their names.
        dates: coverage according to the names.
        skew: bound of the disorder, ns.
        latest: largest lateness in the sample, ns, also of a file behind the one before. It exceeds the skew if a skew
            for all records would be too long.
        facts: facts of the files in the sample.
        since: begin of the captures' coverage, ns, not after the first record; None without a record.
        until: end of the captures' coverage, ns, after the last record; None without a record.
        of: pattern of files of several links that overlap in time, this link among them; empty for a single link.
        mixed: whether its own files overlap in time.
        tolerance: proposed gap tolerance, ns, if pauses between files exceed the default, but not the silences within
            files; else 0.
        records: protocol of the records, or the ready one of a log; None for packets.
    """

    named: LinkFiles
    dates: NameDates
    skew: int
    latest: int
    facts: tuple[CaptureFacts, ...]
    since: int | None
    until: int | None
    of: str = ""
    mixed: bool = False
    tolerance: int = 0
    records: RecordProposal | LogProposal | None = None

    @property
    def interfaces(self) -> tuple[InterfaceFacts, ...]:
        """Facts of all interfaces in the sample."""
        return tuple(interface for facts in self.facts for interface in facts.interfaces)


@dataclass(frozen=True)
class Proposal:
    """Proposed settings for a folder of captures.

    Attributes:
        links: proposals in the order of the links' names.
        interval: length of an interval, ns.
        skipped: file that is no capture -> reason.
        doubles: lines about links that have the same records.
    """

    links: tuple[LinkProposal, ...]
    interval: int
    skipped: dict[str, str] = field(default_factory=dict)
    doubles: tuple[str, ...] = ()


def propose(
    folder: Path,
    sample: int,
    progress: Callable[[str], None] = lambda text: None,
    names: Sequence[str] | None = None,
) -> Proposal:
    """Proposes settings for a folder of captures, and of other records.

    Args:
        folder: folder with the files of all links, in subfolders or side by side.
        sample: number of files of every link that are read to the end.
        names: the files, relative to the folder; None for all files in it, at any depth.
        progress: called with the name of the file that is being read.

    Raises:
        ConfigError: if the folder has no capture, or too many files.
    """
    read = Sample(folder, sample, progress)

    def read_group(group: NameGroup) -> list[LinkGroup]:
        (named,) = name_links([group])
        read.describe(group.names, named.link)
        return split_by_link(group, read)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        named_groups = group_names(files_below(folder) if names is None else names)
        groups = [part for parts in pool.map(read_group, named_groups) for part in parts]
    by_names = {part.group.names: part for part in groups}
    links = [
        link
        for named in name_links(part.group for part in groups)
        if (link := _link(read, named, by_names[named.names])) is not None
    ]
    if not links:
        reasons = "; ".join(f"{name}: {why}" for name, why in sorted(read.skipped.items())[:3])
        raise ConfigError(
            f"{folder}: the folder has no captures{f' ({reasons})' if reasons else ''}",
            "name the folder in which the capture files lie",
        )
    lengths = [length for link in links if (length := link.dates.rotation) in LENGTHS and length and length > HOUR]
    links.sort(key=lambda link: link.named.link)
    same = doubles(read, {link.named.link: link.named.names for link in links})
    return Proposal(tuple(links), max(lengths, default=HOUR), dict(sorted(read.skipped.items())), tuple(same))


def files_below(folder: Path) -> list[str]:
    """Lists relative names of the files below a folder, without hidden ones; does not follow links to folders."""
    names_found: list[str] = []
    if isinstance(folder, StoredCapture):
        for path in objects.walk(folder):
            names_found.append("/".join(path.parts[len(folder.parts) :]))
            _require_few(folder, names_found)
        return sorted(name for name in names_found if not re.search(r"(^|/)\.", name))
    for where, folders, file_names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        names_found += [
            (Path(where) / name).relative_to(folder).as_posix() for name in file_names if not name.startswith(".")
        ]
        _require_few(folder, names_found)
    return [name for name in names_found if (folder / name).is_file()]


def _require_few(folder: Path, names: Sequence[str]) -> None:
    if len(names) > MOST_FILES:
        raise ConfigError(f"{folder}: more than {MOST_FILES:,} files", "name a folder with the captures alone")


def _link(sample: Sample, named: LinkFiles, part: LinkGroup) -> LinkProposal | None:
    """Proposes settings for the files of a link; None if no file in the sample is a capture."""
    names = sample.in_order(named.names)
    read = sample.spread(names or named.names)
    facts = [capture_facts for name in read if (capture_facts := sample.facts(name)) is not None]
    if not facts:
        return None
    interfaces = [interface for capture in facts for interface in capture.interfaces]
    latest = max((interface.lateness.largest for interface in interfaces), default=0)
    behind = 0 if part.mixed else max(overlap(names, sample, read), 0)
    skew = max(_skew(interfaces), _usual(behind))
    dates = check_dates(sample.folder, named, facts, skew)
    since, until = dates.since, dates.until
    if dates.rotation is None:
        begins = [begin for capture in facts if (begin := earliest(capture, skew)) is not None]
        ends = [end for capture in facts if (end := largest(capture)) is not None]
        since, until = min(begins, default=None), max(ends) + 1 if ends else None
    between = 0 if part.mixed or dates.rotation else pause(names, sample, read)
    silence = max((length for interface in interfaces for _, length in interface.gaps.longest()), default=0)
    tolerance = _usual(between) if Link().gap_tolerance < between <= silence else 0
    return LinkProposal(
        named, dates, skew, max(latest, behind), tuple(facts), since, until, part.of, part.mixed, tolerance,
        sample.records.get(facts[0].path.relative_to(sample.folder).as_posix()),
    )  # fmt: skip


def _skew(interfaces: Sequence[InterfaceFacts]) -> int:
    """Returns the smallest common skew for all records, or for nearly all if that would be too long."""
    largest = max((interface.lateness.largest for interface in interfaces), default=0)
    bound = _usual(largest)
    if bound <= MOST_SKEW:
        return bound
    nearly = max((interface.lateness.quantile(1 - BEARABLE) or 0 for interface in interfaces), default=0)
    return min(bound, _usual(nearly))


def _usual(lateness: int) -> int:
    return next((skew for skew in SKEWS if skew >= lateness), lateness)
