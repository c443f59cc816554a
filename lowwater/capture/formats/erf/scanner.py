"""The scanner of an ERF file: packets of its ports, padding, and records about the capture.

Between the kernels of the format and the reader, like the scanners of `classic` and `pcapng.scanner`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowwater.capture.formats import scan as scanning
from lowwater.capture.formats.erf import scan as kernels
from lowwater.capture.formats.erf.records import HEADER, KINDS, LINK_NUMBERS
from lowwater.capture.formats.header import CaptureFile, link_name
from lowwater.capture.records.facts import Interface, with_interface
from lowwater.link_names import unnamed

_NONE = (Interface(0, "", -1, "", 0),)
_SECOND = 1_000_000_000
_COUNTED = ("padding", "provenance")


class ErfScanner:
    """The scanner of an ERF file; see `classic.Scanner`.

    A port is an interface, named by its number. A port with packets of several link types is an interface for each.
    Interfaces are numbered in the order of their first packets.
    """

    start = 0
    damage = "length"

    def __init__(self) -> None:
        self._numbers: NDArray[np.int64] = kernels.no_interfaces()
        self._begins: list[int] = []  # by interface, the file offset of its first packet
        self._interfaces: tuple[Interface, ...] = ()
        self._tally = np.zeros(kernels.TALLIES, np.int64)
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
        return int(self._tally[kernels.BYTES])

    def scan(
        self, buffer: NDArray[Any], begin: int, end: int, records: NDArray[Any], count: int
    ) -> tuple[int, int, int]:
        places = np.full(kernels.KEYS, -1)
        count, at, stopped = kernels.scan(buffer, begin, end, self._numbers, places, self._tally, records, count)
        new = np.flatnonzero(places >= 0)
        for key in new[np.argsort(places[new])].tolist():
            port, kind = divmod(key, KINDS)
            number = LINK_NUMBERS[kind]
            interface = Interface(len(self._interfaces), unnamed(port), number, link_name(number), 0)
            self._interfaces = with_interface(self._interfaces, interface)
            self._begins.append(self._at + int(places[key]) - begin)
        self._at += at - begin
        return count, at, stopped

    def search(self, buffer: NDArray[Any], begin: int, end: int, at_end: bool, around: int) -> tuple[int, int]:
        result: tuple[int, int] = kernels.search(buffer, begin, end, around // _SECOND, at_end)
        return result

    def doubtful(self, buffer: NDArray[Any], begin: int, end: int, around: int) -> bool:
        return end - begin >= HEADER and kernels.plausible(buffer, begin, around // _SECOND, scanning.YEAR)[0] < 0

    def skip(self, count: int) -> None:
        self._at += count

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
        other._numbers[kernels.KEYS] = before
        return other

    def extents(self, records: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        return records[scanning.BLOCK], records[scanning.SIZE]

    def bytes_of(self, records: NDArray[Any]) -> int:
        return int(records[scanning.SIZE].sum())
