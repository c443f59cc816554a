"""The sampling operator: states of supergroups decide which rows and groups stay (004; SEMANTICS O1, I4).

Built on `epochs`; the states are defined in `catalog.builtin.supergroups`.
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
from lowwater.stream.epochs import Epoch, EpochOperator, EpochRow
from lowwater.stream.operators import Life, Row, StreamOperator, evaluate, names_of
from lowwater.stream.packet_source import Filter
from lowwater.stream.values import Faults, Value, Values, compile_expr, compile_predicate

States = dict[str, SamplingState]


@dataclass
class Supergroup:
    """The groups of an epoch that share states and superaggregates.

    Attributes:
        supers: superaggregates of the admitted rows.
        before: states of the epoch before, and its number of groups.
        states: name -> state, for the states that were used.
        groups: keys -> accumulators.
        counted: number of groups that the states see.
    """

    supers: list[Accumulator]
    before: tuple[States, int]
    states: States = field(default_factory=dict)
    groups: dict[Values, list[Accumulator]] = field(default_factory=dict)
    counted: int = 0

    def state(self, name: str) -> SamplingState:
        """Returns a state; a new one continues the state of the epoch before."""
        if name not in self.states:
            old, group_count = self.before
            self.states[name] = old[name].following(group_count) if name in old else STATE_CLASSES[name]()
        return self.states[name]


class SamplingOperator(EpochOperator):
    """Processes the rows of an epoch in canonical order: WHERE admits rows, CLEANING_WHEN triggers CLEANING_BY.

    At the end of the epoch HAVING selects groups. A supergroup hands its states to the same supergroup of the next
    epoch with rows; a supergroup without rows in that epoch ends.
    """

    def __init__(self, node: Sampling, below: StreamOperator, life: Life) -> None:
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
        """Keeps a row until its epoch has ended; conditions without a state are checked at once."""
        if self._filter.passes(row.values):
            self.wait(row)

    def work(self, epoch: Epoch, last: int, rows: list[EpochRow]) -> Iterator[Row]:
        """Yields the groups that remain at the end of the epoch."""
        supergroups: dict[Values, Supergroup] = {}
        for _, key, values in rows:
            which = tuple([key[at] for at in self._shared])
            if which not in supergroups:
                supergroups[which] = Supergroup(self._supers.fresh(), self._handed.get(which, ({}, 0)))
            self._current = supergroups[which]
            self._take(supergroups[which], epoch, key, values)
        # A supergroup without groups and states does not count as one of the epoch.
        supergroups = {
            which: supergroup for which, supergroup in supergroups.items() if supergroup.groups or supergroup.states
        }
        for supergroup in supergroups.values():
            self._current = supergroup
            yield from self._end(supergroup, epoch, last)
        if supergroups:
            self._handed = {
                which: (supergroup.states, len(supergroup.groups)) for which, supergroup in supergroups.items()
            }

    def saved_state(self) -> Any:
        """The waiting rows, and the states of the latest epoch with its number of groups."""
        return [self.waiting, self._handed]

    def load_state(self, state: Any) -> None:
        """Restores the state of the interval before."""
        self.waiting, self._handed = state

    def _take(self, supergroup: Supergroup, epoch: Epoch, key: Values, values: Values) -> None:
        supergroup.counted = len(supergroup.groups)
        for state in supergroup.states.values():
            state.next_row()
        if not self._where(values):
            return
        if key not in supergroup.groups:
            supergroup.groups[key] = self._aggregates.fresh()
            supergroup.counted = len(supergroup.groups)
        self._aggregates.add(supergroup.groups[key], self._aggregates.arguments(values), ())
        self._supers.add(supergroup.supers, self._supers.arguments(values), ())
        if self._cleaning_when and self._cleaning_when(
            (*self.named(epoch, key), *self._supers.results(supergroup.supers))
        ):
            for other in list(supergroup.groups):
                if not self._cleaning_by(self._results(supergroup, epoch, other)):
                    del supergroup.groups[other]

    def _end(self, supergroup: Supergroup, epoch: Epoch, last: int) -> Iterator[Row]:
        supergroup.counted = len(supergroup.groups)
        for state in supergroup.states.values():
            state.finish(supergroup.counted)
        for key in list(supergroup.groups):
            results = self._results(supergroup, epoch, key)
            if self._having(results):
                yield Row(evaluate(self._items, results), last)
            else:
                del supergroup.groups[key]

    def _results(self, supergroup: Supergroup, epoch: Epoch, key: Values) -> Values:
        groups = self._aggregates.results(supergroup.groups[key])
        return (*self.named(epoch, key), *groups, *self._supers.results(supergroup.supers))

    def _on_state(self, function: StateFunction, arguments: Values) -> Value:
        assert self._current is not None and function.value is not None, function.name
        state = self._current.state(function.state)
        value: Value = checked_call(function, function.value, function.returns)(
            state, self._current.counted, *arguments
        )
        return value

    def _condition(self, expr: Expr | None, names: list[str]) -> Callable[[Values], bool]:
        """Builds a test of all conjuncts; conjuncts after a false one are not evaluated, which states would notice."""
        parts = [compile_predicate(part, names, Faults(), self._on_state) for part in conjuncts(expr)]
        return lambda values: all(part(values) for part in parts)


def _at_first_state(predicate: Expr | None) -> tuple[Expr | None, Expr | None]:
    """Splits a predicate at the first conjunct with a state."""
    parts = conjuncts(predicate)
    stateful = (at for at, part in enumerate(parts) if any(isinstance(e, StateCall) for e in walk(part)))
    first = next(stateful, len(parts))
    return conjunction(parts[:first]), conjunction(parts[first:])
