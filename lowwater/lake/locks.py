"""Locks that die with their process, and the attempts that dead processes left behind.

Taken by ingest (per capture and per link), by runs (one per query set and interval) and by publish.
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
    path = lake.locks / f"{safe_name(name)}.lock"
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise LakeError(f"{path}: cannot be locked: {error.strerror}", "check that the lake is writable") from error
    try:
        _take(handle, name, time.monotonic() + wait)
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)  # the file stays: to remove it would let a third process lock a new one beside a waiter


def _take(handle: int, name: str, deadline: float) -> None:
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < deadline:
                time.sleep(0.02)
                continue
        holder = os.pread(handle, 32, 0).decode() or "unknown"
        raise BusyError(
            f"{name}: process {holder} is at work on it",
            "wait until it has finished, or end that process; its lock goes with it",
        )


def run_lock(query_set: str, start: int) -> str:
    """The name of the lock of a run: of a query set, over the interval that begins at `start`, ns."""
    return f"{query_set} {format_instant(start)}"


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
            raise LakeError(f"{folder}: cannot be made: {error.strerror}", "check that the lake is writable") from error
        try:
            yield folder
        finally:
            shutil.rmtree(home, ignore_errors=True)
