"""Every record counted by name (SEMANTICS A1), and the violations of a link (T2).

Beside the operators of `low.run`; the kernel counts into a window of minutes, and what is counted goes to the ledgers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.low.code.filters import ACCEPTED, FAILED, FILTERED, NOT_OF_PROTOCOL, OUTCOMES, SAMPLED_OUT, SHED
from lowwater.low.code.kernel import MINUTE
from lowwater.low.settings import MINUTES, VIOLATIONS

Words = npt.NDArray[np.int64]
_WINDOW = 256


class Counters:
    """Outcomes by minute of timestamp, of all LFTAs of a link.

    Args:
        nodes: how many LFTAs.

    Attributes:
        window: what the kernel counts into: [minute of the window, outcome]; its first row is nobody's, its last column
            are the sane records.
        base: the minute of the second row.
    """

    def __init__(self, nodes: int) -> None:
        self.window: Words = np.zeros((_WINDOW + 1, OUTCOMES * nodes + 1), np.int64)
        self.base = 0
        self._counts: dict[int, Words] = {}

    def move(self, stamp: int) -> None:
        """Moves the window so that a timestamp, and those about it, are in it."""
        self._drain()
        self.base = stamp // MINUTE - _WINDOW // 2

    def _drain(self) -> None:
        for row in np.flatnonzero(self.window[1:, -1]).tolist():
            counts, minute = self.window[row + 1], self.base + row
            old = self._counts.get(minute)
            self._counts[minute] = counts.copy() if old is None else old + counts
        self.window[:] = 0

    @property
    def sane(self) -> int:
        """Records in order whose timestamp is owned."""
        self._drain()
        return sum(int(counts[-1]) for counts in self._counts.values())

    def table(self, names: list[str]) -> pa.Table:
        """The counts as rows of MINUTES, by LFTA and minute."""
        self._drain()
        order = sorted(self._counts)
        whole = np.array([self._counts[minute] for minute in order], np.int64).reshape(len(order), self.window.shape[1])
        tables = [MINUTES.empty_table()]
        for node, name in enumerate(names):
            counts = whole[:, OUTCOMES * node : OUTCOMES * (node + 1)].reshape(len(order), OUTCOMES)
            named = [counts[:, at] for at in (NOT_OF_PROTOCOL, FILTERED, FAILED, SAMPLED_OUT, SHED, ACCEPTED)]
            columns = [[name] * len(order), order, counts.sum(axis=1), *named]
            arrays = [pa.array(column, f.type) for column, f in zip(columns, MINUTES, strict=True)]
            tables.append(pa.table(arrays, schema=MINUTES))
        return pa.concat_tables(tables)


class Violations:
    """Records later than the skew."""

    def __init__(self, start: int, end: int) -> None:
        self._start = start
        self._end = end
        self._found: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch, late: Words) -> None:
        """Records the late ones of a batch whose arrival is owned.

        Args:
            batch: with capture, position, timestamp and arrival.
            late: places of those that violate.
        """
        taken = batch.select(["capture", "position", "timestamp", "arrival"]).take(pa.array(late))
        at = taken.column("arrival").to_numpy()
        taken = taken.filter(pa.array((at >= self._start) & (at < self._end)))
        names = taken.column("capture").cast(pa.string())
        stamps, at = taken.column("timestamp").to_numpy(), taken.column("arrival").to_numpy()
        columns = [names, taken.column("position"), taken.column("timestamp"), pa.array(at), pa.array(at - stamps)]
        self._found.append(pa.record_batch(columns, schema=VIOLATIONS))

    def table(self) -> pa.Table:
        """All of them in the order of the link."""
        return pa.Table.from_batches(self._found, schema=VIOLATIONS)
