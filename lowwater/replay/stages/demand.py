"""Heartbeats on demand: which promises of the low stage somebody waits for (003; SEMANTICS T2).

Between `low`, which has made the promises of every tick, and `high`. A query that reads several streams, of links or of
LFTAs, lets a row go when the least of their promises has passed it: a promise is written at a tick only where it lets
rows of the query go at that tick. Of a query that reads a single stream no row waits for another one's promise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from lowwater.plan.operators import LftaInput, Node
from lowwater.plan.temporal import END_OF_TIME
from lowwater.plan.tree import walk

Instants = npt.NDArray[np.int64]
NO_TICK = (1 << 63) - 1
StreamName = tuple[str, str]
"""An LFTA and a link."""
LastFunction = Callable[[int], int]
"""The `_last` of what an operator makes of a row, from that of the row; it never decreases."""


@dataclass(frozen=True)
class Promises:
    """The promises of a stream: runs of ticks, in each of which the promise grows as the ticks do (T4).

    Attributes:
        first: tick of each run, rising; `until` its last one.
        period: between ticks; 0 for a single one.
        promise: at the first tick; every tick promises more than those before it.
    """

    first: Instants
    until: Instants
    period: Instants
    promise: Instants

    @staticmethod
    def of(runs: Iterable[tuple[int, int, int, int]]) -> Promises:
        """The promises of some runs: first tick, last tick, period, promise."""
        columns = np.array([*runs], np.int64).reshape(-1, 4).T
        return Promises(*(np.ascontiguousarray(column) for column in columns))

    def first_ticks_past(self, instants: Instants) -> Instants:
        """The first tick that promises more than each instant; NEVER where none does."""
        most = self.promise + self.until - self.first
        at = np.searchsorted(most, instants, side="right")
        run = np.minimum(at, len(most) - 1)
        period = np.maximum(self.period[run], 1)
        ahead = np.maximum(instants + 1 - self.promise[run], 0)
        tick = self.first[run] + -(-ahead // period) * period
        return np.where(at < len(most), tick, NO_TICK) if len(most) else np.full(len(instants), NO_TICK, np.int64)

    def latest(self, tick: int) -> tuple[int, int]:
        """The run that has the last tick up to one, and that tick."""
        run = int(np.searchsorted(self.first, tick, side="right")) - 1
        period = max(int(self.period[run]), 1)
        upto = min(tick, int(self.until[run]))
        return run, int(self.first[run]) + (upto - int(self.first[run])) // period * period

    def runs_to_keep(self, ticks: Sequence[int]) -> dict[int, tuple[int, int]]:
        """The runs that hold the last tick up to each of some ticks -> the first and the last tick of them to keep."""
        spans: dict[int, tuple[int, int]] = {}
        for run, tick in map(self.latest, ticks):
            spans[run] = (min(tick, spans.get(run, (tick, tick))[0]), max(tick, spans.get(run, (tick, tick))[1]))
        return spans


class Demand:
    """What the rows of a query wait for.

    Args:
        plan: high plan of the query.
        promises: the promises of every stream that it reads.
    """

    def __init__(self, plan: Node, promises: Mapping[StreamName, Promises]) -> None:
        self._plan, self._promises = plan, promises
        self._read: dict[str, set[int]] = {name: set() for name, _ in promises}

    def add(self, lfta: str, lasts: Instants) -> None:
        """Takes the `_last` of rows of an LFTA."""
        self._read[lfta] = self._greatest_per_tick([*self._read[lfta], *self._greatest_per_tick(lasts)])

    def tick_spans(self, name: StreamName) -> Iterator[tuple[int, int]]:
        """Of a stream, between which ticks it must promise something: the first that would do, and the latest."""
        lasts = np.array([*self._lasts_waiting], np.int64)
        return zip(
            self._promises[name].first_ticks_past(lasts).tolist(), self._release_ticks(lasts).tolist(), strict=True
        )

    @property
    def streams(self) -> list[StreamName]:
        """What the query reads."""
        return [*self._promises]

    @cached_property
    def _lasts_waiting(self) -> set[int]:
        """The `_last` of rows, and of what operators make of them, that ask for a promise."""
        lasts_of: dict[int, set[int]] = {}
        for node in walk(self._plan):
            if isinstance(node, LftaInput):
                lasts_of[id(node)] = self._read[node.lfta.name]
                continue
            ends = [(node.final(port), lasts_of[id(below)]) for port, below in enumerate(node.inputs())]
            results = {end(last) if end else last for end, lasts in ends for last in lasts}
            lasts_of[id(node)] = self._greatest_per_tick([last for last in results if last < END_OF_TIME])
        return set().union(*lasts_of.values())

    def _release_ticks(self, lasts: Instants) -> Instants:
        """The tick at which the least promise has passed each row."""
        ticks: Instants = np.maximum.reduce(
            [stream_promises.first_ticks_past(lasts) for stream_promises in self._promises.values()]
        )
        return ticks

    def _greatest_per_tick(self, lasts: Sequence[int] | Instants) -> set[int]:
        """Of those that go at one tick the greatest, which asks for all."""
        values = np.sort(np.array(lasts, np.int64))
        ticks = self._release_ticks(values)
        edges = np.append(ticks[1:] != ticks[:-1], True)[: len(ticks)] & (ticks < NO_TICK)
        return set(values[edges].tolist())


def fewest_ticks(spans: Iterable[tuple[int, int]]) -> list[int]:
    """The fewest ticks of which one lies in every span, each as late as it may be; rising.

    Example:
        >>> fewest_ticks([(1, 4), (3, 9), (5, 7), (6, 6)])
        [4, 6]
    """
    ticks: list[int] = []
    for first, latest in sorted(spans, key=lambda span: span[1]):
        if not ticks or first > ticks[-1]:
            ticks.append(latest)
    return ticks
