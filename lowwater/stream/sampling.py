"""The sampling operator: supergroups whose states decide which rows and groups are kept (004; SEMANTICS O1, I4).

Beside the other operators; the states are in `catalog.builtin.supergroups`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from lowwater.catalog.builtin.supergroups import STATE_CLASSES, SamplingState
from lowwater.catalog.calls import checked_call
from lowwater.catalog.expr import Expr, StateCall, conjunction, conjuncts, walk
from lowwater.catalog.functions import StateFunction
from lowwater.plan.operators import Sampling
from lowwater.stream.aggregates import Accumulator, Aggregates, results_of
from lowwater.stream.epochs import Epoch, Epochs, Waiting
from lowwater.stream.operators import Life, Operator, Row, evaluate, names_of
from lowwater.stream.sources import Filter
from lowwater.stream.values import Faults, Value, Values, compile_expr, compile_predicate

States = dict[str, SamplingState]


@dataclass
class Supergroup:
    """The groups of an epoch that share states and superaggregates.

    Attributes:
        supers: superaggregates of the admitted rows.
        before: the states of the epoch before, with how many groups it kept.
        states: by name, those that were asked for.
        groups: by their keys.
        counted: how many groups the states are told of.
    """

    supers: list[Accumulator]
    before: tuple[States, int]
    states: States = field(default_factory=dict)
    groups: dict[Values, list[Accumulator]] = field(default_factory=dict)
    counted: int = 0

    def state(self, name: str) -> SamplingState:
        """A state: it takes over from that of the epoch before, if there was one."""
        if name not in self.states:
            old, kept = self.before
            self.states[name] = old[name].following(kept) if name in old else STATE_CLASSES[name]()
        return self.states[name]


class SamplingOperator(Epochs):
    """Works on the rows of an epoch in canonical order: WHERE admits, CLEANING_WHEN asks, CLEANING_BY keeps.

    At the end of the epoch HAVING keeps. A supergroup hands its states to the same one of the next epoch with rows; one
    that has no rows in that epoch ends.
    """

    def __init__(self, node: Sampling, below: Operator, life: Life) -> None:
        super().__init__(node, life)
        names, keys = names_of(node.input.fields), [key.name for key in node.keys]
        early, late = _at_first_state(node.predicate)
        self._filter = Filter(early, names, below)
        self._where = self._condition(late, names)
        self._aggregates = Aggregates(node.query, node.aggregates, names, node.items, True, self._on_state)
        self._supers = Aggregates(node.query, node.supers, names, node.items, True, self._on_state)
        supers = [aggregate.name for aggregate in node.supers]
        results = [*results_of(node), *supers]
        self._cleaning_when = self._condition(node.cleaning_when, [*keys, *supers]) if node.cleaning_when else None
        self._cleaning_by = self._condition(node.cleaning_by, results)
        self._having = self._condition(node.having, results)
        self._items = [compile_expr(item.expr, results, Faults(), self._on_state) for item in node.items]
        timeless = [name for name, timed in zip(keys, self.timed, strict=True) if not timed]
        self._shared = [timeless.index(name) for name in node.supergroup if name in timeless]
        self._handed: dict[Values, tuple[States, int]] = {}
        self._current: Supergroup | None = None

    def row(self, port: int, row: Row) -> None:
        """Keeps a row until its epoch has ended; what no state decides is decided at once."""
        if self._filter.passes(row.values):
            self.wait(row)

    def work(self, epoch: Epoch, last: int, rows: list[Waiting]) -> Iterator[Row]:
        """The groups that the epoch keeps."""
        known: dict[Values, Supergroup] = {}
        for _, key, values in rows:
            which = tuple([key[at] for at in self._shared])
            if which not in known:
                known[which] = Supergroup(self._supers.fresh(), self._handed.get(which, ({}, 0)))
            self._current = known[which]
            self._take(known[which], epoch, key, values)
        # A supergroup that admitted nothing and asked no state was not there.
        known = {which: one for which, one in known.items() if one.groups or one.states}
        for one in known.values():
            self._current = one
            yield from self._end(one, epoch, last)
        if known:
            self._handed = {which: (one.states, len(one.groups)) for which, one in known.items()}

    def held(self) -> Any:
        """The waiting rows, and the states of the latest epoch with how many groups were kept."""
        return [self.waiting, self._handed]

    def hold(self, held: Any) -> None:
        """Takes up what another interval left."""
        self.waiting, self._handed = held

    def _take(self, one: Supergroup, epoch: Epoch, key: Values, values: Values) -> None:
        one.counted = len(one.groups)
        for state in one.states.values():
            state.next_row()
        if not self._where(values):
            return
        if key not in one.groups:
            one.groups[key] = self._aggregates.fresh()
            one.counted = len(one.groups)
        self._aggregates.add(one.groups[key], self._aggregates.arguments(values), ())
        self._supers.add(one.supers, self._supers.arguments(values), ())
        if self._cleaning_when and self._cleaning_when((*self.named(epoch, key), *self._supers.results(one.supers))):
            for other in list(one.groups):
                if not self._cleaning_by(self._results(one, epoch, other)):
                    del one.groups[other]

    def _end(self, one: Supergroup, epoch: Epoch, last: int) -> Iterator[Row]:
        one.counted = len(one.groups)
        for state in one.states.values():
            state.finish(one.counted)
        for key in list(one.groups):
            found = self._results(one, epoch, key)
            if self._having(found):
                yield Row(evaluate(self._items, found), last)
            else:
                del one.groups[key]

    def _results(self, one: Supergroup, epoch: Epoch, key: Values) -> Values:
        groups = self._aggregates.results(one.groups[key])
        return (*self.named(epoch, key), *groups, *self._supers.results(one.supers))

    def _on_state(self, function: StateFunction, arguments: Values) -> Value:
        assert self._current is not None and function.value is not None, function.name
        state = self._current.state(function.state)
        found: Value = checked_call(function, function.value, function.returns)(
            state, self._current.counted, *arguments
        )
        return found

    def _condition(self, expr: Expr | None, names: list[str]) -> Callable[[Values], bool]:
        """Whether every conjunct is true; those after one that is not are not asked, which only states notice."""
        parts = [compile_predicate(part, names, Faults(), self._on_state) for part in conjuncts(expr)]
        return lambda values: all(part(values) for part in parts)


def _at_first_state(predicate: Expr | None) -> tuple[Expr | None, Expr | None]:
    """The conjuncts before the first with a state, and the others."""
    parts = conjuncts(predicate)
    stateful = (at for at, part in enumerate(parts) if any(isinstance(e, StateCall) for e in walk(part)))
    first = next(stateful, len(parts))
    return conjunction(parts[:first]), conjunction(parts[first:])
