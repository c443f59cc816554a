"""A capture file as a window of bytes that moves over it.

Below the reader: bounded memory whatever the size of the file, and the sha256 computed beside the decoding.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import Future, ThreadPoolExecutor
from io import FileIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def digest(path: str | Path) -> str:
    """The sha256 of a file, in hex, by one sequential pass."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Window:
    """The bytes [begin, end) of `buffer`, which lie in the file from `offset` on.

    Args:
        file: opened for reading, at its start.
        size: bytes read at a time; the window grows beyond it where one record needs more.
        hashed: whether to compute the sha256, in a thread of its own.
    """

    def __init__(self, file: FileIO, size: int, hashed: bool) -> None:
        self.buffer: NDArray[np.uint8] = np.empty(size, np.uint8)
        self.begin = 0
        self.end = 0
        self.offset = 0
        self.at_end = False
        self._file = file
        self._hash = hashlib.sha256()
        self._thread = ThreadPoolExecutor(1) if hashed else None
        self._pending: Future[None] | None = None

    def advance(self, begin: int) -> None:
        """Drops the bytes before buffer[begin]."""
        self.offset += begin - self.begin
        self.begin = begin

    def fill(self) -> None:
        """Reads on: keeps [begin, end), moved to the front, and fills the rest of the buffer."""
        self._wait()
        kept = self.buffer[self.begin : self.end]
        target = self.buffer if len(kept) <= len(self.buffer) // 2 else np.empty(2 * len(self.buffer), np.uint8)
        target[: len(kept)] = kept.copy() if target is self.buffer else kept
        self.buffer, self.begin, self.end = target, 0, len(kept)
        start = self.end
        while self.end < len(self.buffer):
            count = self._file.readinto(self.buffer[self.end :].data)
            if not count:
                self.at_end = True
                break
            self.end += count
        if self._thread is not None:
            self._pending = self._thread.submit(self._hash.update, self.buffer[start : self.end].data)

    def drain(self) -> None:
        """Reads to the end of the file without keeping what it reads; `offset` is then the file's size."""
        while not self.at_end:
            self.advance(self.end)
            self.fill()
        self.advance(self.end)

    def sha256(self) -> str:
        """The sha256 of all bytes read so far, in hex."""
        self._wait()
        return self._hash.hexdigest()

    def close(self) -> None:
        """Ends the hashing thread and closes the file."""
        if self._thread is not None:
            self._thread.shutdown()
        self._file.close()

    def _wait(self) -> None:
        if self._pending is not None:
            self._pending.result()
            self._pending = None
