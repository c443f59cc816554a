"""Heartbeats on demand: promises that no query waits for are not stored (003; SEMANTICS T2).

The low level has made the promises of every tick. A query that reads several streams, of links or LFTAs, releases a row
when the least of their promises has passed it. So a promise is stored only at a tick where it releases rows of the
query. A query that reads one stream waits for no other promise. Rows do not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lowwater.catalog.time import ticks_up_to
from lowwater.columns.files import StreamWriter, only_rows
from lowwater.low.runtime.heartbeat import PunctuationRun, punctuation_batch
from lowwater.plan import properties, temporal
from lowwater.plan.operators import Lfta, LftaInput, Node, lftas_of, walk
from lowwater.storage import paths
from lowwater.storage.paths import lake_path, locals_of

Instants = npt.NDArray[np.int64]
NO_TICK = (1 << 63) - 1
StreamName = tuple[str, str]
"""An LFTA and a link."""


@dataclass(frozen=True)
class Promises:
    """The promises of a stream as runs of ticks; within a run the promise rises with the ticks (T4)."""

    first: Instants  # first tick of each run, ns, ascending
    until: Instants  # last tick of each run, ns
    period: Instants  # time between ticks of a run, ns; 0 for a single tick
    promise: Instants  # promise at the first tick, ns; every tick promises more than the ticks before it

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
            first, last = spans.get(run, (tick, tick))
            spans[run] = min(tick, first), max(tick, last)
        return spans


class Demand:
    """The promises that the rows of a query wait for, of every stream that it reads."""

    def __init__(self, plan: Node, promises: Mapping[StreamName, Promises]) -> None:
        self._plan, self.promises = plan, promises
        self._read: dict[str, set[int]] = {name: set() for name, _ in promises}

    def add(self, lfta: str, lasts: Instants) -> None:
        self._read[lfta] = self._greatest_per_tick([*self._read[lfta], *self._greatest_per_tick(lasts)])

    def tick_spans(self, name: StreamName) -> Iterator[tuple[int, int]]:
        """Yields, for a stream, spans of ticks (first, latest) that must contain a promise."""
        lasts = np.array([*self._lasts_waiting], np.int64)
        firsts = self.promises[name].first_ticks_past(lasts)
        return zip(firsts.tolist(), self._release_ticks(lasts).tolist(), strict=True)

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
            lasts_of[id(node)] = self._greatest_per_tick([last for last in results if last < temporal.END_OF_TIME])
        return set().union(*lasts_of.values())

    def _release_ticks(self, lasts: Instants) -> Instants:
        """The tick at which the least promise has passed each `_last`."""
        ticks: Instants = np.maximum.reduce([each.first_ticks_past(lasts) for each in self.promises.values()])
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


StayingTicks = Mapping[int, tuple[int, int]]
"""Number of a stored run of promises -> first and last tick of it that stay."""


def thin(
    stored: Mapping[StreamName, Sequence[tuple[str, str]]], lftas: Sequence[Lfta], plans: Sequence[Node]
) -> dict[StreamName, int]:
    """Rewrites streams, by files with their new places, so that they keep only promises that a plan waits for; returns
    the numbers of those that are removed. The streams of an LFTA keep all if a reader waits for LFTAs that did not run.
    Raises OSError and ArrowException if a stream cannot be read or written."""
    ran = {lfta.name for lfta in lftas}
    read = [{lfta.name for lfta in lftas_of(plan)} for plan in plans]
    unknown = set().union(*(names for names in read if not names <= ran))
    files = {name: locals_of(lake_path(path) for path, _ in each) for name, each in stored.items()}
    promises = {name: _promises(each) for name, each in files.items()}
    known = [plan for plan, names in zip(plans, read, strict=True) if names <= ran]
    demands, spared = [_demand(plan, files, promises) for plan in known], dict[StreamName, int]()
    for name, lfta in ((name, lfta) for lfta in lftas for name in stored if name[0] == lfta.name):
        targets = [lake_path(target) for _, target in stored[name]]
        if name[0] in unknown:
            for (path, _), target in zip(stored[name], targets, strict=True):
                paths.take(lake_path(path), target)
            continue
        spans = [span for demand in demands if name in demand.promises for span in demand.tick_spans(name)]
        staying = promises[name].runs_to_keep(fewest_ticks(spans))
        spared[name] = _thin(lfta, [*zip(files[name], targets, strict=True)], staying, promises[name])
    return spared


def _promises(paths: Sequence[Path]) -> Promises:
    runs: list[tuple[int, int, int, int]] = []
    names = ["_tick", "_until", "_period", "_last"]
    for batch in _batches(paths, False, names):
        runs += zip(*(batch[name].to_pylist() for name in names), strict=True)
    return Promises.of(runs)


def _batches(paths: Sequence[Path], rows: bool, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yields the data rows of streams of this stage, or their promises, which are in row groups of their own."""
    for path in paths:
        with pq.ParquetFile(path) as file:
            groups = [group for group in range(file.num_row_groups) if only_rows(file, group) == rows]
            yield from file.iter_batches(row_groups=groups, columns=columns)


def _demand(plan: Node, files: Mapping[StreamName, Sequence[Path]], promises: Mapping[StreamName, Promises]) -> Demand:
    leaves = {leaf.lfta.name: leaf.lfta for leaf in walk(plan) if isinstance(leaf, LftaInput)}
    read = [(lfta.name, link) for lfta in leaves.values() for link in lfta.links]
    demand = Demand(plan, {name: promises[name] for name in read} if len(read) > 1 else {})
    for name in demand.promises:
        for batch in _batches(files[name], True, ["_last"]):
            demand.add(name[0], batch["_last"].to_numpy())
    return demand


def _thin(lfta: Lfta, files: Sequence[tuple[Path, PurePath]], requested: StayingTicks, promises: Promises) -> int:
    """Rewrites a stream; returns the number of promises removed. The closing one stays (SEMANTICS T6)."""
    total, number = len(promises.first), 0
    staying = {**requested, total - 1: (int(promises.first[-1]), int(promises.until[-1]))}
    for path, target in files:
        number = _thin_file(lfta, path, target, staying, promises, number)
    return total - len(staying)


def _thin_file(lfta: Lfta, path: Path, target: PurePath, staying: StayingTicks, promises: Promises, number: int) -> int:
    """Rewrites a file whose first promise has this number; returns the number after its last promise."""
    sink = StreamWriter(target, properties.stream_schema(lfta.fields))
    for batch in _batches([path], True):
        sink.write(batch)
    after: int = number + sum(batch.num_rows for batch in _batches([path], False, ["_kind"]))
    if kept := [_part(promises, staying[at], at) for at in range(number, after) if at in staying]:
        sink.write(punctuation_batch(lfta, kept, int(promises.period.max())))
    sink.close()
    return after


def _part(promises: Promises, ticks: tuple[int, int], run: int) -> PunctuationRun:
    """The part of a run of promises between two ticks."""
    return PunctuationRun(0, int(promises.promise[run]) + ticks[0] - int(promises.first[run]), *ticks)
