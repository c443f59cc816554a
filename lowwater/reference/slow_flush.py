"""Slow flush, for experiments: an aggregation emits its finished groups a few at a time.

Gigascope spreads the results of an epoch over the rows after it, so that readers get no burst (000, section 3.1; 002,
section 6). The operator stands above the aggregation. Rows are the same, but come later and are stored longer.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import count
from typing import Any

from lowwater.stream.operators import Promise, Row, StreamOperator
from lowwater.stream.values import Values

RESULTS = 0
"""Port of the results of the aggregation; the other port gets the input of the aggregation, which sets the pace."""


class SlowFlushOperator(StreamOperator):
    """Emits a number of results for each row that the aggregation reads, and the rest when the next epoch ends.

    Its promises stay below the results it still holds.

    Args:
        most: number of results emitted for a row.
        end: end of the interval, ns, exclusive.
    """

    def __init__(self, most: int, end: int) -> None:
        super().__init__()
        self._most, self._end, self._promised = most, end, 0
        self._waiting: list[tuple[int, int, Row]] = []
        self._number = count()

    def row(self, port: int, row: Row) -> None:
        """Stores a result, or emits some for a row that the aggregation reads."""
        if port == RESULTS:
            if self._waiting and self._waiting[0][0] < row.last:
                self.before_release()
            while self._waiting and self._waiting[0][0] < row.last:
                self.emit(heapq.heappop(self._waiting)[2])
            heapq.heappush(self._waiting, (row.last, next(self._number), row))
        elif self._waiting:
            self.before_release()
            self._emit_results(self._most)

    def promise(self, port: int, promise: Promise) -> None:
        """Takes a promise of the aggregation; stored results hold it back."""
        if port == RESULTS and not promise.origin and not promise.of:
            self.before_release()
            self._promised = promise.instant
            self._emit_results(len(self._waiting) if promise.instant >= self._end else 0)

    def state_rows(self) -> Iterator[Values]:
        """The stored results."""
        return (row.values for _, _, row in self._waiting)

    def saved_state(self) -> Any:
        """The stored results, and the last promise of the aggregation."""
        return self._promised, [tuple(row) for _, _, row in sorted(self._waiting)]

    def load_state(self, state: Any) -> None:
        """Restores results."""
        self._promised, rows = state
        self._waiting = [(row.last, next(self._number), row) for row in (Row(*parts) for parts in rows)]

    def _emit_results(self, most: int) -> None:
        for _ in range(min(most, len(self._waiting))):
            self.emit(heapq.heappop(self._waiting)[2])
        least = min(self._promised, self._waiting[0][0] if self._waiting else self._promised)
        super().promise(RESULTS, Promise(least))
