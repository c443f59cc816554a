"""Locks of a lake in a folder of this machine: the kernel frees them when their process dies.

Below `lake.locks`, which makes the messages of errors.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from lowwater.errors import LakeError
from lowwater.storage.containment import require_folder
from lowwater.storage.holders import Holder, here

PAUSE = 0.02
"""Seconds between two looks at a lock that another process holds."""

_BOUNDS = re.compile(r"(-?[0-9]{1,20})_(-?[0-9]{1,20})")
"""Name of the file of a range."""

Range = tuple[int, int]


class HeldError(Exception):
    """Somebody else holds a lock.

    Args:
        holder: its process.
        first: begin of the range that is held, ns; 0 for a lock without a range.
        end: end of that range, ns, exclusive.
    """

    def __init__(self, holder: Holder, first: int = 0, end: int = 0) -> None:
        super().__init__(holder, first, end)
        self.holder = holder
        self.range = first, end


@contextmanager
def hold_file(path: Path, wait: float = 0.0) -> Iterator[None]:
    """Holds the lock of a file, which is made if it is not there.

    Args:
        path: the file.
        wait: seconds to wait for the holder.

    Raises:
        HeldError: if another process still holds it.
        OSError: if the file cannot be made.
    """
    handle = _open(path)
    try:
        deadline = time.monotonic() + wait
        while not _acquire(handle):
            if time.monotonic() >= deadline:
                raise HeldError(_holder(handle))
            time.sleep(PAUSE)
        yield
    finally:
        os.close(handle)  # the file stays: if it were removed, a third process could lock a new one beside a waiter


def claim_range(folder: Path, first: int, end: int) -> int:
    """Locks a range and returns the handle of its file. The caller holds the lock of the folder.

    Args:
        folder: folder with a file for each range, named by its bounds.
        first: begin of the range, ns since the epoch.
        end: end of the range, ns since the epoch, exclusive.

    Raises:
        HeldError: if another process holds a range that overlaps.
        OSError: if the file cannot be made.
    """
    while True:
        # Its file is made before the others are read: NFS reads a folder again after a file was made in it.
        handle = _open(folder / f"{first}_{end}.lock")
        try:
            acquired = _acquire(handle)
            others = held_ranges(folder)
            if acquired:
                del others[first, end]
            for (other_first, other_end), process in sorted(others.items()):
                if other_first < end and first < other_end:
                    raise HeldError(process, other_first, other_end)
        except BaseException:
            os.close(handle)
            raise
        if acquired:
            return handle
        os.close(handle)  # who held this range freed it between the two looks: the handle locks nothing


def release(handle: int) -> None:
    """Frees a range; the next process that looks finds its file free, and removes it."""
    os.close(handle)


def held_ranges(folder: Path) -> dict[Range, Holder]:
    """Returns the locked ranges with their processes; removes the files of processes that have ended."""
    ranges = {}
    for path in folder.glob("*_*.lock"):
        bounds = _BOUNDS.fullmatch(path.stem)
        if bounds is None:
            continue
        handle = _open(path)
        try:
            if _free(handle):
                path.unlink(missing_ok=True)
            else:
                ranges[int(bounds[1]), int(bounds[2])] = _holder(handle)
        finally:
            os.close(handle)
    return ranges


def seen_ranges(folder: Path, wait: float) -> dict[Range, Holder]:
    """Returns the locked ranges with their processes, for one who may only read: nothing is made, written or removed.

    Args:
        folder: folder with a file for each range.
        wait: seconds to wait for a process that changes the ranges.

    Raises:
        HeldError: somebody changes them for longer.
        OSError: they cannot be read.
    """
    with ExitStack() as stack:
        try:
            # Whoever claims a range has this file alone, and so does not meet the locks of this look.
            handle = stack.enter_context(_reading(lock_of(folder)))
        except FileNotFoundError:
            return {}  # nothing ever ran
        deadline = time.monotonic() + wait
        while not _free(handle, fcntl.LOCK_SH):
            if time.monotonic() >= deadline:
                raise HeldError(_holder(handle))
            time.sleep(PAUSE)
        ranges = {}
        for path in folder.glob("*_*.lock"):
            if bounds := _BOUNDS.fullmatch(path.stem):
                with suppress(FileNotFoundError), _reading(path) as claimed:
                    if not _free(claimed, fcntl.LOCK_SH):
                        ranges[int(bounds[1]), int(bounds[2])] = _holder(claimed)
        return ranges


def lock_of(folder: Path) -> Path:
    """The lock of a folder of ranges."""
    return folder.with_name(f"{folder.name}.lock")


@contextmanager
def _reading(path: Path) -> Iterator[int]:
    require_folder(path.parent)
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        yield handle
    finally:
        os.close(handle)


def _open(path: Path) -> int:
    """Opens the file of a lock, or makes it. The number of the process is written into it, so it is never a link.

    Raises:
        LakeError: it is a link or no plain file, or a folder above it is a link that leads out of the lake.
        OSError: it cannot be made.
    """
    require_folder(path.parent)
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise _no_lock(path) from None
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise _no_lock(path)
    return handle


def _no_lock(path: Path) -> LakeError:
    return LakeError(f"{path}: is no plain file, so it cannot be a lock", "remove it; the next command makes it")


def _free(handle: int, kind: int = fcntl.LOCK_EX) -> bool:
    """Locks an open file if nobody else has it locked; returns whether it did."""
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _acquire(handle: int) -> bool:
    """Locks an open file if it is free, and writes the process into it; returns whether it did."""
    if not _free(handle):
        return False
    os.ftruncate(handle, 0)
    os.pwrite(handle, here().text().encode(), 0)
    return True


def _holder(handle: int) -> Holder:
    return Holder.of(os.pread(handle, 512, 0).decode(errors="replace"))
