"""Copies of a lake's objects on the disk of this machine, for this process.

Between `paths` and `objects`. A file of a lake never changes under its name, so a copy is never stale. A whole file is
one request, and its readers then have Arrow's own files with pages in any order.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections import OrderedDict
from functools import cache
from pathlib import Path

from lowwater.storage import objects
from lowwater.storage.object_paths import ObjectPath
from lowwater.tempfolders import make_folder

MOST_BYTES = 16 << 30
"""Bytes of copies, above which those are removed that nobody asked for lately."""

LATELY = 600.0
"""Seconds for which a copy stays after somebody asked for it, so that its reader has opened it."""


class FileCache:
    """Copies of objects in a folder.

    Args:
        folder: the folder.
        most: bytes above which old copies are removed.
    """

    def __init__(self, folder: Path, most: int = MOST_BYTES) -> None:
        self._folder, self._most = folder, most
        self._lock = threading.Lock()
        self._used: OrderedDict[Path, tuple[float, int]] = OrderedDict()
        self._busy: dict[Path, threading.Lock] = {}

    def place_of(self, path: ObjectPath) -> Path:
        """Returns where the copy of an object lies, or is to lie."""
        return self._folder.joinpath(*(part.replace(":", "") for part in path.parts))

    def fetch(self, path: ObjectPath) -> Path:
        """Returns the copy of an object, which is read unless it is there.

        Raises:
            OSError: if it cannot be read.
        """
        target = self.place_of(path)
        with self._lock:
            busy = self._busy.setdefault(target, threading.Lock())
        with busy:
            if target not in self._used or not target.exists():  # a draft that was not placed may be a part
                target.parent.mkdir(parents=True, exist_ok=True)
                part = target.with_name(f"{target.name}.part")
                try:
                    objects.download(path, part)
                    os.replace(part, target)
                finally:
                    part.unlink(missing_ok=True)
            self._note(target)
        return target

    def has(self, path: ObjectPath) -> bool:
        """Whether there is a whole copy of an object, so that the object is in the store."""
        target = self.place_of(path)
        with self._lock:
            return target in self._used and target.exists()

    def keep(self, path: ObjectPath, source: Path) -> None:
        """Moves a file that was uploaded to the place of its copy."""
        target = self.place_of(path)
        if source != target:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(source, target)
        self._note(target)

    def follow(self, source: ObjectPath, target: ObjectPath) -> None:
        """Moves the copy of an object, if there is one, to the place of an equal object."""
        if self.place_of(source).exists():
            self.keep(target, self.place_of(source))

    def drop(self, path: ObjectPath) -> None:
        """Removes the copy of an object, if there is one."""
        self.place_of(path).unlink(missing_ok=True)

    def _note(self, target: Path) -> None:
        now = time.monotonic()
        with self._lock:
            self._busy.pop(target, None)
            self._used[target] = now, target.stat().st_size
            self._used.move_to_end(target)
            total = sum(size for _, size in self._used.values())
            while total > self._most and next(iter(self._used.values()))[0] < now - LATELY:
                old, (_, size) = self._used.popitem(last=False)
                old.unlink(missing_ok=True)
                total -= size


def file_cache() -> FileCache:
    """The copies of this process; their folder goes with it."""
    return _of_process(os.getpid())  # a process that forked has copies of its own


@cache
def _of_process(process: int) -> FileCache:
    return FileCache(make_folder("lowwater-files-"))
