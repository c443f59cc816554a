"""The records of a capture in file order, judged, with a malformed row for everything else.

Between the scanners and the reader: moves the window, holds back the records that cannot be judged yet, and finds where
records go on after damage.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowwater.capture.formats import scan as scanning
from lowwater.capture.formats.classic import Scanner
from lowwater.capture.formats.window import Window
from lowwater.capture.records.batches import Round
from lowwater.capture.records.malformed import NUMBERS, ROW, MalformedRows
from lowwater.capture.records.sanity import LARGEST_WIRE, Judge, judgeable
from lowwater.capture.records.tally import Tally

_ROWS = 1 << 16
_PASSED_RECORDS, _PASSED_BYTES = 1 << 11, scanning.PASSED
"""Malformed records, and bytes, that are let go behind records that wait; 17 runs of records fit into _ROWS."""

_FARTHEST = 16 << 20
"""Most bytes that are not dropped because dropping them means moving as many."""

_REASONS = {
    scanning.NO_TIME: "no-time",
    scanning.NO_INTERFACE: "interface",
    scanning.NO_FRAME: "captured",
}


@dataclass
class _Gap:
    """What lies behind records that wait, and need not wait with them: damage, malformed records, other blocks.

    Attributes:
        before: how many records wait.
        rows: the malformed ones.
        taken: bytes that were taken out of the window.
    """

    before: int
    rows: MalformedRows
    taken: int = 0


class Rounds:
    """Iterate it once; whoever does adds the sane records of each round to the tallies.

    Args:
        window: filled, at the beginning of the file.
        scanner: the scanner of the file.
        max_jump: how far ahead of the median of its neighbours a timestamp may be, ns (SEMANTICS T3).
        malformed: without rows.

    Attributes:
        scanner: as given.
        judge: the judge of the timestamps.
        malformed: rows so far, in file order.
        tallies: one an interface.
        position: number of the next record.
        record_bytes: bytes of the sane records so far.
        rest: where in the file lies what no row tells of, once the iteration has ended: a record that the end cuts.
        lost: whether damage reaches to the end, known as `rest`.
    """

    def __init__(self, window: Window, scanner: Scanner, max_jump: int, malformed: MalformedRows) -> None:
        self.scanner = scanner
        self.judge = Judge(max_jump)
        self.malformed = malformed
        self.tallies = [Tally(0)]
        self.position = 0
        self.record_bytes = 0
        self.rest = 0
        self.lost = False
        self._window = window
        self._records = np.zeros((scanning.ROWS, _ROWS), np.int64)
        self._numbers = np.arange(_ROWS)
        self._waiting = 0
        self._behind = 0  # of those that wait, the malformed ones behind all others
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
        yield from self._settle(self._waiting, True)
        self.rest = window.origin + self._at

    def _fill(self) -> int:
        """Reads on; gives how far what the window holds has moved."""
        moved = self._window.fill()
        self._records[[scanning.OFFSET, scanning.BLOCK], : self._waiting] -= moved
        self._at -= moved
        return moved

    def _drop(self, least: int) -> int:
        """Discards buffered bytes that no pending record needs, once they exceed a threshold.

        What stays must be moved, so nothing is removed where it is too little for that.

        Args:
            least: fewest bytes to remove; besides, no fewer than must be moved for it, up to `_FARTHEST`.

        Returns:
            The number of bytes discarded.
        """
        window, begin, end = self._window, self._window.begin, self._at
        if self._waiting:
            begin = sum(self._extent(self._waiting - 1))
        taken = end - begin
        if taken < max(min(begin - window.begin, _FARTHEST), least):
            return 0
        window.take_out(begin, end)
        self._taken += taken
        self._records[[scanning.OFFSET, scanning.BLOCK], : self._waiting] += taken
        return taken

    def _pass_over(self) -> None:
        """Lets go of what follows the last record that waits to be judged, where it is much."""
        if not self._waiting:
            return
        last = sum(self._extent(self._waiting - 1 - self._behind))
        if self._behind >= _PASSED_RECORDS or self._at - last >= _PASSED_BYTES:
            gap = self._set_aside()
            gap.taken += self._drop(_PASSED_BYTES)

    def _set_aside(self) -> _Gap:
        """The gap behind the records that wait, with those in it that nothing is to be learned about."""
        first = self._waiting - self._behind
        begin = self._window.origin
        aside = self._records[:, first : self._waiting]
        self._waiting, self._behind = first, 0
        if not self._gaps or self._gaps[-1].before < first:
            self._gaps.append(_Gap(first, self.malformed.part()))
        gap = self._gaps[-1]
        if aside.shape[1]:
            self._add(gap.rows, self._rows_of(aside, begin))
        if first:
            self.scanner.forget(begin + self._extent(first - 1)[0] - gap.taken)
        return gap

    def _go_on(self, damage: bool) -> bool:
        """Looks for where records go on; whether there are more.

        Args:
            damage: whether what follows is no record; else the file ends in it, unless it ends here.
        """
        window, scanner = self._window, self.scanner
        around = self._around()
        if not damage and not (self._at < window.end and scanner.doubtful(window.buffer, self._at, window.end, around)):
            return False
        begin, gap = window.origin + self._at, self._set_aside()
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
        gap.taken += taken
        self._add(gap.rows, np.array([(-1, begin, length, -1, 0, NUMBERS[scanner.damage])], ROW))
        self.lost = found == scanning.NOT_FOUND
        return not self.lost

    def _around(self) -> int:
        """The lower median of the last records within range, ns; -1 if there are none."""
        stamps, wire = self._records[[scanning.STAMP, scanning.WIRE], : self._waiting]
        last = np.sort(np.concatenate([self.judge.before, stamps[judgeable(stamps, wire)[0]]]))
        return int(last[(len(last) - 1) // 2]) if len(last) else -1

    def _settle(self, count: int, final: bool) -> Iterator[Round]:
        """Judges `count` records: those that are settled become rounds and rows, the others wait."""
        records = self._records[:, :count]
        stamps = records[scanning.STAMP]
        usable, whole = judgeable(stamps, records[scanning.WIRE])
        candidates = self._numbers[:count] if whole else np.flatnonzero(usable)
        jumps = self.judge.settle(stamps if whole else stamps[candidates], final)
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
        self._behind = count - 1 - int(candidates[-1]) if self._waiting else 0
        self._records[:, : self._waiting] = self._records[:, settled:count].copy()
        if settled:
            for gap in self._gaps:
                gap.before -= settled
        rest = self._extent(0)[0] if self._waiting else self._at
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
        sane = records if len(kept) == end - begin else records[:, kept]
        self.record_bytes += self.scanner.bytes_of(sane)
        first, last = self._extent(begin)[0], sum(self._extent(end - 1))
        position, parted = self.position, self._parted
        self.position, self._parted = position + end - begin, False
        yield Round(buffer, records, kept, position, self._offset(first), self._offset(last), parted)

    def _refuse(self, records: NDArray[np.int64], kept: NDArray[np.int64], usable: NDArray[np.bool_]) -> None:
        """Makes rows of the records that are not kept."""
        insane = np.setdiff1d(np.arange(records.shape[1]), kept, assume_unique=True)
        rows = self._rows_of(records[:, insane], self._offset(0))
        rows["reason"][usable[insane]] = NUMBERS["time-jump"]
        rows["position"] = self.position + insane
        rows["arrival"] = self._clocks_at(records, kept, insane)
        self._add(self.malformed, rows)

    def _rows_of(self, records: NDArray[np.int64], origin: int) -> NDArray[Any]:
        """Rows of records that are malformed by themselves; buffer[0] is what lies in the file at `origin`."""
        rows = np.empty(records.shape[1], ROW)
        begins, rows["length"] = self.scanner.extents(records)
        rows["offset"] = begins + origin
        rows["interface"] = records[scanning.INTERFACE]
        wire = records[scanning.WIRE] > LARGEST_WIRE
        rows["reason"] = np.where(wire, NUMBERS["wire-length"], NUMBERS["time-range"])
        for stamp, reason in _REASONS.items():
            rows["reason"][records[scanning.STAMP] == stamp] = NUMBERS[reason]
        rows["position"] = rows["arrival"] = -1
        return rows

    def _add(self, malformed: MalformedRows, rows: NDArray[Any]) -> None:
        malformed.add(rows)
        for number, count in zip(*np.unique(rows["interface"], return_counts=True), strict=True):
            self.tallies[number].malformed += int(count)

    def _clocks_at(
        self, records: NDArray[np.int64], kept: NDArray[np.int64], insane: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The clock of its interface before each of the insane records."""
        clocks = np.empty(len(insane), np.int64)
        for number in np.unique(records[scanning.INTERFACE][insane]).tolist():
            mine = kept[records[scanning.INTERFACE][kept] == number]
            stamps = np.concatenate([[self.tallies[number].clock], records[scanning.STAMP][mine]])
            wanted = records[scanning.INTERFACE][insane] == number
            clocks[wanted] = np.maximum.accumulate(stamps)[np.searchsorted(mine, insane[wanted])]
        return clocks

    def _close(self, gap: _Gap) -> None:
        """Tells of a gap once everything before it is told."""
        self._taken -= gap.taken
        if gap.rows.added:
            numbers, where = np.unique(gap.rows.columns["interface"], return_inverse=True)
            clocks = np.array([self.tallies[number].clock for number in numbers.tolist()], np.int64)
            self.malformed.take(gap.rows, self.position, clocks[where])
            self.position += gap.rows.added
            self._parted = True

    def _extent(self, index: int) -> tuple[int, int]:
        """Where a record begins in the buffer, and its bytes."""
        begins, sizes = self.scanner.extents(self._records[:, index : index + 1])
        return int(begins[0]), int(sizes[0])

    def _offset(self, index: int) -> int:
        """Offset in the file of buffer[index], which lies before all gaps."""
        return self._window.origin + index - self._taken

    def reject(self, position: int | None, offset: int, length: int, reason: str, clock: int) -> None:
        """Adds a malformed row of what is no record; `clock` is negative where there is none.

        Args:
            position: number of the record in the capture; None where none is known.
            offset: place of its first byte in the unpacked file.
            length: how many bytes are rejected.
            reason: one of `malformed.REASONS`.
            clock: largest sane timestamp before it, ns since the epoch; negative where there is none.
        """
        place = -1 if position is None else position
        self._add(self.malformed, np.array([(place, offset, length, clock, 0, NUMBERS[reason])], ROW))
