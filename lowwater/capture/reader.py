"""Reads a capture as Arrow batches of sane records, and records damage as malformed rows; divides a file into chunks.

It reads the file header (only classic pcap, pcapng, snoop and ERF pass, others are refused with a remedy), finds and
checks the records (`records.stream`), decodes their headers (`headers.packet`) and summarises the file.
"""

from __future__ import annotations

import shutil
import struct
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.capture.content.retention import DECODER_VERSION, NOTHING, ContentOptions
from lowwater.capture.content.stored import ContentBuilder
from lowwater.capture.formats import classic, erf, pcapng, snoop
from lowwater.capture.formats.archives import archive_of
from lowwater.capture.formats.capture_file import ETHERNET, FILE_HEADER, SNOOP_HEADER, CaptureFile, link_name
from lowwater.capture.formats.joined import JoinedScanner
from lowwater.capture.formats.sources import (
    DecompressedSource,
    FileWindow,
    PeekableSource,
    RangesSource,
    compression_of,
    digest,
    open_source,
    unpacked_file,
)
from lowwater.capture.headers.packet import Memory
from lowwater.capture.headers.undecoded import Undecoded
from lowwater.capture.records.drops import ERF, DeclaredDrops, joined
from lowwater.capture.records.facts import CaptureSummary, Interface, InterfaceSummary, Malformed
from lowwater.capture.records.parts import IN_FILE, PartTimes, ReadingOrder
from lowwater.capture.records.stream import (
    DropsOfRecords,
    Identity,
    MalformedRows,
    RecordSpan,
    RecordStream,
    decode_span,
    divided,
    select_records,
    split_by_interface,
)
from lowwater.catalog.schemas import BATCH
from lowwater.errors import CaptureError
from lowwater.limits import BATCH_ROWS, CAPTURE_CHUNK_BYTES, CHUNK_INTERFACES, REORDERED_BYTES
from lowwater.storage.failures import hint_of

__all__ = [
    "BATCH",
    "DECODER_VERSION",
    "CaptureFile",
    "CaptureReader",
    "CaptureSummary",
    "ContentOptions",
    "Interface",
    "InterfaceSummary",
    "Malformed",
    "digest",
    "open_capture",
    "read",
]

SECTION_HEADER = b"\x0a\x0d\x0d\x0a"
"""The type of a pcapng section header, the same in either byte order."""

HEAD = 64 << 10
"""Maximum number of bytes of a pcapng that are searched for its first interface, and of another file for the first
records of ERF, which has no file header."""

_MAGIC = {
    b"\xd4\xc3\xb2\xa1": ("little", "us", False),
    b"\xa1\xb2\xc3\xd4": ("big", "us", False),
    b"\x4d\x3c\xb2\xa1": ("little", "ns", False),
    b"\xa1\xb2\x3c\x4d": ("big", "ns", False),
    b"\x34\xcd\xb2\xa1": ("little", "us", True),
    b"\xa1\xb2\xcd\x34": ("big", "us", True),
}
_ORDERS = {b"\x4d\x3c\x2b\x1a": "little", b"\x1a\x2b\x3c\x4d": "big"}
_AGAIN = "if it is still being written, read it again later; else copy it again"
UNREADABLE = "check the path and the disk; of a stream, what writes it"
_CONVERTED = "convert it: editcap -F pcap IN OUT"
_CONVERTED_NETMON = "convert it: `TZ=ZONE editcap -F pcap IN OUT`, in the time zone of the machine that captured it"
_REFUSED = {
    b"\x02\x21\x4c\x18": ("an lz4 file of the legacy format", "lz4 -d it first"),
    b"GMBU": ("a capture of Network Monitor 2", _CONVERTED_NETMON),
    b"RTSS": ("a capture of Network Monitor 1", _CONVERTED_NETMON),
}
_SNOOP = b"snoop\0\0\0"
_DATALINKS = {0: ETHERNET, 2: 6, 4: ETHERNET, 0x8000_0005: 226}
"""Link type by datalink type of snoop: IEEE 802.3, token ring, Ethernet, ipnet."""


def header_bytes(head: bytes) -> int:
    """Returns how many bytes `parse_header` needs, from the first 24 bytes of a capture."""
    return FILE_HEADER if head[:4] in _MAGIC or head.startswith(_SNOOP) else HEAD


def parse_header(path: Path, head: bytes, size: int, compression: str = "", damage: str = "") -> CaptureFile:
    """Parses the file header of a capture.

    Args:
        head: its first bytes, decompressed: as many as `header_bytes` returns, or all of a smaller file.
        size: stored size of the file, bytes.
        compression: name of the compression, or an empty string.
        damage: why decompression stopped early, or an empty string.

    Raises:
        CaptureError: the file is empty, cut in the header, not a capture, or of an unsupported format.
    """
    name = f"{path}, inside {compression}" if compression else str(path)
    if damage and len(head) < FILE_HEADER:
        raise CaptureError(
            f"{name}: cannot be decompressed: {damage}", "copy the file again, or decompress it by its own tool"
        )
    if not head:
        raise CaptureError(f"{name}: empty file (0 bytes), not a capture", _AGAIN)
    if inner := compression_of(head):
        raise CaptureError(f"{name}: compressed again, as {inner}, which is not supported", "decompress it once")
    for magic, (kind, remedy) in _REFUSED.items():
        if head.startswith(magic):
            raise CaptureError(f"{name}: {kind}, which is not supported", remedy)
    if (archive := archive_of(head)) is not None:
        raise CaptureError(f"{name}: {archive.what}, which is not read", archive.remedy(path))
    if head.startswith(_SNOOP):
        return _snoop(name, path, head, size, compression)
    if head[:4] not in _MAGIC and not head.startswith(SECTION_HEADER):
        if (link := erf.first_link(head)) is not None:
            kind = link_name(link) if link >= 0 else ""
            return CaptureFile(path, "erf", "little", "2^-32", link, kind, 0, size, compression, (0, 0))
        raise CaptureError(
            f"{name}: not a capture: it begins with {head[:4].hex(' ')}",
            "give a pcap, pcapng, snoop or ERF, plain or in gzip, zstd, xz or lz4; `capinfos FILE` may say what it is",
        )
    if len(head) < FILE_HEADER:
        raise _cut(name, head, FILE_HEADER)
    return (_section if head.startswith(SECTION_HEADER) else _classic)(name, path, head, size, compression)


def _cut(name: str, head: bytes, wanted: int) -> CaptureError:
    return CaptureError(f"{name}: cut inside the file header: {len(head)} of {wanted} bytes", _AGAIN)


def _snoop(name: str, path: Path, head: bytes, size: int, compression: str) -> CaptureFile:
    if len(head) < SNOOP_HEADER:
        raise _cut(name, head, SNOOP_HEADER)
    version, datalink = struct.unpack_from(">II", head, len(_SNOOP))
    if version != 2:
        raise CaptureError(f"{name}: snoop version {version} is not supported", _CONVERTED)
    if datalink not in _DATALINKS:
        raise CaptureError(f"{name}: a snoop capture of datalink type {datalink}, which is not supported", _CONVERTED)
    link = _DATALINKS[datalink]
    return CaptureFile(path, "snoop", "big", "us", link, link_name(link), 0, size, compression, (version, 0))


def _classic(name: str, path: Path, head: bytes, size: int, compression: str) -> CaptureFile:
    byte_order, resolution, modified = _MAGIC[head[:4]]
    order = "<" if byte_order == "little" else ">"
    major, minor, snaplen, network = struct.unpack(order + "4xHH8xII", head[:FILE_HEADER])
    if (major, minor) != (543, 0) and major != 2:
        raise CaptureError(
            f"{name}: pcap version {major}.{minor} is not supported",
            "2.x and 543.0 are read; is it damaged?",
        )
    link = network & 0x03FF_FFFF  # the upper bits are the length of the frame check sequence
    return CaptureFile(
        path,
        "pcap",
        byte_order,
        resolution,
        link,
        link_name(link),
        snaplen,
        size,
        compression,
        (major, minor),
        modified,
    )


def _section(name: str, path: Path, head: bytes, size: int, compression: str) -> CaptureFile:
    byte_order = _ORDERS.get(head[8:12], "")
    if not byte_order:
        raise CaptureError(
            f"{name}: a pcapng whose first section has no byte order: {head[8:12].hex(' ')}", "copy the file again"
        )
    major, minor = struct.unpack("<HH" if byte_order == "little" else ">HH", head[12:16])
    if major == 1 << 8:  # writers of an old draft swapped the bytes of both numbers
        major, minor = 1, minor >> 8
    if major != 1:
        raise CaptureError(f"{name}: pcapng version {major}.{minor} is not supported", "1.x is read; is it damaged?")
    first = pcapng.first_interface(head, byte_order == "big")
    number, snaplen, resolution = (first.link, first.snaplen, first.resolution) if first else (-1, 0, "")
    kind = link_name(number) if first else ""
    version = (major, minor)
    return CaptureFile(path, "pcapng", byte_order, resolution, number, kind, snaplen, size, compression, version)


@contextmanager
def open_with_header(
    capture: str | Path | Any, hashed: bool, order: ReadingOrder = IN_FILE
) -> Iterator[tuple[CaptureFile, PeekableSource, DecompressedSource | None]]:
    """Opens a capture and reads its header. Closes the capture only if the block fails.

    Args:
        capture: as `sources.open_source`.
        hashed: whether to compute the SHA-256 of a compressed file.
        order: how its parts are read; the content of a compressed file then goes through a temporary file.

    Yields:
        Header, source of the decompressed content from its first byte, and decompressor if the file is compressed.

    Raises:
        CaptureError: as `parse_header`, or the file cannot be read.
    """
    path, stream = open_source(capture)
    source, unpacked = PeekableSource(stream), None
    try:
        compression = compression_of(source.peek(FILE_HEADER))
        if compression:
            unpacked = DecompressedSource(source, hashed)
            source = PeekableSource(unpacked)
        if order:
            source = PeekableSource(RangesSource(unpacked_file(source) if unpacked else stream, order.ranges))
        head = source.peek(header_bytes(source.peek(FILE_HEADER)))
        damage = unpacked.damage if unpacked else ""
        yield parse_header(path, head, stream.size, compression, damage), source, unpacked
    except OSError as error:
        source.close()
        raise CaptureError(f"{path}: cannot be read: {error.strerror}", UNREADABLE) from error
    except BaseException:
        source.close()
        raise


def open_capture(path: str | Path) -> CaptureFile:
    """Reads the file header of a capture.

    Raises:
        CaptureError: as `parse_header`, or the file cannot be read.
    """
    with open_with_header(path, hashed=False) as (header, source, _):
        source.close()
        return header


_LAYOUTS: dict[str, Callable[[CaptureFile], classic.RecordLayout]] = {
    "pcap": erf.pcap_layout,
    "snoop": snoop.SnoopLayout.of,
}


def _layout_of(resolution: str, head: bytes) -> classic.RecordLayout | None:
    """Returns the layout of the records behind the header of a pcap or snoop; None if it is none that is read."""
    try:
        header = parse_header(Path(), head, 0)
    except CaptureError:
        return None
    return _layout(header, resolution)


def _layout(header: CaptureFile, resolution: str) -> classic.RecordLayout | None:
    make = _LAYOUTS.get(header.format)
    return make(replace(header, resolution=resolution or header.resolution)) if make else None


def _scanner(header: CaptureFile, content: ContentOptions) -> classic.Scanner:
    if (layout := _layout(header, content.resolution)) is not None:
        return JoinedScanner(layout, partial(_layout_of, content.resolution))
    if header.format == "erf":
        return erf.ErfScanner.of(header)
    scanner = pcapng.PcapngScanner.of(header)
    scanner.untimed, scanner.resolution = content.untimed, content.resolution
    return scanner


class CaptureReader:
    """Reads a capture in one pass. Iterate it once, for batches or with `by_interface`; see `read`.

    Attributes:
        summary: summary of the file; None until the iteration has ended.
        untimed: as `PcapngScanner.untimed` before the first record; None for other formats.
    """

    def __init__(
        self,
        capture: str | Path | Any,
        max_jump: int,
        chunk_bytes: int,
        sha256: str | None,
        content: ContentOptions = NOTHING,
        columns: Sequence[str] | None = None,
        identified: bool = False,
        order: ReadingOrder = IN_FILE,
    ) -> None:
        self._builder = ContentBuilder(content, columns)
        with open_with_header(capture, sha256 is None, order) as (header, source, unpacked):
            self.header: CaptureFile = header
            hashed = sha256 is None and unpacked is None
            self._window = FileWindow(source, max(chunk_bytes, FILE_HEADER), hashed)
            self._window.fill()
        scanner = _scanner(header, content)
        self.untimed = content.untimed if isinstance(scanner, pcapng.PcapngScanner) else None
        self.summary: CaptureSummary | None = None
        self._unpacked = unpacked
        self.malformed = MalformedRows(header.path)
        self._stream = RecordStream(self._window, scanner, max_jump, self.malformed)
        self._drops = DropsOfRecords(ERF if header.link_number == erf.LINK else header.format)
        self._sha256 = sha256
        self._identity = Identity() if identified else None
        self.order = order
        self._times = PartTimes()

    @property
    def scanner(self) -> classic.Scanner:
        """Scanner of the file, with its current position."""
        return self._stream.scanner

    @property
    def interfaces(self) -> tuple[Interface, ...]:
        """Interfaces found so far."""
        return self.scanner.interfaces

    def clocks(self) -> tuple[int, ...]:
        """Returns the largest sane timestamp of each interface so far, ns; -1 without one."""
        return tuple(tally.clock for tally in self._stream.judge.tallies)

    def clock(self, number: int) -> int:
        """Returns the largest sane timestamp of an interface so far, ns; -1 without one."""
        return self._stream.judge.tallies[number].clock

    def undecoded(self) -> dict[int, Undecoded]:
        """Returns what has no IP header so far, by number of the interface."""
        return {number: tally.undecoded for number, tally in enumerate(self._stream.judge.tallies)}

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for _, batch in self.by_interface():
            yield batch

    def by_interface(self) -> Generator[tuple[Interface, pa.RecordBatch]]:
        """Yields batches of decoded records, each of one interface."""
        for span in self.spans():
            for number, chosen in self.split_by_interface(span):
                tally = self._stream.judge.tallies[number]
                interface = self.interfaces[number]
                batch = decode_span(span, chosen, tally.clock, interface, self._builder, undecoded=tally.undecoded)
                tally.add(select_records(span, chosen)[classic.STAMP])
                yield interface, self._builder.select(batch)

    def spans(self) -> Generator[RecordSpan]:
        """Yields checked records without decoding them. The caller must add the sane ones to the tallies (`count`)."""
        try:
            for span in self._stream:
                self._drops.add(span, self._stream.judge.tallies)
                if self._identity is not None:
                    self._identity.add(span, len(self.interfaces))
                self._note_times(span)
                yield span
            self._finish()
        except OSError as error:
            raise CaptureError(
                f"{self.header.path}: cannot be read: {error.strerror}", hint_of(error, UNREADABLE)
            ) from error
        finally:
            self._window.close()
            for tally in self._stream.judge.tallies:
                tally.close()

    def _note_times(self, span: RecordSpan) -> None:
        parts = self.scanner.parts
        if len(span.sane) and (parts or not self._times.knows_first):  # most files are one capture
            begins, _ = self.scanner.extents(span.records)
            offsets = begins[span.sane] + (span.begin - int(begins[0]))
            stamps, numbers = (span.records[row][span.sane] for row in (classic.STAMP, classic.INTERFACE))
            self._times.add(stamps, offsets, numbers, parts, self.clock)

    def count(self, span: RecordSpan) -> None:
        """Adds the sane records of a span to the tallies without decoding them."""
        for number, chosen in self.split_by_interface(span):
            self._stream.judge.tallies[number].add(select_records(span, chosen)[classic.STAMP])

    def split_by_interface(self, span: RecordSpan) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Divides the sane records of a span by interface.

        Yields:
            Number of the interface, and indices of its records, at least one.
        """
        return split_by_interface(span, len(self.interfaces))

    def _drops_of(self, number: int) -> DeclaredDrops:
        """Returns what the capture says of records that an interface lost."""
        scanner, told = self.scanner, self._drops.drops(number)
        if isinstance(scanner, pcapng.PcapngScanner) and scanner.statistics is not None:
            return joined([told, scanner.statistics.drops(number)])
        return told

    def _finish(self) -> None:
        """Records damage after the last whole record, and computes the summary."""
        stream, packed = self._stream, self._unpacked
        rest, size = stream.rest, self._window.origin + self._window.end
        skipped, damage = (packed.skipped, packed.damage) if packed else (0, "")
        clock = stream.judge.tallies[0].clock
        if rest < size and not damage:
            stream.reject(stream.judge.position, rest, size - rest, "cut", clock)
        if damage:
            position = None if stream.damaged_to_end else stream.judge.position
            stream.reject(position, rest, size - rest + skipped, "compression", clock)
            if packed and skipped:
                ratio = size / max(packed.stored - skipped, 1)
                stream.judge.open_hole(rest, size - rest + skipped, size - rest + skipped * ratio)
        summaries, holes = zip(self.interfaces, stream.judge.tallies, strict=True), stream.judge.holes
        if self.order:
            stream.to_file_offsets(self.order)
        found = IN_FILE
        if not (self.order or damage):  # what was not decompressed lies behind the last part of the file
            found = self._times.order(self.scanner.parts, size)
        self.summary = CaptureSummary(
            sha256=self._sha256 or (packed or self._window).sha256(),
            bytes=packed.stored if packed else size,
            format=self.header.format,
            interfaces=tuple(
                replace(tally.summary(interface, holes.found(interface.index)), drops=self._drops_of(interface.index))
                for interface, tally in summaries
            ),
            record_bytes=stream.judge.record_bytes,
            overhead=self.scanner.overhead,
            ended_cleanly=not (stream.damaged_to_end or rest < size or damage),
            largest_ahead=stream.judge.timestamps.largest_ahead,
            smallest_jump=stream.judge.timestamps.smallest_jump,
            compression=self.header.compression,
            unpacked=size,
            skipped=skipped,
            damage=damage,
            blocks=self.scanner.blocks,
            identity="" if self._identity is None else self._identity.digest(self.interfaces, self.malformed),
            head="" if self._identity is None else self._identity.head(),
            parts=len(self.scanner.parts) + 1,
            order=self.order,
            by_time=found,
            overlap=self._times.overlap,
        )


def read(
    capture: str | Path | BinaryIO,
    max_jump: int,
    chunk_bytes: int = CAPTURE_CHUNK_BYTES,
    sha256: str | None = None,
    content: ContentOptions = NOTHING,
    columns: Sequence[str] | None = None,
    identified: bool = False,
    order: ReadingOrder = IN_FILE,
) -> CaptureReader:
    """Reads a capture in one pass and bounded memory: about four chunks, and the buffers of `compression`.

    Records of link types that `capture.headers.links` does not know have only timestamp, len and caplen.

    Args:
        capture: a classic pcap, pcapng, snoop or ERF file, plain or compressed with gzip, zstd, xz or lz4; the content
            tells which. Either its path, which may be a FIFO, or a blocking object with `readinto` or `read`, such as
            `sys.stdin.buffer` or `socket.makefile("rb")`. An object is read once to its end and not closed. If its
            compression is damaged, up to 64 KiB of stored bytes before the damage may be lost, because they cannot be
            read again.
        max_jump: how far ahead of the records around it a timestamp may be, ns (SEMANTICS T3).
        chunk_bytes: bytes read at a time.
        sha256: SHA-256 of the file, if known; None to compute it in a thread during decoding.
        columns: names and order of the returned columns, of `BATCH` and of retained content; None for all. Other
            columns are not decoded, except inputs of frames, texts and replaced addresses.
        order: how the captures that are joined in a regular file are read: `CaptureSummary.by_time` of a reader
            before, whose `sha256` is then given, too; see `by_time`.

    Returns:
        A reader to iterate once. It yields batches of `BATCH` (`catalog.schemas.RECORD` without `capture`) and of
        retained content: sane records in file order, in a pcapng by interface. After the iteration its `malformed` and
        `summary` are complete.

    Raises:
        ConfigError: a column does not exist.
        CaptureError: as `parse_header`, or the file cannot be read, or it has more than `limits.MALFORMED_ROWS`
            malformed records.

    Example:
        >>> from lowwater.capture import read
        >>> reader = read("main1.pcap", max_jump=61_000_000_000)  # doctest: +SKIP
        >>> sum(batch.num_rows for batch in reader)  # doctest: +SKIP
        6770
    """
    return CaptureReader(capture, max_jump, chunk_bytes, sha256, content, columns, identified, order)


_Result = TypeVar("_Result")


def by_time(
    read_once: Callable[[ReadingOrder, str | None], _Result], summary_of: Callable[[_Result], CaptureSummary]
) -> _Result:
    """Reads a regular file, and once more if the captures in it are joined in another order than that of their times.

    Args:
        read_once: reads the file to its end, given the order and the SHA-256, as for `read`.
        summary_of: the summary in its result.
    """
    result = read_once(IN_FILE, None)
    facts = summary_of(result)
    return read_once(facts.by_time, facts.sha256) if can_reorder(facts) else result


def can_reorder(facts: CaptureSummary) -> bool:
    """Whether a file that was read is to be read again by time: in another order, and, if it is compressed, with room
    to unpack it, which half of what is free must hold."""
    if not facts.by_time or not facts.compression:
        return bool(facts.by_time)
    return facts.unpacked <= min(REORDERED_BYTES, shutil.disk_usage(tempfile.gettempdir()).free // 2)


# Division into chunks. One pass over the file, without decoding, finds everything that depends on earlier bytes: the
# sane timestamps, the clocks and the digest. The decoding of a chunk then depends on its own bytes alone.

_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Clocks:
    """Largest sane timestamp of each interface at a place of a file, ns; -1 for none.

    Attributes:
        before: those at an earlier place, which several chunks share.
        since: those of the interfaces with records since then.
    """

    before: tuple[int, ...]
    since: Mapping[int, int]

    def __getitem__(self, number: int) -> int:
        return self.since.get(number, self.before[number] if number < len(self.before) else -1)


@dataclass(frozen=True, slots=True)
class CaptureChunk:
    """A part of a capture file without damage; picklable.

    Attributes:
        begin: offset of its first record in what is read.
        end: offset behind its last record.
        position: number of its first record in the capture.
        clocks: clocks of the interfaces before the chunk.
        insane: positions of its malformed records, ascending.
        scanner: the scanner at its first record.
        held: file that has the bytes of the chunk; None for the capture itself.
        base: offset in what is read of the first byte of `held`; of the capture itself, by how much offsets in what is
            read are larger than in the file (`parts.ReadingOrder`).
    """

    path: Path
    begin: int
    end: int
    position: int
    records: int
    clocks: Clocks
    insane: NDArray[np.int64]
    scanner: classic.Scanner
    held: Path | None = None
    base: int = 0


@dataclass(frozen=True)
class CaptureIndex:
    """Result of one pass over a capture without decoding.

    Attributes:
        chunks: the chunks in file order, with all sane records; empty for a compressed file.
        malformed: as `CaptureReader.malformed`.
        summary: as `CaptureReader.summary`, with `undecoded` 0.
    """

    chunks: tuple[CaptureChunk, ...]
    malformed: MalformedRows
    summary: CaptureSummary


def index(
    path: Path,
    max_jump: int,
    chunk_bytes: int = CAPTURE_CHUNK_BYTES,
    sha256: str | None = None,
    content: ContentOptions = NOTHING,
    identified: bool = True,
) -> CaptureIndex:
    """Indexes a capture file, in one call, in the order of its captures by time. Arguments as of `indexing`."""

    def once(order: ReadingOrder, known: str | None) -> CaptureIndex:
        steps = indexing(path, max_jump, chunk_bytes, known or sha256, content, order, identified)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                capture_index: CaptureIndex = end.value
                return capture_index

    return by_time(once, lambda result: result.summary)


def indexing(
    path: Path,
    max_jump: int,
    chunk_bytes: int = CAPTURE_CHUNK_BYTES,
    sha256: str | None = None,
    content: ContentOptions = NOTHING,
    order: ReadingOrder = IN_FILE,
    identified: bool = True,
) -> Generator[CaptureChunk, None, CaptureIndex]:
    """Indexes a capture file, and yields each chunk as soon as it is complete. Returns the whole index.

    Args:
        path: a capture file. A compressed one has no chunks: decode it with `read`.
        max_jump: as for `read`.
        chunk_bytes: approximate size of a chunk, bytes; a chunk ends between two records.
        sha256: as for `read`.
        content: as for `read`; of it, only the times matter here.
        order: as for `read`.
        identified: whether the summary has the identity of the capture, which takes a digest of each record.

    Raises:
        CaptureError: as `read`.
    """
    times = ContentOptions(untimed=content.untimed, resolution=content.resolution)
    size = min(chunk_bytes, CAPTURE_CHUNK_BYTES)
    reader = CaptureReader(path, max_jump, size, sha256, times, None, identified, order)
    builder, yielded = _ChunkBuilder(path, reader, chunk_bytes), 0
    for span in reader.spans():
        for part in divided(span, order.borders, reader.scanner):
            if not reader.header.compression:
                builder.add(part)
            reader.count(part)  # whose clocks the next part begins with
        yield from builder.chunks[yielded:]
        yielded = len(builder.chunks)
    builder.cut()
    yield from builder.chunks[yielded:]
    assert reader.summary is not None
    return CaptureIndex(tuple(builder.chunks), reader.malformed, reader.summary)


class _ChunkBuilder:
    """Builds the chunks of a capture from its spans.

    Args:
        size: approximate size of a chunk, bytes.
    """

    def __init__(self, path: Path, reader: CaptureReader, size: int) -> None:
        self.chunks: list[CaptureChunk] = []
        self._path = path
        self._reader = reader
        self._size = size
        self._next: CaptureChunk | None = None
        self._untimed = reader.untimed
        self._clocks: tuple[int, ...] = ()
        self._changed: set[int] = set()

    def add(self, span: RecordSpan) -> None:
        """Adds a span to the chunk, or begins a new chunk: once it is large, and after damage."""
        base = self._reader.order.shift(span.begin)
        if self._next and (span.after_damage or span.begin - self._next.begin >= self._size or base != self._next.base):
            self.cut()
        insane, count = _NONE, span.records.shape[1]
        if len(span.sane) < count:
            insane = np.setdiff1d(np.arange(count), span.sane, assume_unique=True) + span.position
        if self._next is None:
            clocks, scanner = self._now(), self._reader.scanner.at(span.begin)
            if isinstance(scanner, pcapng.PcapngScanner):
                scanner.untimed = self._untimed
            self._next = CaptureChunk(
                self._path, span.begin, span.end, span.position, count, clocks, insane, scanner, None, base
            )
        else:
            insane = np.concatenate([self._next.insane, insane]) if len(insane) else self._next.insane
            records = self._next.records + count
            self._next = replace(self._next, end=span.end, records=records, insane=insane)
        if len(self._reader.scanner.interfaces) > 1:
            self._changed.update(np.unique(span.records[classic.INTERFACE][span.sane]).tolist())
        elif len(span.sane):
            self._changed.add(0)
        if self._untimed is not None:
            self._untimed = pcapng.give_times(span.records, self._untimed)

    def _now(self) -> Clocks:
        """Returns the clocks before the next span."""
        if len(self._changed) > CHUNK_INTERFACES:
            self._clocks, self._changed = self._reader.clocks(), set()
        return Clocks(self._clocks, {number: self._reader.clock(number) for number in self._changed})

    def cut(self) -> None:
        """Ends the chunk, if there is one."""
        if self._next:
            self.chunks.append(self._next)
        self._next = None


def read_chunk(
    chunk: CaptureChunk,
    content: ContentOptions = NOTHING,
    memory: Memory | None = None,
    undecoded: dict[int, Undecoded] | None = None,
    columns: Sequence[str] | None = None,
) -> Iterator[tuple[Interface, pa.RecordBatch]]:
    """Decodes the sane records of a chunk.

    Args:
        columns: as for `read`.
        memory: buffers to decode into, for one reader at a time; the next batch then overwrites the last one.
        undecoded: counts what has no IP header, by number of the interface.

    Yields:
        An interface and a batch of it: the rows of `CaptureReader.by_interface`, in batches of other sizes.

    Raises:
        CaptureError: if the file cannot be read, or has changed since it was indexed.
    """
    memory, builder = memory or Memory(again=False), ContentBuilder(content, columns)
    buffer, scanner = _load(chunk, memory), chunk.scanner.at(chunk.begin)
    # Batches of equal size: whoever makes pages of a small batch has to copy it.
    records = memory.records(-(-chunk.records // -(-chunk.records // BATCH_ROWS)))
    clocks: dict[int, int] = {}
    position, at, stopped = chunk.position, 0, classic.FULL
    while stopped == classic.FULL:
        count, at, stopped = scanner.scan(buffer, at, len(buffer), records, 0)
        numbers = np.arange(position, position + count)
        sane = np.flatnonzero(~np.isin(numbers, chunk.insane)) if len(chunk.insane) else np.arange(count)
        span = RecordSpan(buffer, records[:, :count], sane, position, chunk.begin, chunk.begin + at, False)
        for number, chosen in split_by_interface(span, len(scanner.interfaces)):
            interface = scanner.interfaces[number]
            # Batches of interfaces with one name stay until they are merged.
            own = Memory(again=False) if interface.shared else memory
            clock = clocks.get(number, chunk.clocks[number])
            counted = None if undecoded is None else undecoded.setdefault(interface.index, Undecoded())
            batch = decode_span(span, chosen, clock, interface, builder, own, counted)
            if "arrival" in batch.schema.names:
                clocks[number] = batch.column("arrival")[-1].as_py()
            yield interface, builder.select(batch)
        position += count
    if at != len(buffer):
        raise _changed(chunk)


def _load(chunk: CaptureChunk, memory: Memory) -> NDArray[np.uint8]:
    buffer = memory.bytes("chunk", chunk.end - chunk.begin)
    filled = 0
    try:
        with (chunk.held or chunk.path).open("rb", buffering=0) as file:
            file.seek(chunk.begin - chunk.base)
            while filled < len(buffer) and (count := file.readinto(buffer[filled:].data)):
                filled += count
    except OSError as error:
        raise CaptureError(
            f"{chunk.path}: cannot be read: {error.strerror}", hint_of(error, "check the path and the disk")
        ) from error
    if filled < len(buffer):
        raise _changed(chunk)
    return buffer


def _changed(chunk: CaptureChunk) -> CaptureError:
    return CaptureError(f"{chunk.path}: changed while it was read", "ingest it again")
