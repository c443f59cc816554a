"""Who was late: captures and senders of the skew violations of a link in a stretch of time, and the first records.

Reads the ledger `skew_violations`, and for senders the packets that it names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lowwater.catalog.values import format_ip, ip_from_words
from lowwater.config import Link
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.captures import Capture, Captures
from lowwater.lake.ledgers.runs import read_violations
from lowwater.lake.packets import read_packets
from lowwater.quality.links.profile import SOURCE

FIRST = 10
"""First violations that are listed."""
MOST_NAMED = 20
"""Captures and senders that are listed."""
MOST_READ = 100_000
"""Violations whose packets are looked up."""


@dataclass(frozen=True)
class Offender:
    """A capture or sender of late records.

    Attributes:
        name: file name, or address; empty for records without an IP source.
        late: its late records.
        records: all of its records; None of a sender.
        largest: the largest lateness, ns.
    """

    name: str
    late: int
    records: int | None
    largest: int


@dataclass(frozen=True)
class LateRecord:
    """A violation: file name, number in the file from 0, timestamp and arrival (ns since the epoch), lateness (ns)."""

    capture: str
    position: int
    timestamp: int
    arrival: int
    lateness: int


@dataclass(frozen=True)
class Offenders:
    """The skew violations that arrive in a stretch of time.

    Attributes:
        late: their number.
        largest: the largest lateness, ns.
        captures: the captures with the most of them.
        senders: the senders with the most of the first `looked_up` of them.
        looked_up: violations whose packets were looked up.
        first: the first of them.
    """

    late: int
    largest: int
    captures: tuple[Offender, ...]
    senders: tuple[Offender, ...]
    looked_up: int
    first: tuple[LateRecord, ...]


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
    looked_up = rows.slice(0, MOST_READ)
    order = ("position", "timestamp", "arrival", "lateness")
    first = [
        LateRecord(names.get(row["capture"], ""), *(row[name] for name in order))
        for row in rows.slice(0, FIRST).to_pylist()
    ]
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
    arrivals = rows.column("arrival")
    start, end = arrivals[0].as_py(), arrivals[-1].as_py() + 1
    late: dict[str, dict[int, int]] = {}
    for row in rows.select(["capture", "position", "lateness"]).to_pylist():
        late.setdefault(row["capture"], {})[row["position"]] = row["lateness"]
    wanted = {capture: np.array(sorted(positions)) for capture, positions in late.items()}
    counts: dict[str, tuple[int, int]] = {}
    # A range of timestamps that is empty leaves the records that arrive here.
    for batch in read_packets(lake, link, captures, settings, end, start, end, SOURCE):
        capture = batch.column("capture")[0].as_py()
        if capture not in wanted:
            continue
        for row in batch.take(
            np.flatnonzero(np.isin(batch.column("position").to_numpy(), wanted[capture]))
        ).to_pylist():
            source = [row[name] for name in SOURCE]
            name = format_ip(ip_from_words(*(word or 0 for word in source))) if source[-1] is not None else ""
            number, largest = counts.get(name, (0, 0))
            counts[name] = number + 1, max(largest, late[capture][row["position"]])
    return [Offender(name, number, None, largest) for name, (number, largest) in counts.items()]
