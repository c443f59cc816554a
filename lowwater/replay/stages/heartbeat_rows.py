"""Builds the rows of the ledger `heartbeats` for one link: accounts and statistics of its LFTAs.

The low stage of an interval stores them through `lake.ledgers.runs`.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lowwater.lake.layout import HEARTBEATS
from lowwater.low import LinkResult
from lowwater.low.runtime.node import merge_work
from lowwater.replay.command.summary import COUNTED

MINUTE = 60_000_000_000
_ROWS = pa.schema([field for field in HEARTBEATS if field.name != "query_set"])


def heartbeat_rows(result: LinkResult, start: int, end: int) -> pa.Table:
    """Builds the accounts and statistics of one link, by LFTA and minute, within an interval.

    Args:
        result: result of the low stage for the link.
        start: first instant of the interval, ns since the epoch.
        end: end of the interval, ns since the epoch, exclusive.

    Returns:
        HEARTBEATS without `query_set`. A minute without accounts has zeros, a minute without statistics has NULL.
    """
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for row in result.minutes.to_pylist():
        rows[row["lfta"], row["minute"]] = row
    for row in merge_work([_within(result.work, start, end)]).to_pylist():
        at = row["lfta"], row["minute"]
        rows[at] = {**dict.fromkeys(COUNTED, 0), **rows.get(at, {}), **row}
    ledger_rows = []
    for (_, minute), row in sorted(rows.items()):
        bounds = {"start": max(start, minute * MINUTE), "end": min(end, (minute + 1) * MINUTE)}
        ledger_rows.append({**row, "link": result.link, **bounds})
    return pa.Table.from_pylist(ledger_rows, schema=_ROWS)


def _within(work: pa.Table, start: int, end: int) -> pa.Table:
    """Moves statistics outside the interval to its first or last minute."""
    first, last = (pa.scalar(instant // MINUTE, pa.int64()) for instant in (start, end - 1))
    minutes = pc.min_element_wise(pc.max_element_wise(work.column("minute"), first), last)
    at = work.schema.get_field_index("minute")
    return work.set_column(at, work.schema.field(at), minutes)
