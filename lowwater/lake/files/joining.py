"""Joins files whose names differ in a word, where one recorder wrote them: each begins as the one before ends.

Beside `parting`, which divides files of like names. A folder (`archive/`, `live/`), a number at the end of a word
(`trace`, `trace1`) and what logrotate appends (`eve.json`, `eve.json.1`) differ in the names of one recorder; so do the
names of several. Where the times do not decide, both readings are said.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from lowwater.lake.files.names import NameGroup
from lowwater.lake.files.parting import DISORDER, JoinedGroup, LinkGroup, beside, span
from lowwater.lake.files.parts import plain
from lowwater.lake.files.patterns import pieces_of
from lowwater.lake.files.protocols import RecordProposal
from lowwater.lake.files.sample import Sample

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
