"""The packets of a pcapng, as the reader asks for them: sections, interfaces, and what else the file holds.

Between the kernels of the format and the reader; the other scanner is `classic.ClassicScanner`.
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
from lowwater.capture.records.facts import Interface

_NONE = (Interface(0, "", -1, "", 0),)


@dataclass(frozen=True)
class _State:
    """What holds from an offset of the file on, until the next section header or interface description.

    Attributes:
        offset: where that is.
        big: byte order of the section.
        table: the table of the interfaces of the section, of which `declared` are there already.
        declared: how many.
        known: how many interfaces of the file are known.
    """

    offset: int
    big: bool
    table: NDArray[np.int64]
    declared: int
    known: int


class PcapngScanner:
    """The packets of a pcapng; see `classic.Scanner`.

    An interface is known by its name and link type over all sections of a file; one without a name is called by its
    index in its section. The resolution and the offset of its timestamps are those of each declaration. After damage
    the declarations before it hold on: one that was lost in it is not made up.

    Args:
        big: byte order of the first section.
    """

    start = 0
    damage = "block"

    def __init__(self, big: bool) -> None:
        self._interfaces: list[Interface] = []
        self._told: tuple[Interface, ...] = ()
        self._numbers: dict[tuple[str, int], int] = {}
        self._shared = False  # whether these two are another scanner's, too
        self._tally = np.zeros(kernels.TALLIES, np.int64)
        self._at = 0
        self._past: list[_State] = []
        self._now = _State(0, big, _table(0), 0, 0)

    @classmethod
    def of(cls, header: CaptureFile) -> PcapngScanner:
        """The scanner of a file with this header."""
        return cls(header.byte_order == "big")

    @property
    def interfaces(self) -> tuple[Interface, ...]:
        if len(self._told) < len(self._interfaces):
            self._told = tuple(self._interfaces)
        return self._told or _NONE

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
                passed = self.overhead
                if not self._past or self._past[-1] is not now:
                    self._past.append(now)
            if stopped != kernels.STATE:
                return count, at, stopped
            at += self._declare(buffer, at, end)
        return count, at, scanning.FULL

    def search(self, buffer: NDArray[Any], begin: int, end: int, at_end: bool, around: int) -> tuple[int, int]:
        found: tuple[int, int] = searching.search(buffer, begin, end, self._now.big, at_end)
        return found

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
        other._interfaces, other._numbers = self._interfaces, self._numbers
        if state.known < len(self._interfaces):
            other._interfaces = self._interfaces[: state.known]
            other._numbers = {key: number for key, number in self._numbers.items() if number < state.known}
        else:
            self._shared = other._shared = True
        table = state.table[: state.declared]  # rows that are there never change
        other._at = offset
        other._now = _State(offset, state.big, table, state.declared, state.known)
        return other

    def extents(self, records: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        return records[scanning.BLOCK], records[scanning.SIZE]

    def bytes_of(self, records: NDArray[Any]) -> int:
        return int(records[scanning.SIZE].sum())

    def _index(self, offset: int) -> int:
        """Which of the states in which packets were found holds at an offset; -1 for none."""
        return bisect_right(self._past, offset, key=lambda state: state.offset) - 1

    def _declare(self, buffer: NDArray[Any], at: int, end: int) -> int:
        """Takes in the section header or interface description at buffer[at]; gives its bytes."""
        now = self._now
        kind = int.from_bytes(buffer[at : at + 4].tobytes(), "big")
        if kind == SECTION:
            size, big = kernels.section(buffer, at, end)
            self._now = _State(self._at + size, bool(big), _table(0), 0, now.known)
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
        """Takes in an interface description, which holds from an offset on."""
        now, row = self._now, self._now.declared
        if row == MOST_DECLARED:
            return
        found = describe(block, now.big)
        name = found.name or str(row)
        number = self._numbers.get((name, found.link), len(self._interfaces))
        if number == MOST_INTERFACES:
            number = -1
        elif number == len(self._interfaces):
            if self._shared:
                self._interfaces, self._numbers, self._shared = self._interfaces.copy(), self._numbers.copy(), False
            self._numbers[name, found.link] = number
            self._interfaces.append(Interface(number, name, found.link, link_name(found.link), found.snaplen))
        table = now.table
        if row == len(table):
            table = np.concatenate([table, _table(max(row, 4))])
        factor = found.factor - (1 << 64) if found.factor >> 63 else found.factor
        table[row] = number, found.kind, factor, found.most, found.offset
        self._now = _State(after, now.big, table, row + 1, len(self._interfaces))


def _table(rows: int) -> NDArray[np.int64]:
    return np.empty((rows, kernels.COLUMNS), np.int64)
