"""Locks that die with their process, and removal of what dead processes left.

Taken by ingest (per capture and per link), by publish and by runs. A run locks the time range of its interval, so two
runs of a query set exclude each other if their intervals overlap, whatever their lengths.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePath

from lowwater.errors import BusyError, LakeError
from lowwater.instants import format_instant
from lowwater.lake.layout import Lake
from lowwater.lake.tables import safe_name
from lowwater.storage import file_locks
from lowwater.storage.file_locks import HeldError

HINT = "wait until it has finished, or end that process; its lock goes with it"
WRITABLE = "check that the lake is writable"

RANGES_WAIT = 30.0
"""Seconds to wait for the lock of a query set's ranges; its holders only look at some files."""


@contextmanager
def hold(lake: Lake, name: str, wait: float = 0.0) -> Iterator[None]:
    """Holds a named lock of the lake, which is free again once the process is dead.

    Args:
        lake: the lake.
        name: name of the locked thing, as in the message.
        wait: seconds to wait for the holder.

    Raises:
        BusyError: if another process still holds it; names that process.
    """
    path = lake.locks / f"{safe_name(name)}.lock"
    with ExitStack() as locks:
        with _lock_errors(path, name):
            locks.enter_context(file_locks.hold_file(Path(path), wait))
        yield


@contextmanager
def hold_range(lake: Lake, query_set: str, start: int, end: int) -> Iterator[None]:
    """Locks the range [start, end), ns, of a query set; it is free again once the process is dead.

    Args:
        lake: the open lake.
        query_set: name of the query set.
        start: first instant of the range, ns since the epoch.
        end: end of the range, ns since the epoch, exclusive.

    Raises:
        BusyError: if another process holds an overlapping range; names process and range.
    """
    with _ranges(lake, query_set) as folder, _lock_errors(folder, f"{query_set} {_span(start, end)}"):
        handle = file_locks.claim_range(folder, start, end)
    try:
        yield
    finally:
        file_locks.release(handle)


def held_ranges(lake: Lake, query_set: str) -> dict[tuple[int, int], str]:
    """Returns the locked ranges [start, end), ns, of a query set, with the process that holds each.

    Raises:
        LakeError: if the locks cannot be read.
    """
    if not Path(_folder(lake, query_set)).is_dir():
        return {}  # it never ran
    with _ranges(lake, query_set) as folder:
        return file_locks.held_ranges(folder)


def _folder(lake: Lake, query_set: str) -> PurePath:
    """Folder with the ranges of a query set: a file for each, named by its bounds."""
    return lake.locks / safe_name(f"runs of {query_set}")


@contextmanager
def _ranges(lake: Lake, query_set: str) -> Iterator[Path]:
    """Yields the folder of a query set's ranges; meanwhile no other process adds or removes one."""
    folder = Path(_folder(lake, query_set))
    with hold(lake, f"runs of {query_set}", RANGES_WAIT):
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise LakeError(f"{folder}: cannot be made: {error.strerror}", WRITABLE) from error
        yield folder


@contextmanager
def _lock_errors(path: PurePath, name: str) -> Iterator[None]:
    """Words the errors of a lock for the thing that it protects."""
    try:
        yield
    except HeldError as error:
        held = "it" if error.range == (0, 0) else _span(*error.range)
        raise BusyError(f"{name}: process {error.holder} is at work on {held}", HINT) from error
    except OSError as error:
        raise LakeError(f"{path}: cannot be locked: {error.strerror}", WRITABLE) from error


def _span(start: int, end: int) -> str:
    return f"{format_instant(start)} to {format_instant(end)}"


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
        home = Path(lake.work / safe_name(name))
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
