"""The traffic of the links and the states of the query sets on one axis of time, for the overview: what was there, what
was computed from it, and what is missing and why.

Numbers are those of the ledger `metrics`, as audits measured them; states and reasons are those of `lowwater status`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lowwater.instants import DAY, SECOND, spoken_span
from lowwater.lake.ledgers.captures import Captures
from lowwater.lake.tables import interval_page, safe_name
from lowwater.plan.readings import scaled

from .drawing import Bar, Mark
from .ledgers import Interval, Snapshot, kept_by_snapshot
from .results.curve_drawing import clock_label, clock_marks
from .trends import DAYS, Point, links_between

WIDTH, LEFT, RIGHT = 1100, 130, 140
TALL, FLAT, SPACE = 46, 12, 10
"""Height of the lane of a link and of a query set, and the space below each."""


Place = Callable[[int, int, int, float, str, str], Bar]
"""(begin in ns, end, lower edge, height, text, kind) -> bar."""


@dataclass(frozen=True)
class Lane:
    """A line of the drawing: a link with its traffic, or a query set with its states."""

    name: str
    address: str  # address of its page
    y: int
    height: int
    bars: tuple[tuple[Bar, str], ...]  # bars with the address of the page of each; empty without one
    most: str = ""  # its largest value in words


@dataclass(frozen=True)
class Timeline:
    """Links and query sets over [start, end), ns."""

    start: int
    end: int
    width: int
    height: int
    left: int
    right: int
    lanes: tuple[Lane, ...]
    across: tuple[Mark, ...]
    words: tuple[str, ...]  # a sentence for each link


@kept_by_snapshot
def timeline(snapshot: Snapshot, start: int, end: int) -> Timeline | None:
    """Draws the newest week of [start, end), ns, up to the end of what ran; None where no link was audited in it."""
    end = min(end, max((last for _, _, last in snapshot.keys), default=0))
    start = max(start, end - DAYS * DAY)
    links = links_between(snapshot, start, end) if start < end else []
    first = min((point.start for _, _, points, _ in links for point in points), default=end)
    start = max(start, first)
    if start >= end:
        return None
    scale = (WIDTH - LEFT - RIGHT) / (end - start)

    def bar(begin: int, until: int, y: int, height: float, text: str, kind: str) -> Bar:
        x, width = LEFT + (max(begin, start) - start) * scale, (min(until, end) - max(begin, start)) * scale
        return Bar(round(x, 2), round(y - height, 1), round(max(0.5, width - 0.5), 2), round(height, 1), text, kind)

    lanes, words, y = [], [], SPACE
    for link, query_set, packets, sizes in links:
        lanes.append(_link_lane(snapshot, link, query_set, packets, sizes, y, bar))
        words.append(_words(link, packets))
        y += TALL + SPACE
    intervals = snapshot.part(start, end).intervals
    for name in sorted({each.query_set for each in intervals}):
        bars = tuple(_state(each, bar, y + FLAT) for each in intervals if each.query_set == name and each.start < end)
        lanes.append(Lane(name, f"set/{safe_name(name)}.html", y, FLAT, bars))
        y += FLAT + SPACE
    across = tuple(Mark(round(LEFT + (at - start) * scale, 1), clock_label(at)) for at in clock_marks(start, end))
    return Timeline(start, end, WIDTH, y + 24, LEFT, WIDTH - RIGHT, tuple(lanes), across, tuple(words))


def _per_second(point: Point) -> float:
    return (point.value or 0.0) * SECOND / (point.end - point.start)


def _by_captures(snapshot: Snapshot, link: str, start: int, end: int) -> float | None:
    """Returns the packets a second of a link in a time that no audit measured, by the captures that cover some of it,
    as if the packets of each were spread evenly; None without one."""
    packets = covered = 0.0
    captures = snapshot.captures.get(link, Captures())
    for capture in (captures[at] for at in captures.covering(start, end)):
        length = capture.covers_to - capture.covers_from
        within = min(end, capture.covers_to) - max(start, capture.covers_from)
        if length > 0 and within > 0:
            packets += capture.packets * within / length
            covered += within
    return packets * SECOND / covered if covered else None


def _link_lane(
    snapshot: Snapshot,
    link: str,
    query_set: str,
    packets: Sequence[Point],
    sizes: Mapping[int, float],
    y: int,
    bar: Place,
) -> Lane:
    rates = {point.start: _per_second(point) for point in packets if point.value is not None}
    unmeasured = [point for point in packets if point.value is None]
    there = {each.start: _by_captures(snapshot, link, each.start, each.end) for each in unmeasured}
    most = max([*rates.values(), *(rate for rate in there.values() if rate is not None)], default=0.0)
    bars = []
    for point in packets:
        when = spoken_span(point.start, point.end)
        if point.value is None and (rate := there[point.start]) is not None:
            told = f"about {scaled(rate, 'packets/s')} by its captures, not measured: {point.why}"
            text, height, kind = f"{link}, {when}: {told}", TALL * rate / (most or 1), "unmeasured"
        elif point.value is None:
            text, height, kind = f"{link}, {when}: {point.why}", float(TALL), "absent"
        else:
            bits = sizes.get(point.start)
            also = f", {scaled(8 * bits * SECOND / (point.end - point.start), 'bit/s')}" if bits is not None else ""
            strange = f", unusual: {', '.join(point.unusual).replace('_', ' ')}" if point.unusual else ""
            text = f"{link}, {when}: {scaled(rates[point.start], 'packets/s')}{also}{strange}"
            height, kind = TALL * rates[point.start] / (most or 1), "unusual" if point.unusual else ""
        bars.append((bar(point.start, point.end, y + TALL, height, text, kind), ""))
    address = f"trends/link/{safe_name(query_set)}/{safe_name(link)}.html"
    return Lane(link, address, y, TALL, tuple(bars), f"up to {scaled(most, 'packets/s')}")


def _state(each: Interval, bar: Place, y: int) -> tuple[Bar, str]:
    why = f": {each.reason[:200]}" if each.reason else ""
    text = f"{each.query_set}, {spoken_span(each.start, each.end)}, {each.state}{why}"
    drawn = bar(each.start, each.end, y, float(FLAT), text, each.state.replace(" ", "-"))
    return drawn, interval_page(each.query_set, each.start, each.end)


def _words(link: str, points: Sequence[Point]) -> str:
    known = [_per_second(point) for point in points if point.value is not None]
    if not known:
        return f"{link}: nothing was measured"
    absent = len(points) - len(known)
    holes = f", {absent:,} interval{'' if absent == 1 else 's'} not measured" if absent else ""
    return f"{link}: {scaled(min(known), '')} to {scaled(max(known), 'packets/s')}{holes}"
