"""Judgement of records: timestamps are checked, sane records become spans, all others malformed rows.

Between `stream`, which holds the records that wait, and the tallies of the interfaces.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lowwater.capture.formats import scan as scanning
from lowwater.capture.formats.classic import Scanner
from lowwater.capture.records.batches import RecordSpan
from lowwater.capture.records.malformed import NUMBERS, ROW, MalformedRows
from lowwater.capture.records.sanity import LARGEST_WIRE, SIDE, Judge, judgeable
from lowwater.capture.records.tally import Tally

_REASONS = {
    scanning.NO_TIME: "no-time",
    scanning.NO_INTERFACE: "interface",
    scanning.NO_FRAME: "captured",
    scanning.NO_PART: "sub-second",
}


class Verdict(NamedTuple):
    """Verdict on the first of the waiting records.

    Attributes:
        settled: number of records that are judged; the others wait.
        sane: indices of the sane ones among them, ascending.
        candidates: indices of all records whose timestamp is compared with its neighbours, judged or not.
        usable: a bool for every waiting record: whether it is a candidate.
    """

    settled: int
    sane: NDArray[np.int64]
    candidates: NDArray[np.int64]
    usable: NDArray[np.bool_]


class RecordJudge:
    """Judges the records of one capture in file order.

    Args:
        scanner: the scanner of the file.
        max_jump: largest lead of a timestamp over the records around it, ns (SEMANTICS T3).
        malformed: malformed rows of the capture, still empty.
        rows: most records that wait at a time.

    Attributes:
        timestamps: the check of the timestamps.
        malformed: malformed rows so far, in file order.
        tallies: one an interface; the reader adds the sane records of every span.
        position: number of the next record in the capture.
        record_bytes: bytes of the sane records so far, headers included.
    """

    def __init__(self, scanner: Scanner, max_jump: int, malformed: MalformedRows, rows: int) -> None:
        self.timestamps = Judge(max_jump)
        self.malformed = malformed
        self.tallies = [Tally(0)]
        self.position = 0
        self.record_bytes = 0
        self._scanner = scanner
        self._indices = np.arange(rows)
        self._after_damage = False

    def add_interfaces(self) -> None:
        """Begins a tally for every interface that the scanner has met since the last call."""
        self.tallies += [Tally(number) for number in range(len(self.tallies), len(self._scanner.interfaces))]

    def settle(self, records: NDArray[np.int64], final: bool) -> Verdict:
        """Judges the records whose neighbours are known.

        Args:
            records: shape (scan.ROWS, n), the waiting records.
            final: whether the capture ends with them, so that all are judged.
        """
        count = records.shape[1]
        stamps = records[scanning.STAMP]
        usable, whole = judgeable(stamps, records[scanning.WIRE])
        candidates = self._indices[:count] if whole else np.flatnonzero(usable)
        jumps = self.timestamps.settle(stamps if whole else stamps[candidates], final)
        settled = count if len(jumps) == len(candidates) else int(candidates[len(jumps)])
        sane = candidates[: len(jumps)]
        return Verdict(settled, sane[~jumps] if jumps.any() else sane, candidates, usable)

    def span(
        self, buffer: NDArray[np.uint8], records: NDArray[np.int64], begin: int, verdict: Verdict, origin: int
    ) -> RecordSpan:
        """Makes the span of judged records between which nothing was discarded, and malformed rows of the others.

        Args:
            buffer: the window of the file, which holds them.
            records: shape (scan.ROWS, n), n at least 1.
            begin: index of the first one among the records of the verdict.
            verdict: the verdict on these records.
            origin: offset in the file of buffer[0].
        """
        count = records.shape[1]
        sane, usable = verdict.sane, verdict.usable
        if (begin, count) != (0, len(usable)):
            sane = sane[np.searchsorted(sane, begin) : np.searchsorted(sane, begin + count)] - begin
            usable = usable[begin : begin + count]
        if len(sane) < count:
            self._refuse(records, sane, usable, origin)
        self.record_bytes += self._scanner.bytes_of(records if len(sane) == count else records[:, sane])
        begins, sizes = self._scanner.extents(records[:, [0, -1]])
        first, end = int(begins[0]) + origin, int(begins[1] + sizes[1]) + origin
        position, after_damage = self.position, self._after_damage
        self.position, self._after_damage = position + count, False
        return RecordSpan(buffer, records, sane, position, first, end, after_damage)

    def rows_of(self, records: NDArray[np.int64], origin: int) -> NDArray[Any]:
        """Makes malformed rows, without position and arrival, of records that are malformed by themselves.

        Args:
            records: shape (scan.ROWS, n).
            origin: offset in the file of the first byte of the buffer.
        """
        rows = np.empty(records.shape[1], ROW)
        begins, rows["length"] = self._scanner.extents(records)
        rows["offset"] = begins + origin
        rows["interface"] = records[scanning.INTERFACE]
        wire = records[scanning.WIRE] > LARGEST_WIRE
        rows["reason"] = np.where(wire, NUMBERS["wire-length"], NUMBERS["time-range"])
        for stamp, reason in _REASONS.items():
            rows["reason"][records[scanning.STAMP] == stamp] = NUMBERS[reason]
        rows["position"] = rows["arrival"] = -1
        return rows

    def add(self, malformed: MalformedRows, rows: NDArray[Any]) -> None:
        """Adds malformed rows, and counts them in the tallies of their interfaces.

        Args:
            malformed: the rows of the capture, or a part of them.
            rows: dtype ROW.
        """
        malformed.add(rows)
        for number, count in zip(*np.unique(rows["interface"], return_counts=True), strict=True):
            self.tallies[number].malformed += int(count)

    def take_gap(self, rows: MalformedRows) -> None:
        """Takes the malformed rows of a gap, once all records before the gap are judged."""
        if rows.added:
            numbers, where = np.unique(rows.columns["interface"], return_inverse=True)
            clocks = np.array([self.tallies[number].clock for number in numbers.tolist()], np.int64)
            self.malformed.take(rows, self.position, clocks[where])
            self.position += rows.added
            self._after_damage = True

    def median(self, records: NDArray[np.int64]) -> int:
        """Returns the lower median timestamp (ns) of the last judged and the waiting records; -1 if there are none."""
        stamps, wire = records[[scanning.STAMP, scanning.WIRE]]
        last = np.sort(np.concatenate([self.timestamps.before[-SIDE:], stamps[judgeable(stamps, wire)[0]]]))
        return int(last[(len(last) - 1) // 2]) if len(last) else -1

    def _refuse(
        self, records: NDArray[np.int64], sane: NDArray[np.int64], usable: NDArray[np.bool_], origin: int
    ) -> None:
        insane = np.setdiff1d(np.arange(records.shape[1]), sane, assume_unique=True)
        rows = self.rows_of(records[:, insane], origin)
        rows["reason"][usable[insane]] = NUMBERS["time-jump"]
        rows["position"] = self.position + insane
        rows["arrival"] = self._clocks_at(records, sane, insane)
        self.add(self.malformed, rows)

    def _clocks_at(
        self, records: NDArray[np.int64], sane: NDArray[np.int64], insane: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Returns, for every insane record, the clock of its interface before it, ns."""
        clocks = np.empty(len(insane), np.int64)
        for number in np.unique(records[scanning.INTERFACE][insane]).tolist():
            sane_of_interface = sane[records[scanning.INTERFACE][sane] == number]
            stamps = np.concatenate([[self.tallies[number].clock], records[scanning.STAMP][sane_of_interface]])
            of_interface = records[scanning.INTERFACE][insane] == number
            clocks[of_interface] = np.maximum.accumulate(stamps)[
                np.searchsorted(sane_of_interface, insane[of_interface])
            ]
        return clocks
