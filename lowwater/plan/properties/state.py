"""What an operator remembers: its state, the ranges that it reads, the granularity of its epochs."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from lowwater.plan.operators import Aggregation, Copies, Cut, FilterJoin, LftaInput, Node, Source, Unary
from lowwater.plan.temporal import END_OF_TIME, grid
from lowwater.plan.tree import walk

# Finds the state that a query carries from interval to interval (SEMANTICS I4), and whether it goes by arrival.
# EXPLAIN shows it, and the scheduler of intervals reads it: the intervals of a query without state can run in any
# order.

ROW = "_row"
"""Column with the number of a record on its links (SEMANTICS I4)."""

TIMESTAMP = "_timestamp"
"""Last column of an LFTA by arrival: the timestamp of the record; NULL for a record that the LFTA does not take."""


def by_arrival(plan: Node) -> bool:
    """Whether an operator of a plan makes progress with records only; then intervals go by arrival (I4)."""
    return any(node.origin for node in walk(plan))


def carried_state(plan: Node) -> list[str]:
    """Returns the reasons why the intervals of a query must run in order; empty if they can run in any order."""
    reasons = (f"{node.query}: {reason}" for node in walk(plan) if (reason := node.state()))
    return list(dict.fromkeys(reasons))


def hands_over(plan: Node) -> bool:
    """Whether a query hands its state to the next interval, so that no interval reads further back than it must.

    It does if the query is evaluated by arrival, since such a query is evaluated in one place. It also does if no
    operator with state stands above CLOSING_WHEN or the sampling operator. An operator with state above them may need
    rows of earlier epochs, so such a plan is evaluated from the start of its chain for every interval.
    """
    return by_arrival(plan) or (any(node.facts.outlives for node in walk(plan)) and _handed(plan))


def _handed(node: Node) -> bool:
    if node.facts.passes:
        return all(_handed(below) for below in node.inputs())
    return not any(below.facts.outlives for root in node.inputs() for below in walk(root))


# Read ranges: how far back a source must be read for a result (SEMANTICS I2). The answer is a function of every
# source, not one number. It maps an instant to the timestamp from which the source must be read, so that all rows
# with `_last` at or after the instant are right. An epoch that is aligned with the interval adds nothing. Equalities
# with scaled sides use the preimage of both sides. Chains of operators compose.


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


# The granularity of punctuation that the readers of each LFTA can use: the describe operator. EXPLAIN shows it, and
# heartbeats use it as their period. Punctuation that no reader can use is not emitted (002, section 6 and appendix).

Need = tuple[int, str]
"""A granularity, ns, and the reader that needs it."""


def needed_granularity(*plans: Node) -> dict[str, tuple[int, str]]:
    """Returns, for each LFTA, the granularity (ns) that its readers can use, and the first reader that needs it.

    Args:
        plans: high plans of output queries, which may share operators.
    """
    needs: dict[int, Need] = {}
    for plan in plans:
        output = grid([field.temporal for field in plan.fields if field.temporal])
        _add_need(needs, plan, (output, f"the output of {plan.query}"))
    by_lfta: dict[str, Need] = {}
    # Readers come before their inputs, so all readers of an operator have stated their needs before its turn.
    for node in reversed(list(walk(*plans))):
        need = needs[id(node)]
        if isinstance(node, LftaInput):
            # Readers use every promise of an LFTA by arrival: it says nothing of the columns that they look at.
            need = (1, need[1]) if node.lfta.arrival else need
            by_lfta[node.lfta.name] = _finer(by_lfta.get(node.lfta.name), need)
            continue
        # A group comes out once an epoch, whatever its reader needs.
        if grain := node.grain():
            need = (grain, f"the {_kind(node)} of {node.query}")
        for below in node.inputs():
            _add_need(needs, below, need)
    return by_lfta


def _add_need(needs: dict[int, Need], node: Node, need: Need) -> None:
    needs[id(node)] = _finer(needs.get(id(node)), need)


def _finer(first: Need | None, second: Need) -> Need:
    """Returns the granularity that serves two readers, with the first reader that needs it."""
    if first is None:
        return second
    both = gcd(first[0], second[0])
    return first if both == first[0] else (both, second[1])


def _kind(node: Node) -> str:
    return "aggregation" if isinstance(node, Aggregation) else "join"


# Counts the rows that a plan makes of one row: overlapping windows, and groupings such as CUBE. Beside
# `plan.properties.cost`, which is about expressions. The text alone shows this number, so a query with an absurd cost
# is refused before anything is read.


def copies(plan: Node) -> Iterator[tuple[Node, Copies, int]]:
    """Yields the operators that multiply rows, with their factor and the product with the operators right below.

    Aggregations, joins and other operators that make rows of their own start again at 1.
    """
    for node in walk(plan):
        if (factor := node.copies()) is not None:
            yield node, factor, _product(node)


def _product(node: Node) -> int:
    times = 1
    while isinstance(node, Unary) and node.facts.passes:
        factor = node.copies()
        times *= factor.times if factor else 1
        node = node.input
    return times


# Finds the LFTAs whose rows need their place in the stream: the canonical order of packets (SEMANTICS O1). The high
# level adds the place to these rows, and the low level leaves them in their order.


def placed_leaves(node: Node, ordered: bool = False) -> set[str]:
    """Returns the LFTAs below an operator whose rows need their place; `ordered` if a reader takes them in order."""
    found: set[str] = set()
    seen: set[tuple[int, bool]] = set()
    waiting = [(node, ordered)]
    while waiting:  # queries share inputs, so each is visited once
        part, ordered = waiting.pop()
        if (id(part), ordered) in seen:
            continue
        seen.add((id(part), ordered))
        if isinstance(part, LftaInput):
            if part.lfta.arrival or (ordered and not part.lfta.aggregates):
                found.add(part.lfta.name)
            continue
        below_ordered = (ordered and part.facts.passes) or isinstance(part, FilterJoin) or part.order_dependent
        waiting += [(below, below_ordered and below.query == part.query) for below in part.inputs()]
    return found
