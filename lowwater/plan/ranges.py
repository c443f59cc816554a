"""Read ranges: how far back of a result any packet lies on which it depends (SEMANTICS I2).

A function per source, not one number: asked for the rows with `_last` at or after an instant, it answers from which
timestamp each source must be read. An epoch aligned with the interval adds nothing; scaled equalities go through the
preimage of each side; chains compose.
"""

from __future__ import annotations

from lowwater.plan.nodes import (
    Aggregation,
    Bucket,
    Cut,
    Expand,
    Field,
    FilterJoin,
    Group,
    Join,
    LftaInput,
    Map,
    Node,
    Running,
    Sampling,
    Source,
    Union,
    WatchJoin,
    Window,
)
from lowwater.plan.state import HANDED, by_arrival
from lowwater.plan.temporal import END_OF_TIME, Temporal, infer
from lowwater.plan.tree import walk


def read_from(node: Node, start: int, handed: bool = False) -> dict[str, int]:
    """From which timestamp (ns) each source must be read.

    Args:
        node: a logical plan (keys are `query.alias`) or a high-level one (keys are names of LFTAs, and of parts that
            are cut off, whose rows are needed from that `_last` on).
        start: all rows with `_last` at or after it (ns) must come out right.
        handed: whether the states of its operators at `start` are handed over (`plan.state.hands_over`).
    """
    starts: dict[str, int] = {}
    _descend(node, max(start, 0), starts, handed)
    if by_arrival(node):
        # Where only records make progress, all that lie before the interval count, or none as their state is there.
        return dict.fromkeys(starts, max(start, 0) if handed else 0)
    return starts


def _descend(root: Node, first: int, starts: dict[str, int], handed: bool) -> None:
    # Plans share the queries that they read: one operator is asked again only for an earlier start.
    asked: dict[int, int] = {}
    stack = [(root, first)]
    while stack:
        node, start = stack.pop()
        if asked.get(id(node), start + 1) <= start:
            continue
        asked[id(node)] = start
        if isinstance(node, Source):
            key = f"{node.query}.{node.alias}"
            starts[key] = min(start, starts.get(key, start))
        elif isinstance(node, LftaInput):
            lfta = node.lfta
            if lfta.aggregates:
                start = _epoch_start(node.lfta.fields[: len(lfta.keys)], start)
            starts[lfta.name] = min(start, starts.get(lfta.name, start))
        elif isinstance(node, Cut):
            starts[node.name] = min(start, starts.get(node.name, start))
        else:
            needed = (start,) if handed and isinstance(node, HANDED) else _input_starts(node, start)
            stack += reversed(list(zip(node.inputs(), needed, strict=True)))


def _input_starts(node: Node, start: int) -> tuple[int, ...]:
    """From which timestamp each input of an operator is needed."""
    if isinstance(node, Running | Sampling):
        return (0,)
    if isinstance(node, Group):
        return (_epoch_start(node.key_fields, start),)
    if isinstance(node, Join):
        return _join_starts(node, start)
    if isinstance(node, FilterJoin):
        return _filter_starts(node, start)
    if isinstance(node, Map | Union | Bucket | Expand | WatchJoin):
        return tuple(start for _ in node.inputs())
    raise TypeError(type(node).__name__)


def _filter_starts(node: FilterJoin, start: int) -> tuple[int, int]:
    """From where the rows are needed that are final at `start`, and the keys that may let them pass."""
    time = filter_time(node)
    if time.origin:
        return 0, 0
    value = time.promise(start)
    left, right = (value, value - node.range) if time.increasing else (value + node.range, value + node.range)
    return max(0, time.first(left)), max(0, time.first(right))


def filter_time(node: FilterJoin) -> Temporal:
    """The attribute t of FILTER_JOIN(t, range) as a temporal attribute."""
    times = {f"{node.right_alias}.{field.name}": field.temporal for field in node.right.fields if field.temporal}
    time = infer(node.right_time, times)
    assert time is not None
    return time


def _epoch_start(keys: tuple[Field, ...], start: int) -> int:
    """The first instant of the oldest group that can still change at `start`."""
    times = [key.temporal for key in keys if key.temporal and not key.temporal.origin]
    if not times:
        return 0
    return max(0, max(time.first(time.promise(start)) for time in times))


def _join_starts(node: Join, start: int) -> tuple[int, int]:
    window = node.window
    if window.left_time.origin:
        return 0, 0
    if window.equality:
        both = window.left_time.joined(window.right_time)
        value = both.promise(start)
        return max(0, window.left_time.first(value)), max(0, window.right_time.first(value))
    left, right = _band_values(window, start, node.kind.keeps_left, node.kind.keeps_right)
    return max(0, window.left_time.first(left)), max(0, window.right_time.first(right))


def _band_values(window: Window, start: int, keeps_left: bool, keeps_right: bool) -> tuple[int, int]:
    """The earliest value of each side that a row with `_last` at or after `start` depends on."""
    # In a decreasing attribute everything is mirrored: negate the values and exchange the bounds.
    sign = 1 if window.left_time.increasing else -1
    below, above = (window.below, window.above) if sign > 0 else (window.above, window.below)
    left_promise = sign * window.left_time.promise(start)
    right_promise = sign * window.right_time.promise(start)
    left = min(left_promise, right_promise - above)
    right = min(right_promise, left_promise - below)
    # An unmatched row depends on everything that could have matched it.
    needed_left = min(left, right - above) if keeps_right else left
    needed_right = min(right, left - below) if keeps_left else right
    return sign * needed_left, sign * needed_right


def horizon(node: Node, latest: int) -> int:
    """The largest `_last` that a row can have when no packet is after `latest` (ns); where intervals may stop (I3)."""
    ends = [latest]
    for below in walk(node):
        ends += _ends(below, latest)
    return min(max(ends), END_OF_TIME - 1)


def reached(node: Node, first: int, latest: int) -> list[tuple[int, int]] | None:
    """Between which instants `_last` of the rows lies that packets from `first` to `latest` (ns) make, both included.

    An interval that meets none of these has no row and no record to count, unless other packets bring it one. None
    where packets say nothing of it: what counts rows or hands a state over may make rows, or states, of idle time (I4).
    """
    if by_arrival(node) or any(isinstance(below, HANDED) for below in walk(node)):
        return None
    found = [(first, latest)]
    for below in walk(node):
        ends = _ends(below, latest)
        if isinstance(below, Aggregation):
            if not ends:
                return None
            times = [f.temporal for f in below.key_fields if f.temporal and not f.temporal.origin]
            begin = max(first, min(time.last(time.promise(first)) for time in times))
            found.append((begin, max(begin, *ends)))
        elif ends:
            found.append((first, max(first, *ends)))
    return found


def _ends(node: Node, latest: int) -> list[int]:
    ends: list[int] = []
    if isinstance(node, Aggregation):
        times = [f.temporal for f in node.key_fields if f.temporal and not f.temporal.origin]
        ends += [min(time.last(time.latest(latest)) for time in times)] if times else []
    elif isinstance(node, Join) and not node.window.left_time.origin:
        # A pair ends with the later one of its rows; only an unmatched row waits for the end of its match window.
        if node.kind.keeps_left:
            ends.append(node.window.last_left(node.window.left_time.latest(latest)))
        if node.kind.keeps_right:
            ends.append(node.window.last_right(node.window.right_time.latest(latest)))
    elif isinstance(node, FilterJoin) and not filter_time(node).origin:
        time = filter_time(node)
        ends.append(time.last(time.latest(latest) - (0 if time.increasing else node.range)))
    return ends
