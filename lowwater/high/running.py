"""CLOSING_WHEN on Spark: groups that live on from epoch to epoch, in one blob (SEMANTICS O4).

One operator of the lowering (`lower`). All groups are in one bucket, since idle epochs are counted over all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lowwater.catalog.expr import Expr, Type
from lowwater.catalog.states import read_state, write_state
from lowwater.errors import LowwaterError
from lowwater.high.accumulate import Accumulators
from lowwater.high.buckets import bucketed
from lowwater.high.carry import Carry, leave_state, state_file
from lowwater.high.clock import ET, LAST, EventClock
from lowwater.high.columns import event_time, is_row
from lowwater.high.python_group import (
    AT_KEYS,
    AT_LAST,
    canonical,
    hashable,
    kept_row,
    machine_rows,
    results,
    shown,
)
from lowwater.high.temporal import long
from lowwater.plan.nodes import Running
from lowwater.plan.temporal import END_OF_TIME, Temporal
from lowwater.reference.values import Faults, compile_predicate

if TYPE_CHECKING:
    from lowwater.high.frames import Counts

MOST_IDLE = 1_000
"""Epochs without rows over which groups may stay open."""

Epoch = tuple[Any, ...]


def lower_running(node: Running, frame: DataFrame, clock: EventClock, counts: Counts, carry: Carry) -> DataFrame:
    """Every group at the end of every epoch, until it is closed: keys, values, `_last`, event time, `_rows`."""
    if carry.start > 0:
        # What is before the interval is in the state that was handed over.
        late = F.when(is_row(F.col(ET)), F.col(LAST) >= long(carry.start)).otherwise(F.lit(False))
        frame = frame.filter(late)
    machine = RunningMachine(
        node.query,
        Accumulators(node.query, node.aggregates),
        tuple(item.expr.type for item in node.keys),
        tuple(f.temporal if f.temporal and not f.temporal.origin else None for f in node.key_fields),
        (*(item.name for item in node.keys), *(a.name for a in node.aggregates)),
        node.closing,
        carry.end,
        carry.latest,
        state_file(carry.held, node.query) if carry.held else None,
        state_file(carry.kept, node.query) if carry.kept else None,
    )
    rows = machine_rows(node, frame, one_bucket=True)
    # Where nothing is handed over, a query without rows has nothing to do.
    found = bucketed(node, rows, machine, results(node), clock, counts, wake=bool(carry.held or carry.kept))
    return found.withColumn(ET, event_time(clock, F.col(LAST)))


@dataclass
class Chain:
    """State of the operator.

    Attributes:
        waiting: rows by epoch, until it has ended.
        groups: states by the keys that are no time.
        before: the epoch that was judged last.
        idle: how many epochs before that had no rows.
    """

    waiting: dict[Epoch, list[tuple[Any, ...]]] = field(default_factory=dict)
    groups: dict[tuple[Any, ...], list[Any]] = field(default_factory=dict)
    before: Epoch | None = None
    idle: int = 0


@dataclass(frozen=True)
class RunningMachine:
    """The epochs of a query, one after another.

    Attributes:
        query: for messages.
        accumulators: of the aggregates.
        kinds: types of the keys.
        times: temporal property of each key; None for one that is no time.
        names: of keys and aggregates, which `closing` reads.
        closing: whether a group is dropped.
        end: of the interval, ns.
        latest: idle epochs after the one that holds it are not judged; None for no bound but the end.
        held: file of the state to begin with; `kept` of the state to leave.
    """

    query: str
    accumulators: Accumulators
    kinds: tuple[Type, ...]
    times: tuple[Temporal | None, ...]
    names: tuple[str, ...]
    closing: Expr
    end: int
    latest: int | None
    held: Path | None
    kept: Path | None

    def begin(self) -> Chain:
        """The state that the interval before left, or none."""
        if self.held is None:
            return Chain()
        return Chain(*read_state(self.held.read_text(encoding="utf-8")))

    def take(self, state: Any, rows: Iterable[tuple[Any, ...]]) -> None:
        """Keeps rows until their epoch has ended."""
        for row in rows:
            epoch = tuple([row[AT_KEYS + at] for at, time in enumerate(self.times) if time])
            state.waiting.setdefault(epoch, []).append(kept_row(row))

    def advance(self, state: Any, promise: int) -> Iterator[tuple[Any, ...]]:
        """The groups of the epochs that the promise ends; with the last promise, the state is left behind."""
        until = min(promise, self.end)
        while (epoch := self._next(state)) is not None and self._last(epoch) < until:
            yield from self._judge(state, epoch)
        if promise >= END_OF_TIME and self.kept is not None:
            self._leave(state, self.kept)

    def _next(self, state: Chain) -> Epoch | None:
        """The epoch to be judged next: while groups are open the one after the last, else the first with rows."""
        known = min(state.waiting, key=self._last, default=None)
        if not state.groups or state.before is None:
            return known
        following = self._after(state.before)
        if known is not None:
            return following if self._last(following) < self._last(known) else known
        return following if self.latest is None or self._last(following) <= self._over(self.latest) else None

    def _judge(self, state: Chain, epoch: Epoch) -> Iterator[tuple[Any, ...]]:
        rows = sorted(state.waiting.pop(epoch, ()), key=canonical)
        counts = self._add(state, rows)
        state.before, state.idle = epoch, 0 if rows else state.idle + 1
        if state.idle > MOST_IDLE:
            raise LowwaterError(
                f"query {self.query}: groups stay open over more than {MOST_IDLE:,} epochs without rows",
                "close them: CLOSING_WHEN count(*) = 0, or `OR count(*) = 0` behind the condition",
            )
        last = self._last(epoch)
        for key, states in list(state.groups.items()):
            found = (*self._named(epoch, key), *self.accumulators.results(states))
            yield (*found, last, counts.get(key, 0))
            if self._closes(found):
                del state.groups[key]
            else:
                state.groups[key] = self.accumulators.after(states)

    def _add(self, state: Chain, rows: Sequence[tuple[Any, ...]]) -> dict[tuple[Any, ...], int]:
        first = AT_KEYS + len(self.kinds)
        counts: dict[tuple[Any, ...], int] = {}
        for row in rows:
            key = hashable([row[AT_KEYS + at] for at, time in enumerate(self.times) if not time], self._others)
            if key not in state.groups:
                state.groups[key] = self.accumulators.begin()
            counts[key] = counts.get(key, 0) + 1
            self.accumulators.add(state.groups[key], row[first:])
        return counts

    def _leave(self, state: Chain, file: Path) -> None:
        """Writes the state as it is at the end of the interval, whole or not at all."""
        mine = {e: [row for row in rows if row[AT_LAST] < self.end] for e, rows in state.waiting.items()}
        left = replace(state, waiting={epoch: rows for epoch, rows in mine.items() if rows})
        leave_state(file, write_state([getattr(left, part.name) for part in fields(left)]))

    def _named(self, epoch: Epoch, key: tuple[Any, ...]) -> tuple[Any, ...]:
        times, others = iter(epoch), iter(shown(key, self._others))
        return tuple([next(times) if time else next(others) for time in self.times])

    def _last(self, epoch: Epoch) -> int:
        """The last instant (ns) of an epoch."""
        ends = [time.last(v) for time, v in zip(self._timed, epoch, strict=True) if v is not None]
        return min(ends, default=END_OF_TIME - 1)

    def _after(self, epoch: Epoch) -> Epoch:
        instant = self._last(epoch) + 1
        return tuple([time.promise(instant) for time in self._timed])

    def _over(self, latest: int) -> int:
        """The end of the epoch that holds an instant."""
        return min(time.last(time.latest(latest)) for time in self._timed)

    @cached_property
    def _timed(self) -> list[Temporal]:
        return [time for time in self.times if time]

    @cached_property
    def _others(self) -> tuple[Type, ...]:
        return tuple(kind for kind, time in zip(self.kinds, self.times, strict=True) if not time)

    @cached_property
    def _closes(self) -> Callable[[tuple[Any, ...]], bool]:
        return compile_predicate(self.closing, self.names, Faults())
