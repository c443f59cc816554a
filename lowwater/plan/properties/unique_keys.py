"""Derives the unique key of a query from its plan: output columns whose values no two rows share.

The audit checks the rows of a run against it. A key is given only if it follows from the operators: groups differ in
their GROUP BY variables, joined rows in the keys of both inputs.
"""

from __future__ import annotations

from lowwater.plan.operators import Key, Node
from lowwater.plan.tree import walk


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
