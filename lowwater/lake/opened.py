"""Cache of open Delta tables: a thread reads each commit once, however often it asks for a table.

Below `tables`. A run asks a hundred times for one of fifteen tables, and reading a whole log takes up to 20 ms. A table
object changes when it follows the log, so every thread has its own.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeVar

from lowwater.lake.logs import require_modest_commits, require_modest_log, require_plain_table
from lowwater.storage import paths
from lowwater.storage.containment import require_plain_folder
from lowwater.storage.object_paths import ObjectPath

if TYPE_CHECKING:
    from deltalake import DeltaTable

CACHED = 64
"""Most open tables of a thread, and most computed values of the process."""

LOOK = 10.0
"""Seconds after which it is looked again whether another table has replaced one in an object store."""

T = TypeVar("T")


@dataclass(slots=True)
class _Opened:
    """An open table.

    Attributes:
        table: the table.
        state: state of the log entry of its version, which differs if another table replaces this one.
        looked_at: when that was last looked at, s of the monotonic clock.
    """

    table: DeltaTable
    state: paths.FileState
    looked_at: float


class _Open(threading.local):
    def __init__(self) -> None:
        self.tables: OrderedDict[PurePath, _Opened] = OrderedDict()


class ValuesByState:
    """Values that threads share, each kept as long as the state that it was computed from is the same.

    Args:
        most: most values; those that were computed longest ago go first.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, tuple[object, Any]] = OrderedDict()

    def get(self, place: Hashable, state: object, compute: Callable[[], T]) -> T:
        """Returns the value of a place; computes it if its state is another one. Nobody changes the value."""
        with self._lock:
            kept = self._kept.get(place)
        if kept is not None and kept[0] == state:
            known: T = kept[1]
            return known
        value = compute()
        with self._lock:
            self._kept[place] = state, value
            self._kept.move_to_end(place)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return value


_OPEN = _Open()
_VALUES = ValuesByState(CACHED)


def _open(path: PurePath, version: int | None = None) -> DeltaTable:
    """Opens a table, the one place where Delta reads a log from its beginning.

    Raises:
        LakeError: the log, or the table, is none of a lake.
    """
    from deltalake import DeltaTable

    require_plain_folder(path)
    require_plain_folder(path / "_delta_log")
    require_modest_log(path, version)
    table = DeltaTable(str(path), version=version, storage_options=paths.storage_options(path))
    require_plain_table(path, table)
    return table


def newest(path: PurePath) -> DeltaTable | None:
    """Returns a table at its newest version; None without one. The next call in this thread may update the object."""
    from deltalake.exceptions import TableNotFoundError

    opened = _OPEN.tables.pop(path, None)
    if opened is None or not _is_same(path, opened):
        try:
            table = _open(path)
        except TableNotFoundError:
            return None
        keep(path, table)
        return table
    if paths.exists(_entry(path, opened.table.version() + 1)):
        require_modest_commits(path, opened.table.version())
        opened.table.update_incremental()
        require_plain_table(path, opened.table)
        keep(path, opened.table)
    else:
        _put(path, opened)
    return opened.table


def has_table(path: PurePath) -> bool:
    """Whether there is a table; on a disk without opening it."""
    return newest(path) is not None if isinstance(path, ObjectPath) else paths.exists(path / "_delta_log")


def existing(path: PurePath) -> DeltaTable:
    """Returns a table at its newest version.

    Raises:
        TableNotFoundError: if there is none.
    """
    table = newest(path)
    return _open(path) if table is None else table


def at_version(path: PurePath, version: int) -> DeltaTable:
    """Opens a table at a version. What it has of 9,000 files takes 20 MB, so it is not kept."""
    return _open(path, version)


def keep(path: PurePath, table: DeltaTable) -> None:
    """Caches a table that was just read or committed to."""
    state = paths.state(_entry(path, table.version()))
    if state is not None:  # without one the log is gone, or was cut
        _put(path, _Opened(table, state, time.monotonic()))


def _put(path: PurePath, opened: _Opened) -> None:
    _OPEN.tables[path] = opened
    while len(_OPEN.tables) > CACHED:
        _OPEN.tables.popitem(last=False)


def _is_same(path: PurePath, opened: _Opened) -> bool:
    """Whether no other table has replaced an open one, as far as that was looked at; it looks at a disk each time."""
    if isinstance(path, ObjectPath) and time.monotonic() - opened.looked_at < LOOK:
        return True
    opened.looked_at = time.monotonic()
    return paths.state(_entry(path, opened.table.version())) == opened.state


def forget(path: PurePath) -> None:
    """Removes a table from the cache: after a failed commit its state is unknown."""
    _OPEN.tables.pop(path, None)


def cached_value(path: PurePath, key: Hashable, compute: Callable[[DeltaTable | None], T]) -> T:
    """Returns a value computed from the newest version of a table; computes it again only if the table has changed.

    Args:
        path: path of the table.
        key: identifies the function and its arguments; hashable.
        compute: the function; gets None if there is no table. Nobody changes its result.
    """
    table = newest(path)
    version = None if table is None else (str(table.metadata().id), table.version())
    return _VALUES.get((path, key), version, lambda: compute(table))


def _entry(path: PurePath, version: int) -> PurePath:
    return path / "_delta_log" / f"{version:020d}.json"
