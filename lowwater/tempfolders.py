"""Temporary folders: folders of killed processes are removed when the next process needs one.

Beside the pipeline, like `errors`; used by sessions and by `run`. A process owns a folder while it holds its lock; the
kernel frees the lock when the process dies.
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

MAKING = 3600.0
"""Seconds after which a folder without a lock is not just being made."""
_LOCK = "owner.lock"
_locks: dict[Path, IO[str]] = {}
_held: set[Path] = set()


def make_folder(prefix: str) -> Path:
    """Makes a temporary folder of this process, removed at exit or by `remove_folder`.

    Args:
        prefix: prefix of its name; folders with this prefix whose owner is dead are removed first.
    """
    base = Path(tempfile.gettempdir())
    for old in base.glob(f"{prefix}*"):
        _remove_orphan(old)
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    lock = (folder / _LOCK).open("w", encoding="utf-8")
    fcntl.flock(lock, fcntl.LOCK_EX)
    _locks[folder] = lock
    atexit.register(remove_folder, folder)
    return folder


def remove_folder(folder: Path) -> None:
    """Removes a folder of `make_folder`; does nothing the second time."""
    lock = _locks.get(folder)
    if lock is not None:
        shutil.rmtree(folder, ignore_errors=True)
        del _locks[folder]  # last: what a signal interrupts here, `remove_all` ends
        lock.close()


@contextmanager
def removed_at_end(folder: Path) -> Iterator[None]:
    """Removes a folder that the block fills; `remove_all` does too, where the process leaves in the middle of it."""
    _held.add(folder)
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _held.discard(folder)


def remove_all() -> None:
    """Removes every temporary folder of this process, for one that ends without waiting for its threads."""
    for folder in [*_locks, *_held]:
        away = folder.with_name(f"{folder.name}-{os.getpid()}")
        with suppress(OSError):
            folder.rename(away)  # threads that still write find no way there
        shutil.rmtree(away, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)


def _remove_orphan(folder: Path) -> None:
    # If its lock is held, its owner lives.
    try:
        status = os.lstat(folder)
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not os.path.lexists(folder / _LOCK):
            # Its owner died before it had the lock, or while it removed the folder; or makes it just now.
            if time.time() - max(status.st_mtime, status.st_ctime) > MAKING:
                shutil.rmtree(folder, ignore_errors=True)
            return
    except OSError:
        return
    with suppress(OSError), open(folder / _LOCK, "rb", opener=_open_lock) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)


def _open_lock(path: str, flags: int) -> int:
    """Opens a lock file if it is a regular file of this user; anybody may create files in the temporary folder.

    Raises:
        OSError: if it is something else, or its folder belongs to another user.
    """
    # Opening a FIFO would wait for its writer, and a link may lead anywhere.
    file = os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)
    status = os.fstat(file)
    folder = os.lstat(os.path.dirname(path))
    if stat.S_ISREG(status.st_mode) and stat.S_ISDIR(folder.st_mode) and status.st_uid == folder.st_uid == os.geteuid():
        return file
    os.close(file)
    raise PermissionError(errno.EPERM, "is no lock of this user", path)
