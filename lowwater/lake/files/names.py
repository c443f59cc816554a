"""Names of capture files: their parts, the groups of a link, the pattern and the name of each, and the dates in them.

A date gives begin and length of coverage, and is checked against the records of a sample. A date that a record
contradicts is not used. Otherwise uncovered time would pass for silence, and records outside of the coverage would be
in no account (SEMANTICS T5).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

from lowwater.capture.inspect import CaptureFacts
from lowwater.config import Link
from lowwater.instants import HOUR, SECOND, format_duration, format_instant
from lowwater.lake.files.patterns import (
    DAYS,
    MONTHS,
    NamedTime,
    covers_line,
    is_dated,
    last_unit,
    literal,
    named_time,
    pieces_of,
    regex_of,
    second_coverage,
)

# The parts of one name: text, moments, numbers and counts, as recorders write them.

_YEAR, _MON, _DAY2 = r"(?P<Y>19[7-9]\d|20\d\d)", r"(?P<m>0[1-9]|1[0-2])", r"(?P<d>0[1-9]|[12]\d|3[01])"
_WORD = r"(?P<B>(?i:january|february|march|april|june|july|august|september|october|november|december))"
_NAMED = rf"(?:{_WORD}|(?P<b>(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)))"
_SAME = r"(?P=sep)"
_STRONG = (
    rf"{_YEAR}(?P<sep>[-_./]?){_MON}{_SAME}{_DAY2}",
    rf"{_DAY2}(?P<sep>[-_. ]?){_NAMED}{_SAME}{_YEAR}",
    rf"{_NAMED}(?P<sep>[-_. ]?){_DAY2}{_SAME}{_YEAR}",
    rf"{_YEAR}(?P<sep>[-_. ]?){_NAMED}{_SAME}{_DAY2}",
)
_DAY_FIRST = rf"{_DAY2}(?P<sep>[-_.]?){_MON}{_SAME}{_YEAR}"
_MONTH_FIRST = rf"{_MON}(?P<sep>[-_.]?){_DAY2}{_SAME}{_YEAR}"
_SHORT = rf"(?P<y>[0-3]\d)(?P<sep>[-_.]?){_MON}{_SAME}{_DAY2}"
_MONTHLY = rf"{_YEAR}(?P<sep>[-_./]?){_MON}(?![-_./]?\d)"
_OF_YEAR = r"(?P<Y>19[7-9]\d|20\d\d)(?P<sep>[-_./]?)(?P<j>00[1-9]|0[1-9]\d|[12]\d\d|3[0-5]\d|36[0-6])"
_HOURS = r"(?P<H>[01]\d|2[0-3])"
_HALF = (
    r"(?P<I>0[1-9]|1[0-2])(?P<c>[-_:.]?)(?P<M>[0-5]\d)(?:(?P=c)(?P<S>[0-5]\d))?(?P<gap>[-_. ]?)(?P<p>[AaPp][Mm])"
    r"(?![0-9A-Za-z])"
)
_FULL = rf"{_HOURS}(?:(?P<c>[-_:.]?)(?P<M>[0-5]\d)(?:(?P=c)(?P<S>[0-5]\d))?)?"
_BELOW = rf"(?P<b0>/){_HOURS}(?P<c>/)(?P<M>[0-5]\d)(?=[/.]|$)"
_BETWEEN = r"(?P<b0>[-_.]T|[-_ ]{0,2}|[.T/]?)"
_EDGE = r"(?<![0-9])"

_HOUR_ALONE = _BETWEEN + _HOURS + r"(?![0-9A-Za-z:])"
_AFTER_DATE = tuple(re.compile(clock) for clock in (_BELOW, _BETWEEN + _HALF, _BETWEEN + _FULL, _HOUR_ALONE))
_ALONE = tuple(
    re.compile(_EDGE + clock)
    for clock in (_HALF, rf"{_HOURS}(?P<c>[-_:.])(?P<M>[0-5]\d)(?:(?P=c)(?P<S>[0-5]\d))(?![0-9])",
                  rf"{_HOURS}(?P<c>:)(?P<M>[0-5]\d)(?![0-9])",
                  rf"{_HOURS}(?P<c>)(?P<M>[0-5]\d)(?P<S>[0-5]\d)(?![0-9])")
)  # fmt: skip
_DIGITS_ALONE = _ALONE[-1]
_FINE_ALONE = re.compile(rf"{_HOURS}(?P<c>)(?P<M>[0-5]\d)(?P<S>[0-5]\d)(?=(?:\d{{3}}){{1,3}}(?![0-9]))")
"""A clock with a fraction behind it, as an end in a name whose begin is written so."""

_WEAK_ALONE = (re.compile(rf"(?<![0-9A-Za-z]){_HOURS}(?:(?P<c>)(?P<M>[0-5]\d))?(?![0-9A-Za-z])"),)
_EPOCH = re.compile(r"(?<!\d)(?P<s>1\d{9})(?:(?P<N>\d{9}|\d{6}|\d{3})|(?P<dot>\.)(?P<N2>\d{9}|\d{6}|\d{3}))?(?!\d)")
_OFFSET = re.compile(r"(?P<z>[+-](?:0\d|1[0-4])(?::[0-5]\d|00|30|45))(?![0-9A-Za-z:])")
_ZONES = "CES?T|[WE]ES?T|MSK|[ECMP][SD]T|JST|BST|AE[SD]T|NZ[SD]T|HKT|SGT|KST"
_ZONE = re.compile(rf"(?P<gap>[-_. ]?)(?P<Z>{_ZONES})(?![0-9A-Za-z])")
_OPEN = re.compile(r"(?P<gap>[-_.,])(?P<digits>\d{1,9})(?![0-9A-Za-z])")
_RUN = re.compile(r"[-_.](?P<run>\d+)")
_GLUED = re.compile(r"\d{0,9}(?!\d)")
TO = re.compile(r"(?:Z|[-_. ]?(?:UTC|GMT))?(?:-|_|--|_-_| - |_to_|-to-|~|\.\.)")
_NUMBER = re.compile(r"(?<![0-9A-Za-z])(?:\d{1,19}|(?=[a-f]*\d)[0-9a-f]{8,64})(?![0-9A-Za-z])")
"""A number that may count files, or a digest or an address in hexadecimal."""

_COUNTED = re.compile(r"(?<=\.cap|\.dmp)\d{0,6}$|(?<=\.pcap|\.dump|\.ntar)\d{0,6}$|(?<=\.pcapng)\d{0,6}$")
"""What `tcpdump -C` appends; its first file has no number."""

_WEEKDAY = re.compile(
    r"(?<![A-Za-z])(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|mon|tue|wed|thu|fri|sat|sun)(?![A-Za-z])",
    re.IGNORECASE,
)

_PACKED = re.compile(r"\.(?:gz|zst|zstd|xz|lz4|lzma|bz2)$")


@dataclass(frozen=True)
class Form:
    """Which readings of a name are taken that its digits alone do not prove; records then confirm or refuse them."""

    weak: bool = True  # dates of six digits, days of the year, and clocks of two or four digits below a date
    day_first: bool = True  # whether 01-02-2026 is of February


@dataclass(frozen=True)
class Piece:
    """A part of a name."""

    # `text`; `time`: fields and text; `weekday`; `open`: digits behind a second, a fraction, a count or an end;
    # `number`; `count`: digits or none
    kind: str
    parts: tuple[tuple[str, str], ...]  # (field, text), the field empty for text
    weak: bool = False  # whether the digits alone do not prove the reading

    @property
    def text(self) -> str:
        return "".join(text for _, text in self.parts)

    @property
    def values(self) -> dict[str, str]:
        return {name: text for name, text in self.parts if name}

    @property
    def key(self) -> str:
        """What is alike in all names of a recorder."""
        if self.kind == "open":
            return f"{self.parts[0][1]}<open>"
        return {"number": "<number>", "count": "<count>", "weekday": "<day>"}.get(self.kind) or self.as_fields()

    def as_fields(self, end: bool = False) -> str:
        """The pattern of the part, of the begin or of the end of a file."""
        mark = "%E" if end else "%"
        return "".join(f"{mark}{name}" if name else literal(text) for name, text in self.parts)


def plain(name: str) -> str:
    """A name without its compression."""
    return _PACKED.sub("", name)


def packed(name: str) -> str:
    """The compression at the end of a name; empty without one."""
    match = _PACKED.search(name)
    return match.group() if match else ""


def day_first(names: Sequence[str]) -> bool:
    """Whether more names are dates with the day before the month than the other way round."""
    first, second = (re.compile(_EDGE + day + r"(?!\d)") for day in (_DAY_FIRST, _MONTH_FIRST))
    return sum(bool(first.search(name)) for name in names) >= sum(bool(second.search(name)) for name in names)


_CLOCK_FIELDS, _DAY_FIELDS = "HIMSp", "YymdjbB"
_STRONG_DAYS = tuple(re.compile(_EDGE + day) for day in _STRONG)
_WHOLE_DAYS = tuple(re.compile(_EDGE + day + r"(?![0-9])") for day in _STRONG)
"""Dates without digits behind them: from one to another there is no clock, though `_2026` might be one."""

_WEAK_DAYS = {
    first: tuple(re.compile(rf"(?<![0-9A-Za-z]){day}") for day in (numbers, _MONTHLY, _SHORT, _OF_YEAR))
    for first, numbers in ((True, _DAY_FIRST), (False, _MONTH_FIRST))
}

Found = tuple[list[Piece], int]
"""Parts of a name, and where they end."""


def parse(name: str, form: Form) -> Iterator[Piece]:
    """Divides a name, without its compression, into its parts."""
    at = start = told = 0  # where to look, and where the text since the last part, and since the last time, begins
    seen = set[str]()
    while at <= len(name):
        found = (
            _alone("count", _COUNTED.match(name, at))
            or _alone("weekday", _WEEKDAY.match(name, at))
            or _time(name, at, form, seen, name[told:at])
            or _alone("number", _NUMBER.match(name, at))
        )
        if not found:
            at += 1
            continue
        pieces, end = found
        if start < at:
            yield Piece("text", (("", name[start:at]),))
        yield from pieces
        if pieces[0].kind == "time":
            seen |= {field for piece in pieces for field in piece.values}
            told = end
        start = end
        at = end if end < len(name) or pieces[-1].kind != "count" else len(name) + 1
    if start < len(name):
        yield Piece("text", (("", name[start:]),))


def _alone(kind: str, match: re.Match[str] | None) -> Found | None:
    return ([Piece(kind, (("", match.group()),))], match.end()) if match else None


def _time(name: str, at: int, form: Form, seen: set[str], before: str) -> Found | None:
    """The parts of a moment that begins here, after these fields, and this text since the last one."""
    for day in _STRONG_DAYS:
        if (match := day.match(name, at)) and (found := _date(name, match, form)):
            return found
    if match := _EPOCH.match(name, at):
        parts = [("s", match["s"]), *([("", ".")] if match["dot"] else [])]
        parts += [(f"{len(digits)}N", digits) for digits in (match["N"], match["N2"]) if digits]
        return [Piece("time", tuple(parts))], match.end()
    for day in _WEAK_DAYS[form.day_first] if form.weak else ():
        if (match := day.match(name, at)) and (found := _date(name, match, form)):
            return [replace(found[0][0], weak=True), *found[0][1:]], found[1]
    if seen & {"H", "I"} and TO.fullmatch(before):
        digits = re.search(r"\d*$", name[: at - len(before)])
        alike = digits and len(digits.group()) > 6 and name[at : at + len(digits.group())].isdigit()
        return _clock(name, at, (*_ALONE, *([_FINE_ALONE] if alike else [])), [], False)
    if seen & {"d", "j"} and not seen & {"H", "I", "s"}:
        return _clock(name, at, _ALONE, [], False) or (_clock(name, at, _WEAK_ALONE, [], True) if form.weak else None)
    return None


def _date(name: str, day: re.Match[str], form: Form) -> Found | None:
    """A date, and the clock behind it; None if digits follow that are neither."""
    parts = _parts(day, _DAY_FIELDS)
    until = (to := TO.match(name, day.end())) and any(other.match(name, to.end()) for other in _WHOLE_DAYS)
    for clock in _AFTER_DATE if not until else ():
        match = clock.match(name, day.end())
        if match is None or (not match.groupdict().get("S") and name[match.end() : match.end() + 1].isdigit()):
            continue
        if (run := _RUN.match(name, day.end())) and len(run["run"]) > 7 and run["run"].startswith("0000"):
            end = (to := TO.match(name, run.end())) and re.compile(r"\d+").match(name, to.end())
            if not end or len(end.group()) != len(run["run"]):
                continue  # a padded number behind the date, as Arkime's
        alone = re.compile(_HOUR_ALONE).match(name, day.end())
        weak = bool(match["b0"]) and not match.groupdict().get("M") and bool(alone)
        if not weak or form.weak:
            return _with_clock(name, match, parts, weak)
    return None if name[day.end() : day.end() + 1].isdigit() else ([Piece("time", tuple(parts))], day.end())


def _clock(
    name: str, at: int, clocks: Iterable[re.Pattern[str]], parts: list[tuple[str, str]], weak: bool
) -> Found | None:
    match = next((match for clock in clocks if (match := clock.match(name, at))), None)
    return _with_clock(name, match, parts, weak) if match else None


def _with_clock(name: str, clock: re.Match[str], parts: list[tuple[str, str]], weak: bool) -> Found:
    """A moment with this clock, and what belongs to it behind it: digits below the second, a zone."""
    pieces = [Piece("time", (*parts, *_parts(clock, _CLOCK_FIELDS)), weak)]
    end = clock.end()
    if clock.groupdict().get("S"):
        glued = _GLUED.match(name, end)
        digits = glued.group() if glued else ""
        pieces.append(Piece("count", (("", digits),)))
        end += len(digits)
        zone = _OFFSET.match(name, end)
        while not digits and not zone and (more := _OPEN.match(name, end)):
            if any(clock.match(name, more.start("digits")) for clock in _ALONE if clock is not _DIGITS_ALONE):
                break  # the end of the file
            pieces.append(Piece("open", (("", more["gap"]), ("", more["digits"]))))
            end = more.end()
            zone = _OFFSET.match(name, end)
    for pattern in (_OFFSET, _ZONE):
        if match := pattern.match(name, end):
            pieces.append(Piece("time", tuple(_parts(match, "zZ"))))
            return pieces, match.end()
    return pieces, end


def _parts(match: re.Match[str], fields: str) -> list[tuple[str, str]]:
    spans = sorted((*match.span(field), field) for field in match.re.groupindex if field in fields and match[field])
    parts, at = list[tuple[str, str]](), match.start()
    for begin, end, field in spans:
        if at < begin:
            parts.append(("", match.string[at:begin]))
        parts.append((field, match.string[begin:end]))
        at = end
    return parts


# The pattern of a group. What one name leaves open (a fraction or a count, an end or the same date again) all names
# of a group decide.

_GAP = "\0"
"""Placeholder for the instant in a name, while the name of the link is derived."""


@dataclass(frozen=True)
class LinkFiles:
    """The files of a link, by their names."""

    link: str
    patterns: tuple[str, ...]  # patterns of the files, as `captures` in the settings; relative like the names
    names: tuple[str, ...]  # names of the files, sorted

    @property
    def pattern(self) -> str:
        return ", ".join(self.patterns)

    @property
    def dated(self) -> bool:
        """Whether every pattern has the begin of a file."""
        return all(is_dated(pattern) for pattern in self.patterns)

    @property
    def fields(self) -> set[str]:
        """Letters of the fields in the patterns."""
        return {piece[-1] for pattern in self.patterns for piece in pieces_of(pattern) if piece[0] == "%"}


@dataclass(frozen=True)
class NameGroup:
    """Files whose names differ only in their instant, in numbers, and in the compression."""

    members: Mapping[str, tuple[Piece, ...]]  # file name -> its parts; alike but for their values
    fixed: frozenset[int] = frozenset()  # numbers (by index) that tell links apart, so that they stand in the pattern

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the files, sorted."""
        return tuple(sorted(self.members))

    @property
    def weak(self) -> bool:
        """Whether a reading of the names needs records that confirm it."""
        return any(piece.weak for piece in next(iter(self.members.values())))

    @cached_property
    def _rendered(self) -> list[str]:
        return _render(list(zip(*self.members.values(), strict=True)), self.fixed)

    @property
    def shape(self) -> str:
        """The pattern without a compression."""
        return "".join(self._rendered)

    @property
    def patterns(self) -> tuple[str, ...]:
        """Patterns of the names, one for each compression."""
        return tuple(self.shape + literal(end) for end in sorted({*map(packed, self.members)}))

    @property
    def bare(self) -> str:
        """The first name with placeholders for what differs."""
        first = self.members[self.names[0]]
        return "".join(
            _GAP if re.search(r"(?<!%)(?:%%)*%[^%]|^[*/]+$", pattern) else piece.text
            for piece, pattern in zip(first, self._rendered, strict=True)
        )

    def differing(self, names: Iterable[str]) -> tuple[int, ...]:
        """Indices of the numbers in which some of the files differ."""
        wanted = {*names}
        kept = [at for at, name in enumerate(self.members) if name in wanted]
        return tuple(
            number
            for number, values in enumerate(self._numbers())
            if len({values[at] for at in kept}) > 1 and number not in self.fixed
        )

    def only(self, names: Iterable[str]) -> NameGroup:
        return replace(self, members={name: self.members[name] for name in names})

    def by(self, places: Sequence[int]) -> list[NameGroup]:
        """Divides the files by the values of the numbers at these indices."""
        numbers, parts = self._numbers(), defaultdict[tuple[str, ...], list[str]](list)
        for at, name in enumerate(self.members):
            parts[tuple(numbers[place][at] for place in places)].append(name)
        return [replace(self.only(parts[key]), fixed=self.fixed | {*places}) for key in sorted(parts)]

    def _numbers(self) -> list[tuple[str, ...]]:
        columns = list(zip(*self.members.values(), strict=True))
        return [
            tuple(each.text for each in column)
            for column, number in zip(columns, _numbered(columns), strict=True)
            if number
        ]


def group_names(names: Iterable[str], form: Form | None = None) -> list[NameGroup]:
    """Groups names (relative paths with `/`) that differ only in their instant, in numbers and the compression."""
    names = sorted(names)
    form = form or Form(day_first=day_first(names))
    groups = _grouped(names, replace(form, weak=False))
    if form.weak:
        # A reading that the digits do not prove holds for all files of a recorder, or for none.
        read = [_grouped(members, form) for members in groups]
        groups = [better[0] if len(better) == 1 else members for members, better in zip(groups, read, strict=True)]
    return [NameGroup(members) for members in groups]


def _grouped(names: Iterable[str], form: Form) -> list[dict[str, tuple[Piece, ...]]]:
    groups: dict[str, dict[str, tuple[Piece, ...]]] = defaultdict(dict)
    for name in names:
        pieces = tuple(parse(plain(name), form))
        groups["\0".join(piece.key for piece in pieces)][name] = pieces
    return [*groups.values()]


@dataclass(frozen=True)
class JoinedGroup:
    """Files whose names differ in a word, and that are of one link by their times."""

    names: tuple[str, ...]  # names of the files, sorted
    patterns: tuple[str, ...]
    bare: str  # a name with placeholders for what differs


def name_links(groups: Iterable[NameGroup | JoinedGroup]) -> list[LinkFiles]:
    """Finds a link name and the patterns for every group of files.

    Example:
        >>> found = name_links(group_names(["a/a_2026010100.pcap", "a/a_2026010101.pcap"]))
        >>> [(files.link, files.patterns) for files in found]
        [('a', ('a/a_%Y%m%d%H.pcap',))]
    """
    by_patterns = {group.patterns: group for group in groups}
    links = link_names({patterns: group.bare for patterns, group in by_patterns.items()})
    return [LinkFiles(links[patterns], patterns, group.names) for patterns, group in by_patterns.items()]


# -- the names of a group


Column = tuple[Piece, ...]
"""One part of all names of a group."""

_COARSE = "sYymbBdjpHIMS"


def _render(columns: Sequence[Column], fixed: frozenset[int]) -> list[str]:
    patterns, numbers, numbered = list[str](), 0, _numbered(columns)
    begins = dict[str, tuple[str, ...]]()  # field -> its texts
    in_folder = False  # whether a time stands in a folder, which a time in the name below may say better
    ending = False
    for at, column in enumerate(columns):
        kind, first = column[0].kind, column[0]
        if kind == "text":
            patterns.append(literal(first.text))
            in_folder = in_folder or ("/" in first.text and any(each[0].kind == "time" for each in columns[:at]))
        elif kind == "weekday":
            patterns.append("")  # the date may come later
        elif kind == "time":
            place = _place(columns, at, begins)
            if place == "else" and in_folder:
                for before in (number for number in range(at) if columns[number][0].kind == "time"):
                    patterns[before] = _anything(columns[before])
                begins, place, ending = {}, "begin", False
            place = "else" if place == "end" and ending else place
            ending = ending or place == "end"
            if place == "begin" and not ending:
                begins |= {name: tuple(piece.values[name] for piece in column) for name in first.values}
            zone_of_end = ending and not first.values.keys() - {"z", "Z"}
            patterns.append(_anything(column) if place == "else" else first.as_fields(place == "end" or zone_of_end))
        elif _is_end(columns, at):
            patterns.append("%EH%EM")
            ending = True
        elif numbered[at]:
            patterns.append(_number_pattern(column, numbers in fixed))
            numbers += 1
        else:
            patterns.append(_below_second(column, ending))
            ending = ending or "%E" in patterns[-1]
    for at, column in enumerate(columns):
        if column[0].kind == "weekday":
            patterns[at] = _weekday_pattern([piece.text for piece in column], begins)
    return patterns


def _anything(column: Column) -> str:
    """Wildcards in place of a time that is neither the begin nor the end, one for each folder."""
    return re.sub(r"[^/]+", "*", column[0].text)


def _weekday_pattern(texts: Sequence[str], begins: Mapping[str, tuple[str, ...]]) -> str:
    """The field of a weekday, where it is that of the date or differs; else the word."""
    years, months = begins.get("Y"), begins.get("m") or begins.get("b") or begins.get("B")
    right = bool(years and months and "d" in begins) and all(
        _is_weekday(text, *date)
        for text, *date in zip(texts, years or (), months or (), begins.get("d", ()), strict=False)
    )
    if not right and len({*texts}) == 1:
        return literal(texts[0])
    return "%a" if all(len(text) == 3 for text in texts) else "%A" if all(text[-3:] == "day" for text in texts) else "*"


def _is_weekday(text: str, year: str, month: str, day: str) -> bool:
    number = int(month) if month.isdigit() else _ordinal("b", month) + 1
    try:
        return DAYS[date(int(year), number, int(day)).weekday()] == text[:3].lower()
    except ValueError:
        return False


def _place(columns: Sequence[Column], at: int, begins: Mapping[str, tuple[str, ...]]) -> str:
    """What a time in the names is beside the one before it: `begin`, also again or in part, `end`, or `else`."""
    fields = columns[at][0].values
    shared = [name for name in _COARSE if name in fields and name in begins]
    values = {name: tuple(piece.values[name] for piece in columns[at]) for name in fields}
    if "s" not in fields and "s" in begins:
        return "else"
    same, behind = all(values[name] == begins[name] for name in shared), _behind_to(columns, at)
    dated = fields.keys() & {*"sYymdjbB"}
    if same and (dated or not (shared and behind)):
        return "begin"
    if not behind:
        return "else"
    later = all(
        [_ordinal(name, values[name][row]) for name in shared] >= [_ordinal(name, begins[name][row]) for name in shared]
        for row in range(len(columns[at]))
    )
    return "end" if later or not dated else "else"


def _behind_to(columns: Sequence[Column], at: int) -> bool:
    """Whether only the words between a begin and an end stand between a time and the one before it."""
    between = ""
    numbered = _numbered(columns)
    for number, column in reversed([*enumerate(columns[:at])]):
        if column[0].kind == "time" and not column[0].values.keys() <= {"z", "Z"}:
            return TO.fullmatch(between) is not None
        fraction = column[0].kind in ("count", "open") and not numbered[number]
        between = ("" if column[0].kind == "time" or fraction else column[0].text) + between
    return False


def _ordinal(name: str, text: str) -> int:
    if name in "bB":
        return MONTHS.index(text[:3].lower())
    return "ap".index(text[0].lower()) if name == "p" else int(text)


def _numbered(columns: Sequence[Column]) -> list[bool]:
    """Which parts are numbers that count or name something. Zeros behind the second of a begin are a fraction, and no
    count, where the second of the end has a fraction, or zeros, of as many digits."""
    found = [column[0].kind not in ("text", "time", "weekday") and _is_number(column) for column in columns]
    below = {
        at: [piece.parts[-1][1] for piece in column]
        for at, column in enumerate(columns)
        if column[0].kind in ("count", "open")
    }
    fractions = [len(texts[0]) for at, texts in below.items() if not found[at] and _is_fraction(texts)]
    zeros = {at: len(texts[0]) for at, texts in below.items() if {*texts} in ({"000"}, {"000000"}, {"000000000"})}
    alike = Counter([*fractions, *zeros.values()])
    return [
        number and not _is_end(columns, at) and not (at in zeros and alike[zeros[at]] > 1)
        for at, number in enumerate(found)
    ]


def _is_end(columns: Sequence[Column], at: int) -> bool:
    """Whether numbers of four digits are the ends of files whose begins have minutes, and no seconds: `_0000_0059`.
    They differ, each begin has one, and none is before its begin but midnight."""
    if at < 2 or columns[at][0].kind != "number" or columns[at - 1][0].text not in ("-", "_"):
        return False
    begins = [piece.parts[-2:] for piece in columns[at - 2]]
    ends = [piece.text for piece in columns[at]]
    if columns[at - 2][0].kind != "time" or any([name for name, _ in begin] != ["H", "M"] for begin in begins):
        return False
    if any(re.fullmatch(r"(?:[01]\d|2[0-3])[0-5]\d", end) is None for end in ends) or len({*ends}) < 2:
        return False
    of = {(piece.text, end) for piece, end in zip(columns[at - 2], ends, strict=True)}
    before = [hour + minute for (_, hour), (_, minute) in begins]
    later = all(end == "0000" or end >= begin for begin, end in zip(before, ends, strict=True))
    return later and len(of) == len({begin for begin, _ in of})


def _is_number(column: Column) -> bool:
    """Whether a part is a number that counts or names something, and nothing of a time."""
    kind, texts = column[0].kind, [piece.parts[-1][1] for piece in column]
    if kind == "number":
        return True
    if kind == "count":
        return not _is_fraction(texts)
    gap = column[0].parts[0][1]
    return not (gap != "-" and _is_fraction(texts)) and not (gap in "-_" and all(map(_is_clock, texts)))


def _is_fraction(texts: Sequence[str]) -> bool:
    """Whether digits behind a second are a fraction of it: of one length, and nowhere near a count of the files."""
    return (
        len({len(text) for text in texts}) == 1
        and len(texts[0]) in (3, 6, 9)
        and max(map(int, texts)) > 2 * len(texts) + 10
    )


def _is_clock(text: str) -> bool:
    return re.fullmatch(r"(?:[01]\d|2[0-3])[0-5]\d[0-5]\d", text) is not None


def _number_pattern(column: Column, fixed: bool) -> str:
    texts = [piece.text for piece in column]
    if column[0].kind == "count":
        return literal(texts[0]) if fixed else "%c" if any(texts) else ""
    gap, digits = ("", texts[0]) if column[0].kind == "number" else (column[0].parts[0][1], column[0].parts[1][1])
    padded = len(digits) > 2 and digits[0] == "0"
    counts = not fixed and (len(set(texts)) > 1 or padded)
    return gap + (digits if not counts else "%n" if all(piece.parts[-1][1].isdigit() for piece in column) else "*")


def _below_second(column: Column, ending: bool) -> str:
    """The pattern of digits behind a second: a fraction of it, or the clock of the end."""
    *gaps, (_, digits) = column[0].parts
    gap = literal(gaps[0][1]) if gaps else ""
    if gap in ("-", "_") and all(_is_clock(piece.parts[-1][1]) for piece in column):
        return f"{gap}%n" if ending else f"{gap}%EH%EM%ES"
    return f"{gap}{'%E' if ending else '%'}{len(digits)}N"


# -- the names of links


def link_names(bare: Mapping[tuple[str, ...], str]) -> dict[tuple[str, ...], str]:
    """Names the link of every group: after its files, its folder, or both, whichever gives different names."""
    bases = {key: text.rpartition("/")[2] for key, text in bare.items()}
    stems = {key: _word(_stem(re.sub(r"(?<=[-_.])\d{1,8}(?=[-_.])", "", text))) for key, text in bases.items()}
    numbered = {key: _word(_stem(text)) for key, text in bases.items()}
    folders = {key: _word(text.rpartition("/")[0].replace("/", "_")) for key, text in bare.items()}
    both, all_of_it = ({key: _word(f"{folders[key]}_{names[key]}") for key in bare} for names in (stems, numbered))
    for names in (stems, folders, numbered, both, all_of_it):
        if all(names.values()) and len(set(names.values())) == len(names):
            return names
    return {key: f"link{number}" for number, key in enumerate(sorted(bare), 1)}


def _stem(name: str) -> str:
    suffixes = "pcap|pcapng|cap|dump|dmp|ntar|snoop|trc|erf|csv|tsv|jsonl|ndjson|json|parquet|log|txt"
    return re.sub(rf"\.(?:{suffixes})[^.]*(?:\..*)?$", "", name)


def _word(text: str) -> str:
    """Converts a text into the name of a link; empty if no character is left."""
    word = re.sub(r"[^A-Za-z0-9_.-]+", "_", re.sub(rf"{_GAP}Z(?![A-Za-z])|{_GAP}", "_", text))
    word = re.sub(r"[-_.]{2,}", "_", word).strip("-_.")
    return word if not word or word[0].isalpha() else f"link_{word}"


# Dates in the names of a link's files.

MINUTE = 60 * SECOND
QUARTER = 15 * MINUTE
LENGTHS = tuple(MINUTE * n for n in (1, 2, 5, 10, 15, 20, 30)) + tuple(HOUR * n for n in (1, 2, 3, 4, 6, 8, 12, 24))
"""Candidates for the length of a rotation, and of an interval."""

NEAR = 20  # divisor for tolerances: a link begins, and a single file fills its time, within this part of a rotation
MOST_AHEAD, MOST_BEHIND = 14, 12  # zones of the tz database: hours ahead of UTC and behind it

FRACTIONAL = {
    12_600: "Asia/Tehran",
    16_200: "Asia/Kabul",
    19_800: "Asia/Kolkata",
    20_700: "Asia/Kathmandu",
    23_400: "Asia/Yangon",
    31_500: "Australia/Eucla",
    34_200: "Australia/Darwin",
    -34_200: "Pacific/Marquesas",
}
"""Zones whose clocks do not change, by their lead in s, where it is no whole hour."""

ABBREVIATIONS = {
    "CE": "Europe/Berlin",
    "WE": "Europe/Lisbon",
    "EE": "Europe/Helsinki",
    "MS": "Europe/Moscow",
    "E": "America/New_York",
    "C": "America/Chicago",
    "M": "America/Denver",
    "P": "America/Los_Angeles",
    "J": "Asia/Tokyo",
    "B": "Europe/London",
    "AE": "Australia/Sydney",
    "NZ": "Pacific/Auckland",
    "HK": "Asia/Hong_Kong",
    "SG": "Asia/Singapore",
    "K": "Asia/Seoul",
}
"""Zones by the beginning of an abbreviation in names."""


@dataclass(frozen=True)
class NameDates:
    """Coverage of a link's files according to their names."""

    # time that a file covers from the instant in its name, ns; None if the names do not tell
    rotation: int | None = None
    why: str = ""  # reason why there is no rotation, for the user; else empty
    guessed: bool = False  # whether the rotation is guessed from a single file
    zone: str = "UTC"  # time zone of the names; UTC unless several files agree on another
    ends: bool = False  # whether the names say when files end
    late: bool = False  # whether the names lead by a rotation, as they do where they say when a file ends
    since: int | None = None  # begin of the files' coverage, ns; None unless the names say what files cover
    until: int | None = None  # end of the files' coverage, ns; None likewise
    missing: tuple[tuple[int, int], ...] = ()  # time between files for which there is no file, [from, to), ns
    # the most that a file holds of its time, ns, where pauses between files are far longer than silences within; else 0
    partly: int = 0

    @property
    def declared(self) -> bool:
        """Whether the names say what files cover."""
        return self.rotation is not None or self.ends


def with_ends(folder: Path, named: LinkFiles, facts: Sequence[CaptureFacts], skew: int) -> tuple[LinkFiles, str]:
    """Decides by all names of a link whether the ends in them are the instant at which a file ends (`%E`), or the last
    second that it holds (`%L`), and puts that into the patterns. Returns what the names leave open, for the user; empty
    where they do not, or have no ends. `facts`: of some files below the folder, which decide where the names do not.

    A file that ends when another one begins has an end of the first kind; one whose successor begins a second, or
    another unit of the name, later has one of the second kind. Where no file follows another, a round time decides.
    """
    last = replace(named, patterns=tuple(map(_with_last, named.patterns)))
    if last == named:
        return named, ""
    zone = _zone_in_names(named) or "UTC"
    times = [(name, _read(named, name, zone), _read(last, name, zone)) for name in named.names]
    told = [(name, at.start, at.end, to.end) for name, at, to in times if at and to and at.end and to.end]
    begins = {start for _, start, _, _ in told}
    following = sum(at in begins for _, _, at, _ in told) - sum(to in begins for _, _, _, to in told)
    if not told or following:
        return (last if following < 0 else named), ""
    roundest = [(_roundness(start), _roundness(at), _roundness(to)) for _, start, at, to in told]
    if all(at > to for _, at, to in roundest):
        return named, ""
    name, _, at, to = told[0]
    ends = {folder / name: (at, to) for name, _, at, to in told}
    held = [(capture.largest, *ends[capture.path]) for capture in facts if capture.path in ends and capture.largest]
    if any(at + skew < largest < to for largest, at, to in held):
        return last, ""
    open_to = f"no file begins where another one ends, so the names leave open whether {name} holds the time from "
    open_to += f"{format_instant(at)} to {format_instant(to)}"
    if all(min(start, to) > at for start, at, to in roundest):
        return last, f"{open_to}: it is taken to, as its times are round then; if it does not, write %E in place of %L"
    return named, f"{open_to}: it is taken not to; if it does, write %L in place of %E"


def _with_last(pattern: str) -> str:
    return "".join(f"%L{piece[2:]}" if piece[:2] == "%E" else piece for piece in pieces_of(pattern))


def _roundness(instant: int) -> int:
    """The largest usual unit of time that divides an instant, ns."""
    return max(unit for unit in (1, 1_000, 1_000_000, SECOND, MINUTE, HOUR, 24 * HOUR) if instant % unit == 0)


Spans = Mapping[Path, tuple[int, int]]
"""File -> what its name declares, [from, to), ns, with its moments taken as UTC."""


def check_dates(
    folder: Path, named: LinkFiles, facts: Sequence[CaptureFacts], skew: int, early: bool = False
) -> NameDates:
    """Reads the dates in the names of a link's files, which are relative to a folder, and checks them against the facts
    of some files, among them the first and the last one with a record. `early`: whether the first file may hold records
    of the time before it, as the log of a tool does, which writes a connection when it ends."""
    if not named.dated:
        return NameDates(why="the files have no date in their names")
    zone = _zone_in_names(named)
    times = {folder / name: time for name in named.names if (time := _read(named, name, zone or "UTC")) is not None}
    single = len({time.start for time in times.values()}) == 1
    dated = [capture for capture in facts if capture.path in times and capture.largest is not None]
    if not dated:
        return NameDates(why="no file holds a record by which the dates in the names can be checked")
    ordered = sorted({time.start for time in times.values()})
    firsts = [time.start for time in times.values() if not time.counted]
    distances = [after - before for before, after in pairwise(ordered)]
    ends = all(time.end is not None for time in times.values())
    lengths = [(time.until(None) or 0) - time.start for time in times.values()]
    rotation = _most_frequent(lengths) if ends else _next_length(dated[0]) if single else _most_frequent(distances)
    if len(firsts) > len({*firsts}) or (single and len(times) > 1):
        return NameDates(why="several files have the same date in their names")
    if not ends and rotation is None:
        return NameDates(why="the dates in the names are at no regular distance")
    spans = {path: (time.start, time.until(rotation) or time.start) for path, time in times.items()}
    # A recorder that is started again within the last second (minute, day) of a file names both by it.
    shared = max(skew, last_unit(named.patterns))
    if ends and any(after[0] < before[1] - shared for before, after in pairwise(sorted(spans.values()))):
        return NameDates(why="the times from begin to end in the names overlap")
    leading = [capture for capture in dated if not times[capture.path].counted]
    checked = _checked(named, spans, dated, leading, skew, early or ends, zone, None if ends else rotation)
    if checked.why:
        return checked
    ahead = _ahead_of(checked.zone, zone)
    if beside := _beside(spans, ordered, dated, shared, ahead):
        return NameDates(
            why=f"most files are {format_duration(rotation or 0)} apart by their names, but the records of {beside} "
            "go on when the next one begins"
        )
    missing = [
        (before[1] - ahead, after[0] - ahead)
        for before, after in pairwise(sorted({*spans.values()}))
        if after[0] - before[1] > skew
    ]
    since, until = ordered[0] - ahead, max(end for _, end in spans.values()) - ahead
    first = min(dated, key=lambda capture: spans[capture.path])
    late, length = _begin(first, skew), spans[first.path][1] - spans[first.path][0]
    if spans[first.path][0] == ordered[0] and late > since + length // NEAR:
        since = late  # the capture began within the time of its first file
    return replace(
        checked, rotation=rotation, guessed=single and not ends, ends=ends, late=ahead == rotation,
        since=since, until=until, missing=tuple(missing), partly=_partly(spans, dated, skew),
    )  # fmt: skip


def confirmed(named: LinkFiles, firsts: Mapping[str, int]) -> bool:
    """Whether the first records (file -> ns) fit a reading of the names that their digits alone do not prove: all lead
    or lag by about the same time, as in a time zone."""
    leads = [time.start - firsts[name] for name in firsts if (time := _read(named, name, "UTC")) is not None]
    if len(leads) < len(firsts):
        return False
    fields = named.fields
    unit = HOUR if fields & {"H", "I", "s"} else 24 * HOUR if fields & {"d", "j"} else 31 * 24 * HOUR
    return not leads or (
        max(leads) - min(leads) <= unit and min(leads) >= -unit - 15 * HOUR and max(leads) <= 15 * HOUR
    )


def _read(named: LinkFiles, name: str, zone: str) -> NamedTime | None:
    """Returns the moment in the name of a file; None without one."""
    match = next(filter(None, (regex_of(pattern).fullmatch(name) for pattern in named.patterns)), None)
    return named_time(match, zone) if match else None


def _zone_in_names(named: LinkFiles) -> str:
    """The zone that the names themselves tell; empty if they tell none."""
    for pattern in named.patterns:
        pieces = pieces_of(pattern)
        if {"%z", "%s"} & {*pieces}:
            return "UTC"
        for field, text in pairwise(pieces):
            if field[0] == "%" and field[-1] in "HMSNpc" and re.match(r"Z(?![A-Za-z])|[-_. ]?(UTC|GMT)", text):
                return "UTC"
        if "%Z" in pieces:
            shown = {match["fZ"].upper() for name in named.names if (match := regex_of(pattern).fullmatch(name))}
            begin = re.match(r"(?:[CWEN]E|[NH][ZK]|MS|AE|SG|[ECMPJBK])(?=[SD]?[TK]|)", min(shown, default=""))
            return ABBREVIATIONS.get(begin.group() if begin else "", "UTC")
    return ""


def _checked(
    named: LinkFiles,
    spans: Spans,
    dated: Sequence[CaptureFacts],
    leading: Sequence[CaptureFacts],
    skew: int,
    early: bool,
    told: str,
    rotation: int | None,
) -> NameDates:
    """Compares what names declare with records; finds the zone of the names, if it has to be another than UTC."""
    stray = _stray(spans, dated, skew, 0, early)
    if stray is None:
        return NameDates(zone=told or "UTC")
    why = _contradiction(named, stray, spans, skew, early)
    ahead = None if told else _ahead(named, spans, leading, skew)
    if ahead is not None and _stray(spans, dated, skew, ahead, early) is not None:
        ahead = None
    if ahead is None:
        return NameDates(why=f"{why}{_hint(named, spans, leading, rotation) if not told else ''}")
    zone = _zone(ahead)
    if not zone:
        apart = f"the names are {format_duration(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'} the records"
        return NameDates(why=f'{apart}: if that is their time zone, write timezone = "..." and rotation')
    return NameDates(zone=zone)


def _beside(spans: Spans, ordered: Sequence[int], dated: Sequence[CaptureFacts], skew: int, ahead: int) -> str:
    """Returns a file that another one follows sooner than its rotation, though its records go on; empty without one. A
    recorder that is started again begins a file at once. The file before it then covers to its last record (T5)."""
    following = dict(pairwise(ordered))
    for capture in dated:
        begin, end = spans[capture.path]
        after = following.get(begin)
        if after is not None and after < end - skew and _end(capture) + ahead > after + skew:
            return capture.path.name
    return ""


def _stray(spans: Spans, dated: Sequence[CaptureFacts], skew: int, ahead: int, early: bool) -> CaptureFacts | None:
    """Returns a file whose records lie outside of what its name declares; None without one."""
    first, last = min(begin for begin, _ in spans.values()), max(end for _, end in spans.values())
    single = len({*spans.values()}) == 1
    for capture in dated:
        begin, end = spans[capture.path]
        if single and not early:
            tolerance = (end - begin) // NEAR
            if not (begin <= _begin(capture, skew) <= begin + tolerance and end - tolerance <= _end(capture) < end):
                return capture
            continue
        low = begin - ahead - (skew if begin > first or early else 0)
        high = end - ahead + (skew if end < last else 0)
        if not low <= _begin(capture, skew) <= _end(capture) < high:
            return capture
    return None


def _ahead(named: LinkFiles, spans: Spans, dated: Sequence[CaptureFacts], skew: int) -> int | None:
    """Returns the lead of the names over UTC, ns, if several hours of records agree on one; else None.

    A clock in the names tells it by the begin of at least two files. A date alone tells it by days that are filled to
    both ends: an hour in the middle of a day fits many zones.
    """
    told = list(dated)
    if not named.fields & {"H", "I"}:
        told = [each for each in dated if _held(each, skew) > _length(spans, each) * 9 // 10]
    offsets = {(spans[capture.path][0] - _begin(capture, skew) + QUARTER // 2) // QUARTER * QUARTER for capture in told}
    if len(offsets) != 1 or len({spans[capture.path][0] for capture in dated}) < 2:
        return None
    return offsets.pop()


def _length(spans: Spans, capture: CaptureFacts) -> int:
    begin, end = spans[capture.path]
    return end - begin


def _zone(ahead: int) -> str:
    """The name of a zone with this lead over UTC, ns; empty if the tz database has none whose clocks never change."""
    hours, rest = divmod(ahead, HOUR)
    if rest:
        return FRACTIONAL.get(ahead // SECOND, "")
    if not -MOST_BEHIND <= hours <= MOST_AHEAD:
        return ""
    return f"Etc/GMT{-hours:+d}" if hours else "UTC"


def _ahead_of(zone: str, told: str) -> int:
    """How far a proposed zone is ahead of UTC, ns; 0 if the names told it, so that it counts already."""
    if told or zone == "UTC":
        return 0
    named = re.fullmatch(r"Etc/GMT([+-]\d+)", zone)
    if named:
        return -int(named[1]) * HOUR
    return next(seconds for seconds, name in FRACTIONAL.items() if name == zone) * SECOND


_SUMMER = (
    "Europe/Berlin", "Europe/London", "Europe/Athens", "America/New_York", "America/Chicago", "America/Denver",
    "America/Los_Angeles", "America/Anchorage", "America/Halifax", "America/St_Johns", "America/Santiago",
    "Australia/Sydney", "Australia/Adelaide", "Pacific/Auckland", "Asia/Jerusalem",
)  # fmt: skip
"""Time zones with summer time, one of each lead over UTC and each season."""


def _summer_lines(named: LinkFiles, spans: Spans, dated: Sequence[CaptureFacts], rotation: int | None) -> str:
    """The settings of names in a zone with summer time. Where two files have the name of the hour that comes twice, the
    second one is of the second hour."""

    def fits(zone: str) -> bool:
        leads = ((spans[each.path][0] - _begin(each, 0) + QUARTER // 2) // QUARTER * QUARTER for each in dated)
        offsets = (datetime.fromtimestamp(_begin(each, 0) // SECOND, ZoneInfo(zone)).utcoffset() for each in dated)
        return all(offset == timedelta(seconds=lead // SECOND) for lead, offset in zip(leads, offsets, strict=True))

    zone = next((zone for zone in _SUMMER if fits(zone)), "")
    lines = f'timezone = "{zone}", or which it is' if zone else 'timezone = "..."'
    if rotation is None:
        return f"{lines}, and rotation"
    length = format_duration(rotation)
    lines += f', and rotation = "{length}"'
    patterns = [f"/{pattern}" for pattern in named.patterns]
    link = Link.model_validate({"captures": patterns, "timezone": zone or "UTC", "rotation": length})
    seconds = {name: span for name in named.names if (span := second_coverage(link, Path(f"/{name}")))}
    counted = [name for name in seconds if (time := _read(named, name, zone)) is not None and time.counted]
    if len(seconds) == 2 and len(counted) == 1:
        lines += f", and {covers_line(Path(counted[0]).name, seconds[counted[0]])}, since that hour comes twice"
    return lines


def _hint(named: LinkFiles, spans: Spans, dated: Sequence[CaptureFacts], rotation: int | None) -> str:
    """What the records say about a time zone of the names that they do not prove."""
    if not dated:
        return ""
    leads = sorted((spans[each.path][0] - _begin(each, 0) + QUARTER // 2) // QUARTER * QUARTER for each in dated)
    low, high = leads[0], leads[-1]
    if not (low >= -MOST_BEHIND * HOUR and high <= MOST_AHEAD * HOUR) or (low == high == 0):
        return ""
    if high - low == HOUR and len(leads) > 1:
        apart = (
            f"the names lead by {format_duration(low)} and by {format_duration(high)}, as in a zone with summer time"
        )
        return f"; {apart}: if so, write {_summer_lines(named, spans, dated, rotation)}"
    return f"; is it their time zone? {'One file does not tell' if len(spans) == 1 else 'They do not prove it'}"


def _partly(spans: Spans, dated: Sequence[CaptureFacts], skew: int) -> int:
    """Returns the most that a file holds of its time where the rest is no silence like those within; else 0."""
    counts = Counter(spans.values())
    dated = [capture for capture in dated if counts[spans[capture.path]] == 1]
    if not dated:
        return 0
    held = max(_held(capture, skew) for capture in dated)
    rest = min(_length(spans, capture) - _held(capture, skew) for capture in dated)
    silence = max((length for each in dated for one in each.interfaces for _, length in one.gaps.longest()), default=0)
    whole = min(_length(spans, capture) for capture in dated)
    return max(held, 1) if rest > whole // 2 and rest > 4 * silence else 0


def _held(facts: CaptureFacts, skew: int) -> int:
    """How long the records of a file last, ns."""
    return _end(facts) - _begin(facts, skew)


def _next_length(facts: CaptureFacts) -> int | None:
    lasts = max(interface.duration or 0 for interface in facts.interfaces)
    return next((length for length in LENGTHS if length >= lasts), None)


def _most_frequent(distances: Sequence[int]) -> int | None:
    """Returns the most frequent distance, if at least half of the distances have it."""
    if not distances:
        return None
    (length, count), *_ = sorted(Counter(distances).items(), key=lambda item: (-item[1], item[0]))
    return length if 2 * count >= len(distances) else None


def _begin(facts: CaptureFacts, skew: int) -> int:
    return facts.earliest(skew) or 0


def _end(facts: CaptureFacts) -> int:
    return facts.largest or 0


def _contradiction(named: LinkFiles, facts: CaptureFacts, spans: Spans, skew: int, early: bool) -> str:
    """Says what a name and the records of its file have against each other. One file without an end in its name, and
    with no record before its begin, contradicts nothing: its length is unknown."""
    name = next(candidate for candidate in named.names if facts.path.as_posix().endswith(candidate))
    start, until = spans[facts.path]
    begin, end = _begin(facts, skew), _end(facts)
    records = f"its records are of {format_instant(begin)} to {format_instant(end)}"
    if len({*spans.values()}) == 1 and not early and begin >= start - skew:
        return f"one file does not tell how long each covers: {name} says {format_instant(start)}, {records}"
    to = "" if len({*spans.values()}) == 1 and not early else f" to {format_instant(until)}"
    return f"the records contradict the names: {name} says {format_instant(start)}{to}, {records}"
