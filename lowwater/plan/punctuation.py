"""What each operator says about progress: which columns it punctuates on, alone or together, and how finely.

Read by EXPLAIN. A join has two progressing attributes, and its reader decides what it punctuates on (002, sections 5.3
and 7.2); the describe operator asks each reader how fine a punctuation it can use, so that none is emitted in vain
(002, section 6 and appendix).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from lowwater.catalog.expr import Column, columns_of
from lowwater.plan.nodes import (
    Aggregation,
    Bucket,
    Field,
    Group,
    Join,
    Lfta,
    LftaInput,
    Map,
    Node,
    Union,
)
from lowwater.plan.state import off_clock
from lowwater.plan.temporal import Component, Temporal
from lowwater.plan.tree import walk


@dataclass(frozen=True)
class Punctuation:
    """The promises of one operator.

    Attributes:
        columns: output columns that it promises, in order; empty if only its clock makes progress.
        joint: whether the columns stand in one row together; else each has rows of its own.
        groupwise: columns beside the promised ones that tell groups apart; empty where a promise is of all rows.
        reason: why so.
    """

    columns: tuple[str, ...]
    joint: bool
    groupwise: tuple[str, ...]
    reason: str


def punctuation(node: Node, reader: Node | None) -> Punctuation:
    """What an operator punctuates on, for the operator that reads it; None for the query's output."""
    columns = _progressing(node.fields)
    if isinstance(node, LftaInput):
        return promises_of(node.lfta)
    if isinstance(node, Join) and columns:
        return _of_join(node, columns, reader)
    if not columns:
        return Punctuation((), False, (), "no output column is temporal: only its clock makes progress")
    if isinstance(node, Bucket):
        # Its reader groups by the number of the window; the other columns are only carried.
        columns = (node.name,)
    return Punctuation(columns, len(columns) > 1, _groupwise(node), _reason(node))


def promises_of(lfta: Lfta) -> Punctuation:
    """What an LFTA punctuates on (SEMANTICS P2)."""
    columns = _progressing(lfta.fields)
    if lfta.arrival:
        return Punctuation((), False, (), "read by arrival: only its clock makes progress, by that of the link")
    if not columns:
        return Punctuation((), False, (), "no column is temporal: only its clock makes progress")
    promise = "the largest value seen - its skew" if off_clock(lfta.fields) else "clock - skew"
    if lfta.aggregates:
        reason = f"the lesser of {promise} and the oldest epoch in the table"
    else:
        reason = f"{promise}, whether or not records pass the predicate"
    groups = tuple(key.name for key in lfta.keys if lfta.group and key.expr == Column(key.expr.type, lfta.group))
    return Punctuation(columns, len(columns) > 1, groups, reason)


def _progressing(fields: Sequence[Field]) -> tuple[str, ...]:
    return tuple(field.name for field in fields if field.temporal)


def _reason(node: Node) -> str:
    if isinstance(node, Group):
        return "the lesser of the promise of the input and the oldest epoch that is not out yet"
    if isinstance(node, Aggregation):
        return "the epoch that is worked on: all before it are out"
    if isinstance(node, Union):
        return "the least promise of the inputs"
    if isinstance(node, Bucket):
        return "the first window that is still open"
    return "a promise of the input, carried through"


def _groupwise(node: Node) -> tuple[str, ...]:
    """The columns that a promise is given for each value of, as far as the operator keeps them.

    Rows are counted in each partition, and some links have a skew for each value of a column (SEMANTICS T8).
    """
    if isinstance(node, Bucket) and node.rows:
        return tuple(item.name for item in node.partition)
    if isinstance(node, LftaInput):
        return promises_of(node.lfta).groupwise
    if not isinstance(node, Map | Group | Bucket):
        return ()
    below = _groupwise(node.input)
    if isinstance(node, Bucket) or not below:
        return below
    made = {key.name: key.expr for key in node.keys} if isinstance(node, Group) else {}
    found = []
    for item in node.items:
        source = made.get(item.expr.name, item.expr) if isinstance(item.expr, Column) else item.expr
        if isinstance(source, Column) and source.name in below:
            found.append(item.name)
    return tuple(found)


def _of_join(node: Join, columns: tuple[str, ...], reader: Node | None) -> Punctuation:
    used = _used(reader, node) if reader is not None else set(columns)
    chosen = tuple(name for name in columns if name in used) or columns[:1]
    if len(chosen) > 1 and isinstance(reader, Aggregation):
        reason = f"{reader.query} groups by both clocks, so both together close its groups earlier"
        return Punctuation(chosen, True, (), reason)
    if len(chosen) > 1 and reader is None:
        return Punctuation(chosen, True, (), "no later row is below both of them")
    if len(chosen) > 1:
        return Punctuation(chosen, False, (), "the clock of each side by its own promise: the reader takes either")
    if reader is None:
        return Punctuation(chosen, False, (), "the only clock among the columns of the query")
    if not used.intersection(columns):
        return Punctuation(chosen, False, (), f"{reader.query} uses none of its clocks")
    return Punctuation(chosen, False, (), f"the clock that {reader.query} uses")


def _used(reader: Node, node: Join) -> set[str]:
    if isinstance(reader, Aggregation):
        return set(columns_of(*(key.expr for key in reader.keys)))
    if isinstance(reader, Bucket):
        return set(columns_of(reader.attribute))
    if isinstance(reader, Map):
        return set(columns_of(*(item.expr for item in reader.items)))
    if isinstance(reader, Join):
        sides = [
            (reader.left, reader.left_alias, reader.window.left),
            (reader.right, reader.right_alias, reader.window.right),
        ]
        return {
            name.removeprefix(f"{alias}.") for side, alias, expr in sides if side is node for name in columns_of(expr)
        }
    return {field.name for field in node.fields}


def granularity(times: Sequence[Temporal]) -> int:
    """How much clock (ns) passes between two values of the finest of some attributes.

    Example:
        >>> from lowwater.plan.temporal import Step
        >>> minutes = Temporal(((Step("div", 1_000_000_000), Step("div", 60), Step("mul", 60)),))
        >>> granularity([minutes])
        60000000000
    """
    return min((_grain(steps) for time in times if not time.origin for steps in time.components), default=1)


def grid(times: Sequence[Temporal]) -> int:
    """The greatest clock (ns) of which every instant is a multiple at which a value of some attribute begins.

    Example:
        >>> from lowwater.plan.temporal import Step
        >>> seconds = (Step("div", 1_000_000_000),)
        >>> grid([Temporal(((*seconds, Step("div", 6)),)), Temporal(((*seconds, Step("add", 2), Step("div", 10)),))])
        2000000000
    """
    chains = [Temporal((steps,)) for time in times if not time.origin for steps in time.components]
    # Division truncates toward zero, so values below it may begin elsewhere than those above it do.
    begins = [chain.first(chain.promise(at)) for chain in chains for at in (1 << 59, 3 << 60)]
    return gcd(*(granularity([chain]) for chain in chains), *begins) or 1


def _grain(steps: Component) -> int:
    """The clock (ns) in which a chain takes one step; of one whose steps are uneven a part of each of them."""
    clock, jump = 1, 1
    for step in steps:
        if step.op == "mul":
            jump *= step.by
        elif step.op == "div" and step.by % jump == 0:
            clock, jump = clock * (step.by // jump), 1
        elif step.op == "div" and jump % step.by == 0:
            jump //= step.by
        elif step.op == "div":
            return clock
    return clock


def needed(*plans: Node) -> dict[str, tuple[int, str]]:
    """LFTA -> the granularity (ns) that its readers can use, and who asks for it first: the describe operator.

    Args:
        plans: high plans of output queries, which may share operators.
    """
    asked: dict[int, tuple[int, str]] = {}
    for plan in plans:
        own = grid([field.temporal for field in plan.fields if field.temporal])
        _ask(asked, plan, own, f"the output of {plan.query}")
    found: dict[str, tuple[int, str]] = {}
    # Readers come before what they read, so every operator is asked by all of them before it asks.
    for node in reversed(list(walk(*plans))):
        fine, by = asked[id(node)]
        if isinstance(node, LftaInput):
            known = found.get(node.lfta.name)
            # A promise of arrivals is of use as it is: the columns that readers look at are behind it.
            fine = 1 if node.lfta.arrival else fine
            found[node.lfta.name] = _finer(known, fine, by)
            continue
        own = _own(node)
        for below in node.inputs():
            # A group comes out no more than once an epoch, whatever its reader asks for.
            _ask(asked, below, *((own, f"{_word(node)} of {node.query}") if own else (fine, by)))
    return found


def _ask(asked: dict[int, tuple[int, str]], node: Node, fine: int, by: str) -> None:
    asked[id(node)] = _finer(asked.get(id(node)), fine, by)


def _finer(known: tuple[int, str] | None, fine: int, by: str) -> tuple[int, str]:
    """What serves two readers, and the first that needs it so fine."""
    if known is None:
        return fine, by
    both = gcd(known[0], fine)
    return known if both == known[0] else (both, by)


def _word(node: Node) -> str:
    return "the aggregation" if isinstance(node, Aggregation) else "the join"


def _own(node: Node) -> int:
    """What an operator needs itself; 0 where it passes on what its reader asks for."""
    if isinstance(node, Aggregation):
        return grid([field.temporal for field in node.key_fields if field.temporal])
    if isinstance(node, Join):
        return grid([node.window.left_time, node.window.right_time])
    return 0
