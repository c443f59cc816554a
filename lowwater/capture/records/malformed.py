"""Malformed rows of a capture as columns: a fully damaged capture still fits into memory.

`stream` adds them. Readers see a sequence of `facts.Malformed`; the lake takes the columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from lowwater.capture.records.facts import Malformed
from lowwater.errors import CaptureError

MOST_ROWS = 1 << 22
"""Most malformed rows that are stored for a capture."""

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

    Args:
        path: path of the capture, for the error message.

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
            CaptureError: if they are more than MOST_ROWS.
        """
        if len(rows):
            self._totals.add(rows)
            self._append(rows, len(rows))

    def take(self, part: MalformedRows, position: int, arrivals: NDArray[np.int64]) -> None:
        """Appends the rows of a part.

        Args:
            part: a part of these rows.
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
        if self.store_rows and self._total > MOST_ROWS:
            raise self._too_many()

    def _too_many(self) -> CaptureError:
        reasons: Counter[str] = Counter()
        for key, count in self.counts.items():
            reasons[REASONS[key & 255]] += count
        commonest, count = reasons.most_common(1)[0]
        return CaptureError(
            f"{self.path}: more than {MOST_ROWS:,} malformed records, {count:,} of them {commonest}, "
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
