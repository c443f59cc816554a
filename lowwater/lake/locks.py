"""Locks that die with their process, and removal of what dead processes left.

Taken by ingest (per capture and per link), by publish and by runs. A run locks the time range of its interval, so two
runs of a query set exclude each other if their intervals overlap, whatever their lengths.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lowwater.errors import BusyError, LakeError
from lowwater.instants import format_instant
from lowwater.lake.layout import Lake
from lowwater.lake.tables import safe_name

HINT = "wait until it has finished, or end that process; its lock goes with it"
WRITABLE = "check that the lake is writable"

RANGES_WAIT = 30.0
"""Seconds to wait for the lock of a query set's ranges; its holders only look at some files."""


@contextmanager
def hold(lake: Lake, name: str, wait: float = 0.0) -> Iterator[None]:
    """Holds a named lock of the lake; the kernel frees it when the process dies.

    Args:
        lake: the lake.
        name: name of the locked thing, as in the message.
        wait: seconds to wait for the holder.

    Raises:
        BusyError: if another process still holds it; names that process.
    """
    handle = _open(lake.locks / f"{safe_name(name)}.lock")
    try:
        deadline = time.monotonic() + wait
        while not _acquire(handle):
            if time.monotonic() >= deadline:
                raise BusyError(f"{name}: process {_holder(handle)} is at work on it", HINT)
            time.sleep(0.02)
        yield
    finally:
        os.close(handle)  # the file stays: if it were removed, a third process could lock a new one beside a waiter


@contextmanager
def hold_range(lake: Lake, query_set: str, start: int, end: int) -> Iterator[None]:
    """Locks the range [start, end), ns, of a query set; the kernel frees it when the process dies.

    Args:
        lake: the open lake.
        query_set: name of the query set.
        start: first instant of the range, ns since the epoch.
        end: end of the range, ns since the epoch, exclusive.

    Raises:
        BusyError: if another process holds an overlapping range; names process and range.
    """
    with _ranges(lake, query_set) as folder:
        handle = _claim(folder, query_set, start, end)
    try:
        yield
    finally:
        os.close(handle)  # the next process that looks finds the file free, and removes it


def held_ranges(lake: Lake, query_set: str) -> dict[tuple[int, int], str]:
    """Returns the locked ranges [start, end), ns, of a query set, with the process that holds each.

    Raises:
        LakeError: if the locks cannot be read.
    """
    if not _folder(lake, query_set).is_dir():
        return {}  # it never ran
    with _ranges(lake, query_set) as folder:
        return _held_ranges(folder)


def _folder(lake: Lake, query_set: str) -> Path:
    """Folder with the ranges of a query set: a file for each, named by its bounds."""
    return lake.locks / safe_name(f"runs of {query_set}")


@contextmanager
def _ranges(lake: Lake, query_set: str) -> Iterator[Path]:
    """Yields the folder of a query set's ranges; meanwhile no other process adds or removes one."""
    folder = _folder(lake, query_set)
    with hold(lake, f"runs of {query_set}", RANGES_WAIT):
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise LakeError(f"{folder}: cannot be made: {error.strerror}", WRITABLE) from error
        yield folder


def _claim(folder: Path, query_set: str, start: int, end: int) -> int:
    """Locks a range and returns the handle of its file; the caller holds the lock of the folder."""
    # Its file is made before the others are read: NFS reads a folder again after a file was made in it.
    handle = _open(folder / f"{start}_{end}.lock")
    try:
        acquired = _acquire(handle)
        others = _held_ranges(folder)
        if acquired:
            del others[start, end]
        for (first, last), process in sorted(others.items()):
            if first < end and start < last:
                text = f"{query_set} {_span(start, end)}: process {process} is at work on {_span(first, last)}"
                raise BusyError(text, HINT)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _held_ranges(folder: Path) -> dict[tuple[int, int], str]:
    """Returns the locked ranges with their processes; removes the files of processes that have ended."""
    ranges = {}
    for path in folder.glob("*_*.lock"):
        first, _, last = path.stem.partition("_")
        handle = _open(path)
        try:
            if _free(handle):
                path.unlink(missing_ok=True)
            else:
                ranges[int(first), int(last)] = _holder(handle)
        finally:
            os.close(handle)
    return ranges


def _span(start: int, end: int) -> str:
    return f"{format_instant(start)} to {format_instant(end)}"


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise LakeError(f"{path}: cannot be locked: {error.strerror}", WRITABLE) from error


def _free(handle: int) -> bool:
    """Locks an open file if nobody else has it locked; returns whether it did."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _acquire(handle: int) -> bool:
    """Locks an open file if it is free, and writes the process number into it; returns whether it did."""
    if not _free(handle):
        return False
    os.ftruncate(handle, 0)
    os.pwrite(handle, str(os.getpid()).encode(), 0)
    return True


def _holder(handle: int) -> str:
    return os.pread(handle, 32, 0).decode() or "unknown"


@contextmanager
def attempt(lake: Lake, name: str, wait: float = 0.0) -> Iterator[Path]:
    """Holds the lock `name`, and yields a new folder for staging and checkpoints, removed at the end.

    Folders of earlier attempts of this name are removed first: they are dead, since the lock is free.

    Args:
        lake: the lake.
        name: name of the lock.
        wait: seconds to wait for the holder.

    Raises:
        BusyError: if another process holds the lock.
    """
    with hold(lake, name, wait):
        home = lake.work / safe_name(name)
        shutil.rmtree(home, ignore_errors=True)
        folder = home / uuid.uuid4().hex[:12]
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            raise LakeError(f"{folder}: cannot be made: {error.strerror}", WRITABLE) from error
        try:
            yield folder
        finally:
            shutil.rmtree(home, ignore_errors=True)


@contextmanager
def run_attempt(lake: Lake, query_set: str, start: int, end: int) -> Iterator[Path]:
    """Locks the range [start, end), ns, of a query set, and yields a folder for a run of that interval.

    Arguments as of `hold_range`.

    Raises:
        BusyError: if another process works on an overlapping interval.
    """
    with hold_range(lake, query_set, start, end), attempt(lake, f"{query_set} {_span(start, end)}") as folder:
        yield folder
