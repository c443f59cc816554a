"""Judgement of records: finds the time jumps of a capture (SEMANTICS T3), and keeps totals of its interfaces.

Called by `stream`, which holds the records that wait. A record is compared with the 33 records centred on it, or with
the first or last 33 of the capture, and its lead with the pauses of the 32 records before it and those behind it. So a
record is judged after the 16 records behind it are known, the first ones after 33 are, and `Judge` remembers the 32
before. What leads at the end of a capture is judged by the next one (`lake.ledgers.edges`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lowwater.capture.headers.undecoded import Undecoded
from lowwater.capture.records.facts import Hole, Interface, InterfaceSummary
from lowwater.catalog.time import arrival_times
from lowwater.limits import LEAST_MEDIAN_TIMESTAMPS, MEDIAN_INTERFACES, MEDIAN_TIMESTAMPS
from lowwater.machine_code import cached_njit

SIDE = 16
_BEFORE = 2 * SIDE
"""Records before one whose pauses count as usual."""

_USUAL = 4
"""A lead is a time jump only if it is longer than this many of the longest usual pauses."""

END_OF_TIME = 1 << 62
LARGEST_WIRE = (1 << 31) - 1
_NONE = (1 << 63) - 1


@njit(nogil=True)
def _next_drop(stamps: Any, at: int, last: int, largest: int, ahead: int) -> tuple[int, int]:
    """Finds the next record that is more than `ahead` below the largest timestamp before it.

    Returns:
        Its index (`last` if there is none), and that largest timestamp.
    """
    while at < last and stamps[at] >= largest - ahead:
        largest = max(largest, stamps[at])
        at += 1
    return at, largest


@njit(nogil=True)
def _window(index: int, count: int) -> tuple[int, int]:
    """Returns the first and the last index of the window of a record: 33 of `count` records, centred on it but at the
    ends."""
    first = max(min(index - SIDE, count - 1 - 2 * SIDE), 0)
    return first, min(first + 2 * SIDE, count - 1)


@njit(nogil=True)
def _returns(stamps: Any, index: int, first: int, end: int, level: int) -> bool:
    """Whether time goes on at or below a level: some record after stamps[index] is not before all those before it; of
    those at the begin of a capture, any record after it."""
    least, largest = _NONE, -1
    for other in range(first, index):
        if stamps[other] <= level:
            least = min(least, stamps[other])
    for other in range(index + 1, end + 1):
        if stamps[other] <= level:
            largest = max(largest, stamps[other])
    if least == _NONE and index < SIDE:
        least = 0
    return bool(largest >= least)


@njit(nogil=True)
def _pause(stamps: Any, index: int, end: int, level: int) -> int:
    """Returns the longest pause at or below a level among the records around stamps[index]."""
    clock, longest = -1, 0
    for other in range(max(index - _BEFORE, 0), end + 1):
        if stamps[other] <= level:
            if clock >= 0:
                longest = max(longest, stamps[other] - clock)
            clock = max(clock, stamps[other])
    return longest


@njit(nogil=True)
def _lead(stamps: Any, index: int, least: int) -> int:
    """Returns the lead of stamps[index] (SEMANTICS T3), or `least` if that is larger."""
    most = least
    first, last = _window(index, len(stamps))
    for place in range(first, last + 1):
        level, reached = stamps[place], 0
        if level >= stamps[index] - most:
            continue
        for other in range(first, last + 1):
            reached += stamps[other] <= level
        if 2 * reached <= last + 1 - first:
            continue
        lowest = stamps[index]
        for other in range(first, last + 1):
            if stamps[other] > level:
                lowest = min(lowest, stamps[other])
            elif other > index:
                break
        lead = lowest - level
        ahead = lead > most and _returns(stamps, index, first, last, level)
        if ahead and lead > _USUAL * _pause(stamps, index, last, level):
            most = lead
    return most


@cached_njit(nogil=True)
def _judge(stamps: Any, begin: int, end: int, max_jump: int, ahead: int, smallest: int, jumps: Any) -> tuple[int, int]:
    """Marks in `jumps` the time jumps of stamps[begin:end]; `stamps` includes the context on both sides."""
    # If a record leads by more than `ahead`, more than half of its window lies below `stamp - ahead`. Then one of the
    # 16 records after it does too. So only records shortly before such a drop are candidates.
    last = min(end + SIDE, len(stamps))
    drop, largest = _next_drop(stamps, begin + 1, last, stamps[begin], ahead)
    judged = begin
    while drop < last:
        first, behind = max(judged, drop - SIDE), min(drop, end)
        # Upper bound, mostly 1, of the records after each candidate that lie below its limit.
        later = 0
        for other in range(first + 1, min(behind + SIDE, len(stamps))):
            later += stamps[other] < largest - ahead
        for index in range(first, behind):
            if SIDE <= index < len(stamps) - SIDE:
                limit = stamps[index] - ahead
                # More than half of the window lies below the limit: more records after it than those before it that
                # do not.
                before, other = 0, index
                while before < later and other > index - SIDE:
                    other -= 1
                    before += stamps[other] >= limit
                if before >= later:
                    continue
                after = 0
                for other in range(index + 1, index + SIDE + 1):
                    after += stamps[other] < limit
                if after <= before:
                    continue
            lead = _lead(stamps, index, ahead)
            if lead > max_jump:
                jumps[index - begin] = True
                smallest = min(smallest, lead)
            else:
                ahead = lead
        judged = max(judged, behind)
        # A record more than a window before the next drop no longer counts.
        if drop - SIDE > begin:
            largest = stamps[drop]
            for other in range(drop - SIDE + 1, drop):
                largest = max(largest, stamps[other])
        drop, largest = _next_drop(stamps, drop + 1, last, largest, ahead)
    return ahead, smallest


@dataclass
class Judge:
    """Finds the time jumps of one capture, piece by piece.

    Attributes:
        max_jump: largest lead of a sane record, ns.
        largest_ahead: largest lead of a sane record so far, ns, at least 0.
        smallest_jump: smallest lead of a time jump so far, ns; None if there is none.
        before: the last timestamps that were judged, 32 at most.
    """

    max_jump: int
    largest_ahead: int = 0
    smallest_jump: int | None = None
    before: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    def settle(self, stamps: NDArray[np.int64], final: bool) -> NDArray[np.bool_]:
        """Judges the records whose neighbours are known.

        Args:
            stamps: timestamps within range, ns, from the first record that is not judged.

        Returns:
            A bool for every judged record, True for a time jump. All records are judged if `final`, else all but 16,
            and none as long as the capture has at most 32.
        """
        known = final or len(self.before) or len(stamps) > 2 * SIDE
        count = len(stamps) if final else max(len(stamps) - SIDE, 0) if known else 0
        jumps = np.zeros(count, np.bool_)
        if not count:
            return jumps
        context = np.concatenate([self.before, stamps])
        begin = len(self.before)
        smallest = _NONE if self.smallest_jump is None else self.smallest_jump
        self.largest_ahead, smallest = _judge(
            context, begin, begin + count, self.max_jump, self.largest_ahead, smallest, jumps
        )
        self.smallest_jump = None if smallest == _NONE else smallest
        self.before = context[: begin + count][-_BEFORE:].copy()
        return jumps


@cached_njit(nogil=True)
def judgeable(stamps: Any, wire: Any) -> tuple[Any, bool]:
    """Finds the records whose timestamp can be compared: it lies in [0, 2^62) ns, and the wire length is below 2^31.

    Returns:
        A bool for every record, and whether all are True.
    """
    usable, whole = np.empty(len(stamps), np.bool_), True
    for index in range(len(stamps)):
        fits = (stamps[index] >= 0) & (stamps[index] < END_OF_TIME) & (wire[index] <= LARGEST_WIRE)
        usable[index] = fits
        whole &= fits
    return usable, whole


# Exact median of more numbers than fit into memory. Captures without a declared start are ordered by their median
# timestamp (SEMANTICS T1).

_DIGIT = 16  # bits that a pass decides
_PIECES = 1 << 10
_BYTES = 8 << 20  # read from the file at a time
_AROUND = 4  # pieces on either side of the middle piece


class _Piece(NamedTuple):
    """Numbers with the smallest and the largest of them."""

    numbers: NDArray[np.int64]
    least: int
    most: int

    @classmethod
    def of(cls, numbers: NDArray[np.int64]) -> _Piece:
        return cls(numbers, int(numbers.min()), int(numbers.max()))


class Median:
    """Lower median of non-negative int64 numbers.

    Args:
        in_memory: most numbers in memory; more go to a temporary file.

    Example:
        >>> median = Median()
        >>> median.add(np.array([7, 1, 5, 3]))
        >>> median.value()
        3
    """

    def __init__(self, in_memory: int = 1 << 23) -> None:
        self._limit = in_memory
        self._buffered: list[_Piece] = []
        self._buffered_count = 0
        self._single = 0
        self._count = 0
        self._file: IO[bytes] | None = None

    def add(self, numbers: NDArray[np.int64], bounds: tuple[int, int] | None = None) -> None:
        """Adds a copy of numbers; `bounds` are the smallest and the largest of them, if they are known."""
        if not len(numbers):
            return
        copied = numbers.astype(np.int64)
        self._buffered.append(_Piece(copied, *bounds) if bounds else _Piece.of(copied))
        self._single += 1
        self._buffered_count += len(numbers)
        self._count += len(numbers)
        if self._buffered_count > self._limit:
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as this object
            for piece in self._buffered:
                self._file.write(piece.numbers.data)
            self._buffered, self._buffered_count, self._single = [], 0, 0
        elif self._single == _PIECES:  # many short arrays cost more than their numbers
            self._buffered[-_PIECES:] = [
                _Piece.of(np.concatenate([piece.numbers for piece in self._buffered[-_PIECES:]]))
            ]
            self._single = 0

    def value(self) -> int | None:
        """Returns the lower median of all numbers; None without numbers."""
        if not self._count:
            return None
        rank = (self._count - 1) // 2
        middle = self._narrowed(rank)
        return self._by_digits(rank) if middle is None else middle

    def _narrowed(self, rank: int) -> int | None:
        """Returns the number of a rank if it lies within the range of the middle pieces."""
        # Captures are nearly in order, so few pieces overlap that range.
        around = self._middle()
        low, high = around.min(), around.max()
        below, overlapping, room = 0, [], self._limit
        for numbers, least, most in self._pieces():
            if most < low:
                below += len(numbers)
            elif least <= high:
                below += int((numbers < low).sum())
                overlapping.append(numbers[(numbers >= low) & (numbers <= high)])
                room -= len(overlapping[-1])
                if room < 0:
                    return None
        candidates = np.concatenate(overlapping)
        if not below <= rank < below + len(candidates):
            return None
        return int(np.partition(candidates, rank - below)[rank - below])

    def _by_digits(self, rank: int) -> int:
        """Returns the number of a rank, 16 bits a pass over all numbers."""
        prefix = 0
        for shift in range(64 - _DIGIT, -1, -_DIGIT):
            counts = np.zeros(1 << _DIGIT, np.int64)
            for numbers, _, _ in self._pieces():
                if shift + _DIGIT < 64:
                    numbers = numbers[numbers >> (shift + _DIGIT) == prefix]
                counts += np.bincount((numbers >> shift) & ((1 << _DIGIT) - 1), minlength=1 << _DIGIT)
            below = np.cumsum(counts)
            digit = int(np.searchsorted(below, rank, side="right"))
            rank -= int(below[digit] - counts[digit])
            prefix = prefix << _DIGIT | digit
        return prefix

    def close(self) -> None:
        """Discards the numbers."""
        self._buffered = []
        if self._file is not None:
            self._file.close()

    def _middle(self) -> NDArray[np.int64]:
        if self._file is None:
            ends = np.cumsum([len(piece.numbers) for piece in self._buffered])
            middle = int(np.searchsorted(ends, self._count // 2))
            around = self._buffered[max(middle - _AROUND, 0) : middle + _AROUND + 1]
            return np.concatenate([piece.numbers for piece in around])
        self._file.seek((self._count - self._buffered_count) // 2 * 8)
        return np.frombuffer(self._file.read(_BYTES), np.int64)

    def _pieces(self) -> Iterator[_Piece]:
        if self._file is not None:
            self._file.seek(0)
            while piece := self._file.read(_BYTES):
                yield _Piece.of(np.frombuffer(piece, np.int64))
        yield from self._buffered


# Running totals of one interface while its capture is read. The reader takes arrivals from the clock, and the summary
# from the totals.


class Tally:
    """Totals of the records of one interface.

    Args:
        number: number of the interface. The first interfaces may hold more timestamps in memory, for the median.

    Attributes:
        clock: largest sane timestamp so far, ns; -1 before the first.
        last: timestamp of the last sane record so far, ns; None before the first.
        undecoded: sane records without an IP header, and bytes of all; the caller that decodes counts them.
        malformed: malformed rows of the interface; the record judge counts them.
    """

    def __init__(self, number: int) -> None:
        self.clock = -1
        self.undecoded = Undecoded()
        self.malformed = 0
        self._packets = 0
        self._first: int | None = None
        self.last: int | None = None
        self._smallest: int | None = None
        self._lull = self._lag = 0
        self._broken = False
        in_memory = max(MEDIAN_TIMESTAMPS >> number.bit_length(), LEAST_MEDIAN_TIMESTAMPS)
        self._median = Median(in_memory) if number < MEDIAN_INTERFACES else None

    def add(self, stamps: NDArray[np.int64]) -> None:
        """Counts sane records by their timestamps (ns); at least one."""
        smallest, largest = int(stamps.min()), int(stamps.max())
        if self._median:
            self._median.add(stamps, (smallest, largest))
        self._first = int(stamps[0]) if self._first is None else self._first
        self.last = int(stamps[-1])
        self._lull = longest_lull(stamps, -1 if self._broken else self.clock, self._lull)
        self._broken = False
        if int(stamps[0]) < self.clock or (len(stamps) > 1 and bool(np.any(stamps[1:] < stamps[:-1]))):
            self._lag = max(self._lag, int((arrival_times(stamps, self.clock) - stamps).max()))
        self._smallest = smallest if self._smallest is None else min(smallest, self._smallest)
        self.clock = max(self.clock, largest)
        self._packets += len(stamps)

    def break_off(self) -> None:
        """Notes that records are missing before the next one: the time to it is no lull."""
        self._broken = True

    def summary(self, interface: Interface, holes: tuple[Hole, ...]) -> InterfaceSummary:
        return InterfaceSummary(
            interface=interface,
            packets=self._packets,
            undecoded=self.undecoded.packets,
            wire=self.undecoded.wire,
            types=self.undecoded.largest,
            malformed=self.malformed,
            first=self._first,
            last=self.last,
            smallest=self._smallest,
            largest=self.clock if self._packets else None,
            median=self._median.value() if self._median else None,
            lull=self._lull if self._packets else None,
            holes=holes,
            lag=self._lag if self._packets else None,
        )

    def close(self) -> None:
        """Discards the timestamps of the median."""
        if self._median:
            self._median.close()


def longest_lull(stamps: NDArray[np.int64], clock: int, before: int) -> int:
    """Returns the longest time between successive arrivals, ns.

    Args:
        stamps: the next sane timestamps, ns; at least one.
        clock: the clock before them, ns; -1 before the first.
        before: the longest time so far, ns.
    """
    first = max(0, int(stamps[0]) - clock) if clock >= 0 else 0
    longest = max(before, first)
    if len(stamps) > 1 and int(np.max(stamps[1:] - stamps[:-1])) > longest:  # a step up after one back is no lull
        arrivals = arrival_times(stamps, clock)
        longest = max(longest, int(np.max(arrivals[1:] - arrivals[:-1])))
    return longest
