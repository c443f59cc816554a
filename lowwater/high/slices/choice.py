"""Where the slices of a replay lie.

Between `high.run` and the tasks. An interval is evaluated from a bounded range of records before it (SEMANTICS I2); so
is any part of it: a slice is an interval within the interval, and its rows need the state of no other slice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from lowwater.high.source.boundaries import choose_boundaries
from lowwater.plan.operators import Node
from lowwater.plan.properties.ranges import read_from
from lowwater.plan.temporal import END_OF_TIME

GRAIN = 1_000_000_000
"""Length (ns) of time in which rows are counted before slices are chosen."""
EVER = END_OF_TIME


@dataclass(frozen=True)
class Slice:
    """A part of the time of a query's rows.

    Attributes:
        start, end: rows with `_last` (ns) in [start, end) come out of it.
        reads: of each LFTA, from which `_last` (ns) on its rows are read; up to `end`.
    """

    start: int
    end: int
    reads: Mapping[str, int]


def choose_slices(node: Node, rows: Counter[int], most: int) -> list[Slice]:
    """Slices of about as many rows each, none shorter than what it reads before it.

    Args:
        node: a plan of which no state goes from slice to slice.
        rows: how many rows of its LFTAs there are by the GRAIN of time in which their `_last` lies.
        most: how many slices there may be, at least 1.

    Returns:
        Slices in order, that have all of time together.
    """
    ends = {(at + 1) * GRAIN: count for at, count in rows.items()}
    cuts: list[int] = []
    before = min(rows, default=0) * GRAIN
    for boundary in choose_boundaries(ends, EVER, GRAIN, most)[:-1]:
        cut = _aligned(node, boundary)
        if cut > before <= min(read_from(node, cut).values()):
            cuts.append(cut)
            before = cut
    edges = [-EVER, *cuts, EVER]
    first = dict.fromkeys(read_from(node, 0), -EVER)
    return [Slice(start, end, read_from(node, start) if start > -EVER else first) for start, end in pairwise(edges)]


def choose_chain(names: Iterable[str], rows: Counter[int], most: int) -> list[Slice]:
    """Slices of about as many rows each, of a plan whose state goes from slice to slice: each row is read once.

    Args:
        names: of the LFTAs that the plan reads.
        rows: how many rows of them there are by the GRAIN of time in which their `_last` lies.
        most: how many slices there may be, at least 1.
    """
    ends = {(at + 1) * GRAIN: count for at, count in rows.items()}
    edges = [-EVER, *choose_boundaries(ends, EVER, GRAIN, most)[:-1], EVER]
    read = list(names)
    return [Slice(start, end, dict.fromkeys(read, start)) for start, end in pairwise(edges)]


def _aligned(node: Node, cut: int) -> int:
    """The nearest instant before that needs nothing earlier, where there is one: epochs begin there."""
    first = min(read_from(node, cut).values())
    return first if first >= 0 and min(read_from(node, first).values()) == first else cut
