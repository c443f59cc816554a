"""Names of capture files: groups files by link, and finds the pattern and the link's name for every group.

Here patterns are found; `rotation` reads names by a known pattern.
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
"""A number that may count files. At the end it may be empty, since the first file of `tcpdump -C` has no number."""

_PACKED = re.compile(r"\.(?:gz|zst|zstd|xz|lz4|lzma|bz2)$")
_GAP = "\0"
"""Placeholder for the instant in a name, while the name of the link is derived."""


@dataclass(frozen=True)
class LinkFiles:
    """The files of a link, by their names.

    Attributes:
        link: name for the link.
        pattern: pattern of the files, as `captures` in the settings; relative like the names.
        names: names of the files, sorted.
        dated: whether the pattern contains the begin of a file.
    """

    link: str
    pattern: str
    names: tuple[str, ...]
    dated: bool


@dataclass(frozen=True)
class NameGroup:
    """Files whose names differ only in their instant, in numbers, and in the compression.

    Attributes:
        counters: file name -> its numbers that may be counters, as texts; equally many for all names.
    """

    counters: Mapping[str, tuple[str, ...]]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the files, sorted."""
        return tuple(sorted(self.counters))

    @property
    def differing(self) -> tuple[int, ...]:
        """Indices of the numbers in which the names differ."""
        return tuple(
            at for at, numbers in enumerate(zip(*self.counters.values(), strict=True)) if len(set(numbers)) > 1
        )

    @property
    def pattern(self) -> str:
        """Pattern of the names: `*` for numbers that differ, and at the end if only some files are compressed."""
        first, differing = self.names[0], set(self.differing)
        counter = iter(range(len(self.counters[first])))
        pattern = _COUNTER.sub(lambda match: "*" if next(counter) in differing else match.group(), _plain(first))
        packed = {match.group() if (match := _PACKED.search(name)) else "" for name in self.names}
        return pattern.removesuffix("*") + "*" if len(packed) > 1 else pattern + packed.pop()

    def by(self, places: Sequence[int]) -> list[NameGroup]:
        """Divides the files by the values of the numbers at these indices."""
        parts: dict[tuple[str, ...], dict[str, tuple[str, ...]]] = defaultdict(dict)
        for name, numbers in self.counters.items():
            parts[tuple(numbers[at] for at in places)][name] = numbers
        return [NameGroup(parts[key]) for key in sorted(parts)]


def group_names(names: Iterable[str]) -> list[NameGroup]:
    """Groups names (relative paths with `/`) that differ only in their instant, in numbers and the compression."""
    groups: dict[str, dict[str, tuple[str, ...]]] = defaultdict(dict)
    for name in sorted(names):
        plain = _plain(name)
        groups[_COUNTER.sub("*", plain)][name] = tuple(_COUNTER.findall(plain))
    return [NameGroup(members) for members in groups.values()]


def name_links(groups: Iterable[NameGroup]) -> list[LinkFiles]:
    """Finds a link name and a pattern for every group of files."""
    by_pattern = {group.pattern: group for group in groups}
    links = _links({pattern: _bare(group) for pattern, group in by_pattern.items()})
    return [
        LinkFiles(links[pattern], pattern, group.names, "%" in pattern.replace("%%", ""))
        for pattern, group in by_pattern.items()
    ]


def files_by_link(names: Iterable[str]) -> list[LinkFiles]:
    """Groups names by link, from the names alone.

    Example:
        >>> [(files.link, files.pattern) for files in files_by_link(["a/a_2026010100.pcap", "a/a_2026010101.pcap"])]
        [('a', 'a/a_%Y%m%d%H.pcap')]
    """
    return name_links(group_names(names))


def _plain(name: str) -> str:
    """Returns the pattern of a name, without its compression."""
    return _PACKED.sub("", _pattern(name)[0])


def _bare(group: NameGroup) -> str:
    """Returns the first name of a group with placeholders for instants, and for numbers in which its names differ."""
    bare, count = _PACKED.sub("", _pattern(group.names[0])[1]), iter(range(1 << 30))
    differing = set(group.differing)
    return _COUNTER.sub(lambda match: _GAP if next(count) in differing else match.group(), bare)


def _pattern(name: str) -> tuple[str, str]:
    """Returns the pattern of a name, and the name with placeholders for its instants."""
    escaped = name.replace("%", "%%")
    if _DATE.search(escaped):
        return _DATE.sub(_fields, escaped), _DATE.sub(_GAP, escaped)
    return _SECONDS.sub("%s", escaped), _SECONDS.sub(_GAP, escaped)


def _fields(match: re.Match[str]) -> str:
    parts = match.groupdict()
    text = f"%Y{parts['a']}%m{parts['a']}%d"
    for mark, field in (("b", "H"), ("c", "M"), ("e", "S")):
        text += f"{parts[mark] or ''}%{field}" if parts[field] else ""
    return text + (parts["z"] or "")


def _links(bare: dict[str, str]) -> dict[str, str]:
    """Names the link of every pattern: after its files, its folder, or both, whichever gives different names."""
    files = {pattern: text.rpartition("/")[2] for pattern, text in bare.items()}
    stems = {pattern: _word(_stem(_COUNTER.sub("", text))) for pattern, text in files.items()}
    numbered = {pattern: _word(_stem(text)) for pattern, text in files.items()}
    folders = {pattern: _word(text.rpartition("/")[0].replace("/", "_")) for pattern, text in bare.items()}
    both, all_of_it = (
        {pattern: _word(f"{folders[pattern]}_{names[pattern]}") for pattern in bare} for names in (stems, numbered)
    )
    for names in (stems, folders, numbered, both, all_of_it):
        if all(names.values()) and len(set(names.values())) == len(names):
            return names
    return {pattern: f"link{number}" for number, pattern in enumerate(sorted(bare), 1)}


def _stem(name: str) -> str:
    suffixes = "pcap|pcapng|cap|dump|dmp|ntar|snoop|trc|csv|tsv|jsonl|ndjson|json|parquet|log|txt"
    return re.sub(rf"\.(?:{suffixes})[^.]*(?:\..*)?$", "", name)


def _word(text: str) -> str:
    """Converts a text into the name of a link; empty if no character is left."""
    word = re.sub(r"[^A-Za-z0-9_.-]+", "_", text.replace(_GAP, "_").replace("%%", "_"))
    word = re.sub(r"[-_.]{2,}", "_", word).strip("-_.")
    return word if not word or word[0].isalpha() else f"link_{word}"
