"""Consent of a person to an interval whose audit warned, kept with the audit that it is of.

The next look publishes the interval then, without running it again. Other inputs make another audit, which asks anew.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

from lowwater.documents import stored_object
from lowwater.errors import LakeError
from lowwater.instants import format_instant
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.runs import AUDIT, ReplayRow, read_replays, record_replays
from lowwater.lake.locks import hold_range

WARNED = "warned"
"""Verdict of an audit after which a person may have to approve the publication."""


def awaited(rows: Iterable[ReplayRow]) -> list[ReplayRow]:
    """The audits of an interval that ended with warnings, where nothing has run since; none if it does not wait.

    Args:
        rows: of one interval, oldest first.
    """
    newest: dict[str, ReplayRow] = {}
    for row in rows:
        if row.query or row.state == "failed":
            newest = {} if row.state == "failed" else newest
            newest[row.query] = row
    waits = newest and all(
        row.stage == AUDIT and stored_object(row.accounting).get("verdict") == WARNED for row in newest.values()
    )
    return list(newest.values()) if waits else []


def consented(rows: Iterable[ReplayRow], digests: Mapping[str, str] | None = None) -> bool:
    """Whether a person has approved the newest audit of an interval.

    Args:
        rows: of one interval, oldest first.
        digests: query -> digest of the present inputs; None to ask for no inputs.
    """
    audits = awaited(rows)
    return bool(audits) and all(
        "consent" in stored_object(row.accounting) and (digests is None or digests.get(row.query) == row.digest)
        for row in audits
    )


def approve(lake: Lake, query_set: str, start: int, end: int, by: str) -> None:
    """Keeps that a person approves the publication of an interval.

    Args:
        start: first instant of the interval, ns since the epoch.
        end: end of the interval, ns since the epoch, exclusive.

    Raises:
        BusyError: a run is at work on it.
        LakeError: it does not wait for approval, or the ledger cannot be written.
    """
    with hold_range(lake, query_set, start, end) as fence:
        rows = [row for row in read_replays(lake, query_set, (start, end)) if row.interval_end == end]
        audits = awaited(row for row in rows if row.interval_start == start)
        if not audits:
            raise LakeError(f"{query_set} {format_instant(start)} does not wait for approval", "look at its page again")
        at = max(time.time_ns(), 1 + max(row.finished_at for row in audits))
        given = [
            replace(row, finished_at=at, accounting=json.dumps(stored_object(row.accounting) | {"consent": by}))
            for row in audits
        ]
        record_replays(replace(lake, fence=fence), given)
