"""Derives the unique key of a query from its plan: output columns whose values no two rows share.

The audit checks the rows of a run against it. A key is given only if it follows from the operators: groups differ in
their GROUP BY variables, joined rows in the keys of both inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowwater.plan.operators import Key, Node
from lowwater.plan.tree import walk


@dataclass(frozen=True)
class StatedKeys:
    """The columns that DEFINE declares as the unique key of a query.

    Attributes:
        whole: columns of `keys`, which replace the key that the plan shows; empty for none.
        extra: columns of `extra_keys`, which are added to the key.
    """

    whole: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()

    def with_derived(self, derived: Key, names: Sequence[str]) -> Key:
        """Combines the declared columns with the key that the plan shows.

        Args:
            derived: the key that the plan shows; None for none.
            names: the columns of the query, in their order.
        """
        base = self.whole or derived
        if base is None and not self.extra:
            return None
        chosen = {*(base or ()), *self.extra}
        return tuple(name for name in names if name in chosen)


def unique_key(node: Node, keys: dict[int, Key] | None = None) -> Key:
    """Returns the columns of a unique key of a node's rows, in the order of its fields; NULL equals NULL.

    Args:
        node: a logical plan.
        keys: identity of an operator -> its key, filled by earlier calls where plans share queries. The operators must
            stay alive.

    Returns:
        The names of output columns, as few as the plan shows; None if no key follows from the plan.
    """
    keys = {} if keys is None else keys
    for part in walk(node, done=keys):
        keys[id(part)] = part.key([keys[id(below)] for below in part.inputs()])
    return keys[id(node)]
