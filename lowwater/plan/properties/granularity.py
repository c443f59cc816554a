"""How fine a punctuation the readers of each LFTA can use: the describe operator.

Read by EXPLAIN, and by whoever sets the period of heartbeats. It asks each reader, so that no punctuation is emitted in
vain (002, section 6 and appendix).
"""

from __future__ import annotations

from math import gcd

from lowwater.plan.operators import Aggregation, LftaInput, Node
from lowwater.plan.temporal import grid
from lowwater.plan.tree import walk


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
        own = node.grain()
        for below in node.inputs():
            # A group comes out no more than once an epoch, whatever its reader asks for.
            _ask(asked, below, *((own, f"the {_word(node)} of {node.query}") if own else (fine, by)))
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
    return "aggregation" if isinstance(node, Aggregation) else "join"
