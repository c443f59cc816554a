"""Late packets: the records that are later than the skew of their link (SEMANTICS T2).

Beside the operators of `low.run`, which decides whether a record is late. The rows go to the ledger `skew_violations`.
"""

from __future__ import annotations

import pyarrow as pa

from lowwater.low.arrays import Int64Array
from lowwater.low.settings import VIOLATIONS


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
