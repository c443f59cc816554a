"""Computes the coordinates of the drawings: plans, histograms, histories and lags of nodes.

The templates write them as SVG and escape the texts. Coordinates are in units of the view box of a drawing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lowwater.instants import format_duration
from lowwater.plan.explain.model import Description, OperatorInfo, QueryInfo

WIDTH = 900
NODE, ACROSS, LINE = 210, 270, 15


@dataclass(frozen=True)
class Box:
    """A node of a plan."""

    kind: str  # `link`, `lfta`, `operator` or `table`
    lines: tuple[str, ...]  # lines of text, shortened
    x: int
    y: int
    height: int
    whole: str  # the full text

    @property
    def middle(self) -> int:
        return self.y + self.height // 2


@dataclass(frozen=True)
class Edge:
    """A curve from the right side of a box to the left side of another; `name` is a range variable."""

    path: str
    name: str
    x: int
    y: int


@dataclass(frozen=True)
class PlanDrawing:
    """A plan with links at the left and tables at the right."""

    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    width: int
    height: int
    cut: int  # x coordinate of the border between low and high level
    words: str  # summary of the drawing for screen readers


def plan(description: Description) -> PlanDrawing:
    """Draws a plan in two levels."""
    layers: dict[str, int] = {}
    texts: dict[str, tuple[str, tuple[str, ...]]] = {}
    arrows: list[tuple[str, str, str]] = []
    for lfta in description.lftas:
        where = f"WHERE {lfta.predicate}" if lfta.predicate else ""
        node = f"lfta {lfta.name}"
        texts[node] = "lfta", _lines(f"LFTA {lfta.name}", lfta.kind, where, ", ".join(key.name for key in lfta.keys))
        layers[node] = 1
        for link in lfta.links:
            texts[f"link {link}"] = "link", _lines("every link" if link == "*" else link)
            layers[f"link {link}"] = 0
            arrows.append((f"link {link}", node, ""))
    for query in description.queries:
        if query.operators:
            _query(query, layers, texts, arrows)
    return _placed(layers, texts, arrows)


def _query(
    query: QueryInfo,
    layers: dict[str, int],
    texts: dict[str, tuple[str, tuple[str, ...]]],
    arrows: list[tuple[str, str, str]],
) -> None:
    def node(at: int) -> str:
        op = query.operators[at]
        names = {"lfta": f"lfta {op.reads}", "stream": f"query {op.reads}"}
        return names.get(op.kind, f"{query.name} {at}")

    for at in reversed(range(len(query.operators))):
        op = query.operators[at]
        if op.kind in ("lfta", "stream"):
            continue
        texts[node(at)] = "operator", _operator(op, query)
        layers[node(at)] = 1 + max([1, *(layers.get(node(below), 1) for below in op.inputs)])
        for number, below in enumerate(op.inputs):
            arrows.append((node(below), node(at), op.aliases[number] if number < len(op.aliases) else ""))
    out = f"query {query.name}"
    texts[out] = "table", _lines(query.name, "table" if query.output else "stream")
    layers[out] = 1 + max(2, layers.get(node(0), 1))
    arrows.append((node(0), out, ""))


def _operator(op: OperatorInfo, query: QueryInfo) -> tuple[str, ...]:
    of = f" of {op.query}" if op.query != query.name else ""
    clauses = [("WHERE", op.predicate), ("HAVING", op.having), ("CLOSING_WHEN", op.closing)]
    clauses += [("", op.lookup), ("", op.first)]
    keys = ", ".join(key.name for key in op.keys)
    match = op.match.condition if op.match else ""
    return _lines(f"{op.kind}{of}", *(f"{word} {text}".strip() for word, text in clauses if text), keys, match)


def _lines(*texts: str) -> tuple[str, ...]:
    return tuple(text for text in texts if text)


def _placed(
    layers: Mapping[str, int], texts: Mapping[str, tuple[str, tuple[str, ...]]], arrows: Sequence[tuple[str, str, str]]
) -> PlanDrawing:
    last = max(layers.values(), default=0)
    rank = {node: last if texts[node][0] == "table" and _ends(node, arrows) else at for node, at in layers.items()}
    order: dict[str, float] = {}
    heights: dict[int, int] = {}
    boxes: dict[str, Box] = {}
    for layer in range(last + 1):
        nodes = [node for node, at in rank.items() if at == layer]
        below = {
            node: [order[source] for source, target, _ in arrows if target == node and source in order]
            for node in nodes
        }
        nodes.sort(key=lambda node: sum(below[node]) / len(below[node]) if below[node] else 0.0)
        y = 30
        for node in nodes:
            kind, lines = texts[node]
            visible = tuple(line if len(line) <= 32 else f"{line[:31]}…" for line in lines[:4])
            height = LINE * len(visible) + 14
            boxes[node] = Box(kind, visible, 10 + layer * ACROSS, y, height, "; ".join(lines))
            order[node] = y + height / 2
            y += height + 16
        heights[layer] = y
    height = max(heights.values(), default=30) + 6
    edges = tuple(_edge(boxes[source], boxes[target], name) for source, target, name in arrows if source in boxes)
    words = f"{len([b for b in boxes.values() if b.kind == 'lfta'])} LFTAs below, {len(arrows)} flows in all"
    return PlanDrawing(tuple(boxes.values()), edges, 20 + last * ACROSS + NODE, height, 10 + ACROSS + NODE + 30, words)


def _ends(node: str, arrows: Sequence[tuple[str, str, str]]) -> bool:
    return all(source != node for source, _, _ in arrows)


def _edge(source: Box, target: Box, name: str) -> Edge:
    x0, y0, x1, y1 = source.x + NODE, source.middle, target.x, target.middle
    bend = (x0 + x1) // 2
    return Edge(f"M{x0} {y0}C{bend} {y0} {bend} {y1} {x1 - 5} {y1}", name, bend, (y0 + y1) // 2 - 4)


@dataclass(frozen=True)
class Bar:
    """A bar of a histogram or of a history; `text` is its tooltip."""

    x: float
    y: float
    width: float
    height: float
    text: str
    kind: str = ""


@dataclass(frozen=True)
class Mark:
    """A line or a tick with a label; `level` is the row of the label, so that labels do not overlap."""

    at: float
    text: str
    kind: str = ""
    level: int = 0


@dataclass(frozen=True)
class Plot:
    """A plot: bars, a curve over the bars, and marks on both axes."""

    width: int
    height: int
    bars: tuple[Bar, ...] = ()
    curve: str = ""
    across: tuple[Mark, ...] = ()
    up: tuple[Mark, ...] = ()
    lines: tuple[Mark, ...] = ()


def lateness(bounds: Sequence[tuple[int, int]], marks: Mapping[str, int]) -> Plot | None:
    """Plots records by lateness on logarithmic axes, with the number of later records as a curve.

    Args:
        bounds: (bound in ns, rounded to two digits; number of records), as `LatenessCounts.bounds` returns them.
        marks: bounds to mark, ns, by label.
    """
    late = [(bound, count) for bound, count in bounds if bound]
    if not late:
        return None
    left, bottom, height = 70, 240, 210
    low = math.floor(math.log10(min([late[0][0], *(bound for bound in marks.values() if bound)])))
    high = max(low + 1, math.ceil(math.log10(max([late[-1][0], *marks.values()])) + 0.05))
    scale = (WIDTH - left - 20) / (high - low)

    def x(bound: float) -> float:
        return round(left + (math.log10(bound) - low) * scale, 1)

    parts: dict[int, int] = {}
    for bound, count in late:
        parts[math.ceil(10 * math.log10(bound) - 1e-9)] = parts.get(math.ceil(10 * math.log10(bound) - 1e-9), 0) + count
    total, most = sum(count for _, count in bounds), max(parts.values())
    decades = math.log10(max(total, 2)) + 0.15

    def y(count: float) -> float:
        return round(bottom - height * (math.log10(max(count, 0.7)) + 0.15) / decades, 1)

    bars = [
        Bar(
            x(10 ** ((part - 1) / 10)) + 0.5,
            y(count),
            scale / 10 - 1,
            bottom - y(count),
            f"{count:,} records up to {format_duration(_round(10 ** (part / 10)))} late",
        )
        for part, count in sorted(parts.items())
    ]
    beyond = sum(count for _, count in late)
    points: list[tuple[float, float]] = [(left, y(beyond))]
    for bound, count in late:
        points += [(x(bound), points[-1][1]), (x(bound), y(beyond - count))]
        beyond -= count
    across = [Mark(x(10**power), format_duration(10**power)) for power in range(low, high + 1)]
    up = [Mark(y(10**power), f"{10**power:,}") for power in range(math.floor(math.log10(max(most, total))) + 1)]
    lines = [
        Mark(x(bound), f"{name} {format_duration(bound)}", name.replace(" ", "-"), level)
        for level, (name, bound) in enumerate(marks.items())
        if bound
    ]
    curve = "M" + "L".join(f"{a} {b}" for a, b in points)
    return Plot(WIDTH, bottom + 40, tuple(bars), curve, tuple(across), tuple(up), tuple(lines))


def _round(value: float) -> int:
    digits = max(0, math.floor(math.log10(value)) - 1)
    return int(round(value / 10**digits) * 10**digits)


LABELS_WIDTH = 320
"""Smallest width of a history that has room for two separate labels: its first and its last interval."""

MOST_BARS = 200
NOT_COVERED = "not covered"


def history(
    values: Sequence[tuple[str, float | None, str] | tuple[str, float | None, str, str]],
    unit: str,
    text: Callable[[float], str] | None = None,
) -> Plot | None:
    """Plots a value of many intervals as bars. If there are too many, a bar shows the largest of its neighbours.

    Args:
        values: (interval, value, words), oldest first; a fourth text is the kind of the bar, else the words are.
            Without a value, nothing is known of the interval: its place is marked, since that is not 0, and the words
            say why.
        unit: unit of the values.
        text: writes a value with its unit; None for a number and the unit.
    """
    if all(value is None for _, value, *_ in values):
        return None
    size = -(-len(values) // MOST_BARS)
    groups = [values[at : at + size] for at in range(0, len(values), size)]
    tops = [max(group, key=lambda value: -math.inf if value[1] is None else value[1]) for group in groups]
    left, bottom, height = 100, 120, 100
    most = max(value for _, value, *_ in tops if value is not None) or 1.0
    step = min(24.0, (WIDTH - left - 10) / len(tops))
    bars = []
    for at, (name, value, words, *kind) in enumerate(tops):
        if value is None:
            place = round(left + at * step, 1), bottom - height, round(step, 2), height
            bars.append(Bar(*place, f"{name}: {words}", "absent"))
            continue
        tall = round(height * value / most, 1)
        shown = f"{name}: {text(value) if text else f'{value:,.6g} {unit}'}, {words}"
        state = kind[0] if kind else words
        bars.append(Bar(round(left + at * step + 0.5, 1), bottom - tall, round(step - 1, 2), tall, shown, state))
    peak = f"{most:,.0f} {unit}" if most >= 100 else f"{most:.3g} {unit}"
    up = (Mark(bottom - height, text(most) if text else peak), Mark(bottom, "0"))
    first, last, right = tops[0][0], tops[-1][0], left + step * len(tops)
    across: tuple[Mark, ...] = (Mark(left, first), Mark(right, last, "end"))
    if right - left < LABELS_WIDTH:
        across = (Mark(left, first if len(tops) == 1 else f"{first} to {last}"),)
    return Plot(WIDTH, bottom + 24, tuple(bars), "", across, up)


@dataclass(frozen=True)
class Step:
    """A node of a waterfall: a bar from the lag of its input to its own lag, and a whisker to its largest lag."""

    name: str
    level: str
    y: int
    x: float
    width: float
    most: float
    text: str
    curve: str


@dataclass(frozen=True)
class Waterfall:
    """The lags of all nodes of an interval, one row a node."""

    width: int
    height: int
    steps: tuple[Step, ...]
    across: tuple[Mark, ...]


AXIS_START = 100_000_000
"""Smallest lag on the axis, ns. The axis is logarithmic: LFTAs lag seconds and micro-batches an hour."""

TICKS = tuple(tenths * 10**9 // 10 for tenths in (1, 10, 100, 600, 6000, 36_000, 216_000, 864_000))


def waterfall(lags: Sequence[tuple[str, str, int, int, int, Sequence[int]]]) -> Waterfall | None:
    """Draws the lags of nodes. `lags`: (name, level, lag of its input, lag, largest lag, series of lags), ns, in the
    direction of flow."""
    if not lags:
        return None
    left, room, row, spark = 230, 430, 30, 690
    longest = max(most for *_, most, _ in lags)
    last = max(2.0, math.log10(max(longest, 1) / AXIS_START))

    def part(lag: float) -> float:
        return max(0.0, math.log10(max(lag, AXIS_START) / AXIS_START)) / last

    steps = []
    for at, (name, level, before, lag, most, series) in enumerate(lags):
        y = 12 + at * row
        begin, end = sorted((part(before), part(lag)))
        points = [
            f"{spark + 200 * number / max(1, len(series) - 1):.1f} {y + 20 - 16 * part(value):.1f}"
            for number, value in enumerate(series)
        ]
        text = f"{level} {name}: typically {format_duration(lag)} behind the clock, at most {format_duration(most)}"
        steps.append(
            Step(
                name,
                level,
                y,
                round(left + room * begin, 1),
                round(max(1.5, room * (end - begin)), 1),
                round(left + room * part(most), 1),
                text,
                f"M{'L'.join(points)}" if len(points) > 1 else "",
            )
        )
    across = tuple(
        Mark(round(left + room * part(tick), 1), format_duration(tick))
        for tick in TICKS
        if tick <= max(longest, 10**10)
    )
    return Waterfall(WIDTH, 40 + len(steps) * row, tuple(steps), across)
