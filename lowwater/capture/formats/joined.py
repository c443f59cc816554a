"""The scanner of a pcap or snoop file, which may be several captures, one behind the other, each with its header.

`cat a b`, `>>` and a recorder that is started again into the same file make such files. The captures may differ in byte
order, precision and link type. Those of a pcapng are its sections, which `pcapng` reads.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from numpy.typing import NDArray

from lowwater.capture.formats import classic
from lowwater.capture.formats.capture_file import FILE_HEADER
from lowwater.capture.formats.classic import BLOCK, INTERFACE, SIZE, RecordLayout
from lowwater.capture.records.facts import Interface, with_interface
from lowwater.limits import CAPTURE_PARTS

_BEGINS = re.compile(
    rb"\xd4\xc3\xb2\xa1|\xa1\xb2\xc3\xd4|\x4d\x3c\xb2\xa1|\xa1\xb2\x3c\x4d|\x34\xcd\xb2\xa1|\xa1\xb2\xcd\x34|snoop\0\0\0"
)

_TRIES = 64
"""Headers that are looked at in a search: a payload may hold any number of them."""


@dataclass(frozen=True)
class _Part:
    """A capture of the file."""

    header: int  # offset of its header in the file
    layout: RecordLayout
    number: int  # its interface
    interfaces: int  # number of interfaces of the file so far

    @property
    def begin(self) -> int:
        """Offset of its first record."""
        return self.header + self.layout.start


class JoinedScanner:
    """The scanner of a pcap or snoop file; see `classic.Scanner`.

    A header is known where a record would begin, and in damage: a record that was cut when its recorder was killed
    claims bytes behind the next header. Captures of one link type are one interface.

    Args:
        first: layout of the first capture.
        layout_of: returns the layout for the bytes of a file header; None if they are none. Picklable.
    """

    blocks: tuple[tuple[str, int], ...] = ()

    def __init__(self, first: RecordLayout, layout_of: Callable[[bytes], RecordLayout | None]) -> None:
        self.start = first.start
        self._layout_of = layout_of
        self._parts = [_Part(0, first, 0, 1)]
        self.parts: list[int] = []
        self._interfaces: tuple[Interface, ...] = (first.interface,)
        self._numbers = {first.interface.link_number: 0}  # by link type; scanners of one file share it
        self._at = self.start
        self._placed = False  # whether the records have their places in rows BLOCK and SIZE

    @property
    def interfaces(self) -> tuple[Interface, ...]:
        return self._interfaces

    @property
    def damage(self) -> str:
        return self._now.layout.damage

    @property
    def overhead(self) -> int:
        return sum(part.layout.start for part in self._parts)

    @property
    def _now(self) -> _Part:
        return self._parts[-1]

    def scan(
        self, buffer: NDArray[Any], begin: int, end: int, records: NDArray[Any], count: int
    ) -> tuple[int, int, int]:
        at = begin
        while True:
            part, before, start = self._now, count, at
            count, at, stopped = part.layout.scan(buffer, at, end, records, count)
            self._at += at - start
            if self._placed:
                self._place(records[:, before:count], part)
            if stopped not in (classic.HEADER, classic.DAMAGE):
                return count, at, stopped
            layout = self._header(buffer, at, end)
            if layout is None:
                return count, at, classic.DAMAGE
            if not self._placed:
                self._place(records[:, :count], part)
                self._placed = True
            self._begin(layout)
            at += layout.start
            self._at += layout.start

    def _place(self, records: NDArray[Any], part: _Part) -> None:
        """Notes the interface of records of a part, and where they lie: the next ones may lie in another layout."""
        records[BLOCK], records[SIZE] = part.layout.extents(records)
        records[INTERFACE] = part.number

    def _header(self, buffer: NDArray[Any], at: int, end: int) -> RecordLayout | None:
        if len(self._parts) > CAPTURE_PARTS:
            return None
        head = buffer[at : min(at + FILE_HEADER, end)].tobytes()
        return self._layout_of(head) if _BEGINS.match(head) else None

    def _begin(self, layout: RecordLayout) -> None:
        """Begins a capture, whose header lies at the current place."""
        kind = layout.interface.link_number
        number = self._numbers.setdefault(kind, len(self._interfaces))
        if number == len(self._interfaces):
            self._interfaces = with_interface(self._interfaces, replace(layout.interface, index=number))
        self._parts.append(_Part(self._at, layout, number, len(self._interfaces)))
        self.parts.append(self._at)

    def search(
        self, buffer: NDArray[Any], begin: int, end: int, at_end: bool, around: int, border: int
    ) -> tuple[int, int]:
        found, outcome = self._now.layout.search(buffer, begin, end, at_end, around, border)
        if outcome == classic.MORE:
            found = min(found, max(begin, end - FILE_HEADER + 1))  # a header may begin there
        for at, layout in islice(self._headers(buffer, begin, found, end), _TRIES):
            records = at + layout.start
            if begin < border:  # the capture goes on over the border; one in a payload does not
                goes_on = layout.search(buffer, records, end, at_end, -1, border, 1) if records < border else None
                if goes_on is not None and goes_on[0] == records:
                    return at, goes_on[1]
            elif end - records < FILE_HEADER and not at_end:
                return at, classic.MORE
            elif (
                end - records < FILE_HEADER
                or self._header(buffer, records, end)
                or layout.credible(buffer, records, around)
            ):
                return at, classic.FOUND
        return found, outcome

    def _headers(self, buffer: NDArray[Any], begin: int, stop: int, end: int) -> Iterator[tuple[int, RecordLayout]]:
        """Yields the headers that begin in buffer[begin:stop], with their places."""
        for match in _BEGINS.finditer(buffer[begin : min(stop + FILE_HEADER, end)].data):
            at = begin + match.start()
            if at < stop and (layout := self._header(buffer, at, end)) is not None:
                yield at, layout

    def credible(self, buffer: NDArray[Any], at: int, around: int) -> bool:
        return self._now.layout.credible(buffer, at, around)

    def doubtful(self, buffer: NDArray[Any], begin: int, end: int, around: int) -> bool:
        return self._now.layout.doubtful(buffer, begin, end, around)

    def skip(self, count: int) -> None:
        self._at += count

    def take_back(self, count: int, passed: int) -> None:
        self._at -= count
        while self._now.begin > self._at and len(self._parts) > 1:  # its header was found in damage
            self._parts.pop()
            self.parts.pop()

    def settle(self, offset: int) -> None:
        pass

    def forget(self, offset: int) -> None:
        pass

    def at(self, offset: int) -> JoinedScanner:
        part = self._parts[max(bisect_right(self._parts, offset, key=lambda part: part.begin) - 1, 0)]
        other = JoinedScanner(part.layout, self._layout_of)
        other._parts, other._interfaces = [part], self._interfaces[: part.interfaces]
        other._numbers, other._at = self._numbers, offset
        other._placed = part.interfaces > 1
        return other

    def extents(self, records: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        return (records[BLOCK], records[SIZE]) if self._placed else self._now.layout.extents(records)

    def bytes_of(self, records: NDArray[Any]) -> int:
        return int(self.extents(records)[1].sum())
