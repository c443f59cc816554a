"""The granularity of punctuation that the readers of each LFTA can use: the describe operator.

EXPLAIN shows it, and heartbeats use it as their period. Punctuation that no reader can use is not emitted (002, section
6 and appendix).
"""

from __future__ import annotations

from math import gcd

from lowwater.plan.operators import Aggregation, LftaInput, Node
from lowwater.plan.temporal import grid
from lowwater.plan.tree import walk

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
