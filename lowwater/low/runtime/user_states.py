"""States of users' sub-aggregates, kept beside the group table, which holds numbers only (SEMANTICS O2).

Between the code of `low.code.aggregation` and the rows that leave. A group holds a ticket in place of their values: a
number that no other group of the node has. The code queues the ticket and the arguments of every accepted record. The
states are updated from the queue before any row of the node is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lowwater.catalog.calls import CheckedAggregate
from lowwater.catalog.streams import STREAM_TYPES
from lowwater.low.arrays import Array
from lowwater.low.code.row_buffers import OutputColumn
from lowwater.plan.operators import Lfta


class States:
    """The states of all users' sub-aggregates, for the groups of one node.

    Args:
        lfta: the LFTA.
        queue: the columns of the queue: the ticket, then the argument of each aggregate that has one.
        capacity: the most records in the queue.

    Attributes:
        arrays: arguments of the code, the arrays of the queue.
    """

    def __init__(self, lfta: Lfta, queue: Sequence[OutputColumn], capacity: int) -> None:
        numbered = enumerate(lfta.partials, len(lfta.keys))
        partials = [(number, partial, partial.udaf) for number, partial in numbered if partial.udaf is not None]
        self._columns = [(number, STREAM_TYPES[partial.type]) for number, partial, _ in partials]
        self._functions = [CheckedAggregate(udaf) for _, _, udaf in partials]
        self._has_argument = [partial.argument is not None for _, partial, _ in partials]
        self._queue = queue
        self._parts = [output.arrays(capacity) for output in queue]
        self.arrays: list[Array] = [array for part in self._parts for array in part]
        self._groups: dict[int, list[Any]] = {}

    def take(self, count: int, texts: Sequence[str]) -> None:
        """Updates the states with the first records of the queue.

        Args:
            count: the number of queued records.
            texts: the strings that numbers stand for, by number.

        Raises:
            LowwaterError: a user's aggregate fails.
        """
        pairs = zip(self._queue, self._parts, strict=True)
        tickets, *arguments = (output.array(part, count, texts).to_pylist() for output, part in pairs)
        argument_columns = iter(arguments)
        every_record = [True] * count
        for at, (functions, has_argument) in enumerate(zip(self._functions, self._has_argument, strict=True)):
            values = next(argument_columns) if has_argument else every_record
            for ticket, value in zip(tickets, values, strict=True):
                states = self._groups.get(ticket)
                if states is None:
                    states = self._groups[ticket] = [aggregate.initialize() for aggregate in self._functions]
                # Aggregates skip NULL.
                if value is not None:
                    states[at] = functions.iterate(states[at], *([value] if has_argument else []))

    def leave(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """Returns the columns of rows, with the values of the aggregates in place of the tickets.

        The states of these groups end.

        Raises:
            LowwaterError: a user's aggregate fails, or returns a value of another type.
        """
        values = list(columns)
        groups = [self._groups.pop(ticket) for ticket in columns[self._columns[0][0]].to_pylist()]
        for at, ((number, kind), functions) in enumerate(zip(self._columns, self._functions, strict=True)):
            values[number] = pa.array([functions.output(states[at]) for states in groups], kind)
        return values
