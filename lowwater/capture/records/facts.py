"""What reading a capture tells besides its packets: its interfaces, its damage, its sums.

Below the reader: `malformed` rows and the summary go to the ledgers, interfaces become links.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Interface:
    """One interface of a capture; a classic pcap has one without a name.

    In a pcapng it is the same one in every section, and whatever its resolution, if name and link type are the same.

    Attributes:
        index: its number in `CaptureReader.interfaces`.
        name: as in the file, or an empty string; in a pcapng that does not name it, its index in its section.
        link_number: link type, as in the file; -1 where a pcapng declares no interface at all.
        link_type: its name, or the number as text where it has none here.
        snaplen: largest captured length, as in the file (untrusted; 0 for no limit).
    """

    index: int
    name: str
    link_number: int
    link_type: str
    snaplen: int


@dataclass(frozen=True)
class Malformed:
    """Bytes of a capture that are not a whole sane record.

    Reasons of records whose bytes are whole:

    * `time-range`, `time-jump`: as SEMANTICS T3 says; `time-range` too where a pcapng time is beyond 63 bits of ns.
    * `wire-length`: the length on the wire is 2^31 or more.
    * `no-time`: a simple packet block, which has none. Any other record's time would be an invention, and would decide
      which interval the packet belongs to.
    * `interface`: a packet of an interface that its section has not declared, or of one beyond the
      4,096th that is told apart, or the 65,536th of its section.
    * `captured`: the captured length is more than the packet block holds.

    Reasons of what is no record:

    * `length`: in a classic pcap, the captured length is beyond `CaptureFile.limit`; `block`: in a pcapng, the lengths
      of a block are below the minimum, above 16 MiB, or disagree. The row reaches to where records go on, or to the
      end. They go on where `CHAIN` (4) record headers or blocks of known kinds follow one another, or at least one and
      then the end of the file (`scan.search` and `pcapng.search.search` say what is believed). Fewer records between
      two damages are part of the row. A payload that holds a capture is looked into only where it lies in damage.
    * `cut`: the file ends inside the record, and nothing that is a record follows in it.
    * `compression`: the file cannot be decompressed to its end. Its length is that of the record that this cuts (0
      between records, and after damage to the end; there `position` is None) plus `CaptureSummary.skipped`.

    Of a capture at most `malformed.MOST_ROWS` (4,194,304) are kept: more are a `CaptureError`, except where one only
    counts them (`MalformedRows.count_only`), as `inspect` does.

    Attributes:
        position: number of the record in the capture, counted from 0 over all records, a stretch of damage being one;
            None where it is not known.
        offset: where the bytes begin in the file; in what it holds, where it is compressed.
        length: how many they are, record header included.
        reason: one of those below.
        arrival: largest sane timestamp of its interface before it, ns; None if there is none.
        interface: number of its interface; 0 where it is not known.
    """

    position: int | None
    offset: int
    length: int
    reason: str
    arrival: int | None
    interface: int = 0


@dataclass(frozen=True)
class InterfaceSummary:
    """What an interface of a capture turned out to hold.

    Attributes:
        interface: which one.
        packets: number of sane records.
        undecoded: those of them without an IPv4 or IPv6 header; 0 as long as nothing was decoded.
        malformed: number of malformed rows.
        first: timestamp of the first sane record, ns; None if there is none, as the next four.
        last: that of the last one.
        smallest: the smallest one.
        largest: the largest one.
        median: the lower median; None of all beyond the 256th interface, too.
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


@dataclass(frozen=True)
class CaptureSummary:
    """What a capture turned out to hold, known once it is read.

    The bytes of its sane records, of its malformed rows and of everything else (`overhead`) are together
    `unpacked + skipped`.

    Attributes:
        sha256: of the file as it is stored, hex.
        bytes: its size, as it is stored.
        format: `pcap` or `pcapng`.
        interfaces: one summary each; one at least.
        record_bytes: bytes of sane records, headers included.
        overhead: bytes of file headers, and of blocks that are no packets.
        ended_cleanly: whether the file ends where a record ends, all of it decompressed. Damage that records follow
            changes nothing: the end is whole, so the capture covers what it declares (SEMANTICS T5), and the damage
            is a malformed row.
        largest_ahead: how far ahead of its median the farthest sane record is (SEMANTICS T3), ns, at least 0.
        smallest_jump: how far ahead of its median the nearest time-jump is, ns; None if there is none. Any `max_jump`
            in [largest_ahead, smallest_jump) gives the same rows.
        compression: `gzip`, `zstd`, `xz` or `lz4`; empty for a plain file.
        unpacked: bytes that were decompressed; `bytes` for a plain file.
        skipped: bytes of the file, as it is stored, that were not decompressed: from where its damage begins.
        damage: why decompression stopped there, empty where it did not.
        blocks: of a pcapng, blocks that are no packets, and comments of packets: how many of each kind there are.
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

    @property
    def packets(self) -> int:
        """Number of sane records."""
        return sum(each.packets for each in self.interfaces)

    @property
    def undecoded(self) -> int:
        """Those of them without an IPv4 or IPv6 header."""
        return sum(each.undecoded for each in self.interfaces)

    @property
    def malformed(self) -> int:
        """Number of malformed rows."""
        return sum(each.malformed for each in self.interfaces)
