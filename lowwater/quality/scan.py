"""The records of a link over an interval, counted straight from `packets/`, apart from every engine.

What the accounts of the low level are held against, and the accounting of the reference engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

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
        read: of the link, from the interval's start on.
        skews: of its records.

    Raises:
        LakeError: if the packets cannot be read.
    """
    sane, late = 0, []
    minutes: dict[tuple[int, str], Stretch] = {}
    profile = Profile(read.start, read.end, skews.rest)
    for batch in read.batches([*COLUMNS, *skews.columns]):
        profile.add(batch)
        table = pa.table(batch).select(KEYS)
        table = table.set_column(0, "capture", table.column("capture").cast(pa.string()))
        table = table.append_column("lateness", pc.subtract(table.column("arrival"), table.column("timestamp")))
        violates = pc.greater(table.column("lateness"), pa.chunked_array([skews.of(batch)]))
        owned = table.filter(pc.and_(pc.invert(violates), _within(table.column("timestamp"), read)))
        sane += owned.num_rows
        _count_minutes(owned, minutes)
        violations = table.filter(violates)
        late.append(violations.filter(_within(violations.column("arrival"), read)).select(VIOLATIONS.names))
    found = pa.concat_tables(late).cast(VIOLATIONS) if late else VIOLATIONS.empty_table()
    return LinkScan(read.link, sane, found, profile, minutes)


def _count_minutes(records: pa.Table, minutes: dict[tuple[int, str], Stretch]) -> None:
    """Adds the records of a batch, which are of one capture, to those of their minutes."""
    if not records.num_rows:
        return
    capture = records.column("capture")[0].as_py()
    parts = pa.table({"minute": pc.divide(records.column("timestamp"), MINUTE), "at": records.column("position")})
    found = parts.group_by("minute").aggregate([("at", "count"), ("at", "min"), ("at", "max")])
    for row in found.to_pylist():
        key = row["minute"], capture
        known = minutes.get(key, Stretch(0, row["at_min"], row["at_max"]))
        first, last = min(known.first, row["at_min"]), max(known.last, row["at_max"])
        minutes[key] = Stretch(known.count + row["at_count"], first, last)


def _within(instants: pa.ChunkedArray, read: LinkRead) -> pa.ChunkedArray:
    return pc.and_(pc.greater_equal(instants, read.start), pc.less(instants, read.end))
