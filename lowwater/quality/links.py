"""The packets of a link over an interval, from packets/: counts, lateness, longest silence, busiest senders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lowwater.capture.inlining import kernel
from lowwater.catalog.schemas import stored
from lowwater.catalog.time import Skews, is_late
from lowwater.catalog.values import format_ip, ip_from_words
from lowwater.lake.packets import COPY, ELSEWHERE, KEYS, LinkRead
from lowwater.limits import PROFILE_SOURCES
from lowwater.low import VIOLATIONS
from lowwater.quality.lateness import LatenessMonitor

Source = tuple[int, int, int]
"""Address family and the two 64-bit words of the address; the first word is 0 for IPv4."""

Words = NDArray[np.int64]

_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio
_SHIFT = np.uint64(32)
_LEAST_SLOTS = 1 << 10


@kernel
def _count(families: Any, highs: Any, lows: Any, weights: Any, keys: Any, counts: Any) -> int:
    """Adds records with their weights to the table (count 0 marks a free slot); returns the number of slots newly
    used."""
    last = np.uint64(len(counts) - 1)
    new_slots = 0
    for row in range(len(lows)):
        family, high, low = families[row], highs[row], lows[row]
        digest = (np.uint64(low) ^ (np.uint64(high) * _SPREAD) ^ np.uint64(family)) * _SPREAD
        at = (digest ^ (digest >> _SHIFT)) & last
        while counts[at] and (keys[at, 0] != family or keys[at, 1] != high or keys[at, 2] != low):
            at = (at + np.uint64(1)) & last
        if not counts[at]:
            keys[at, 0], keys[at, 1], keys[at, 2] = family, high, low
            new_slots += 1
        counts[at] += weights[row]
    return new_slots


class SenderCounts:
    """Record counts by source. When the table is full, the less busy half is dropped, so a count may be too low."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._clear(_LEAST_SLOTS)

    def __len__(self) -> int:
        return self._taken

    def _clear(self, slots: int) -> None:
        self._keys: Words = np.zeros((slots, 3), np.int64)
        self._counts: Words = np.zeros(slots, np.int64)
        self._taken = 0

    def add(self, families: Words, highs: Words, lows: Words) -> None:
        """Counts records by their source; three arrays of shape (n)."""
        self._make_room(len(lows))
        self._take(families, highs, lows, np.ones(len(lows), np.int64))
        if len(self) > self._most:
            self._rebuild(len(self._counts), self._busiest(self._most // 2))

    def _make_room(self, more: int) -> None:
        """Enlarges the table so that half of its slots stay free."""
        needed = 2 * (len(self) + more)
        if needed > len(self._counts):
            self._rebuild(1 << (needed - 1).bit_length(), np.flatnonzero(self._counts))

    def _rebuild(self, slots: int, chosen: NDArray[np.intp]) -> None:
        keys, counts = self._keys[chosen], self._counts[chosen]
        self._clear(slots)
        family, high, low = (np.ascontiguousarray(keys[:, part]) for part in range(3))
        self._take(family, high, low, counts)

    def _take(self, families: Words, highs: Words, lows: Words, weights: Words) -> None:
        self._taken += _count(families, highs, lows, weights, self._keys, self._counts)

    def _busiest(self, most: int) -> NDArray[np.intp]:
        """Slots of the busiest sources, the busiest first; equally busy ones by address."""
        used = np.flatnonzero(self._counts)
        family, high, low = (self._keys[used, part] for part in range(3))
        return used[np.lexsort((low, high, family, -self._counts[used]))[:most]]

    def busiest(self, most: int) -> list[tuple[Source, int]]:
        """The busiest sources with their records, the busiest first."""
        slots = self._busiest(most)
        keys = [(int(family), int(high), int(low)) for family, high, low in self._keys[slots]]
        return list(zip(keys, self._counts[slots].tolist(), strict=True))


# The profile of a link over an interval: lateness, longest silence, busiest senders. The audit's scan of `packets/`
# fills it in bounded memory; `drift` stores it and compares it with earlier intervals.

TALKERS = 20
"""Number of busiest sources in the profile."""


SOURCE = tuple(stored(["srcIP"]))
"""Stored columns of a source address."""

LENGTH = "len"
"""Bytes of a packet on the wire."""

COLUMNS = (*SOURCE, LENGTH)
"""Stored columns that a profile reads beside the keys."""


class LinkProfile:
    """The profile of the records of a link that arrive in [start, end), ns.

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
        self._sources = SenderCounts(PROFILE_SOURCES)

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


# Counts the records of a link over an interval straight from `packets/`, independently of every engine. The audit
# compares the accounts of the low level with these counts. The reference engine uses them as its accounting.

MINUTE = 60_000_000_000


@dataclass(frozen=True)
class RecordRange:
    """Consecutive records of a capture: their number and the positions of the first and the last."""

    count: int
    first: int
    last: int


@dataclass
class CopyCounts:
    """Copies among the records of a link whose timestamp lies in the interval (SEMANTICS D2, D5)."""

    dropped: bool  # whether copies do not belong to the link
    compared: int = 0  # records that are not late
    copies: int = 0  # of them, copies of an earlier record of the link
    elsewhere: int = 0  # of them, those whose bytes an earlier record of another link has


@dataclass(frozen=True)
class LinkScan:
    """The records of a link over an interval, by definition (SEMANTICS T2, A1)."""

    link: str  # name of the link
    sane: int  # records within the skew whose timestamp lies in the interval
    violations: pa.Table  # late records whose arrival lies in the interval; schema of `low.VIOLATIONS`
    profile: LinkProfile  # profile of the records whose arrival lies in the interval
    # (minute of the timestamp, capture) -> sane records of that minute
    minutes: Mapping[tuple[int, str], RecordRange] = field(default_factory=dict)
    copies: CopyCounts | None = None  # what was found of copies; None where they are not looked for (D4)

    @property
    def duplicates(self) -> int:
        """Number of records that are dropped as copies (A1)."""
        return self.copies.copies if self.copies is not None and self.copies.dropped else 0


def scan_link(read: LinkRead, skews: Skews) -> LinkScan:
    """Scans the packets of a link over the interval of a read.

    Raises:
        LakeError: if the packets cannot be read.
    """
    sane, late = 0, []
    minutes: dict[tuple[int, str], RecordRange] = {}
    profile = LinkProfile(read.start, read.end, skews.rest)
    copies = None if read.copies is None else CopyCounts(read.copies.drop)
    for batch in read.batches([*COLUMNS, *skews.columns], marked=copies is not None):
        if copies is not None:
            batch = _counted_copies(batch, read, skews, copies)
            if not batch.num_rows:
                continue
        profile.add(batch)
        capture, position, arrivals, stamps = (batch.column(name) for name in KEYS)
        arrival, stamp = arrivals.to_numpy(), stamps.to_numpy()
        violates = is_late(arrival, stamp, skews.of(batch))
        owned = ~violates & (stamp >= read.start) & (stamp < read.end)
        sane += int(np.count_nonzero(owned))
        _count_minutes(capture[0].as_py(), stamp[owned], position.to_numpy()[owned], minutes)
        charged = np.flatnonzero(violates & (arrival >= read.start) & (arrival < read.end))
        if len(charged):
            rows = batch.select(KEYS).append_column("lateness", pa.array(arrival - stamp)).take(pa.array(charged))
            late.append(pa.table(rows).select(VIOLATIONS.names).cast(VIOLATIONS))
    violations = pa.concat_tables([VIOLATIONS.empty_table(), *late])
    return LinkScan(read.link, sane, violations, profile, minutes, copies)


def _counted_copies(batch: pa.RecordBatch, read: LinkRead, skews: Skews, counts: CopyCounts) -> pa.RecordBatch:
    """Counts the copies of a marked batch, and removes them if they are dropped."""
    arrival, stamp = batch.column("arrival").to_numpy(), batch.column("timestamp").to_numpy()
    copied, elsewhere = (batch.column(name).to_numpy(zero_copy_only=False) for name in (COPY, ELSEWHERE))
    owned = ~is_late(arrival, stamp, skews.of(batch)) & (stamp >= read.start) & (stamp < read.end)
    counts.compared += int(np.count_nonzero(owned))
    counts.copies += int(np.count_nonzero(owned & copied))
    counts.elsewhere += int(np.count_nonzero(owned & elsewhere))
    return batch.filter(pc.invert(batch.column(COPY))) if counts.dropped and copied.any() else batch


def _count_minutes(
    capture: str, stamps: NDArray[np.int64], positions: NDArray[np.int64], minutes: dict[tuple[int, str], RecordRange]
) -> None:
    """Adds the records of one capture, in order of position, to the counts of their minutes."""
    of = stamps // MINUTE
    # Nearly all records of a minute are consecutive, so there are few runs.
    begins = np.flatnonzero(np.diff(of, prepend=-1))
    ends = np.append(begins[1:], len(of)) if len(of) else begins
    for minute, begin, end in zip(of[begins].tolist(), begins.tolist(), ends.tolist(), strict=True):
        first, last = int(positions[begin]), int(positions[end - 1])
        counted = minutes.get((minute, capture), RecordRange(0, first, last))
        span = min(counted.first, first), max(counted.last, last)
        minutes[minute, capture] = RecordRange(counted.count + end - begin, *span)
