"""Facts about a capture beside its packets: its interfaces, its damage, its totals.

The reader makes them. `malformed` rows and the summary go to the ledgers; interfaces become links.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lowwater.capture.headers.undecoded import Count
from lowwater.capture.records.drops import NO_DROPS, DeclaredDrops
from lowwater.capture.records.parts import IN_FILE, PartOverlap, ReadingOrder
from lowwater.catalog.time import is_hole


@dataclass(frozen=True)
class Interface:
    """An interface of a capture; a classic pcap has a single one without a name.

    Interfaces of a pcapng with the same name and link type are one, whatever their section and time resolution.

    Attributes:
        index: its number in `CaptureReader.interfaces`.
        name: the name in the file, as `link_names.interface_name` writes it. An interface without a name has its number
            as `link_names.unnamed` writes it: among such interfaces of its section, or the port of an ERF.
        link_number: link type number in the file; -1 if a pcapng declares no interface at all.
        link_type: name of the link type; its number as text if nobody lists it.
        snaplen: largest captured length according to the file (untrusted); 0 for no limit.
        shared: whether an interface of the file with another link type has its name.
    """

    index: int
    name: str
    link_number: int
    link_type: str
    snaplen: int
    shared: bool = False


def with_interface(interfaces: tuple[Interface, ...], new: Interface) -> tuple[Interface, ...]:
    """Adds an interface to those of a file."""
    named = next((place for place, each in enumerate(interfaces) if each.name == new.name), None)
    if named is None:
        return *interfaces, new
    first = replace(interfaces[named], shared=True)  # any others of the name are shared already
    return *interfaces[:named], first, *interfaces[named + 1 :], replace(new, shared=True)


@dataclass(frozen=True)
class Malformed:
    """A damaged record, or bytes that are no record.

    Reasons for records whose bytes are whole:

    * `time-range`, `time-jump`: see SEMANTICS T3; also `time-range` for a pcapng time beyond 63 bits of ns.
    * `sub-second`: in a pcap or snoop capture, a sub-second of two seconds or more.
    * `wire-length`: the length on the wire is 2^31 or more.
    * `no-time`: a simple packet block, which has no time. An invented time would decide the packet's interval.
    * `interface`: the packet's interface is not declared in its section, is beyond the 4,096th of the file, or beyond
      the 65,536th of its section.
    * `captured`: the captured length is larger than the packet block.

    Reasons for bytes that are no record:

    * `length`: in a classic pcap or a snoop capture, the captured length is beyond `CaptureFile.limit`; in a snoop
      capture, also a size of the record that does not fit its captured length. In an ERF file, a type that no record
      has, or a length of the record that is below that of its headers.
    * `block`: in a pcapng, the two lengths of a block disagree, are below the minimum or above 16 MiB.
    * `cut`: the file ends inside the record, and no record follows.
    * `compression`: the file cannot be decompressed to its end. The length counts the bytes of the record that is cut
      (0 between records) plus `CaptureSummary.skipped`. After damage that reaches to the end, `position` is None.

    A row `length` or `block` reaches to the next record, or to the end of the file. Reading continues where `CHAIN` (4)
    record headers, or blocks of known kinds, follow one another, or at least one and then the end of the file. See
    `classic.search` and `pcapng.search`. Fewer records between two damaged places belong to the row. A payload
    that holds a capture is searched only if it lies in damage.

    At most `limits.MALFORMED_ROWS` rows are stored for a capture; more raise a `CaptureError`. `inspect`
    only counts them (`MalformedRows.count_only`).

    Attributes:
        position: number of the record in the capture, from 0, over all records; a damaged place counts as one record.
            None if unknown.
        offset: offset of the first byte in the file; in a compressed file, in its decompressed content.
        length: number of bytes, record header included.
        reason: one of the reasons above.
        arrival: largest sane timestamp of the interface before it, ns; None if there is none.
        interface: number of its interface; 0 if unknown.
    """

    position: int | None
    offset: int
    length: int
    reason: str
    arrival: int | None
    interface: int = 0


@dataclass(frozen=True)
class Hole:
    """Bytes of a capture that are no record, as one of its interfaces has them (SEMANTICS T5).

    Attributes:
        offset: of its first byte in the file; in a compressed file, in its decompressed content.
        length: number of bytes; of several holes that were joined, their sum.
        before: the clock before it, ns; None if no record lies before it.
        after: timestamp of the first record behind it, ns; None without one.
        records: estimated number of the records that are lost.
        pause: longest time between two successive records around it, ns.
    """

    offset: int
    length: int
    before: int | None
    after: int | None
    records: int
    pause: int

    @property
    def is_gap(self) -> bool:
        """Whether coverage ends and begins there; else a few records are lost."""
        lasts = None if self.before is None or self.after is None else abs(self.after - self.before)
        return is_hole(self.length, lasts, self.pause)

    def span(self, covers: tuple[int, int]) -> tuple[int, int]:
        """Returns the time [since, until), ns, that is not covered for it, given what its capture covers by itself.
        While it lasts the clock may have stood, or gone back."""
        ends = [at for at in (self.before, self.after) if at is not None] or [covers[0]]
        since = covers[0] if self.before is None else min(ends)
        until = covers[1] if self.after is None else max(ends)
        return min(since, until), max(since, until, min(since, until) + 1)


@dataclass(frozen=True)
class InterfaceSummary:
    """Totals of one interface of a capture.

    Attributes:
        undecoded: number of sane records without an IPv4 or IPv6 header; 0 before decoding.
        first: timestamp of the first sane record, ns. This and the next four are None without a sane record.
        last: timestamp of the last sane record, ns.
        smallest: smallest timestamp, ns.
        largest: largest timestamp, ns.
        median: lower median timestamp, ns; also None beyond the 256th interface.
        lull: longest time between two successive arrivals, ns; 0 with a single record.
        drops: records that the capture says were lost.
        holes: damaged stretches, in file order; many are joined into at most `limits.CAPTURE_HOLES`.
        lag: largest lateness of a record by the clock of its capture, ns.
        wire: bytes of its packets on the wire; 0 before decoding.
        types: what the undecoded records have in place of an IP header (`headers.undecoded`); empty before decoding.
    """

    interface: Interface
    packets: int
    undecoded: int
    malformed: int
    first: int | None
    last: int | None
    smallest: int | None
    largest: int | None
    median: int | None
    lull: int | None = None
    drops: DeclaredDrops = NO_DROPS
    holes: tuple[Hole, ...] = ()
    lag: int | None = None
    wire: int = 0
    types: Mapping[str, Count] = field(default_factory=dict)


@dataclass(frozen=True)
class CaptureSummary:
    """Totals of a capture, complete once it is read.

    Bytes of sane records, of malformed rows and `overhead` add up to `unpacked + skipped`.

    Attributes:
        sha256: digest of the stored file, hex.
        bytes: size of the stored file.
        format: `pcap`, `pcapng`, `snoop` or `erf`.
        interfaces: a summary for every interface; at least one.
        record_bytes: bytes of sane records, headers included.
        overhead: bytes of file headers, and of blocks that are no packets.
        ended_cleanly: whether the file ends between two records and decompresses to its end. Damage with records after
            it does not count: the capture covers the time it declares (SEMANTICS T5).
        largest_ahead: largest lead of a sane record (SEMANTICS T3), ns, at least 0.
        smallest_jump: smallest lead of a time-jump, ns; None without one. Any `max_jump` in
            [largest_ahead, smallest_jump) gives the same rows.
        compression: `gzip`, `zstd`, `xz` or `lz4`; empty for a plain file.
        unpacked: number of decompressed bytes; `bytes` for a plain file.
        skipped: stored bytes that were not decompressed, from the damage to the end.
        damage: reason why decompression stopped; empty if it did not.
        blocks: in a pcapng or ERF file, the kind and the number of blocks that are no packets, and of packet comments;
            in the log of a tool, the type and the number of the records that are left out.
        identity: digest of the records, hex: equal in a compressed or rewritten copy (`records.stream`); empty if it
            was not asked for.
        head: digest of its first records, hex (`Identity.head`); empty if there are fewer, or it was not asked for.
        absent: of records that are no packets, the fields that the file lacks.
        unknown: then, columns of the file that no field reads.
        unread: then, sentences about fields whose values cannot be read.
        parts: number of captures, or sections, that the file has behind one another.
        order: the order in which they were read.
        by_time: their order by time, where they were read in another one.
        overlap: the longest one of a capture with those before it; None without one.
    """

    sha256: str
    bytes: int
    format: str
    interfaces: tuple[InterfaceSummary, ...]
    record_bytes: int
    overhead: int
    ended_cleanly: bool
    largest_ahead: int
    smallest_jump: int | None
    compression: str
    unpacked: int
    skipped: int
    damage: str
    blocks: tuple[tuple[str, int], ...] = ()
    identity: str = ""
    head: str = ""
    absent: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    parts: int = 1
    order: ReadingOrder = IN_FILE
    by_time: ReadingOrder = IN_FILE
    overlap: PartOverlap | None = None

    @property
    def packets(self) -> int:
        """Number of sane records."""
        return sum(summary.packets for summary in self.interfaces)

    @property
    def undecoded(self) -> int:
        """Number of sane records without an IPv4 or IPv6 header."""
        return sum(summary.undecoded for summary in self.interfaces)

    @property
    def malformed(self) -> int:
        """Number of malformed rows."""
        return sum(summary.malformed for summary in self.interfaces)
