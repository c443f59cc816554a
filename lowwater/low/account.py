"""Accounts of a link: every record counted by outcome (SEMANTICS A1).

Beside the operators of `low.run`. The kernel counts into a window of minutes; the counts go to the ledgers.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lowwater.low.code.filters import ACCEPTED, FAILED, FILTERED, NOT_OF_PROTOCOL, OUTCOMES, SAMPLED_OUT, SHED
from lowwater.low.code.kernel import MINUTE
from lowwater.low.code.row_buffers import Int64Array
from lowwater.low.settings import MINUTES, VIOLATIONS

_WINDOW_MINUTES = 256


class Counters:
    """Counts outcomes by minute of the timestamp, for all LFTAs of a link.

    Args:
        nodes: the number of LFTAs.

    Attributes:
        window: the array that the kernel counts into, shape (minutes + 1, outcomes * LFTAs + 1). Its first row is for
            timestamps that the run does not own; its last column counts sane records.
        base: the minute of the second row.
    """

    def __init__(self, nodes: int) -> None:
        self.window: Int64Array = np.zeros((_WINDOW_MINUTES + 1, OUTCOMES * nodes + 1), np.int64)
        self.base = 0
        self._counts: dict[int, Int64Array] = {}

    def move(self, stamp: int) -> None:
        """Moves the window so that its middle is the minute of a timestamp (ns)."""
        self._drain()
        self.base = stamp // MINUTE - _WINDOW_MINUTES // 2

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
        """Returns the counts in the schema MINUTES, by LFTA and minute.

        Args:
            names: the names of the LFTAs, in the order of the kernel.
        """
        self._drain()
        order = sorted(self._counts)
        totals = np.array([self._counts[minute] for minute in order], np.int64).reshape(
            len(order), self.window.shape[1]
        )
        tables = [MINUTES.empty_table()]
        for node, name in enumerate(names):
            counts = totals[:, OUTCOMES * node : OUTCOMES * (node + 1)].reshape(len(order), OUTCOMES)
            outcomes = [counts[:, at] for at in (NOT_OF_PROTOCOL, FILTERED, FAILED, SAMPLED_OUT, SHED, ACCEPTED)]
            columns = [[name] * len(order), order, counts.sum(axis=1), *outcomes]
            arrays = [pa.array(column, f.type) for column, f in zip(columns, MINUTES, strict=True)]
            tables.append(pa.table(arrays, schema=MINUTES))
        return pa.concat_tables(tables)


# Late packets: the records that are later than the skew of their link (SEMANTICS T2). Beside the operators of
# `low.run`, which decides whether a record is late. The rows go to the ledger `skew_violations`.


class Violations:
    """Collects the late records of a pass.

    Args:
        start: start of the owned interval, ns.
        end: end of the owned interval, ns, exclusive.
    """

    def __init__(self, start: int, end: int) -> None:
        self._start = start
        self._end = end
        self._batches: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch, late: Int64Array) -> None:
        """Adds the late records of a batch whose arrival is owned.

        Args:
            batch: records with capture, position, timestamp and arrival.
            late: indexes of the late records.
        """
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
