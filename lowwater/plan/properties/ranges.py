"""Read ranges: how far back a source must be read for a result (SEMANTICS I2).

The answer is a function of every source, not one number. It maps an instant to the timestamp from which the source must
be read, so that all rows with `_last` at or after the instant are right. An epoch that is aligned with the interval
adds nothing. Equalities with scaled sides use the preimage of both sides. Chains of operators compose.
"""

from __future__ import annotations

from lowwater.plan.operators import Cut, LftaInput, Node, Source
from lowwater.plan.properties.state import by_arrival
from lowwater.plan.temporal import END_OF_TIME
from lowwater.plan.tree import walk


def read_from(node: Node, start: int, handed: bool = False) -> dict[str, int]:
    """Returns from which timestamp (ns) each source must be read.

    Args:
        node: a logical plan (keys are `query.alias`) or a high plan (keys are names of LFTAs and of fragments, whose
            rows are needed from that `_last` on).
        start: all rows with `_last` at or after it (ns) must be right.
        handed: whether the states of the operators at `start` are handed over (`plan.properties.state.hands_over`).
    """
    starts: dict[str, int] = {}
    _descend(node, max(start, 0), starts, handed)
    if by_arrival(node):
        # Where only records make progress, all earlier records matter, or none if their state is handed over.
        return dict.fromkeys(starts, max(start, 0) if handed else 0)
    return starts


def _descend(root: Node, first: int, starts: dict[str, int], handed: bool) -> None:
    # Plans share queries: an operator is visited again only for an earlier start.
    starts_by_node: dict[int, int] = {}
    stack = [(root, first)]
    while stack:
        node, start = stack.pop()
        if starts_by_node.get(id(node), start + 1) <= start:
            continue
        starts_by_node[id(node)] = start
        if isinstance(node, Source | LftaInput | Cut):
            name, needed = _leaf(node, start)
            starts[name] = min(needed, starts.get(name, needed))
            continue
        needs = (start,) if handed and node.facts.outlives else node.reads_from(start)
        stack += reversed(list(zip(node.inputs(), needs, strict=True)))


def _leaf(node: Source | LftaInput | Cut, start: int) -> tuple[str, int]:
    """Returns the name of a leaf's source, and from which timestamp (ns) it is read."""
    if isinstance(node, Source):
        return f"{node.query}.{node.alias}", start
    return (node.lfta.name, node.first_read(start)) if isinstance(node, LftaInput) else (node.name, start)


def horizon(node: Node, latest: int) -> int:
    """Returns the largest `_last` of a row if no packet is after `latest` (ns); there intervals may stop (I3)."""
    ends = [end for below in walk(node) for end in below.ends(latest)]
    return min(max([latest, *ends]), END_OF_TIME - 1)


def reached(node: Node, first: int, latest: int) -> list[tuple[int, int]] | None:
    """Returns the spans of `_last` that rows from packets between `first` and `latest` (ns, both included) can have.

    An interval outside of these spans has no row and no record to count, unless it has packets of its own. None if
    packets do not decide it: an operator that counts rows or hands a state over may make rows, or states, in idle time
    (I4).
    """
    if by_arrival(node) or any(below.facts.outlives for below in walk(node)):
        return None
    spans = [below.span(first, latest) for below in walk(node) if below.facts.waits]
    bounded = [span for span in spans if span is not None]
    return [(first, latest), *bounded] if len(bounded) == len(spans) else None
