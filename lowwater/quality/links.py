"""The packets of a link over an interval, from packets/: counts, lateness, longest silence, busiest senders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lowwater.catalog.schemas import stored
from lowwater.catalog.time import Skews, is_late
from lowwater.catalog.values import format_ip, ip_from_words
from lowwater.instants import SECOND
from lowwater.lake.packets import COPY, ELSEWHERE, KEYS, LinkRead
from lowwater.limits import PROFILE_SOURCES
from lowwater.low import VIOLATIONS
from lowwater.quality.lateness import IntervalLateness

TALKERS = 20
"""Number of busiest sources in the profile of a link."""

SOURCE = stored(["srcIP"])
"""Stored columns of a source address: its family, and two 64-bit words, of which the first is 0 for IPv4."""

COLUMNS = (*SOURCE, "len")
"""Stored columns that a profile reads beside the keys."""

MINUTE = 60 * SECOND


class SenderCounts:
    """Record counts by source. Beyond `most` sources the less busy half is dropped, so a count may be too low."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._counts = pa.schema([(name, pa.int64()) for name in (*SOURCE, "records")]).empty_table()

    def __len__(self) -> int:
        return int(self._counts.num_rows)

    def add(self, sources: pa.Table) -> None:
        """Counts records by the columns SOURCE; those without a source do not count."""
        # Groups are few, so they are brought into one form, and not the records.
        grouped = _grouped(sources, ([], "count_all"))
        grouped = grouped.filter(grouped.column(SOURCE[-1]).is_valid())
        words = [grouped.column(name).fill_null(0).cast(pa.int64()) for name in grouped.column_names]
        parts = [self._counts, pa.table(words, self._counts.schema)]
        self._counts = _grouped(pa.concat_tables(parts), ("records", "sum"))
        if len(self) > self._most:
            self._counts = self._busiest(self._most // 2)

    def _busiest(self, most: int) -> pa.Table:
        order = [("records", "descending"), *((name, "ascending") for name in SOURCE)]
        return self._counts.sort_by(order).slice(0, most)

    def busiest(self, most: int) -> list[tuple[tuple[int, ...], int]]:
        """The busiest sources, as SOURCE, with their records, the busiest first; equally busy ones by address."""
        return [(tuple(row[name] for name in SOURCE), row["records"]) for row in self._busiest(most).to_pylist()]


def _grouped(rows: pa.Table, records: tuple[Any, str]) -> pa.Table:
    grouped = rows.group_by(SOURCE, use_threads=False).aggregate([records])
    return grouped.rename_columns([*SOURCE, "records"])


class LinkProfile:
    """The profile of the records of a link that arrive in [start, end), ns, filled by the audit's scan of `packets/` in
    bounded memory; `history` stores it and compares it with earlier intervals."""

    def __init__(self, start: int, end: int, skew: int | Skews) -> None:
        self.watch, self._skew = IntervalLateness(start, end), skew
        self.addressed = 0  # records with an IP source
        self.bytes: int | None = None  # on the wire; None while no record has a length, as other records have none
        self._start, self._end = start, end
        self._clock, self._silence = start, 0
        self._sources = SenderCounts(PROFILE_SOURCES)

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds records in order of arrival; records that arrive outside the interval are ignored."""
        first, end = np.searchsorted(batch.column("arrival").to_numpy(), (self._start, self._end))
        mine = batch.slice(first, end - first)
        if not mine.num_rows:
            return
        self.watch.add(mine, self._skew if isinstance(self._skew, int) else self._skew.of(mine))
        arrivals = np.concatenate([[self._clock], mine.column("arrival").to_numpy()])
        self._silence = max(self._silence, int(np.diff(arrivals).max()))
        self._clock = int(arrivals[-1])
        self._sources.add(pa.table(mine.select(SOURCE)))
        self.addressed += mine.num_rows - mine.column(SOURCE[-1]).null_count
        size = pc.sum(mine.column("len")).as_py()
        if size is not None:
            self.bytes = (self.bytes or 0) + size

    @property
    def silence(self) -> int:
        """The longest time without an arrival within the interval, ns."""
        return max(self._silence, self._end - self._clock)

    @property
    def talkers(self) -> list[tuple[str, float]]:
        """(address, share of the records with an IP source) for the busiest sources, the busiest first."""
        return [(format_ip(ip_from_words(*source)), n / self.addressed) for source, n in self._sources.busiest(TALKERS)]


# Records of a link, counted from `packets/` without any engine. The audit compares the accounts of the low level with
# these counts. The reference engine uses them as its accounting.


@dataclass(frozen=True)
class RecordRange:
    """Consecutive records of a capture: their number and the positions of the first and the last."""

    count: int
    first: int
    last: int


@dataclass
class DuplicateCounts:
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
    copies: DuplicateCounts | None = None  # what was found of copies; None where they are not looked for (D4)

    @property
    def duplicates(self) -> int:
        """Number of records that are dropped as copies (A1)."""
        return self.copies.copies if self.copies is not None and self.copies.dropped else 0


def scan_link(read: LinkRead, skews: Skews) -> LinkScan:
    """Scans the packets of a link over the interval of a read; LakeError if they cannot be read."""
    sane, late = 0, []
    minutes: dict[tuple[int, str], RecordRange] = {}
    profile = LinkProfile(read.start, read.end, skews if skews.turns else skews.rest)
    copies = None if read.copies is None else DuplicateCounts(read.copies.drop)
    for batch in read.batches([*COLUMNS, *skews.columns], marked=copies is not None):
        arrival, stamp = (batch.column(name).to_numpy() for name in ("arrival", "timestamp"))
        violates = is_late(arrival, stamp, skews.of(batch))
        owned = ~violates & (stamp >= read.start) & (stamp < read.end)
        if copies is not None:
            copied, elsewhere = (batch.column(name).to_numpy(zero_copy_only=False) for name in (COPY, ELSEWHERE))
            copies.compared += int(np.count_nonzero(owned))
            copies.copies += int(np.count_nonzero(owned & copied))
            copies.elsewhere += int(np.count_nonzero(owned & elsewhere))
            if copies.dropped and copied.any():
                batch = batch.filter(pc.invert(batch.column(COPY)))
                arrival, stamp, violates, owned = (each[~copied] for each in (arrival, stamp, violates, owned))
                if not batch.num_rows:
                    continue
        profile.add(batch)
        sane += int(np.count_nonzero(owned))
        positions = batch.column("position").to_numpy()[owned]
        _count_minutes(batch.column("capture")[0].as_py(), stamp[owned], positions, minutes)
        charged = np.flatnonzero(violates & (arrival >= read.start) & (arrival < read.end))
        if len(charged):
            rows = batch.select(KEYS).append_column("lateness", pa.array(arrival - stamp)).take(pa.array(charged))
            late.append(pa.table(rows).select(VIOLATIONS.names).cast(VIOLATIONS))
    violations = pa.concat_tables([VIOLATIONS.empty_table(), *late])
    return LinkScan(read.link, sane, violations, profile, minutes, copies)


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
