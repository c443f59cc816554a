"""Sub-aggregates of users: their states beside the group table, which holds numbers only (SEMANTICS O2).

Between the code of `low.code.aggregation` and the rows that leave. A group has a ticket in the place of their values,
a number that no other group of the node has. The code queues the ticket and the arguments of every accepted record,
and the states take them up before any row of the node is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lowwater.catalog.calls import CheckedAggregate
from lowwater.catalog.streams import STREAM_TYPES
from lowwater.low.code.rows import Array, Output
from lowwater.plan.operators import Lfta


class States:
    """The states of the groups of one node, of all of its sub-aggregates of users.

    Args:
        lfta: the node.
        taken: columns of what a record brings: the ticket, then an argument for each aggregate that has one.
        capacity: records.

    Attributes:
        arrays: parameters of the code.
    """

    def __init__(self, lfta: Lfta, taken: Sequence[Output], capacity: int) -> None:
        found = [(number, each) for number, each in enumerate(lfta.partials, len(lfta.keys)) if each.udaf is not None]
        self._columns = [(number, STREAM_TYPES[each.type]) for number, each in found]
        self._functions = [CheckedAggregate(each.udaf) for _, each in found if each.udaf is not None]
        self._given = [each.argument is not None for _, each in found]
        self._taken = taken
        self._parts = [output.arrays(capacity) for output in taken]
        self.arrays: list[Array] = [array for part in self._parts for array in part]
        self._groups: dict[int, list[Any]] = {}

    def take(self, count: int, texts: Sequence[str]) -> None:
        """Takes up what the first records of the queue bring; `texts` are those that the numbers stand for.

        Raises:
            LowwaterError: the Python of an aggregate fails.
        """
        pairs = zip(self._taken, self._parts, strict=True)
        tickets, *arguments = (output.array(part, count, texts).to_pylist() for output, part in pairs)
        waiting = iter(arguments)
        nothing = [True] * count
        for at, (functions, given) in enumerate(zip(self._functions, self._given, strict=True)):
            values = next(waiting) if given else nothing
            for ticket, value in zip(tickets, values, strict=True):
                states = self._groups.get(ticket)
                if states is None:
                    states = self._groups[ticket] = [each.initialize() for each in self._functions]
                # An aggregate does not see NULL.
                if value is not None:
                    states[at] = functions.iterate(states[at], value) if given else functions.iterate(states[at])

    def leave(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """Columns of rows with what the aggregates give in the place of the tickets, whose states end.

        Raises:
            LowwaterError: the Python of an aggregate fails, or gives a value of another type.
        """
        found = list(columns)
        groups = [self._groups.pop(ticket) for ticket in columns[self._columns[0][0]].to_pylist()]
        for at, ((number, kind), functions) in enumerate(zip(self._columns, self._functions, strict=True)):
            found[number] = pa.array([functions.output(states[at]) for states in groups], kind)
        return found
