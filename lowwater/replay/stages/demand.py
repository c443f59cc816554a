"""Heartbeats on demand: finds the promises of the low stage that queries wait for (003; SEMANTICS T2).

`low` has made the promises of every tick. A query that reads several streams, of links or LFTAs, releases a row when
the least of their promises has passed it. So a promise is stored only at a tick where it releases rows of the query. A
query that reads one stream waits for no other promise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from lowwater.catalog.time import ticks_up_to
from lowwater.plan.operators import LftaInput, Node
from lowwater.plan.temporal import END_OF_TIME
from lowwater.plan.tree import walk

Instants = npt.NDArray[np.int64]
NO_TICK = (1 << 63) - 1
StreamName = tuple[str, str]
"""An LFTA and a link."""
LastFunction = Callable[[int], int]
"""Maps the `_last` of a row to the `_last` of the result that an operator makes of it; never decreases."""


@dataclass(frozen=True)
class Promises:
    """The promises of a stream as runs of ticks; within a run the promise rises with the ticks (T4).

    Attributes:
        first: first tick of each run, ns, ascending.
        until: last tick of each run, ns.
        period: time between ticks of a run, ns; 0 for a single tick.
        promise: promise at the first tick, ns; every tick promises more than the ticks before it.
    """

    first: Instants
    until: Instants
    period: Instants
    promise: Instants

    @staticmethod
    def of(runs: Iterable[tuple[int, int, int, int]]) -> Promises:
        """Builds promises from runs: first tick, last tick, period, promise."""
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
        """The last tick up to a given one, with the number of its run."""
        run = int(np.searchsorted(self.first, tick, side="right")) - 1
        ticks = ticks_up_to(np.array([tick]), self.first[run], self.until[run], self.period[run])
        return run, int(ticks[0])

    def runs_to_keep(self, ticks: Sequence[int]) -> dict[int, tuple[int, int]]:
        """Run -> first and last tick to keep, so that the last tick up to each given tick stays."""
        spans: dict[int, tuple[int, int]] = {}
        for run, tick in map(self.latest, ticks):
            spans[run] = (min(tick, spans.get(run, (tick, tick))[0]), max(tick, spans.get(run, (tick, tick))[1]))
        return spans


class Demand:
    """The promises that the rows of a query wait for.

    Args:
        plan: high plan of the query.
        promises: stream -> its promises, for every stream that the query reads.
    """

    def __init__(self, plan: Node, promises: Mapping[StreamName, Promises]) -> None:
        self._plan, self._promises = plan, promises
        self._read: dict[str, set[int]] = {name: set() for name, _ in promises}

    def add(self, lfta: str, lasts: Instants) -> None:
        """Adds the `_last` of rows of an LFTA."""
        self._read[lfta] = self._greatest_per_tick([*self._read[lfta], *self._greatest_per_tick(lasts)])

    def tick_spans(self, name: StreamName) -> Iterator[tuple[int, int]]:
        """Yields, for a stream, spans of ticks (first, latest) that must contain a promise."""
        lasts = np.array([*self._lasts_waiting], np.int64)
        return zip(
            self._promises[name].first_ticks_past(lasts).tolist(), self._release_ticks(lasts).tolist(), strict=True
        )

    @property
    def streams(self) -> list[StreamName]:
        """The streams that the query reads."""
        return [*self._promises]

    @cached_property
    def _lasts_waiting(self) -> set[int]:
        """The `_last` of rows, and of results that operators make of them, that wait for a promise."""
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
        """The tick at which the least promise has passed each `_last`."""
        ticks: Instants = np.maximum.reduce(
            [stream_promises.first_ticks_past(lasts) for stream_promises in self._promises.values()]
        )
        return ticks

    def _greatest_per_tick(self, lasts: Sequence[int] | Instants) -> set[int]:
        """The greatest `_last` released at each tick; its promise releases the others too."""
        values = np.sort(np.array(lasts, np.int64))
        ticks = self._release_ticks(values)
        edges = np.append(ticks[1:] != ticks[:-1], True)[: len(ticks)] & (ticks < NO_TICK)
        return set(values[edges].tolist())


def fewest_ticks(spans: Iterable[tuple[int, int]]) -> list[int]:
    """The smallest set of ticks with one in every span, each as late as possible; ascending.

    Example:
        >>> fewest_ticks([(1, 4), (3, 9), (5, 7), (6, 6)])
        [4, 6]
    """
    ticks: list[int] = []
    for first, latest in sorted(spans, key=lambda span: span[1]):
        if not ticks or first > ticks[-1]:
            ticks.append(latest)
    return ticks
