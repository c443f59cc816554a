"""Read ranges: how far back of a result any packet lies on which it depends (SEMANTICS I2).

A function per source, not one number: asked for the rows with `_last` at or after an instant, it answers from which
timestamp each source must be read. An epoch aligned with the interval adds nothing; scaled equalities go through the
preimage of each side; chains compose.
"""

from __future__ import annotations

from lowwater.plan.operators import Cut, LftaInput, Node, Source
from lowwater.plan.properties.state import by_arrival
from lowwater.plan.temporal import END_OF_TIME
from lowwater.plan.tree import walk


def read_from(node: Node, start: int, handed: bool = False) -> dict[str, int]:
    """From which timestamp (ns) each source must be read.

    Args:
        node: a logical plan (keys are `query.alias`) or a high-level one (keys are names of LFTAs, and of parts that
            are cut off, whose rows are needed from that `_last` on).
        start: all rows with `_last` at or after it (ns) must come out right.
        handed: whether the states of its operators at `start` are handed over (`plan.properties.state.hands_over`).
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
        if isinstance(node, Source | LftaInput | Cut):
            name, needed = _leaf(node, start)
            starts[name] = min(needed, starts.get(name, needed))
            continue
        needs = (start,) if handed and node.facts.outlives else node.reads_from(start)
        stack += reversed(list(zip(node.inputs(), needs, strict=True)))


def _leaf(node: Source | LftaInput | Cut, start: int) -> tuple[str, int]:
    """The name of what a leaf reads, and from which timestamp (ns)."""
    if isinstance(node, Source):
        return f"{node.query}.{node.alias}", start
    return (node.lfta.name, node.first_read(start)) if isinstance(node, LftaInput) else (node.name, start)


def horizon(node: Node, latest: int) -> int:
    """The largest `_last` that a row can have when no packet is after `latest` (ns); where intervals may stop (I3)."""
    ends = [end for below in walk(node) for end in below.ends(latest)]
    return min(max([latest, *ends]), END_OF_TIME - 1)


def reached(node: Node, first: int, latest: int) -> list[tuple[int, int]] | None:
    """Between which instants `_last` of the rows lies that packets from `first` to `latest` (ns) make, both included.

    An interval that meets none of these has no row and no record to count, unless other packets bring it one. None
    where packets say nothing of it: what counts rows or hands a state over may make rows, or states, of idle time (I4).
    """
    if by_arrival(node) or any(below.facts.outlives for below in walk(node)):
        return None
    spans = [below.span(first, latest) for below in walk(node) if below.facts.waits]
    known = [span for span in spans if span is not None]
    return [(first, latest), *known] if len(known) == len(spans) else None
