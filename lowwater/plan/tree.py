"""Traverses and rebuilds plans, which are graphs because queries share the plans that they read.

Beside `plan.operators`. Spark's Python workers load this module for every query, so it imports the operators only.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from lowwater.catalog.expr import Column, Expr, rewrite
from lowwater.errors import LawError
from lowwater.plan.operators import Cut, Item, Lfta, LftaInput, Node


def with_inputs(node: Node, inputs: Sequence[Node]) -> Node:
    """Returns the operator over other inputs with the same columns; the operator itself if no input differs."""
    if all(new is old for new, old in zip(inputs, node.inputs(), strict=True)):
        return node
    return node.over(*inputs)


def walk(*roots: Node, done: Container[int] = ()) -> Iterator[Node]:
    """Yields every operator of some plans once, inputs first.

    Args:
        roots: the plans.
        done: identities of operators that are skipped, with everything below them.
    """
    seen: set[int] = set()
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node
        elif id(node) not in seen and id(node) not in done:
            seen.add(id(node))
            stack.append((node, True))
            stack += [(below, False) for below in reversed(node.inputs())]


LARGEST = 4_000
"""Nodes that rules may make of smaller expressions, by putting definitions in place of columns. A chain of queries that
each read a column twice doubles it with every step, so beyond it two operators stay two."""


def outgrows(after: Iterable[Expr], before: Iterable[Expr]) -> bool:
    """Whether expressions are larger than those of which a rule made them, and than LARGEST."""
    nodes = sum(expr.size for expr in after)
    return nodes > LARGEST and nodes > sum(expr.size for expr in before)


def substitute(expr: Expr, items: Sequence[Item]) -> Expr:
    """Replaces the columns of an expression by the expressions of a projection's items."""
    definitions = {item.name: item.expr for item in items}
    return rewrite(expr, lambda e: definitions.get(e.name, e) if isinstance(e, Column) else e)


def leaves(node: Node) -> list[LftaInput | Cut]:
    """Returns the LFTAs and fragments that a plan reads, without repetition."""
    return [part for part in walk(node) if isinstance(part, LftaInput | Cut)]


def with_leaves(root: Node, others: Mapping[str, Node]) -> Node:
    """Returns a plan with other nodes in place of some leaves, by the names of the leaves."""
    made: dict[int, Node] = {}
    for node in walk(root):
        if isinstance(node, LftaInput | Cut):
            made[id(node)] = others.get(leaf_name(node), node)
        else:
            made[id(node)] = with_inputs(node, [made[id(below)] for below in node.inputs()])
    return made[id(root)]


def leaf_name(node: LftaInput | Cut) -> str:
    """Returns the name of the LFTA or fragment that a leaf reads."""
    return node.lfta.name if isinstance(node, LftaInput) else node.name


def lftas_of(*nodes: Node) -> list[Lfta]:
    """Returns the LFTAs below high plans, without repetition, in order of first use.

    Raises:
        LawError: two LFTAs have the same name.
    """
    lftas: dict[str, Lfta] = {}
    for node in walk(*nodes):
        if isinstance(node, LftaInput) and lftas.setdefault(node.lfta.name, node.lfta) != node.lfta:
            raise LawError(f"two LFTAs are called {node.lfta.name}")
    return list(lftas.values())
