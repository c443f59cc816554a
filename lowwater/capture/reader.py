"""Reads a capture as Arrow batches of sane records, and records damage as malformed rows.

It opens a capture (`formats.header`), finds and checks its records (`records.stream`), decodes their headers
(`headers.batches`) and summarises the file. `formats.division` uses it to divide a file into chunks that can be decoded
independently.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.capture.content.retention import NOTHING, ContentBuilder, ContentOptions
from lowwater.capture.formats import classic
from lowwater.capture.formats.capture_file import FILE_HEADER, CaptureFile
from lowwater.capture.formats.classic import ClassicScanner, Scanner
from lowwater.capture.formats.erf import ErfScanner
from lowwater.capture.formats.header import UNREADABLE, open_capture, open_with_header
from lowwater.capture.formats.pcapng import PcapngScanner
from lowwater.capture.formats.snoop import SnoopScanner
from lowwater.capture.formats.sources import FileWindow, digest
from lowwater.capture.headers.fields import BATCH
from lowwater.capture.headers.links import NAMES as LINK_NAMES
from lowwater.capture.headers.tunnels import NAMES as TUNNEL_NAMES
from lowwater.capture.records.facts import CaptureSummary, Interface, InterfaceSummary, Malformed
from lowwater.capture.records.malformed import MalformedRows
from lowwater.capture.records.stream import (
    Identity,
    RecordSpan,
    RecordStream,
    decode_span,
    select_records,
    split_by_interface,
)
from lowwater.errors import CaptureError
from lowwater.limits import CAPTURE_CHUNK_BYTES
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

_REVISION, _ENTRIES = 5, 21
"""Revision 3 decoded 21 link types and tunnels. A change of the rows of one of them must raise the revision."""

DECODER_VERSION: int = _REVISION + len(LINK_NAMES) + len(TUNNEL_NAMES) - _ENTRIES
"""Changes whenever the same file would decode to other rows (SEMANTICS T7). Each new link type and tunnel adds one."""

_SCANNERS: dict[str, Callable[[CaptureFile], Scanner]] = {
    "pcap": ClassicScanner.of,
    "pcapng": PcapngScanner.of,
    "snoop": SnoopScanner.of,
    "erf": ErfScanner.of,
}


class CaptureReader:
    """Reads a capture in one pass. Iterate it once, for batches or with `by_interface`; see `read`.

    Attributes:
        header: facts of the file header.
        malformed: malformed rows so far, in file order.
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
    ) -> None:
        self._builder = ContentBuilder(content, columns)
        with open_with_header(capture, hashed=sha256 is None) as (header, source, unpacked):
            self.header: CaptureFile = header
            self._window = FileWindow(source, max(chunk_bytes, FILE_HEADER), sha256 is None and unpacked is None)
            self._window.fill()
        read_as = replace(header, resolution=content.resolution or header.resolution)
        scanner = _SCANNERS[header.format](read_as)
        self.untimed = content.untimed if isinstance(scanner, PcapngScanner) else None
        if isinstance(scanner, PcapngScanner):
            scanner.untimed, scanner.resolution = self.untimed, content.resolution
        self.summary: CaptureSummary | None = None
        self._unpacked = unpacked
        self.malformed = MalformedRows(header.path)
        self._stream = RecordStream(self._window, scanner, max_jump, self.malformed)
        self._sha256 = sha256
        self._identity = Identity() if identified else None

    @property
    def scanner(self) -> Scanner:
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

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for _, batch in self.by_interface():
            yield batch

    def by_interface(self) -> Iterator[tuple[Interface, pa.RecordBatch]]:
        """Yields batches of decoded records, each of one interface."""
        for span in self.spans():
            for number, chosen in self.split_by_interface(span):
                tally = self._stream.judge.tallies[number]
                interface = self.interfaces[number]
                batch = decode_span(span, chosen, tally.clock, interface, self._builder)
                tally.undecoded += batch.column("ipversion").null_count
                tally.add(select_records(span, chosen)[classic.STAMP])
                yield interface, self._builder.select(batch)

    def spans(self) -> Generator[RecordSpan]:
        """Yields checked records without decoding them. The caller must add the sane ones to the tallies (`count`)."""
        try:
            for span in self._stream:
                if self._identity is not None:
                    self._identity.add(span, len(self.interfaces))
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
        summaries = zip(self.interfaces, stream.judge.tallies, strict=True)
        self.summary = CaptureSummary(
            sha256=self._sha256 or (packed or self._window).sha256(),
            bytes=packed.stored if packed else size,
            format=self.header.format,
            interfaces=tuple(tally.summary(interface) for interface, tally in summaries),
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
        )


def read(
    capture: str | Path | BinaryIO,
    max_jump: int,
    chunk_bytes: int = CAPTURE_CHUNK_BYTES,
    sha256: str | None = None,
    content: ContentOptions = NOTHING,
    columns: Sequence[str] | None = None,
    identified: bool = False,
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

    Returns:
        A reader to iterate once. It yields batches of `BATCH` (`catalog.schemas.RECORD` without `capture`) and of
        retained content: sane records in file order, in a pcapng by interface. After the iteration its `malformed` and
        `summary` are complete.

    Raises:
        ConfigError: a column does not exist.
        CaptureError: as `header.parse_header`, or the file cannot be read, or it has more than `malformed.MOST_ROWS`
            malformed records.

    Example:
        >>> from lowwater.capture import read
        >>> reader = read("main1.pcap", max_jump=61_000_000_000)  # doctest: +SKIP
        >>> sum(batch.num_rows for batch in reader)  # doctest: +SKIP
        6770
    """
    return CaptureReader(capture, max_jump, chunk_bytes, sha256, content, columns, identified)
