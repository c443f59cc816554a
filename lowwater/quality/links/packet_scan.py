"""Counts the records of a link over an interval straight from `packets/`, independently of every engine.

The audit compares the accounts of the low level with these counts. The reference engine uses them as its accounting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lowwater.catalog.time import Skews, is_late
from lowwater.lake.packets import COPY, ELSEWHERE, KEYS, LinkRead
from lowwater.low import VIOLATIONS
from lowwater.quality.links.profile import COLUMNS, LinkProfile

MINUTE = 60_000_000_000


@dataclass(frozen=True)
class RecordRange:
    """Consecutive records of a capture: their number and the positions of the first and the last."""

    count: int
    first: int
    last: int


@dataclass
class CopyCounts:
    """Copies among the records of a link whose timestamp lies in the interval (SEMANTICS D2, D5).

    Attributes:
        dropped: whether copies do not belong to the link.
        compared: records that are not late.
        copies: of them, copies of an earlier record of the link.
        elsewhere: of them, those whose bytes an earlier record of another link has.
    """

    dropped: bool
    compared: int = 0
    copies: int = 0
    elsewhere: int = 0


@dataclass(frozen=True)
class LinkScan:
    """The records of a link over an interval, by definition (SEMANTICS T2, A1).

    Attributes:
        link: name of the link.
        sane: records within the skew whose timestamp lies in the interval.
        violations: late records whose arrival lies in the interval; schema of `low.VIOLATIONS`.
        profile: profile of the records whose arrival lies in the interval.
        minutes: (minute of the timestamp, capture) -> sane records of that minute.
        copies: what was found of copies; None where they are not looked for (D4).
    """

    link: str
    sane: int
    violations: pa.Table
    profile: LinkProfile
    minutes: Mapping[tuple[int, str], RecordRange] = field(default_factory=dict)
    copies: CopyCounts | None = None

    @property
    def duplicates(self) -> int:
        """Number of records that are dropped as copies (A1)."""
        return self.copies.copies if self.copies is not None and self.copies.dropped else 0


def scan_link(read: LinkRead, skews: Skews) -> LinkScan:
    """Scans the packets of a link over the interval of a read.

    Args:
        read: read of the link, from the start of the interval on.
        skews: skews of its records.

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
