"""Where the bytes of a capture come from: a path, or an object that gives them once, such as a pipe or a socket.

Below everything that reads captures: what a file is is told by its first bytes, which a pipe gives only once.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from lowwater.errors import CaptureError

UNNAMED = Path("<stream>")
"""What a stream without a name is called in errors."""


class Source(Protocol):
    """Bytes in order, from the first to the last.

    Attributes:
        rewinds: whether `rewind` works.
    """

    @property
    def rewinds(self) -> bool: ...

    def readinto(self, target: memoryview, /) -> int:
        """Fills the beginning of `target`; gives how many bytes, 0 at the end."""

    def rewind(self, offset: int) -> None:
        """Goes to an offset of the bytes, where it can."""

    def close(self) -> None:
        """Ends it."""


class Stream:
    """An opened file, or any object with `readinto` or `read`, as a source.

    Args:
        file: opened for reading bytes; one that is not this process's own to close is left open.
        owned: whether to close it.
    """

    def __init__(self, file: Any, owned: bool) -> None:
        self._file = file
        self._owned = owned
        self._fill: Callable[[memoryview], int | None] = getattr(file, "readinto", self._copied)
        status = _status(file)
        self.size = status.st_size if status and stat.S_ISREG(status.st_mode) else 0
        self.rewinds = owned and bool(status and stat.S_ISREG(status.st_mode))

    def readinto(self, target: memoryview, /) -> int:
        count = self._fill(target)
        if count is None:
            raise BlockingIOError(errno.EAGAIN, "it has no bytes yet, and does not wait for them")
        return count

    def rewind(self, offset: int) -> None:
        self._file.seek(offset)

    def close(self) -> None:
        if self._owned:
            self._file.close()

    def _copied(self, target: memoryview) -> int | None:
        data = self._file.read(len(target))
        if data is None:
            return None
        target[: len(data)] = data
        return len(data)


class Peeked:
    """A source whose first bytes were looked at and are given again."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._head = b""
        self._given = 0

    @property
    def rewinds(self) -> bool:
        return self._source.rewinds

    def peek(self, size: int) -> bytes:
        """The first `size` bytes, fewer where there are no more; only before any is read."""
        head = bytearray(self._head)
        target = memoryview(bytearray(size))
        while len(head) < size and (count := self._source.readinto(target[: size - len(head)])):
            head += target[:count]
        self._head = bytes(head)
        return self._head[:size]

    def readinto(self, target: memoryview, /) -> int:
        part = self._head[self._given : self._given + len(target)]
        if not part:
            return self._source.readinto(target)
        target[: len(part)] = part
        self._given += len(part)
        return len(part)

    def rewind(self, offset: int) -> None:
        self._given = len(self._head)
        self._source.rewind(offset)

    def close(self) -> None:
        self._source.close()


def open_source(capture: str | Path | Any) -> tuple[Path, Stream]:
    """The name of a capture and its bytes.

    Args:
        capture: a path (a FIFO too), or an object with `readinto` or `read` that gives bytes.

    Raises:
        CaptureError: if the file cannot be opened.
    """
    if not isinstance(capture, (str, os.PathLike)):
        name = getattr(capture, "name", None)
        return Path(name) if isinstance(name, str) and name else UNNAMED, Stream(capture, owned=False)
    path = Path(capture)
    try:
        return path, Stream(path.open("rb", buffering=0), owned=True)
    except OSError as error:
        raise CaptureError(f"{path}: cannot be read: {error.strerror}", "check the path and its permissions") from error


def _status(file: Any) -> os.stat_result | None:
    try:
        return os.fstat(file.fileno())
    except (AttributeError, OSError):
        return None
