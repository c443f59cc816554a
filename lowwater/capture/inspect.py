"""Facts of a capture: packets, times, rates, order, gaps, protocols, lateness; doubts about its times; and its
identity.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lowwater.capture.content import packet_hashes, retention
from lowwater.capture.formats import capture_file, classic, sources
from lowwater.capture.headers.undecoded import NOTHING, Share, Undecoded
from lowwater.capture.reader import CaptureReader, by_time, digest, read
from lowwater.capture.records import duplicates, stream
from lowwater.capture.records.facts import CaptureSummary, Interface, InterfaceSummary
from lowwater.capture.records.parts import IN_FILE, ReadingOrder
from lowwater.catalog.schemas import PACKET_HASH
from lowwater.catalog.time import is_late
from lowwater.instants import HOUR, SECOND, format_instant

# Lateness and silences, in bounded memory

QUANTILE_ERROR = 0.01
"""Largest relative error of a quantile of `Lateness`, beside half a nanosecond. Maximum and counts are exact."""

GAPS = 5
"""Number of silences that are reported, the longest ones."""

_GROWTH = (1 + QUANTILE_ERROR) / (1 - QUANTILE_ERROR)
_BUCKETS = ceil(63 * np.log(2) / np.log(_GROWTH)) + 2


class Lateness:
    """Histogram of lateness (arrival - timestamp, ns). Its bucket bounds grow by a constant factor (DDSketch).

    Attributes:
        late: number of records out of order: with a lateness above 0.
        largest: largest lateness, ns; a skew of this length admits all records.
        refused: number of records later than the skew.
    """

    def __init__(self, skew: int) -> None:
        self.records = self.late = self.largest = self.refused = 0
        self._skew = skew
        self._counts: NDArray[np.int64] = np.zeros(_BUCKETS, np.int64)

    def add(self, arrivals: NDArray[np.int64], timestamps: NDArray[np.int64]) -> None:
        """Counts records by their lateness; at least one record, ns."""
        lateness = arrivals - timestamps
        self.records += len(lateness)
        largest = int(lateness.max())
        if not largest:
            return
        self.largest = max(self.largest, largest)
        self.refused += int(np.count_nonzero(is_late(arrivals, timestamps, self._skew)))
        late = lateness[lateness > 0]
        self.late += len(late)
        buckets = np.ceil(np.log(late) / np.log(_GROWTH)).astype(np.int64)
        self._counts += np.bincount(buckets, minlength=_BUCKETS)

    def quantile(self, share: float) -> int | None:
        """Returns the smallest lateness (ns) that this share of the records does not exceed; None without records."""
        if not self.records:
            return None
        rank = ceil(share * self.records) - (self.records - self.late)
        if rank <= 0:
            return 0
        bucket = int(np.searchsorted(np.cumsum(self._counts), rank))
        # (bound / growth, bound] lies within the relative error of this value.
        middle = 2 * _GROWTH**bucket / (1 + _GROWTH)
        return min(round(middle), self.largest)


class Gaps:
    """The longest silences between arrivals."""

    def __init__(self, most: int = GAPS) -> None:
        self._most = most
        self._heap: list[tuple[int, int]] = []  # (length, -start): of equal lengths the earlier one is larger
        self._clock: int | None = None

    def add(self, arrivals: NDArray[np.int64]) -> None:
        """Adds the next arrivals (ns, never decreasing); at least one."""
        instants = arrivals if self._clock is None else np.concatenate([[self._clock], arrivals])
        self._clock = int(arrivals[-1])
        lengths = np.diff(instants)
        least = self._heap[0][0] if len(self._heap) == self._most else 0
        longer = np.flatnonzero(lengths > least)
        # A stable sort keeps the earlier one first among equal lengths.
        chosen = longer[np.argsort(-lengths[longer], kind="stable")[: self._most]]
        for at in chosen.tolist():
            heapq.heappush(self._heap, (int(lengths[at]), -int(instants[at])))
            if len(self._heap) > self._most:
                heapq.heappop(self._heap)

    def longest(self) -> tuple[tuple[int, int], ...]:
        """Returns (start, length) of the longest silences, ns, the longest first."""
        return tuple((-start, length) for length, start in sorted(self._heap, reverse=True))


# Facts of a capture

STDIN = Path("-")
"""Path that stands for standard input."""

QUANTILES = (0.5, 0.9, 0.99, 0.999)
PROTOCOLS = {"tcp": (6,), "udp": (17,), "icmp": (1, 58)}
_ARP = 0x0806

_COLUMNS = ("timestamp", "arrival", "len", "caplen", "ether_type", "vlan_id", "ipversion", "protocol", "tunnel")


@dataclass
class InterfaceFacts:
    """Facts of one interface of a capture. Instants and durations are ns, lengths bytes; only sane records count.

    Attributes:
        interface: number, name, link type and snaplen.
        malformed: number of malformed rows by reason, see `facts.Malformed`.
        lateness: how far the records are behind the clock of the interface.
        gaps: longest silences between arrivals.
        captured: bytes of the frames in the file.
        wire: bytes of the frames on the wire.
        truncated: records with fewer bytes captured than on the wire.
        families: packets by version of the outermost IP header, 4 or 6.
        protocols: packets by `tcp`, `udp`, `icmp` (with ICMPv6), `arp` and `other`.
        vlans: packets by VLAN of the outermost tag.
        tunnels: packets by IP protocol or UDP port of the outermost tunnel.
        copies: counts the copies of packets; None where they are not looked for.
        spool: finds copies of packets of other interfaces and files; None where they are not looked for.
        link: number of the interface in the spool.
        elsewhere: packets that another interface or file has earlier; None until all are read.
        summary: packets, first and last instant; None until the end of the file.
        largest_part: largest sub-second, ns; None where it is not looked for.
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
    copies: duplicates.DuplicateCounter | None = None
    spool: duplicates.DuplicateSpool | None = None
    link: int = 0
    elsewhere: int | None = None
    summary: InterfaceSummary | None = None
    largest_part: int | None = None

    @property
    def packets(self) -> int:
        """Number of sane records."""
        return self.lateness.records

    @property
    def duration(self) -> int | None:
        """Duration from the smallest to the largest timestamp, ns; None without packets."""
        summary = self.summary
        if summary is None or summary.smallest is None or summary.largest is None:
            return None
        return summary.largest - summary.smallest

    @property
    def not_decoded(self) -> Share:
        """What of its packets may carry IP and is not decoded."""
        return Share.of(self.summary.types, self.packets, self.summary.wire) if self.summary else NOTHING

    def rate(self, amount: int) -> float | None:
        """Returns an amount per second of the duration; None if the duration is 0 or unknown."""
        return amount * 1e9 / self.duration if self.duration else None

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds a batch with the columns `_COLUMNS`, and with hashes where copies are looked for, to the facts."""
        stamps, arrivals = _numbers(batch, "timestamp"), _numbers(batch, "arrival")
        if self.copies is not None:
            high, low = (_numbers(batch, name) for name in PACKET_HASH)
            admitted = self.copies.add(duplicates.Hashed(high, low, stamps), arrivals)
            if self.spool is not None:
                self.spool.add(self.link, admitted)
        self.add_times(stamps, arrivals)
        lengths, captured = _numbers(batch, "len"), _numbers(batch, "caplen")
        self.captured += int(captured.sum(dtype=np.int64))
        self.wire += int(lengths.sum(dtype=np.int64))
        self.truncated += int(np.count_nonzero(captured < lengths))
        self.families.update(_counts(batch, "ipversion"))
        self.vlans.update(_counts(batch, "vlan_id"))
        self.tunnels.update(_counts(batch, "tunnel"))
        numbers = _counts(batch, "protocol")
        counts = {name: sum(numbers.get(number, 0) for number in protocol) for name, protocol in PROTOCOLS.items()}
        counts["arp"] = _counts(batch, "ether_type").get(_ARP, 0)
        self.protocols.update({**counts, "other": batch.num_rows - sum(counts.values())})

    def add_times(self, stamps: NDArray[np.int64], arrivals: NDArray[np.int64]) -> None:
        """Adds timestamps and arrivals (ns) of at least one record to the facts."""
        self.lateness.add(arrivals, stamps)
        self.gaps.add(arrivals)
        if self.largest_part is not None:
            self.largest_part = max(self.largest_part, int((stamps % SECOND).max()))


@dataclass(frozen=True)
class CaptureFacts:
    """Facts of a capture.

    Attributes:
        path: path of the file; `STDIN` for standard input.
        summary: summary of the whole file: sizes, SHA-256, damage.
        malformed_bytes: number of bytes of malformed records.
        resolution: unit of its times according to the file, as `CaptureFile.resolution`.
        read_as: value of the setting `resolution` by which it was read.
        doubted: why it was read by another one than `file`.
        beginning: what of its first packets may carry IP and is not decoded, where its times alone were read.
    """

    path: Path
    summary: CaptureSummary
    interfaces: tuple[InterfaceFacts, ...]
    malformed_bytes: int
    resolution: str = ""
    read_as: str = "file"
    doubted: str = ""
    beginning: Share = NOTHING

    @property
    def accounted(self) -> bool:
        """Whether the bytes of records, malformed rows and overhead add up to the size of the file."""
        summary = self.summary
        return summary.record_bytes + self.malformed_bytes + summary.overhead == summary.unpacked + summary.skipped

    def earliest(self, skew: int) -> int | None:
        """Returns the smallest timestamp (ns) that a link with this skew admits; None without a record.

        A refused record does not move the begin of the link: its clock may have been wrong by years.
        """
        summaries = [interface.summary for interface in self.interfaces if interface.summary]
        smallest = [
            max(summary.smallest, summary.first - skew)
            for summary in summaries
            if summary.smallest is not None and summary.first is not None
        ]
        return min(smallest, default=None)

    @property
    def largest(self) -> int | None:
        """The largest timestamp, ns; None without a record."""
        summaries = [interface.summary for interface in self.interfaces if interface.summary]
        return max((summary.largest for summary in summaries if summary.largest is not None), default=None)


def inspect(
    path: Path,
    max_jump: int,
    skew: int,
    progress: Callable[[int], None] = lambda packets: None,
    window: int | None = None,
    compared: str = packet_hashes.CONTENT,
    spool: duplicates.DuplicateSpool | None = None,
) -> CaptureFacts:
    """Reads a capture once and returns its facts. Accepts any number of malformed records.
    Raises CaptureError if the file is not a capture, or cannot be read.

    Args:
        path: path of the file, or `STDIN`.
        window: longest time from a packet to its copies on the same interface, ns; None to count no copies (D2).
        compared: bytes that are equal in copies (D1): `content` or `packet`.
        spool: takes the hashes of the packets of each interface; None for no copies across interfaces.
    """
    columns, content = list(_COLUMNS), retention.NOTHING
    if window is not None:
        columns, content = [*_COLUMNS, *PACKET_HASH], retention.ContentOptions(compared=compared)
    numbers: dict[tuple[str, int], int] = {}  # of the interfaces in the spool

    def inspected(order: ReadingOrder, sha256: str | None) -> CaptureFacts:
        name = "/dev/stdin" if path == STDIN else path
        reader = read(name, max_jump, sha256=sha256, content=content, columns=columns, order=order)

        def facts_of(interface: Interface) -> InterfaceFacts:
            counter = None if window is None else duplicates.DuplicateCounter(window, skew)
            key = interface.name, interface.link_number
            if spool is not None and key not in numbers:
                numbers[key] = spool.link()
            taking, link = None if order else spool, numbers.get(key, 0)  # it takes records in any order, and once
            return InterfaceFacts(
                interface, Lateness(skew), copies=counter, spool=taking, link=link, largest_part=_no_part(reader)
            )

        reader.malformed.count_only()
        facts_by_index: dict[int, InterfaceFacts] = {}
        packets = 0
        for interface, batch in reader.by_interface():
            if interface.index not in facts_by_index:
                facts_by_index[interface.index] = facts_of(interface)
            facts_by_index[interface.index].add(batch)
            packets += batch.num_rows
            progress(packets)
        return _finished(path, reader, facts_by_index, facts_of)

    return inspected(IN_FILE, None) if path == STDIN else by_time(inspected, lambda facts: facts.summary)


_BEGINNING, _FIRST = 1 << 20, 5000  # bytes that are read at a time, and packets that are enough


def undecoded_beginning(path: Path, max_jump: int) -> Share:
    """Returns what of the first packets of a capture may carry IP and is not decoded.
    Raises CaptureError if the file is not a capture, or cannot be read."""
    reader = read(path, max_jump, _BEGINNING, sha256="", columns=("ipversion",))
    with closing(reader.by_interface()) as batches:
        packets = 0
        for _, batch in batches:
            packets += batch.num_rows
            if packets >= _FIRST:
                break
    total = Undecoded()
    for counted in reader.undecoded().values():
        total.merge(counted)
    return Share.of(total.types, packets, total.wire)


def inspect_times(path: Path, max_jump: int, skew: int, resolution: str = "file") -> CaptureFacts:
    """Reads a capture once and returns the facts of its times; it decodes no headers.

    Lengths, families, protocols, VLANs and tunnels stay empty, and so does the SHA-256 of the summary.

    Args:
        resolution: unit of its times: `file` for that of the file, `microseconds` or `nanoseconds`.

    Raises:
        CaptureError: the file is not a capture, or cannot be read.
    """

    content = retention.ContentOptions(resolution=retention.RESOLUTIONS[resolution])

    def inspected(order: ReadingOrder, _: str | None) -> CaptureFacts:
        def facts_of(interface: Interface) -> InterfaceFacts:
            return InterfaceFacts(interface, Lateness(skew), largest_part=_no_part(reader))

        reader = read(path, max_jump, sha256="", content=content, order=order)
        reader.malformed.count_only()
        facts_by_index: dict[int, InterfaceFacts] = {}
        for span in reader.spans():
            clocks = reader.clocks()
            for number, chosen in reader.split_by_interface(span):
                if number not in facts_by_index:
                    facts_by_index[number] = facts_of(reader.interfaces[number])
                stamps = stream.select_records(span, chosen)[classic.STAMP]
                facts_by_index[number].add_times(stamps, np.maximum(np.maximum.accumulate(stamps), clocks[number]))
            reader.count(span)
        return replace(_finished(path, reader, facts_by_index, facts_of), read_as=resolution)

    return by_time(inspected, lambda facts: facts.summary)


def _no_part(reader: CaptureReader) -> int | None:
    """Returns 0 if the largest sub-second may say that the file has microseconds where it says nanoseconds."""
    return 0 if (reader.header.format, reader.header.resolution) == ("pcap", "ns") else None


def _finished(
    path: Path,
    reader: CaptureReader,
    facts_by_index: dict[int, InterfaceFacts],
    facts_of: Callable[[Interface], InterfaceFacts],
) -> CaptureFacts:
    assert reader.summary is not None
    for summary in reader.summary.interfaces:
        if summary.interface.index not in facts_by_index:
            facts_by_index[summary.interface.index] = facts_of(summary.interface)
        facts = facts_by_index[summary.interface.index]
        if facts.copies is not None:
            facts.copies.finish()
        facts.interface, facts.summary = summary.interface, summary
    for (number, reason), count in reader.malformed.reasons.items():
        facts_by_index[number].malformed[reason] = count
    interfaces = tuple(facts for _, facts in sorted(facts_by_index.items()))
    return CaptureFacts(path, reader.summary, interfaces, reader.malformed.bytes, reader.header.resolution)


def _numbers(batch: pa.RecordBatch, name: str) -> NDArray[np.int64]:
    values: NDArray[np.int64] = batch.column(name).to_numpy()
    return values


def _counts(batch: pa.RecordBatch, name: str) -> dict[int, int]:
    """Counts the rows of a column by value, without NULL; empty if the batch has no such column."""
    if name not in batch.schema.names or batch.column(name).null_count == batch.num_rows:
        return {}
    value_counts = pc.value_counts(batch.column(name).drop_null())
    return dict(zip(value_counts.field(0).to_pylist(), value_counts.field(1).to_pylist(), strict=True))


# Doubtful times: sub-seconds in another unit than the file says, and clocks that jump by years. `inspect`, `init`,
# `ingest`, `run` and the audit say them. Nothing is corrected unless the setting `resolution` says so.

YEAR = 365 * 24 * HOUR
_DAY = 24 * HOUR
_LEAST = 100
"""Fewest records whose sub-seconds, all below a thousandth, are no chance."""


@dataclass(frozen=True)
class Doubt:
    """A doubt about the times of a capture.

    Attributes:
        resolution: value of the setting `resolution` that reads the file otherwise; empty if none does.
        impossible: whether the file cannot be right as it is.
    """

    words: str
    resolution: str = ""
    impossible: bool = False


def subsecond_words(count: int, records: int) -> str:
    """Says how many sub-seconds of a file, or of an interval, exceed a second; empty for none.

    Example:
        >>> subsecond_words(3, 1000)
        '3 of 1,000 sub-seconds exceed a second'
        >>> subsecond_words(998, 1000)
        '998 of 1,000 sub-seconds exceed a second: these look like nanoseconds (resolution = "nanoseconds" of the link)'
    """
    if not count:
        return ""
    words = f"{count:,} of {records:,} sub-seconds exceed a second"
    return f"{words}: {_look_like('nanoseconds')}" if 2 * count >= records else words


def doubts(facts: CaptureFacts) -> list[Doubt]:
    """Lists the doubts about a capture, the impossible first."""
    found: list[Doubt] = []
    records = sum(interface.packets + sum(interface.malformed.values()) for interface in facts.interfaces)
    parts = sum(interface.malformed["sub-second"] for interface in facts.interfaces)
    if parts:
        likely = 2 * parts >= records
        found.append(Doubt(subsecond_words(parts, records), "nanoseconds" if likely else "", likely))
    beyond = sum(interface.malformed["time-range"] for interface in facts.interfaces)
    if facts.resolution == "us" and facts.summary.format == "pcapng" and 2 * beyond >= records > 0:
        words = f"{beyond:,} of {records:,} times are out of range: {_look_like('nanoseconds')}"
        found.append(Doubt(words, "nanoseconds", True))
    if facts.resolution == "ns":
        found += _finer(facts)
    for interface in facts.interfaces:
        for start, length in sorted(interface.gaps.longest()):
            if length >= YEAR:
                years = f"{length / YEAR:.1f}".removesuffix(".0")
                bounds = f"from {format_instant(start)} to {format_instant(start + length)}"
                found.append(Doubt(f"its clock jumps by {years} years, {bounds}: was it not set before?"))
    return found


def _finer(facts: CaptureFacts) -> list[Doubt]:
    """Lists doubts about a file that says nanoseconds and may have microseconds."""
    packets = facts.summary.packets
    bounds = [part.summary for part in facts.interfaces if part.summary and part.summary.smallest is not None]
    if facts.summary.format == "pcap":
        part = max((interface.largest_part or 0 for interface in facts.interfaces), default=0)
        if packets >= _LEAST and 0 < part < SECOND // 1000:
            words = f"all {packets:,} sub-seconds are below a millisecond: {_look_like('microseconds')}"
            return [Doubt(words, "microseconds")]
    elif facts.summary.format == "pcapng" and bounds:
        first, last = min(bound.smallest or 0 for bound in bounds), max(bound.largest or 0 for bound in bounds)
        if first >= _DAY * 10 and last < _DAY * 50:  # 1997 to 2106, in microseconds that are taken for nanoseconds
            words = f"its times begin at {format_instant(first)}, in microseconds at {format_instant(first * 1000)}"
            return [Doubt(f"{words}: {_look_like('microseconds')}", "microseconds")]
    return []


def _look_like(unit: str) -> str:
    return f'these look like {unit} (resolution = "{unit}" of the link)'


# Identity of a file that is not ingested (SEMANTICS T5)

_PIECE = 1 << 20


def identity_of(path: Path) -> str:
    """Returns the identity of a capture, which is read to its end.
    Raises CaptureError if it is no capture, or cannot be read."""

    def facts(order: ReadingOrder, _: str | None) -> CaptureSummary:
        reader = read(path, 0, sha256="", identified=True, order=order)
        for span in reader.spans():
            reader.count(span)
        assert reader.summary is not None
        return reader.summary

    return by_time(facts, lambda summary: summary).identity


def digests_of_records(path: Path) -> tuple[str, str]:
    """Returns the sha256 of a file of other records, and its identity: the sha256 of its content, decompressed.
    Raises OSError if it cannot be read."""
    with path.open("rb") as file:
        compressed = sources.compression_of(file.read(capture_file.FILE_HEADER))
    if not compressed:
        sha256 = digest(path)
        return sha256, sha256
    content, buffer = hashlib.sha256(), bytearray(_PIECE)
    with closing(sources.DecompressedSource(sources.open_source(path)[1], hashed=True)) as source:
        while count := source.readinto(memoryview(buffer)):
            content.update(memoryview(buffer)[:count])
        return source.sha256(), source.sha256() if source.damage else content.hexdigest()
