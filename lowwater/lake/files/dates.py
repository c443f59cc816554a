"""Dates in the names of a link's files: begin and length of coverage, checked against the records of a sample.

Between the sample and the proposal. A date that a record contradicts is not used. Otherwise uncovered time would pass
for silence, and records outside of the coverage would be in no account (SEMANTICS T5).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from lowwater.capture.inspect import CaptureFacts
from lowwater.instants import HOUR, SECOND, format_duration, format_instant
from lowwater.lake.files.names import LinkFiles
from lowwater.lake.files.patterns import NamedTime, named_time, pieces_of, regex_of
from lowwater.lake.files.sample import earliest, largest

MINUTE = 60 * SECOND
QUARTER = 15 * MINUTE
LENGTHS = tuple(MINUTE * n for n in (1, 2, 5, 10, 15, 20, 30)) + tuple(HOUR * n for n in (1, 2, 3, 4, 6, 8, 12, 24))
"""Candidates for the length of a rotation, and of an interval."""

NEAR = 20
"""Divisor for tolerances: a link begins, and a single file fills its time, within this part of a rotation."""

MOST_AHEAD, MOST_BEHIND = 14, 12
"""Zones of the tz database: hours ahead of UTC and behind it."""

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
    """Coverage of a link's files according to their names.

    Attributes:
        rotation: time that a file covers from the instant in its name, ns; None if the names do not tell.
        why: reason why there is no rotation, for the user; else empty.
        guessed: whether the rotation is guessed from a single file.
        zone: time zone of the names; UTC unless several files agree on another.
        ends: whether the names say when files end.
        late: whether the names lead by a rotation, as they do where they say when a file ends.
        since: begin of the files' coverage, ns; None unless the names say what files cover.
        until: end of the files' coverage, ns; None likewise.
        missing: time between files for which there is no file, [from, to), ns.
        partly: the most that a file holds of its time, ns, where pauses between files are far longer than silences
            within; else 0.
    """

    rotation: int | None = None
    why: str = ""
    guessed: bool = False
    zone: str = "UTC"
    ends: bool = False
    late: bool = False
    since: int | None = None
    until: int | None = None
    missing: tuple[tuple[int, int], ...] = ()
    partly: int = 0

    @property
    def declared(self) -> bool:
        """Whether the names say what files cover."""
        return self.rotation is not None or self.ends


Spans = Mapping[Path, tuple[int, int]]
"""File -> what its name declares, [from, to), ns, with its moments taken as UTC."""


def check_dates(
    folder: Path, named: LinkFiles, facts: Sequence[CaptureFacts], skew: int, early: bool = False
) -> NameDates:
    """Reads the dates in the names of a link's files, and checks them against the records of a sample.

    Args:
        folder: folder to which the names are relative.
        facts: facts of some of the files, among them the first and the last file with a record.
        skew: bound of the disorder of the link, ns.
        early: whether the first file may hold records of the time before it, as the log of a tool does, which writes a
            connection when it ends.
    """
    if not named.dated:
        return NameDates(why="the files have no date in their names")
    zone = _zone_in_names(named)
    times = {folder / name: time for name in named.names if (time := _read(named, name, zone or "UTC")) is not None}
    single = len({time.start for time in times.values()}) == 1
    dated = [capture for capture in facts if capture.path in times and largest(capture) is not None]
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
    if ends and any(after[0] < before[1] - skew for before, after in pairwise(sorted(spans.values()))):
        return NameDates(why="the times from begin to end in the names overlap")
    leading = [capture for capture in dated if not times[capture.path].counted]
    checked = _checked(named, spans, dated, leading, skew, early or ends, zone)
    if checked.why:
        return checked
    ahead = _ahead_of(checked.zone, zone)
    if beside := _beside(spans, ordered, dated, skew, ahead):
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


def confirmed(folder: Path, named: LinkFiles, firsts: Mapping[str, int]) -> bool:
    """Whether the first records (file -> ns) fit a reading of the names that their digits alone do not prove.

    All lead or lag by about the same time, as in a time zone.
    """
    leads = [time.start - firsts[name] for name in firsts if (time := _read(named, name, "UTC")) is not None]
    if len(leads) < len(firsts):
        return False
    fields = {piece[-1] for pattern in named.patterns for piece in pieces_of(pattern) if piece[0] == "%"}
    unit = HOUR if fields & {"H", "I", "s"} else 24 * HOUR if fields & {"d", "j"} else 31 * 24 * HOUR
    return not leads or (
        max(leads) - min(leads) <= unit and min(leads) >= -unit - 15 * HOUR and max(leads) <= 15 * HOUR
    )


def _read(named: LinkFiles, name: str, zone: str) -> NamedTime | None:
    """Returns the moment in the name of a file; None without one."""
    matches = (regex_of(pattern).fullmatch(name) for pattern in named.patterns)
    match = next((match for match in matches if match is not None), None)
    return named_time(match, zone) if match is not None else None


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
) -> NameDates:
    """Compares what names declare with records; finds the zone of the names, if it has to be another than UTC."""
    stray = _stray(spans, dated, skew, 0, early)
    if stray is None:
        return NameDates(zone=told or "UTC")
    why = _contradiction(named, stray, spans[stray.path][0], skew)
    ahead = None if told else _ahead(named, spans, leading, skew)
    if ahead is not None and _stray(spans, dated, skew, ahead, early) is not None:
        ahead = None
    if ahead is None:
        return NameDates(why=f"{why}{_hint(spans, leading) if not told else ''}")
    zone = _zone(ahead)
    if not zone:
        apart = f"the names are {format_duration(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'} the records"
        return NameDates(why=f'{apart}: if that is their time zone, write timezone = "..." and rotation')
    return NameDates(zone=zone)


def _beside(spans: Spans, ordered: Sequence[int], dated: Sequence[CaptureFacts], skew: int, ahead: int) -> str:
    """Returns a file that another one follows sooner than its rotation, though its records go on; empty without one.

    A recorder that is started again begins a file at once. The file before it then covers to its last record (T5).
    """
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
    fields = {piece[-1] for pattern in named.patterns for piece in pieces_of(pattern) if piece[0] == "%"}
    told = list(dated)
    if not fields & {"H", "I"}:
        told = [each for each in dated if _end(each) - _begin(each, skew) > _length(spans, each) * 9 // 10]
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


def _hint(spans: Spans, dated: Sequence[CaptureFacts]) -> str:
    """What the records say about a time zone of the names that they do not prove."""
    if not dated:
        return ""
    leads = sorted((spans[each.path][0] - _begin(each, 0) + QUARTER // 2) // QUARTER * QUARTER for each in dated)
    low, high = leads[0], leads[-1]
    if not (low >= -MOST_BEHIND * HOUR and high <= MOST_AHEAD * HOUR) or (low == high == 0):
        return ""
    if high - low == HOUR and len(leads) > 1:
        return (
            f"; the names lead by {format_duration(low)} and by {format_duration(high)}, as in a zone with summer "
            'time: if so, write timezone = "Europe/Berlin", or which it is, and rotation'
        )
    return f"; is it their time zone? {'One file does not tell' if len(spans) == 1 else 'They do not prove it'}"


def _partly(spans: Spans, dated: Sequence[CaptureFacts], skew: int) -> int:
    """Returns the most that a file holds of its time where the rest is no silence like those within; else 0."""
    counts = Counter(spans.values())
    dated = [capture for capture in dated if counts[spans[capture.path]] == 1]
    if not dated:
        return 0
    held = max(_end(capture) - _begin(capture, skew) for capture in dated)
    rest = min(_length(spans, capture) - (_end(capture) - _begin(capture, skew)) for capture in dated)
    silence = max((length for each in dated for one in each.interfaces for _, length in one.gaps.longest()), default=0)
    whole = min(_length(spans, capture) for capture in dated)
    return max(held, 1) if rest > whole // 2 and rest > 4 * silence else 0


def _next_length(facts: CaptureFacts) -> int | None:
    durations = [interface.duration or 0 for interface in facts.interfaces]
    return next((length for length in LENGTHS if length >= max(durations)), None)


def _most_frequent(distances: Sequence[int]) -> int | None:
    """Returns the most frequent distance, if at least half of the distances have it."""
    if not distances:
        return None
    (length, count), *_ = sorted(Counter(distances).items(), key=lambda item: (-item[1], item[0]))
    return length if 2 * count >= len(distances) else None


def _begin(facts: CaptureFacts, skew: int) -> int:
    return earliest(facts, skew) or 0


def _end(facts: CaptureFacts) -> int:
    return largest(facts) or 0


def _contradiction(named: LinkFiles, facts: CaptureFacts, start: int, skew: int) -> str:
    name = next(candidate for candidate in named.names if facts.path.as_posix().endswith(candidate))
    begin, end = format_instant(_begin(facts, skew)), format_instant(_end(facts))
    return f"the records contradict the names: {name} says {format_instant(start)}, its records are of {begin} to {end}"
