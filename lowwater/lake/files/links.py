"""Which files are one link: captures of one link do not overlap in time (SEMANTICS T1), and no two links have the same
records.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

from lowwater.capture.inspect import digests_of_records, identity_of
from lowwater.errors import CaptureError
from lowwater.instants import SECOND
from lowwater.lake.files.names import NameGroup, plain
from lowwater.lake.files.patterns import pieces_of
from lowwater.lake.files.protocols import RecordProposal
from lowwater.lake.files.sample import Sample, largest
from lowwater.lake.ledgers.coverage import FACTOR

# A capture of a link begins where another ends, within its disorder. Captures of several links, taken at the same
# time, overlap; a number in their names tells the links apart.

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


# Files whose names differ in a word are of one link where each begins as the one before ends. A folder (`archive/`,
# `live/`), a number at the end of a word (`trace`, `trace1`) and what logrotate appends (`eve.json`, `eve.json.1`)
# differ in the names of one recorder; so do the names of several. Where the times do not decide, both readings are
# said.

MOST_TURNS = 64
"""Most places at which one name follows another; sensors that recorded side by side have more."""

PAUSE = 2_000_000_000
"""A pause that a recorder needs to open its next file, ns."""

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
    """Shapes with one folder left open."""
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
    """Describes links with files of the same records: a line for each two links that have some.

    Files that begin at the same instant are compared, some of each two links, to their end.

    Args:
        links: link -> its files.
    """
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
