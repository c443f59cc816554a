"""The scanner of a pcapng: packets, sections, interfaces, and other blocks.

Between the kernels of the format and the reader. The other scanner is `classic.ClassicScanner`.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowwater.capture.formats import scan as scanning
from lowwater.capture.formats.header import CaptureFile, link_name
from lowwater.capture.formats.pcapng import scan as kernels
from lowwater.capture.formats.pcapng import search as searching
from lowwater.capture.formats.pcapng.blocks import COUNTED, MOST_DECLARED, MOST_INTERFACES, SECTION, describe
from lowwater.capture.records.facts import Interface, with_interface
from lowwater.capture.records.sanity import judgeable
from lowwater.link_names import unnamed

_NONE = (Interface(0, "", -1, "", 0),)


@dataclass(frozen=True)
class _State:
    """Byte order and interfaces that hold from a file offset up to the next section header or interface description.

    Attributes:
        offset: the file offset.
        big: whether the section is big endian.
        table: interface table of the section; its first `declared` rows are filled.
        declared: number of interfaces declared in the section.
        interfaces: number of interfaces of the file so far.
        unnamed: number of interfaces declared in the section without a name.
    """

    offset: int
    big: bool
    table: NDArray[np.int64]
    declared: int
    interfaces: int
    unnamed: int = 0


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
    """

    start = 0
    damage = "block"

    def __init__(self, big: bool) -> None:
        self.untimed: int | None = None
        self.resolution = ""
        self._interfaces: tuple[Interface, ...] = ()
        # Scanners of one file share it: each declares the same interfaces in the same order.
        self._numbers: dict[tuple[str, int], int] = {}
        self._tally = np.zeros(kernels.TALLIES, np.int64)
        self._at = 0
        self._past: list[_State] = []
        self._now = _State(0, big, _table(0), 0, 0)

    @classmethod
    def of(cls, header: CaptureFile) -> PcapngScanner:
        """Makes the scanner for a file header."""
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
        return int(self._tally[kernels.BYTES])

    def scan(
        self, buffer: NDArray[Any], begin: int, end: int, records: NDArray[Any], count: int
    ) -> tuple[int, int, int]:
        at, passed = begin, self.overhead
        while self.overhead - passed < scanning.PASSED:
            now, before, start = self._now, count, at
            table = now.table[: now.declared]
            count, at, stopped = kernels.scan(buffer, at, end, now.big, table, self._tally, records, count)
            self._at += at - start
            if count > before:
                if self.untimed is not None:
                    self.untimed = give_times(records[:, before:count], self.untimed)
                passed = self.overhead
                if not self._past or self._past[-1] is not now:
                    self._past.append(now)
            if stopped != kernels.STATE:
                return count, at, stopped
            at += self._declare(buffer, at, end)
        return count, at, scanning.FULL

    def search(self, buffer: NDArray[Any], begin: int, end: int, at_end: bool, around: int) -> tuple[int, int]:
        result: tuple[int, int] = searching.search(buffer, begin, end, self._now.big, at_end)
        return result

    def doubtful(self, buffer: NDArray[Any], begin: int, end: int, around: int) -> bool:
        return bool(searching.doubtful(buffer, begin, end, self._now.big))

    def skip(self, count: int) -> None:
        self._at += count

    def settle(self, offset: int) -> None:
        del self._past[: max(self._index(offset), 0)]

    def forget(self, offset: int) -> None:
        del self._past[self._index(offset) + 1 :]

    def at(self, offset: int) -> PcapngScanner:
        index = self._index(offset)
        state = self._past[index] if index >= 0 else self._now
        other = PcapngScanner(state.big)
        other.untimed, other.resolution = self.untimed, self.resolution
        other._interfaces, other._numbers = self._interfaces[: state.interfaces], self._numbers
        table = state.table[: state.declared]  # filled rows never change
        other._at = offset
        other._now = _State(offset, state.big, table, state.declared, state.interfaces, state.unnamed)
        return other

    def extents(self, records: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        return records[scanning.BLOCK], records[scanning.SIZE]

    def bytes_of(self, records: NDArray[Any]) -> int:
        return int(records[scanning.SIZE].sum())

    def _index(self, offset: int) -> int:
        """Returns the index of the state with packets that holds at an offset; -1 for none."""
        return bisect_right(self._past, offset, key=lambda state: state.offset) - 1

    def _declare(self, buffer: NDArray[Any], at: int, end: int) -> int:
        """Reads the section header or interface description at buffer[at]. Returns its bytes."""
        now = self._now
        kind = int.from_bytes(buffer[at : at + 4].tobytes(), "big")
        if kind == SECTION:
            size, big = kernels.section(buffer, at, end)
            self._now = _State(self._at + size, bool(big), _table(0), 0, now.interfaces)
            self._tally[0] += 1
        else:
            total = int.from_bytes(buffer[at + 4 : at + 8].tobytes(), "big" if now.big else "little")
            size = total + -total % 4
            self._add(buffer[at : at + size].tobytes(), self._at + size)
            self._tally[1] += 1
        self._tally[kernels.BYTES] += size
        self._at += size
        return int(size)

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


def give_times(records: NDArray[np.int64], before: int) -> int:
    """Gives packets without a time that of the last packet before them that has one, in place.

    Args:
        records: shape (scan.ROWS, n), successive records of a file, at least one.
        before: time of the last packet before them, ns; -1 for none.

    Returns:
        Time of the last packet with one, ns; -1 for none.
    """
    stamps = records[scanning.STAMP]
    timed, _ = judgeable(stamps, records[scanning.WIRE])
    last = np.maximum.accumulate(np.where(timed, np.arange(len(stamps)), -1))
    times = np.where(last >= 0, stamps[last], before)
    untimed = (stamps == scanning.NO_TIME) & (times >= 0)
    stamps[untimed] = times[untimed]
    return int(times[-1])


def _table(rows: int) -> NDArray[np.int64]:
    return np.empty((rows, kernels.COLUMNS), np.int64)
