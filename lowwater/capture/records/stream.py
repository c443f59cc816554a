"""The record stream of a capture: spans of judged records in file order, divided by interface, its malformed
rows, and the identity of the capture.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.capture.content.stored import ContentBuilder
from lowwater.capture.formats import classic
from lowwater.capture.formats.capture_file import RECORD_HEADER
from lowwater.capture.formats.classic import CAPTURED, INTERFACE, OFFSET, STAMP, WIRE, Scanner
from lowwater.capture.formats.sources import FileWindow
from lowwater.capture.headers.fields import byte, little64
from lowwater.capture.headers.links import LINK_TYPES
from lowwater.capture.headers.packet import Memory, decode_batch
from lowwater.capture.headers.undecoded import Undecoded
from lowwater.capture.inlining import kernel, part
from lowwater.capture.records import drops
from lowwater.capture.records.facts import Interface, Malformed
from lowwater.capture.records.holes import HoleFinder
from lowwater.capture.records.parts import ReadingOrder
from lowwater.capture.records.sanity import END_OF_TIME, LARGEST_WIRE, SIDE, Judge, Tally, judgeable
from lowwater.errors import CaptureError
from lowwater.limits import BATCH_ROWS, MALFORMED_ROWS

# Malformed rows as columns: a fully damaged capture still fits into memory. Readers see a sequence of
# `facts.Malformed`; the lake takes the columns.

REASONS = (
    "time-range", "time-jump", "wire-length", "no-time", "interface", "captured", "length", "block", "cut",
    "compression", "sub-second",
)  # fmt: skip
"""Reasons of `facts.Malformed`. The column `reason` holds the index in this tuple."""

NUMBERS = {name: number for number, name in enumerate(REASONS)}

ROW = np.dtype(
    [
        ("position", np.int64),
        ("offset", np.int64),
        ("length", np.int64),
        ("arrival", np.int64),
        ("interface", np.int32),
        ("reason", np.uint8),
    ]
)
"""Data type of a row. Position and arrival are -1 if there is none."""

_NO_RECORD = [NUMBERS["length"], NUMBERS["block"]]
"""Reasons for bytes that are no record."""

_LEAST = 16


class MalformedRows(Sequence[Malformed]):
    """Malformed rows in file order.

    Attributes:
        added: number of rows added, stored or not.
    """

    def __init__(self, path: Path) -> None:
        self.added = 0
        self._totals = _Totals(path)
        self._rows = np.empty(0, ROW)
        self._count = 0
        self._is_part = False

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Malformed: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Malformed]: ...

    def __getitem__(self, index: int | slice) -> Malformed | Sequence[Malformed]:
        if isinstance(index, slice):
            return [_row(row) for row in self.columns[index].tolist()]
        return _row(self.columns[index].item())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, MalformedRows):
            return bool(np.array_equal(self.columns, other.columns))
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"MalformedRows({self[:3]!r}, {self._count:,} in all)"

    @property
    def columns(self) -> NDArray[Any]:
        """The rows, dtype ROW."""
        return self._rows[: self._count]

    @property
    def reasons(self) -> dict[tuple[int, str], int]:
        """Number of rows by (interface, reason), including rows that are not stored."""
        return {(key >> 8, REASONS[key & 255]): count for key, count in self._totals.counts.items()}

    @property
    def bytes(self) -> int:
        """Bytes of all rows, including rows that are not stored."""
        return self._totals.bytes

    def count_only(self) -> None:
        """Stores no more rows; only `reasons` and `bytes` go on counting, and holes are found."""
        self._totals.store_rows = False

    def part(self) -> MalformedRows:
        """Returns an empty part for rows whose place in the order is known later; its rows count at once."""
        part = MalformedRows(self._totals.path)
        part._totals, part._is_part = self._totals, True
        return part

    def add(self, rows: NDArray[Any]) -> None:
        """Adds rows, dtype ROW.

        Raises:
            CaptureError: if they are more than MALFORMED_ROWS.
        """
        if len(rows):
            self._totals.add(rows)
            self._append(rows, len(rows))

    def take(self, part: MalformedRows, position: int, arrivals: NDArray[np.int64]) -> None:
        """Appends the rows of a part.

        Args:
            position: position of its first row; the others follow.
            arrivals: arrival of every stored row of the part, ns; -1 for none.
        """
        rows = part.columns
        rows["position"] = np.arange(position, position + len(rows))
        rows["arrival"] = arrivals
        self._append(rows, part.added)

    def _append(self, rows: NDArray[Any], count: int) -> None:
        self.added += count
        if not self._totals.store_rows:
            # Nobody reads the rows, but those that are no record are holes, which a part tells.
            rows = rows[np.isin(rows["reason"], _NO_RECORD)] if self._is_part else rows[:0]
        end = self._count + len(rows)
        if end > len(self._rows):
            larger = np.empty(max(2 * len(self._rows), end, _LEAST), ROW)
            larger[: self._count] = self.columns
            self._rows = larger
        self._rows[self._count : end] = rows
        self._count = end


class _Totals:
    """Totals of all malformed rows of a capture, shared by its parts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store_rows = True
        self.bytes = 0
        self.counts: Counter[int] = Counter()
        self._total = 0
        self._first = 0

    def add(self, rows: NDArray[Any]) -> None:
        if not self._total:
            self._first = int(rows["offset"][0])
        self._total += len(rows)
        self.bytes += int(rows["length"].sum())
        keys, counts = np.unique(rows["interface"].astype(np.int64) << 8 | rows["reason"], return_counts=True)
        for key, count in zip(keys.tolist(), counts.tolist(), strict=True):
            self.counts[key] += count
        if self.store_rows and self._total > MALFORMED_ROWS:
            raise self._too_many()

    def _too_many(self) -> CaptureError:
        reasons: Counter[str] = Counter()
        for key, count in self.counts.items():
            reasons[REASONS[key & 255]] += count
        commonest, count = reasons.most_common(1)[0]
        return CaptureError(
            f"{self.path}: more than {MALFORMED_ROWS:,} malformed records, {count:,} of them {commonest}, "
            f"the first at byte {self._first:,}",
            "raise max_jump of the link if its clock jumps (time-jump), or set its resolution if its files have "
            "nanoseconds and say microseconds (sub-second); `lowwater inspect` counts them by reason",
        )


def _row(row: tuple[int, int, int, int, int, int]) -> Malformed:
    position, offset, length, arrival, interface, reason = row
    return Malformed(
        position if position >= 0 else None,
        offset,
        length,
        REASONS[reason],
        arrival if arrival >= 0 else None,
        interface,
    )


# Gaps: what lies behind records that still wait for judgement and need not wait with them.

PASSED_RECORDS = 1 << 11
"""Malformed records behind the waiting ones after which they become a gap; 17 runs of them fit into the table."""

PASSED_BYTES = classic.PASSED
"""Bytes behind the waiting records after which they become a gap."""

_FARTHEST = 16 << 20
"""Bytes. Discarding moves the bytes before the gap; a gap of this size is discarded however many must move."""


@dataclass
class Gap:
    """Damage, malformed records and other blocks behind some waiting records.

    Attributes:
        before: number of waiting records before the gap.
        discarded: bytes of the gap that were removed from the window.
    """

    before: int
    rows: MalformedRows
    discarded: int = 0


class GapQueue:
    """The gaps between waiting records, in file order, and the bytes that were removed from the window for them."""

    def __init__(self, window: FileWindow, malformed: MalformedRows) -> None:
        self._window = window
        self._malformed = malformed
        self._gaps: deque[Gap] = deque()
        self._discarded = 0

    def is_behind(self, records: int) -> bool:
        """Whether a gap lies directly behind this number of waiting records."""
        return bool(self._gaps) and self._gaps[-1].before == records

    def behind(self, records: int) -> Gap:
        """Returns the gap behind this number of waiting records; opens one if there is none."""
        if not self._gaps or self._gaps[-1].before < records:
            self._gaps.append(Gap(records, self._malformed.part()))
        return self._gaps[-1]

    def next_within(self, records: int) -> Gap | None:
        """Returns the first gap with at most this number of records before it; None if there is none."""
        return self._gaps[0] if self._gaps and self._gaps[0].before <= records else None

    def close_first(self) -> Gap:
        """Removes the first gap: everything before it is judged."""
        gap = self._gaps.popleft()
        self._discarded -= gap.discarded
        return gap

    def shift(self, records: int) -> None:
        """Reduces the record counts by the number of records that no longer wait."""
        if records:
            for gap in self._gaps:
                gap.before -= records

    def discard(self, begin: int, end: int, least: int) -> int:
        """Discards window bytes [begin, end), once they are worth the move of the bytes before them.

        Args:
            begin: index behind the last waiting record, or the window's begin.
            least: fewest bytes to discard.

        Returns:
            Number of bytes discarded, 0 if they are too few.
        """
        size = end - begin
        if size < max(min(begin - self._window.begin, _FARTHEST), least):
            return 0
        self._window.take_out(begin, end)
        self._discarded += size
        return size

    def offset(self, index: int) -> int:
        """Returns the file offset of buffer[index], which lies before all gaps."""
        return self._window.origin + index - self._discarded


# Record spans: judged records of a piece of a capture, divided by interface and decoded. `sanity` makes them; the
# reader and `reader.read_chunk` decode them.


@dataclass(frozen=True)
class RecordSpan:
    """Judged records from a piece of the file without damage.

    Attributes:
        records: shape (classic.ROWS, n), as `scan` fills it; n is at least 1.
        sane: indices of the sane records, ascending.
        position: number of the first record in the capture.
        begin: offset of the first record in the file.
        end: offset behind the last record.
        after_damage: whether damage lies between the span before and this one.
    """

    buffer: NDArray[np.uint8]
    records: NDArray[np.int64]
    sane: NDArray[np.int64]
    position: int
    begin: int
    end: int
    after_damage: bool


def split_by_interface(span: RecordSpan, interfaces: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yields, for every interface with sane records, its number and the indices of its records."""
    if not len(span.sane):
        return
    if interfaces == 1:
        yield 0, span.sane
        return
    numbers = span.records[classic.INTERFACE][span.sane]
    ordered = np.argsort(numbers, kind="stable")
    present, begins = np.unique(numbers[ordered], return_index=True)
    for number, chosen in zip(present.tolist(), np.split(ordered, begins[1:]), strict=True):
        yield number, span.sane[chosen]


def divided(span: RecordSpan, borders: Sequence[int], scanner: Scanner) -> Iterator[RecordSpan]:
    """Divides a span at offsets of the file, ascending; a record belongs to the part in which it begins."""
    within = borders[bisect_right(borders, span.begin) : bisect_left(borders, span.end)]
    if not within:
        yield span
        return
    begins, sizes = scanner.extents(span.records)
    offsets = begins + (span.begin - int(begins[0]))
    cuts = [0, *np.searchsorted(offsets, within).tolist(), len(offsets)]
    for first, last in pairwise(cuts):
        if first < last:
            low, high = np.searchsorted(span.sane, [first, last]).tolist()
            begin, end = int(offsets[first]), int(offsets[last - 1] + sizes[last - 1])
            sane = span.sane[low:high] - first
            after_damage = span.after_damage and not first
            yield RecordSpan(
                span.buffer, span.records[:, first:last], sane, span.position + first, begin, end, after_damage
            )


def select_records(span: RecordSpan, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns records by index (ascending, at least one); a view, not a copy, where they are the first ones."""
    first = chosen[-1] == len(chosen) - 1
    return span.records[:, : len(chosen)] if first else span.records[:, chosen]


def decode_span(
    span: RecordSpan,
    chosen: NDArray[np.int64],
    clock: int,
    interface: Interface,
    builder: ContentBuilder,
    memory: Memory | None = None,
    undecoded: Undecoded | None = None,
) -> pa.RecordBatch:
    """Decodes some records of a span, and adds the content columns that the link stores.

    Args:
        chosen: indices of sane records of one interface, ascending, at least one.
        clock: largest sane timestamp of the interface before these records, ns; -1 if there is none.
        memory: as in `decode_batch`, as is `undecoded`.

    Returns:
        A batch of the builder's schema.
    """
    selected = select_records(span, chosen)
    link, positions = interface.link_number, chosen + span.position
    batch, _ = decode_batch(span.buffer, selected, positions, clock, link, memory, builder.shape, undecoded)
    return builder.batch(span.buffer, selected[classic.OFFSET], batch, link)


# Records that were lost before others, as these say (`records.drops`).


class DropsOfRecords:
    """Collects the drops that records tell, by interface; see `drops.Drops`.

    Args:
        form: format of the capture. In a snoop capture each record has what was lost since the first one.
    """

    def __init__(self, form: str) -> None:
        self._source = form
        self._tallies: dict[int, drops.DropTally] = {}
        self._readings: list[drops.Reading] = []  # of snoop: the first and the last one

    def add(self, span: RecordSpan, tallies: Sequence[Tally]) -> None:
        """Adds the next records; `tallies` are of those before them."""
        lost = span.records[classic.DROPS]
        if self._source == drops.SNOOP:
            lost = self._rises(span)
        told = np.flatnonzero(lost)
        if not len(told):
            return
        numbers, stamps = span.records[classic.INTERFACE], span.records[classic.STAMP]
        for number in np.unique(numbers[told]).tolist():
            sane = span.sane[numbers[span.sane] == number]
            before = drops.UNKNOWN if tallies[number].last is None else tallies[number].last
            times = np.concatenate([[before], stamps[sane]])
            mine = told[numbers[told] == number]
            at = np.searchsorted(sane, mine)  # of a malformed record, the record before says when
            whole = np.isin(mine, sane)
            ends = np.where(whole, times[np.minimum(at + 1, len(sane))], times[at])
            if number not in self._tallies:
                self._tallies[number] = drops.DropTally(self._source)
            self._tallies[number].add(times[at], ends, lost[mine])

    def drops(self, number: int) -> drops.DeclaredDrops:
        """Returns what the records of an interface tell."""
        ranges = tuple(self._tallies[number].ranges()) if number in self._tallies else ()
        if not any(reading.count for reading in self._readings):
            return drops.DeclaredDrops(ranges)
        first, last = self._readings
        return drops.DeclaredDrops(ranges, (drops.Counter("", self._source, first, last),))

    def _rises(self, span: RecordSpan) -> NDArray[np.int64]:
        """Returns what was lost before each record of a snoop capture but the first, by its counters of 32 bits.

        A counter that steps back is of a record that was moved or damaged, and adds nothing, unless it ran over: the
        numbers are compared as those of a ring (RFC 1982). All bits are set where it is not known.
        """
        counts = span.records[classic.DROPS]
        rises = np.zeros(len(counts), np.int64)
        known = np.flatnonzero(counts != _ALL_BITS)
        if not len(known):
            return rises
        stamps = span.records[classic.STAMP]
        if not self._readings:
            first = int(counts[known[0]])
            end = int(stamps[known[0]]) if known[0] in span.sane else None
            self._readings = [drops.Reading(first, end)] * 2
        last = self._readings[1].count
        if np.array_equal(counts[known], np.full(len(known), last & _ALL_BITS)):
            return rises
        for at in known[np.flatnonzero(np.diff(counts[known], prepend=last & _ALL_BITS))].tolist():
            step = (int(counts[at]) - last) & _ALL_BITS
            if step <= _ALL_BITS >> 1:
                rises[at], last = step, last + step
        self._readings[1] = drops.Reading(last, int(stamps[span.sane[-1]]) if len(span.sane) else None)
        return rises


_ALL_BITS = (1 << 32) - 1


# The record stream: spans of judged records in file order, and malformed rows for everything else. It moves the window
# and finds where records go on after damage.

_REASONS = {
    classic.NO_TIME: "no-time",
    classic.NO_INTERFACE: "interface",
    classic.NO_FRAME: "captured",
    classic.NO_PART: "sub-second",
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
        max_jump: largest lead of a timestamp over the records around it, ns (SEMANTICS T3).
        malformed: malformed rows of the capture, still empty.
        rows: most records that wait at a time.

    Attributes:
        tallies: one an interface; the reader adds the sane records of every span.
        position: number of the next record in the capture.
        record_bytes: bytes of the sane records so far, headers included.
        holes: finds the damaged stretches of the capture.
    """

    def __init__(self, scanner: Scanner, max_jump: int, malformed: MalformedRows, rows: int) -> None:
        self.timestamps = Judge(max_jump)
        self.malformed = malformed
        self.tallies = [Tally(0)]
        self.position = 0
        self.record_bytes = 0
        self.holes = HoleFinder()
        self._scanner = scanner
        self._indices = np.arange(rows)
        self._after_damage = False

    def add_interfaces(self) -> None:
        """Begins a tally for every interface that the scanner has met since the last call."""
        self.tallies += [Tally(number) for number in range(len(self.tallies), len(self._scanner.interfaces))]

    def settle(self, records: NDArray[np.int64], final: bool) -> Verdict:
        """Judges the records whose neighbours are known.

        Args:
            records: shape (classic.ROWS, n), the waiting records.
        """
        count = records.shape[1]
        stamps = records[classic.STAMP]
        usable, whole = judgeable(stamps, records[classic.WIRE])
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
            records: shape (classic.ROWS, n), n at least 1.
            begin: index of the first one among the records of the verdict.
            origin: offset in the file of buffer[0].
        """
        count = records.shape[1]
        sane, usable = verdict.sane, verdict.usable
        if (begin, count) != (0, len(usable)):
            sane = sane[np.searchsorted(sane, begin) : np.searchsorted(sane, begin + count)] - begin
            usable = usable[begin : begin + count]
        if len(sane) < count:
            self._refuse(records, sane, usable, origin)
        chosen = records if len(sane) == count else records[:, sane]
        self.record_bytes += self._scanner.bytes_of(chosen)
        if len(sane):
            several = len(self._scanner.interfaces) > 1
            numbers = chosen[classic.INTERFACE] if several else None
            self.holes.add(chosen[classic.STAMP], self._scanner.extents(chosen)[1], numbers)
        begins, sizes = self._scanner.extents(records[:, [0, -1]])
        first, end = int(begins[0]) + origin, int(begins[1] + sizes[1]) + origin
        position, after_damage = self.position, self._after_damage
        self.position, self._after_damage = position + count, False
        return RecordSpan(buffer, records, sane, position, first, end, after_damage)

    def rows_of(self, records: NDArray[np.int64], origin: int) -> NDArray[Any]:
        """Makes malformed rows, without position and arrival, of records that are malformed by themselves.

        Args:
            records: shape (classic.ROWS, n).
            origin: offset in the file of the first byte of the buffer.
        """
        rows = np.empty(records.shape[1], ROW)
        begins, rows["length"] = self._scanner.extents(records)
        rows["offset"] = begins + origin
        rows["interface"] = records[classic.INTERFACE]
        wire = records[classic.WIRE] > LARGEST_WIRE
        rows["reason"] = np.where(wire, NUMBERS["wire-length"], NUMBERS["time-range"])
        for stamp, reason in _REASONS.items():
            rows["reason"][records[classic.STAMP] == stamp] = NUMBERS[reason]
        rows["position"] = rows["arrival"] = -1
        return rows

    def add(self, malformed: MalformedRows, rows: NDArray[Any]) -> None:
        """Adds malformed rows, and counts them in the tallies of their interfaces."""
        malformed.add(rows)
        for number, count in zip(*np.unique(rows["interface"], return_counts=True), strict=True):
            self.tallies[number].malformed += int(count)

    def take_gap(self, rows: MalformedRows) -> None:
        """Takes the malformed rows of a gap, once all records before the gap are judged."""
        if rows.added:
            numbers, where = np.unique(rows.columns["interface"], return_inverse=True)
            clocks = np.array([self.tallies[number].clock for number in numbers.tolist()], np.int64)
            for row in rows.columns[rows.columns["reason"] == NUMBERS[self._scanner.damage]]:
                self.open_hole(int(row["offset"]), int(row["length"]))
            self.malformed.take(rows, self.position, clocks[where])
            self.position += rows.added
            self._after_damage = True

    def open_hole(self, offset: int, length: int, lost: float | None = None) -> None:
        """Notes bytes that are no record, behind all records so far; `lost` as of `HoleFinder.open`."""
        self.holes.open(offset, length, (tally.clock for tally in self.tallies), lost)
        for tally in self.tallies:
            tally.break_off()

    def median(self, records: NDArray[np.int64]) -> int:
        """Returns the lower median timestamp (ns) of the last judged and the waiting records; -1 if there are none."""
        stamps, wire = records[[classic.STAMP, classic.WIRE]]
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
        for number in np.unique(records[classic.INTERFACE][insane]).tolist():
            sane_of_interface = sane[records[classic.INTERFACE][sane] == number]
            stamps = np.concatenate([[self.tallies[number].clock], records[classic.STAMP][sane_of_interface]])
            of_interface = records[classic.INTERFACE][insane] == number
            clocks[of_interface] = np.maximum.accumulate(stamps)[
                np.searchsorted(sane_of_interface, insane[of_interface])
            ]
        return clocks


class RecordStream:
    """The spans of a capture; iterate it once, and add the sane records of every span to the tallies.

    Args:
        window: filled, at the beginning of the file.
        max_jump: largest lead of a timestamp over the records around it, ns (SEMANTICS T3).
        malformed: malformed rows of the capture, still empty.

    Attributes:
        judge: judges the records; has the tallies and the sums.
        rest: after the iteration, the file offset of the record that the end of the file cuts; the file's size if none.
        damaged_to_end: after the iteration, whether damage reaches to the end of the file.
    """

    def __init__(self, window: FileWindow, scanner: Scanner, max_jump: int, malformed: MalformedRows) -> None:
        self.scanner = scanner
        self.judge = RecordJudge(scanner, max_jump, malformed, BATCH_ROWS)
        self.rest = 0
        self.damaged_to_end = False
        self._window = window
        self._gaps = GapQueue(window, malformed)
        self._records = np.zeros((classic.ROWS, BATCH_ROWS), np.int64)
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
            if stopped == classic.MORE and not window.at_end:
                self._fill()
            elif stopped != classic.FULL:
                more = self._go_on(stopped == classic.DAMAGE)
        yield from self._settle(True)
        self.rest = window.origin + self._at

    def reject(self, position: int | None, offset: int, length: int, reason: str, clock: int) -> None:
        """Adds a malformed row for bytes that are no record.

        Args:
            position: number of the record in the capture; None if unknown.
            offset: offset of the first byte in the unpacked file.
            reason: one of REASONS.
            clock: largest sane timestamp before the bytes, ns since the epoch; negative if there is none.
        """
        number = -1 if position is None else position
        row = np.array([(number, offset, length, clock, 0, NUMBERS[reason])], ROW)
        self.judge.add(self.judge.malformed, row)

    def to_file_offsets(self, order: ReadingOrder) -> None:
        """Turns the offsets of malformed rows and holes, after the iteration, into those in the file."""
        rows = self.judge.malformed.columns
        rows["offset"] = order.in_file(rows["offset"])
        self.judge.holes.move(lambda offset: int(order.in_file(np.array([offset]))[0]))

    def _fill(self) -> int:
        """Reads more bytes. Returns how far the window's content has moved."""
        moved = self._window.fill()
        self._records[[classic.OFFSET, classic.BLOCK], : self._waiting] -= moved
        self._at -= moved
        return moved

    def _discard(self, least: int) -> int:
        """Discards buffered bytes that no waiting record needs. Returns the number of bytes discarded."""
        begin = self._end_of(self._waiting - 1) if self._waiting else self._window.begin
        size = self._gaps.discard(begin, self._at, least)
        self._records[[classic.OFFSET, classic.BLOCK], : self._waiting] += size
        return size

    def _pass_over(self) -> None:
        """Makes a gap of what follows the last record that can be judged, once it is large."""
        if not self._waiting:
            return
        last = self._end_of(self._waiting - 1 - self._malformed_tail)
        if self._malformed_tail >= PASSED_RECORDS or self._at - last >= PASSED_BYTES:
            gap = self._open_gap()
            gap.discarded += self._discard(PASSED_BYTES)

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
        found = self._step_back(around)
        begin, gap = window.origin + self._at, self._open_gap()
        candidate, outcome, discarded = self._at + 1, classic.MORE, 0
        if found is not None:
            self._at, outcome = found, classic.FOUND
        while outcome == classic.MORE:
            candidate, outcome = scanner.search(window.buffer, candidate, window.end, window.at_end, around, -1)
            if outcome == classic.NOT_FOUND and not damage:
                return False
            self._at = candidate
            discarded += self._discard(0)
            if outcome == classic.MORE:
                candidate -= self._fill()
        length = window.origin + self._at - begin
        scanner.skip(length)
        gap.discarded += discarded
        self.judge.add(gap.rows, np.array([(-1, begin, length, -1, 0, NUMBERS[scanner.damage])], ROW))
        self.damaged_to_end = outcome == classic.NOT_FOUND
        return not self.damaged_to_end

    def _step_back(self, around: int) -> int | None:
        """Takes the records right before damage that are a part of it out of the waiting ones.

        They are records that chance found in damage, and one whose length is wrong, so that it has swallowed others.
        Returns the index of the first one that was swallowed; None if there is none.
        """
        window, scanner = self._window, self.scanner
        while self._waiting and not self._gaps.is_behind(self._waiting):
            begin = self._begin_of(self._waiting - 1)
            if scanner.credible(window.buffer, begin, around):
                break
            self._take_back(begin)
        else:
            return None
        candidate, outcome = begin + 1, classic.MORE
        while outcome == classic.MORE and candidate < self._at:
            candidate, outcome = scanner.search(window.buffer, candidate, window.end, window.at_end, around, self._at)
            if outcome == classic.MORE and candidate < self._at:
                candidate -= self._fill()
        if outcome != classic.FOUND or candidate >= self._at:
            return None
        self._take_back(self._begin_of(self._waiting - 1))
        return candidate

    def _take_back(self, begin: int) -> None:
        """Takes the last waiting record, which begins at an index, back: its bytes are damage."""
        self.scanner.take_back(self._at - begin, self._at - self._end_of(self._waiting - 1))
        self._waiting, self._at = self._waiting - 1, begin
        self._malformed_tail = max(self._malformed_tail - 1, 0)

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


# The identity of a capture: a digest of its records, whatever file they lie in (SEMANTICS T5). The reader adds each
# span of records, in the pass that finds them. A capture that is compressed, or rewritten in another format, has the
# same identity as before.

_FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_THIRD, _FOURTH = np.uint64(0x165667B19E3779F9), np.uint64(0xFF51AFD7ED558CCD)
_TURN = np.uint64(29)

HEAD = 100
"""Records by which a file begins as another one: no two taps have the times and bytes of so many alike."""


@part
def _mix(state: Any, word: Any, factor: Any) -> Any:
    """Mixes 8 bytes into 64 bits: a permutation of the state for every word, and of the word for every state."""
    state = (state ^ word) * factor
    return state ^ (state >> _TURN)


@kernel
def _add(buffer: Any, records: Any, numbers: Any, met: int, state: Any) -> int:
    """Mixes the records whose time and length are within range into a digest of 128 bits.

    Args:
        records: as the scanner fills it.
        numbers: place of each interface in the order of their first records; -1 before its first one.
    """
    first, second = state[0], state[1]
    for row in range(records.shape[1]):
        stamp, wire, captured = records[STAMP, row], records[WIRE, row], records[CAPTURED, row]
        if stamp < 0 or stamp >= END_OF_TIME or wire > LARGEST_WIRE:
            continue
        interface = records[INTERFACE, row]
        if numbers[interface] < 0:
            numbers[interface] = met
            met += 1
        # Four words at a time: a multiplication takes longer than the load of a word.
        a = _mix(_FIRST, np.uint64(stamp), _FIRST)
        b = _mix(_SECOND, np.uint64(wire), _SECOND)
        c = _mix(_THIRD, np.uint64(captured), _THIRD)
        d = _mix(_FOURTH, np.uint64(numbers[interface]), _FOURTH)
        at = records[OFFSET, row] + RECORD_HEADER
        end = at + captured
        while at + 32 <= end:
            a = _mix(a, np.uint64(little64(buffer, at)), _FIRST)
            b = _mix(b, np.uint64(little64(buffer, at + 8)), _SECOND)
            c = _mix(c, np.uint64(little64(buffer, at + 16)), _THIRD)
            d = _mix(d, np.uint64(little64(buffer, at + 24)), _FOURTH)
            at += 32
        while at + 8 <= end:
            a = _mix(a, np.uint64(little64(buffer, at)), _SECOND)
            at += 8
        rest = 0
        if at < end and captured >= 8:
            rest = little64(buffer, end - 8)
        else:
            while at < end:
                rest = rest << 8 | byte(buffer, at)
                at += 1
        b = _mix(b, np.uint64(rest), _FIRST)
        first = _mix(_mix(first, a, _FIRST), c, _SECOND)
        second = _mix(_mix(second, b, _THIRD), d, _FOURTH)
    state[0], state[1] = first, second
    return met


class Identity:
    """The digest of the records of a capture, while it is read.

    It is of what its rows are made of, in file order: time, lengths, captured bytes and interface of each record whose
    time and length are within range, and place and reason of each malformed one. `max_jump` is left out of it.
    """

    def __init__(self) -> None:
        self._state = np.zeros(2, np.uint64)
        self._numbers = np.empty(0, np.int64)
        self._met = 0
        self._head: list[int] | None = None

    def add(self, span: RecordSpan, interfaces: int) -> None:
        """Adds the records of a span of a capture with so many interfaces so far."""
        if len(self._numbers) < interfaces:
            more = np.full(interfaces - len(self._numbers), -1, np.int64)
            self._numbers = np.concatenate([self._numbers, more])
        rest = span.records
        if self._head is None and span.position + rest.shape[1] >= HEAD:
            count = max(HEAD - span.position, 0)
            self._take(span, rest[:, :count])
            self._head, rest = self._state.tolist(), rest[:, count:]
        self._take(span, rest)

    def head(self) -> str:
        """Returns a digest of the first HEAD records, hex; empty if the capture has fewer."""
        return "" if self._head is None else "".join(f"{word:016x}" for word in self._head)

    def _take(self, span: RecordSpan, records: NDArray[np.int64]) -> None:
        self._met = int(_add(span.buffer, records, self._numbers, self._met, self._state))

    def digest(self, interfaces: Sequence[Interface], malformed: MalformedRows) -> str:
        """Returns the identity, 64 hex digits.

        The name of an only interface is left out: a format without names is no other capture.
        """
        used = sorted((number, at) for at, number in enumerate(self._numbers.tolist()) if number >= 0)
        named = len(interfaces) > 1
        labels = [(_layer(interfaces[at]), interfaces[at].name if named else "") for _, at in used]
        rows = malformed.columns[malformed.columns["reason"] != NUMBERS["time-jump"]]
        digest = hashlib.sha256(repr(labels).encode())
        digest.update(self._state.astype("<u8").tobytes())
        for name, kind in (("position", "<i8"), ("interface", "<i4"), ("reason", "u1")):
            digest.update(rows[name].astype(kind).tobytes())
        return digest.hexdigest()


def _layer(interface: Interface) -> str:
    """Names what decodes the frames: pcap and pcapng have different numbers for some link types."""
    layer = LINK_TYPES.get(interface.link_number)
    return interface.link_type if layer is None else layer.name
