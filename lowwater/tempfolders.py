"""Temporary folders that outlive no one: those of killed processes are removed by the next one that needs a folder.

Beside the pipeline, like `errors`; used by sessions and by `run`. A folder is owned as long as its lock is held, and
the kernel frees the lock when the process dies, however it dies.
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO

_LOCK = "owner.lock"
_held: dict[Path, IO[str]] = {}


def make_folder(prefix: str) -> Path:
    """Makes a folder of this process's own; it is removed at exit, or by `remove_folder`.

    Args:
        prefix: the prefix of its name; folders of the same prefix whose owner is dead are removed first.
    """
    base = Path(tempfile.gettempdir())
    for old in base.glob(f"{prefix}*"):
        _remove_orphan(old)
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    lock = (folder / _LOCK).open("w", encoding="utf-8")
    fcntl.flock(lock, fcntl.LOCK_EX)
    _held[folder] = lock
    atexit.register(remove_folder, folder)
    return folder


def remove_folder(folder: Path) -> None:
    """Removes a folder that `make_folder` gave; does nothing the second time."""
    lock = _held.pop(folder, None)
    if lock is not None:
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()


def _remove_orphan(folder: Path) -> None:
    # Without a lock file it is only being made, or is not ours; with a held lock its owner lives.
    with suppress(OSError), open(folder / _LOCK, "rb", opener=_opened) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)


def _opened(path: str, flags: int) -> int:
    """Opens a lock that is this user's own regular file; everybody may put other things into the temporary folder.

    Raises:
        OSError: it is something else, or its folder is of somebody else.
    """
    # A FIFO would wait for its writer, and a link may lead anywhere.
    file = os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)
    found = os.fstat(file)
    folder = os.lstat(os.path.dirname(path))
    if stat.S_ISREG(found.st_mode) and stat.S_ISDIR(folder.st_mode) and found.st_uid == folder.st_uid == os.geteuid():
        return file
    os.close(file)
    raise PermissionError(errno.EPERM, "is no lock of this user", path)
