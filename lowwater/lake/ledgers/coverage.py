"""How far links have reported, and the gaps between (SEMANTICS T5, T6).

Between the ledger and the replay: a run asks before it starts, and again before it calls itself done.
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
"""Where a gap is among the captures of its link."""

_SINCE = "if nothing is missing there, set since"

NAMED = 3
"""Links that a sentence about several of them names."""


@dataclass(frozen=True)
class Gap:
    """A stretch [since, until), ns, of a link's life that no capture covers."""

    link: str
    since: int
    until: int


def gaps(link: str, captures: Sequence[Capture], settings: Link, start: int, end: int) -> list[Gap]:
    """The gaps of a link's coverage in [start, end), ns, cut to its life: outside of it, it owes nothing.

    A pause of at most its `gap_tolerance` between two captures, or between one and the bounds of its life, is none,
    where the capture before it ended cleanly.

    Args:
        link: name of the link.
        captures: ledger rows of the link, in any order.
        settings: settings of the link, for its life and its gap tolerance.
        start: first instant that is asked about, ns since the epoch.
        end: end of what is asked about, ns since the epoch, exclusive.
    """
    at = max(start, settings.since or 0)
    end = min(end, END_OF_TIME if settings.until is None else settings.until)
    found = []
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
            found.append(Gap(link, at, begins))
        at = ends
    if at < end:
        found.append(Gap(link, at, end))
    return found


def tolerated(link: str, captures: Sequence[Capture], settings: Link) -> list[Gap]:
    """The pauses between captures of a link that are no gaps, since they are within its `gap_tolerance`."""
    strict = settings.model_copy(update={"gap_tolerance": 0})
    spans = Captures.of(captures).spans
    if not spans:
        return []
    bounds = spans[0][0], spans[-1][1]
    told = set(gaps(link, captures, settings, *bounds))
    return [gap for gap in gaps(link, captures, strict, *bounds) if gap not in told]


def tolerated_lines(lake: Lake, config: Config) -> list[str]:
    """A line for each link of a lake whose captures leave pauses that are tolerated: how many, and the longest."""
    lines = []
    for link, captures in read_captures(lake, ingested_links(lake)).items():
        settings = config.link(link)
        if found := tolerated(link, captures, settings):
            longest = max(found, key=lambda gap: gap.until - gap.since)
            lasts = format_duration(longest.until - longest.since)
            pauses = f"{len(found):,} pause{'' if len(found) == 1 else 's'} between captures"
            lines.append(
                f"link {link!r}: {pauses} within gap_tolerance = {format_duration(settings.gap_tolerance)}, "
                f"the longest {lasts} at {format_instant(longest.since)}: taken as covered"
            )
    return lines


def check(
    captures: Mapping[str, Sequence[Capture]], config: Config, read_from: Mapping[str, int], end: int
) -> list[Gap]:
    """The gaps that concern a run which reads each link from `read_from[link]` to `end`, ns.

    What they mean is the policy of each link: `fail` and `wait` do not start, `publish` publishes as incomplete.

    Args:
        captures: ledger rows of each link, by its name.
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
    """Why a run that ends at `end` is provisional: the links that have not reported to end + skew (T6).

    Arguments as of `check`.
    """
    return [
        gap
        for link in sorted(read_from)
        for gap in gaps(link, captures.get(link, ()), config.link(link), end, end + config.link(link).longest_skew)
    ]


def at_edge(gap: Gap, captures: Sequence[Capture]) -> bool:
    """Whether a gap is before the first coverage of a link, or after the last: nothing says that something was lost."""
    spans = Captures.of(captures).spans
    return bool(spans) and (gap.until <= spans[0][0] or gap.since >= spans[-1][1])


def gap_text(gap: Gap, captures: Sequence[Capture] = ()) -> str:
    """A gap in words: the link, from when to when, and why; `captures` are all of the link's."""
    short = [each for each in captures if each.covers_to == gap.since and (each.growing or not each.ended_cleanly)]
    cause = "" if captures else " (it has no capture at all)"
    if short:
        why = "was still growing when it was ingested" if short[0].growing else "is cut there"
        cause = f" ({Path(short[0].path).name} {why})"
    return f"link {gap.link!r}: no capture covers {format_instant(gap.since)} to {format_instant(gap.until)}{cause}"


def gap_texts(found: Sequence[Gap], captures: Mapping[str, Sequence[Capture]]) -> list[str]:
    """Gaps in words, those of several links that say the same as one sentence.

    Args:
        found: the gaps.
        captures: link -> all of its captures.
    """
    groups: dict[tuple[str, tuple[int, ...]], list[Gap]] = defaultdict(list)
    for gap in found:
        groups[_kind(gap, captures.get(gap.link, ()))].append(gap)
    lines = []
    for (kind, _), alike in groups.items():
        if len(alike) == 1 or not kind:
            said = [gap_text(gap, captures.get(gap.link, ())) for gap in alike]
            lines += said if kind != BEFORE else [f"{said[0]}; {_SINCE} in {section_of(alike[0].link)}"]
            continue
        names = [repr(gap.link) for gap in alike]
        named = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED:,} more" if len(names) > NAMED else "")
        since, until = sorted(gap.since for gap in alike), sorted(gap.until for gap in alike)
        what = {
            BEFORE: f"no capture before {_bounds(until)}; {_SINCE} in the section of each",
            AFTER: f"no capture after {_bounds(since)}",
            NONE: "no capture at all",
            BETWEEN: f"no capture covers {_bounds([since[0], until[-1]])}",
        }[kind]
        lines.append(f"{len(alike)} links ({named}): {what}")
    return lines


def _kind(gap: Gap, captures: Sequence[Capture]) -> tuple[str, tuple[int, ...]]:
    """What gaps have in common that are told as one: where they are among the captures, and the bound they share."""
    spans = Captures.of(captures).spans
    if any(each.covers_to == gap.since and (each.growing or not each.ended_cleanly) for each in captures):
        return "", ()
    if not spans:
        return NONE, (gap.until,)
    if gap.until <= spans[0][0]:
        return BEFORE, (gap.since,)
    if gap.since >= spans[-1][1]:
        return AFTER, (gap.until,)
    return BETWEEN, (gap.since, gap.until)


def _bounds(instants: Sequence[int]) -> str:
    """Instants in order as one text: the first, and the last where it is another."""
    first, last = format_instant(instants[0]), format_instant(instants[-1])
    return first if first == last else f"{first} to {last}"


def gap_error(gap: Gap, start: int, end: int, captures: Sequence[Capture] = ()) -> GapError:
    """The error of a gap for the interval [start, end), ns; `captures` are all of the link's.

    Args:
        gap: a stretch that no capture covers.
        start: first instant of the interval, ns since the epoch.
        end: end of the interval, ns since the epoch, exclusive.
        captures: ledger rows of the link, by which the text names the files beside the gap.
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
