"""The profile of a link over an interval: lateness, longest silence, busiest senders.

The audit's scan of `packets/` fills it in bounded memory; `drift` stores it and compares it with earlier intervals.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lowwater.catalog.packets import stored
from lowwater.catalog.values import format_ip, ip_from_words
from lowwater.quality.lateness.counts import LatenessMonitor
from lowwater.quality.links.senders import SenderCounts

TALKERS = 20
"""Number of busiest sources in the profile."""

MOST_SOURCES = 1 << 16
"""Number of sources that are counted. Beyond it the less busy half is dropped, so a share may be too low."""

SOURCE = tuple(stored(["srcIP"]))
"""Stored columns of a source address."""

LENGTH = "len"
"""Bytes of a packet on the wire."""

COLUMNS = (*SOURCE, LENGTH)
"""Stored columns that a profile reads beside the keys."""


class LinkProfile:
    """The profile of the records of a link that arrive in [start, end), ns.

    Args:
        start: first instant of the interval, ns since the epoch.
        end: end of the interval, ns since the epoch, exclusive.
        skew: skew of the link, ns.

    Attributes:
        watch: lateness of the records.
        addressed: number of records with an IP source.
        bytes: bytes on the wire of the packets; None while no record has a length, as other records have none.
    """

    def __init__(self, start: int, end: int, skew: int) -> None:
        self.watch = LatenessMonitor(skew)
        self.addressed = 0
        self.bytes: int | None = None
        self._start, self._end = start, end
        self._clock, self._silence = start, 0
        self._sources = SenderCounts(MOST_SOURCES)

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds records in order of arrival; records that arrive outside the interval are ignored."""
        first, end = np.searchsorted(batch.column("arrival").to_numpy(), (self._start, self._end))
        mine = batch.slice(first, end - first)
        if not mine.num_rows:
            return
        self.watch.add(mine)
        arrivals = np.concatenate([[self._clock], mine.column("arrival").to_numpy()])
        self._silence = max(self._silence, int(np.diff(arrivals).max()))
        self._clock = int(arrivals[-1])
        self._count_sources(mine)
        size = pc.sum(mine.column(LENGTH).cast(pa.int64())).as_py()
        if size is not None:
            self.bytes = (self.bytes or 0) + size

    def _count_sources(self, batch: pa.RecordBatch) -> None:
        has_source = batch.column(SOURCE[-1]).is_valid()
        sourced = batch if pc.all(has_source).as_py() else batch.filter(has_source)
        self._sources.add(*(_words(sourced.column(name)) for name in SOURCE))
        self.addressed += sourced.num_rows

    @property
    def silence(self) -> int:
        """The longest time without an arrival within the interval, ns."""
        return max(self._silence, self._end - self._clock)

    @property
    def talkers(self) -> list[tuple[str, float]]:
        """(address, share of the records with an IP source) for the busiest sources, the busiest first."""
        return [(format_ip(ip_from_words(*source)), n / self.addressed) for source, n in self._sources.busiest(TALKERS)]


def _words(values: pa.Array) -> NDArray[np.int64]:
    """A column of integers as 64 bits, with 0 for NULL."""
    filled = values.fill_null(0).to_numpy(zero_copy_only=False)
    words: NDArray[np.int64] = filled.astype(np.int64)
    return words
