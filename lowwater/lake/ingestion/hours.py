"""Slices of batches by hour of arrival, for files of packets and of other records."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lowwater.instants import HOUR


def by_hour(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yields slices of a batch by hour of arrival; arrivals never decrease."""
    arrivals = batch.column("arrival").to_numpy()
    start = 0
    while start < len(arrivals):
        hour = int(arrivals[start]) // HOUR
        stop = int(arrivals.searchsorted((hour + 1) * HOUR))
        yield hour, batch.slice(start, stop - start)
        start = stop
