"""Groups of epochs without rows (SEMANTICS O10), one row at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from lowwater.catalog import expr as ex
from lowwater.catalog.time import Reported
from lowwater.plan import operators as ops, temporal
from lowwater.stream import operators
from lowwater.stream.aggregates import Aggregates
from lowwater.stream.values import Value, Values


class FillOperator(operators.StreamOperator):
    """Passes groups on; when a promise ends an epoch, gives those that it lacks."""

    def __init__(self, node: ops.Fill, life: operators.Life) -> None:
        super().__init__()
        names = operators.names_of(node.input.fields)
        self._node, self._links = node, life.reported
        self._time = ops.clocks(node.key_fields)[0]
        self._keys = [names.index(key.name) for key in node.keys]
        self._epoch = [key.name for key in node.keys].index(node.epoch.name)
        self._empty = empty_values(node)
        self._there: dict[Value, set[Values]] = {}
        lives = [each for each in self._links.values() if each.life[0] < each.life[1]]
        self._end = max((each.life[1] for each in lives), default=0)
        self._next = self._time.promise(min((each.begins for each in lives), default=0))

    def row(self, port: int, row: operators.Row) -> None:
        key = tuple([row.values[at] for at in self._keys])
        self._there.setdefault(key[self._epoch], set()).add(key)
        self.emit(row)

    def release(self, port: int, promise: operators.Promise) -> None:
        if promise.origin:
            return
        for epoch in next_epochs(self._time, self._next, self._end):
            if self._time.last(epoch) >= promise.instant:
                break
            self._next = self._time.promise(self._time.last(epoch) + 1)
            there = self._there.pop(epoch, set())
            begin, end = (self._time.begins or self._time).first(epoch), self._time.last(epoch) + 1
            for values in product(*self._node.listed):
                others = iter(value.value for value in values)
                key = tuple([epoch if key.temporal else next(others) for key in self._node.key_fields])
                named = {each.name: value for each, value in zip(self._node.key_fields, key, strict=True)}
                known = reported_of(self._node, named, self._links)
                told = any(each.lives(begin, end) for each in known) and all(each.whole(begin, end) for each in known)
                if told and key not in there:
                    self.emit(operators.Row((*key, *self._empty), end - 1))

    def due(self) -> Iterator[tuple[int, int]]:
        epoch = next(next_epochs(self._time, self._next, self._end), None)
        return iter([] if epoch is None else [(0, self._time.last(epoch) + 1)])

    def saved_state(self) -> Any:
        return [self._next, sorted(self._there.items(), key=repr)]

    def load_state(self, state: Any) -> None:
        self._next, there = state
        self._there = dict(there)


def next_epochs(time: temporal.Temporal, epoch: int, end: int) -> Iterator[int]:
    """Yields an epoch and those after it that begin before an instant (ns)."""
    begins = time.begins or time
    while begins.first(epoch) < end:
        yield epoch
        epoch = time.promise(time.last(epoch) + 1)


def empty_values(node: ops.Fill) -> Values:
    """The values of the aggregates of a group without rows."""
    names = ex.columns_of(*(expr for each in node.aggregates for expr in each.arguments))
    aggregates = Aggregates(node.query, node.aggregates, names, ())
    return tuple(aggregates.results(aggregates.fresh()))


def reported_of(node: ops.Fill, key: Mapping[str, Value], links: Mapping[str, Reported]) -> list[Reported]:
    """What is known of the links that a group could have rows of."""
    names = [str(key[node.linked])] if node.linked else node.links
    return [links[name] for name in names if name in links]
