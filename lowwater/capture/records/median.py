"""Exact median of more numbers than fit into memory.

Captures without a declared start are ordered by their median timestamp (SEMANTICS T1).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
