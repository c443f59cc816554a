"""Cache of open Delta tables: a thread reads each commit once, however often it asks for a table.

Below `tables`. A run asks a hundred times for one of fifteen tables, and reading a whole log takes up to 20 ms. A table
object changes when it follows the log, so every thread has its own.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeVar

from lowwater.storage import paths

if TYPE_CHECKING:
    from deltalake import DeltaTable

CACHED = 64
"""Most open tables of a thread, and most computed values of the process."""

T = TypeVar("T")
_LogEntry = tuple[int, paths.FileState]
"""Version, and state of its log entry, which differs if another table replaces this one."""


class _Open(threading.local):
    def __init__(self) -> None:
        self.tables: OrderedDict[PurePath, tuple[DeltaTable, _LogEntry | None]] = OrderedDict()


_OPEN = _Open()
_VALUES: OrderedDict[tuple[PurePath, object], tuple[tuple[str, int] | None, Any]] = OrderedDict()
_VALUES_LOCK = threading.Lock()


def newest(path: PurePath) -> DeltaTable | None:
    """Returns a table at its newest version; None without one. The next call in this thread may update the object."""
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    table, entry = _OPEN.tables.pop(path, (None, None))
    if table is not None and (entry is None or entry != _log_entry(path, table)):
        table = None  # another table may have replaced it
    if table is None:
        try:
            table, entry = DeltaTable(str(path), storage_options=paths.storage_options(path)), None
        except TableNotFoundError:
            return None
    elif paths.exists(_entry(path, table.version() + 1)):
        table.update_incremental()
        entry = None
    keep(path, table, entry)
    return table


def existing(path: PurePath) -> DeltaTable:
    """Returns a table at its newest version.

    Raises:
        TableNotFoundError: if there is none.
    """
    from deltalake import DeltaTable

    table = newest(path)
    return DeltaTable(str(path), storage_options=paths.storage_options(path)) if table is None else table


def keep(path: PurePath, table: DeltaTable, entry: _LogEntry | None = None) -> None:
    """Caches a table that was just read or committed to; `entry` is its log entry, if that is known."""
    _OPEN.tables[path] = table, entry or _log_entry(path, table)
    while len(_OPEN.tables) > CACHED:
        _OPEN.tables.popitem(last=False)


def forget(path: PurePath) -> None:
    """Removes a table from the cache: after a failed commit its state is unknown."""
    _OPEN.tables.pop(path, None)


def cached_value(path: PurePath, key: object, compute: Callable[[DeltaTable | None], T]) -> T:
    """Returns a value computed from the newest version of a table; computes it again only if the table has changed.

    Args:
        path: path of the table.
        key: identifies the function and its arguments; hashable.
        compute: the function; gets None if there is no table. Nobody changes its result.
    """
    table = newest(path)
    version = None if table is None else (str(table.metadata().id), table.version())
    place = path, key
    with _VALUES_LOCK:
        entry = _VALUES.get(place)
    if entry is not None and entry[0] == version:
        value: T = entry[1]
        return value
    value = compute(table)
    with _VALUES_LOCK:
        _VALUES[place] = version, value
        _VALUES.move_to_end(place)
        while len(_VALUES) > CACHED:
            _VALUES.popitem(last=False)
    return value


def _entry(path: PurePath, version: int) -> PurePath:
    return path / "_delta_log" / f"{version:020d}.json"


def _log_entry(path: PurePath, table: DeltaTable) -> _LogEntry | None:
    version = table.version()
    state = paths.state(_entry(path, version))
    return None if state is None else (version, state)  # without one the log is gone, or was cut
