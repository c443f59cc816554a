"""What the names of capture files say: which of them are of one link, its pattern, when each begins, the link's name.

Beside `rotation`, which reads names by a pattern; here a pattern is found for names that have none yet.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_DAY = r"(?P<Y>19[7-9]\d|20\d\d)(?P<a>[-_./]?)(?P<m>0[1-9]|1[0-2])(?P=a)(?P<d>0[1-9]|[12]\d|3[01])"
_CLOCK = (
    r"(?P<b>[-_T./ ]?)(?P<H>[01]\d|2[0-3])(?:(?P<c>[-_:.]?)(?P<M>[0-5]\d)(?:(?P<e>(?P=c))(?P<S>[0-5]\d))?)?(?P<z>Z?)"
)
_DATE = re.compile(rf"(?<!\d){_DAY}(?:{_CLOCK})?(?!\d)")
_SECONDS = re.compile(r"(?<!\d)1\d{9}(?!\d)")
_COUNTER = re.compile(r"(?<=[-_.])\d{1,8}(?=[-_.])|(?:(?<=cap)|(?<=capng))\d{0,6}$")
"""A number that may count files; at the end there may be none, since the first file of `tcpdump -C` has none."""

_PACKED = re.compile(r"\.(?:gz|zst|zstd|xz|lz4|lzma|bz2)$")
_GAP = "\0"
"""Stands for the instant of a name while the name of its link is looked for."""


@dataclass(frozen=True)
class Named:
    """Files of one link by their names.

    Attributes:
        link: a name for it.
        pattern: the pattern of its files, as `captures` in the settings takes it; relative like the names.
        names: the names of the files, sorted.
        dated: whether the pattern says when a file begins.
    """

    link: str
    pattern: str
    names: tuple[str, ...]
    dated: bool


@dataclass(frozen=True)
class Alike:
    """Files whose names differ in their instant, in numbers and in the compression only.

    Attributes:
        counters: name -> its numbers that may be counters, as texts; as many of each.
    """

    counters: Mapping[str, tuple[str, ...]]

    @property
    def names(self) -> tuple[str, ...]:
        """Of the files, sorted."""
        return tuple(sorted(self.counters))

    @property
    def differing(self) -> tuple[int, ...]:
        """The places of the numbers in which the names differ."""
        return tuple(at for at, found in enumerate(zip(*self.counters.values(), strict=True)) if len(set(found)) > 1)

    @property
    def pattern(self) -> str:
        """Of the names: a number in which they differ is `*`; what is packed now and then ends in anything."""
        first, differing = self.names[0], set(self.differing)
        count = iter(range(len(self.counters[first])))
        found = _COUNTER.sub(lambda each: "*" if next(count) in differing else each.group(), _plain(first))
        packed = {each.group() if (each := _PACKED.search(name)) else "" for name in self.names}
        return found.removesuffix("*") + "*" if len(packed) > 1 else found + packed.pop()

    def by(self, places: Sequence[int]) -> list[Alike]:
        """The files in parts, each of one value of the numbers at these places."""
        parts: dict[tuple[str, ...], dict[str, tuple[str, ...]]] = defaultdict(dict)
        for name, numbers in self.counters.items():
            parts[tuple(numbers[at] for at in places)][name] = numbers
        return [Alike(parts[key]) for key in sorted(parts)]


def alike(names: Iterable[str]) -> list[Alike]:
    """Groups names (relative paths with `/`) that differ in their instant, in numbers and the compression only."""
    groups: dict[str, dict[str, tuple[str, ...]]] = defaultdict(dict)
    for name in sorted(names):
        plain = _plain(name)
        groups[_COUNTER.sub("*", plain)][name] = tuple(_COUNTER.findall(plain))
    return [Alike(members) for members in groups.values()]


def name_links(groups: Iterable[Alike]) -> list[Named]:
    """A name and a pattern for each group of files, one link each."""
    by_pattern = {each.pattern: each for each in groups}
    links = _links({pattern: _bare(each) for pattern, each in by_pattern.items()})
    return [
        Named(links[pattern], pattern, each.names, "%" in pattern.replace("%%", ""))
        for pattern, each in by_pattern.items()
    ]


def by_link(names: Iterable[str]) -> list[Named]:
    """The links of names, by what the names alone say.

    Example:
        >>> [(each.link, each.pattern) for each in by_link(["a/a_2026010100.pcap", "a/a_2026010101.pcap"])]
        [('a', 'a/a_%Y%m%d%H.pcap')]
    """
    return name_links(alike(names))


def _plain(name: str) -> str:
    """The pattern of a name, without its compression."""
    return _PACKED.sub("", _pattern(name)[0])


def _bare(group: Alike) -> str:
    """The name of a file with a gap for every instant, and for every number in which the names of its group differ."""
    bare, count = _PACKED.sub("", _pattern(group.names[0])[1]), iter(range(1 << 30))
    differing = set(group.differing)
    return _COUNTER.sub(lambda each: _GAP if next(count) in differing else each.group(), bare)


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
    files = {pattern: text.rpartition("/")[2] for pattern, text in bare.items()}
    stems = {pattern: _word(_stem(_COUNTER.sub("", text))) for pattern, text in files.items()}
    numbered = {pattern: _word(_stem(text)) for pattern, text in files.items()}
    folders = {pattern: _word(text.rpartition("/")[0].replace("/", "_")) for pattern, text in bare.items()}
    both, all_of_it = (
        {pattern: _word(f"{folders[pattern]}_{each[pattern]}") for pattern in bare} for each in (stems, numbered)
    )
    for names in (stems, folders, numbered, both, all_of_it):
        if all(names.values()) and len(set(names.values())) == len(names):
            return names
    return {pattern: f"link{number}" for number, pattern in enumerate(sorted(bare), 1)}


def _stem(name: str) -> str:
    return re.sub(r"\.(?:pcap|pcapng|cap|dump|dmp|ntar|snoop|trc)[^.]*(?:\..*)?$", "", name)


def _word(text: str) -> str:
    """The text as the name of a link; empty where nothing is left of it."""
    word = re.sub(r"[^A-Za-z0-9_.-]+", "_", text.replace(_GAP, "_").replace("%%", "_"))
    word = re.sub(r"[-_.]{2,}", "_", word).strip("-_.")
    return word if not word or word[0].isalpha() else f"link_{word}"
