"""The record stream of a capture: spans of judged records in file order, and malformed rows for everything else.

Between the scanners and the reader. `RecordStream` moves the window and finds where records go on after damage. `gaps`
keeps what lies between records that wait; `judging` judges them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from lowwater.capture.formats import scan as scanning
from lowwater.capture.formats.classic import Scanner
from lowwater.capture.formats.window import FileWindow
from lowwater.capture.records import gaps as limits
from lowwater.capture.records.batches import RecordSpan
from lowwater.capture.records.gaps import Gap, GapQueue
from lowwater.capture.records.judging import RecordJudge, Verdict
from lowwater.capture.records.malformed import NUMBERS, ROW, MalformedRows

_ROWS = 1 << 16


class RecordStream:
    """The spans of a capture; iterate it once, and add the sane records of every span to the tallies.

    Args:
        window: filled, at the beginning of the file.
        scanner: the scanner of the file.
        max_jump: largest lead of a timestamp over the records around it, ns (SEMANTICS T3).
        malformed: malformed rows of the capture, still empty.

    Attributes:
        scanner: the scanner of the file.
        judge: judges the records; has the tallies and the sums.
        rest: after the iteration, the file offset of the record that the end of the file cuts; the file's size if none.
        damaged_to_end: after the iteration, whether damage reaches to the end of the file.
    """

    def __init__(self, window: FileWindow, scanner: Scanner, max_jump: int, malformed: MalformedRows) -> None:
        self.scanner = scanner
        self.judge = RecordJudge(scanner, max_jump, malformed, _ROWS)
        self.rest = 0
        self.damaged_to_end = False
        self._window = window
        self._gaps = GapQueue(window, malformed)
        self._records = np.zeros((scanning.ROWS, _ROWS), np.int64)
        self._waiting = 0
        self._malformed_tail = 0  # of the waiting records, the last ones that are malformed by themselves
        self._at = scanner.start

    def __iter__(self) -> Iterator[RecordSpan]:
        window = self._window
        window.begin = self._at
        more = True
        while more:
            self._waiting, self._at, stopped = self.scanner.scan(
                window.buffer, self._at, window.end, self._records, self._waiting
            )
            self.judge.add_interfaces()
            yield from self._settle(False)
            self._pass_over()
            if stopped == scanning.MORE and not window.at_end:
                self._fill()
            elif stopped != scanning.FULL:
                more = self._go_on(stopped == scanning.DAMAGE)
        yield from self._settle(True)
        self.rest = window.origin + self._at

    def reject(self, position: int | None, offset: int, length: int, reason: str, clock: int) -> None:
        """Adds a malformed row for bytes that are no record.

        Args:
            position: number of the record in the capture; None if unknown.
            offset: offset of the first byte in the unpacked file.
            length: number of bytes.
            reason: one of `malformed.REASONS`.
            clock: largest sane timestamp before the bytes, ns since the epoch; negative if there is none.
        """
        number = -1 if position is None else position
        row = np.array([(number, offset, length, clock, 0, NUMBERS[reason])], ROW)
        self.judge.add(self.judge.malformed, row)

    def _fill(self) -> int:
        """Reads more bytes. Returns how far the window's content has moved."""
        moved = self._window.fill()
        self._records[[scanning.OFFSET, scanning.BLOCK], : self._waiting] -= moved
        self._at -= moved
        return moved

    def _discard(self, least: int) -> int:
        """Discards buffered bytes that no waiting record needs. Returns the number of bytes discarded."""
        begin = self._end_of(self._waiting - 1) if self._waiting else self._window.begin
        size = self._gaps.discard(begin, self._at, least)
        self._records[[scanning.OFFSET, scanning.BLOCK], : self._waiting] += size
        return size

    def _pass_over(self) -> None:
        """Makes a gap of what follows the last record that can be judged, once it is large."""
        if not self._waiting:
            return
        last = self._end_of(self._waiting - 1 - self._malformed_tail)
        if self._malformed_tail >= limits.PASSED_RECORDS or self._at - last >= limits.PASSED_BYTES:
            gap = self._open_gap()
            gap.discarded += self._discard(limits.PASSED_BYTES)

    def _open_gap(self) -> Gap:
        """Opens a gap behind the waiting records, and moves the malformed ones at their end into it."""
        first = self._waiting - self._malformed_tail
        begin = self._window.origin
        tail = self._records[:, first : self._waiting]
        self._waiting, self._malformed_tail = first, 0
        gap = self._gaps.behind(first)
        if tail.shape[1]:
            self.judge.add(gap.rows, self.judge.rows_of(tail, begin))
        if first:
            self.scanner.forget(begin + self._begin_of(first - 1) - gap.discarded)
        return gap

    def _go_on(self, damage: bool) -> bool:
        """Searches for the next record after damage. Returns whether there is one.

        Args:
            damage: whether the next bytes are no record; otherwise the file ends here, or inside a record.
        """
        window, scanner = self._window, self.scanner
        around = self.judge.median(self._records[:, : self._waiting])
        if not damage and not (self._at < window.end and scanner.doubtful(window.buffer, self._at, window.end, around)):
            return False
        begin, gap = window.origin + self._at, self._open_gap()
        candidate, outcome, discarded = self._at + 1, scanning.MORE, 0
        while outcome == scanning.MORE:
            candidate, outcome = scanner.search(window.buffer, candidate, window.end, window.at_end, around)
            if outcome == scanning.NOT_FOUND and not damage:
                return False
            self._at = candidate
            discarded += self._discard(0)
            if outcome == scanning.MORE:
                candidate -= self._fill()
        length = window.origin + self._at - begin
        scanner.skip(length)
        gap.discarded += discarded
        self.judge.add(gap.rows, np.array([(-1, begin, length, -1, 0, NUMBERS[scanner.damage])], ROW))
        self.damaged_to_end = outcome == scanning.NOT_FOUND
        return not self.damaged_to_end

    def _settle(self, final: bool) -> Iterator[RecordSpan]:
        """Judges the waiting records, yields the spans of those that are settled, and keeps the others."""
        count = self._waiting
        records = self._records[:, :count]
        verdict = self.judge.settle(records, final)
        settled, candidates = verdict.settled, verdict.candidates
        begin = 0
        while (gap := self._gaps.next_within(settled)) is not None:
            if begin < gap.before:
                yield self._span(records[:, begin : gap.before], begin, verdict)
            begin = gap.before
            self.judge.take_gap(self._gaps.close_first().rows)
        if begin < settled:
            yield self._span(records[:, begin:settled], begin, verdict)
        # Records that are not settled stay in the table, so that every byte is scanned once.
        self._waiting = count - settled
        self._malformed_tail = count - 1 - int(candidates[-1]) if self._waiting else 0
        if settled:
            self._records[:, : self._waiting] = self._records[:, settled:count].copy()
        self._gaps.shift(settled)
        rest = self._begin_of(0) if self._waiting else self._at
        self._window.begin = rest
        self.scanner.settle(self._gaps.offset(rest))

    def _span(self, records: NDArray[np.int64], begin: int, verdict: Verdict) -> RecordSpan:
        return self.judge.span(self._window.buffer, records, begin, verdict, self._gaps.offset(0))

    def _begin_of(self, index: int) -> int:
        return int(self.scanner.extents(self._records[:, index : index + 1])[0][0])

    def _end_of(self, index: int) -> int:
        begins, sizes = self.scanner.extents(self._records[:, index : index + 1])
        return int(begins[0] + sizes[0])
