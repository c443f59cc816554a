"""Whether the clock of this machine is right: it is compared with the clock of the lake's disk or store, with the last
writes of captures, and with the times of their records (SEMANTICS T10)."""

from __future__ import annotations

import time
from pathlib import PurePath

from lowwater.errors import LakeError
from lowwater.instants import HOUR, SECOND, format_duration, format_instant
from lowwater.lake import layout, tables
from lowwater.lake.answers import answered
from lowwater.lake.ledgers.captures import ingested_links, read_captures
from lowwater.storage import paths
from lowwater.storage.failures import hint_in_lake

CLOCKS = 120 * SECOND  # difference between two clocks that is said
MINUTE = 60 * SECOND
ASKED = 30.0
"""Seconds for which a process believes what it has asked: a store takes three requests for it."""
_KNOWN: dict[PurePath, tuple[float, int]] = {}
"""Lake -> when its clock was asked, s of the monotonic clock, and by how much this machine's is ahead, ns."""


def store_clock(lake: layout.Lake, dry_run: bool = False) -> int:
    """Returns the time of the disk or store of a lake, ns since the epoch; with `dry_run`, where nothing is removed by
    it, the time of this machine does for a lake that is read only.
    Raises LakeError if the store does not tell."""
    try:
        return paths.clock(lake.locks)
    except OSError as error:
        if dry_run:
            return time.time_ns()
        raise LakeError(f"{lake.locks}: cannot be written: {error.strerror}", hint_in_lake(error)) from error


def ahead(lake: layout.Lake, most: float = ASKED) -> int:
    """Returns by how much the clock of this machine is ahead of that of the lake's disk or store, ns, negative where it
    is behind; 0 for little, or where the store does not tell. It was asked at most so many seconds ago."""
    asked, off = _KNOWN.get(lake.root, (-ASKED, 0))
    if time.monotonic() - asked >= most:
        off = time.time_ns() - store_clock(lake, dry_run=True)
        _KNOWN[lake.root] = time.monotonic(), off
    return off if abs(off) >= CLOCKS else 0


def present(lake: layout.Lake, now: int) -> int:
    """Returns the instant (ns) up to which time has passed by both clocks, given `now` by that of this machine: what
    ends later waits, since nobody knows yet whether it is over."""
    return now - max(0, ahead(lake))


def clock_words(lake: layout.Lake) -> str:
    """Says by how much the clock of this machine differs from that of the lake's store; empty for little."""
    off = ahead(lake, 0.0)
    if not off:
        return ""
    return f"{_differs(off)} that of the lake's store: what is old is judged by the store's; set the clock"


def doubts(lake: layout.Lake, now: int) -> list[str]:
    """Says why the clock of this machine, which says `now` (ns), is wrong, and what waits for that; empty where nothing
    says it.
    Raises LakeError if a ledger cannot be read."""
    if off := ahead(lake):
        waits = f"intervals that end after {format_instant((now - off) // SECOND * SECOND)} wait" if off > 0 else ""
        return [f"{_differs(off)} that of the lake's disk or store: {f'{waits}; ' if waits else ''}set the clock"]
    written = _newest_write(lake)
    if written - now >= CLOCKS:
        return [
            f"a file of a link was last written {_span(written - now)} after the present time of this machine: its "
            "clock, or that of the machine which records, is wrong; set the clock"
        ]
    newest, link = answered(lake, "newest record", "", lambda: _newest_record(lake))
    if newest - now >= CLOCKS:
        return [
            f"link {link!r} has records of {_span(newest - now)} after the present time of this machine: its "
            "clock, or that of the recorder, is wrong; set the clock"
        ]
    return []


def _newest_record(lake: layout.Lake) -> tuple[int, str]:
    captures = read_captures(lake, ingested_links(lake))
    return max(((int(rows.numbers("largest").max()), link) for link, rows in captures.items() if rows), default=(0, ""))


def _differs(off: int) -> str:
    return f"the clock of this machine is {_span(abs(off))} {'ahead of' if off > 0 else 'behind'}"


def _span(length: int) -> str:
    unit = MINUTE if length < 48 * HOUR else HOUR
    return format_duration((length + unit // 2) // unit * unit)


def _newest_write(lake: layout.Lake) -> int:
    """The newest last write that the ledger of files knows, ns, by the bounds of its log; 0 without one."""
    table = tables.open_table(lake.sightings)
    rows = [] if table is None else tables.live_files(table)
    return max((row.get("max.written") or 0 for row in rows), default=0)
