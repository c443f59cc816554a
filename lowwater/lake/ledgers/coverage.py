"""Coverage of links and the gaps in it (SEMANTICS T5, T6).

Between the ledger and the replay: a run checks coverage before it starts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

from lowwater.catalog.time import clock_of, uncovered
from lowwater.config import Config, Link, section_of
from lowwater.errors import GapError
from lowwater.instants import SECOND, format_duration, format_instant
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.captures import Capture, Captures, ingested_links, read_captures
from lowwater.lake.ledgers.silences import FACTOR
from lowwater.plan.temporal import END_OF_TIME

BEFORE, AFTER, BETWEEN, NONE = "before", "after", "between", "none"
"""Place of a gap among the captures of its link."""

_UNTIL = "end its life with until, after its last record, or "

NAMED = 3
"""Links that a sentence about several links names."""


@dataclass(frozen=True)
class Gap:
    """A range [since, until), ns, of a link's life that no capture covers."""

    link: str
    since: int
    until: int


def gaps(link: str, captures: Sequence[Capture], settings: Link, start: int, end: int) -> list[Gap]:
    """Finds the gaps in a link's coverage in [start, end), ns, within its life.

    A pause of at most `gap_tolerance` is no gap if the capture before it ended cleanly. It may lie between two captures
    or at a bound of the link's life.

    Args:
        link: name of the link.
        captures: ledger rows of the link, in any order.
        settings: settings of the link, for its life and its gap tolerance.
        start: begin of the range, ns since the epoch.
        end: end of the range, ns since the epoch, exclusive.
    """
    at = max(start, settings.since or 0)
    end = min(end, END_OF_TIME if settings.until is None else settings.until)
    ordered = Captures.of(captures)
    spans = ordered.joined(settings.gap_tolerance)
    if spans and settings.since is not None and 0 < spans[0][0] - settings.since <= settings.gap_tolerance:
        at = max(at, spans[0][0])
    if spans and settings.until is not None and 0 < settings.until - spans[-1][1] <= settings.gap_tolerance:
        end = min(end, spans[-1][1]) if ordered.ends_well else end
    return [Gap(link, *gap) for gap in uncovered(spans, at, end)]


def covered_share(link: str, captures: Sequence[Capture], settings: Link, start: int, end: int) -> float:
    """Returns how much of a range lies in the life of a link and in its coverage, 0 to 1.

    Args:
        link: name of the link.
        captures: ledger rows of the link.
        settings: settings of the link.
        start: begin of the range, ns since the epoch.
        end: end of the range, ns, exclusive.
    """
    begin, last = max(start, settings.since or 0), min(end, END_OF_TIME if settings.until is None else settings.until)
    missing = sum(gap.until - gap.since for gap in gaps(link, captures, settings, start, end))
    return max(0, last - begin - missing) / (end - start)


def any_covers(
    captures: Mapping[str, Sequence[Capture]], config: Config, links: Iterable[str], start: int, end: int
) -> bool:
    """Whether one of several links covers some of a range. What no link covers is not zero, but not known.

    Args:
        captures: link -> ledger rows.
        config: settings of the lake.
        links: the links.
        start: begin of the range, ns since the epoch.
        end: end of the range, ns, exclusive.
    """
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

    Args:
        link: link of the interface.
        captures: its captures.
        settings: its settings, for its life.
        start: begin of the range, ns since the epoch.
        end: end of the range, ns since the epoch, exclusive.
    """
    low, high = max(start, settings.since or 0), min(end, END_OF_TIME if settings.until is None else settings.until)
    beside = Captures.of(Captures.of(captures).beside)
    return [beside[at] for at in beside.covering(low, high)] if "/" in link and low < high else []


def undeclared_text(files: Sequence[Capture]) -> str:
    """Names the first of some files, with the time that they cover."""
    names = [
        f"{Path(file.path).name} ({format_instant(file.covers_from)} to {format_instant(file.covers_to)})"
        for file in files[:NAMED]
    ]
    return ", ".join(names) + (f" and {len(files) - NAMED:,} more" if len(files) > NAMED else "")


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

    The policy of the link decides: with `fail` and `wait` the run does not start, with `publish` it is incomplete.

    Args:
        captures: link -> ledger rows.
        config: settings of the lake.
        read_from: link -> first timestamp that the run reads, ns since the epoch.
        end: end of the run's interval, ns since the epoch, exclusive.
    """
    return [
        gap
        for link in sorted(read_from)
        for gap in gaps(link, captures.get(link, ()), config.link(link), read_from[link], end)
    ]


def unsettled(
    captures: Mapping[str, Sequence[Capture]], config: Config, read_from: Mapping[str, int], end: int
) -> list[Gap]:
    """Finds the gaps between `end` and end + skew (T6): a run that ends at `end` is provisional while there are any.

    Arguments as of `check`.
    """
    return [
        gap
        for link in sorted(read_from)
        for gap in gaps(
            link, captures.get(link, ()), config.link(link), end, clock_of(end, config.link(link).longest_skew)
        )
    ]


def at_edge(gap: Gap, captures: Sequence[Capture]) -> bool:
    """Whether a gap lies before the first or after the last coverage of a link: it may be that nothing was lost."""
    spans = Captures.of(captures).spans
    return bool(spans) and (gap.until <= spans[0][0] or gap.since >= spans[-1][1])


def gap_text(gap: Gap, captures: Sequence[Capture] = ()) -> str:
    """Describes a gap: link, begin, end and cause; `captures` are all ledger rows of the link."""
    return f"link {gap.link!r}: no capture covers {uncovered_text(gap, captures)}"


def uncovered_text(gap: Gap, captures: Sequence[Capture] = ()) -> str:
    """Describes a gap without its link: begin, end and cause; arguments as of `gap_text`."""
    cause = _cause(gap, captures)
    return f"{format_instant(gap.since)} to {format_instant(gap.until)}{f' ({cause})' if cause else ''}"


def _cause(gap: Gap, captures: Sequence[Capture]) -> str:
    if not captures:
        return "it has no capture at all"
    if short := _short_at(gap.since, captures):
        name = Path(short[0].path).name
        if short[0].growing:
            return f"{name} was still growing when it was ingested"
        if not short[0].ended_cleanly:
            return f"{name} is cut there"
        return f"the last record of {name}: another capture begins before its rotation is over"
    return {BEFORE: "its first capture begins there", AFTER: "its last capture ends before"}.get(
        _place(gap, captures), ""
    )


def _short_at(at: int, captures: Sequence[Capture]) -> list[Capture]:
    """Returns the captures whose coverage ends at an instant (ns) before its declared end: they are cut, were still
    growing, or another one begins inside of their rotation."""
    ending = Captures.of(captures).ending(at)
    return [
        capture
        for capture in ending
        if capture.growing
        or not capture.ended_cleanly
        or (capture.declared_to is not None and at < capture.declared_to)
    ]


def _place(gap: Gap, captures: Sequence[Capture]) -> str:
    spans = Captures.of(captures).spans
    if not spans:
        return NONE
    if gap.until <= spans[0][0]:
        return BEFORE
    return AFTER if gap.since >= spans[-1][1] else BETWEEN


def gap_texts(
    gap_list: Sequence[Gap], captures: Mapping[str, Sequence[Capture]], why: Callable[[Gap], str] = lambda gap: ""
) -> list[str]:
    """Describes gaps; gaps of several links at one place with a common bound become one sentence.

    Args:
        gap_list: the gaps.
        captures: link -> all of its ledger rows.
        why: says why a gap matters that lies before the interval; an empty text for others.
    """
    groups: dict[tuple[str, tuple[int, ...], str], list[Gap]] = defaultdict(list)
    for gap in gap_list:
        groups[*_kind(gap, captures.get(gap.link, ())), why(gap)].append(gap)
    lines = []
    for (kind, _, reason), group in groups.items():
        hint = f"; {reason}" if reason else ""
        if kind == BEFORE and _nothing_before(group, captures):
            hint += f"; {_life(group)}"
        if len(group) == 1 or not kind:
            texts = [gap_text(gap, captures.get(gap.link, ())) for gap in group]
            lines += [f"{text}{hint}" for text in texts]
            continue
        names = [repr(gap.link) for gap in group]
        named = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED:,} more" if len(names) > NAMED else "")
        since, until = sorted(gap.since for gap in group), sorted(gap.until for gap in group)
        least = f", of some from {format_instant(since[-1])}" if since[0] != since[-1] else ""
        least += f", of some to {format_instant(until[0])}" if until[0] != until[-1] else ""
        cause = " (they have no capture at all)" if kind == NONE else ""
        bounds = f"{format_instant(since[0])} to {format_instant(until[-1])}"
        lines.append(f"{len(group)} links ({named}): no capture covers {bounds}{least}{cause}{hint}")
    return lines


def _life(group: Sequence[Gap]) -> str:
    where = section_of(group[0].link) if len(group) == 1 else "the section of each"
    return f"if nothing is missing there, set since in {where}"


def _nothing_before(group: Sequence[Gap], captures: Mapping[str, Sequence[Capture]]) -> bool:
    """Whether no record lies before the end of a gap, which `since` would take out of every row."""
    return all(not Captures.of(captures.get(gap.link, ())).meeting(0, gap.until) for gap in group)


def _kind(gap: Gap, captures: Sequence[Capture]) -> tuple[str, tuple[int, ...]]:
    """Returns the key by which gaps are grouped into one sentence: place among the captures, and common bounds."""
    if _short_at(gap.since, captures):
        return "", ()
    place = _place(gap, captures)
    bounds = {BEFORE: (gap.since,), BETWEEN: (gap.since, gap.until)}
    return place, bounds.get(place, (gap.until,))


def _advice(gap: Gap, captures: Captures) -> str:
    """Advises settings for a gap, where they fit. `since` behind records, and `until` before them, would take records
    out of every row, and a tolerance of more than the lulls inside of captures would hide a stop."""
    place, spans = _place(gap, captures), captures.spans
    if place == NONE:
        return "bound its life with since and until, or "
    if place == BEFORE:
        return "begin its life with since, or " if _nothing_before([gap], {gap.link: captures}) else ""
    if place == AFTER:
        return "" if captures.meeting(gap.since + 1, END_OF_TIME) else _UNTIL
    at = bisect_right(spans, gap.since, key=itemgetter(0))
    pause = spans[at][0] - spans[at - 1][1]
    whole = all(capture.ended_cleanly and not capture.growing for capture in captures.ending(spans[at - 1][1]))
    if not whole or pause > FACTOR * int(captures.numbers("lull").max()):
        return ""
    seconds = format_duration(-(-pause // SECOND) * SECOND)
    return f'set gap_tolerance = "{seconds}", since its records are as far apart, or '


def gap_error(gap: Gap, start: int, end: int, captures: Sequence[Capture] = (), why: str = "") -> GapError:
    """Makes the error of a gap for the interval [start, end), ns.

    Args:
        gap: a range without coverage.
        start: first instant of the interval, ns since the epoch.
        end: end of the interval, ns since the epoch, exclusive.
        captures: all ledger rows of the link; the text names files beside the gap.
        why: why the gap matters, if it lies before the interval.
    """
    return GapError(
        f"interval {format_instant(start)} to {format_instant(end)}: {gap_text(gap, captures)}{why and f'; {why}'}",
        "ingest the missing capture; or say what a file covers: "
        f"lowwater ingest --lake DIR --link {gap.link} --covers FROM/TO FILE; "
        f'or, in {section_of(gap.link)}, {_advice(gap, Captures.of(captures))}set policy = "publish"',
        gap.link,
        gap.since,
        gap.until,
    )
