"""Aggregation by epochs and windows: a group is emitted once a promise excludes later rows for it.

Paper 002, figure A-3 with its erratum: a promise closes all groups that end at or before it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from lowwater.catalog.expr import Column
from lowwater.plan.operators import Field, Group
from lowwater.plan.temporal import END_OF_TIME
from lowwater.stream.aggregates import Accumulator, Aggregates, compile_keys, kept_values, results_of
from lowwater.stream.operators import Life, Promise, Row, StreamOperator, carried, compile_items, evaluate, names_of
from lowwater.stream.packet_source import Filter
from lowwater.stream.values import Faults, Values, compile_predicate


@dataclass
class OpenGroup:
    """A group that may still change.

    Attributes:
        aggregates: accumulators of the rows so far.
        last: last instant of the group, ns; None where only a later record can tell it (SEMANTICS I4).
    """

    aggregates: list[Accumulator]
    last: int | None


class GroupOperator(StreamOperator):
    """Aggregation: a promise closes all groups that end at or before it, by the clock or by another attribute.

    A link or partition may have its own promises; they close its groups as well (SEMANTICS T8).
    """

    def __init__(self, node: Group, below: StreamOperator, life: Life) -> None:
        super().__init__()
        names = names_of(node.input.fields)
        results = results_of(node)
        self._node, self._life = node, life
        self._filter = Filter(node.predicate, names, below)
        self._keys = compile_keys(node.keys, names)
        self._aggregates = Aggregates(node.query, node.aggregates, names, node.items)
        self._having = compile_predicate(node.having, results, Faults())
        self._items = compile_items(node.items, results)
        mine = carried(below.groupwise, node.keys)
        self.groupwise = carried(mine, node.items)
        key_columns = [Column(key.expr.type, key.name) for key in node.keys]
        self._groupwise_places = [key_columns.index(column) for column in mine if isinstance(column, Column)]
        self._groups: dict[Values, OpenGroup] = {}
        self._ends: dict[tuple[str, Values], list[tuple[int, int, Values]]] = {}
        self._order = count()
        self._temporal = [at for at, key_field in enumerate(node.key_fields) if key_field.temporal is not None]
        # Many groups have the epochs of the group before.
        self._latest: tuple[Values, dict[str, int]] = (), {}

    def row(self, port: int, row: Row) -> None:
        """Adds a row to its group."""
        if not self._filter.passes(row.values):
            return
        key = evaluate(self._keys, row.values)
        group = self._groups.get(key)
        if group is None:
            group = self._open_group(key)
        self._aggregates.add(group.aggregates, self._aggregates.arguments(row.values), row.order)

    def add_equal(self, values: Values, rows: int) -> None:
        """Adds `rows` rows with the same values at once; only where every aggregate is a count.

        Args:
            values: the values of each of the rows.
            rows: their number, above 0.
        """
        key = evaluate(self._keys, values)
        for accumulator in (self._groups.get(key) or self._open_group(key)).aggregates:
            number, nothing = accumulator.state
            accumulator.state = number + rows, nothing

    def groupwise_below(self) -> bool:
        """Whether the keys contain the columns whose values have their own promises."""
        return bool(self._groupwise_places)

    def release(self, port: int, promise: Promise) -> None:
        """Emits the groups that no later row can change."""
        for (origin, of), ends in list(self._ends.items()):
            if origin != promise.origin or promise.of not in ((), of):
                continue
            while ends and ends[0][0] < promise.instant:
                _, _, key = heapq.heappop(ends)
                if key in self._groups:
                    self._close_group(key, promise.at)
            if not ends:
                del self._ends[origin, of]

    def due(self) -> Iterator[tuple[int, int]]:
        """The promises that close the oldest groups."""
        return iter([(0, ends[0][0] + 1) for (origin, _), ends in self._ends.items() if not origin])

    def state_rows(self) -> Iterator[Values]:
        """The keys of open groups with the values that their aggregates keep."""
        for key, group in self._groups.items():
            yield (*key, *kept_values(group.aggregates))

    def saved_state(self) -> Any:
        """The open groups."""
        return [(key, [accumulator.state for accumulator in group.aggregates]) for key, group in self._groups.items()]

    def load_state(self, saved: Any) -> None:
        """Restores open groups."""
        for key, states in saved:
            for accumulator, state in zip(self._open_group(key).aggregates, states, strict=True):
                accumulator.state = state

    def _open_group(self, key: Values) -> OpenGroup:
        of = tuple([key[at] for at in self._groupwise_places])
        epochs = tuple([key[at] for at in self._temporal])
        if not self._latest[1] or epochs != self._latest[0]:
            self._latest = epochs, last_values(self._node.key_fields, key)
        ends = self._latest[1]
        for origin, last in ends.items():
            heapq.heappush(self._ends.setdefault((origin, of), []), (last, next(self._order), key))
        opened = OpenGroup(self._aggregates.fresh(), ends[""] + self._life.late if "" in ends else None)
        self._groups[key] = opened
        return opened

    def _close_group(self, key: Values, at: int) -> None:
        group = self._groups.pop(key)
        values = (*key, *self._aggregates.results(group.aggregates))
        if self._having(values):
            self.emit(Row(evaluate(self._items, values), at if group.last is None else group.last))


def last_values(fields: Sequence[Field], key: Values) -> dict[str, int]:
    """Origin of each temporal attribute -> the last of its values that may still change the group; "" is the clock.

    A group without a temporal value can change until the end of time.
    """
    last_by_origin: dict[str, int] = {}
    for time, value in ((f.temporal, v) for f, v in zip(fields, key, strict=True) if v is not None):
        if time is not None:
            assert isinstance(value, int)
            last = time.last(value)
            last_by_origin[time.origin] = min(last, last_by_origin.get(time.origin, last))
    return last_by_origin or {"": END_OF_TIME - 1}
