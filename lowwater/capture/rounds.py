"""The records of a capture in file order, judged, with a malformed row for everything else.

Between the scanners and the reader: moves the window, holds back the records that cannot be judged yet, and finds where
records go on after damage.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lowwater.capture import scan as scanning
from lowwater.capture.chunks import Window
from lowwater.capture.classic import Scanner
from lowwater.capture.decoding import Round
from lowwater.capture.facts import Malformed
from lowwater.capture.sanity import Judge, in_range
from lowwater.capture.tally import Tally

_ROWS = 1 << 16
_LARGEST_WIRE = (1 << 31) - 1
_REASONS = {
    scanning.NO_TIME: "no-time",
    scanning.NO_INTERFACE: "interface",
    scanning.NO_FRAME: "captured",
}


@dataclass
class _Gap:
    """Damage, or bytes that were taken out of the window, while records before them wait.

    Attributes:
        before: how many records wait.
        offset: where in the file the damage is.
        length: its bytes.
        reason: that of its malformed row; empty where there is none, but blocks that are no packets.
        taken: bytes that were taken out of the window.
    """

    before: int
    offset: int
    length: int
    reason: str
    taken: int


class Rounds:
    """Iterate it once; whoever does adds the sane records of each round to the tallies.

    Args:
        window: filled, at the beginning of the file.
        scanner: of the file.
        max_jump: how far ahead of the median of its neighbours a timestamp may be, ns (SEMANTICS T3).

    Attributes:
        scanner: as given.
        judge: of the timestamps.
        malformed: rows so far, in file order.
        tallies: one an interface.
        position: number of the next record.
        record_bytes: bytes of the sane records so far.
        rest: where in the file lies what no row tells of, once the iteration has ended: a record that the end cuts.
        lost: whether damage reaches to the end, known as `rest`.
    """

    def __init__(self, window: Window, scanner: Scanner, max_jump: int) -> None:
        self.scanner = scanner
        self.judge = Judge(max_jump)
        self.malformed: list[Malformed] = []
        self.tallies = [Tally(0)]
        self.position = 0
        self.record_bytes = 0
        self.rest = 0
        self.lost = False
        self._window = window
        self._records = np.zeros((scanning.ROWS, _ROWS), np.int64)
        self._waiting = 0
        self._at = scanner.start
        self._gaps: deque[_Gap] = deque()
        self._taken = 0
        self._parted = False

    def __iter__(self) -> Iterator[Round]:
        window = self._window
        window.begin = self._at
        more = True
        while more:
            count, self._at, stopped = self.scanner.scan(
                window.buffer, self._at, window.end, self._records, self._waiting
            )
            self.tallies += [Tally(number) for number in range(len(self.tallies), len(self.scanner.interfaces))]
            yield from self._settle(count, False)
            self._pass_over()
            if stopped == scanning.MORE and not window.at_end:
                self._fill()
            elif stopped != scanning.FULL:
                more = self._go_on(stopped == scanning.DAMAGE)
            elif self._waiting == self._records.shape[1]:  # all of them out of range: more must be seen at once
                self._records = np.concatenate([self._records, np.zeros_like(self._records)], axis=1)
        yield from self._settle(self._waiting, True)
        self.rest = window.origin + self._at

    def _fill(self) -> int:
        """Reads on; gives how far what the window holds has moved."""
        moved = self._window.fill()
        self._records[[scanning.OFFSET, scanning.BLOCK], : self._waiting] -= moved
        self._at -= moved
        return moved

    def _drop(self, least: int) -> int:
        """Drops what lies between the records that wait and where the reading is, if it is worth it; gives its bytes.

        Args:
            least: fewest bytes to drop. No fewer are dropped than are kept, which must be moved for it.
        """
        window, begin, end = self._window, self._window.begin, self._at
        if self._waiting:
            begin = sum(self.scanner.extent(window.buffer, self._records, self._waiting - 1))
        taken = end - begin
        if taken < max(begin - window.begin, least):
            return 0
        window.take_out(begin, end)
        self._taken += taken
        self._records[[scanning.OFFSET, scanning.BLOCK], : self._waiting] += taken
        return taken

    def _pass_over(self) -> None:
        """Drops many blocks without packets behind records that wait, which need not hold them in memory."""
        if self._waiting and (taken := self._drop(scanning.PASSED)):
            self._gaps.append(_Gap(self._waiting, 0, 0, "", taken))

    def _go_on(self, damage: bool) -> bool:
        """Looks for where records go on; whether there are more.

        Args:
            damage: whether what follows is no record; else the file ends in it, unless it ends here.
        """
        window, scanner = self._window, self.scanner
        around = self._around()
        if not damage and not (self._at < window.end and scanner.doubtful(window.buffer, self._at, window.end, around)):
            return False
        begin = window.origin + self._at
        candidate, found, taken = self._at + 1, scanning.MORE, 0
        while found == scanning.MORE:
            candidate, found = scanner.search(window.buffer, candidate, window.end, window.at_end, around)
            if found == scanning.NOT_FOUND and not damage:
                return False
            self._at = candidate
            taken += self._drop(0)
            if found == scanning.MORE:
                candidate -= self._fill()
        length = window.origin + self._at - begin
        scanner.skip(length)
        self._gaps.append(_Gap(self._waiting, begin, length, scanner.damage, taken))
        self.lost = found == scanning.NOT_FOUND
        return not self.lost

    def _around(self) -> int:
        """The lower median of the last records within range, ns; -1 if there are none."""
        stamps = self._records[scanning.STAMP, : self._waiting]
        last = np.sort(np.concatenate([self.judge.before, stamps[in_range(stamps)]]))
        return int(last[(len(last) - 1) // 2]) if len(last) else -1

    def _settle(self, count: int, final: bool) -> Iterator[Round]:
        """Judges `count` records: those that are settled become rounds and rows, the others wait."""
        records = self._records[:, :count]
        stamps = records[scanning.STAMP]
        usable = in_range(stamps) & (records[scanning.WIRE] <= _LARGEST_WIRE)
        whole = bool(usable.all())
        candidates = np.arange(count) if whole else np.flatnonzero(usable)
        jumps = self.judge.settle(stamps[candidates], final)
        settled = count if len(jumps) == len(candidates) else int(candidates[len(jumps)])
        kept = candidates[: len(jumps)]
        kept = kept[~jumps] if jumps.any() else kept
        begin = 0
        while self._gaps and self._gaps[0].before <= settled:
            gap = self._gaps[0]
            yield from self._stretch(begin, gap.before, kept, usable)
            begin = gap.before
            self._close(self._gaps.popleft())
        yield from self._stretch(begin, settled, kept, usable)
        # Those not settled yet stay, so that every byte is scanned once.
        self._waiting = count - settled
        self._records[:, : self._waiting] = self._records[:, settled:count].copy()
        if settled:
            for gap in self._gaps:
                gap.before -= settled
        rest = self.scanner.extent(self._window.buffer, self._records, 0)[0] if self._waiting else self._at
        self._window.begin = rest
        self.scanner.settle(self._offset(rest))

    def _stretch(self, begin: int, end: int, kept: NDArray[np.int64], usable: NDArray[np.bool_]) -> Iterator[Round]:
        """The round of the records [begin, end), between which nothing was taken out; rows of those not kept."""
        if begin == end:
            return
        records, buffer = self._records[:, begin:end], self._window.buffer
        if (begin, end) != (0, len(usable)):
            kept = kept[np.searchsorted(kept, begin) : np.searchsorted(kept, end)] - begin
            usable = usable[begin:end]
        if len(kept) < end - begin:
            self._refuse(records, kept, usable)
        self.record_bytes += self.scanner.bytes_of(buffer, records, kept)
        first, _ = self.scanner.extent(buffer, records, 0)
        last, size = self.scanner.extent(buffer, records, end - begin - 1)
        position, parted = self.position, self._parted
        self.position, self._parted = position + end - begin, False
        yield Round(buffer, records, kept, position, self._offset(first), self._offset(last + size), parted)

    def _refuse(self, records: NDArray[np.int64], kept: NDArray[np.int64], usable: NDArray[np.bool_]) -> None:
        """Makes rows of the records that are not kept."""
        insane = np.setdiff1d(np.arange(records.shape[1]), kept, assume_unique=True)
        for index, clock in zip(insane.tolist(), self._clocks_at(records, kept, insane), strict=True):
            begin, length = self.scanner.extent(self._window.buffer, records, index)
            reason = "time-jump" if usable[index] else _reason(records[:, index])
            interface = int(records[scanning.INTERFACE, index])
            self.reject(self.position + index, self._offset(begin), length, reason, clock, interface)

    def _clocks_at(self, records: NDArray[np.int64], kept: NDArray[np.int64], insane: NDArray[np.int64]) -> list[int]:
        """The clock of its interface before each of the insane records."""
        clocks = np.empty(len(insane), np.int64)
        for number in np.unique(records[scanning.INTERFACE][insane]).tolist():
            mine = kept[records[scanning.INTERFACE][kept] == number]
            stamps = np.concatenate([[self.tallies[number].clock], records[scanning.STAMP][mine]])
            wanted = records[scanning.INTERFACE][insane] == number
            clocks[wanted] = np.maximum.accumulate(stamps)[np.searchsorted(mine, insane[wanted])]
        found: list[int] = clocks.tolist()
        return found

    def _close(self, gap: _Gap) -> None:
        """Tells of a gap once everything before it is told."""
        self._taken -= gap.taken
        if gap.reason:
            self.reject(self.position, gap.offset, gap.length, gap.reason, self.tallies[0].clock)
            self.position += 1
            self._parted = True

    def _offset(self, index: int) -> int:
        """Offset in the file of buffer[index], which lies before all gaps."""
        return self._window.origin + index - self._taken

    def reject(
        self, position: int | None, offset: int, length: int, reason: str, clock: int, interface: int = 0
    ) -> None:
        """Adds a malformed row; `clock` is negative where there is none."""
        arrival = clock if clock >= 0 else None
        self.malformed.append(Malformed(position, offset, length, reason, arrival, interface))
        self.tallies[interface].malformed += 1


def _reason(record: NDArray[np.int64]) -> str:
    """Why a record is malformed by itself."""
    reason = _REASONS.get(int(record[scanning.STAMP]))
    return reason or ("wire-length" if record[scanning.WIRE] > _LARGEST_WIRE else "time-range")
