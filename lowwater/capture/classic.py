"""The records of a classic pcap, as the reader asks for them.

Between `scan` and the reader: one scanner a file format.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from lowwater.capture import scan as scanning
from lowwater.capture.facts import Interface
from lowwater.capture.header import FILE_HEADER, RECORD_HEADER, CaptureFile


class Scanner(Protocol):
    """Finds the records of a file format; picklable, so that a worker goes on in the middle of a file.

    Attributes:
        start: offset of the first record, or of the first block, in the file.
        interfaces: those met so far.
    """

    @property
    def start(self) -> int: ...

    @property
    def interfaces(self) -> tuple[Interface, ...]: ...

    def scan(
        self, buffer: NDArray[Any], begin: int, end: int, records: NDArray[Any], count: int
    ) -> tuple[int, int, int]:
        """Finds whole records in buffer[begin:end]; fills and returns as `scan.scan`."""

    def at(self, offset: int) -> Scanner:
        """The scanner that goes on at this offset of the file, where a record begins, and has been there before."""

    def extent(self, buffer: NDArray[Any], records: NDArray[Any], index: int) -> tuple[int, int]:
        """Where a record that was found begins in the buffer, and its bytes, headers included."""

    def bytes_of(self, buffer: NDArray[Any], records: NDArray[Any], chosen: NDArray[Any]) -> int:
        """Bytes of some records that were found, headers included."""

    @property
    def overhead(self) -> int:
        """Bytes scanned so far that are neither records nor damage."""


@dataclass(frozen=True)
class ClassicScanner:
    """The records of a classic pcap; see `Scanner`."""

    big: bool
    scale: int
    limit: int
    interface: Interface
    start: int = FILE_HEADER

    @classmethod
    def of(cls, header: CaptureFile) -> ClassicScanner:
        """The scanner of a file with this header."""
        scale = 1000 if header.resolution == "us" else 1
        interface = Interface(0, "", header.link_number, header.link_type, header.snaplen)
        return cls(header.byte_order == "big", scale, header.limit, interface)

    @property
    def interfaces(self) -> tuple[Interface, ...]:
        return (self.interface,)

    def scan(
        self, buffer: NDArray[Any], begin: int, end: int, records: NDArray[Any], count: int
    ) -> tuple[int, int, int]:
        found: tuple[int, int, int] = scanning.scan(
            buffer, begin, end, self.big, self.scale, self.limit, records, count
        )
        return found

    def at(self, offset: int) -> ClassicScanner:
        return self

    def extent(self, buffer: NDArray[Any], records: NDArray[Any], index: int) -> tuple[int, int]:
        return int(records[scanning.OFFSET, index]), RECORD_HEADER + int(records[scanning.CAPTURED, index])

    def bytes_of(self, buffer: NDArray[Any], records: NDArray[Any], chosen: NDArray[Any]) -> int:
        return RECORD_HEADER * len(chosen) + int(records[scanning.CAPTURED][chosen].sum())

    @property
    def overhead(self) -> int:
        return self.start
