"""The classic pcap: the protocol of all scanners, kernels that find records, and the layout of its records.

Between the reader and the file; there is one scanner a file format, for pcap and snoop that of `joined`. The first
kernels of the reader give offsets, timestamps and lengths of whole records, and find the next record after damage;
`headers.packet` reads the headers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from lowwater.capture.formats.capture_file import FILE_HEADER, RECORD_HEADER, CaptureFile
from lowwater.capture.headers.fields import big32, little32, prefetch
from lowwater.capture.inlining import kernel, part as inline, rare
from lowwater.capture.records.facts import Interface

FULL, MORE, DAMAGE, HEADER = 0, 1, 2, 5
"""Why a scan stopped: the output is full, more bytes are needed, the next bytes are no record, or a file header."""

OFFSET, STAMP, WIRE, CAPTURED, INTERFACE, BLOCK, SIZE, DROPS = range(8)
"""Rows of a scan's output: RECORD_HEADER bytes before the frame in the buffer, timestamp (ns), wire length, captured
length (bytes). The others are 0 in a classic pcap: interface number, index of the block, bytes of the block, and
records lost since the one before (of snoop: since the first one)."""

ROWS = 8

NO_RANGE, NO_TIME, NO_INTERFACE, NO_FRAME, NO_PART = -1, -2, -3, -4, -5
"""Timestamps of records that are malformed by themselves: time out of range, no time, undeclared interface, captured
length beyond the block, sub-second beyond two seconds."""

AS_NAMED, SWAPPED, LARGER_LAST = range(3)
"""Order of the lengths in a record header: captured first; captured last; last if the first is the larger one."""

MOST_PART = 2_000_000_000
"""ns. A smaller sub-second carries over to the seconds, as recorders really leave it; no recorder counts further."""

PASSED = 1 << 20
"""Bytes without records after which a scan stops as if the output were full."""

CHAIN = 4
"""Records or blocks in a row that make the place after damage credible."""

SEARCH_STEPS = 8
"""Records that a search looks at for each byte, at most; behind them it finds nothing."""

_AHEAD = 1 << 10  # bytes; about ten records if only headers were captured

NOT_FOUND, FOUND = 0, 3
"""Results of a search, beside MORE."""

DAY, YEAR = 86_400, 366 * 86_400
"""Seconds. The first record after damage lies within a year of the ones before, each further one within a day."""


@inline
def _words(buffer: Any, at: int, big: bool) -> tuple[int, int, int, int]:
    """Reads the four words of a record header: seconds, sub-second part, and the two lengths as they are named."""
    if big:
        return big32(buffer, at), big32(buffer, at + 4), big32(buffer, at + 8), big32(buffer, at + 12)
    return little32(buffer, at), little32(buffer, at + 4), little32(buffer, at + 8), little32(buffer, at + 12)


@rare
def _begins_capture(buffer: Any, at: int) -> bool:
    """Whether the header of a pcap of any byte order and precision, version 2, may begin at buffer[at]."""
    first, last = big32(buffer, at), little32(buffer, at)
    if first in _MAGICS:
        return big32(buffer, at + 4) >> 16 == _MAJOR
    return last in _MAGICS and little32(buffer, at + 4) & 0xFFFF == _MAJOR


_MAGICS, _MAJOR = (0xA1B2C3D4, 0xA1B23C4D, 0xA1B2CD34), 2


@kernel
def scan(
    buffer: Any,
    begin: int,
    end: int,
    big: bool,
    scale: int,
    limit: int,
    header: int,
    lengths: int,
    out: Any,
    count: int,
) -> tuple[int, int, int]:
    """Finds whole records in buffer[begin:end].

    A sub-second field from a second on (real captures have them) carries over to the seconds, up to `MOST_PART`.

    Args:
        buffer: uint8 array.
        begin: index of the first record header.
        end: index behind the last valid byte.
        scale: nanoseconds per unit of the sub-second field.
        limit: largest plausible captured length.
        header: bytes of a record header.
        out: int64 array of shape (ROWS, capacity), filled.
        count: number of records that `out` holds already.

    Returns:
        Number of records in `out`, index of the next one, and FULL, MORE, DAMAGE (an implausible captured length, or
        a header of zeros) or HEADER (that of another capture, whose zone and accuracy are 0).
    """
    at = begin
    while count < out.shape[1]:
        if end - at < header:
            return count, at, MORE
        # The next header's place is known only after this one is loaded, so the processor cannot prefetch by itself.
        prefetch(buffer, at + _AHEAD)
        seconds, part, captured, wire = _words(buffer, at, big)
        if lengths != AS_NAMED and (lengths == SWAPPED or captured > wire):
            captured, wire = wire, captured
        if captured > limit:
            return count, at, DAMAGE
        if captured == 0 and wire == 0:
            if seconds == 0 and part == 0:
                return count, at, DAMAGE
            if _begins_capture(buffer, at):
                return count, at, HEADER if end - at >= FILE_HEADER else MORE
        if end - at - header < captured:
            return count, at, MORE
        out[OFFSET, count] = at + header - RECORD_HEADER
        out[STAMP, count] = seconds * 1_000_000_000 + part * scale if part * scale < MOST_PART else NO_PART
        out[WIRE, count] = wire
        out[CAPTURED, count] = captured
        count += 1
        at += header + captured
    return count, at, FULL


@kernel
def plausible(
    buffer: Any, at: int, big: bool, scale: int, limit: int, lengths: int, near: int, span: int
) -> tuple[int, int]:
    """Whether a record header may be at buffer[at].

    Args:
        buffer: uint8 array that holds the whole header.
        near: seconds since the epoch near which records lie; negative if unknown.
        span: largest distance from `near`, seconds.

    Returns:
        The captured length, or -1 if there can be no record; and the seconds of the record.
    """
    seconds, part, captured, wire = _words(buffer, at, big)
    if lengths == SWAPPED or (lengths == LARGER_LAST and captured > wire):
        captured, wire = wire, captured
    near_enough = near < 0 or abs(seconds - near) <= span
    good = near_enough and 0 < wire <= limit and captured <= wire and part * scale < 1_000_000_000
    return (captured if good else -1), seconds


@kernel
def search(
    buffer: Any, begin: int, end: int, big: bool, scale: int, limit: int, header: int, lengths: int, near: int,
    at_end: bool, border: int, tries: int,
) -> tuple[int, int]:  # fmt: skip
    """Finds where records go on in buffer[begin:end]: CHAIN in a row, or at least one and then the end of the file.

    Args:
        begin: first index to try.
        border: index of the damage. Records that begin before it lie in one whose length is wrong, if they go on over
            the border; a capture in a payload ends before it, or at it.
        near: seconds since the epoch; records lie within a year of it, and within a day of each other. Negative if
            unknown.
        at_end: whether the file ends at `end`.
        tries: most indices to try before the border; 0 for all.

    Returns:
        An index, and FOUND, MORE (the search needs more bytes from there on) or NOT_FOUND (up to the end of the file).
    """
    last_start = border if begin < border else end - header + 1
    if begin < border and tries > 0:
        last_start = min(last_start, begin + tries)
    steps = SEARCH_STEPS * (
        (border if begin < border else end) - begin + 1
    )  # else chains that end at the border cost the square of its bytes
    for start in range(begin, last_start):
        at, whole, last, span = start, 0, near, YEAR
        while (whole < CHAIN or at < border) and end - at >= header:
            steps -= 1
            if steps < 0:
                return border, NOT_FOUND
            captured, last = plausible(buffer, at, big, scale, limit, lengths, last, span)
            if captured < 0 or at + header + captured == border:
                whole = -1
                break
            if end - at - header < captured:
                break
            at, whole, span = at + header + captured, whole + 1, DAY
        if at > border and (whole >= CHAIN or (at_end and whole > 0)):
            return start, FOUND
        if whole >= 0 and not at_end:
            return start, MORE
    if begin < border:
        return border, NOT_FOUND
    return (end, NOT_FOUND) if at_end else (max(begin, end - header + 1), MORE)


_MODIFIED_HEADER = 24
_SECOND = 1_000_000_000


class Scanner(Protocol):
    """Finds the records of a file format; picklable, so that a worker can continue in the middle of a file.

    Attributes:
        start: offset of the first record or block in the file.
        interfaces: interfaces met so far, at least one.
        damage: the reason of malformed rows for bytes that are no record.
        blocks: kinds and numbers of blocks met so far that are no packets.
        parts: offsets of the further file headers, or section headers, met so far.
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

    @property
    def parts(self) -> Sequence[int]: ...

    def scan(
        self, buffer: NDArray[Any], begin: int, end: int, records: NDArray[Any], count: int
    ) -> tuple[int, int, int]:
        """Finds whole records in buffer[begin:end], from where the last call stopped. Returns as `classic.scan`.

        Args:
            buffer: uint8 array, a window of the file.
            end: index behind the last valid byte.
            records: int64 array (classic.ROWS, capacity), filled as by `classic.scan`.
        """

    def search(
        self, buffer: NDArray[Any], begin: int, end: int, at_end: bool, around: int, border: int
    ) -> tuple[int, int]:
        """Finds where records go on after damage in buffer[begin:end]. Returns as `classic.search`.

        Args:
            begin: first index to try.
            around: instant near which records lie, ns since the epoch; -1 if unknown.
            border: index of the damage; `begin` is before it to look into the record before the damage.
        """

    def credible(self, buffer: NDArray[Any], at: int, around: int) -> bool:
        """Whether a record that was found at an index, right before damage, is none of the damage."""

    def doubtful(self, buffer: NDArray[Any], begin: int, end: int, around: int) -> bool:
        """Whether the cut bytes at the end of the file may be damage instead of a record.

        Args:
            around: instant near which records lie, ns since the epoch; -1 if unknown.
        """

    def skip(self, count: int) -> None:
        """Skips this number of bytes of damage."""

    def take_back(self, count: int, passed: int) -> None:
        """Takes back the last bytes scanned, which are damage; `passed` of them were neither records nor damage."""

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


class RecordLayout(Protocol):
    """How the records of a capture without blocks lie in it; picklable. Methods and attributes are those of `Scanner`.

    Attributes:
        interface: its only interface, as number 0.
        start: bytes of its file header.
    """

    @property
    def interface(self) -> Interface: ...

    @property
    def start(self) -> int: ...

    @property
    def damage(self) -> str: ...

    def scan(
        self, buffer: NDArray[Any], begin: int, end: int, records: NDArray[Any], count: int
    ) -> tuple[int, int, int]: ...

    def search(
        self, buffer: NDArray[Any], begin: int, end: int, at_end: bool, around: int, border: int, tries: int = 0
    ) -> tuple[int, int]: ...

    def credible(self, buffer: NDArray[Any], at: int, around: int) -> bool: ...

    def doubtful(self, buffer: NDArray[Any], begin: int, end: int, around: int) -> bool: ...

    def extents(self, records: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]: ...


@dataclass(frozen=True)
class ClassicLayout:
    """The layout of a classic pcap. See `RecordLayout`."""

    big: bool  # whether the file is big endian
    scale: int  # nanoseconds per unit of the sub-second field
    limit: int  # largest plausible captured length
    snaplen: int  # snaplen of the file header within `limit`, or `limit`
    header: int  # bytes of a record header
    lengths: int  # as in `classic.scan`
    interface: Interface
    start: int = FILE_HEADER
    damage: str = "length"

    @classmethod
    def of(cls, header: CaptureFile) -> ClassicLayout:
        """Makes the layout for a file header. The order of the lengths is that of libpcap (sf-pcap.c)."""
        major, minor = header.version
        swapped = major == 543 or minor < 3
        return cls(
            big=header.byte_order == "big",
            scale=header.units,
            limit=header.limit,
            snaplen=min(header.snaplen, header.limit) or header.limit,
            header=_MODIFIED_HEADER if header.modified else RECORD_HEADER,
            lengths=SWAPPED if swapped else LARGER_LAST if minor == 3 else AS_NAMED,
            interface=Interface(0, "", header.link_number, header.link_type, header.snaplen),
        )

    def scan(
        self, buffer: NDArray[Any], begin: int, end: int, records: NDArray[Any], count: int
    ) -> tuple[int, int, int]:
        result: tuple[int, int, int] = scan(
            buffer, begin, end, self.big, self.scale, self.limit, self.header, self.lengths, records, count
        )
        return result

    def search(
        self, buffer: NDArray[Any], begin: int, end: int, at_end: bool, around: int, border: int, tries: int = 0
    ) -> tuple[int, int]:
        layout = self.big, self.scale, self.limit, self.header, self.lengths
        result: tuple[int, int] = search(buffer, begin, end, *layout, around // _SECOND, at_end, border, tries)
        return result

    def credible(self, buffer: NDArray[Any], at: int, around: int) -> bool:
        layout = self.big, self.scale, self.limit, self.lengths
        return plausible(buffer, at, *layout, around // _SECOND, YEAR)[0] >= 0

    def doubtful(self, buffer: NDArray[Any], begin: int, end: int, around: int) -> bool:
        if end - begin < self.header:
            return False
        captured, _ = plausible(buffer, begin, self.big, self.scale, self.limit, self.lengths, around // _SECOND, YEAR)
        return not 0 <= captured <= self.snaplen

    def extents(self, records: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        return records[OFFSET] + (RECORD_HEADER - self.header), records[CAPTURED] + self.header
