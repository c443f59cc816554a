"""Coverage of links and the gaps in it (SEMANTICS T5, T6).

Between the ledger and the replay: a run checks coverage before it starts, and again before it ends as done.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

from lowwater.config import Config, Link, section_of
from lowwater.errors import GapError
from lowwater.instants import format_duration, format_instant
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.captures import Capture, Captures, ingested_links, read_captures
from lowwater.plan.temporal import END_OF_TIME

BEFORE, AFTER, BETWEEN, NONE = "before", "after", "between", "none"
"""Place of a gap among the captures of its link."""

_SINCE = "if nothing is missing there, set since"

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
    missing = []
    ordered = Captures.of(captures)
    spans = ordered.joined(settings.gap_tolerance)
    if spans and settings.since is not None and 0 < spans[0][0] - settings.since <= settings.gap_tolerance:
        at = max(at, spans[0][0])
    if spans and settings.until is not None and 0 < settings.until - spans[-1][1] <= settings.gap_tolerance:
        end = min(end, spans[-1][1]) if ordered.ends_well else end
    for begins, ends in spans[bisect_right(spans, at, key=itemgetter(1)) :]:
        if begins >= end:
            break
        if at < begins:
            missing.append(Gap(link, at, begins))
        at = ends
    if at < end:
        missing.append(Gap(link, at, end))
    return missing


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
        for gap in gaps(link, captures.get(link, ()), config.link(link), end, end + config.link(link).longest_skew)
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
    short = _cut_at(gap.since, captures)
    cause = "" if captures else " (it has no capture at all)"
    if short:
        why = "was still growing when it was ingested" if short[0].growing else "is cut there"
        cause = f" ({Path(short[0].path).name} {why})"
    return f"{format_instant(gap.since)} to {format_instant(gap.until)}{cause}"


def _cut_at(at: int, captures: Sequence[Capture]) -> list[Capture]:
    """Returns the captures whose coverage ends at an instant (ns) because they are cut, or were still growing."""
    ending = Captures.of(captures).ending(at)
    return [capture for capture in ending if capture.growing or not capture.ended_cleanly]


def gap_texts(gap_list: Sequence[Gap], captures: Mapping[str, Sequence[Capture]]) -> list[str]:
    """Describes gaps; gaps of several links with the same bounds become one sentence.

    Args:
        gap_list: the gaps.
        captures: link -> all of its ledger rows.
    """
    groups: dict[tuple[str, tuple[int, ...]], list[Gap]] = defaultdict(list)
    for gap in gap_list:
        groups[_kind(gap, captures.get(gap.link, ()))].append(gap)
    lines = []
    for (kind, _), group in groups.items():
        if len(group) == 1 or not kind:
            texts = [gap_text(gap, captures.get(gap.link, ())) for gap in group]
            lines += texts if kind != BEFORE else [f"{texts[0]}; {_SINCE} in {section_of(group[0].link)}"]
            continue
        names = [repr(gap.link) for gap in group]
        named = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED:,} more" if len(names) > NAMED else "")
        since, until = sorted(gap.since for gap in group), sorted(gap.until for gap in group)
        what = {
            BEFORE: f"no capture before {_bounds(until)}; {_SINCE} in the section of each",
            AFTER: f"no capture after {_bounds(since)}",
            NONE: "no capture at all",
            BETWEEN: f"no capture covers {_bounds([since[0], until[-1]])}",
        }[kind]
        lines.append(f"{len(group)} links ({named}): {what}")
    return lines


def _kind(gap: Gap, captures: Sequence[Capture]) -> tuple[str, tuple[int, ...]]:
    """Returns the key by which gaps are grouped into one sentence: place among the captures, and common bounds."""
    spans = Captures.of(captures).spans
    if _cut_at(gap.since, captures):
        return "", ()
    if not spans:
        return NONE, (gap.until,)
    if gap.until <= spans[0][0]:
        return BEFORE, (gap.since,)
    if gap.since >= spans[-1][1]:
        return AFTER, (gap.until,)
    return BETWEEN, (gap.since, gap.until)


def _bounds(instants: Sequence[int]) -> str:
    """Formats the first and the last of ordered instants; one instant if they are equal."""
    first, last = format_instant(instants[0]), format_instant(instants[-1])
    return first if first == last else f"{first} to {last}"


def gap_error(gap: Gap, start: int, end: int, captures: Sequence[Capture] = ()) -> GapError:
    """Makes the error of a gap for the interval [start, end), ns.

    Args:
        gap: a range without coverage.
        start: first instant of the interval, ns since the epoch.
        end: end of the interval, ns since the epoch, exclusive.
        captures: all ledger rows of the link; the text names files beside the gap.
    """
    return GapError(
        f"interval {format_instant(start)} to {format_instant(end)}: {gap_text(gap, captures)}",
        "ingest the missing capture; or say what a file covers: "
        f"lowwater ingest --lake DIR --link {gap.link} --covers FROM/TO FILE; "
        f'or, in {section_of(gap.link)}, bound its life with since and until, or set policy = "publish"',
        gap.link,
        gap.since,
        gap.until,
    )
