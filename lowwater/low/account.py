"""Every record counted by name (SEMANTICS A1), and the violations of a link (T2).

Beside the operators of `low.run`; what it collects goes to the ledgers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.low.kernel import ACCEPTED, FAILED, FILTERED, NOT_OF_PROTOCOL
from lowwater.low.settings import MINUTES, VIOLATIONS

MINUTE = 60_000_000_000

Words = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
_OUTCOMES = ACCEPTED + 1
_DENSE = 4096


class Minutes:
    """Outcomes of one LFTA by minute of timestamp."""

    def __init__(self) -> None:
        self._counts: dict[int, Words] = {}

    def add(self, minutes: Words, outcome: npt.NDArray[np.uint8], owned: Flags) -> None:
        """Counts the owned records of a chunk.

        Args:
            minutes: timestamp // MINUTE of each record.
            outcome: of each, as a kernel gives it.
            owned: which timestamps lie in the owned interval.
        """
        if not owned.all():
            minutes, outcome = minutes[owned], outcome[owned]
        if len(minutes) == 0:
            return
        low, span = int(minutes.min()), int(minutes.max() - minutes.min())
        if span < _DENSE:
            # Dense counting only over a span that a chunk can have filled: a lull may be years.
            counts = np.bincount((minutes - low) * _OUTCOMES + outcome, minlength=(span + 1) * _OUTCOMES)
            table = counts.reshape(-1, _OUTCOMES)
            found = np.flatnonzero(table.any(axis=1))
            self._merge(((found + low).tolist(), table[found]))
        else:
            known, places = np.unique(minutes, return_inverse=True)
            counts = np.bincount(places * _OUTCOMES + outcome, minlength=len(known) * _OUTCOMES)
            self._merge((known.tolist(), counts.reshape(-1, _OUTCOMES)))

    def _merge(self, counted: tuple[list[int], Words]) -> None:
        for minute, counts in zip(*counted, strict=True):
            old = self._counts.get(minute)
            self._counts[minute] = counts if old is None else old + counts

    def table(self, lfta: str) -> pa.Table:
        """The counts as rows of MINUTES, by minute."""
        order = sorted(self._counts)
        counts = np.array([self._counts[minute] for minute in order], np.int64).reshape(-1, _OUTCOMES)
        named = [counts[:, at] for at in (NOT_OF_PROTOCOL, FILTERED, FAILED, ACCEPTED)]
        columns = [[lfta] * len(order), order, counts[:, 1:].sum(axis=1), *named]
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, MINUTES, strict=True)], schema=MINUTES)


class Violations:
    """Records later than the skew, and how many were in order."""

    def __init__(self, start: int, end: int) -> None:
        self._start = start
        self._end = end
        self._found: list[pa.RecordBatch] = []
        self.sane = 0

    def add(self, batch: pa.RecordBatch, late: Flags, owned: Flags, arrivals: Words) -> None:
        """Records the late ones of a batch whose arrival is owned, and counts the sane ones.

        Args:
            batch: with capture, position and timestamp.
            late: which violate; `owned`: which are sane and have an owned timestamp.
            arrivals: ns.
        """
        self.sane += int(np.count_nonzero(owned))
        if not late.any():
            return
        rows = np.flatnonzero(late & (arrivals >= self._start) & (arrivals < self._end))
        taken = batch.select(["capture", "position", "timestamp"]).take(pa.array(rows))
        at = arrivals[rows]
        names = taken.column("capture").cast(pa.string())
        lateness = pa.array(at - taken.column("timestamp").to_numpy(zero_copy_only=False))
        columns = [names, taken.column("position"), taken.column("timestamp"), pa.array(at), lateness]
        self._found.append(pa.record_batch(columns, schema=VIOLATIONS))

    def table(self) -> pa.Table:
        """All of them in the order of the link."""
        return pa.Table.from_batches(self._found, schema=VIOLATIONS)
