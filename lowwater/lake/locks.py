"""Locks that die with their process, and removal of what dead processes left.

Taken by ingest (per capture and per link), by publish and by runs. A run locks the time range of its interval, so two
runs of a query set exclude each other if their intervals overlap, whatever their lengths.
"""

from __future__ import annotations

import re
import shutil
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path, PurePath

from lowwater import caches, errors, instants
from lowwater.lake.layout import Lake
from lowwater.lake.tables import safe_name
from lowwater.storage import locks, paths
from lowwater.storage.failures import hint_in_lake
from lowwater.storage.object_paths import ObjectPath

Held = AbstractContextManager[locks.Fence | None]
"""Holds a lock; gives the fence of commits under it: None in a folder, where nobody takes it from a living process."""


def hold(lake: Lake, name: str, wait: float = 0.0, sees: Sequence[PurePath] = (), roomless: bool = False) -> Held:
    """Holds a named lock of the lake, which is free again once the process is dead; waits so many seconds for another
    holder. `sees`: tables that are looked at again in a store, where its holders change only these; all if empty.
    `roomless`: whether it is held on a disk without room, too.
    Raises BusyError if another process still holds it; names that process."""
    path = lake.locks / f"{_component(name)}.lock"
    return _held(path, name, locks.hold_lock(path, wait, sees, roomless))


def hold_staging(lake: Lake, folder: PurePath) -> Held:
    """Holds the lock of whoever made a folder of staging. Raises BusyError if it is at work."""
    if run := _RUN.fullmatch(folder.name):
        path = lake.locks / f"runs_of_{run[1]}"
        return _held(path, folder.name, locks.hold_range(path, int(run[2]), int(run[3])))
    path = lake.locks / f"{folder.name}.lock"
    return _held(path, folder.name, locks.hold_lock(path))


_RUN = re.compile(r"run_of_(.+)@(-?\d+)-(-?\d+)")
"""The folder of a lake for a run, and for what its tasks hand over: its lock is the range of the run."""


def folder_of_run(lake: Lake, query_set: str, start: int, end: int) -> PurePath:
    """Returns the folder of a run of [start, end), ns, and of what its tasks hand over, for whoever holds the range."""
    return lake.work / f"run_of_{safe_name(query_set)}@{start}-{end}"


@contextmanager
def _held(path: PurePath, name: str, lock: Held) -> Iterator[locks.Fence | None]:
    """Holds a lock, whose errors have words for what it protects."""
    with ExitStack() as stack:
        with _lock_errors(path, name):
            fence = stack.enter_context(lock)
        yield fence


def _component(name: str) -> str:
    """Makes a path component of what a lock is called, such as `ingest of main1`: two of them never have one."""
    kind, of, thing = name.partition(" of ")
    return f"{kind.replace(' ', '_')}_of_{safe_name(thing)}" if of else safe_name(name)


def hold_range(lake: Lake, query_set: str, start: int, end: int, sees: Sequence[PurePath] = ()) -> Held:
    """Locks the range [start, end), ns, of a query set, as `hold`.
    Raises BusyError if another process holds an overlapping range; names process and range."""
    path = _ranges(lake, query_set)
    return _held(path, f"{query_set} {_span(start, end)}", locks.hold_range(path, start, end, sees))


def held_ranges(lake: Lake, query_set: str) -> dict[tuple[int, int], str]:
    """Returns the locked ranges [start, end), ns, of a query set, with the process that holds each.
    Raises LakeError if the locks cannot be read."""
    path = _ranges(lake, query_set)
    with _lock_errors(path, path.name):
        return {span: str(holder) for span, holder in locks.held_ranges(path).items()}


def at_work(lake: Lake, query_set: str) -> dict[tuple[int, int], str]:
    """Returns `held_ranges` for those who only show them, in words: none where the locks cannot be read. In an object
    store the claims of the dead stay, so they count as long as some claim of the set was renewed lately."""
    try:
        held = held_ranges(lake, query_set)
        path = _ranges(lake, query_set)
        if held and isinstance(path, ObjectPath) and time.time() - paths.written_at(path) > LATELY:
            return {}
    except (errors.LakeError, OSError):
        return {}
    return {span: f"process {holder} is at work on it" for span, holder in held.items()}


LATELY = 120.0
"""Seconds after the last renewal of a claim for which its process is shown as one at work: four times the length of a
lease, for clocks that differ."""


def _ranges(lake: Lake, query_set: str) -> PurePath:
    """Folder or object with the ranges of a query set."""
    return lake.locks / _component(f"runs of {query_set}")


@contextmanager
def _lock_errors(path: PurePath, name: str) -> Iterator[None]:
    """Words the errors of a lock for the thing that it protects."""
    try:
        yield
    except locks.HeldError as error:
        held = "it" if error.range == (0, 0) else _span(*error.range)
        raise errors.BusyError(f"{name}: process {error.holder} is at work on {held}", error.holder.advice()) from error
    except OSError as error:
        raise errors.LakeError(f"{path}: cannot be locked: {error.strerror}", hint_in_lake(error)) from error


def _span(start: int, end: int) -> str:
    return f"{instants.format_instant(start)} to {instants.format_instant(end)}"


@contextmanager
def attempt(lake: Lake, name: str, wait: float = 0.0) -> Iterator[Path]:
    """Holds the lock `name`, and yields a new folder of this machine for staging and checkpoints, removed at the end.
    Folders of earlier attempts of this name are removed first: they are dead, since the lock is free.
    Raises BusyError if another process holds the lock."""
    with hold(lake, name, wait), _staging(lake, folder_of(lake, name)) as folder:
        yield folder


@contextmanager
def _staging(lake: Lake, home: PurePath) -> Iterator[Path]:
    """Yields a new folder for temporary files, below `home` on the disk of the lake if it has one."""
    if isinstance(lake.root, ObjectPath):
        folder = caches.make_folder("lowwater-work-")
        try:
            yield folder
        finally:
            caches.remove_folder(folder)
        return
    for dead in _dead(lake, home):
        shutil.rmtree(dead, ignore_errors=True)
    folder = Path(home) / uuid.uuid4().hex[:12]
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise errors.LakeError(f"{folder}: cannot be made: {error.strerror}", hint_in_lake(error)) from error
    with caches.removed_at_end(Path(home)):
        yield folder


def _dead(lake: Lake, home: PurePath) -> list[PurePath]:
    """Returns the folders of dead attempts that whoever holds the lock of `home` finds: for a run those of all runs of
    its set that meet its range, since a killed run may have had one interval of a batch, or a batch around it."""
    if not (run := _RUN.fullmatch(home.name)):
        return [home]
    found = [(folder, _RUN.fullmatch(folder.name)) for folder in paths.children(lake.work)]
    start, end = int(run[2]), int(run[3])
    return [folder for folder, it in found if it and it[1] == run[1] and int(it[2]) < end and start < int(it[3])]


def folder_of(lake: Lake, name: str) -> PurePath:
    """Returns the folder for what tasks hand over, for whoever holds the lock of a name."""
    return lake.work / _component(name)


@contextmanager
def handed_over(lake: Lake, home: PurePath, far: bool) -> Iterator[PurePath | None]:
    """Yields a new folder of a lake in an object store for files that tasks on other machines write and read; it is
    removed at the end, and folders of earlier attempts first. None where no task runs on another machine (`far`), and
    for a lake in a folder, whose staging folder all machines see. `home`: the folder of what is attempted; the caller
    holds its lock, by which the maintenance knows that it is in use."""
    if not far or not isinstance(lake.root, ObjectPath):
        yield None
        return
    for dead in _dead(lake, home):
        paths.remove(*paths.files_below(dead))  # nobody else writes there
    folder = home / uuid.uuid4().hex[:12]
    try:
        yield folder
    finally:
        with suppress(OSError):  # the next attempt removes them
            paths.remove(*paths.files_below(folder))


@contextmanager
def run_attempt(
    lake: Lake, query_set: str, start: int, end: int, sees: Sequence[PurePath] = ()
) -> Iterator[tuple[Path, locks.Fence | None]]:
    """Locks the range [start, end), ns, of a query set; yields a folder for a run of that interval, and its fence.
    Raises BusyError if another process works on an overlapping interval."""
    home = folder_of_run(lake, query_set, start, end)
    with hold_range(lake, query_set, start, end, sees) as fence, _staging(lake, home) as folder:
        yield folder, fence
