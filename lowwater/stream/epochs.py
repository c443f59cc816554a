"""Base of the operators that work epoch by epoch: rows wait for the promise that ends their epoch.

`running_groups` and `sampling_operator` build on it. They process the rows of an epoch in canonical order (SEMANTICS
O1, O4).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from typing import Any

from lowwater.plan.operators import Aggregation
from lowwater.plan.temporal import END_OF_TIME
from lowwater.stream.aggregates import compile_keys
from lowwater.stream.operators import MOST, Life, Promise, Row, StreamOperator, evaluate, names_of
from lowwater.stream.values import Values

Epoch = tuple[Any, ...]
EpochRow = tuple[tuple[Any, ...], Values, Values]
"""A waiting row: canonical order, keys that are not temporal, values."""


class EpochOperator(StreamOperator, ABC):
    """Base class: keeps the rows of each epoch; a subclass processes an epoch when it has ended.

    The epoch of a row is the values of its temporal keys: the keys of the clock, otherwise of one other attribute.

    Attributes:
        origin: name of the attribute; empty for the clock.
        timed: for each key, whether it belongs to the epoch.
        waiting: epoch -> its rows.
        ending: whether the links have ended; for an attribute other than the clock.
        counts: rows, and groups before HAVING, of the epochs that have ended; filled by operators that count.
    """

    def __init__(self, node: Aggregation, life: Life) -> None:
        super().__init__()
        self.life = life
        names = names_of(node.input.fields)
        times = [f.temporal for f in node.key_fields if f.temporal]
        self.origin = "" if any(not time.origin for time in times) else times[0].origin
        self.timed = [bool(f.temporal and f.temporal.origin == self.origin) for f in node.key_fields]
        self._times = [f.temporal for f, timed in zip(node.key_fields, self.timed, strict=True) if timed and f.temporal]
        self._keys = compile_keys(node.keys, names)
        self.waiting: dict[Epoch, list[EpochRow]] = {}
        self.ending = False
        self.counts: Counter[str] = Counter()

    def wait(self, row: Row) -> None:
        """Keeps a row until its epoch has ended."""
        values = evaluate(self._keys, row.values)
        epoch = tuple([v for v, timed in zip(values, self.timed, strict=True) if timed])
        key = tuple([v for v, timed in zip(values, self.timed, strict=True) if not timed])
        self.waiting.setdefault(epoch, []).append((row.order, key, row.values))

    def release(self, port: int, promise: Promise) -> None:
        """Processes the epochs that a promise ends, in order."""
        if promise.origin != self.origin:
            return
        self.ending = promise.instant == MOST
        while (epoch := self.next_epoch()) is not None and self.last(epoch) < promise.instant:
            last = promise.at if self.origin else self.last(epoch) + self.life.late
            rows = sorted(self.waiting.pop(epoch, ()), key=lambda waiting: waiting[0])
            for row in self.work(epoch, last, rows):
                self.emit(row)

    def next_epoch(self) -> Epoch | None:
        """The next epoch to process; None without any."""
        return min(self.waiting, key=self.last, default=None)

    @abstractmethod
    def work(self, epoch: Epoch, last: int, rows: list[EpochRow]) -> Iterator[Row]:
        """Yields the output rows of an epoch; its rows come in canonical order, `last` is the `_last` (ns) of the
        output."""

    def due(self) -> Iterator[tuple[int, int]]:
        """The promise that ends the oldest epoch."""
        epoch = self.next_epoch()
        return iter([(0, self.last(epoch) + 1)] if epoch is not None and not self.origin else [])

    def last(self, epoch: Epoch) -> int:
        """The last value of the attribute that may still change an epoch; for the clock its last instant, ns."""
        instants = [time.last(v) for time, v in zip(self._times, epoch, strict=True) if v is not None]
        return min(instants, default=END_OF_TIME - 1)

    def after(self, epoch: Epoch) -> Epoch:
        """The epoch after this one."""
        return tuple([time.promise(self.last(epoch) + 1) for time in self._times])

    def named(self, epoch: Epoch, key: Values) -> Values:
        """The keys of a group in the order of the query."""
        times, others = iter(epoch), iter(key)
        return tuple([next(times) if timed else next(others) for timed in self.timed])

    def state_rows(self) -> Iterator[Values]:
        """The waiting rows."""
        return (values for rows in self.waiting.values() for _, _, values in rows)

    def saved_state(self) -> Any:
        """The waiting rows, by epoch."""
        return self.waiting

    def load_state(self, state: Any) -> None:
        """Restores waiting rows."""
        self.waiting = state
