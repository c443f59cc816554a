"""The records of a classic pcap, as the reader asks for them.

Between `scan` and the reader: one scanner a file format.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from lowwater.capture.formats import scan as scanning
from lowwater.capture.formats.header import FILE_HEADER, RECORD_HEADER, CaptureFile
from lowwater.capture.records.facts import Interface

_MODIFIED_HEADER = 24
_SECOND = 1_000_000_000


class Scanner(Protocol):
    """Finds the records of a file format; picklable, so that a worker goes on in the middle of a file.

    Attributes:
        start: offset of the first record, or of the first block, in the file.
        interfaces: those met so far, at least one.
        damage: the reason of malformed rows for what is no record.
        blocks: blocks met so far that are no packets, by kind.
    """

    @property
    def start(self) -> int: ...

    @property
    def interfaces(self) -> tuple[Interface, ...]: ...

    @property
    def damage(self) -> str: ...

    @property
    def blocks(self) -> tuple[tuple[str, int], ...]: ...

    @property
    def overhead(self) -> int:
        """Bytes scanned so far that are neither records nor damage."""

    def scan(
        self, buffer: NDArray[Any], begin: int, end: int, records: NDArray[Any], count: int
    ) -> tuple[int, int, int]:
        """Finds whole records in buffer[begin:end]; fills and returns as `scan.scan`. Goes on where it stopped.

        Args:
            buffer: uint8 array, a window of the file.
            begin: index at which the next record begins.
            end: index behind the last valid byte.
            records: int64 array (4, at least count), filled as by `scan.scan`.
            count: most records to find.
        """

    def search(self, buffer: NDArray[Any], begin: int, end: int, at_end: bool, around: int) -> tuple[int, int]:
        """Where after damage records go on in buffer[begin:end], as `scan.search`; `around` is a time (ns) or -1.

        Args:
            buffer: uint8 array, a window of the file.
            begin: first index to try.
            end: index behind the last valid byte.
            at_end: whether the file ends there.
            around: instant near which records lie, ns since the epoch; -1 where none is known.
        """

    def doubtful(self, buffer: NDArray[Any], begin: int, end: int, around: int) -> bool:
        """Whether what the end of the file cuts at `begin` may be damage, and no record.

        Args:
            buffer: uint8 array, a window of the file.
            begin: index at which the cut record would begin.
            end: index behind the last byte of the file.
            around: instant near which records lie, ns since the epoch; -1 where none is known.
        """

    def skip(self, count: int) -> None:
        """Tells that so many bytes of damage are passed over."""

    def settle(self, offset: int) -> None:
        """Tells that `at` is no longer asked about offsets before this one."""

    def forget(self, offset: int) -> None:
        """Tells that `at` is not asked about what lies between this offset and where the last scan stopped."""

    def at(self, offset: int) -> Scanner:
        """The scanner that goes on at this offset of the file, where a record begins, and has been there before."""

    def extents(self, records: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Where records that were found begin in the buffer, and their bytes, headers included."""

    def bytes_of(self, records: NDArray[Any]) -> int:
        """Bytes of records that were found, headers included."""


@dataclass(frozen=True)
class ClassicScanner:
    """The records of a classic pcap; see `Scanner`. It has no state.

    Attributes:
        big: whether the file is big endian.
        scale: nanoseconds per unit of the sub-second field.
        limit: largest believed captured length.
        snaplen: that of the file header within `limit`, or `limit`.
        header: bytes of a record header.
        lengths: as in `scan.scan`.
        interface: the only one.
    """

    big: bool
    scale: int
    limit: int
    snaplen: int
    header: int
    lengths: int
    interface: Interface
    start: int = FILE_HEADER
    damage: str = "length"
    blocks: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, header: CaptureFile) -> ClassicScanner:
        """The scanner of a file with this header. The order of the lengths is that of libpcap (sf-pcap.c)."""
        major, minor = header.version
        swapped = major == 543 or minor < 3
        return cls(
            big=header.byte_order == "big",
            scale=1000 if header.resolution == "us" else 1,
            limit=header.limit,
            snaplen=min(header.snaplen, header.limit) or header.limit,
            header=_MODIFIED_HEADER if header.modified else RECORD_HEADER,
            lengths=scanning.SWAPPED if swapped else scanning.LARGER_LAST if minor == 3 else scanning.AS_NAMED,
            interface=Interface(0, "", header.link_number, header.link_type, header.snaplen),
        )

    @property
    def interfaces(self) -> tuple[Interface, ...]:
        return (self.interface,)

    @property
    def overhead(self) -> int:
        return self.start

    def scan(
        self, buffer: NDArray[Any], begin: int, end: int, records: NDArray[Any], count: int
    ) -> tuple[int, int, int]:
        found: tuple[int, int, int] = scanning.scan(
            buffer, begin, end, self.big, self.scale, self.limit, self.header, self.lengths, records, count
        )
        return found

    def search(self, buffer: NDArray[Any], begin: int, end: int, at_end: bool, around: int) -> tuple[int, int]:
        found: tuple[int, int] = scanning.search(
            buffer, begin, end, self.big, self.scale, self.limit, self.header, self.lengths, around // _SECOND, at_end
        )
        return found

    def doubtful(self, buffer: NDArray[Any], begin: int, end: int, around: int) -> bool:
        if end - begin < self.header:
            return False
        captured, _ = scanning.plausible(
            buffer, begin, self.big, self.scale, self.limit, self.lengths, around // _SECOND, scanning.YEAR
        )
        return not 0 <= captured <= self.snaplen

    def skip(self, count: int) -> None:
        pass

    def settle(self, offset: int) -> None:
        pass

    def forget(self, offset: int) -> None:
        pass

    def at(self, offset: int) -> ClassicScanner:
        return self

    def extents(self, records: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        return records[scanning.OFFSET] + (RECORD_HEADER - self.header), records[scanning.CAPTURED] + self.header

    def bytes_of(self, records: NDArray[Any]) -> int:
        captured = records[scanning.CAPTURED]
        return int(captured.sum()) + self.header * len(captured)
