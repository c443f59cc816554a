"""Proposed settings for existing captures: links, patterns, rotation, interval and skews.

Used by `lowwater init`, before a lake exists. Only a sample of the files of every link is read to the end.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from lowwater.capture.inspect import CaptureFacts, InterfaceFacts
from lowwater.config import Link
from lowwater.errors import ConfigError
from lowwater.instants import HOUR, SECOND, format_duration, format_instant
from lowwater.lake.files.dates import LENGTHS, NameDates, check_dates, confirmed
from lowwater.lake.files.links import LinkGroup, doubles, join_links, overlap, pause, split_by_link
from lowwater.lake.files.names import Form, LinkFiles, NameGroup, group_names, name_links, plain
from lowwater.lake.files.patterns import is_dated, literal, regex_of
from lowwater.lake.files.protocols import LogProposal, RecordProposal
from lowwater.lake.files.sample import Sample, earliest, largest
from lowwater.limits import COMPARED_NAMES, PROPOSAL_READ_BYTES, PROPOSED_FILES
from lowwater.storage import objects
from lowwater.storage.captures import StoredCapture
from lowwater.storage.untrusted import open_regular

SKEWS = tuple(SECOND * n // 10 for n in (1, 2, 5, 10, 20, 50, 100, 200, 300, 600, 1200, 3000, 6000, 18000, 36000))
MOST_SKEW = 10 * SECOND
"""A longer skew is proposed only if a shorter one would refuse too many records."""

BEARABLE = 0.001
"""Largest share of the records that a proposed skew may refuse."""

NO_DISORDER = 24 * 3600 * SECOND
"""Lateness (ns) that no skew is proposed for: records of another day are of a clock that was not set."""

SAID = 5
"""Most files that are named for one reason."""


COUNTABLE = re.compile(r"(?:\.pcap|\.cap|\.dmp|\.dump|%S)$")
"""Dated names to which tcpdump may append a count."""

COPY_BEGINNING = 1 << 16
"""Bytes that are compared before the whole files are."""

LEAST_COPY = 100
"""Fewest bytes of a file that is a copy of another one: captures without a packet are alike."""


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
        notes: what the names and the files leave open or lack, for the user.
        tolerance: proposed gap tolerance, ns, if pauses between files exceed the default, but are not long beside the
            silences within files; else 0.
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
    notes: tuple[str, ...] = ()
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
        names: the files, relative to the folder; None for all files in it, at any depth.

    Raises:
        ConfigError: if the folder has no capture, or too many files.
    """
    read = Sample(folder, sample, progress)

    def read_group(group: NameGroup) -> list[LinkGroup]:
        read.copies.update(_copies(folder, group.names, progress))
        (named,) = name_links([group])
        read.describe(group.names, named.link)
        if group.weak and not confirmed(folder, named, _firsts(read, group)):
            return [part for each in group_names(group.names, Form(weak=False)) for part in split_by_link(each, read)]
        return split_by_link(group, read)

    found = files_below(folder) if names is None else names
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        groups = [part for parts in pool.map(read_group, group_names(found)) for part in parts]
    groups = join_links(groups, read)
    by_names = {part.group.names: part for part in groups}
    links = [
        link
        for named in name_links(part.group for part in groups)
        if (link := _link(read, named, by_names[named.names])) is not None
    ]
    links = _without_others(links)
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


def _without_others(links: Sequence[LinkProposal]) -> list[LinkProposal]:
    """Lists the files of a link by name where its pattern would take files of another one, too."""
    if len(links) * sum(len(link.named.names) for link in links) > COMPARED_NAMES:
        return list(links)
    kept = []
    for link in links:
        patterns = [regex_of(pattern) for pattern in link.named.patterns]
        others = (other for other in links if other is not link)
        taken = [each.named.link for each in others if any(p.fullmatch(n) for p in patterns for n in each.named.names)]
        if taken:
            why = f"a pattern would take files of {', '.join(taken)} as well: its files are listed by name"
            named = replace(link.named, patterns=tuple(map(literal, link.named.names)))
            begins = [begin for capture in link.facts if (begin := earliest(capture, link.skew)) is not None]
            ends = [end + 1 for capture in link.facts if (end := largest(capture)) is not None]
            since, until = min(begins, default=None), max(ends, default=None)
            dates = NameDates(why=why)
            link = replace(link, named=named, dates=dates, since=since, until=until, notes=(*link.notes, why))
        kept.append(link)
    return kept


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
    if len(names) > PROPOSED_FILES:
        raise ConfigError(f"{folder}: more than {PROPOSED_FILES:,} files", "name a folder with the captures alone")


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
    records = sample.records.get(facts[0].path.relative_to(sample.folder).as_posix())
    dates = check_dates(sample.folder, named, facts, skew, early=records is not None)
    named = _settled(named, dates, packets=records is None)
    since, until = dates.since, dates.until
    if not dates.declared:
        begins = [begin for capture in facts if (begin := earliest(capture, skew)) is not None]
        ends = [end for capture in facts if (end := largest(capture)) is not None]
        since, until = min(begins, default=None), max(ends) + 1 if ends else None
    silence = max((length for interface in interfaces for _, length in interface.gaps.longest()), default=0)
    between = 0 if part.mixed or dates.declared else pause(names, sample, read, silence)
    tolerance = _usual(between) if between > Link().gap_tolerance else 0
    notes = (*part.notes, *_notes(sample, named, dates))
    return LinkProposal(
        named, dates, skew, max(latest, behind), tuple(facts), since, until,
        part.of, part.mixed, tolerance, notes, records,
    )  # fmt: skip


def _settled(named: LinkFiles, dates: NameDates, packets: bool) -> LinkFiles:
    """The patterns as the settings have them: without an end that no record confirms, and with a count to come.

    `tcpdump -G -C` appends a count to a name when a file is full before its time is over.
    """
    patterns = named.patterns
    if not dates.ends:
        patterns = tuple(re.sub(r"(?:%E\d?[A-Za-z][-_:.T]?)*%E\d?[A-Za-z]", "*", pattern) for pattern in patterns)
    if packets:
        patterns = tuple(_countable(pattern) for pattern in patterns)
    return replace(named, patterns=tuple(dict.fromkeys(patterns)))


def _countable(pattern: str) -> str:
    bare = plain(pattern)
    return re.sub(COUNTABLE, r"\g<0>%c", bare) + pattern[len(bare) :] if is_dated(pattern) else pattern


def _notes(sample: Sample, named: LinkFiles, dates: NameDates) -> Iterator[str]:
    """Says what the files of a link leave open, and what is not as it should be."""
    if dates.partly:
        held = format_duration(-(-dates.partly // SECOND) * SECOND)
        length = format_duration(dates.rotation) if dates.rotation else "their time"
        yield (
            f"its files hold at most {held} of {length}: if the recorder was off in between, remove rotation; with it "
            "the rest counts as silence"
        )
    missing = [f"no file for {format_instant(begin)} to {format_instant(end)}" for begin, end in dates.missing]
    yield from _few(missing)
    yield from _few([f"{name} is cut: it covers no more than it holds" for name in _cut(sample, named.names)])
    yield from _few(
        [
            f"{name} has the same bytes as {first}: it counts once"
            for name in named.names
            if (first := sample.copies.get(name)) in named.names
        ]
    )
    beside = {plain(name): name for name in reversed(named.names)}
    yield from _few(
        [
            f"{beside[plain(name)]} and {name} differ in their compression alone: remove one of them"
            for name in named.names
            if beside[plain(name)] != name
        ]
    )


def _few(lines: Sequence[str]) -> list[str]:
    """The first lines, and how many there are more."""
    return [*lines[:SAID], *([f"and {len(lines) - SAID:,} more like this"] if len(lines) > SAID else [])]


def _cut(sample: Sample, names: Sequence[str]) -> list[str]:
    """The files that end inside a record, among those that are read to the end."""
    facts = {name: sample.facts(name) for name in _read_whole(sample, names)}
    return [name for name, found in facts.items() if found is not None and not found.summary.ended_cleanly]


def _read_whole(sample: Sample, names: Sequence[str]) -> list[str]:
    """The files of a link that are read to the end: all of them, while they are small."""
    left, chosen = PROPOSAL_READ_BYTES, [*sample.spread(names)]
    for name in names:
        left -= (sample.folder / name).stat().st_size
        if left < 0:
            return chosen
    return [*names]


def _firsts(sample: Sample, group: NameGroup) -> dict[str, int]:
    """First timestamps of some files of a group."""
    return {name: first for name in sample.spread(group.names) if (first := sample.first(name)) is not None}


def _copies(folder: Path, names: Sequence[str], progress: Callable[[str], None]) -> dict[str, str]:
    """Finds files with the bytes of another one, whose name is shorter or comes first: copy -> that file."""
    sizes: dict[int, list[str]] = defaultdict(list)
    for name in names:
        sizes[(folder / name).stat().st_size].append(name)
    copies: dict[str, str] = {}
    for size, alike in sizes.items():
        if size < LEAST_COPY or len(alike) < 2:
            continue
        for begin in _by_digest(folder, alike, COPY_BEGINNING):
            for same in _by_digest(folder, begin, size) if len(begin) > 1 else []:
                for name in same:
                    progress(name)
                first, *rest = sorted(same, key=lambda name: (len(name), name))
                copies |= dict.fromkeys(rest, first)
    return copies


def _by_digest(folder: Path, names: Sequence[str], count: int) -> list[list[str]]:
    """Groups files by the digest of their first bytes."""
    groups: dict[bytes, list[str]] = defaultdict(list)
    for name in names:
        digest = sha256()
        with open_regular(folder / name) as file:
            while count - file.tell() > 0 and (block := file.read(min(COPY_BEGINNING, count - file.tell()))):
                digest.update(block)
        groups[digest.digest()].append(name)
    return [*groups.values()]


def _skew(interfaces: Sequence[InterfaceFacts]) -> int:
    """Returns the smallest common skew for all records, or for nearly all if that would be too long."""
    largest = max((interface.lateness.largest for interface in interfaces), default=0)
    bound = _usual(largest)
    if bound <= MOST_SKEW:
        return bound
    nearly = max((interface.lateness.quantile(1 - BEARABLE) or 0 for interface in interfaces), default=0)
    return min(bound, _usual(nearly))


def _usual(lateness: int) -> int:
    return next((skew for skew in SKEWS if skew >= lateness), lateness if lateness <= NO_DISORDER else SKEWS[-1])
