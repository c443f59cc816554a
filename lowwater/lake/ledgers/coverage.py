"""Coverage of links, the gaps in it, and silences that look like a gap (SEMANTICS T5, T6)."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import lgamma, log
from operator import itemgetter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lowwater.capture.records.facts import Hole
from lowwater.catalog.time import LONG_SILENCE, uncovered
from lowwater.config import Config, Link, section_of
from lowwater.errors import GapError
from lowwater.instants import SECOND, format_duration, format_instant, spoken_duration
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.captures import Capture, Captures, few, ingested_links, life_of, read_captures
from lowwater.plan.temporal import END_OF_TIME

# Was the recorder stopped? A rotation says when a file should end, so a recorder that was stopped covers the rest of
# its rotation where no other file begins in it; its silence there is long beside those inside of its files.

SHORTEST = 10 * SECOND  # a shorter silence is none, nor is one within `gap_tolerance`
RARE = 1000  # of so many captures at least, one would be so silent at an end by chance, if lulls came at random
MOST, ENOUGH = 24, 3  # what so many of so many captures before do too is usual


@dataclass(frozen=True)
class Silence:
    """A stretch [since, until), ns, that a capture covers, before its first record or after its last."""

    capture: Capture
    since: int
    until: int
    # what it is long beside, ns: the longest time between two records of the capture, or of captures before it
    lull: int
    own: bool  # whether it is that of the capture


def silences(captures: Sequence[Capture], settings: Link, start: int, end: int) -> list[Silence]:
    """Finds the long silences at the ends of captures that meet [start, end), ns, within the life of the link.

    Records that last m times their longest lull G show that the link is not silent for longer while it is recorded. A
    silence of c times G at an end is long if c is more than LONG_SILENCE, and if binomial(m + c, m) >= RARE: by chance
    one is so long in so many captures. So a few records say nothing: m = 20 asks for c = 3, m = 5 for 8, m = 2 for 44.
    They are the records of the capture, or of the MOST captures before it, of whose silences G then is the ENOUGH-th
    longest, since what so many of them do is usual."""
    ordered = Captures.of(captures)
    if not len(ordered):
        return []
    first, largest, lull = ordered.numbers("first", -1), ordered.numbers("largest", -1), ordered.numbers("lull", -1)
    made_up = ordered.numbers("rotated") > 0  # what a person declares to be covered is, however silent
    known = (lull >= 0) | (first < 0)  # older ledgers know no lulls
    ends = _ends(ordered, first, largest, settings)
    lengths = ends[1::2] - ends[::2]
    longest, lasts = np.maximum(lull, lengths.max(axis=0)), largest - first
    least = max(SHORTEST, settings.gap_tolerance)
    found = []
    for side in (0, 1):
        since, until = ends[2 * side], ends[2 * side + 1]
        for at in np.flatnonzero(made_up & known & (lengths[side] > least) & (since < end) & (until > start)).tolist():
            length, mine = int(lengths[side][at]), int(lull[at])
            before = max(0, at - MOST) + np.flatnonzero(known[max(0, at - MOST) : at])
            usual = np.sort(longest[before])[::-1]
            if len(usual) >= ENOUGH and length <= LONG_SILENCE * usual[ENOUGH - 1]:
                continue
            own = _is_long(length, mine, int(lasts[at]))
            if not own:
                mine = int(usual[ENOUGH - 1 if len(usual) >= ENOUGH else 0]) if len(usual) else 0
            if own or _is_long(length, mine, int(lasts[before].sum())):
                found.append(Silence(ordered[at], int(since[at]), int(until[at]), mine, own))
    return found


def _is_long(length: int, lull: int, lasts: int) -> bool:
    """Whether a silence (ns) is long beside records that last so long (ns), with such a longest lull (ns)."""
    if lull <= 0 or length <= LONG_SILENCE * lull:
        return False
    inner, outer = lasts / lull, length / lull
    return lgamma(inner + outer + 1) - lgamma(inner + 1) - lgamma(outer + 1) >= log(RARE)


def silence_text(silence: Silence) -> str:
    """Describes a silence: its capture, its bounds, and the longest lull beside it."""
    since, until = format_instant(silence.since), format_instant(silence.until)
    length, lull = spoken_duration(silence.until - silence.since), spoken_duration(silence.lull)
    name, first = Path(silence.capture.path).name, silence.capture.first
    where = "without a record" if first is None else "before its first record"
    if silence.capture.largest is not None and silence.since >= silence.capture.largest:
        where = "behind its last record"
    whose = "its records" if silence.own else "records of the link before it"
    return f"{name} covers {since} to {until} {where}, {length}, but {whose} are at most {lull} apart"


def _ends(
    captures: Captures, first: NDArray[np.int64], largest: NDArray[np.int64], settings: Link
) -> NDArray[np.int64]:
    """Returns, for each capture, begin and end of its coverage before its records, then of that behind them: as far as
    no record of another capture lies there. Shape (4, captures); where there is none, the end is the begin. All that a
    capture without records covers is behind them."""
    covers_from, covers_to = captures.numbers("covers_from"), captures.numbers("covers_to")
    life = life_of(settings)
    having = np.flatnonzero(first >= 0)
    order = having[np.argsort(first[having], kind="stable")]
    begins = first[order]
    reached = np.maximum.accumulate(np.append(-1, largest[order]))  # by the records of so many captures
    followed = np.append(begins, END_OF_TIME)
    begun = np.where(first < 0, np.maximum(covers_from, life[0]), first)
    last = np.where(first < 0, begun, largest)
    before = np.maximum(np.maximum(covers_from, life[0]), reached[np.searchsorted(begins, begun)])
    behind = np.searchsorted(begins, last, side="right")
    after = np.minimum(np.minimum(covers_to, life[1]), followed[behind])
    last = np.where(reached[behind] > last, END_OF_TIME, last)  # records of another capture go on behind its own
    return np.array([before, np.maximum(begun, before), last, np.maximum(after, last)])


# A run checks coverage before it starts.

BEFORE, AFTER, BETWEEN, NONE = "before", "after", "between", "none"
"""Place of a gap among the captures of its link."""

_UNTIL = "end its life with until, after its last record, or "


@dataclass(frozen=True)
class Gap:
    """A range [since, until), ns, of a link's life that no capture covers."""

    link: str
    since: int
    until: int


def in_life(settings: Link, start: int, end: int) -> tuple[int, int]:
    """Returns the part of [start, end), ns, that lies in the life of a link; it may be empty."""
    since, until = life_of(settings)
    return max(start, since), min(end, until)


def gaps(link: str, captures: Sequence[Capture], settings: Link, start: int, end: int) -> list[Gap]:
    """Finds the gaps in a link's coverage in [start, end), ns, within its life.

    A pause of at most `gap_tolerance` is no gap if the capture before it ended cleanly. It may lie between two captures
    or at a bound of the link's life."""
    at, end = in_life(settings, start, end)
    ordered = Captures.of(captures)
    spans = ordered.joined(settings.gap_tolerance)
    if spans and settings.since is not None and 0 < spans[0][0] - settings.since <= settings.gap_tolerance:
        at = max(at, spans[0][0]) if ordered.begins_well else at
    if spans and settings.until is not None and 0 < settings.until - spans[-1][1] <= settings.gap_tolerance:
        end = min(end, spans[-1][1]) if ordered.ends_well else end
    return [Gap(link, *gap) for gap in uncovered(spans, at, end)]


def covered_share(link: str, captures: Sequence[Capture], settings: Link, start: int, end: int) -> float:
    """Returns how much of a range lies in the life of a link and in its coverage, 0 to 1."""
    begin, last = in_life(settings, start, end)
    missing = sum(gap.until - gap.since for gap in gaps(link, captures, settings, start, end))
    return max(0, last - begin - missing) / (end - start)


def any_covers(
    captures: Mapping[str, Sequence[Capture]], config: Config, links: Iterable[str], start: int, end: int
) -> bool:
    """Whether one of several links covers some of a range. What no link covers is not zero, but not known."""
    return any(covered_share(link, captures.get(link, ()), config.link(link), start, end) > 0 for link in links)


def tolerated(link: str, captures: Sequence[Capture], settings: Link) -> list[Gap]:
    """Finds the pauses between captures of a link that are no gaps, since they are within `gap_tolerance`."""
    strict = settings.model_copy(update={"gap_tolerance": 0})
    spans = Captures.of(captures).spans
    if not spans:
        return []
    bounds = spans[0][0], spans[-1][1]
    real_gaps = set(gaps(link, captures, settings, *bounds))
    return [gap for gap in gaps(link, captures, strict, *bounds) if gap not in real_gaps]


def tolerated_lines(lake: Lake, config: Config) -> list[str]:
    """Describes tolerated pauses: a line for every link that has some, with their number and the longest."""
    lines = []
    for link, captures in read_captures(lake, ingested_links(lake)).items():
        settings = config.link(link)
        if pauses_found := tolerated(link, captures, settings):
            longest = max(pauses_found, key=lambda gap: gap.until - gap.since)
            lasts = format_duration(longest.until - longest.since)
            text = f"{len(pauses_found):,} pause{'' if len(pauses_found) == 1 else 's'} between captures"
            lines.append(
                f"link {link!r}: {text} within gap_tolerance = {format_duration(settings.gap_tolerance)}, "
                f"the longest {lasts} at {format_instant(longest.since)}: taken as covered"
            )
    return lines


def undeclared(
    link: str, captures: Sequence[Capture], settings: Link, start: int = 0, end: int = END_OF_TIME
) -> list[Capture]:
    """Finds files that cover something of [start, end), ns, and do not declare an interface that others of the link do.

    They count as covered, without a record of it (T5). An interface without a name is not expected.
    """
    low, high = in_life(settings, start, end)
    beside = Captures.of(Captures.of(captures).beside)
    return [beside[at] for at in beside.covering(low, high)] if "/" in link and low < high else []


def undeclared_text(files: Sequence[Capture]) -> str:
    """Names the first of some files, with the time that they cover."""
    return few(
        [
            f"{Path(file.path).name} ({format_instant(file.covers_from)} to {format_instant(file.covers_to)})"
            for file in files
        ]
    )


def undeclared_lines(lake: Lake, config: Config) -> list[str]:
    """Describes files that do not declare an interface: a line for every interface that some file lacks."""
    lines = []
    for link, captures in read_captures(lake, ingested_links(lake)).items():
        if files := undeclared(link, captures, config.link(link)):
            count = "1 capture does" if len(files) == 1 else f"{len(files):,} captures do"
            lines.append(
                f"link {link!r}: {count} not declare this interface: {undeclared_text(files)}: "
                "taken as covered, with nothing sent"
            )
    return lines


def check(
    captures: Mapping[str, Sequence[Capture]], config: Config, read_from: Mapping[str, int], end: int
) -> list[Gap]:
    """Finds the gaps for a run that reads each link from `read_from[link]` to `end`, ns.

    The policy of the link decides: with `fail` and `wait` the run does not start, with `publish` it is incomplete."""
    return _gaps_of(captures, config, {link: (since, end) for link, since in read_from.items()})


def unsettled(
    captures: Mapping[str, Sequence[Capture]], config: Config, read_from: Mapping[str, int], end: int
) -> list[Gap]:
    """Finds the gaps between `end` and end + skew (T6): a run that ends at `end` is provisional while there are any. A
    link whose life begins at `end` or later has no record before it."""
    later = {link: config.link(link).settled(end) for link in read_from if (config.link(link).since or 0) < end}
    return _gaps_of(captures, config, {link: (end, until) for link, until in later.items()})


def _gaps_of(
    captures: Mapping[str, Sequence[Capture]], config: Config, ranges: Mapping[str, tuple[int, int]]
) -> list[Gap]:
    return [
        gap for link in sorted(ranges) for gap in gaps(link, captures.get(link, ()), config.link(link), *ranges[link])
    ]


def at_edge(gap: Gap, captures: Sequence[Capture]) -> bool:
    """Whether a gap lies before the first or after the last coverage of a link: it may be that nothing was lost."""
    return _side(gap, captures) in (BEFORE, AFTER)


def gap_text(gap: Gap, captures: Sequence[Capture] = (), unread: str = "") -> str:
    """Describes a gap: link, begin, end and cause. `unread`: which files of this time are not read, and why."""
    if unread:
        span = f"{format_instant(gap.since)} to {format_instant(gap.until)}"
        return f"link {gap.link!r}: {span} is not read: {unread}"
    return f"link {gap.link!r}: no capture covers {uncovered_text(gap, captures)}"


def uncovered_text(gap: Gap, captures: Sequence[Capture] = ()) -> str:
    """Describes a gap without its link: begin, end and cause."""
    cause = gap_cause(gap, captures)
    return f"{format_instant(gap.since)} to {format_instant(gap.until)}{f' ({cause})' if cause else ''}"


def gap_cause(gap: Gap, captures: Sequence[Capture]) -> str:
    """Says why nothing covers a gap; empty where a pause of the recorder is all that is known."""
    if not captures:
        return "the lake has no capture of it"
    if damage := damage_text(captures, gap.since, gap.until):
        return damage
    if short := _short_at(gap.since, captures):
        name = Path(short[0].path).name
        if short[0].growing:
            return f"{name} was still growing when it was ingested"
        if not short[0].ended_cleanly:
            return f"{name} is cut there"
        return f"the last record of {name}: another capture begins before its rotation is over"
    return {BEFORE: "its first capture begins there", AFTER: "its last capture ends before"}.get(
        _side(gap, captures), ""
    )


def holes(captures: Sequence[Capture], start: int, end: int) -> list[tuple[Capture, Hole]]:
    """Finds the damaged stretches in [start, end), ns, that are holes in the coverage of a link (T5)."""
    found = Captures.of(captures).holes_in(start, end)
    return [(capture, hole) for capture, hole, _ in found if hole.is_gap]


def damage_text(captures: Sequence[Capture], start: int, end: int) -> str:
    """Describes the holes in [start, end), ns; empty without one."""
    return few([hole_words(capture, hole) for capture, hole in holes(captures, start, end)])


def damage_lines(lake: Lake, config: Config) -> list[str]:
    """Describes damage of captures: a line for each link with some, with its bytes and the first places."""
    lines = []
    for link, captures in read_captures(lake, ingested_links(lake)).items():
        if found := Captures.of(captures).holes:
            files, length = len({at for at, _, _ in found}), sum(hole.length for _, hole, _ in found)
            count = f"{length:,} bytes of {files:,} capture{'' if files == 1 else 's'} are damaged, about "
            count += f"{_records(sum(hole.records for _, hole, _ in found))} lost"
            places = [hole_line(captures[at], hole, span) for at, hole, span in found]
            lines.append(f"link {link!r}: {count}: {few(places)}")
    return lines


def damage_note(captures: Captures) -> str:
    """Describes the damage of a file, by its rows of the ledger; empty without."""
    found = {hole.offset: (hole, span) for _, hole, span in captures.holes}
    if not found:
        return ""
    length, records = (sum(getattr(hole, name) for hole, _ in found.values()) for name in ("length", "records"))
    spans = [f"{format_instant(span[0])} to {format_instant(span[1])}" for hole, span in found.values() if hole.is_gap]
    gaps = f", not covered: {few(spans)}" if spans else ""
    return f"it is damaged: {length:,} bytes, about {_records(records)} lost{gaps}"


def hole_line(capture: Capture, hole: Hole, span: tuple[int, int]) -> str:
    """Describes damage, with its time [since, until), ns."""
    covered = "not covered" if hole.is_gap else "taken as covered"
    return f"{hole_words(capture, hole)}, {format_instant(span[0])} to {format_instant(span[1])}, {covered}"


def hole_words(capture: Capture, hole: Hole) -> str:
    """Describes damage: file, place, bytes and the estimated number of records."""
    count = f"{hole.length:,} byte{'' if hole.length == 1 else 's'}"
    return f"{Path(capture.path).name} is damaged: {count} from byte {hole.offset:,} on, about {_records(hole.records)}"


def _records(number: int) -> str:
    return f"{number:,} record{'' if number == 1 else 's'}"


def _short_at(at: int, captures: Sequence[Capture]) -> list[Capture]:
    """Returns the captures whose coverage ends at an instant (ns) before its declared end: they are cut, were still
    growing, or another one begins inside of their rotation."""
    return [
        capture
        for capture in Captures.of(captures).ending(at)
        if capture.growing
        or not capture.ended_cleanly
        or (capture.declared_to is not None and at < capture.declared_to)
    ]


def _side(gap: Gap, captures: Sequence[Capture]) -> str:
    spans = Captures.of(captures).spans
    if not spans:
        return NONE
    if gap.until <= spans[0][0]:
        return BEFORE
    return AFTER if gap.since >= spans[-1][1] else BETWEEN


def gap_texts(
    gap_list: Sequence[Gap],
    captures: Mapping[str, Sequence[Capture]],
    why: Callable[[Gap], str] = lambda gap: "",
    unread: Callable[[Gap], Iterable[tuple[Gap, str]]] = lambda gap: [(gap, "")],
) -> list[str]:
    """Describes gaps; gaps of several links on one side of their captures with a common bound become one sentence.
    `why` says why a gap matters that lies before the interval, and `unread` parts a gap by the files that are not read
    of its time, in words."""
    groups: dict[tuple[str, tuple[int, ...], str], list[Gap]] = defaultdict(list)
    lines = []
    for gap, words in (part for each in gap_list for part in unread(each)):
        if words:
            lines.append(f"{gap_text(gap, (), words)}{(reason := why(gap)) and f'; {reason}'}")
        else:
            groups[*_kind(gap, captures.get(gap.link, ())), why(gap)].append(gap)
    for (kind, _, reason), group in groups.items():
        hint = f"; {reason}" if reason else ""
        if kind == BEFORE and _nothing_before(group, captures):
            where = section_of(group[0].link) if len(group) == 1 else "the section of each"
            hint += f"; if nothing is missing there, set since in {where}"
        if len(group) == 1 or not kind:
            lines += [f"{gap_text(gap, captures.get(gap.link, ()))}{hint}" for gap in group]
            continue
        named = few([repr(gap.link) for gap in group])
        since, until = sorted(gap.since for gap in group), sorted(gap.until for gap in group)
        least = f", of some from {format_instant(since[-1])}" if since[0] != since[-1] else ""
        least += f", of some to {format_instant(until[0])}" if until[0] != until[-1] else ""
        cause = " (the lake has no capture of them)" if kind == NONE else ""
        bounds = f"{format_instant(since[0])} to {format_instant(until[-1])}"
        lines.append(f"{len(group)} links ({named}): no capture covers {bounds}{least}{cause}{hint}")
    return lines


def _nothing_before(group: Sequence[Gap], captures: Mapping[str, Sequence[Capture]]) -> bool:
    """Whether no record lies before the end of a gap, which `since` would take out of every row."""
    return all(not Captures.of(captures.get(gap.link, ())).meeting(0, gap.until) for gap in group)


def _kind(gap: Gap, captures: Sequence[Capture]) -> tuple[str, tuple[int, ...]]:
    """Returns the key by which gaps become one sentence: on which side of the captures they lie, and common bounds."""
    if _short_at(gap.since, captures) or holes(captures, gap.since, gap.until):
        return "", ()
    side = _side(gap, captures)
    bounds = {BEFORE: (gap.since,), BETWEEN: (gap.since, gap.until)}
    return side, bounds.get(side, (gap.until,))


def _advice(gap: Gap, captures: Captures) -> str:
    """Advises settings for a gap, where they fit. `since` behind records, and `until` before them, would take records
    out of every row, and a tolerance of more than the lulls inside of captures would hide a stop."""
    side, spans = _side(gap, captures), captures.spans
    if side == NONE:
        return "bound its life with since and until, or "
    if side == BEFORE:
        return "begin its life with since, or " if _nothing_before([gap], {gap.link: captures}) else ""
    if side == AFTER:
        return "" if captures.meeting(gap.since + 1, END_OF_TIME) else _UNTIL
    at = bisect_right(spans, gap.since, key=itemgetter(0))
    pause = spans[at][0] - spans[at - 1][1]
    if holes(captures, gap.since, gap.until):
        return ""
    whole = all(capture.ended_cleanly and not capture.growing for capture in captures.ending(spans[at - 1][1]))
    if not whole or pause > LONG_SILENCE * int(captures.numbers("lull").max()):
        return ""
    seconds = format_duration(-(-pause // SECOND) * SECOND)
    return f'set gap_tolerance = "{seconds}", since its records are as far apart, or '


def gap_error(
    gap: Gap, start: int, end: int, captures: Sequence[Capture] = (), why: str = "", unread: str = ""
) -> GapError:
    """Makes the error of a gap for the interval [start, end), ns. `why`: why it matters, if it lies before that;
    `unread`: as for `gap_text`."""
    if unread:
        return GapError(
            f"interval {format_instant(start)} to {format_instant(end)}: {gap_text(gap, (), unread)}"
            f"{why and f'; {why}'}",
            "put a file that can be read in the place of each, or unpack it there, and run `lowwater ingest`; what is "
            "lost for good is set aside: lowwater set-aside --lake DIR FILE --reason WHY",
            gap.link,
            gap.since,
            gap.until,
        )
    if damaged := holes(captures, gap.since, gap.until):
        name = Path(damaged[0][0].path).name
        hint = (
            f"copy {name} again from where it was recorded, under the same name, and run `lowwater ingest`: a whole "
            "file replaces it; if there is none, accept it: `lowwater status` has the command; or set policy = "
            f'"publish" in {section_of(gap.link)}'
        )
        message = f"interval {format_instant(start)} to {format_instant(end)}: {gap_text(gap, captures)}"
        return GapError(f"{message}{why and f'; {why}'}", hint, gap.link, gap.since, gap.until)
    return GapError(
        f"interval {format_instant(start)} to {format_instant(end)}: {gap_text(gap, captures)}{why and f'; {why}'}",
        "ingest the missing capture; or say what a file covers: "
        f"lowwater ingest --lake DIR --link {gap.link} --covers FROM/TO FILE; "
        f'or, in {section_of(gap.link)}, {_advice(gap, Captures.of(captures))}set policy = "publish"',
        gap.link,
        gap.since,
        gap.until,
    )
