"""The exact median of more numbers than memory should hold.

Beside the reader: captures without a declared start are ordered by their median timestamp (SEMANTICS T1).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

_DIGIT = 16  # bits found by one pass
_PIECES = 1 << 10
_BYTES = 8 << 20  # of the file at a time
_AROUND = 4  # pieces on each side of the middle one


class _Piece(NamedTuple):
    """Numbers, the smallest and the largest of them."""

    numbers: NDArray[np.int64]
    least: int
    most: int

    @classmethod
    def of(cls, numbers: NDArray[np.int64]) -> _Piece:
        return cls(numbers, int(numbers.min()), int(numbers.max()))


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
        self._held: list[_Piece] = []
        self._held_count = 0
        self._single = 0
        self._count = 0
        self._file: IO[bytes] | None = None

    def add(self, numbers: NDArray[np.int64]) -> None:
        """Adds numbers."""
        if not len(numbers):
            return
        self._held.append(_Piece.of(numbers.astype(np.int64)))
        self._single += 1
        self._held_count += len(numbers)
        self._count += len(numbers)
        if self._held_count > self._in_memory:
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as this object
            for held in self._held:
                self._file.write(held.numbers.data)
            self._held, self._held_count, self._single = [], 0, 0
        elif self._single == _PIECES:  # many short ones cost more than what they hold
            self._held[-_PIECES:] = [_Piece.of(np.concatenate([held.numbers for held in self._held[-_PIECES:]]))]
            self._single = 0

    def value(self) -> int | None:
        """The lower median of what was added, None of nothing."""
        if not self._count:
            return None
        rank = (self._count - 1) // 2
        found = self._narrowed(rank)
        return self._by_digits(rank) if found is None else found

    def _narrowed(self, rank: int) -> int | None:
        """The number of a rank if it lies within the range of the middle pieces."""
        # Captures are nearly in order, so it does, and few pieces overlap that range.
        middle = self._middle()
        low, high = middle.min(), middle.max()
        below, near, room = 0, [], self._in_memory
        for numbers, least, most in self._pieces():
            if most < low:
                below += len(numbers)
            elif least <= high:
                below += int((numbers < low).sum())
                near.append(numbers[(numbers >= low) & (numbers <= high)])
                room -= len(near[-1])
                if room < 0:
                    return None
        found = np.concatenate(near)
        return int(np.partition(found, rank - below)[rank - below]) if below <= rank < below + len(found) else None

    def _by_digits(self, rank: int) -> int:
        """The number of a rank, from its first digit to its last, each by a pass over all numbers."""
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
        """Drops what was added."""
        self._held = []
        if self._file is not None:
            self._file.close()

    def _middle(self) -> NDArray[np.int64]:
        if self._file is None:
            ends = np.cumsum([len(held.numbers) for held in self._held])
            middle = int(np.searchsorted(ends, self._count // 2))
            around = self._held[max(middle - _AROUND, 0) : middle + _AROUND + 1]
            return np.concatenate([held.numbers for held in around])
        self._file.seek((self._count - self._held_count) // 2 * 8)
        return np.frombuffer(self._file.read(_BYTES), np.int64)

    def _pieces(self) -> Iterator[_Piece]:
        if self._file is not None:
            self._file.seek(0)
            while piece := self._file.read(_BYTES):
                yield _Piece.of(np.frombuffer(piece, np.int64))
        yield from self._held
