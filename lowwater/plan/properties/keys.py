"""Which output columns of a query no two of its rows have in common: its unique key, derived from the plan.

The audit holds the rows of a run against it. A key is named only where it follows from the operators: groups are told
apart by their GROUP BY variables, joined rows by the keys of both inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowwater.plan.operators import Key, Node
from lowwater.plan.tree import walk


@dataclass(frozen=True)
class StatedKeys:
    """What DEFINE says of the unique key of a query's rows.

    Attributes:
        whole: the columns of `keys`, in the place of what the plan shows; empty where it does not say.
        extra: the columns of `extra_keys`, which are added.
    """

    whole: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()

    def with_derived(self, derived: Key, names: Sequence[str]) -> Key:
        """The key, from what the plan shows and the columns of the query in their order."""
        base = self.whole or derived
        if base is None and not self.extra:
            return None
        chosen = {*(base or ()), *self.extra}
        return tuple(name for name in names if name in chosen)


def unique_key(node: Node, known: dict[int, Key] | None = None) -> Key:
    """The columns of a unique key of a node's rows, in the order of its fields; NULL equals NULL.

    Args:
        node: a logical plan.
        known: keys by the identity of operators that live on, kept from call to call where plans share queries.

    Returns:
        Names of output columns, as few as the plan shows; None where none follows from the plan.
    """
    found = {} if known is None else known
    for part in walk(node, done=found):
        found[id(part)] = part.key([found[id(below)] for below in part.inputs()])
    return found[id(node)]
