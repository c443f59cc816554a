"""Malformed rows of a capture as columns: a fully damaged capture still fits into memory.

`stream` adds them, and gaps between the records that still wait for judgement. Readers see a sequence of
`facts.Malformed`; the lake takes the columns.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from lowwater.capture.formats import classic
from lowwater.capture.formats.sources import FileWindow
from lowwater.capture.records.facts import Malformed
from lowwater.errors import CaptureError
from lowwater.limits import MALFORMED_ROWS

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
        """Stores no more rows; only `reasons` and `bytes` go on counting."""
        self._totals.store_rows = False

    def part(self) -> MalformedRows:
        """Returns an empty part for rows whose place in the order is known later; its rows count at once."""
        part = MalformedRows(self._totals.path)
        part._totals = self._totals
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
            return
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


# Gaps: what lies behind records that still wait for judgement and need not wait with them. Between `stream`, which
# finds gaps, and `stream.RecordJudge`, which turns their malformed rows into rows of the capture.

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
