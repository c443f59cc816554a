"""Sources of capture bytes: a path, or an object that yields them once, such as a pipe or a socket.

Below everything that reads captures. The first bytes tell the format, and a pipe yields them only once.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from lowwater.errors import CaptureError
from lowwater.storage.captures import ObjectFile, capture_path
from lowwater.storage.failures import hint_of

UNNAMED = Path("<stream>")
"""Name of a stream without a name, in errors."""


class Source(Protocol):
    """A sequence of bytes.

    Attributes:
        rewinds: whether `rewind` works.
    """

    @property
    def rewinds(self) -> bool: ...

    def readinto(self, target: memoryview, /) -> int:
        """Fills the beginning of `target`. Returns the number of bytes; 0 at the end."""

    def rewind(self, offset: int) -> None:
        """Continues at an offset of the bytes, if the source can rewind."""

    def close(self) -> None:
        """Closes the source."""


class Stream:
    """An opened file, or any object with `readinto` or `read`, as a source.

    Args:
        file: opened for reading bytes.
        owned: whether `close` closes it; False for a file of the caller.
    """

    def __init__(self, file: Any, owned: bool) -> None:
        self._file = file
        self._owned = owned
        self._fill: Callable[[memoryview], int | None] = getattr(file, "readinto", self._fill_from_read)
        size = _regular_size(file)
        self.size = size or 0
        self.rewinds = owned and size is not None

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

    def _fill_from_read(self, target: memoryview) -> int | None:
        data = self._file.read(len(target))
        if data is None:
            return None
        target[: len(data)] = data
        return len(data)


class PeekableSource:
    """A source whose first bytes can be looked at before they are read."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._head = b""
        self._position = 0

    @property
    def rewinds(self) -> bool:
        return self._source.rewinds

    def peek(self, size: int) -> bytes:
        """Returns the first `size` bytes, fewer if there are no more; only before the first read."""
        head = bytearray(self._head)
        target = memoryview(bytearray(size))
        while len(head) < size and (count := self._source.readinto(target[: size - len(head)])):
            head += target[:count]
        self._head = bytes(head)
        return self._head[:size]

    def readinto(self, target: memoryview, /) -> int:
        part = self._head[self._position : self._position + len(target)]
        if not part:
            return self._source.readinto(target)
        target[: len(part)] = part
        self._position += len(part)
        return len(part)

    def rewind(self, offset: int) -> None:
        self._position = len(self._head)
        self._source.rewind(offset)

    def close(self) -> None:
        self._source.close()


def open_source(capture: str | Path | Any) -> tuple[Path, Stream]:
    """Opens a capture. Returns its path, or name, and its bytes.

    Args:
        capture: a path (also of a FIFO), or an object with `readinto` or `read` that yields bytes.

    Raises:
        CaptureError: if the file cannot be opened.
    """
    if not isinstance(capture, (str, os.PathLike)):
        name = getattr(capture, "name", None)
        return Path(name) if isinstance(name, str) and name else UNNAMED, Stream(capture, owned=False)
    try:
        path = capture_path(capture)
        return path, Stream(path.open("rb", buffering=0), owned=True)
    except OSError as error:
        hint = hint_of(error, "check the path and its permissions")
        raise CaptureError(f"{capture}: cannot be read: {error.strerror}", hint) from error
    except ValueError as error:
        raise CaptureError(str(error), "name a file, or s3://BUCKET/KEY") from None


def _regular_size(file: Any) -> int | None:
    """Returns the size of a regular file, or of an object; None for a stream."""
    if isinstance(file, ObjectFile):
        return file.size
    try:
        status = os.fstat(file.fileno())
    except (AttributeError, OSError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
