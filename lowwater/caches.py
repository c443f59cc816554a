"""Folders on this machine: caches for later processes, and temporary ones, which go when their process is gone."""

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
from functools import lru_cache
from pathlib import Path, PurePath
from typing import IO

from lowwater.errors import ConfigError

# Cache of generated code: compiled kernels and parser tables

CODE = (".py", ".pyc", ".nbi", ".nbc", ".tables", ".jar")
"""Ends of names of files that are run, or unpickled."""


def cache_folder() -> Path:
    """Returns the folder of generated code and tables: LOWWATER_CACHE, or `lowwater/kernels` in the user's cache, or of
    a user without a home, as containers have them, a folder beside those of temporary files.
    Raises ConfigError if it cannot be created, or if other users could write code into it."""
    folder = Path(os.environ.get("LOWWATER_CACHE") or _of_user())
    hint = "set LOWWATER_CACHE to a folder that only you can write to"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        refused = written_by_others(folder)
    except OSError as error:
        raise ConfigError(f"the kernel cache {folder} cannot be made: {error.strerror}", hint) from error
    if refused:
        raise ConfigError(f"the kernel cache {folder} can be written to by others, so its code is not run", hint)
    return folder


def _of_user() -> Path:
    home = os.environ.get("XDG_CACHE_HOME")
    with suppress(RuntimeError, OSError):
        folder = Path(home or Path.home() / ".cache") / "lowwater" / "kernels"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.access(folder, os.W_OK, effective_ids=True):
            return folder
    return Path(tempfile.gettempdir(), f"lowwater-kernels-{os.geteuid()}")


def written_by_others(folder: Path, group: bool = False) -> bool:
    """Whether another user than root can write into a folder of code, or has written a file that is in it. Raises
    OSError if it cannot be looked at. `group`: whether the group of the folder may write into it, as where Python
    itself runs what it finds."""
    state = folder.stat()
    others = stat.S_IWOTH | (0 if group else stat.S_IWGRP)
    return _is_of_others(state, others) or _has_of_others(str(folder), state.st_mtime_ns)


def _is_of_others(state: os.stat_result, others: int) -> bool:
    return state.st_uid not in (0, os.geteuid()) or bool(state.st_mode & others)


# A folder that was open to others and is no longer may have what they left in it.
@lru_cache(maxsize=16)
def _has_of_others(folder: str, changed: int) -> bool:
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                if entry.name.endswith(CODE) and _is_of_others(entry.stat(), stat.S_IWOTH):
                    return True
    return False


# Temporary folders. A process owns its folder while it holds the lock of it, which the kernel frees when the process
# dies. The next process that needs a folder removes those without an owner.

MAKING = 3600.0
"""Seconds after which a folder without a lock is not just being made."""
_LOCK = "owner.lock"
_locks: dict[Path, IO[str]] = {}
_held: set[Path] = set()


def make_folder(prefix: str) -> Path:
    """Makes a temporary folder of this process, removed at exit or by `remove_folder`. `prefix`: prefix of its name;
    folders with this prefix whose owner is dead are removed first."""
    base = Path(tempfile.gettempdir())
    for old in base.glob(f"{prefix}*"):
        _remove_orphan(old)
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    lock = (folder / _LOCK).open("w", encoding="utf-8")
    fcntl.flock(lock, fcntl.LOCK_EX)
    _locks[folder] = lock
    atexit.register(remove_folder, folder)
    return folder


def holds(path: PurePath) -> bool:
    """Whether a path is in a temporary folder of this process."""
    return any(folder in path.parents for folder in _locks)


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
    Raises OSError if it is something else, or its folder belongs to another user."""
    # Opening a FIFO would wait for its writer, and a link may lead anywhere.
    file = os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)
    status = os.fstat(file)
    folder = os.lstat(os.path.dirname(path))
    if stat.S_ISREG(status.st_mode) and stat.S_ISDIR(folder.st_mode) and status.st_uid == folder.st_uid == os.geteuid():
        return file
    os.close(file)
    raise PermissionError(errno.EPERM, "is no lock of this user", path)
