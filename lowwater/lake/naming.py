"""What the names of capture files say: which of them are of one link, its pattern, when each begins, the link's name.

Beside `rotation`, which reads names by a pattern; here a pattern is found for names that have none yet.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

_DAY = r"(?P<Y>19[7-9]\d|20\d\d)(?P<a>[-_./]?)(?P<m>0[1-9]|1[0-2])(?P=a)(?P<d>0[1-9]|[12]\d|3[01])"
_CLOCK = (
    r"(?P<b>[-_T./ ]?)(?P<H>[01]\d|2[0-3])(?:(?P<c>[-_:.]?)(?P<M>[0-5]\d)(?:(?P<e>(?P=c))(?P<S>[0-5]\d))?)?(?P<z>Z?)"
)
_DATE = re.compile(rf"(?<!\d){_DAY}(?:{_CLOCK})?(?!\d)")
_SECONDS = re.compile(r"(?<!\d)1\d{9}(?!\d)")
_COUNTER = re.compile(r"(?<=[-_.])\d{1,8}(?=[-_.])|(?<=cap)\d{1,6}$")
_PACKED = re.compile(r"\.(?:gz|zst|zstd|xz|lz4|lzma|bz2)$")
_GAP = "\0"
"""Stands for the instant of a name while the name of its link is looked for."""


@dataclass(frozen=True)
class Named:
    """Files of one link by their names.

    Attributes:
        link: a name for it.
        pattern: of its files, as `captures` in the settings takes it; relative like the names.
        names: of the files, sorted.
        dated: whether the pattern says when a file begins.
    """

    link: str
    pattern: str
    names: tuple[str, ...]
    dated: bool


def by_link(names: Iterable[str]) -> list[Named]:
    """Groups names (relative paths with `/`) that differ in their instant, a counter and the compression only.

    Example:
        >>> [(each.link, each.pattern) for each in by_link(["a/a_2026010100.pcap", "a/a_2026010101.pcap"])]
        [('a', 'a/a_%Y%m%d%H.pcap')]
    """
    groups: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for name in sorted(names):
        pattern, bare = _pattern(name)
        groups[_COUNTER.sub("*", _PACKED.sub("", pattern))].append((name, bare))
    chosen = {}
    for rough, members in groups.items():
        exact = {_PACKED.sub("", _pattern(name)[0]) for name, _ in members}
        packed = {found.group() if (found := _PACKED.search(name)) else "" for name, _ in members}
        # A counter that never changes is a part of the name; what is packed now and then ends in anything.
        pattern = next(iter(exact)) if len(exact) == 1 else rough
        chosen[pattern + (next(iter(packed)) if len(packed) == 1 else "*")] = members
    links = _links({pattern: members[0][1] for pattern, members in chosen.items()})
    return [
        Named(links[pattern], pattern, tuple(name for name, _ in members), "%" in pattern.replace("%%", ""))
        for pattern, members in chosen.items()
    ]


def _pattern(name: str) -> tuple[str, str]:
    """The pattern of a name, and the name with a gap where its instants are."""
    escaped = name.replace("%", "%%")
    if _DATE.search(escaped):
        return _DATE.sub(_fields, escaped), _DATE.sub(_GAP, escaped)
    return _SECONDS.sub("%s", escaped), _SECONDS.sub(_GAP, escaped)


def _fields(found: re.Match[str]) -> str:
    parts = found.groupdict()
    text = f"%Y{parts['a']}%m{parts['a']}%d"
    for mark, field in (("b", "H"), ("c", "M"), ("e", "S")):
        text += f"{parts[mark] or ''}%{field}" if parts[field] else ""
    return text + (parts["z"] or "")


def _links(bare: dict[str, str]) -> dict[str, str]:
    """Pattern -> name of its link: what its files are called, or their folder, or both; by what tells them apart."""
    stems = {pattern: _word(_stem(text.rpartition("/")[2])) for pattern, text in bare.items()}
    folders = {pattern: _word(text.rpartition("/")[0].replace("/", "_")) for pattern, text in bare.items()}
    both = {pattern: _word(f"{folders[pattern]}_{stems[pattern]}") for pattern in bare}
    for names in (stems, folders, both):
        if all(names.values()) and len(set(names.values())) == len(names):
            return names
    return {pattern: f"link{number}" for number, pattern in enumerate(sorted(bare), 1)}


def _stem(name: str) -> str:
    return re.sub(r"\.(?:pcap|pcapng|cap|dump|dmp|ntar|snoop|trc)[^.]*(?:\..*)?$", "", _COUNTER.sub("", name))


def _word(text: str) -> str:
    """The text as the name of a link; empty where nothing is left of it."""
    word = re.sub(r"[^A-Za-z0-9_.-]+", "_", text.replace(_GAP, "_").replace("%%", "_"))
    word = re.sub(r"[-_.]{2,}", "_", word).strip("-_.")
    return word if not word or word[0].isalpha() else f"link_{word}"
