"""Runs all LFTAs of a link in one pass over its packets, and counts every record by its outcome (SEMANTICS A1).

Before the kernels it samples packets and sheds load (SEMANTICS O5). A decision depends on the packet, on the seed and
rate of the query, and on the number of packets of the protocol in its second. It does not depend on chunks, tables or
runs.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.catalog.schemas import RECORD_NUMBER, SAMPLING_RATE, THINNED_BY
from lowwater.errors import LawError
from lowwater.low.code import compiler, expressions, kernel
from lowwater.low.code.row_buffers import Int64Array
from lowwater.low.evaluate import ChunkColumns, arguments, numbers
from lowwater.low.runtime.node import LftaNode, Write
from lowwater.low.runtime.statistics import Meter
from lowwater.low.settings import MINUTES, VIOLATIONS, Bounds, LftaStatistics, LinkResult, LowSettings
from lowwater.plan.operators import Lfta, Sample

SECOND = 1_000_000_000

Rates = npt.NDArray[np.float64]


def chances(key: int, *words: npt.NDArray[np.integer]) -> Rates:
    """Returns a number in [0, 1) for every packet, by mixing its words with SplitMix64.

    A packet is kept if this number is below the sampling rate.

    Args:
        words: timestamps (ns), lengths on the wire, digests of the beginnings of frames; shape (n) each.
    """
    mixed = np.full(len(words[0]), key, np.uint64)
    for word in words:
        mixed ^= word.astype(np.int64).view(np.uint64)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    fractions: Rates = (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return fractions


@dataclass(frozen=True)
class PacketSampling:
    """The sampling and load shedding of one LFTA on one link; picklable.

    Attributes:
        key: the first word of the hash.
        rate: the sampling rate; 1 without sampling.
        seconds: the seconds in which load is shed, ascending.
        shares: the share of the sampled packets that is kept, for each of these seconds.
    """

    key: int
    rate: float = 1.0
    seconds: tuple[int, ...] = ()
    shares: tuple[float, ...] = ()

    @staticmethod
    def of(sample: Sample | None, link: str) -> PacketSampling:
        """Returns sampling without load shedding."""
        seed, rate = (sample.seed, sample.rate) if sample else (0, 1.0)
        digest = hashlib.blake2b(f"{seed}\0{link}".encode(), digest_size=8).digest()
        return PacketSampling(int.from_bytes(digest, "big"), rate)

    def take(self, stamps: Int64Array, lengths: npt.NDArray[np.integer], heads: Int64Array) -> tuple[Rates, Rates]:
        """Returns the number of every packet (`chances`), and the rate with which it is kept.

        A packet is kept if its number is below the rate. Otherwise it was shed if the number is below the sampling
        rate, else sampled out.

        Args:
            stamps: timestamps, ns; shape (n).
            lengths: lengths on the wire, bytes; shape (n).
            heads: digests of the beginnings of frames; shape (n).
        """
        rates = np.full(len(stamps), self.rate)
        if self.seconds:
            seconds, shares = np.array(self.seconds), np.array(self.shares)
            second = stamps // SECOND
            at = np.minimum(np.searchsorted(seconds, second), len(seconds) - 1)
            rates *= np.where(seconds[at] == second, shares[at], 1.0)
        return chances(self.key, stamps, lengths, heads), rates


class LoadCounter:
    """Counts the sampled packets of each second, for the shares of load shedding.

    Args:
        budget: the most packets of a second.
    """

    def __init__(self, thinning: PacketSampling, budget: int) -> None:
        self._thinning = thinning
        self._budget = budget
        self._counts: Counter[int] = Counter()

    def add(self, stamps: Int64Array, lengths: npt.NDArray[np.integer], heads: Int64Array) -> None:
        """Adds admitted packets of the protocol; arguments as of `PacketSampling.take`."""
        sampled = chances(self._thinning.key, stamps, lengths, heads) < self._thinning.rate
        seconds, counts = np.unique(stamps[sampled] // SECOND, return_counts=True)
        self._counts.update(dict(zip(seconds.tolist(), counts.tolist(), strict=True)))

    def also(self, other: LoadCounter) -> LoadCounter:
        """Returns the sum of two counts with the same sampling and budget."""
        total = LoadCounter(self._thinning, self._budget)
        total._counts = self._counts + other._counts
        return total

    def thinning(self) -> PacketSampling:
        """Returns the sampling with the shares of all seconds that are over the budget."""
        over = sorted((second, count) for second, count in self._counts.items() if count > self._budget)
        shares = tuple(self._budget / count for _, count in over)
        return PacketSampling(self._thinning.key, self._thinning.rate, tuple(second for second, _ in over), shares)


# Accounts of a link (SEMANTICS A1). The kernel counts into a window of minutes; the counts go to the ledgers.

_WINDOW_MINUTES = 256


class Counters:
    """Counts outcomes by minute of the timestamp, for all LFTAs of a link.

    Attributes:
        window: the array that the kernel counts into, shape (minutes + 1, outcomes * LFTAs + 1). Its first row is for
            timestamps that the run does not own; its last column counts sane records.
        base: the minute of the second row.
    """

    def __init__(self, nodes: int) -> None:
        self.window: Int64Array = np.zeros((_WINDOW_MINUTES + 1, kernel.OUTCOMES * nodes + 1), np.int64)
        self.base = 0
        self._counts: dict[int, Int64Array] = {}

    def move(self, stamp: int) -> None:
        """Moves the window so that its middle is the minute of a timestamp (ns)."""
        self._drain()
        self.base = stamp // kernel.MINUTE - _WINDOW_MINUTES // 2

    def _drain(self) -> None:
        for row in np.flatnonzero(self.window[1:, -1]).tolist():
            counts, minute = self.window[row + 1], self.base + row
            earlier = self._counts.get(minute)
            self._counts[minute] = counts.copy() if earlier is None else earlier + counts
        self.window[:] = 0

    @property
    def sane(self) -> int:
        """The number of records in order whose timestamp is owned."""
        self._drain()
        return sum(int(counts[-1]) for counts in self._counts.values())

    def table(self, names: list[str]) -> pa.Table:
        """Returns the counts in the schema MINUTES, by LFTA and minute."""
        self._drain()
        order = sorted(self._counts)
        totals = np.array([self._counts[minute] for minute in order], np.int64).reshape(
            len(order), self.window.shape[1]
        )
        tables = [MINUTES.empty_table()]
        for node, name in enumerate(names):
            counts = totals[:, kernel.OUTCOMES * node : kernel.OUTCOMES * (node + 1)].reshape(
                len(order), kernel.OUTCOMES
            )
            outcomes = [
                counts[:, at]
                for at in (
                    kernel.NOT_OF_PROTOCOL,
                    kernel.FILTERED,
                    kernel.FAILED,
                    kernel.SAMPLED_OUT,
                    kernel.SHED,
                    kernel.ACCEPTED,
                )
            ]
            columns = [[name] * len(order), order, counts.sum(axis=1), *outcomes]
            arrays = [pa.array(column, f.type) for column, f in zip(columns, MINUTES, strict=True)]
            tables.append(pa.table(arrays, schema=MINUTES))
        return pa.concat_tables(tables)


# Late packets, for the ledger `skew_violations` (SEMANTICS T2)


class Violations:
    """Collects the late records of a pass."""

    def __init__(self, start: int, end: int) -> None:
        self._start = start
        self._end = end
        self._batches: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch, late: Int64Array) -> None:
        """Adds the late records of a batch whose arrival is owned."""
        rows = batch.select(["capture", "position", "timestamp", "arrival"]).take(pa.array(late))
        arrivals = rows.column("arrival").to_numpy()
        rows = rows.filter(pa.array((arrivals >= self._start) & (arrivals < self._end)))
        names = rows.column("capture").cast(pa.string())
        stamps, arrivals = rows.column("timestamp").to_numpy(), rows.column("arrival").to_numpy()
        columns = [
            names,
            rows.column("position"),
            rows.column("timestamp"),
            pa.array(arrivals),
            pa.array(arrivals - stamps),
        ]
        self._batches.append(pa.record_batch(columns, schema=VIOLATIONS))

    def table(self) -> pa.Table:
        """Returns all late records in the order of the link."""
        return pa.Table.from_batches(self._batches, schema=VIOLATIONS)


# The pass over a link. `replay` calls it in a Spark worker or in process; `write` receives the stream of each LFTA in
# order of emission. The chunk and the group tables bound the memory, besides minutes and late records of the result.

_BLOCK = np.uint64(kernel.BLOCK)


def run_link(
    lftas: Sequence[Lfta],
    link: str,
    batches: Iterable[pa.RecordBatch],
    bounds: Bounds,
    settings: LowSettings,
    write: Write,
    thinnings: Mapping[str, PacketSampling] | None = None,
    records: int | None = None,
) -> LinkResult:
    """Runs LFTAs over the records of one link (000 section 4; SEMANTICS T2, T4, P2, A1).

    Args:
        batches: the records of the link or of a chunk, in canonical order (T1), with the columns of `needed_columns`.
            `arrival` never decreases.
        bounds: read ranges and owned interval, ns; for a chunk also the clock before and after it.
        write: receives the name of an LFTA and the next rows of its stream, in order of `_tick`.
        thinnings: LFTA -> the packets that it keeps, where the link sheds load (O5).
        records: the most records that the pass can have; None for unknown, which counts as many.

    Returns:
        The accounts of the pass; picklable.

    Raises:
        UnsupportedError: an expression cannot run at the low level.
        LowwaterError: a column is missing.
        LawError: arrivals decrease.
    """
    samplings = {lfta.name: PacketSampling.of(lfta.sample, link) for lfta in lftas if lfta.sample or settings.shed}
    return _LinkPass(lftas, link, bounds, settings, write, {**samplings, **(thinnings or {})}, records).run(batches)


def compiles(lftas: Sequence[Lfta], link: str, settings: LowSettings, records: int) -> bool:
    """Whether a pass over this many records would compile the kernel of a link, which takes seconds per LFTA.

    Args:
        records: the most records that the pass can have.

    Raises:
        UnsupportedError: an expression cannot run at the low level.
    """
    functions = kernel.generate(lftas, link, settings).functions
    uncached = compiler.uses_numba(settings.compiled) and not compiler.compiled_before(functions)
    return uncached and compiler.worth_compiling(functions, records, settings.few, ask=True)


def _adapted(program: kernel.Program, settings: LowSettings, records: int) -> LowSettings:
    """Adapts settings to the number of records: a small pass is not compiled, and gets small buffers."""
    compiled = settings.compiled and compiler.worth_compiling(program.functions, records, settings.few)
    return replace(settings, compiled=compiled, chunk_rows=min(settings.chunk_rows, max(1, records)))


class _LinkPass:
    """The pass over one link: the kernel, its nodes, the counters."""

    def __init__(
        self,
        lftas: Sequence[Lfta],
        link: str,
        bounds: Bounds,
        settings: LowSettings,
        write: Write,
        thinnings: Mapping[str, PacketSampling],
        records: int | None = None,
    ) -> None:
        self._link = link
        self._thinnings = [thinnings.get(lfta.name) for lfta in lftas]
        program = kernel.generate(lftas, link, settings)
        if records is not None:
            settings = _adapted(program, settings, records)
        self._settings = settings
        code = compiler.load(program.functions, settings.compiled)
        self._kernel = code["kernel"]
        self._columns = program.columns
        self._draws = np.zeros(program.draws, np.int64)
        self._params = arguments(program.params)
        pairs = enumerate(zip(lftas, program.nodes, strict=True))
        self._nodes = [
            LftaNode(lfta, link, part, number, code, bounds, settings, write) for number, (lfta, part) in pairs
        ]
        drawn = [part.drawn for part in program.nodes]
        self._meter = Meter(self._nodes, drawn, self._draws, link, settings, bounds.start)
        self._counters = Counters(len(lftas))
        self._violations = Violations(bounds.start, bounds.end)
        self._read = bounds.before
        self._late = np.zeros(settings.chunk_rows, np.int64)
        self._state = np.zeros(kernel.PLACES, np.int64)
        lowest = min((node.lowest for node in self._nodes), default=bounds.start)
        fixed = {
            kernel.SKEW: settings.skew,
            kernel.LOWEST: lowest,
            kernel.STOP: bounds.end,
            kernel.START: bounds.start,
            kernel.PERIOD: settings.period,
        }
        # If the clock before the chunk is within the read range, an earlier record was processed.
        clock = {kernel.CLOCK: max(bounds.entered, 0), kernel.SEEN: bounds.entered if bounds.entered >= lowest else -1}
        for place, value in {**fixed, **clock}.items():
            self._state[place] = value

    def run(self, batches: Iterable[pa.RecordBatch]) -> LinkResult:
        """Runs over all records, then closes all LFTAs."""
        for batch in batches:
            for begin in range(0, len(batch), self._settings.chunk_rows):
                self._chunk(batch.slice(begin, self._settings.chunk_rows))
        seen = int(self._state[kernel.SEEN])
        self._meter.pause()
        statistics = tuple(self._close(number, node, seen) for number, node in enumerate(self._nodes))
        self._meter.settle(seen)
        minutes = self._counters.table([node.lfta.name for node in self._nodes])
        late = self._violations.table()
        return LinkResult(self._link, self._counters.sane, len(late), statistics, minutes, late, self._meter.table())

    def _close(self, number: int, node: LftaNode, seen: int) -> LftaStatistics:
        statistics = node.close(seen)
        self._meter.lap(number)
        return statistics

    def _chunk(self, batch: pa.RecordBatch) -> None:
        self._meter.pause()
        columns = ChunkColumns(batch, self._link)
        stamps, arrivals = (numbers(batch, name, self._link) for name in ("timestamp", "arrival"))
        self._thin(columns, stamps)
        if self._settings.skews is not None:
            columns.give(expressions.OWN_SKEW, self._settings.skews.of(batch))
        if RECORD_NUMBER in self._columns:
            columns.give(RECORD_NUMBER, np.arange(self._read, self._read + len(batch)))
        self._read += len(batch)
        column_arguments = [part for name in self._columns for part in columns.pair(name)]
        seen = int(self._state[kernel.SEEN])
        for number, node in enumerate(self._nodes):
            node.begin(columns, stamps, arrivals, seen)
            self._meter.lap(number)
        begin = 0
        while begin < len(batch):
            room = len(batch) - begin
            for number, node in enumerate(self._nodes):
                room = min(room, node.room(len(batch) - begin))
                self._meter.lap(number)
            begin = self._step(batch, begin, begin + room, stamps, arrivals, column_arguments)

    def _thin(self, columns: ChunkColumns, stamps: Int64Array) -> None:
        """Decides for every record whether sampling and load shedding keep it, for each LFTA that needs it."""
        for number, thinning in enumerate(self._thinnings):
            outcome, rate = (f"{name} {expressions.node_name(number)}" for name in (expressions.OUTCOME, SAMPLING_RATE))
            if thinning is not None:
                lengths, heads = (columns.pair(name)[0].astype(np.int64) for name in THINNED_BY)
                chances, rates = thinning.take(stamps, lengths, heads)
                rejection = np.where(chances < thinning.rate, kernel.SHED, kernel.SAMPLED_OUT)
                columns.give(outcome, np.where(chances < rates, 0, rejection).astype(np.uint8))
                columns.give(rate, rates)
            elif rate in self._columns:
                columns.give(rate, np.ones(len(stamps)))

    def _step(
        self,
        batch: pa.RecordBatch,
        begin: int,
        end: int,
        stamps: Int64Array,
        arrivals: Int64Array,
        column_arguments: list[Any],
    ) -> int:
        """Calls the kernel once, and handles the reason for which it stopped.

        Returns:
            The index of the first record that is not processed yet.
        """
        state = self._state
        state[kernel.DUE] = min((self._meter.turn, *(node.beats.due for node in self._nodes)))
        state[kernel.BASE] = self._counters.base
        node_arguments = [part for node in self._nodes for part in node.arguments]
        # Unsigned bounds: numba would otherwise test every index for negative values.
        done = self._kernel(
            np.uint64(begin),
            np.uint64(end),
            _BLOCK,
            arrivals,
            stamps,
            state,
            self._counters.window,
            self._late,
            self._draws,
            *node_arguments,
            *self._params,
            *column_arguments,
        )
        self._meter.lap()
        self._meter.read(int(done) - begin)
        if state[kernel.LATE]:
            self._violations.add(batch, self._late[: state[kernel.LATE]])
        if state[kernel.REASON] == kernel.UNORDERED:
            raise LawError(
                f"records of link '{self._link}' are not in order of arrival", "sort its captures as T1 says"
            )
        if state[kernel.REASON] == kernel.MINUTE_ENDS:
            self._counters.move(int(stamps[done]))
        elif state[kernel.REASON] == kernel.PROMISE:
            clock, seen = int(arrivals[done]), int(state[kernel.SEEN])
            if self._meter.turn <= clock:
                self._meter.settle(clock)
            for number, node in enumerate(self._nodes):
                if node.beats.due <= clock:
                    node.beats.advance(clock, seen, node.operator)
                    self._meter.lap(number, beat=True)
        return int(done)
