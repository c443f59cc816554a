"""pcapng (draft-ietf-opsawg-pcapng, sections 3.5, 4.1 and 4.2): blocks, packets and interfaces.

Below the reader, beside the other formats. Packet blocks become records; other blocks are counted and skipped. After
damage other kernels find where the blocks go on.

The arguments of kernels are those of `scan`, `plausible` and `search` of `classic` where nothing else is said.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lowwater.capture.formats import classic
from lowwater.capture.formats.capture_file import RECORD_HEADER, CaptureFile, link_name
from lowwater.capture.headers.fields import big16, big32, little16, little32
from lowwater.capture.inlining import kernel, part, rare
from lowwater.capture.records.drops import BELIEVED, NO_DROPS, PCAPNG, CounterLog, DeclaredDrops, DropTally, Reading
from lowwater.capture.records.facts import Interface, with_interface
from lowwater.capture.records.sanity import END_OF_TIME, judgeable
from lowwater.limits import CAPTURE_PARTS
from lowwater.link_names import interface_name, unnamed

SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, NAME_BLOCK, STATISTICS_BLOCK, PACKET = 0x0A0D0D0A, 1, 2, 3, 4, 5, 6
JOURNAL_BLOCK, SECRET_BLOCK, CUSTOM_BLOCK, CUSTOM_NOT_COPIED = 9, 10, 0x0BAD, 0x40000BAD
LEAST_BLOCK, LEAST_SECTION, LEAST_INTERFACE, LEAST_PACKET, LEAST_SIMPLE, LEAST_STATISTICS = 12, 28, 20, 32, 16, 24
LARGEST_BLOCK = 16 << 20
"""Bytes of the longest plausible block, as in Wireshark."""

MOST_INTERFACES, MOST_DECLARED = 1 << 12, 1 << 16
"""Most interfaces of a file, and most declarations of a section. Packets of further ones are malformed (`interface`):
each interface costs its reader a batch of its own, however few packets it has."""

MULTIPLY, DIVIDE, SHIFT = range(3)
"""Conversion of ticks to ns: multiply by a number, divide by a number, or shift from units of 2^-n s."""

COUNTED = (
    "section header", "interface description", "name resolution", "interface statistics", "decryption secrets",
    "systemd journal export", "custom", "unknown", "comment",
)  # fmt: skip
"""Kinds that `CaptureSummary.blocks` counts; comments are options of packet blocks."""

_COMMENT, _NAME, _RESOLUTION, _OFFSET, _END = 1, 2, 9, 14, 0
_DROPPED = 4
"""Option of a packet block: packets lost since the one before on its interface."""
_BEGAN, _READ, _RECEIVED, _LOST, _ACCEPTED, _LOST_BY_SYSTEM, _DELIVERED = range(2, 9)
"""Options of a statistics block."""
_CODES = {"us": 6, "ns": 9}
_PER_SECOND = 1_000_000_000
_LARGEST = (1 << 63) - 1
_FARTHEST = 1 << 62


@dataclass(frozen=True)
class Description:
    """Content of an interface description block."""

    name: str  # the option if_name, as `link_names.interface_name` writes it; empty without one
    link: int
    snaplen: int  # largest captured length, 0 for no limit
    resolution: str  # seconds of a tick as text: `us`, `ns`, `10^-n` or `2^-n`
    kind: int  # MULTIPLY, DIVIDE or SHIFT
    factor: int  # ns of a tick (MULTIPLY), ticks of a ns (DIVIDE), or n (SHIFT); below 2^64
    offset: int  # ns that are added
    most: int  # most ticks with a representable time, for MULTIPLY; else 2^63 - 1. -1 if no ticks have a time.


def describe(block: bytes, big: bool, resolution: str = "") -> Description:
    """Parses an interface description block.

    Args:
        block: the whole block, at least 20 bytes.
        resolution: `us` or `ns` in the place of its own resolution; empty for its own.
    """
    link, snaplen = struct.unpack_from(">HxxI" if big else "<HxxI", block, 8)
    name, code, seconds = "", 6, 0
    for option, value in options(block[16:-4], big):
        if option == _NAME:
            name = interface_name(value.rstrip(b"\0"))
        elif option == _RESOLUTION and value:
            code = value[0]
        elif option == _OFFSET and len(value) == 8:
            seconds = int.from_bytes(value, "big" if big else "little", signed=True)
    kind, factor, resolution = _resolution(_CODES.get(resolution, code))
    offset = seconds * _PER_SECOND
    if not -_FARTHEST < offset < _FARTHEST:
        return Description(name, link, snaplen, resolution, kind, factor, 0, -1)
    most = (_LARGEST - max(offset, 0)) // (factor if kind == MULTIPLY else 1)
    return Description(name, link, snaplen, resolution, kind, factor, offset, most)


def _resolution(code: int) -> tuple[int, int, str]:
    exponent = code & 0x7F
    if code & 0x80:
        return SHIFT, exponent, f"2^-{exponent}"
    name = {6: "us", 9: "ns"}.get(exponent, f"10^-{exponent}")
    if exponent <= 9:
        return MULTIPLY, 10 ** (9 - exponent), name
    # 2^64 ticks of less than 10^-28 s are below a nanosecond: any larger divisor gives 0 too.
    return DIVIDE, min(10 ** (exponent - 9), (1 << 64) - 1), name


def options(data: bytes, big: bool) -> Iterator[tuple[int, bytes]]:
    """Yields code and value of the options of a block, up to the first one that is not whole."""
    at, form = 0, ">HH" if big else "<HH"
    while at + 4 <= len(data):
        code, length = struct.unpack_from(form, data, at)
        if code == _END or at + 4 + length > len(data):
            return
        yield code, data[at + 4 : at + 4 + length]
        at += 4 + length + -length % 4


def first_interface(head: bytes, big: bool) -> Description | None:
    """Finds the first interface of a pcapng, if it is declared in the first bytes of the file, before any packet.

    Args:
        head: the first bytes of the file.
        big: whether the first section is big endian.
    """
    at = 0
    while at + LEAST_BLOCK <= len(head):
        kind, size = struct.unpack_from(">II" if big else "<II", head, at)
        padded = size + -size % 4
        if size < LEAST_BLOCK or kind in (PACKET, OLD_PACKET, SIMPLE_PACKET) or (at and kind == SECTION):
            return None
        if kind == INTERFACE:
            whole = padded >= LEAST_INTERFACE and at + padded <= len(head)
            return describe(head[at : at + padded], big) if whole else None
        at += padded
    return None


STATE = 4
"""Reason why a scan stopped, beside those of `classic`: a section header, an interface description or statistics."""

NUMBER, KIND, FACTOR, MOST, ADDED, SNAPLEN, COLUMNS = range(7)
"""Columns of the interface table of a section: number in the file (-1 for none), then as in `Description`."""

NAMES, STATISTICS, SECRETS, JOURNAL, CUSTOM, UNKNOWN, COMMENT, BYTES, TALLIES = range(2, 11)
"""Indices in the tally of blocks that are no packets: as `COUNTED`, then the bytes of these blocks."""

FIXED, SIMPLE_FIXED = 28, 12
"""Bytes of a packet block, and of a simple one, before its frame."""

_SECOND = 1_000_000_000
_LAST_SECOND = (1 << 63) // _SECOND


@part
def word(buffer: Any, at: int, big: bool) -> int:
    """Returns the 32-bit number at buffer[at]."""
    return big32(buffer, at) if big else little32(buffer, at)


@part
def _half(buffer: Any, at: int, big: bool) -> int:
    return big16(buffer, at) if big else little16(buffer, at)


@rare
def section(buffer: Any, at: int, end: int) -> tuple[int, bool]:
    """Parses the section header at buffer[at].

    Returns:
        Its bytes (0 if it is not whole before `end`, -1 if there is none), and whether it is big endian.
    """
    if end - at < LEAST_SECTION:
        return 0, False
    big = big32(buffer, at + 8) == 0x1A2B3C4D
    if not big and little32(buffer, at + 8) != 0x1A2B3C4D:
        return -1, False
    size = word(buffer, at + 4, big)
    if size < LEAST_SECTION or size > LARGEST_BLOCK or size & 3:
        return -1, big
    if end - at < size:
        return 0, big
    return (size if word(buffer, at + size - 4, big) == size else -1), big


@rare
def _fine(high: int, low: int, divide: bool, factor: int, most: int, added: int) -> int:
    """Converts ticks that are no whole nanoseconds; as `_nanoseconds`."""
    ticks = np.uint64(high) << np.uint64(32) | np.uint64(low)
    billion, width = np.uint64(_SECOND), np.uint64(32)
    if divide:
        whole = ticks // np.uint64(factor)
    else:
        bits = np.uint64(factor)
        seconds, part = np.uint64(0), ticks
        if factor < 64:
            seconds = ticks >> bits
            part = ticks - (seconds << bits)
        if seconds > np.uint64(_LAST_SECOND):
            return classic.NO_RANGE
        if factor < 32:
            whole = seconds * billion + (part * billion >> bits)
        else:
            # part * billion has more than 64 bits; its lowest 32 bits are below a nanosecond.
            upper = (part >> width) * billion + ((part & np.uint64(0xFFFFFFFF)) * billion >> width)
            whole = seconds * billion + (upper >> (bits - width) if factor < 96 else np.uint64(0))
    if most < 0 or whole > np.uint64(most):
        return classic.NO_RANGE
    stamp = int(np.int64(whole)) + added
    return stamp if stamp >= 0 else classic.NO_RANGE


@part
def _nanoseconds(high: int, low: int, table: Any, row: int) -> int:
    """Converts ticks in two words to ns, rounded down; NO_RANGE if the time is negative or 2^63 ns or more."""
    factor, most, added = table[row, FACTOR], table[row, MOST], table[row, ADDED]
    if table[row, KIND] != MULTIPLY:
        return _fine(high, low, table[row, KIND] == DIVIDE, factor, most, added)
    ticks = high << 32 | low
    if ticks < 0 or ticks > most:
        return classic.NO_RANGE
    stamp: int = ticks * factor + added
    return stamp if stamp >= 0 else classic.NO_RANGE


@rare
def _options(buffer: Any, at: int, end: int, big: bool) -> tuple[int, int]:
    """Reads the options of a packet block in buffer[at:end].

    Returns:
        The number of comments, and of packets lost before this one; 0 if nobody can know so many.
    """
    count, drops = 0, 0
    while end - at >= 4 and _half(buffer, at, big) != 0:
        code, length = _half(buffer, at, big), _half(buffer, at + 2, big)
        count += code == _COMMENT
        if code == _DROPPED and length == 8 and end - at >= 12:
            first, second = word(buffer, at + 4, big), word(buffer, at + 8, big)
            high, low = (first, second) if big else (second, first)
            drops = high << 32 | low if high < BELIEVED >> 32 else 0
        at += 4 + (length + 3 & ~3)
    return count, drops


@part
def _packet(buffer: Any, at: int, size: int, old: bool, big: bool, table: Any, out: Any, count: int) -> None:
    """Writes the record of a packet block to `out`."""
    captured, number, stamp, wire, drops = 0, 0, classic.NO_FRAME, 0, 0
    if size >= LEAST_PACKET:
        row = _half(buffer, at + 8, big) if old else word(buffer, at + 8, big)
        declared = row < len(table) and table[row, NUMBER] >= 0
        captured, wire = word(buffer, at + 20, big), word(buffer, at + 24, big)
        if declared:
            number = table[row, NUMBER]
        if old and _half(buffer, at + 10, big) != 0xFFFF:
            drops = _half(buffer, at + 10, big)
        if captured > size - LEAST_PACKET:
            captured = 0
        elif declared:
            stamp = _nanoseconds(word(buffer, at + 12, big), word(buffer, at + 16, big), table, row)
        else:
            stamp = classic.NO_INTERFACE
    out[classic.OFFSET, count], out[classic.STAMP, count], out[classic.WIRE, count] = (
        at + FIXED - RECORD_HEADER,
        stamp,
        wire,
    )
    out[classic.CAPTURED, count], out[classic.INTERFACE, count] = captured, number
    out[classic.DROPS, count] = drops


@rare
def _simple(buffer: Any, at: int, size: int, big: bool, table: Any, out: Any, count: int) -> None:
    """Writes the record of a simple packet block, which has no time and belongs to the first interface."""
    declared = len(table) > 0 and table[0, NUMBER] >= 0
    whole = size >= LEAST_SIMPLE
    wire = word(buffer, at + 8, big) if whole else 0
    captured = min(wire, size - LEAST_SIMPLE) if whole else 0
    if declared and table[0, SNAPLEN] > 0:
        captured = min(captured, table[0, SNAPLEN])
    out[classic.OFFSET, count], out[classic.STAMP, count] = (
        at + SIMPLE_FIXED - RECORD_HEADER,
        classic.NO_TIME if whole else classic.NO_FRAME,
    )
    out[classic.WIRE, count], out[classic.CAPTURED, count] = wire, captured
    out[classic.INTERFACE, count] = table[0, NUMBER] if declared else 0
    out[classic.DROPS, count] = 0


@rare
def tallied(kind: int) -> int:
    """Returns the index in the tally for a kind of block that is no packet."""
    if kind == NAME_BLOCK:
        return NAMES
    if kind == STATISTICS_BLOCK:
        return STATISTICS
    if kind == SECRET_BLOCK:
        return SECRETS
    if kind == JOURNAL_BLOCK:
        return JOURNAL
    return CUSTOM if kind in (CUSTOM_BLOCK, CUSTOM_NOT_COPIED) else UNKNOWN


@kernel
def scan(
    buffer: Any, begin: int, end: int, big: bool, table: Any, tally: Any, out: Any, count: int
) -> tuple[int, int, int]:
    """Finds whole packet blocks in buffer[begin:end].

    A total length that is no multiple of 4 is rounded up, as in Wireshark: old writers left out the padding.

    Args:
        table: int64 array (interfaces of the section so far, COLUMNS).
        tally: int64 array (TALLIES); blocks that are no packets are added to it.
        out: as for `classic.scan`; the timestamp of a malformed record is a negative reason.

    Returns:
        Number of records in `out`, index of the next block, and FULL (also after PASSED bytes without a packet), MORE,
        DAMAGE (implausible or unequal lengths) or STATE.
    """
    at, passed = begin, 0
    while count < out.shape[1] and passed < classic.PASSED:
        left = end - at
        if left < LEAST_BLOCK:
            return count, at, classic.MORE
        kind = word(buffer, at, big)
        if kind == SECTION:
            whole, _ = section(buffer, at, end)
            return count, at, STATE if whole > 0 else classic.MORE if whole == 0 else classic.DAMAGE
        size = word(buffer, at + 4, big)
        padded = size + 3 & ~3
        if size < LEAST_BLOCK or size > LARGEST_BLOCK:
            return count, at, classic.DAMAGE
        if left < padded:
            return count, at, classic.MORE
        if word(buffer, at + padded - 4, big) != size:
            return count, at, classic.DAMAGE
        if kind in (PACKET, OLD_PACKET):
            _packet(buffer, at, size, kind == OLD_PACKET, big, table, out, count)
            options = at + FIXED + (out[classic.CAPTURED, count] + 3 & ~3)
            if at + size - 4 - options >= 4 and out[classic.STAMP, count] != classic.NO_FRAME:
                comments, drops = _options(buffer, options, at + size - 4, big)
                tally[COMMENT] += comments
                out[classic.DROPS, count] += drops
        elif kind == SIMPLE_PACKET:
            _simple(buffer, at, size, big, table, out, count)
        elif (kind == INTERFACE and size >= LEAST_INTERFACE) or (kind == STATISTICS_BLOCK and size >= LEAST_STATISTICS):
            return count, at, STATE
        else:
            tally[tallied(kind)] += 1
            tally[BYTES] += padded
            at += padded
            passed += padded
            continue
        out[classic.BLOCK, count], out[classic.SIZE, count] = at, padded
        count += 1
        at += padded
        passed = 0
    return count, at, classic.FULL


_LONGEST_OPTIONS = 64 << 10


@rare
def _least(kind: int) -> int:
    """Returns the smallest size of a block of a known kind; 0 for other kinds."""
    if kind in (PACKET, OLD_PACKET):
        return LEAST_PACKET
    if kind == INTERFACE:
        return LEAST_INTERFACE
    if kind == SIMPLE_PACKET:
        return LEAST_SIMPLE
    return 0 if tallied(kind) == UNKNOWN else LEAST_BLOCK


@part
def _chained(buffer: Any, at: int, end: int, big: bool, at_end: bool) -> int:
    """Whether blocks may go on at buffer[at]: FOUND, NOT_FOUND or MORE."""
    for whole in range(classic.CHAIN):
        rest = classic.NOT_FOUND if whole == 0 else classic.FOUND
        left = end - at
        if left < LEAST_BLOCK:
            return rest if at_end else classic.MORE
        kind = word(buffer, at, big)
        if kind == SECTION:
            size, _ = section(buffer, at, end)
            return classic.FOUND if size > 0 else classic.NOT_FOUND if size < 0 else rest if at_end else classic.MORE
        size, least = word(buffer, at + 4, big), _least(kind)
        if least == 0 or size < least or size > LARGEST_BLOCK or size & 3:
            return classic.NOT_FOUND
        if left < size:
            return rest if at_end else classic.MORE
        if word(buffer, at + size - 4, big) != size:
            return classic.NOT_FOUND
        if least == LEAST_PACKET and word(buffer, at + 20, big) > size - least:
            return classic.NOT_FOUND
        # Three bytes later, blocks of the other byte order look like blocks of this one, except for this number.
        if kind == PACKET and word(buffer, at + 8, big) >= MOST_DECLARED:
            return classic.NOT_FOUND
        at += size
    return classic.FOUND


@kernel
def search(buffer: Any, begin: int, end: int, big: bool, at_end: bool) -> tuple[int, int]:
    """Finds where blocks go on after damage in buffer[begin:end].

    Blocks go on at a section header. They also go on where CHAIN blocks of known kinds follow one another, or at least
    one and then a section header or the end of the file. Their two lengths must agree, the interface numbers of their
    packets must be plausible, and captured lengths must lie within the  Every index is tried: the number of lost
    bytes need not be a multiple of 4.

    Returns:
        As `classic.search`.
    """
    for at in range(begin, end - LEAST_BLOCK + 1):
        outcome = _chained(buffer, at, end, big, at_end)
        if outcome != classic.NOT_FOUND:
            return at, outcome
    return (end, classic.NOT_FOUND) if at_end else (max(begin, end - LEAST_BLOCK + 1), classic.MORE)


@kernel
def doubtful(buffer: Any, at: int, end: int, big: bool) -> bool:
    """Whether the block that the end of the file cuts may be damage: its length does not fit its kind."""
    if end - at < FIXED:
        return False
    kind, size = word(buffer, at, big), word(buffer, at + 4, big)
    if kind in (PACKET, OLD_PACKET):
        options = size - LEAST_PACKET - word(buffer, at + 20, big)
        return not 0 <= options <= _LONGEST_OPTIONS
    return kind != SECTION and (size > _LONGEST_OPTIONS or _least(kind) == 0)


_NONE = (Interface(0, "", -1, "", 0),)


@dataclass(frozen=True)
class _State:
    """Byte order and interfaces that hold from a file offset up to the next section header or interface description."""

    offset: int
    big: bool  # whether the section is big endian
    table: NDArray[np.int64]  # interface table of the section; its first `declared` rows are filled
    declared: int  # number of interfaces declared in the section
    interfaces: int  # number of interfaces of the file so far
    unnamed: int = 0  # number of interfaces declared in the section without a name


class PcapngScanner:
    """The scanner of a pcapng; see `classic.Scanner`.

    An interface is identified by its name and link type over all sections of a file. An interface without a name is
    named by its number among such interfaces of its section. Each declaration has its own resolution and time offset.
    Declarations before damage stay valid after it; a declaration that is lost in the damage is not invented.

    Args:
        big: whether the first section is big endian.

    Attributes:
        untimed: time (ns) that the next simple packet block takes: that of the last packet with one; -1 before the
            first one. None: simple packet blocks have no time, and are malformed.
        resolution: `us` or `ns` in the place of those of the interfaces; empty for theirs.
        statistics: what statistics blocks say; None where only a part of the file is scanned.
        parts: offsets of the section headers behind the first one.
    """

    start = 0
    damage = "block"

    def __init__(self, big: bool) -> None:
        self.untimed: int | None = None
        self.resolution = ""
        self._interfaces: tuple[Interface, ...] = ()
        # Scanners of one file share it: each declares the same interfaces in the same order.
        self._numbers: dict[tuple[str, int], int] = {}
        self._tally = np.zeros(TALLIES, np.int64)
        self.statistics: Statistics | None = Statistics()
        self.parts: list[int] = []
        self._at = 0
        self._past: list[_State] = []
        self._now = _State(0, big, _table(0), 0, 0)

    @classmethod
    def of(cls, header: CaptureFile) -> PcapngScanner:
        return cls(header.byte_order == "big")

    @property
    def interfaces(self) -> tuple[Interface, ...]:
        return self._interfaces or _NONE

    @property
    def blocks(self) -> tuple[tuple[str, int], ...]:
        counts = self._tally[: len(COUNTED)].tolist()
        return tuple((name, count) for name, count in zip(COUNTED, counts, strict=True) if count)

    @property
    def overhead(self) -> int:
        return int(self._tally[BYTES])

    def scan(
        self, buffer: NDArray[Any], begin: int, end: int, records: NDArray[Any], count: int
    ) -> tuple[int, int, int]:
        at, passed = begin, self.overhead
        while self.overhead - passed < classic.PASSED:
            now, before, start = self._now, count, at
            table = now.table[: now.declared]
            count, at, stopped = scan(buffer, at, end, now.big, table, self._tally, records, count)
            self._at += at - start
            if count > before:
                if self.statistics is not None:
                    self.statistics.count(records[:, before:count])
                if self.untimed is not None:
                    self.untimed = give_times(records[:, before:count], self.untimed)
                passed = self.overhead
                if not self._past or self._past[-1] is not now:
                    self._past.append(now)
            if stopped != STATE:
                return count, at, stopped
            at += self._declare(buffer, at, end)
        return count, at, classic.FULL

    def search(
        self, buffer: NDArray[Any], begin: int, end: int, at_end: bool, around: int, border: int
    ) -> tuple[int, int]:
        if begin < border:  # the lengths at both ends of a block agree, so none has swallowed others
            return border, classic.NOT_FOUND
        result: tuple[int, int] = search(buffer, begin, end, self._now.big, at_end)
        return result

    def credible(self, buffer: NDArray[Any], at: int, around: int) -> bool:
        return True

    def doubtful(self, buffer: NDArray[Any], begin: int, end: int, around: int) -> bool:
        return bool(doubtful(buffer, begin, end, self._now.big))

    def skip(self, count: int) -> None:
        self._at += count

    def take_back(self, count: int, passed: int) -> None:
        self._at -= count
        self._tally[BYTES] -= passed

    def settle(self, offset: int) -> None:
        del self._past[: max(self._index(offset), 0)]

    def forget(self, offset: int) -> None:
        del self._past[self._index(offset) + 1 :]

    def at(self, offset: int) -> PcapngScanner:
        index = self._index(offset)
        state = self._past[index] if index >= 0 else self._now
        other = PcapngScanner(state.big)
        other.untimed, other.resolution = self.untimed, self.resolution
        other.statistics = None  # the scanner of the whole file has them
        other._interfaces, other._numbers = self._interfaces[: state.interfaces], self._numbers
        table = state.table[: state.declared]  # filled rows never change
        other._at = offset
        other._now = _State(offset, state.big, table, state.declared, state.interfaces, state.unnamed)
        return other

    def extents(self, records: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        return records[classic.BLOCK], records[classic.SIZE]

    def bytes_of(self, records: NDArray[Any]) -> int:
        return int(records[classic.SIZE].sum())

    def _index(self, offset: int) -> int:
        """Returns the index of the state with packets that holds at an offset; -1 for none."""
        return bisect_right(self._past, offset, key=lambda state: state.offset) - 1

    def _declare(self, buffer: NDArray[Any], at: int, end: int) -> int:
        """Reads the section header, interface description or statistics at buffer[at]. Returns its bytes."""
        now = self._now
        kind = int.from_bytes(buffer[at : at + 4].tobytes(), "big")
        if kind == SECTION:
            size, big = section(buffer, at, end)
            if self._at and len(self.parts) < CAPTURE_PARTS:
                self.parts.append(self._at)
            self._now = _State(self._at + size, bool(big), _table(0), 0, now.interfaces)
            self._tally[0] += 1
            if self.statistics is not None:
                self.statistics.begin_section()
        else:
            order: Literal["big", "little"] = "big" if now.big else "little"
            total = int.from_bytes(buffer[at + 4 : at + 8].tobytes(), order)
            size = total + -total % 4
            block = buffer[at : at + size].tobytes()
            if int.from_bytes(block[:4], order) == STATISTICS_BLOCK:
                self._read_statistics(block)
                self._tally[STATISTICS] += 1
            else:
                self._add(block, self._at + size)
                self._tally[1] += 1
        self._tally[BYTES] += size
        self._at += size
        return int(size)

    def _read_statistics(self, block: bytes) -> None:
        """Reads what a statistics block says of packets that were lost."""
        now, order = self._now, ">" if self._now.big else "<"
        (row,) = struct.unpack_from(order + "I", block, 8)
        if self.statistics is None or row >= now.declared or now.table[row, NUMBER] < 0:
            return
        times, counts = {0: struct.unpack_from(order + "II", block, 12)}, {}
        for code, value in options(block[20:-4], now.big):
            if len(value) == 8:
                times[code] = struct.unpack(order + "II", value)
                (counts[code],) = struct.unpack(order + "Q", value)
        self.statistics.read(
            self._interfaces[int(now.table[row, NUMBER])],
            counts,
            _instant(times.get(_READ, times[0]), now.table[row]),
            _instant(times[_BEGAN], now.table[row]) if _BEGAN in times else None,
        )

    def _add(self, block: bytes, after: int) -> None:
        """Adds an interface description, which holds from the file offset `after` on."""
        now, row = self._now, self._now.declared
        if row == MOST_DECLARED:
            return
        description = describe(block, now.big, self.resolution)
        name = description.name or unnamed(now.unnamed)
        number = min(self._numbers.get((name, description.link), MOST_INTERFACES), len(self._interfaces))
        if number == MOST_INTERFACES:
            number = -1
        elif number == len(self._interfaces):
            self._numbers[name, description.link] = number
            new = Interface(number, name, description.link, link_name(description.link), description.snaplen)
            self._interfaces = with_interface(self._interfaces, new)
        table = now.table
        if row == len(table):
            table = np.concatenate([table, _table(max(row, 4))])
        factor = description.factor - (1 << 64) if description.factor >> 63 else description.factor
        table[row] = number, description.kind, factor, description.most, description.offset, description.snaplen
        self._now = _State(after, now.big, table, row + 1, len(self._interfaces), now.unnamed + (not description.name))


class Statistics:
    """What statistics blocks say of lost packets, by interface; with packets and their own drops in between."""

    def __init__(self) -> None:
        self._logs: dict[int, tuple[CounterLog, DropTally]] = {}
        self._told: Counter[int] = Counter()
        self._earlier: Counter[int] = Counter()  # told in sections before, after their last block
        self._found: Counter[int] = Counter()
        self._section = 0

    def begin_section(self) -> None:
        """A section has counters of its own, unless they go on."""
        self._section += 1
        self._found.clear()
        self._earlier.update(self._told)
        self._told.clear()

    def count(self, records: NDArray[np.int64]) -> None:
        """Counts packets, shape (classic.ROWS, n)."""
        numbers, drops = records[classic.INTERFACE], records[classic.DROPS]
        for number, count in enumerate(np.bincount(numbers).tolist()):
            if count:
                self._found[number] += count
        for at in np.flatnonzero(drops).tolist():
            self._told[int(numbers[at])] += int(drops[at])

    def read(self, interface: Interface, counts: Mapping[int, int], end: int | None, since: int | None) -> None:
        """Reads the counters of a block (option -> number), at an instant, ns; `since` is when they began.

        What the interface and the system lost adds up, but for equal numbers, which are one loss told twice. A number
        that no counter reaches says that it is not known.
        """
        lost = {counts[code] for code in (_LOST, _LOST_BY_SYSTEM) if counts.get(code, BELIEVED) < BELIEVED}
        if not lost:
            return
        number = interface.index
        if number not in self._logs:
            tally = DropTally(PCAPNG)
            self._logs[number] = CounterLog(f"{interface.name} {interface.link_type}", tally), tally
        received = (
            counts[code] for code in (_DELIVERED, _ACCEPTED, _RECEIVED) if counts.get(code, BELIEVED) < BELIEVED
        )
        reading = Reading(sum(lost), end, since, self._told.pop(number, 0), self._found[number], next(received, None))
        self._logs[number][0].read(reading, self._section, self._earlier.pop(number, 0))

    def drops(self, number: int) -> DeclaredDrops:
        """Returns what was read of an interface."""
        if number not in self._logs:
            return NO_DROPS
        log, tally = self._logs[number]
        counter = log.counter()
        return DeclaredDrops(tuple(tally.ranges()), () if counter is None else (counter,))


def _instant(ticks: tuple[int, int], row: NDArray[np.int64]) -> int | None:
    """Converts ticks in two words to ns by the row of an interface; None if no record may have this time."""
    count, (kind, factor, added) = ticks[0] << 32 | ticks[1], (int(row[column]) for column in (KIND, FACTOR, ADDED))
    factor &= (1 << 64) - 1
    scaled = {MULTIPLY: count * factor, DIVIDE: count // max(factor, 1), SHIFT: count * _PER_SECOND >> min(factor, 128)}
    stamp = scaled[kind] + added
    return stamp if 0 <= stamp < END_OF_TIME else None


def give_times(records: NDArray[np.int64], before: int) -> int:
    """Gives packets without a time that of the last packet before them that has one, in place.

    Args:
        records: shape (classic.ROWS, n), successive records of a file, at least one.
        before: time of the last packet before them, ns; -1 for none.

    Returns:
        Time of the last packet with one, ns; -1 for none.
    """
    stamps = records[classic.STAMP]
    timed, _ = judgeable(stamps, records[classic.WIRE])
    last = np.maximum.accumulate(np.where(timed, np.arange(len(stamps)), -1))
    times = np.where(last >= 0, stamps[last], before)
    untimed = (stamps == classic.NO_TIME) & (times >= 0)
    stamps[untimed] = times[untimed]
    return int(times[-1])


def _table(rows: int) -> NDArray[np.int64]:
    return np.empty((rows, COLUMNS), np.int64)
