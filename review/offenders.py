"""Who was late: captures and senders of the skew violations of a link in a stretch of time, and the first records.

Reads the ledger `skew_violations`, and for senders the packets that it names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lowwater.catalog.values import format_ip, ip_from_words
from lowwater.config import Link
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.captures import Capture, Captures
from lowwater.lake.ledgers.runs import read_violations
from lowwater.lake.packets import read_packets
from lowwater.limits import OFFENDER_PACKETS
from lowwater.quality.links import SOURCE

FIRST = 10
"""First violations that are listed."""
MOST_NAMED = 20
"""Captures and senders that are listed."""


@dataclass(frozen=True)
class Offender:
    """A capture or sender of late records."""

    name: str  # file name, or address; empty for records without an IP source
    late: int  # its late records
    records: int | None  # all of its records; None of a sender
    largest: int  # the largest lateness, ns


@dataclass(frozen=True)
class Offenders:
    """The skew violations that arrive in a stretch of time."""

    late: int  # their number
    largest: int  # the largest lateness, ns
    captures: tuple[Offender, ...]  # the captures with the most of them
    senders: tuple[Offender, ...]  # the senders with the most of the first `looked_up` of them
    looked_up: int  # violations whose packets were looked up
    first: tuple[dict[str, Any], ...]  # the first of them: file name, and the columns of the ledger


def offenders(lake: Lake, link: str, captures: Sequence[Capture], settings: Link, start: int, end: int) -> Offenders:
    """Finds who was late of a link by its present skew, among the records that arrive in [start, end), ns."""
    rows = read_violations(lake, link, settings.skew, start, end)
    if not rows.num_rows:
        return Offenders(0, 0, (), (), 0, ())
    by_capture = rows.group_by("capture").aggregate([("lateness", "count"), ("lateness", "max")]).to_pylist()
    names = Captures.of(captures).names_of({row["capture"] for row in by_capture})
    packets = {capture.capture: capture.packets for capture in captures}
    named = [
        Offender(names.get(each["capture"], each["capture"][:12]), each["lateness_count"],
                 packets.get(each["capture"]), each["lateness_max"])
        for each in by_capture
    ]  # fmt: skip
    looked_up = rows.slice(0, OFFENDER_PACKETS)
    first = [{**row, "capture": names.get(row["capture"], "")} for row in rows.slice(0, FIRST).to_pylist()]
    return Offenders(
        rows.num_rows,
        max(each.largest for each in named),
        _worst(named),
        _worst(_senders(lake, link, captures, settings, looked_up)),
        looked_up.num_rows,
        tuple(first),
    )


def _worst(found: Sequence[Offender]) -> tuple[Offender, ...]:
    return tuple(sorted(found, key=lambda each: (-each.late, each.name))[:MOST_NAMED])


def _senders(lake: Lake, link: str, captures: Sequence[Capture], settings: Link, rows: pa.Table) -> list[Offender]:
    """Counts the sources of the packets of some violations, in order of arrival."""
    start, end = rows.column("arrival")[0].as_py(), rows.column("arrival")[-1].as_py() + 1
    late = rows.select(["capture", "position", "lateness"])
    # A range of timestamps that is empty leaves the records that arrive here.
    read = read_packets(lake, link, captures, settings, end, start, end, SOURCE)
    found = [pa.Table.from_batches([batch]).join(late, ["capture", "position"], join_type="inner") for batch in read]
    counts = pa.concat_tables(found).group_by(SOURCE).aggregate([("lateness", "count"), ("lateness", "max")])
    return [_sender(row) for row in counts.to_pylist()]


def _sender(row: dict[str, Any]) -> Offender:
    words = [row[name] for name in SOURCE]
    name = format_ip(ip_from_words(*(word or 0 for word in words))) if words[-1] is not None else ""
    return Offender(name, row["lateness_count"], None, row["lateness_max"])
