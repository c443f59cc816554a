"""Steps of the low level's own kernel over packets of pairs of addresses, for G1: seconds, operations, memory.

Between an experiment and `lowwater.low`. A step has seconds of its thread, of which some are the operating system's,
memory that was taken, rows that left, and slots that were visited. Buffers of rows are new ones whenever rows are
written, as in a run, or are kept, so that no step asks the system for memory.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.low import Bounds, Flush, LowSettings, needed_columns
from lowwater.low.run import _LinkPass
from lowwater.low.runtime.node import LftaAggregation
from lowwater.plan.context import Links
from lowwater.plan.operators import Lfta
from lowwater.plan.queryset import plan_texts
from lowwater.plan.temporal import END_OF_TIME

SECOND = 1_000_000_000
START = 1_700_000_040 * SECOND
WINDOW = 60 * SECOND
WINDOWS = 4
STEP = 4096
"""Packets of a step: so few that no buffer is much larger, so many that what Python does between steps is little."""

Q4 = "SELECT tb, srcIP, destIP, count(*) AS packets FROM L.IPV4 GROUP BY time/60 AS tb, srcIP, destIP"


@dataclass
class Steps:
    """What the steps of all windows but the first took.

    Attributes:
        first: number of a window's steps.
        seconds: of the kernel's thread; `system` what of it is the operating system's.
        taken: bytes of new buffers for rows; `table` bytes of the table.
        rows: that left the table.
        slots: that were visited to find groups of closed windows.
        out: rows of the whole pass, of each packet.
    """

    first: int
    seconds: list[float] = field(default_factory=list)
    system: list[float] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    out: float = 0.0
    table: int = 0

    def column(self, name: str) -> NDArray[np.float64]:
        """A column without the first window, which finds an empty table."""
        return np.array(getattr(self, name)[self.first :], np.float64)


def query() -> Lfta:
    """The LFTA of Q4."""
    (lfta,) = plan_texts([("q4.gsql", Q4)], Links(("L",))).lftas
    return lfta


def run(flush: str, groups: int, slots: int, packets: int, keeps: bool) -> Steps:
    """One pass of the kernel.

    Args:
        flush: policy, as in a configuration.
        groups: pairs, of which each packet has one drawn evenly.
        slots: of the table.
        packets: of a window.
        keeps: whether buffers of rows are kept, and touched before.
    """
    lfta = query()
    settings = LowSettings(0, SECOND, chunk_rows=STEP, slots=slots, adjacent=True, flush=Flush.parse(flush))
    bounds = Bounds({lfta.name: 0}, 0, END_OF_TIME)
    link = _LinkPass([lfta], "L", bounds, settings, lambda name, batch: None, {})
    operator = link._nodes[0].operator
    assert isinstance(operator, LftaAggregation)
    if keeps:
        for array in operator.rows.arrays:
            array.fill(0)
        operator.rows.renew = lambda: None  # type: ignore[method-assign]
    found = Steps(-(-packets // STEP))
    result = link.run(_watched(link, operator, _batches(needed_columns([lfta]), groups, packets), found))
    found.out = result.statistics[0].rows_out / (packets * WINDOWS)
    return found


def _watched(
    link: _LinkPass, operator: LftaAggregation, batches: Iterator[pa.RecordBatch], found: Steps
) -> Iterator[pa.RecordBatch]:
    found.table = operator.table.words.nbytes
    surveys, survey = 0, operator.table._survey

    def counted(*arguments: object) -> int:
        nonlocal surveys
        surveys += 1
        return int(survey(*arguments))

    taken, renew = 0, operator.rows.renew

    def renewed() -> None:
        nonlocal taken
        before = operator.rows.arrays
        renew()
        if operator.rows.arrays is not before:
            taken += sum(array.nbytes for array in operator.rows.arrays)

    operator.table._survey = counted
    operator.rows.renew = renewed  # type: ignore[method-assign]
    rows, seen, took = 0, 0, 0
    for batch in batches:
        before, began = resource.getrusage(resource.RUSAGE_THREAD), time.thread_time()
        yield batch
        # The reader is back when it has done the packets.
        found.seconds.append(time.thread_time() - began)
        after = resource.getrusage(resource.RUSAGE_THREAD)
        found.system.append(after.ru_stime - before.ru_stime)
        found.taken.append(taken - took)
        total = link._nodes[0].totals[0]
        found.rows.append(total - rows)
        found.slots.append((surveys - seen) * len(operator.table.words))
        rows, seen, took = total, surveys, taken


def _batches(columns: list[str], groups: int, packets: int) -> Iterator[pa.RecordBatch]:
    pairs = np.random.default_rng(groups).integers(0, groups, packets)
    for window in range(WINDOWS):
        for begin in range(0, packets, STEP):
            part = pairs[begin : begin + STEP]
            count = len(part)
            stamps = START + window * WINDOW + (begin + np.arange(count)) * (WINDOW // packets)
            zeros = np.zeros(count, np.int64)
            known = {
                "capture": pa.DictionaryArray.from_arrays(pa.array(zeros.astype(np.int32)), pa.array(["0" * 64])),
                "position": window * packets + begin + np.arange(count),
                "timestamp": stamps,
                "arrival": stamps,
                "ipversion": np.full(count, 4, np.int32),
                "srcIP_hi": zeros,
                "srcIP_lo": part & 1023,
                "destIP_hi": zeros,
                "destIP_lo": part >> 10,
            }
            yield pa.record_batch([pa.array(known[name]) for name in columns], names=columns)


def least(runs: Sequence[Steps]) -> Steps:
    """The steps of some runs of the same packets, each with the least seconds: another process only lengthens them."""
    one = runs[0]
    found = Steps(one.first, taken=one.taken, rows=one.rows, slots=one.slots, out=one.out, table=one.table)
    for at in range(len(runs[0].seconds)):
        run = min(runs, key=lambda each: each.seconds[at])
        found.seconds.append(run.seconds[at])
        found.system.append(min(run.system[at], run.seconds[at]))
    return found


def costs(runs: Sequence[Steps]) -> tuple[float, float, float]:
    """Nanoseconds of a packet, of a row, of a slot that is visited: least squares over the steps of runs."""
    packets = np.full(sum(len(each.column("rows")) for each in runs), STEP, np.float64)
    rows, slots, seconds = (
        np.concatenate([each.column(name) for each in runs]) for name in ("rows", "slots", "seconds")
    )
    found, *_ = np.linalg.lstsq(np.stack([packets, rows, slots], 1), seconds, rcond=None)
    packet, row, slot = (1e9 * float(each) for each in found)
    return packet, row, slot
