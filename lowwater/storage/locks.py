"""Locks of a lake, wherever it is: of the kernel in a folder, leases in an object store.

Between `lake.locks` and the two kinds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath

from lowwater.storage import file_locks, leases, snapshots
from lowwater.storage.file_locks import HeldError, Range
from lowwater.storage.holders import Holder
from lowwater.storage.leases import Fence
from lowwater.storage.object_paths import ObjectPath

RANGES_WAIT = 30.0
"""Seconds to wait for the lock of a folder of ranges; its holders only look at some files."""

__all__ = ["Fence", "HeldError", "Range", "held_ranges", "hold_lock", "hold_range"]


@contextmanager
def hold_lock(path: PurePath, wait: float = 0.0, sees: Sequence[PurePath] = ()) -> Iterator[Fence | None]:
    """Holds a lock.

    Args:
        path: file or object of the lock.
        wait: seconds to wait for the holder.
        sees: tables of a store that are looked at again, since the holder before may have written them; all if empty.

    Yields:
        The fence of the lease; None where the kernel has the lock, which nobody can take from a living process.

    Raises:
        HeldError: if another process still holds it.
        OSError: if the lock cannot be made.
    """
    if isinstance(path, ObjectPath):
        with leases.hold(path, *leases.ALL, wait) as fence:
            snapshots.look_again(*sees)
            yield fence
    else:
        with file_locks.hold_file(Path(path), wait):
            yield None


@contextmanager
def hold_range(path: PurePath, first: int, end: int, sees: Sequence[PurePath] = ()) -> Iterator[Fence | None]:
    """Holds the range [first, end), ns, of a thing, as `hold_lock` does.

    Args:
        path: folder or object with the ranges.
        first: begin of the range, ns since the epoch.
        end: end of the range, ns since the epoch, exclusive.
        sees: as of `hold_lock`.
    """
    if isinstance(path, ObjectPath):
        with leases.hold(path, first, end) as fence:
            snapshots.look_again(*sees)
            yield fence
        return
    with _folder_of_ranges(path) as folder:
        handle = file_locks.claim_range(folder, first, end)
    try:
        yield None
    finally:
        file_locks.release(handle)


def held_ranges(path: PurePath) -> dict[Range, Holder]:
    """Returns the held ranges with the processes that hold them; in an object store some of these may be dead.

    Raises:
        HeldError: if the ranges of a folder are locked for too long.
        OSError: if they cannot be read.
    """
    if isinstance(path, ObjectPath):
        return leases.ranges(path)
    return file_locks.seen_ranges(Path(path), RANGES_WAIT)


@contextmanager
def _folder_of_ranges(path: PurePath) -> Iterator[Path]:
    """Yields the folder with a file for each range; meanwhile no other process adds or removes one."""
    folder = Path(path)
    with file_locks.hold_file(file_locks.lock_of(folder), RANGES_WAIT):
        folder.mkdir(exist_ok=True)
        yield folder
