"""Proposed settings for existing captures: links, patterns, rotation, interval and skews.

Used by `lowwater init`, before a lake exists. Only a sample of the files of every link is read to the end.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import accumulate, combinations, pairwise
from pathlib import Path

from lowwater.capture.inspect import CaptureFacts, InterfaceFacts, digests_of_records, identity_of
from lowwater.catalog.time import LONG_SILENCE
from lowwater.config import Link
from lowwater.errors import CaptureError, ConfigError
from lowwater.instants import HOUR, SECOND, format_duration, format_instant
from lowwater.lake.files.names import (
    LENGTHS,
    Form,
    JoinedGroup,
    LinkFiles,
    NameDates,
    NameGroup,
    check_dates,
    confirmed,
    group_names,
    name_links,
    plain,
    with_ends,
)
from lowwater.lake.files.patterns import is_dated, literal, pieces_of, regex_of
from lowwater.lake.files.sample import LogProposal, RecordProposal, Sample
from lowwater.limits import COMPARED_NAMES, PROPOSAL_READ_BYTES, PROPOSED_FILES
from lowwater.storage import objects, untrusted
from lowwater.storage.captures import StoredCapture

# A capture of a link begins where another ends, within its disorder. Captures of several links, taken at the same
# time, overlap; a number in their names tells the links apart.

# Which files are one link: captures of one link do not overlap in time (SEMANTICS T1), and no two links have the same
# records.

DISORDER = 10 * SECOND
"""A longer overlap means several links; so does a shorter one of at least half of the shorter capture."""

MOST_PLACES = 6  # most numbers of a name that are tried to tell the links apart
Span = tuple[int, int]  # first and largest timestamp of a file, ns


@dataclass(frozen=True)
class LinkGroup:
    """The files of a link."""

    group: NameGroup | JoinedGroup
    of: str = ""  # pattern of all files with similar names, if these are of several links; else empty
    mixed: bool = False  # whether its files overlap in time, and no number in their names explains it
    notes: tuple[str, ...] = ()  # other readings of the names, for the user


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
    if not choices_apart:
        return [LinkGroup(group, mixed=True)]
    return [LinkGroup(members, of=", ".join(group.patterns)) for members in min(choices_apart, key=len)]


def _apart(names: Sequence[str]) -> list[str]:
    """Leaves out a file that lies there compressed, or decompressed, as well."""
    return list({plain(name): name for name in reversed(names)}.values())[::-1]


def _mixed(groups: Iterable[NameGroup], spans: Mapping[str, Span], disorder: int) -> bool:
    """Whether some files of a group were taken at the same time, and so are of different links."""
    ordered = (sorted(spans[name] for name in group.names if name in spans) for group in groups)
    return any(beside(before, after, disorder) for of_group in ordered for before, after in pairwise(of_group))


def pause(names: Sequence[str], sample: Sample, read: Iterable[str], silence: int) -> int:
    """Returns the longest usual pause (ns) between a file among `read` and the next one; names are in order of time. A
    pause that is long beside the longest silence (ns) inside of files is a gap: the recorder was stopped."""
    return max((length for length in _pauses(names, sample, read) if length <= LONG_SILENCE * silence), default=0)


def _pauses(names: Sequence[str], sample: Sample, read: Iterable[str]) -> Iterator[int]:
    return (begins - found[1] for _, found, _, begins in _followed(names, sample, read))


def _followed(names: Sequence[str], sample: Sample, read: Iterable[str]) -> Iterator[tuple[str, Span, str, int]]:
    """Yields the files among `read`, with their spans, and the next one, with its begin; names are in order of time."""
    after = dict(pairwise(names))
    for name in read:
        found, follower = span(name, sample), after.get(name)
        if found and follower and (begins := sample.first(follower)) is not None:
            yield name, found, follower, begins


def _overlaps(names: Sequence[str], sample: Sample, read: Iterable[str]) -> bool:
    """Whether a file among `read` was taken at the same time as the next one, which is read only if they overlap."""
    for name, found, follower, begins in _followed(names, sample, read):
        other = span(follower, sample) if begins < found[1] else None
        if other and beside(found, other, sample.disorder((name, follower))):
            return True
    return False


def beside(before: Span, after: Span, disorder: int = 0) -> bool:
    """Whether two files were taken at the same time; the first one begins first. `disorder`: by how much the records of
    a log are behind, ns, since it writes them when they end; 0 for packets."""
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
    end = facts.largest if facts else None
    return None if first is None or end is None else (first, end)


# Files whose names differ in a word are of one link where each begins as the one before ends. A folder (`archive/`,
# `live/`), a number at the end of a word (`trace`, `trace1`) and what logrotate appends (`eve.json`, `eve.json.1`)
# differ in the names of one recorder; so do the names of several. Where the times do not decide, both readings are
# said.

MOST_TURNS = 64  # most places at which one name follows another; sensors that recorded side by side have more
PAUSE = 2_000_000_000  # a pause that a recorder needs to open its next file, ns

_APART = "eth|en[ops]?|em|wlan|wl[ops]?|wan|lan|vlan|port|if|int|gi|te|ge|xe|bond|br|tun|tap|node|host|sensor|probe"
_GLUED = re.compile(rf"(?<![A-Za-z])((?!(?:{_APART})\d)[A-Za-z]+)(\d{{1,6}})(?![0-9A-Za-z])", re.IGNORECASE)
"""A number at the end of a word; interfaces and places have such names of their own."""

_PLACED = re.compile(rf"(?<![A-Za-z])(?:{_APART})(\d{{1,4}})(?![0-9A-Za-z])", re.IGNORECASE)
_ROTATED = re.compile(r"[-.](?:%n|%Y[-_.]?%m[-_.]?%d(?:[-_.T]?%H(?:[-_.:]?%M(?:[-_.:]?%S)?)?)?%?c?|%s)$")
"""What logrotate appends: a number, a date, or seconds."""


def join_links(parts: Sequence[LinkGroup], sample: Sample) -> list[LinkGroup]:
    """Joins the links whose files are of one recorder."""
    joined = list(parts)
    for variants, must_follow in ((_rotated, False), (_glued, True), (_foldered, True), (_placed, True)):
        families: dict[str, list[LinkGroup]] = defaultdict(list)
        for part in joined:
            if isinstance(part.group, NameGroup) and not part.mixed and not part.of:
                for key in variants(part.group.shape):
                    families[key].append(part)
        for key, members in families.items():
            members = [part for part in members if any(part is other for other in joined)]
            if len(members) < 2 or (not must_follow and all(_ROTATED.search(_shape(part)) for part in members)):
                continue
            found = _together(members, sample)
            if variants is not _placed and (found == "follow" or (found == "apart" and not must_follow)):
                joined = [part for part in joined if all(part is not member for member in members)]
                joined.append(_joined(key, members, must_follow, counted=variants is _glued))
            elif found:
                joined = [_noted(part, members) if any(part is each for each in members) else part for part in joined]
    return joined


def _shape(part: LinkGroup) -> str:
    assert isinstance(part.group, NameGroup)
    return part.group.shape


def _rotated(shape: str) -> Iterator[str]:
    yield _ROTATED.sub("", shape)


def _glued(shape: str) -> Iterator[str]:
    """Shapes with a number at the end of one word left open, and the shape of a name that has none yet."""
    folder, slash, name = shape.rpartition("/")
    found = list(_GLUED.finditer(name)) if "%" not in name else []
    for match in found:
        yield f"{folder}{slash}{name[: match.start(2)]}%c{name[match.end(2) :]}"
    if not found and "%" not in name:
        stem, dot, rest = name.partition(".")
        yield f"{folder}{slash}{stem}%c{dot}{rest}"


def _placed(shape: str) -> Iterator[str]:
    """Shapes with the number of an interface or a place left open: of several recorders, or of one that moved."""
    for match in _PLACED.finditer(shape):
        yield f"{shape[: match.start(1)]}%n{shape[match.end(1) :]}"


def _foldered(shape: str) -> Iterator[str]:
    *folders, name = shape.split("/")
    for at, folder in enumerate(folders):
        if "%" not in folder and folder != "*":
            yield "/".join([*folders[:at], "*", *folders[at + 1 :], name])


def _together(parts: Sequence[LinkGroup], sample: Sample) -> str:
    """Whether files of several names `follow` one another or are `apart` in time; empty if they overlap."""
    if len({_records(part, sample) for part in parts}) > 1:
        return ""
    owner = {name: number for number, part in enumerate(parts) for name in part.group.names}
    names = sample.in_order([*owner])
    if len({owner[name] for name in names}) < len(parts):
        return "apart" if names else ""
    turns = [(before, after) for before, after in pairwise(names) if owner[before] != owner[after]]
    if len(turns) > MOST_TURNS:
        return ""
    inside = max((_pause(*pair, sample) for pair in _beside_turns(names, turns, owner)), default=0)
    found = "follow"
    for before, after in turns:
        one, other = span(before, sample), span(after, sample)
        disorder = sample.disorder((before, after))
        if one is None or other is None or beside(one, other, disorder) or other[0] < one[1] - max(DISORDER, disorder):
            return ""
        silence = max(_silence(before, sample), _silence(after, sample))
        if other[0] - one[1] > max(PAUSE, inside, silence):
            found = "apart"
    return found


def _records(part: LinkGroup, sample: Sample) -> str:
    """What the files of a link hold: packets, a log, or columns."""
    found = next((sample.records[name] for name in part.group.names if name in sample.records), None)
    if isinstance(found, RecordProposal):
        return ", ".join(each.name for each in found.fields)
    return found.protocol if found is not None else ""


def _beside_turns(
    names: Sequence[str], turns: Sequence[tuple[str, str]], owner: dict[str, int]
) -> Iterator[tuple[str, str]]:
    """Files of one name that follow each other where another name follows."""
    at = {name: number for number, name in enumerate(names)}
    for before, after in turns:
        for number in (at[before] - 1, at[after]):
            if 0 <= number < len(names) - 1 and owner[names[number]] == owner[names[number + 1]]:
                yield names[number], names[number + 1]


def _pause(before: str, after: str, sample: Sample) -> int:
    one, begins = span(before, sample), sample.first(after)
    return begins - one[1] if one is not None and begins is not None else 0


def _silence(name: str, sample: Sample) -> int:
    facts = sample.facts(name)
    return max((length for one in facts.interfaces for _, length in one.gaps.longest()), default=0) if facts else 0


def _joined(key: str, parts: Sequence[LinkGroup], pattern: bool, counted: bool) -> LinkGroup:
    names = tuple(sorted(name for part in parts for name in part.group.names))
    if counted and all(_shape(part) != key.replace("%c", "") for part in parts):
        key = key.replace("%c", "%n")
    packed = sorted({name[len(plain(name)) :] for name in names})
    patterns = [key + end for end in packed] if pattern else [each for part in parts for each in part.group.patterns]
    bare = min((part.group.bare for part in parts), key=len) if not pattern else _bare(key)
    why = "its files differ in a word, and each begins as the one before ends" if pattern else "rotated logs"
    return LinkGroup(JoinedGroup(names, tuple(patterns), bare), notes=(f"one link of several names: {why}",))


def _bare(key: str) -> str:
    return "".join("\0" if piece == "*" or (piece[0] == "%" and piece != "%%") else piece for piece in pieces_of(key))


def _noted(part: LinkGroup, parts: Sequence[LinkGroup]) -> LinkGroup:
    others = ", ".join(sorted(each.group.patterns[0] for each in parts if each is not part)[:3])
    note = f"never at the same time as {others}: if one recorder wrote both, list both patterns in one link"
    return part if part.notes else replace(part, notes=(note,))


# Links with the same records: a query over them would count each record twice.


def doubles(sample: Sample, links: Mapping[str, Sequence[str]]) -> list[str]:
    """Describes links, of link -> its files, with files of the same records: a line for each two that have some. Files
    that begin at the same instant are compared, some of each two links, to their end."""
    beginning: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for link, names in links.items():
        for name in names:
            if (first := sample.first(name)) is not None:
                beginning[first].append((link, name))
    pairs: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for files in beginning.values():
        for (link, name), (other, copy) in combinations(files, 2):
            if link != other:
                pairs[link, other].append((name, copy))
    known: dict[str, str] = {}
    lines = []
    for (link, other), candidates in pairs.items():
        compared = [candidates[0], candidates[-1]] if len(candidates) > 1 else candidates
        same = [both for both in compared if _identity(sample, both[0], known) == _identity(sample, both[1], known)]
        if same:
            name, copy = same[0]
            more = f", and {len(candidates) - 1:,} more may" if len(candidates) > 1 else ""
            lines.append(
                f"{link} and {other}: {name} and {copy} have the same records{more}: a query over both links counts "
                "them twice; let it read one of them, or leave one out of the settings"
            )
    return lines


def _identity(sample: Sample, name: str, known: dict[str, str]) -> str:
    """Returns the identity of a file; its name, which no other file has, if it cannot be read."""
    if name not in known:
        sample.progress(name)
        path = sample.folder / name
        try:
            known[name] = digests_of_records(path)[1] if name in sample.records else identity_of(path)
        except (CaptureError, OSError):
            known[name] = name
    return known[name]


# Settings of the links that were found.

SKEWS = tuple(SECOND * n // 10 for n in (1, 2, 5, 10, 20, 50, 100, 200, 300, 600, 1200, 3000, 6000, 18000, 36000))
MOST_SKEW = 10 * SECOND  # a longer skew is proposed only if a shorter one would refuse too many records
BEARABLE = 0.001  # largest share of the records that a proposed skew may refuse

NO_DISORDER = 24 * 3600 * SECOND
"""Lateness (ns) that no skew is proposed for: records of another day are of a clock that was not set."""

SAID = 5
"""Most files that are named for one reason."""


COUNTABLE = re.compile(r"(?:\.pcap|\.cap|\.dmp|\.dump|%S)$")  # dated names to which tcpdump may append a count
COPY_BEGINNING = 1 << 16  # bytes that are compared before the whole files are
LEAST_COPY = 100  # fewest bytes of a file that is a copy of another one: captures without a packet are alike


@dataclass(frozen=True)
class LinkProposal:
    """Proposed settings of a link."""

    named: LinkFiles
    dates: NameDates
    skew: int  # bound of the disorder, ns
    # largest lateness in the sample, ns, also of a file behind the one before. It exceeds the skew if a skew for all
    # records would be too long.
    latest: int
    facts: tuple[CaptureFacts, ...]
    since: int | None  # begin of the captures' coverage, ns, not after the first record; None without a record
    until: int | None  # end of the captures' coverage, ns, after the last record; None without a record
    # pattern of files of several links that overlap in time, this link among them; empty for a single link
    of: str = ""
    mixed: bool = False  # whether its own files overlap in time
    # proposed gap tolerance, ns, if pauses between files exceed the default, but are not long beside the silences
    # within files; else 0
    tolerance: int = 0
    notes: tuple[str, ...] = ()  # what the names and the files leave open or lack, for the user
    # protocol of the records, or the ready one of a log; None for packets
    records: RecordProposal | LogProposal | None = None

    @property
    def interfaces(self) -> tuple[InterfaceFacts, ...]:
        return tuple(interface for facts in self.facts for interface in facts.interfaces)


@dataclass(frozen=True)
class Proposal:
    """Proposed settings for a folder of captures."""

    links: tuple[LinkProposal, ...]  # proposals in the order of the links' names
    interval: int  # length of an interval, ns
    skipped: dict[str, str] = field(default_factory=dict)  # file that is no capture -> reason
    doubles: tuple[str, ...] = ()  # lines about links that have the same records


def propose(
    folder: Path, sample: int, progress: Callable[[str], None] = lambda text: None, names: Sequence[str] | None = None
) -> Proposal:
    """Proposes settings for a folder with the captures, and other records, of all links, in subfolders or side by side:
    of the files with these names relative to it, or of all.
    Raises ConfigError if the folder has no capture, or too many files."""
    read = Sample(folder, sample, progress)

    def read_group(group: NameGroup) -> list[LinkGroup]:
        read.copies.update(_copies(folder, group.names, progress))
        (named,) = name_links([group])
        read.describe(group.names, named.link)
        if group.weak:
            firsts = {name: first for name in read.spread(group.names) if (first := read.first(name)) is not None}
            if not confirmed(named, firsts):
                others = group_names(group.names, Form(weak=False))
                return [part for each in others for part in split_by_link(each, read)]
        return split_by_link(group, read)

    found = files_below(folder) if names is None else names
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        groups = [part for parts in pool.map(read_group, group_names(found)) for part in parts]
    groups = join_links(groups, read)
    by_names = {part.group.names: part for part in groups}
    proposed = (_link(read, named, by_names[named.names]) for named in name_links(part.group for part in groups))
    links = _without_others([link for link in proposed if link is not None])
    if not links:
        left_out = sorted(read.skipped.items())[:3]
        reasons = "; ".join(f"{name}: {why}" for name, why in left_out)
        remedy = next((hint for name, _ in left_out if (hint := read.remedies[name])), "") if len(found) == 1 else ""
        raise ConfigError(
            f"{folder}: the folder has no captures and no other records{f' ({reasons})' if reasons else ''}",
            remedy or "name the folder in which the capture files lie",
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
            begins = [begin for capture in link.facts if (begin := capture.earliest(link.skew)) is not None]
            ends = [end + 1 for capture in link.facts if (end := capture.largest) is not None]
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
    real = folder.resolve()  # of a link that leads elsewhere the settings must say that it is read
    inside = (name for name in names_found if (folder / name).resolve().is_relative_to(real))
    return [name for name in inside if (folder / name).is_file()]


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
    behind = 0 if part.mixed else max([0, *(-between for between in _pauses(names, sample, read))])
    skew = max(_skew(interfaces), _usual(behind))
    records = sample.records.get(facts[0].path.relative_to(sample.folder).as_posix())
    named, left_open = with_ends(sample.folder, named, facts, skew)
    dates = check_dates(sample.folder, named, facts, skew, early=records is not None)
    named = _settled(named, dates, packets=records is None)
    since, until = dates.since, dates.until
    if not dates.declared:
        begins = [begin for capture in facts if (begin := capture.earliest(skew)) is not None]
        ends = [end for capture in facts if (end := capture.largest) is not None]
        since, until = min(begins, default=None), max(ends) + 1 if ends else None
    silence = max((length for interface in interfaces for _, length in interface.gaps.longest()), default=0)
    between = 0 if part.mixed or dates.declared else pause(names, sample, read, silence)
    tolerance = _usual(between) if between > Link().gap_tolerance else 0
    notes = (*part.notes, *([left_open] if left_open and dates.ends else []), *_notes(sample, named, dates))
    return LinkProposal(
        named, dates, skew, max(latest, behind), tuple(facts), since, until,
        part.of, part.mixed, tolerance, notes, records,
    )  # fmt: skip


def _settled(named: LinkFiles, dates: NameDates, packets: bool) -> LinkFiles:
    """The patterns as the settings have them: without an end that no record confirms, and with a count to come, which
    `tcpdump -G -C` appends to a name when a file is full before its time is over."""
    patterns = named.patterns
    if not dates.ends:
        patterns = tuple(re.sub(r"(?:%[EL]\d?[A-Za-z][-_:.T]?)*%[EL]\d?[A-Za-z]", "*", pattern) for pattern in patterns)
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
    """The files that end inside a record, among those that are read to the end: all, while they are small."""
    sizes = accumulate((sample.folder / name).stat().st_size for name in names)
    read = sample.spread(names) if any(size > PROPOSAL_READ_BYTES for size in sizes) else names
    facts = {name: sample.facts(name) for name in read}
    return [name for name, found in facts.items() if found is not None and not found.summary.ended_cleanly]


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
    groups: dict[bytes, list[str]] = defaultdict(list)
    for name in names:
        digest = sha256()
        with untrusted.open_regular(folder / name) as file:
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
