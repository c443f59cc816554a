"""Divides the time of a replay into slices.

`high.query_runs` calls it; `task` evaluates the slices. An interval needs only a bounded range of records before it
(SEMANTICS I2), and so does any part of it. A slice is a part of the interval, and its rows need the state of no other
slice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from lowwater.high.source.boundaries import choose_boundaries
from lowwater.plan.operators import Join, Node
from lowwater.plan.properties.state import read_from
from lowwater.plan.temporal import END_OF_TIME
from lowwater.plan.tree import walk

ROW_COUNT_UNIT = 1_000_000_000
"""Rows are counted per this length of time (ns) before slices are chosen."""
ALL_TIME = END_OF_TIME


@dataclass(frozen=True)
class TimeSlice:
    """A part of the time of a query.

    Attributes:
        start, end: the slice gives the rows with `_last` (ns) in [start, end).
        reads: LFTA -> the smallest `_last` (ns) of its rows that are read, up to `end`.
    """

    start: int
    end: int
    reads: Mapping[str, int]


def choose_slices(node: Node, rows: Counter[int], most: int) -> list[TimeSlice]:
    """Chooses slices with about equal numbers of rows; no slice is shorter than the time it reads before its start,
    unless its rows meet by a band alone: then each slice takes a copy of the rows of the band, and fewer pairs.

    Args:
        node: plan without a state that outlives a slice.
        rows: number of rows of its LFTAs, by the ROW_COUNT_UNIT of time that holds their `_last`.
        most: largest number of slices, at least 1.

    Returns:
        Slices in order; together they cover all of time.
    """
    ends = {(at + 1) * ROW_COUNT_UNIT: count for at, count in rows.items()}
    cuts: list[int] = []
    waiting = [part for part in walk(node) if part.facts.waits]
    copied = bool(waiting) and all(isinstance(part, Join) and part.by_time_alone for part in waiting)
    before = min(rows, default=0) * ROW_COUNT_UNIT
    for boundary in choose_boundaries(ends, ALL_TIME, ROW_COUNT_UNIT, most)[:-1]:
        cut = boundary if copied else _aligned(node, boundary)
        if cut > before and (copied or before <= min(read_from(node, cut).values())):
            cuts.append(cut)
            before = cut
    edges = [-ALL_TIME, *cuts, ALL_TIME]
    first = dict.fromkeys(read_from(node, 0), -ALL_TIME)
    return [
        TimeSlice(start, end, read_from(node, start) if start > -ALL_TIME else first) for start, end in pairwise(edges)
    ]


def choose_chain(names: Iterable[str], rows: Counter[int], most: int) -> list[TimeSlice]:
    """Chooses slices with about equal numbers of rows for a plan with a state; each row is read once.

    Args:
        names: names of the LFTAs that the plan reads.
        rows: number of their rows, by the ROW_COUNT_UNIT of time that holds their `_last`.
        most: largest number of slices, at least 1.
    """
    ends = {(at + 1) * ROW_COUNT_UNIT: count for at, count in rows.items()}
    edges = [-ALL_TIME, *choose_boundaries(ends, ALL_TIME, ROW_COUNT_UNIT, most)[:-1], ALL_TIME]
    read = list(names)
    return [TimeSlice(start, end, dict.fromkeys(read, start)) for start, end in pairwise(edges)]


def rows_of(slice_: TimeSlice, rows: Counter[int]) -> int:
    """Returns about how many rows a slice reads.

    Args:
        slice_: the slice.
        rows: number of rows, by the ROW_COUNT_UNIT of time that holds their `_last`.
    """
    first = min(slice_.reads.values(), default=slice_.start)
    return sum(
        count for at, count in rows.items() if first < (at + 1) * ROW_COUNT_UNIT and at * ROW_COUNT_UNIT < slice_.end
    )


def _aligned(node: Node, cut: int) -> int:
    """The nearest earlier instant that needs no earlier rows (the begin of an epoch); otherwise the cut."""
    first = min(read_from(node, cut).values())
    return first if first >= 0 and min(read_from(node, first).values()) == first else cut
