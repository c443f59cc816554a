"""Plans as graphs: every operator, every LFTA, an operator or an expression over other inputs.

Beside `plan.nodes`. Spark's Python workers start with each query and read it, so it imports nothing but the operators.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from lowwater.catalog.expr import Column, Expr, rewrite
from lowwater.errors import LawError
from lowwater.plan.operators import Cut, Item, Lfta, LftaInput, Node


def with_inputs(node: Node, inputs: Sequence[Node]) -> Node:
    """The operator over other inputs with the same columns; itself over its own."""
    if all(new is old for new, old in zip(inputs, node.inputs(), strict=True)):
        return node
    return node.over(*inputs)


def walk(*roots: Node, done: Container[int] = ()) -> Iterator[Node]:
    """Every operator of some plans, each once, inputs first; but those whose identity is done."""
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


def substitute(expr: Expr, items: Sequence[Item]) -> Expr:
    """The expression over the input of a projection."""
    made = {item.name: item.expr for item in items}
    return rewrite(expr, lambda e: made.get(e.name, e) if isinstance(e, Column) else e)


def leaves(node: Node) -> list[LftaInput | Cut]:
    """The LFTAs and parts of a cut plan that an operator reads, each once."""
    return [each for each in walk(node) if isinstance(each, LftaInput | Cut)]


def leaf_name(node: LftaInput | Cut) -> str:
    """The name of what a leaf reads."""
    return node.lfta.name if isinstance(node, LftaInput) else node.name


def lftas_of(*nodes: Node) -> list[Lfta]:
    """The LFTAs below high-level plans, each once, in order of first use.

    Raises:
        LawError: two of them have one name.
    """
    found: dict[str, Lfta] = {}
    for node in walk(*nodes):
        if isinstance(node, LftaInput) and found.setdefault(node.lfta.name, node.lfta) != node.lfta:
            raise LawError(f"two LFTAs are called {node.lfta.name}")
    return list(found.values())
