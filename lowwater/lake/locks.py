"""Locks that die with their process, and the attempts that dead processes left behind.

Taken by ingest (per capture and per link), by publish and by runs. A run holds the range of time of its interval, so
that two runs of a query set exclude each other where their intervals overlap, of whatever length these are.
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

GLANCE = 30.0
"""Seconds to wait for the ranges of a query set: whoever has them looks at some files and lets go."""


@contextmanager
def hold(lake: Lake, name: str, wait: float = 0.0) -> Iterator[None]:
    """Holds a named lock of the lake; the kernel frees it when the process dies, however it dies.

    Args:
        lake: whose lock.
        name: what is locked, as the message says it.
        wait: seconds to wait for the holder.

    Raises:
        BusyError: if another holds it still, naming the holder's process.
    """
    handle = _opened(lake.locks / f"{safe_name(name)}.lock")
    try:
        deadline = time.monotonic() + wait
        while not _taken(handle):
            if time.monotonic() >= deadline:
                raise BusyError(f"{name}: process {_holder(handle)} is at work on it", HINT)
            time.sleep(0.02)
        yield
    finally:
        os.close(handle)  # the file stays: to remove it would let a third process lock a new one beside a waiter


@contextmanager
def hold_range(lake: Lake, query_set: str, start: int, end: int) -> Iterator[None]:
    """Holds [start, end), ns, of a query set; the kernel frees it when the process dies, however it dies.

    Args:
        lake: the open lake.
        query_set: name of the query set.
        start: first instant of the range, ns since the epoch.
        end: end of the range, ns since the epoch, exclusive.

    Raises:
        BusyError: another holds a range that overlaps it, naming the holder's process and range.
    """
    with _ranges(lake, query_set) as folder:
        handle = _claimed(folder, query_set, start, end)
    try:
        yield
    finally:
        os.close(handle)  # the next to look finds its file free, and removes it


def held_ranges(lake: Lake, query_set: str) -> dict[tuple[int, int], str]:
    """The ranges [start, end), ns, of a query set that are held now, each with the process that holds it.

    Raises:
        LakeError: the locks cannot be read.
    """
    if not _folder(lake, query_set).is_dir():
        return {}  # it never ran
    with _ranges(lake, query_set) as folder:
        return _held(folder)


def _folder(lake: Lake, query_set: str) -> Path:
    """Where the ranges of a query set are: a file a range, named by its bounds."""
    return lake.locks / safe_name(f"runs of {query_set}")


@contextmanager
def _ranges(lake: Lake, query_set: str) -> Iterator[Path]:
    """The folder of a query set's ranges, of which none is taken nor removed by others meanwhile."""
    folder = _folder(lake, query_set)
    with hold(lake, f"runs of {query_set}", GLANCE):
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise LakeError(f"{folder}: cannot be made: {error.strerror}", WRITABLE) from error
        yield folder


def _claimed(folder: Path, query_set: str, start: int, end: int) -> int:
    """The handle under which a range is held; nothing of the folder changes meanwhile."""
    # Made before the others are read: NFS reads a folder anew when one has made a file in it.
    handle = _opened(folder / f"{start}_{end}.lock")
    try:
        mine = _taken(handle)
        held = _held(folder)
        if mine:
            del held[start, end]
        for (first, last), process in sorted(held.items()):
            if first < end and start < last:
                told = f"{query_set} {_span(start, end)}: process {process} is at work on {_span(first, last)}"
                raise BusyError(told, HINT)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _held(folder: Path) -> dict[tuple[int, int], str]:
    """The ranges that are held, with their processes; removes the files of those whose processes have ended."""
    found = {}
    for path in folder.glob("*_*.lock"):
        first, _, last = path.stem.partition("_")
        handle = _opened(path)
        try:
            if _free(handle):
                path.unlink(missing_ok=True)
            else:
                found[int(first), int(last)] = _holder(handle)
        finally:
            os.close(handle)
    return found


def _span(start: int, end: int) -> str:
    return f"{format_instant(start)} to {format_instant(end)}"


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise LakeError(f"{path}: cannot be locked: {error.strerror}", WRITABLE) from error


def _free(handle: int) -> bool:
    """Whether nobody else held the lock of an open file; the lock is taken then."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _taken(handle: int) -> bool:
    """Takes the lock of an open file where it is free, and writes into it who has it."""
    if not _free(handle):
        return False
    os.ftruncate(handle, 0)
    os.pwrite(handle, str(os.getpid()).encode(), 0)
    return True


def _holder(handle: int) -> str:
    return os.pread(handle, 32, 0).decode() or "unknown"


@contextmanager
def attempt(lake: Lake, name: str, wait: float = 0.0) -> Iterator[Path]:
    """Holds the lock `name` and gives a new folder for staging and checkpoints, removed at the end.

    Folders that earlier attempts of the same name left when they were killed are removed first: whoever holds the
    lock knows that they are dead.

    Raises:
        BusyError: if another process works on it.
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
    """Holds the range [start, end), ns, of a query set, and gives a folder for a run of that interval.

    Arguments as of `hold_range`.

    Raises:
        BusyError: another process works on an interval that overlaps it.
    """
    with hold_range(lake, query_set, start, end), attempt(lake, f"{query_set} {_span(start, end)}") as folder:
        yield folder
