"""The parts of one name of a file: text, moments, numbers and counts, as recorders write them.

Below `names`, where all names of a group decide what one name leaves open.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from lowwater.lake.files.patterns import literal

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

_AFTER_DATE = tuple(re.compile(clock) for clock in (_BELOW, _BETWEEN + _HALF, _BETWEEN + _FULL))
_ALONE = tuple(
    re.compile(_EDGE + clock)
    for clock in (_HALF, rf"{_HOURS}(?P<c>[-_:.])(?P<M>[0-5]\d)(?:(?P=c)(?P<S>[0-5]\d))(?![0-9])",
                  rf"{_HOURS}(?P<c>:)(?P<M>[0-5]\d)(?![0-9])",
                  rf"{_HOURS}(?P<c>)(?P<M>[0-5]\d)(?P<S>[0-5]\d)(?![0-9])")
)  # fmt: skip
_DIGITS_ALONE = _ALONE[-1]
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
    """Which readings of a name are taken that its digits alone do not prove; records then confirm or refuse them.

    Attributes:
        weak: dates of six digits, days of the year, and clocks of two or four digits below a date.
        day_first: whether 01-02-2026 is of February.
    """

    weak: bool = True
    day_first: bool = True


@dataclass(frozen=True)
class Piece:
    """A part of a name.

    Attributes:
        kind: `text`; `time`: fields and text; `weekday`; `open`: digits behind a second, a fraction, a count or an end;
            `number`; `count`: digits or none.
        parts: (field, text), the field empty for text.
        weak: whether the digits alone do not prove the reading.
    """

    kind: str
    parts: tuple[tuple[str, str], ...]
    weak: bool = False

    @property
    def text(self) -> str:
        """The part as it stands in the name."""
        return "".join(text for _, text in self.parts)

    @property
    def values(self) -> dict[str, str]:
        """Field -> its text."""
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
            _counted(name, at) or _weekday(name, at) or _time(name, at, form, seen, name[told:at]) or _number(name, at)
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


def _weekday(name: str, at: int) -> Found | None:
    match = _WEEKDAY.match(name, at)
    return ([Piece("weekday", (("", match.group()),))], match.end()) if match else None


def _counted(name: str, at: int) -> Found | None:
    return ([Piece("count", (("", name[at:]),))], len(name)) if _COUNTED.match(name, at) else None


def _number(name: str, at: int) -> Found | None:
    match = _NUMBER.match(name, at)
    return ([Piece("number", (("", match.group()),))], match.end()) if match else None


def _time(name: str, at: int, form: Form, seen: set[str], before: str) -> Found | None:
    """The parts of a moment that begins here, after these fields, and this text since the last one."""
    for day in _STRONG_DAYS:
        if (match := day.match(name, at)) and (found := _date(name, match, form)):
            return found
    if match := _EPOCH.match(name, at):
        parts = [("s", match["s"]), *([("", ".")] if match["dot"] else [])]
        parts += [(fraction_field(digits), digits) for digits in (match["N"], match["N2"]) if digits]
        return [Piece("time", tuple(parts))], match.end()
    for day in _WEAK_DAYS[form.day_first] if form.weak else ():
        if (match := day.match(name, at)) and (found := _date(name, match, form)):
            return [replace(found[0][0], weak=True), *found[0][1:]], found[1]
    if seen & {"H", "I"} and TO.fullmatch(before):
        return _clock(name, at, _ALONE, [], False)
    if seen & {"d", "j"} and not seen & {"H", "I", "s"}:
        return _clock(name, at, _ALONE, [], False) or (_clock(name, at, _WEAK_ALONE, [], True) if form.weak else None)
    return None


def _date(name: str, day: re.Match[str], form: Form) -> Found | None:
    """A date, and the clock behind it; None if digits follow that are neither."""
    parts = _parts(day, _DAY_FIELDS)
    hour_alone = re.compile(_BETWEEN + _HOURS + r"(?![0-9A-Za-z:])")
    for clock in _AFTER_DATE:
        match = clock.match(name, day.end())
        if match is None or (not match.groupdict().get("S") and name[match.end() : match.end() + 1].isdigit()):
            continue
        if (run := _RUN.match(name, day.end())) and len(run["run"]) > 7 and run["run"].startswith("0000"):
            continue  # a padded number behind the date, as Arkime's
        weak = bool(match["b0"]) and not match.groupdict().get("M") and bool(hour_alone.match(name, day.end()))
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
    """The fields of a match, and the text between them."""
    spans = sorted((*match.span(field), field) for field in match.re.groupindex if field in fields and match[field])
    parts, at = list[tuple[str, str]](), match.start()
    for begin, end, field in spans:
        if at < begin:
            parts.append(("", match.string[at:begin]))
        parts.append((field, match.string[begin:end]))
        at = end
    return parts


def fraction_field(digits: str) -> str:
    """The field of a fraction of a second of so many digits."""
    return f"{len(digits)}N"
