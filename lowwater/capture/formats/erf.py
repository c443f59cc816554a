"""ERF (Endace, "ERF Types Reference Guide"): records of several kinds and ports, without a file header.

Below the reader, beside the other formats. `capture.reader` detects such a file by its first records, since it has no
header. A record is a header of 16 bytes, extension headers of 8 bytes each, a header of its type, and the packet. Times
are little endian, lengths are big endian. Packets become records; padding and provenance are counted and skipped.

The arguments of kernels are those of `scan`, `plausible` and `search` of `classic` where nothing else is said.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowwater.capture.formats import classic
from lowwater.capture.formats.capture_file import RECORD_HEADER, CaptureFile, link_name
from lowwater.capture.headers.fields import big16, byte, little32, prefetch
from lowwater.capture.inlining import kernel, part
from lowwater.capture.records.facts import Interface, with_interface
from lowwater.link_names import unnamed

HEADER = 16
EXTENSION = 8
MORE_HEADERS = 0x80
"""Bit of a type, and of the first byte of an extension header: an extension header follows."""

ETHERNET_TYPES = (2, 11, 16, 20)
HDLC_TYPES = (1, 10, 15, 19)
CHANNEL_HDLC_TYPES = (5, 17)
CHANNEL_TYPES = (6, 7, 8, 9, 12, 18)
"""Types behind whose header the place of a channel stands, but for those of HDLC."""

COLOR_TYPES = (10, 11, 15, 16, 17, 19, 20)
"""Types with a colour in the place of the loss counter."""

IPV4_TYPE, IPV6_TYPE, INFINIBAND_TYPE, PROVENANCE, PADDING = 22, 23, 21, 27, 48
LARGEST_TYPE, UNUSED_TYPES = 29, 26
"""Types from 1 to 29 but one are records; PADDING is none."""

ETHERNET, IPV4, IPV6, CISCO_HDLC, PPP, INFINIBAND, WHOLE = range(7)
"""Kinds of frames. WHOLE is a record of any other type, with its headers."""

LINK_NUMBERS = (1, 228, 229, 104, 9, 247, 197)
"""Link type by kind of frame."""

PORTS, KINDS = 8, len(LINK_NUMBERS)

YEAR_1990 = 631_152_000
"""Seconds since the epoch; no record is older."""

_DAY, _ENOUGH = 86_400, 4


def is_known(kind: int) -> bool:
    """Whether a record of this type may be in a file."""
    return (1 <= kind <= LARGEST_TYPE and kind != UNUSED_TYPES) or kind == PADDING


def first_link(head: bytes) -> int | None:
    """Detects ERF: records of known types, within a day of each other, follow one another from the first byte on.

    Returns:
        Link type of the first packet, -1 without one; None if the file is no ERF. Four records in a row are enough, or
        two in a shorter head, or all of the file.
    """
    at, count, before, link = 0, 0, -1, -1
    while count < _ENOUGH and at + HEADER <= len(head):
        seconds, kind = int.from_bytes(head[at + 4 : at + 8], "little"), head[at + 8] & 0x7F
        size = int.from_bytes(head[at + 10 : at + 12], "big")
        if not is_known(kind) or size < HEADER:
            return None
        if kind != PADDING:
            if seconds < YEAR_1990 or (before >= 0 and abs(seconds - before) > _DAY):
                return None
            before = seconds
            if link < 0 and kind != PROVENANCE:
                link = LINK_NUMBERS[_kind_of(head, at, kind)]
        at, count = at + size, count + 1
    whole = count > 1 or (count == 1 and at == len(head))
    return link if whole and before >= 0 else None


def _kind_of(head: bytes, at: int, kind: int) -> int:
    """Returns the kind of frame of a record; a record that is not in `head` is WHOLE."""
    place, more = at + HEADER, head[at + 8]
    while more & MORE_HEADERS and place < len(head):
        more, place = head[place], place + EXTENSION
    place += 4 if kind in CHANNEL_HDLC_TYPES else 0
    if place >= len(head):
        return WHOLE
    if kind in ETHERNET_TYPES:
        return ETHERNET
    if kind in HDLC_TYPES or kind in CHANNEL_HDLC_TYPES:
        return CISCO_HDLC if head[place] & 0x7F == 0x0F else PPP
    return {IPV4_TYPE: IPV4, IPV6_TYPE: IPV6, INFINIBAND_TYPE: INFINIBAND}.get(kind, WHOLE)


PADDED, PROVENANCES, BYTES, TALLIES = range(4)
"""Indices in the tally of records that are no packets: their numbers by type, then their bytes."""

KEYS = PORTS * KINDS
"""Largest number of interfaces: port and kind of frame tell them apart."""

_SECOND = 1_000_000_000
_AHEAD = 1 << 10

_known = part(is_known)


@part
def _stamp(buffer: Any, at: int) -> int:
    """Returns the time of a record in ns, rounded to the nearest: seconds, and parts of 2^-32 s."""
    parts = little32(buffer, at)
    stamp: int = little32(buffer, at + 4) * _SECOND + (parts * _SECOND + (1 << 31) >> 32)
    return stamp


@part
def _port(flags: int) -> int:
    """Returns the port: two bits, and a third one of cards with more ports."""
    port: int = flags & 3 | (flags & 0x40) >> 4
    return port


@part
def _kind(buffer: Any, at: int, size: int) -> tuple[int, int]:
    """Returns the kind of frame of a record of `size` bytes and the bytes before its packet; -1 if they do not fit."""
    kind, more, before = byte(buffer, at + 8) & 0x7F, byte(buffer, at + 8), HEADER
    while more & MORE_HEADERS:
        if before + EXTENSION > size:
            return WHOLE, -1
        more = byte(buffer, at + before)
        before += EXTENSION
    frame = WHOLE
    if kind in ETHERNET_TYPES:
        if before + 2 > size:
            return WHOLE, -1
        # The first of the two bytes is an offset in the packet by its description; real files have any value there.
        frame = ETHERNET
        before += 2
    elif kind in CHANNEL_TYPES or kind in CHANNEL_HDLC_TYPES:
        before += 4
    elif kind == IPV4_TYPE:
        frame = IPV4
    elif kind == IPV6_TYPE:
        frame = IPV6
    elif kind == INFINIBAND_TYPE:
        frame = INFINIBAND
    if kind in HDLC_TYPES or kind in CHANNEL_HDLC_TYPES:
        cisco = before < size and byte(buffer, at + before) & 0x7F == 0x0F
        frame = CISCO_HDLC if cisco else PPP
    return frame, before if before <= size else -1


@kernel
def scan(
    buffer: Any, begin: int, end: int, numbers: Any, places: Any, tally: Any, out: Any, count: int
) -> tuple[int, int, int]:
    """Finds whole records in buffer[begin:end].

    Args:
        numbers: int64 array (KEYS + 1), number of the interface by port and kind of frame, -1 before its first packet;
            the last entry is the number of interfaces. New ones are added.
        places: int64 array (KEYS), receives the index of the first packet of each new interface.
        tally: int64 array (TALLIES); records that are no packets are added to it.

    Returns:
        Number of records in `out`, index of the next one, and FULL (also after PASSED bytes without a packet), MORE or
        DAMAGE (an unknown type, or lengths that do not fit).
    """
    at, passed = begin, 0
    while count < out.shape[1] and passed < classic.PASSED:
        if end - at < HEADER:
            return count, at, classic.MORE
        prefetch(buffer, at + _AHEAD)
        kind, size = byte(buffer, at + 8) & 0x7F, big16(buffer, at + 10)
        if not _known(kind) or size < HEADER:
            return count, at, classic.DAMAGE
        if end - at < size:
            return count, at, classic.MORE
        if kind in (PADDING, PROVENANCE):
            tally[PADDED if kind == PADDING else PROVENANCES] += 1
            tally[BYTES] += size
            at += size
            passed += size
            continue
        frame, before = _kind(buffer, at, size)
        if before < 0:
            return count, at, classic.DAMAGE
        wire = big16(buffer, at + 14)
        captured = min(wire, size - before)
        if frame == WHOLE:
            wire, captured, before = wire + before, captured + before, 0
        key = _port(byte(buffer, at + 9)) * KINDS + frame
        if numbers[key] < 0:
            numbers[key], places[key] = numbers[KEYS], at
            numbers[KEYS] += 1
        out[classic.OFFSET, count] = at + before - RECORD_HEADER
        out[classic.STAMP, count] = _stamp(buffer, at)
        out[classic.WIRE, count], out[classic.CAPTURED, count] = wire, captured
        out[classic.INTERFACE, count] = numbers[key]
        out[classic.DROPS, count] = 0 if kind in COLOR_TYPES else big16(buffer, at + 12)
        out[classic.BLOCK, count], out[classic.SIZE, count] = at, size
        count += 1
        at += size
        passed = 0
    return count, at, classic.FULL


@kernel
def plausible(buffer: Any, at: int, near: int, span: int) -> tuple[int, int]:
    """Whether a record header may be at buffer[at].

    Args:
        near: seconds since the epoch near which records lie; negative if unknown.
        span: largest distance from `near`, seconds.

    Returns:
        The size of the record, or -1 if there can be none; and its seconds, those near it for padding.
    """
    kind, size = byte(buffer, at + 8) & 0x7F, big16(buffer, at + 10)
    seconds = little32(buffer, at + 4)
    if not _known(kind) or size < HEADER:
        return -1, seconds
    if kind == PADDING:
        return size, near
    close = abs(seconds - near) <= span if near >= 0 else seconds >= YEAR_1990
    return (size if close and (kind == PROVENANCE or size > HEADER) else -1), seconds


@kernel
def search(buffer: Any, begin: int, end: int, near: int, at_end: bool, border: int) -> tuple[int, int]:
    """Finds where records go on in buffer[begin:end]: CHAIN in a row, or at least one and then the end of the file.

    Args:
        near: seconds since the epoch; records lie within a year of it, and within a day of each other. Negative if
            unknown.

    Returns:
        As `classic.search`.
    """
    last_start = border if begin < border else end - HEADER + 1
    steps = classic.SEARCH_STEPS * ((border if begin < border else end) - begin + 1)
    for start in range(begin, last_start):
        at, whole, last, span = start, 0, near, classic.YEAR
        # Padding has no time, so that of zeros no chain can begin.
        if byte(buffer, start + 8) & 0x7F == PADDING:
            continue
        while (whole < classic.CHAIN or at < border) and end - at >= HEADER:
            steps -= 1
            if steps < 0:
                return border, classic.NOT_FOUND
            size, last = plausible(buffer, at, last, span)
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
    return (end, classic.NOT_FOUND) if at_end else (max(begin, end - HEADER + 1), classic.MORE)


def no_interfaces() -> Any:
    """Returns the table of interfaces of `scan` before the first packet."""
    numbers = np.full(KEYS + 1, -1)
    numbers[KEYS] = 0
    return numbers


_NONE = (Interface(0, "", -1, "", 0),)
_COUNTED = ("padding", "provenance")


class ErfScanner:
    """The scanner of an ERF file; see `classic.Scanner`.

    A port is an interface, named by its number. A port with packets of several link types is an interface for each.
    Interfaces are numbered in the order of their first packets.
    """

    start = 0
    damage = "length"
    parts: tuple[int, ...] = ()  # a file has no header, so nothing tells where another one begins

    def __init__(self) -> None:
        self._numbers: NDArray[np.int64] = no_interfaces()
        self._begins: list[int] = []  # by interface, the file offset of its first packet
        self._interfaces: tuple[Interface, ...] = ()
        self._tally = np.zeros(TALLIES, np.int64)
        self._at = 0

    @classmethod
    def of(cls, header: CaptureFile) -> ErfScanner:
        """Makes the scanner for a file, which has no header."""
        return cls()

    @property
    def interfaces(self) -> tuple[Interface, ...]:
        return self._interfaces or _NONE

    @property
    def blocks(self) -> tuple[tuple[str, int], ...]:
        return tuple((name, count) for name, count in zip(_COUNTED, self._tally.tolist(), strict=False) if count)

    @property
    def overhead(self) -> int:
        return int(self._tally[BYTES])

    def scan(
        self, buffer: NDArray[Any], begin: int, end: int, records: NDArray[Any], count: int
    ) -> tuple[int, int, int]:
        places = np.full(KEYS, -1)
        count, at, stopped = scan(buffer, begin, end, self._numbers, places, self._tally, records, count)
        new = np.flatnonzero(places >= 0)
        for key in new[np.argsort(places[new])].tolist():
            port, kind = divmod(key, KINDS)
            number = LINK_NUMBERS[kind]
            interface = Interface(len(self._interfaces), unnamed(port), number, link_name(number), 0)
            self._interfaces = with_interface(self._interfaces, interface)
            self._begins.append(self._at + int(places[key]) - begin)
        self._at += at - begin
        return count, at, stopped

    def search(
        self, buffer: NDArray[Any], begin: int, end: int, at_end: bool, around: int, border: int
    ) -> tuple[int, int]:
        result: tuple[int, int] = search(buffer, begin, end, around // _SECOND, at_end, border)
        return result

    def credible(self, buffer: NDArray[Any], at: int, around: int) -> bool:
        return plausible(buffer, at, around // _SECOND, classic.YEAR)[0] >= 0

    def doubtful(self, buffer: NDArray[Any], begin: int, end: int, around: int) -> bool:
        return end - begin >= HEADER and not self.credible(buffer, begin, around)

    def skip(self, count: int) -> None:
        self._at += count

    def take_back(self, count: int, passed: int) -> None:
        self._at -= count
        self._tally[BYTES] -= passed

    def settle(self, offset: int) -> None:
        pass

    def forget(self, offset: int) -> None:
        pass

    def at(self, offset: int) -> ErfScanner:
        other = ErfScanner()
        other._at = offset
        before = sum(begin < offset for begin in self._begins)
        other._interfaces, other._begins = self._interfaces[:before], self._begins[:before]
        other._numbers = np.where(self._numbers < before, self._numbers, -1)
        other._numbers[KEYS] = before
        return other

    def extents(self, records: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        return records[classic.BLOCK], records[classic.SIZE]

    def bytes_of(self, records: NDArray[Any]) -> int:
        return int(records[classic.SIZE].sum())


LINK = 197
"""Link type of a pcap whose packets are records of ERF."""


class RecordsInPcap(classic.ClassicLayout):
    """The layout of a pcap of link type LINK: its records tell what was lost before them, as in an ERF file."""

    def scan(
        self, buffer: NDArray[Any], begin: int, end: int, records: NDArray[Any], count: int
    ) -> tuple[int, int, int]:
        result = super().scan(buffer, begin, end, records, count)
        found = records[:, count : result[0]]
        at = found[classic.OFFSET] + RECORD_HEADER
        whole = np.flatnonzero(found[classic.CAPTURED] >= HEADER)
        kinds = buffer[at[whole] + 8] & ~np.uint8(MORE_HEADERS)
        other = (*COLOR_TYPES, PROVENANCE, UNUSED_TYPES)
        told = whole[(kinds >= 1) & (kinds <= LARGEST_TYPE) & ~np.isin(kinds, other)]
        found[classic.DROPS] = 0
        found[classic.DROPS, told] = buffer[at[told] + 12].astype(np.int64) << 8 | buffer[at[told] + 13]
        return result


def pcap_layout(header: CaptureFile) -> classic.ClassicLayout:
    """Returns the layout of a classic pcap, by its link type."""
    return (RecordsInPcap if header.link_number == LINK else classic.ClassicLayout).of(header)
