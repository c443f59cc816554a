"""The records of a link over an interval, counted straight from `packets/`, apart from every engine.

What the accounts of the low level are held against, and the accounting of the reference engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.catalog.skews import Skews
from lowwater.lake.packets import KEYS, LinkRead
from lowwater.low import VIOLATIONS
from lowwater.quality.profile import COLUMNS, Profile

MINUTE = 60_000_000_000


@dataclass(frozen=True)
class Stretch:
    """Records of a capture: how many, and the positions of the first and the last."""

    count: int
    first: int
    last: int


@dataclass(frozen=True)
class LinkScan:
    """What the records of a link are over an interval, by the definition (SEMANTICS T2, A1).

    Attributes:
        link: its name.
        sane: records in order whose timestamp is owned.
        violations: schema of `low.VIOLATIONS`; those whose arrival is owned.
        profile: of those whose arrival is owned.
        minutes: (minute of the timestamp, capture) -> its sane records.
    """

    link: str
    sane: int
    violations: pa.Table
    profile: Profile
    minutes: Mapping[tuple[int, str], Stretch] = field(default_factory=dict)


def scan_link(read: LinkRead, skews: Skews) -> LinkScan:
    """Counts the records of the interval of a read.

    Args:
        read: the read of the link, from the interval's start on.
        skews: the skews of its records.

    Raises:
        LakeError: if the packets cannot be read.
    """
    sane, late = 0, []
    minutes: dict[tuple[int, str], Stretch] = {}
    profile = Profile(read.start, read.end, skews.rest)
    for batch in read.batches([*COLUMNS, *skews.columns]):
        profile.add(batch)
        capture, position, arrivals, stamps = (batch.column(name) for name in KEYS)
        arrival, stamp = arrivals.to_numpy(), stamps.to_numpy()
        lateness = arrival - stamp
        violates = lateness > skews.of(batch)
        owned = ~violates & (stamp >= read.start) & (stamp < read.end)
        sane += int(np.count_nonzero(owned))
        _count_minutes(capture[0].as_py(), stamp[owned], position.to_numpy()[owned], minutes)
        charged = np.flatnonzero(violates & (arrival >= read.start) & (arrival < read.end))
        if len(charged):
            rows = batch.select(KEYS).append_column("lateness", pa.array(lateness)).take(pa.array(charged))
            late.append(pa.table(rows).select(VIOLATIONS.names).cast(VIOLATIONS))
    found = pa.concat_tables([VIOLATIONS.empty_table(), *late])
    return LinkScan(read.link, sane, found, profile, minutes)


def _count_minutes(
    capture: str, stamps: NDArray[np.int64], positions: NDArray[np.int64], minutes: dict[tuple[int, str], Stretch]
) -> None:
    """Adds records of one capture, in the order of their positions, to those of their minutes."""
    of = stamps // MINUTE
    # Records of a minute nearly follow each other: runs of them are few.
    begins = np.flatnonzero(np.diff(of, prepend=-1))
    ends = np.append(begins[1:], len(of)) if len(of) else begins
    for minute, begin, end in zip(of[begins].tolist(), begins.tolist(), ends.tolist(), strict=True):
        first, last = int(positions[begin]), int(positions[end - 1])
        known = minutes.get((minute, capture), Stretch(0, first, last))
        span = min(known.first, first), max(known.last, last)
        minutes[minute, capture] = Stretch(known.count + end - begin, *span)
