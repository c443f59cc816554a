"""Captures in object stores: a path that opens as a local file does, and reads its object in ranges.

No copy of a capture is made on the disk: plain files are read in ranges, compressed ones from begin to end.
"""

from __future__ import annotations

import glob
import io
import os
import re
import stat
from collections.abc import Iterator
from fnmatch import translate
from pathlib import Path, PosixPath, PurePath
from typing import Any

from lowwater.limits import FIRST_READ_BYTES, READ_AHEAD_BYTES
from lowwater.storage import objects
from lowwater.storage.object_paths import ObjectPath, parse


class StoredCapture(ObjectPath, PosixPath):
    """A capture in an object store. Of the methods of `Path`, it has those by which captures are found and read."""

    __slots__ = ()

    def __fspath__(self) -> str:
        return str(self)

    def absolute(self) -> StoredCapture:
        return self

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Returns size and time of the last write. Raises OSError if there is no such object, or the store fails."""
        meta = _head(self)
        written = objects.written(meta)
        fields = stat.S_IFREG | 0o444, 0, 0, 1, 0, 0, meta["size"], 0, written // 10**9, 0
        return os.stat_result(fields, {"st_mtime": written / 10**9, "st_mtime_ns": written})

    def is_dir(self) -> bool:
        """Whether the name is a prefix of other objects."""
        return bool(objects.below(self, first=True))

    def open(self, mode: str = "r", buffering: int = -1, *_: Any, **__: Any) -> Any:
        """Opens the object for reading bytes, as `Path.open` does; further arguments of that concern text.
        Raises OSError if there is no such object, or the store fails."""
        if mode != "rb":
            raise io.UnsupportedOperation("a capture in an object store is only read")
        file = ObjectFile(self)
        return io.BufferedReader(file) if buffering else file


def _head(path: ObjectPath) -> dict[str, Any]:
    """Returns size, e_tag and last_modified of an object. Raises OSError if there is none, or the store fails."""
    if (meta := objects.head(path)) is None:
        raise FileNotFoundError(2, "there is no such object", str(path))
    return meta


class ObjectFile(io.RawIOBase):
    """An object as a file for reading; each read is a request for a range, or comes from the last one. Requests grow
    while the file is read on, up to READ_AHEAD_BYTES, and begin small again after a seek."""

    def __init__(self, path: ObjectPath) -> None:
        super().__init__()
        meta = _head(path)
        self.name = str(path)
        self.size = int(meta["size"])
        self._path, self._version = path, meta["e_tag"] or ""
        self._at, self._start, self._ahead = 0, 0, FIRST_READ_BYTES
        self._block = memoryview(b"")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence]
        self._at = max(base + offset, 0)
        return self._at

    def readinto(self, target: Any) -> int:
        view = memoryview(target).cast("B")
        if not self._start <= self._at < self._start + len(self._block):
            self._load(len(view))
        at = self._at - self._start
        part = self._block[at : at + len(view)]
        view[: len(part)] = part
        self._at += len(part)
        return len(part)

    def _load(self, wanted: int) -> None:
        follows = self._at == self._start + len(self._block)
        self._ahead = min(2 * self._ahead, READ_AHEAD_BYTES) if follows and self._at else FIRST_READ_BYTES
        self._start, self._block = self._at, memoryview(b"")  # the old block goes before the new one comes
        size = min(max(min(wanted, READ_AHEAD_BYTES), self._ahead), self.size - self._at)
        if size > 0:
            self._block = memoryview(objects.read_range(self._path, self._at, size, self._version))


def capture_path(text: str | os.PathLike[str]) -> Path:
    """Returns the path of a capture: a file of this machine, or an object.
    Raises ValueError if it is an address that no capture can have."""
    path = parse(text if isinstance(text, PurePath) else os.fspath(text))
    return StoredCapture(*path.parts) if isinstance(path, ObjectPath) else Path(path)


def arrow_source(path: Path) -> Any:
    """Returns what Arrow opens a capture by: its path, or an open object.
    Raises OSError if there is no such object, or the store fails."""
    return path.open("rb", buffering=0) if isinstance(path, StoredCapture) else path


def is_address(text: str) -> bool:
    """Whether a path or pattern of captures is an address in an object store."""
    return re.match(r"[a-z][a-z0-9+]*://", text, re.IGNORECASE) is not None


def captures_like(pattern: str) -> Iterator[Path]:
    """Yields the captures whose paths match a pattern of local files, or an address with wildcards, in any order; `*`,
    `?` and `[...]` match within a folder.
    Raises OSError if the store cannot be listed, and ValueError if it is an address that no capture can have."""
    if not is_address(pattern):
        yield from (Path(name) for name in glob.glob(pattern))
        return
    folder, wanted = _reached(pattern)
    for path in objects.walk(folder):
        names = path.parts[len(folder.parts) :]
        if len(names) == len(wanted) and all(one.match(name) for one, name in zip(wanted, names, strict=True)):
            yield StoredCapture(*path.parts)


def _reached(pattern: str) -> tuple[ObjectPath, list[re.Pattern[str]]]:
    """Returns the fixed prefix of a pattern of objects, and what matches each part behind it."""
    scheme, _, rest = pattern.partition("://")
    parts = rest.split("/")
    fixed = next((at for at, part in enumerate(parts[:-1]) if glob.has_magic(part)), len(parts) - 1)
    folder = parse(f"{scheme}://{'/'.join(parts[:fixed])}")
    assert isinstance(folder, ObjectPath)
    return folder, [re.compile(translate(part)) for part in parts[fixed:]]


def objects_beside(pattern: str) -> Iterator[tuple[str, int, int]]:
    """Yields address, size (bytes) and last write (ns) of the objects in the folders that a pattern reaches.
    Raises OSError if the store cannot be listed, and ValueError if it is an address that no capture can have."""
    folder, wanted = _reached(pattern)
    for path, entry in objects.entries(folder):
        names = path.parts[len(folder.parts) : -1]
        if len(names) < len(wanted) and all(one.match(name) for one, name in zip(wanted, names, strict=False)):
            yield str(path), int(entry["size"]), objects.written(entry)
