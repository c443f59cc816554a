"""The layout of a snoop capture (RFC 1761, version 2), and its kernels.

Between the reader and the file, like `classic`. All numbers are big endian.

The arguments of kernels are those of `scan`, `plausible` and `search` of `classic` where nothing else is said.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from lowwater.capture.formats import classic
from lowwater.capture.formats.capture_file import RECORD_HEADER, SNOOP_HEADER, CaptureFile
from lowwater.capture.headers.fields import big32, prefetch
from lowwater.capture.inlining import kernel
from lowwater.capture.records.facts import Interface

_HEADER = 24
"""Bytes of a record header: length on the wire, captured length, size of the record, drops, seconds, microseconds."""

_SECOND = 1_000_000_000
_MOST_PADDING = 1 << 10
"""Most bytes behind a frame that are believed: padding to 4 bytes, and what hardware of analysers adds."""

_AHEAD = 1 << 10


@kernel
def scan(buffer: Any, begin: int, end: int, scale: int, limit: int, out: Any, count: int) -> tuple[int, int, int]:
    """Finds whole records in buffer[begin:end].

    Args:
        scale: nanoseconds per unit of the sub-second field.
        out: int64 array of shape (classic.ROWS, capacity), filled.

    Returns:
        Number of records in `out`, index of the next one, and FULL, MORE or DAMAGE (lengths that are not plausible).
    """
    at = begin
    while count < out.shape[1]:
        if end - at < _HEADER:
            return count, at, classic.MORE
        prefetch(buffer, at + _AHEAD)
        captured, size = big32(buffer, at + 4), big32(buffer, at + 8)
        padding = size - _HEADER - captured
        if captured > limit or padding < 0 or padding > _MOST_PADDING:
            return count, at, classic.DAMAGE
        if end - at < size:
            return count, at, classic.MORE
        out[classic.OFFSET, count] = at + _HEADER - RECORD_HEADER
        part = big32(buffer, at + 20) * scale
        out[classic.STAMP, count] = (
            big32(buffer, at + 16) * 1_000_000_000 + part if part < classic.MOST_PART else classic.NO_PART
        )
        out[classic.WIRE, count] = big32(buffer, at)
        out[classic.CAPTURED, count] = captured
        out[classic.DROPS, count] = big32(buffer, at + 12)
        out[classic.BLOCK, count], out[classic.SIZE, count] = at, size
        count += 1
        at += size
    return count, at, classic.FULL


@kernel
def plausible(buffer: Any, at: int, scale: int, limit: int, near: int, span: int) -> tuple[int, int]:
    """Whether a record header may be at buffer[at].

    Args:
        near: seconds since the epoch near which records lie; negative if unknown.

    Returns:
        The size of the record, or -1 if there can be none; and its seconds.
    """
    wire, captured, size = big32(buffer, at), big32(buffer, at + 4), big32(buffer, at + 8)
    seconds = big32(buffer, at + 16)
    padding = size - _HEADER - captured
    good = 0 < wire <= limit and captured <= wire and 0 <= padding <= _MOST_PADDING
    good = good and big32(buffer, at + 20) * scale < 1_000_000_000 and (near < 0 or abs(seconds - near) <= span)
    return (size if good else -1), seconds


@kernel
def search(
    buffer: Any, begin: int, end: int, scale: int, limit: int, near: int, at_end: bool, border: int, tries: int
) -> tuple[int, int]:
    """Finds where records go on in buffer[begin:end]: CHAIN in a row, or at least one and then the end of the file.

    Args:
        near: seconds since the epoch; records lie within a year of it, and within a day of each other. Negative if
            unknown.

    Returns:
        As `classic.search`.
    """
    last_start = border if begin < border else end - _HEADER + 1
    if begin < border and tries > 0:
        last_start = min(last_start, begin + tries)
    steps = classic.SEARCH_STEPS * ((border if begin < border else end) - begin + 1)
    for start in range(begin, last_start):
        at, whole, last, span = start, 0, near, classic.YEAR
        while (whole < classic.CHAIN or at < border) and end - at >= _HEADER:
            steps -= 1
            if steps < 0:
                return border, classic.NOT_FOUND
            size, last = plausible(buffer, at, scale, limit, last, span)
            if size < 0 or at + size == border:
                whole = -1
                break
            if end - at < size:
                break
            at, whole, span = at + size, whole + 1, classic.DAY
        if at > border and (whole >= classic.CHAIN or (at_end and whole > 0)):
            return start, classic.FOUND
        if whole >= 0 and not at_end:
            return start, classic.MORE
    if begin < border:
        return border, classic.NOT_FOUND
    return (end, classic.NOT_FOUND) if at_end else (max(begin, end - _HEADER + 1), classic.MORE)


@dataclass(frozen=True)
class SnoopLayout:
    """The layout of a snoop capture. See `classic.RecordLayout`."""

    scale: int  # nanoseconds per unit of the sub-second field
    limit: int  # largest plausible captured length
    interface: Interface
    start: int = SNOOP_HEADER
    damage: str = "length"

    @classmethod
    def of(cls, header: CaptureFile) -> SnoopLayout:
        interface = Interface(0, "", header.link_number, header.link_type, header.snaplen)
        return cls(header.units, header.limit, interface)

    def scan(
        self, buffer: NDArray[Any], begin: int, end: int, records: NDArray[Any], count: int
    ) -> tuple[int, int, int]:
        result: tuple[int, int, int] = scan(buffer, begin, end, self.scale, self.limit, records, count)
        return result

    def search(
        self, buffer: NDArray[Any], begin: int, end: int, at_end: bool, around: int, border: int, tries: int = 0
    ) -> tuple[int, int]:
        near = around // _SECOND
        result: tuple[int, int] = search(buffer, begin, end, self.scale, self.limit, near, at_end, border, tries)
        return result

    def credible(self, buffer: NDArray[Any], at: int, around: int) -> bool:
        return plausible(buffer, at, self.scale, self.limit, around // _SECOND, classic.YEAR)[0] >= 0

    def doubtful(self, buffer: NDArray[Any], begin: int, end: int, around: int) -> bool:
        return end - begin >= _HEADER and not self.credible(buffer, begin, around)

    def extents(self, records: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        return records[classic.BLOCK], records[classic.SIZE]
