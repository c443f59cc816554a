"""The records of a link over an interval, counted straight from `packets/`, apart from every engine.

What the accounts of the low level are held against, and the accounting of the reference engine.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lowwater.lake.packets import KEYS, LinkRead
from lowwater.low import VIOLATIONS
from lowwater.quality.profile import COLUMNS, Profile


@dataclass(frozen=True)
class LinkScan:
    """What the records of a link are over an interval, by the definition (SEMANTICS T2, A1).

    Attributes:
        link: its name.
        sane: records in order whose timestamp is owned.
        violations: schema of `low.VIOLATIONS`; those whose arrival is owned.
        profile: of those whose arrival is owned.
    """

    link: str
    sane: int
    violations: pa.Table
    profile: Profile


def scan_link(read: LinkRead, skew: int) -> LinkScan:
    """Counts the records of the interval of a read.

    Args:
        read: of the link, from the interval's start on.
        skew: of the link, ns.

    Raises:
        LakeError: if the packets cannot be read.
    """
    sane, late = 0, []
    profile = Profile(read.start, read.end, skew)
    for batch in read.batches(COLUMNS):
        profile.add(batch)
        table = pa.table(batch).select(KEYS)
        table = table.set_column(0, "capture", table.column("capture").cast(pa.string()))
        table = table.append_column("lateness", pc.subtract(table.column("arrival"), table.column("timestamp")))
        violates = pc.greater(table.column("lateness"), skew)
        owned = table.filter(pc.invert(violates)).column("timestamp")
        sane += pc.sum(_within(owned, read)).as_py() or 0
        violations = table.filter(violates)
        late.append(violations.filter(_within(violations.column("arrival"), read)).select(VIOLATIONS.names))
    found = pa.concat_tables(late).cast(VIOLATIONS) if late else VIOLATIONS.empty_table()
    return LinkScan(read.link, sane, found, profile)


def _within(instants: pa.ChunkedArray, read: LinkRead) -> pa.ChunkedArray:
    return pc.and_(pc.greater_equal(instants, read.start), pc.less(instants, read.end))
