"""Aggregation by epochs and windows: a group is emitted once a promise excludes later rows for it.

Paper 002, figure A-3 with its erratum: a promise closes all groups that end at or before it.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from lowwater import errors, limits
from lowwater.catalog import calls, expr as ex, functions
from lowwater.catalog.builtin.supergroups import STATE_CLASSES, SamplingState
from lowwater.plan import operators as ops, temporal
from lowwater.stream import operators, records
from lowwater.stream.aggregates import Accumulator, Aggregates, compile_keys, kept_values, results_of
from lowwater.stream.values import Evaluate, Faults, Value, Values, compile_expr, compile_predicate

# Operators that work epoch by epoch, in canonical order (SEMANTICS O1, O4): rows wait for the promise that ends their
# epoch.

Epoch = tuple[Any, ...]
EpochRow = tuple[tuple[Any, ...], Values, Values]
"""A waiting row: canonical order, keys that are not temporal, values."""


class EpochOperator(operators.StreamOperator, ABC):
    """Base class: keeps the rows of each epoch; a subclass processes an epoch when it has ended.

    The epoch of a row is the values of its temporal keys: the keys of the clock, otherwise of one other attribute.

    Attributes:
        origin: name of the attribute; empty for the clock.
        timed: for each key, whether it belongs to the epoch.
        waiting: epoch -> its rows.
        ending: whether the links have ended; for an attribute other than the clock.
        counts: rows, and groups before HAVING, of the epochs that have ended; filled by operators that count.
    """

    def __init__(self, node: ops.ByEpoch, life: operators.Life) -> None:
        super().__init__()
        self.life = life
        names = operators.names_of(node.input.fields)
        times = [f.temporal for f in node.key_fields if f.temporal]
        self.origin = "" if any(not time.origin for time in times) else times[0].origin
        self.timed = [bool(f.temporal and f.temporal.origin == self.origin) for f in node.key_fields]
        self._times = [f.temporal for f, timed in zip(node.key_fields, self.timed, strict=True) if timed and f.temporal]
        self._keys = compile_keys(node.keys, names)
        self.waiting: dict[Epoch, list[EpochRow]] = {}
        self.ending = False
        self.counts: Counter[str] = Counter()

    def wait(self, row: operators.Row) -> None:
        """Keeps a row until its epoch has ended."""
        values = operators.evaluate(self._keys, row.values)
        epoch = tuple([v for v, timed in zip(values, self.timed, strict=True) if timed])
        key = tuple([v for v, timed in zip(values, self.timed, strict=True) if not timed])
        self.waiting.setdefault(epoch, []).append((row.order, key, row.values))

    def release(self, port: int, promise: operators.Promise) -> None:
        if promise.origin != self.origin:
            return
        self.ending = promise.instant == operators.MOST
        while (epoch := self.next_epoch()) is not None and self.last(epoch) < promise.instant:
            last = promise.at if self.origin else self.last(epoch) + self.life.late
            rows = sorted(self.waiting.pop(epoch, ()), key=lambda waiting: waiting[0])
            for row in self.work(epoch, last, rows):
                self.emit(row)

    def next_epoch(self) -> Epoch | None:
        """The next epoch to process; None without any."""
        return min(self.waiting, key=self.last, default=None)

    @abstractmethod
    def work(self, epoch: Epoch, last: int, rows: list[EpochRow]) -> Iterator[operators.Row]:
        """Yields the output rows of an epoch; its rows come in canonical order, `last` is the `_last` (ns) of the
        output."""

    def due(self) -> Iterator[tuple[int, int]]:
        epoch = self.next_epoch()
        return iter([(0, self.last(epoch) + 1)] if epoch is not None and not self.origin else [])

    def last(self, epoch: Epoch) -> int:
        """The last value of the attribute that may still change an epoch; for the clock its last instant, ns."""
        instants = [time.last(v) for time, v in zip(self._times, epoch, strict=True) if v is not None]
        return min(instants, default=temporal.END_OF_TIME - 1)

    def after(self, epoch: Epoch) -> Epoch:
        return tuple([time.promise(self.last(epoch) + 1) for time in self._times])

    def named(self, epoch: Epoch, key: Values) -> Values:
        """The keys of a group in the order of the query."""
        times, others = iter(epoch), iter(key)
        return tuple([next(times) if timed else next(others) for timed in self.timed])

    def state_rows(self) -> Iterator[Values]:
        return (values for rows in self.waiting.values() for _, _, values in rows)

    @property
    def held(self) -> int:
        return sum(map(len, self.waiting.values()))

    def saved_state(self) -> Any:
        """The waiting rows, in an order that does not depend on that of their arrival."""
        epochs = sorted(self.waiting.items(), key=lambda item: in_order(item[0]))
        return {epoch: sorted(rows, key=lambda waiting: waiting[0]) for epoch, rows in epochs}

    def load_state(self, state: Any) -> None:
        self.waiting = state

    def notes(self) -> Any:
        """What tells whether and how this state and those of other shares of the keys make one (`high.handover`)."""


def in_order(values: Values) -> tuple[Any, ...]:
    """The sort key of an epoch or of the keys of a group."""
    return tuple([operators.order_key(value) for value in values])


@dataclass
class OpenGroup:
    """A group that may still change."""

    aggregates: list[Accumulator]
    last: int | None  # last instant of the group, ns; None where only a later record can tell it (SEMANTICS I4)


class GroupOperator(operators.StreamOperator):
    """Aggregation: a promise closes all groups that end at or before it, by the clock or by another attribute.

    A link or partition may have its own promises; they close its groups as well (SEMANTICS T8).
    """

    def __init__(self, node: ops.Group, below: operators.StreamOperator, life: operators.Life) -> None:
        super().__init__()
        names = operators.names_of(node.input.fields)
        results = results_of(node)
        self._node, self._life = node, life
        self._filter = records.Filter(node.predicate, names, below)
        self._keys = compile_keys(node.keys, names)
        self._aggregates = Aggregates(node.query, node.aggregates, names, node.items)
        self._having = compile_predicate(node.having, results, Faults())
        self._items = operators.compile_items(node.items, results)
        mine = operators.carried(below.groupwise, node.keys)
        self.groupwise = operators.carried(mine, node.items)
        key_columns = [ex.Column(key.expr.type, key.name) for key in node.keys]
        self._groupwise_places = [key_columns.index(column) for column in mine if isinstance(column, ex.Column)]
        self._groups: dict[Values, OpenGroup] = {}
        self._ends: dict[tuple[str, Values], list[tuple[int, int, Values]]] = {}
        self._order = count()
        self._temporal = [at for at, key_field in enumerate(node.key_fields) if key_field.temporal is not None]
        # Many groups have the epochs of the group before.
        self._latest: tuple[Values, dict[str, int]] = (), {}

    def row(self, port: int, row: operators.Row) -> None:
        if not self._filter.passes(row.values):
            return
        key = operators.evaluate(self._keys, row.values)
        group = self._groups.get(key)
        if group is None:
            group = self._open_group(key)
        self._aggregates.add(group.aggregates, self._aggregates.arguments(row.values), row.order)

    def add_equal(self, values: Values, rows: int) -> None:
        """Adds `rows` rows with the same values at once; only where every aggregate is a count. `rows`: their number,
        above 0."""
        key = operators.evaluate(self._keys, values)
        for accumulator in (self._groups.get(key) or self._open_group(key)).aggregates:
            number, nothing = accumulator.state
            accumulator.state = number + rows, nothing

    def groupwise_below(self) -> bool:
        """Whether the keys contain the columns whose values have their own promises."""
        return bool(self._groupwise_places)

    def release(self, port: int, promise: operators.Promise) -> None:
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
        return iter([(0, ends[0][0] + 1) for (origin, _), ends in self._ends.items() if not origin])

    def state_rows(self) -> Iterator[Values]:
        """The keys of open groups with the values that their aggregates keep."""
        for key, group in self._groups.items():
            yield (*key, *kept_values(group.aggregates))

    def saved_state(self) -> Any:
        return [(key, [accumulator.state for accumulator in group.aggregates]) for key, group in self._groups.items()]

    def load_state(self, saved: Any) -> None:
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
            self.emit(operators.Row(operators.evaluate(self._items, values), at if group.last is None else group.last))


def last_values(fields: Sequence[ops.Field], key: Values) -> dict[str, int]:
    """Origin of each temporal attribute -> the last of its values that may still change the group; "" is the clock.

    A group without a temporal value can change until the end of time.
    """
    last_by_origin: dict[str, int] = {}
    for time, value in ((f.temporal, v) for f, v in zip(fields, key, strict=True) if v is not None):
        if time is not None:
            assert isinstance(value, int)
            last = time.last(value)
            last_by_origin[time.origin] = min(last, last_by_origin.get(time.origin, last))
    return last_by_origin or {"": temporal.END_OF_TIME - 1}


# The first rows of each epoch.


class TopOperator(EpochOperator):
    """Emits, at the end of each epoch, the first rows of each of its keys, in their order (SEMANTICS O7)."""

    def __init__(self, node: ops.Top, life: operators.Life) -> None:
        super().__init__(node, life)
        names = operators.names_of(node.input.fields)
        self._node = node
        self._order = [compile_expr(part.expr, names, Faults()) for part in node.order]
        self._items = operators.compile_items(node.items, names)

    def row(self, port: int, row: operators.Row) -> None:
        self.wait(row)

    def work(self, epoch: Epoch, last: int, rows: list[EpochRow]) -> Iterator[operators.Row]:
        keyed: dict[tuple[Any, ...], list[EpochRow]] = {}
        for each in rows:
            keyed.setdefault(in_order(each[1]), []).append(each)
        for found in keyed.values():
            # Sorting is stable, so the last part comes first.
            for part, value in reversed([*zip(self._node.order, self._order, strict=True)]):
                _sort(found, value, part)
            border = found[: self._node.count][-1]
            for at, (_, _, values) in enumerate(found):
                if at >= self._node.count and not (self._node.ties and self._equal(values, border)):
                    break
                yield operators.Row(operators.evaluate(self._items, values), last)

    def _equal(self, values: Values, other: EpochRow) -> bool:
        return all(operators.order_key(of(values)) == operators.order_key(of(other[2])) for of in self._order)


def _sort(rows: list[EpochRow], value: Evaluate, part: ops.Order) -> None:
    rows.sort(key=lambda row: operators.order_key(value(row[2])), reverse=part.descending)
    rows.sort(key=lambda row: (value(row[2]) is None) is not part.nulls_first)


# CLOSING_WHEN (SEMANTICS O4, 004)


class RunningOperator(EpochOperator):
    """Emits, at the end of each epoch, the groups for which HAVING holds; drops those for which CLOSING_WHEN holds.

    A group that stays begins the next epoch with empty plain aggregates. While groups are open, epochs without rows
    count as well, up to the end of the links.
    """

    def __init__(self, node: ops.Running, below: operators.StreamOperator, life: operators.Life) -> None:
        super().__init__(node, life)
        names, results = operators.names_of(node.input.fields), results_of(node)
        self._query = node.query
        self._filter = records.Filter(node.predicate, names, below)
        self._aggregates = Aggregates(node.query, node.aggregates, names, node.items, in_order=True)
        self._having = compile_predicate(node.having, results, Faults())
        self._closing = compile_predicate(node.closing, results, Faults())
        self._items = operators.compile_items(node.items, results)
        self._groups: dict[Values, list[Accumulator]] = {}
        self._before: Epoch | None = None
        self._idle = 0
        self._filled: Epoch | None = None

    def row(self, port: int, row: operators.Row) -> None:
        if self._filter.passes(row.values):
            self.wait(row)

    def next_epoch(self) -> Epoch | None:
        """The earliest epoch with rows, or the epoch after the last one while groups are open and the links go on."""
        earliest = super().next_epoch()
        if not self._groups or self._before is None:
            return earliest
        over = self.ending if self.origin else self.last(self._before) + 1 >= self.life.over
        if earliest is None and over:
            return None
        following = self.after(self._before)
        return following if earliest is None or self.last(following) < self.last(earliest) else earliest

    def work(self, epoch: Epoch, last: int, rows: list[EpochRow]) -> Iterator[operators.Row]:
        """Adds the rows of the epoch and yields its groups.
        Raises LowwaterError: groups stayed open over too many epochs without rows."""
        for order, key, values in rows:
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = self._aggregates.fresh()
            self._aggregates.add(group, self._aggregates.arguments(values), order)
        self._before, self._idle = epoch, 0 if rows else self._idle + 1
        self._filled = epoch if rows else self._filled
        if self._idle > limits.IDLE_EPOCHS:
            raise errors.LowwaterError(
                f"query {self._query}: groups stay open over more than {limits.IDLE_EPOCHS:,} epochs without rows",
                "close them: CLOSING_WHEN count(*) = 0, or `OR count(*) = 0` behind the condition",
            )
        self.counts.update(rows_in=len(rows), groups=len(self._groups))
        self.before_release()
        for key, group in list(self._groups.items()):
            results = (*self.named(epoch, key), *self._aggregates.results(group))
            if self._having(results):
                yield operators.Row(operators.evaluate(self._items, results), last)
            if self._closing(results):
                del self._groups[key]
            else:
                for accumulator in group:
                    accumulator.next_epoch()

    def state_rows(self) -> Iterator[Values]:
        yield from super().state_rows()
        for key, group in self._groups.items():
            yield (*key, *kept_values(group))

    @property
    def held(self) -> int:
        return super().held + len(self._groups)

    def saved_state(self) -> Any:
        """The waiting rows, the last epoch, the number of idle epochs before it, and the groups in order of keys."""
        ordered = sorted(self._groups.items(), key=lambda item: in_order(item[0]))
        groups = [(key, [accumulator.state for accumulator in group]) for key, group in ordered]
        return [super().saved_state(), self._before, self._idle, groups]

    def notes(self) -> Any:
        """The last epoch, the idle ones before it, and the last epoch of this interval that has rows."""
        return self._before, self._idle, self._filled

    def load_state(self, saved: Any) -> None:
        self.waiting, self._before, self._idle, groups = saved
        for key, states in groups:
            group = self._groups[key] = self._aggregates.fresh()
            for accumulator, state in zip(group, states, strict=True):
                accumulator.state = state


# The sampling operator (004; SEMANTICS O1, I4)

States = dict[str, SamplingState]


@dataclass
class Supergroup:
    """The groups of an epoch that share states and superaggregates."""

    supers: list[Accumulator]
    before: tuple[States, int]  # states of the epoch before, and its number of groups
    states: States = field(default_factory=dict)  # name -> state, for the states that were used
    groups: dict[Values, list[Accumulator]] = field(default_factory=dict)  # keys -> accumulators
    counted: int = 0  # number of groups that the states see

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

    def __init__(self, node: ops.Sampling, below: operators.StreamOperator, life: operators.Life) -> None:
        super().__init__(node, life)
        names, keys = operators.names_of(node.input.fields), [key.name for key in node.keys]
        early, late = _at_first_state(node.predicate)
        self._filter = records.Filter(early, names, below)
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
        self._live: list[Epoch] = []
        self._continued: list[tuple[Epoch | None, Epoch]] = []
        self._current: Supergroup | None = None

    def row(self, port: int, row: operators.Row) -> None:
        """Keeps a row until its epoch has ended; conditions without a state are checked at once."""
        if self._filter.passes(row.values):
            self.wait(row)

    def work(self, epoch: Epoch, last: int, rows: list[EpochRow]) -> Iterator[operators.Row]:
        """Yields the groups that remain at the end of the epoch."""
        supergroups: dict[Values, Supergroup] = {}
        for _, key, values in rows:
            which = tuple([key[at] for at in self._shared])
            if which not in supergroups:
                if which in self._handed and (not self._continued or self._continued[-1][1] != epoch):
                    self._continued.append((self._live[-1] if self._live else None, epoch))
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
            self._live.append(epoch)
            self._handed = {
                which: (supergroup.states, len(supergroup.groups)) for which, supergroup in supergroups.items()
            }

    def saved_state(self) -> Any:
        """The waiting rows, and the states of the latest epoch with its number of groups, in order of supergroups."""
        return [super().saved_state(), dict(sorted(self._handed.items(), key=lambda item: in_order(item[0])))]

    def load_state(self, state: Any) -> None:
        self.waiting, self._handed = state

    def notes(self) -> Any:
        """The epochs of this interval with supergroups, and those that continue states, each with the epoch, None for
        one before this interval, that handed the states over.
        """
        return self._live, self._continued

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

    def _end(self, supergroup: Supergroup, epoch: Epoch, last: int) -> Iterator[operators.Row]:
        supergroup.counted = len(supergroup.groups)
        for state in supergroup.states.values():
            state.finish(supergroup.counted)
        for key in list(supergroup.groups):
            results = self._results(supergroup, epoch, key)
            if self._having(results):
                yield operators.Row(operators.evaluate(self._items, results), last)
            else:
                del supergroup.groups[key]

    def _results(self, supergroup: Supergroup, epoch: Epoch, key: Values) -> Values:
        groups = self._aggregates.results(supergroup.groups[key])
        return (*self.named(epoch, key), *groups, *self._supers.results(supergroup.supers))

    def _on_state(self, function: functions.StateFunction, arguments: Values) -> Value:
        assert self._current is not None and function.value is not None, function.name
        state = self._current.state(function.state)
        value: Value = calls.checked_call(function, function.value, function.returns)(
            state, self._current.counted, *arguments
        )
        return value

    def _condition(self, expr: ex.Expr | None, names: list[str]) -> Callable[[Values], bool]:
        """Builds a test of all conjuncts; conjuncts after a false one are not evaluated, which states would notice."""
        parts = [compile_predicate(part, names, Faults(), self._on_state) for part in ex.conjuncts(expr)]
        return lambda values: all(part(values) for part in parts)


def _at_first_state(predicate: ex.Expr | None) -> tuple[ex.Expr | None, ex.Expr | None]:
    """Splits a predicate at the first conjunct with a state."""
    parts = ex.conjuncts(predicate)
    stateful = (at for at, part in enumerate(parts) if any(isinstance(e, ex.StateCall) for e in ex.walk(part)))
    first = next(stateful, len(parts))
    return ex.conjunction(parts[:first]), ex.conjunction(parts[first:])
