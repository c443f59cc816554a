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
NEVER = (1 << 63) - 1
Name = tuple[str, str]
"""An LFTA and a link."""
End = Callable[[int], int]
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

    def passed(self, instants: Instants) -> Instants:
        """The first tick that promises more than each instant; NEVER where none does."""
        most = self.promise + self.until - self.first
        at = np.searchsorted(most, instants, side="right")
        known = np.minimum(at, len(most) - 1)
        period = np.maximum(self.period[known], 1)
        ahead = np.maximum(instants + 1 - self.promise[known], 0)
        tick = self.first[known] + -(-ahead // period) * period
        return np.where(at < len(most), tick, NEVER) if len(most) else np.full(len(instants), NEVER, np.int64)

    def latest(self, tick: int) -> tuple[int, int]:
        """The run that has the last tick up to one, and that tick."""
        run = int(np.searchsorted(self.first, tick, side="right")) - 1
        period = max(int(self.period[run]), 1)
        upto = min(tick, int(self.until[run]))
        return run, int(self.first[run]) + (upto - int(self.first[run])) // period * period

    def kept(self, ticks: Sequence[int]) -> dict[int, tuple[int, int]]:
        """The runs that hold the last tick up to each of some ticks -> the first and the last tick of them to keep."""
        found: dict[int, tuple[int, int]] = {}
        for run, tick in map(self.latest, ticks):
            found[run] = (min(tick, found.get(run, (tick, tick))[0]), max(tick, found.get(run, (tick, tick))[1]))
        return found


class Demand:
    """What the rows of a query wait for.

    Args:
        plan: high plan of the query.
        promises: the promises of every stream that it reads.
    """

    def __init__(self, plan: Node, promises: Mapping[Name, Promises]) -> None:
        self._plan, self._promises = plan, promises
        self._read: dict[str, set[int]] = {name: set() for name, _ in promises}

    def add(self, lfta: str, lasts: Instants) -> None:
        """Takes the `_last` of rows of an LFTA."""
        self._read[lfta] = self._greatest([*self._read[lfta], *self._greatest(lasts)])

    def asked(self, name: Name) -> Iterator[tuple[int, int]]:
        """Of a stream, between which ticks it must promise something: the first that would do, and the latest."""
        lasts = np.array([*self._wanted], np.int64)
        return zip(self._promises[name].passed(lasts).tolist(), self._gone(lasts).tolist(), strict=True)

    @property
    def streams(self) -> list[Name]:
        """What the query reads."""
        return [*self._promises]

    @cached_property
    def _wanted(self) -> set[int]:
        """The `_last` of rows, and of what operators make of them, that ask for a promise."""
        made: dict[int, set[int]] = {}
        for node in walk(self._plan):
            if isinstance(node, LftaInput):
                made[id(node)] = self._read[node.lfta.name]
                continue
            ends = [(node.final(port), made[id(below)]) for port, below in enumerate(node.inputs())]
            found = {end(last) if end else last for end, lasts in ends for last in lasts}
            made[id(node)] = self._greatest([last for last in found if last < END_OF_TIME])
        return set().union(*made.values())

    def _gone(self, lasts: Instants) -> Instants:
        """The tick at which the least promise has passed each row."""
        ticks: Instants = np.maximum.reduce([each.passed(lasts) for each in self._promises.values()])
        return ticks

    def _greatest(self, lasts: Sequence[int] | Instants) -> set[int]:
        """Of those that go at one tick the greatest, which asks for all."""
        values = np.sort(np.array(lasts, np.int64))
        ticks = self._gone(values)
        edges = np.append(ticks[1:] != ticks[:-1], True)[: len(ticks)] & (ticks < NEVER)
        return set(values[edges].tolist())


def chosen(asked: Iterable[tuple[int, int]]) -> list[int]:
    """The fewest ticks of which one lies in every span, each as late as it may be; rising.

    Example:
        >>> chosen([(1, 4), (3, 9), (5, 7), (6, 6)])
        [4, 6]
    """
    found: list[int] = []
    for first, latest in sorted(asked, key=lambda span: span[1]):
        if not found or first > found[-1]:
            found.append(latest)
    return found
