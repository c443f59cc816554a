"""Read ranges: how far back of a result any packet lies on which it depends (SEMANTICS I2).

A function per source, not one number: asked for the rows with `_last` at or after an instant, it answers from which
timestamp each source must be read. An epoch aligned with the interval adds nothing; scaled equalities go through the
preimage of each side; chains compose.
"""

from __future__ import annotations

from lowwater.plan.nodes import Field, Group, Join, LftaInput, Map, Node, Source, Union, Window
from lowwater.plan.temporal import END_OF_TIME


def read_from(node: Node, start: int) -> dict[str, int]:
    """From which timestamp (ns) each source must be read.

    Args:
        node: a logical plan (keys are `query.alias`) or a high-level one (keys are names of LFTAs).
        start: all rows with `_last` at or after it (ns) must come out right.
    """
    starts: dict[str, int] = {}
    _descend(node, max(start, 0), starts)
    return starts


def _descend(node: Node, start: int, starts: dict[str, int]) -> None:
    if isinstance(node, Source):
        key = f"{node.query}.{node.alias}"
        starts[key] = min(start, starts.get(key, start))
    elif isinstance(node, LftaInput):
        lfta = node.lfta
        if lfta.aggregates:
            start = _epoch_start(node.lfta.fields[: len(lfta.keys)], start)
        starts[lfta.name] = min(start, starts.get(lfta.name, start))
    elif isinstance(node, Group):
        _descend(node.input, _epoch_start(node.key_fields, start), starts)
    elif isinstance(node, Map | Union):
        for child in node.inputs():
            _descend(child, start, starts)
    elif isinstance(node, Join):
        left, right = _join_starts(node, start)
        _descend(node.left, left, starts)
        _descend(node.right, right, starts)
    else:
        raise TypeError(type(node).__name__)


def _epoch_start(keys: tuple[Field, ...], start: int) -> int:
    """The first instant of the oldest group that can still change at `start`."""
    times = [key.temporal for key in keys if key.temporal]
    return max(0, max(time.first(time.promise(start)) for time in times))


def _join_starts(node: Join, start: int) -> tuple[int, int]:
    window = node.window
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
    if isinstance(node, Source | LftaInput):
        return latest
    ends = [horizon(child, latest) for child in node.inputs()]
    if isinstance(node, Group):
        closing = min(f.temporal.last(f.temporal.latest(latest)) for f in node.key_fields if f.temporal)
        ends.append(closing)
    elif isinstance(node, Join):
        ends.append(node.window.last_left(node.window.left_time.latest(latest)))
        ends.append(node.window.last_right(node.window.right_time.latest(latest)))
    return min(max(ends), END_OF_TIME - 1)
