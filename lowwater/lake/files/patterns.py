"""The pattern language of `captures` in the settings, and what a pattern says of a file: the time that it covers."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from lowwater import errors, instants
from lowwater.config import Link, Piece, section_of
from lowwater.plan.temporal import END_OF_TIME
from lowwater.storage.captures import StoredCapture, captures_like, is_address

# Dates, ends, numbers and wildcards of a pattern.

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = "(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
_FULL = "(?i:january|february|march|april|may|june|july|august|september|october|november|december)"

FIELDS = {
    "Y": r"\d{4}",
    "y": r"\d\d",
    "m": r"\d\d",
    "d": r"\d\d",
    "j": r"\d{3}",
    "a": "(?i:mon|tue|wed|thu|fri|sat|sun)",
    "A": "(?i:monday|tuesday|wednesday|thursday|friday|saturday|sunday)",
    "b": _MONTH,
    "B": _FULL,
    "H": r"\d\d",
    "I": r"\d\d",
    "p": r"[AaPp][Mm]",
    "M": r"\d\d",
    "S": r"\d\d",
    "s": r"\d+",
    "z": r"Z|[+-]\d\d(?::?\d\d)?",
    "Z": r"[A-Za-z]{1,5}",
}
"""Field -> what it stands for. All but `%N`, `%n` and `%c` have one value in a name, however often they stand in it."""

ENDS = ("E", "L")
"""Marks of the fields of an end: `%E` is the instant at which a file ends, `%L` the last second (or whatever the finest
field is) that it holds."""

_UNITS = (("Ss", instants.SECOND), ("M", 60 * instants.SECOND), ("HI", instants.HOUR))
"""Fields of a clock, the finest first, with their units in ns."""

_WHOLE = {"F": "%Y-%m-%d", "T": "%H:%M:%S", "R": "%H:%M"}
_PIECE = re.compile(r"%[EL]?\d?[A-Za-z]|%.?|\[!?\]?[^\]]*\]|[*?]|[^%*?\[]+|\[")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d")
_MONTH_WORD = re.compile(
    r"(?<![a-z])(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)(?![a-z])",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d{1,2}")


@dataclass(frozen=True)
class NamedTime:
    """What a name says of the time of its file."""

    begin: datetime  # the moment in the name
    end: int | None  # behind the last instant that the name says, ns since the epoch; None without an end
    counted: bool  # whether the name goes on with a count (`%c`), so that the file begins later than its moment
    fraction: int  # part of a second that the begin has besides, ns

    @property
    def start(self) -> int:
        """The begin, ns since the epoch."""
        return _nanoseconds(self.begin) + self.fraction

    def until(self, rotation: int | None) -> int | None:
        """The end in the name, else a rotation (ns) after the begin; ns since the epoch, None without either.

        A day of a time zone may have 23 or 25 hours; an hour always has 60 minutes.
        """
        if self.end is not None:
            return self.end
        if rotation is None:
            return None
        days, rest = divmod(rotation, instants.DAY)
        return self.start + rotation if rest else _nanoseconds(self.begin + timedelta(days=days)) + self.fraction


def pieces_of(pattern: str) -> list[str]:
    """Divides a pattern into fields, wildcards and text. Raises ConfigError if a field is unknown."""
    pieces = []
    for piece in _PIECE.findall(pattern):
        if piece[0] != "%" or piece == "%%":
            pieces.append(piece)
            continue
        end, digit, letter = piece[1:2] if piece[1:2] in ENDS else "", piece.strip("%EL")[:-1], piece[-1]
        if letter in _WHOLE and not digit:
            pieces += pieces_of(_WHOLE[letter].replace("%", f"%{end}"))
            continue
        known = letter == "N" or (not digit and (letter in FIELDS or (letter in "nc" and not end)))
        if not known or digit == "0" or len(piece) < 2:
            raise errors.ConfigError(
                f"captures = {pattern!r}: unknown field {piece!r}",
                f"% itself is %%; known are %{', %'.join(FIELDS)}, %N, %n, %c, "
                "and %E or %L before the fields of an end",
            )
        pieces.append(piece)
    if len({piece[1] for piece in pieces if piece[0] == "%" and piece[1] in ENDS}) > 1:
        raise errors.ConfigError(
            f"captures = {pattern!r}: has an end by %E and by %L",
            "write %L before each field of the end where a file holds the second (minute, day) that its name ends "
            "with, else %E before each",
        )
    return pieces


@cache
def regex_of(pattern: str) -> re.Pattern[str]:
    """The names that a pattern stands for. Raises ConfigError if a field is unknown."""
    text, seen = "", set[str]()
    for number, piece in enumerate(pieces_of(pattern)):
        if piece[0] != "%" or piece == "%%":
            single = {"*": "[^/]*", "?": "[^/]", "%%": "%"}.get(piece)
            text += single or (_set(piece) if len(piece) > 2 and piece[0] == "[" else re.escape(piece))
            continue
        field = f"{piece[1] if piece[1] in ENDS else 'f'}{piece[-1]}"
        if piece[-1] == "N":
            text += rf"(?P<{field}{number}>\d{{{piece.strip('%EL')[:-1] or 9}}})"
        elif piece == "%n":
            text += r"\d+"
        elif piece == "%c":
            text += rf"(?P<c{number}>\d*)"
        elif field in seen:
            text += f"(?P={field})"
        else:
            text += f"(?P<{field}>{FIELDS[piece[-1]]})"
            seen.add(field)
    return re.compile(text)


def _set(piece: str) -> str:
    """A set of characters as `glob` reads it."""
    inside = piece[1:-1].removeprefix("!")
    body = "".join(sign if sign == "-" else re.escape(sign) for sign in inside)
    return f"[{'^' if piece[1] == '!' else ''}{body}]"


@cache
def wildcard(pattern: str) -> str:
    """A pattern as `glob` reads it, of at least its names."""
    text = "".join("*" if p[0] == "%" and p != "%%" else "%" if p == "%%" else p for p in pieces_of(pattern))
    return re.sub(r"\*+", "*", text)


def literal(text: str) -> str:
    """Returns the pattern that stands for this text alone.

    Example:
        >>> literal("50%/a[1]*.pcap")
        '50%%/a[[]1][*].pcap'
    """
    return re.sub(r"[*?\[]", r"[\g<0>]", text.replace("%", "%%"))


def is_dated(pattern: str) -> bool:
    """Whether a pattern has a moment."""
    return any(piece[0] == "%" and piece[-1] not in "%ncNaA" for piece in pieces_of(pattern))


def named_time(match: re.Match[str], zone: str) -> NamedTime | None:
    """Reads the moment in a name that a pattern matches; None if it has none, or digits that are no date. `match`: a
    match of `regex_of`."""
    values = {key: value for key, value in match.groupdict().items() if value is not None}
    begins, ends, lasts = ({key[1:]: text for key, text in values.items() if key[0] == side} for side in "fEL")
    if not begins.keys() - {key for key in begins if key[0] in "NaA"}:
        return None
    counts = [text for key, text in values.items() if key[0] == "c"]
    try:
        begin = _moment(begins, ZoneInfo(zone))
        told = begin is not None and (ends or lasts)
        end = _end(begins, ends or lasts, begin, ZoneInfo(zone), bool(lasts)) if begin is not None and told else None
    except (ValueError, OverflowError):  # digits that are no date, for example month 13
        return None
    if begin is None or (told and end is None):
        return None
    if end is not None and "Z" not in begins:
        begin = _last_begin(begin, end)
    return NamedTime(begin, end, any(int(count or 0) for count in counts), _fraction(begins))


def _end(
    begins: Mapping[str, str], ends: Mapping[str, str], begin: datetime, zone: ZoneInfo, inclusive: bool
) -> int | None:
    """The end of a file, ns, whose date is that of its begin, or the next day, where the name says none. Of an hour
    that occurs twice, it is the first one behind the begin. `inclusive`: the name says the last second, or whatever its
    finest field is, that the file holds."""
    dated = ends.keys() & {"s", "Y", "y", "m", "d", "j", "b", "B"}
    kept = "YymdjbBzZ" if not ends.keys() & {"s"} else ""
    end = _moment({**{key: text for key, text in begins.items() if key in kept}, **ends}, zone)
    if end is None:
        return None
    choices = [end, end.replace(fold=1), *([] if dated else [end + timedelta(days=1)])]
    behind = [_behind(each, ends) if inclusive else _nanoseconds(each) + _fraction(ends) for each in choices]
    return next((each for each in behind if each > _nanoseconds(begin) + _fraction(begins)), None)


def _behind(moment: datetime, values: Mapping[str, str]) -> int:
    """The end of the second, minute, day or whatever is the finest field of a moment, ns since the epoch."""
    digits = "".join(text for key, text in values.items() if key[0] == "N")
    if digits:
        return _nanoseconds(moment) + _fraction(values) + int(10 ** max(9 - len(digits), 0))
    unit = next((unit for fields, unit in _UNITS if values.keys() & {*fields}), None)
    if unit is not None:
        return _nanoseconds(moment) + unit
    # Days and months are those of a calendar: a day of a time zone may have 23 or 25 hours.
    if values.keys() & {"d", "j"}:
        return _nanoseconds(moment + timedelta(days=1))
    if values.keys() & {"m", "b", "B"}:
        return _nanoseconds((moment + timedelta(days=31)).replace(day=1))
    return _nanoseconds(moment.replace(year=moment.year + 1))


def last_unit(patterns: Iterable[str]) -> int:
    """The longest unit of time that an inclusive end in the names of a link says, ns; 0 without such ends. Two files
    share so much where a recorder is started again within it."""
    return max((_unit(pieces) for pattern in patterns if (pieces := pieces_of(pattern))), default=0)


def _unit(pieces: Iterable[str]) -> int:
    ends = {piece[2:] for piece in pieces if piece[:2] == "%L"}
    if digits := [int(field[:-1] or 9) for field in ends if field[-1] == "N"]:
        return int(10 ** (9 - max(digits)))
    return next((unit for fields, unit in _UNITS if ends & {*fields}), instants.DAY if ends else 0)


def _last_begin(begin: datetime, end: int) -> datetime:
    """The begin of a file; of one in an hour that occurs twice, the second, where the file is then at most so long."""
    second = begin.replace(fold=1)
    repeated = _nanoseconds(second) - _nanoseconds(begin)
    return second if 0 < end - _nanoseconds(second) <= repeated else begin


def _moment(values: Mapping[str, str], zone: ZoneInfo) -> datetime | None:
    """The moment of fields; None if its zone has no such abbreviation then."""
    if "s" in values:
        return _EPOCH + timedelta(seconds=int(values["s"]))
    year = int(values.get("Y") or values.get("y") or 1970)
    if "Y" not in values and "y" in values:
        year += 1900 if year > 68 else 2000  # as POSIX reads two digits
    named = values.get("b") or values.get("B")
    month = MONTHS.index(named[:3].lower()) + 1 if named else int(values.get("m", 1))
    day, hour = int(values.get("d", 1)), int(values.get("H", 0))
    if "I" in values:
        if not 1 <= int(values["I"]) <= 12:
            raise ValueError("an hour of 12")
        hour = int(values["I"]) % 12 + (12 if values.get("p", "am").lower() == "pm" else 0)
    moment = datetime(year, month, day, hour, int(values.get("M", 0)), int(values.get("S", 0)), tzinfo=zone)
    if "j" in values:
        if not 1 <= int(values["j"]) <= 366:
            raise ValueError("a day of the year")
        moment = moment.replace(month=1, day=1) + timedelta(days=int(values["j"]) - 1)
        if moment.year != year:
            raise ValueError("a day of the year")
    return _zoned(moment, values)


def _zoned(moment: datetime, values: Mapping[str, str]) -> datetime | None:
    """Puts a moment into the zone that the name says, if it says one."""
    if offset := values.get("z"):
        digits = re.sub(r"\D", "", offset)
        shift = timedelta(hours=int(digits[:2] or 0), minutes=int(digits[2:] or 0))
        return moment.replace(tzinfo=timezone(-shift if offset[0] == "-" else shift))
    if (name := values.get("Z", "").upper()) in ("UTC", "GMT", "Z"):
        return moment.replace(tzinfo=UTC)
    if name:
        folds = (moment.replace(fold=fold) for fold in (0, 1))
        return next((each for each in folds if (each.tzname() or "").upper() == name), None)
    return moment


def _fraction(values: Mapping[str, str]) -> int:
    """The digits behind the second in a name, ns."""
    digits = "".join(text for key, text in values.items() if key[0] == "N")
    return int(digits[:9].ljust(9, "0")) if digits else 0


def _nanoseconds(moment: datetime) -> int:
    """Converts a moment to ns since the epoch; of an hour that occurs twice in its time zone, its fold says which."""
    since = moment.astimezone(UTC) - _EPOCH
    return (since.days * 86400 + since.seconds) * instants.SECOND + since.microseconds * 1000


def dated_parts(parts: list[str]) -> int:
    """Returns how many of the last folders of a fixed path are named by a date, with a year or a month in words."""
    count = next(
        (at for at, part in enumerate(reversed(parts)) if not date_shape(part) or date_shape(part) == part), len(parts)
    )
    trailing = parts[len(parts) - count :]
    return count if any(_YEAR.search(part) or _MONTH_WORD.search(part) for part in trailing) else 0


def date_shape(part: str) -> str:
    """Returns a name with its year, month and numbers taken out; the name itself where it holds no date."""
    if not (_YEAR.search(part) or _MONTH_WORD.search(part) or _NUMBER.fullmatch(part)):
        return part
    return re.sub(r"\d+", "#", _MONTH_WORD.sub("@", part))


# What a file covers by its name, and the files of an interval.


class Reading(NamedTuple):
    """What the name of a file tells by the settings of one period of the recorder of its link.

    Attributes:
        piece: the period.
        span: what the file covers, [from, to), ns, as much as lies in the period; None where the name does not say.
        made_up: whether the end is that of the rotation (T5).
        begin: the instant in the name, ns; None without one.
    """

    piece: Piece
    span: tuple[int, int] | None
    made_up: bool
    begin: int | None


def readings(link: Link, path: Path) -> list[Reading]:
    """Returns what the name of a file tells by each period of its link that has such names, and of which the file has
    time; of the whole link where it has no periods."""
    found = []
    for piece in link.pieces():
        match = _matched(piece.settings, path)
        time = named_time(match, piece.settings.timezone) if match else None
        end = time.until(piece.settings.rotation) if time is not None else None
        if time is None or end is None:
            if match or not link.periods:
                found.append(Reading(piece, None, False, time.start if time is not None else None))
            continue
        span = max(time.start, piece.since), min(end, piece.until)
        if span[0] < span[1] or not link.periods:
            found.append(Reading(piece, span, time.end is None, time.start))
    return found


def settings_of(link: Link, path: Path) -> Link:
    """Returns the settings by which a file is read: those of the first period of its link that has such names and of
    which the file has time; else those before the first period. Its records say nothing here, since it is not read
    yet."""
    if not link.read_by:
        return link
    if (key := covers_key(link, path)) is not None:
        return link.at(link.covers[key][0])
    told = readings(link, path)
    having = (each for each in told if each.begin is not None and each.piece.since <= each.begin < each.piece.until)
    reading = next((each for each in told if each.span is not None), next(having, told[0] if told else None))
    return link.pieces()[0].settings if reading is None else reading.piece.settings


def is_of_other_period(link: Link, path: Path) -> bool:
    """Whether a file is named as those of a period of its link, and its name tells a time outside of it."""
    named = bool(link.periods) and covers_key(link, path) is None
    return named and not readings(link, path) and any(_matched(piece.settings, path) for piece in link.pieces())


def named_coverage(link: Link, path: Path, first: int | None = None) -> tuple[tuple[int, int] | None, bool]:
    """Returns the coverage [from, to), ns, of a file according to the settings of its link, None if they do not say;
    and whether its end is made up from the rotation (T5).

    The first pattern of `covers` that fits the file name counts, else a pattern of the files, and there the end in the
    name before the rotation. Files whose names go on with a count (`%c`) share the coverage of their moment. If the
    folder in a pattern has no field, only the file name is compared: files may be ingested from elsewhere. Where the
    name tells times of several periods, that one counts which has the `first` record of the file (ns), else the first.
    """
    if (key := covers_key(link, path)) is not None:
        return link.covers[key], False
    told = [reading for reading in readings(link, path) if reading.span is not None]
    having = (each for each in told if first is not None and each.span and each.span[0] <= first < each.span[1])
    reading = next(having, told[0] if told else None)
    return (None, False) if reading is None else (reading.span, reading.made_up)


def declared_coverage(link: Link, path: Path, first: int | None = None) -> tuple[int, int] | None:
    """Returns the coverage of `named_coverage` alone."""
    return named_coverage(link, path, first)[0]


def naming(link: Link) -> str:
    """Identifies what of the settings of a link tells the coverage of files by their names."""
    told: tuple[object, ...] = link.captures, link.rotation, link.timezone, [*link.covers.items()]
    if link.periods:
        told = *told, [(each.since, each.captures, each.rotation, each.timezone) for each in link.periods]
    return sha256(repr(told).encode()).hexdigest()[:16]


def naming_of(link: Link, path: Path) -> str:
    """Identifies the same for a file; empty where its name tells times of several periods, so that its records say
    which counts."""
    several = link.periods and covers_key(link, path) is None and len(readings(link, path)) > 1
    return "" if several else naming(link)


def second_coverage(link: Link, path: Path) -> tuple[int, int] | None:
    """Returns the coverage [from, to), ns, of a file by its name and the rotation, if the hour in its name occurs twice
    in the time zone of the link and is the second one; None where it occurs once, or the file is declared otherwise."""
    if covers_key(link, path) is not None:
        return None
    for piece, span, made_up, _ in readings(link, path):
        match = _matched(piece.settings, path)
        time = named_time(match, piece.settings.timezone) if match and span and made_up else None
        if time is None:
            continue
        second = replace(time, begin=time.begin.replace(fold=1))
        end = second.until(piece.settings.rotation)
        if end is not None and second.start != time.start:
            return second.start, end
    return None


def covers_line(name: str, span: tuple[int, int]) -> str:
    """Returns the line of the settings of a link that declares what a file covers, ns."""
    return f'covers = {{ "{name}" = "{"/".join(map(instants.format_instant, span))}" }}'


def _matched(link: Link, path: Path) -> re.Match[str] | None:
    """The match of a file by the first pattern that fits."""
    return next(filter(None, (_match(pattern, path) for pattern in link.captures or ())), None)


def _match(pattern: str, path: Path) -> re.Match[str] | None:
    folder, _, name = pattern.rpartition("/")
    match = regex_of(pattern).fullmatch(str(path.absolute()))
    return regex_of(name).fullmatch(path.name) if match is None and "%" not in folder else match


def covers_key(link: Link, path: Path) -> str | None:
    """Returns the first key of the link's `covers` that fits the file name; None without one."""
    return next((key for key in link.covers if fnmatchcase(path.name, key)), None)


def idle_keys(name: str, link: Link, ingested: Iterable[Path]) -> list[str]:
    """Lists, with advice, the keys of a link's `covers` that fit no file of its pattern and no ingested file."""
    paths = [*files_of(link, 0, END_OF_TIME)] if link.patterns else []
    names = {path.name for path in (*paths, *ingested)}
    where = section_of(name, "covers")
    return [
        f"{where}: no file of link {name!r} fits {key!r}, so the line says nothing: {_why_idle(key, names)}"
        for key in link.covers
        if not any(fnmatchcase(path_name, key) for path_name in names)
    ]


def _why_idle(key: str, names: Iterable[str]) -> str:
    if "/" in key:
        return "write the name of the file, without its folder"
    escaped = key.replace("[", "[[]")
    if "[" in key and any(fnmatchcase(path_name, escaped) for path_name in names):
        return f"[...] stands for one character of a set; write {escaped!r} for brackets in the name"
    similar = get_close_matches(key, sorted(names), 1)
    return f"is it {similar[0]!r}?" if similar else "write the name of a file, * for any characters"


def leads_out(link: Link) -> Callable[[Path], str]:
    """Returns a function that says where a file lies which is outside of the folders of a link's patterns, as a
    symbolic link of it, or of a folder on the way to it, leads there; empty for others.

    Who may write captures may not choose which files of the machine are read: one of another user's, or one whose
    reading never ends. Links are followed where the settings of the link say so, and in the folders' own names."""
    if link.symbolic_links == "read":
        return lambda path: ""
    local = [pattern for pattern in link.patterns if not is_address(pattern)]
    folders = {os.path.realpath(divided(pattern)[0]) for pattern in local}
    real_folder = cache(os.path.realpath)

    def lies_outside(path: Path) -> str:
        if isinstance(path, StoredCapture):
            return ""
        where = os.path.realpath(path) if path.is_symlink() else f"{real_folder(path.parent)}/{path.name}"
        return "" if any(Path(where).is_relative_to(folder) for folder in folders) else where

    return lies_outside


def divided(pattern: str) -> tuple[str, int]:
    """Returns the folder of a pattern, up to the first field or wildcard, and the number of its parts behind that."""
    parts = [wildcard(part) for part in pattern.split("/")]
    fixed = next((at for at, part in enumerate(parts[:-1]) if glob.has_magic(part)), len(parts) - 1)
    return "/".join(parts[:fixed]), len(parts) - fixed


def files_of(link: Link, start: int, end: int, outside: bool = False) -> list[Path]:
    """Lists the files whose pattern declares coverage in [start, end), ns, in order of their begin. Without a rotation,
    or an end in the names, nothing is declared, and all files of the pattern are listed. `outside`: those too to which
    symbolic links lead that nobody follows.
    Raises ConfigError if the link has no pattern, or its pattern has an unknown field."""
    if not link.patterns:
        raise errors.ConfigError("the link has no pattern of its files", "set captures in its section of lowwater.toml")
    dated, lies_outside = [], leads_out(link)
    found = (path for pattern in link.patterns for path in captures_like(wildcard(pattern)) if _match(pattern, path))
    for path in dict.fromkeys(found):
        if not outside and lies_outside(path):
            continue
        span = declared_coverage(link, path)
        if span is None and any(reading.piece.settings.rotation is None for reading in readings(link, path)):
            dated.append((0, str(path), path))
        elif span is not None and span[0] < end and span[1] > start:
            dated.append((span[0], str(path), path))
    return [path for *_, path in sorted(dated)]
