"""The scanner of a classic pcap, and the protocol of all scanners.

Between the kernels (`scan`) and the reader. There is one scanner a file format.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self

from numpy.typing import NDArray

from lowwater.capture.formats import scan as scanning
from lowwater.capture.formats.header import FILE_HEADER, RECORD_HEADER, CaptureFile
from lowwater.capture.records.facts import Interface

_MODIFIED_HEADER = 24
_SECOND = 1_000_000_000


class Scanner(Protocol):
    """Finds the records of a file format; picklable, so that a worker can continue in the middle of a file.

    Attributes:
        start: offset of the first record or block in the file.
        interfaces: interfaces met so far, at least one.
        damage: the reason of malformed rows for bytes that are no record.
        blocks: kinds and numbers of blocks met so far that are no packets.
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
        """Finds whole records in buffer[begin:end], from where the last call stopped. Returns as `scan.scan`.

        Args:
            buffer: uint8 array, a window of the file.
            begin: index of the next record.
            end: index behind the last valid byte.
            records: int64 array (scan.ROWS, capacity), filled as by `scan.scan`.
            count: number of records that the array holds already.
        """

    def search(self, buffer: NDArray[Any], begin: int, end: int, at_end: bool, around: int) -> tuple[int, int]:
        """Finds where records go on after damage in buffer[begin:end]. Returns as `scan.search`.

        Args:
            buffer: uint8 array, a window of the file.
            begin: first index to try.
            end: index behind the last valid byte.
            at_end: whether the file ends there.
            around: instant near which records lie, ns since the epoch; -1 if unknown.
        """

    def doubtful(self, buffer: NDArray[Any], begin: int, end: int, around: int) -> bool:
        """Whether the cut bytes at the end of the file may be damage instead of a record.

        Args:
            buffer: uint8 array, a window of the file.
            begin: index at which the cut record would begin.
            end: index behind the last byte of the file.
            around: instant near which records lie, ns since the epoch; -1 if unknown.
        """

    def skip(self, count: int) -> None:
        """Skips this number of bytes of damage."""

    def settle(self, offset: int) -> None:
        """Drops what only calls of `at` with an offset before this one would need."""

    def forget(self, offset: int) -> None:
        """Drops what only calls of `at` between this offset and the end of the last scan would need."""

    def at(self, offset: int) -> Scanner:
        """Returns a scanner that continues at this file offset, at which a record begins that this one has found."""

    def extents(self, records: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Returns the index in the buffer, and the bytes with headers, of records found."""

    def bytes_of(self, records: NDArray[Any]) -> int:
        """Returns the total bytes, with headers, of records found."""


class Stateless:
    """What the scanners of formats with one interface and without state share. See `Scanner`."""

    interface: Interface
    start: int

    @property
    def interfaces(self) -> tuple[Interface, ...]:
        return (self.interface,)

    @property
    def overhead(self) -> int:
        return self.start

    def skip(self, count: int) -> None:
        pass

    def settle(self, offset: int) -> None:
        pass

    def forget(self, offset: int) -> None:
        pass

    def at(self, offset: int) -> Self:
        return self


@dataclass(frozen=True)
class ClassicScanner(Stateless):
    """The scanner of a classic pcap; it has no state. See `Scanner`.

    Attributes:
        big: whether the file is big endian.
        scale: nanoseconds per unit of the sub-second field.
        limit: largest plausible captured length.
        snaplen: snaplen of the file header within `limit`, or `limit`.
        header: bytes of a record header.
        lengths: as in `scan.scan`.
        interface: the only interface.
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
        """Makes the scanner for a file header. The order of the lengths is that of libpcap (sf-pcap.c)."""
        major, minor = header.version
        swapped = major == 543 or minor < 3
        return cls(
            big=header.byte_order == "big",
            scale=header.units,
            limit=header.limit,
            snaplen=min(header.snaplen, header.limit) or header.limit,
            header=_MODIFIED_HEADER if header.modified else RECORD_HEADER,
            lengths=scanning.SWAPPED if swapped else scanning.LARGER_LAST if minor == 3 else scanning.AS_NAMED,
            interface=Interface(0, "", header.link_number, header.link_type, header.snaplen),
        )

    def scan(
        self, buffer: NDArray[Any], begin: int, end: int, records: NDArray[Any], count: int
    ) -> tuple[int, int, int]:
        result: tuple[int, int, int] = scanning.scan(
            buffer, begin, end, self.big, self.scale, self.limit, self.header, self.lengths, records, count
        )
        return result

    def search(self, buffer: NDArray[Any], begin: int, end: int, at_end: bool, around: int) -> tuple[int, int]:
        result: tuple[int, int] = scanning.search(
            buffer, begin, end, self.big, self.scale, self.limit, self.header, self.lengths, around // _SECOND, at_end
        )
        return result

    def doubtful(self, buffer: NDArray[Any], begin: int, end: int, around: int) -> bool:
        if end - begin < self.header:
            return False
        captured, _ = scanning.plausible(
            buffer, begin, self.big, self.scale, self.limit, self.lengths, around // _SECOND, scanning.YEAR
        )
        return not 0 <= captured <= self.snaplen

    def extents(self, records: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        return records[scanning.OFFSET] + (RECORD_HEADER - self.header), records[scanning.CAPTURED] + self.header

    def bytes_of(self, records: NDArray[Any]) -> int:
        captured = records[scanning.CAPTURED]
        return int(captured.sum()) + self.header * len(captured)
