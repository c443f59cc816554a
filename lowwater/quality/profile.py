"""What the records of a link over an interval are like: how late, how silent, who sends.

Filled by the audit's scan of `packets/`, beside its counts, in bounded memory; `history` keeps and compares it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lowwater.catalog.packets import stored
from lowwater.catalog.values import format_ip, ip_from_words
from lowwater.quality.lags import Watch
from lowwater.quality.sources import Sources

TALKERS = 20
"""How many of the busiest sources are kept."""

MOST_SOURCES = 1 << 16
"""Sources that are counted at once; beyond, the least busy half is forgotten, so a share may come out too low."""

COLUMNS = tuple(stored(["srcIP"]))
"""Stored columns that a profile reads besides the keys."""


class Profile:
    """The records of a link that arrive in [start, end), ns.

    Args:
        start: the start of the interval; `end` its end.
        skew: the skew of the link, ns.

    Attributes:
        watch: their lateness.
        addressed: records with an IP source.
    """

    def __init__(self, start: int, end: int, skew: int) -> None:
        self.watch = Watch(skew)
        self.addressed = 0
        self._start, self._end = start, end
        self._clock, self._silence = start, 0
        self._sources = Sources(MOST_SOURCES)

    def add(self, batch: pa.RecordBatch) -> None:
        """Takes records in the order of their arrival; those that arrive outside of the interval do not count."""
        arrived = batch.column("arrival")
        inside = pc.and_(pc.greater_equal(arrived, self._start), pc.less(arrived, self._end))
        mine = batch if pc.all(inside).as_py() else batch.filter(inside)
        if not mine.num_rows:
            return
        self.watch.add(mine)
        arrivals = np.concatenate([[self._clock], mine.column("arrival").to_numpy()])
        self._silence = max(self._silence, int(np.diff(arrivals).max()))
        self._clock = int(arrivals[-1])
        self._count_sources(mine)

    def _count_sources(self, batch: pa.RecordBatch) -> None:
        there = batch.column(COLUMNS[-1]).is_valid()
        known = batch if pc.all(there).as_py() else batch.filter(there)
        self._sources.add(*(_words(known.column(name)) for name in COLUMNS))
        self.addressed += known.num_rows

    @property
    def silence(self) -> int:
        """The longest time without an arrival, ns, from the begin of the interval to its end."""
        return max(self._silence, self._end - self._clock)

    @property
    def talkers(self) -> list[tuple[str, float]]:
        """(address, share of the records with an IP source) of the busiest sources, the busiest first."""
        return [(format_ip(ip_from_words(*source)), n / self.addressed) for source, n in self._sources.busiest(TALKERS)]


def _words(values: pa.Array) -> NDArray[np.int64]:
    """A column of integers with 0 for NULL, 64 bits each."""
    given = values.fill_null(0).to_numpy(zero_copy_only=False)
    words: NDArray[np.int64] = given.astype(np.int64)
    return words
