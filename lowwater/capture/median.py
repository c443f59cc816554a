"""The exact median of more numbers than memory should hold.

Beside the reader: captures without a declared start are ordered by their median timestamp (SEMANTICS T1).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import IO

import numpy as np
from numpy.typing import NDArray

_DIGIT = 16  # bits found by one pass
_PIECES = 1 << 10


class Median:
    """Collects non-negative int64 numbers; beyond `in_memory` of them they go to a temporary file.

    Example:
        >>> median = Median()
        >>> median.add(np.array([7, 1, 5, 3]))
        >>> median.value()
        3
    """

    def __init__(self, in_memory: int = 1 << 23) -> None:
        self._in_memory = in_memory
        self._held: list[NDArray[np.int64]] = []
        self._held_count = 0
        self._single = 0
        self._count = 0
        self._file: IO[bytes] | None = None

    def add(self, numbers: NDArray[np.int64]) -> None:
        """Adds numbers."""
        if not len(numbers):
            return
        self._held.append(numbers.astype(np.int64))
        self._single += 1
        self._held_count += len(numbers)
        self._count += len(numbers)
        if self._held_count > self._in_memory:
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as this object
            for held in self._held:
                self._file.write(held.data)
            self._held, self._held_count, self._single = [], 0, 0
        elif self._single == _PIECES:  # many short ones cost more than what they hold
            self._held[-_PIECES:] = [np.concatenate(self._held[-_PIECES:])]
            self._single = 0

    def value(self) -> int | None:
        """The lower median of what was added, None of nothing."""
        if not self._count:
            return None
        rank = (self._count - 1) // 2
        if self._file is None:
            return self._narrowed(rank)
        prefix = 0
        for shift in range(64 - _DIGIT, -1, -_DIGIT):
            counts = np.zeros(1 << _DIGIT, np.int64)
            for numbers in self._pieces():
                if shift + _DIGIT < 64:
                    numbers = numbers[numbers >> (shift + _DIGIT) == prefix]
                counts += np.bincount((numbers >> shift) & ((1 << _DIGIT) - 1), minlength=1 << _DIGIT)
            below = np.cumsum(counts)
            digit = int(np.searchsorted(below, rank, side="right"))
            rank -= int(below[digit] - counts[digit])
            prefix = prefix << _DIGIT | digit
        return prefix

    def _narrowed(self, rank: int) -> int:
        """The number of a rank among the held: looked for within the range of the middle pieces first."""
        # Captures are nearly in order, so it is there, and few pieces overlap that range.
        bounds = [(int(numbers.min()), int(numbers.max())) for numbers in self._held]
        middle, reach = len(self._held) // 2, 1
        while True:
            around = bounds[max(middle - reach, 0) : middle + reach + 1]
            low, high = min(least for least, _ in around), max(most for _, most in around)
            below, near = 0, []
            for numbers, (least, most) in zip(self._held, bounds, strict=True):
                if most < low:
                    below += len(numbers)
                elif least <= high:
                    below += int((numbers < low).sum())
                    near.append(numbers[(numbers >= low) & (numbers <= high)])
            found = np.concatenate(near)
            if below <= rank < below + len(found):
                return int(np.partition(found, rank - below)[rank - below])
            reach *= 8

    def close(self) -> None:
        """Drops what was added."""
        self._held = []
        if self._file is not None:
            self._file.close()

    def _pieces(self) -> Iterator[NDArray[np.int64]]:
        if self._file is not None:
            self._file.seek(0)
            while piece := self._file.read(8 << 20):
                yield np.frombuffer(piece, np.int64)
        yield from self._held
