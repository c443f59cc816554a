"""What a capture holds: packets, times, rates, order, gaps, protocols, damage, and what became of every byte.

Beside the lake: one pass of the reader over one file in bounded memory. `lowwater inspect` shows the facts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lowwater.capture.reader import CaptureReader, read
from lowwater.capture.records.facts import CaptureSummary, Interface, InterfaceSummary
from lowwater.capture.records.lateness import Gaps, Lateness

STDIN = Path("-")
"""The name of standard input."""

QUANTILES = (0.5, 0.9, 0.99, 0.999)
PROTOCOLS = {"tcp": (6,), "udp": (17,), "icmp": (1, 58)}
_ARP = 0x0806

_COLUMNS = ("timestamp", "arrival", "len", "caplen", "ether_type", "vlan_id", "ipversion", "protocol", "tunnel")


@dataclass
class InterfaceFacts:
    """What one interface of a capture holds. Instants and durations are ns, lengths bytes; only sane records count.

    Attributes:
        interface: number, name, link type and snaplen.
        malformed: reason -> rows, see `facts.Malformed`.
        lateness: the lateness of its records: how far each is behind the clock of the interface.
        gaps: the longest silences between arrivals.
        captured: bytes of its frames in the file.
        wire: bytes of its frames on the wire.
        truncated: records of which less was captured than was on the wire.
        families: 4 and 6 -> packets with an outermost IP header of that version.
        protocols: `tcp`, `udp`, `icmp` (ICMPv6 too), `arp`, `other` -> packets.
        vlans: VLAN of the outermost tag -> packets.
        tunnels: IP protocol or UDP port of the outermost tunnel -> packets.
        summary: packets, first and last, set at the end.
    """

    interface: Interface
    lateness: Lateness
    gaps: Gaps = field(default_factory=Gaps)
    malformed: Counter[str] = field(default_factory=Counter)
    captured: int = 0
    wire: int = 0
    truncated: int = 0
    families: Counter[int] = field(default_factory=Counter)
    protocols: Counter[str] = field(default_factory=Counter)
    vlans: Counter[int] = field(default_factory=Counter)
    tunnels: Counter[int] = field(default_factory=Counter)
    summary: InterfaceSummary | None = None

    @property
    def packets(self) -> int:
        """Number of sane records."""
        return self.lateness.records

    @property
    def duration(self) -> int | None:
        """From the smallest to the largest timestamp, ns; None without packets."""
        found = self.summary
        if found is None or found.smallest is None or found.largest is None:
            return None
        return found.largest - found.smallest

    def rate(self, amount: int) -> float | None:
        """An amount per second of the duration; None where that is 0."""
        return amount * 1e9 / self.duration if self.duration else None

    def add(self, batch: pa.RecordBatch) -> None:
        """Counts a batch with the columns of _COLUMNS."""
        stamps, arrivals = _numbers(batch, "timestamp"), _numbers(batch, "arrival")
        self.lateness.add(arrivals - stamps)
        self.gaps.add(arrivals)
        lengths, captured = _numbers(batch, "len"), _numbers(batch, "caplen")
        self.captured += int(captured.sum(dtype=np.int64))
        self.wire += int(lengths.sum(dtype=np.int64))
        self.truncated += int(np.count_nonzero(captured < lengths))
        self.families.update(_counts(batch, "ipversion"))
        self.vlans.update(_counts(batch, "vlan_id"))
        self.tunnels.update(_counts(batch, "tunnel"))
        numbers = _counts(batch, "protocol")
        found = {name: sum(numbers.get(number, 0) for number in known) for name, known in PROTOCOLS.items()}
        found["arp"] = _counts(batch, "ether_type").get(_ARP, 0)
        self.protocols.update({**found, "other": batch.num_rows - sum(found.values())})


@dataclass(frozen=True)
class CaptureFacts:
    """What a capture holds.

    Attributes:
        path: as given; STDIN for standard input.
        summary: the summary of the whole file: sizes, sha256, damage.
        interfaces: one entry each.
        malformed_bytes: the malformed bytes of its malformed rows.
    """

    path: Path
    summary: CaptureSummary
    interfaces: tuple[InterfaceFacts, ...]
    malformed_bytes: int

    @property
    def accounted(self) -> bool:
        """Whether records, malformed rows and overhead are together every byte of the file."""
        found = self.summary
        return found.record_bytes + self.malformed_bytes + found.overhead == found.unpacked + found.skipped


def inspect(
    path: Path, max_jump: int, skew: int, progress: Callable[[int], None] = lambda packets: None
) -> CaptureFacts:
    """Reads a capture once and says what it holds, however many malformed records that are.

    Args:
        path: the file, or STDIN.
        max_jump: how far ahead of its neighbours a timestamp may be, ns (SEMANTICS T3).
        skew: the bound whose refusals are counted, ns (T2).
        progress: is told the number of packets so far, batch by batch.

    Raises:
        CaptureError: it is no capture, or cannot be read.
    """
    reader = read("/dev/stdin" if path == STDIN else path, max_jump, columns=_COLUMNS)
    reader.malformed.count_only()
    found: dict[int, InterfaceFacts] = {}
    packets = 0
    for interface, batch in reader.by_interface():
        found.setdefault(interface.index, InterfaceFacts(interface, Lateness(skew))).add(batch)
        packets += batch.num_rows
        progress(packets)
    return _finished(path, reader, found, skew)


def _finished(path: Path, reader: CaptureReader, found: dict[int, InterfaceFacts], skew: int) -> CaptureFacts:
    assert reader.summary is not None
    for each in reader.summary.interfaces:
        facts = found.setdefault(each.interface.index, InterfaceFacts(each.interface, Lateness(skew)))
        facts.interface, facts.summary = each.interface, each
    for (number, reason), count in reader.malformed.reasons.items():
        found[number].malformed[reason] = count
    interfaces = tuple(facts for _, facts in sorted(found.items()))
    return CaptureFacts(path, reader.summary, interfaces, reader.malformed.bytes)


def _numbers(batch: pa.RecordBatch, name: str) -> NDArray[np.int64]:
    values: NDArray[np.int64] = batch.column(name).to_numpy()
    return values


def _counts(batch: pa.RecordBatch, name: str) -> dict[int, int]:
    """Value -> rows of a column, without NULL; nothing where the batch has no such column."""
    if name not in batch.schema.names or batch.column(name).null_count == batch.num_rows:
        return {}
    counted = pc.value_counts(batch.column(name).drop_null())
    return dict(zip(counted.field(0).to_pylist(), counted.field(1).to_pylist(), strict=True))
