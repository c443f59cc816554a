"""The operators of the batch evaluator that keep a state from row to row: CLOSING_WHEN and the sampling operator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from lowwater.catalog.expr import StateCall, Type
from lowwater.plan.operators import Field, Running, Sampling
from lowwater.plan.temporal import END_OF_TIME
from tests.plan.batch_rows import Row, World
from tests.plan.batch_values import Accumulator, compiled, condition, group_last, hashable


def running(node: Running, rows: Sequence[Row], world: World) -> list[Row]:
    """Every group at the end of every epoch from its first row until it is closed (O4)."""
    keep, having, closing = condition(node.predicate), condition(node.having), condition(node.closing)
    keys = [(key.name, compiled(key.expr), f) for key, f in zip(node.keys, node.key_fields, strict=True)]
    items = [(item.name, compiled(item.expr)) for item in node.items]
    epochs: dict[tuple[Any, ...], list[tuple[tuple[Any, ...], Row]]] = {}
    times = tuple(f for _, _, f in keys if f.temporal)
    for row in rows:
        if keep(row.values):
            values = [(f, made(row.values)) for _, made, f in keys]
            epoch = tuple(v for f, v in values if f.temporal)
            epochs.setdefault(epoch, []).append((tuple(v for f, v in values if not f.temporal), row))
    groups: dict[tuple[Any, ...], dict[str, Accumulator]] = {}
    found = []
    for epoch, last in _epochs(times, list(epochs), world.latest):
        for key, row in epochs.get(epoch, ()):
            states = groups.setdefault(tuple(map(hashable, key)), {a.name: Accumulator(a) for a in node.aggregates})
            for state in states.values():
                state.add(row.values)
        for key, states in list(groups.items()):
            now, rest = iter(epoch), iter(key)
            values = {name: next(now) if f.temporal else next(rest) for name, _, f in keys}
            values |= {name: state.value() for name, state in states.items()}
            if having(values):
                found.append(Row({name: made(values) for name, made in items}, last))
            if closing(values):
                del groups[key]
            for state in states.values():
                state.next_epoch()
    return found


def _epochs(
    times: Sequence[Field], seen: Sequence[tuple[Any, ...]], latest: int
) -> Iterator[tuple[tuple[Any, ...], int]]:
    """Every epoch with its last instant, idle ones included, from the first with rows to that of the last packet."""
    if not seen:
        return
    fields = tuple(times)
    epoch = min(seen, key=lambda one: group_last(fields, one))
    while True:
        last = group_last(fields, epoch)
        yield epoch, last
        if last >= min(latest, END_OF_TIME - 1):
            return
        epoch = tuple(f.temporal.promise(last + 1) for f in fields if f.temporal)


@dataclass
class Super:
    """A supergroup: its groups, superaggregates and states."""

    supers: dict[str, Accumulator]
    groups: dict[tuple[Any, ...], tuple[dict[str, Any], dict[str, Accumulator]]] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)

    def call(self, expr: StateCall, arguments: Sequence[Any]) -> Any:
        """The value of a stateful function."""
        state = expr.function.state
        self.calls[state] = self.calls.get(state, 0) + 1
        value = crc32(repr((expr.function.name, self.calls[state], list(arguments))).encode()) % 97
        if expr.type is Type.BOOL:
            return value % 3 != 0
        return float(value) if expr.type is Type.FLOAT else value


def sampling(node: Sampling, rows: Sequence[Row]) -> list[Row]:
    """Rows that WHERE admits are grouped; a cleaning drops the groups of the supergroup that it does not keep."""
    keys = [(key.name, compiled(key.expr)) for key in node.keys]
    supergroups: dict[tuple[Any, ...], Super] = {}
    for row in rows:
        values = {name: made(row.values) for name, made in keys}
        which = tuple(hashable(values[name]) for name in node.supergroup)
        one = supergroups.setdefault(which, Super({a.name: Accumulator(a) for a in node.supers}))
        if not condition(node.predicate, one.call)(row.values):
            continue
        fresh = (values, {a.name: Accumulator(a) for a in node.aggregates})
        _, states = one.groups.setdefault(tuple(map(hashable, values.values())), fresh)
        for state in (*states.values(), *one.supers.values()):
            state.add(row.values)
        if node.cleaning_when and condition(node.cleaning_when, one.call)({**values, **_values(one.supers)}):
            _clean(node, one)
    items = [(item.name, item.expr) for item in node.items]
    found = []
    for one in supergroups.values():
        for values, states in one.groups.values():
            env = {**values, **_values(states), **_values(one.supers)}
            if condition(node.having, one.call)(env):
                last = group_last(node.key_fields, tuple(values.values()))
                found.append(Row({name: compiled(expr, one.call)(env) for name, expr in items}, last))
    return found


def _values(states: dict[str, Accumulator]) -> dict[str, Any]:
    return {name: state.value() for name, state in states.items()}


def _clean(node: Sampling, one: Super) -> None:
    keep = condition(node.cleaning_by, one.call)
    for key, (values, states) in list(one.groups.items()):
        if not keep({**values, **_values(states), **_values(one.supers)}):
            del one.groups[key]
