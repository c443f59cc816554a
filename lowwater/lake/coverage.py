"""How far links have reported, and the gaps between (SEMANTICS T5, T6).

Between the ledger and the replay: a run asks before it starts, and again before it calls itself done.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

from lowwater.config import Config, Link, format_duration, format_instant
from lowwater.errors import GapError
from lowwater.lake.layout import Lake
from lowwater.lake.ledger import Capture, Captures, ingested_links, read_captures
from lowwater.plan.temporal import END_OF_TIME


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


def reported_to(link: str, captures: Sequence[Capture], settings: Link, start: int) -> int:
    """The instant (ns) up to which a link has reported, read from `start`; END_OF_TIME once its life is over."""
    missing = gaps(link, captures, settings, start, END_OF_TIME)
    return missing[0].since if missing else END_OF_TIME


def check(
    captures: Mapping[str, Sequence[Capture]], config: Config, read_from: Mapping[str, int], end: int
) -> list[Gap]:
    """The gaps that concern a run which reads each link from `read_from[link]` to `end`, ns.

    What they mean is the policy of each link: `fail` and `wait` do not start, `exclude` publishes as incomplete.
    """
    return [
        gap
        for link in sorted(read_from)
        for gap in gaps(link, captures.get(link, ()), config.link(link), read_from[link], end)
    ]


def unsettled(
    captures: Mapping[str, Sequence[Capture]], config: Config, read_from: Mapping[str, int], end: int
) -> list[Gap]:
    """Why a run that ends at `end` is provisional: the links that have not reported to end + skew (T6)."""
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
    """A gap in words: the link, since when, until when, and why; `captures` are all of the link's."""
    again = any(each.covers_from >= gap.until and each.covers_to > each.covers_from for each in captures)
    then = (
        f"until {format_instant(gap.until)}" if again else f"up to {format_instant(gap.until)}, where the run needs it"
    )
    short = [each for each in captures if each.covers_to == gap.since and (each.growing or not each.ended_cleanly)]
    cause = "" if captures else " (it has no capture at all)"
    if short:
        why = "was still growing when it was ingested" if short[0].growing else "is cut there"
        cause = f" ({Path(short[0].path).name} {why})"
    return f"link {gap.link!r} has not reported since {format_instant(gap.since)} {then}{cause}"


def gap_error(gap: Gap, start: int, end: int, captures: Sequence[Capture] = ()) -> GapError:
    """The error of a gap for the interval [start, end), ns; `captures` are all of the link's."""
    return GapError(
        f"interval {format_instant(start)} to {format_instant(end)}: {gap_text(gap, captures)}",
        "ingest the missing capture; or say what a file covers: "
        f"lowwater ingest --link {gap.link} --covers FROM/TO FILE; "
        f'or, in [links.{gap.link}], bound its life with since and until, or set policy = "exclude"',
        gap.link,
        gap.since,
        gap.until,
    )
