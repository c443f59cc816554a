"""The Delta tables that a thread has open: it reads each commit once, however often it asks for a table.

Below `tables`. The run of an interval asks a hundred times for one of fifteen tables, and to read the whole log of one
takes up to 20 ms. A table object changes as it follows the log, so each thread has its own.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from deltalake import DeltaTable

HELD_TABLES = 64
"""Tables that a thread keeps open, and values that the process keeps of tables."""

T = TypeVar("T")
_Mark = tuple[int, int, int, int]
"""Version, and inode, time of change and size of its entry in the log: a table made anew in its place has others."""


class _Open(threading.local):
    def __init__(self) -> None:
        self.tables: OrderedDict[Path, tuple[DeltaTable, _Mark | None]] = OrderedDict()


_OPEN = _Open()
_MADE: OrderedDict[tuple[Path, object], tuple[tuple[str, int] | None, Any]] = OrderedDict()
_MADE_LOCK = threading.Lock()


def newest(path: Path) -> DeltaTable | None:
    """The table at its newest version, None where there is none; this thread's next call may move the object on."""
    from deltalake import DeltaTable

    table = _followed(path)
    if table is None and DeltaTable.is_deltatable(str(path)):
        table = DeltaTable(str(path))
    if table is not None:
        keep(path, table)
    return table


def existing(path: Path) -> DeltaTable:
    """As `newest`, of a table that must be there.

    Raises:
        TableNotFoundError: it is not, as DeltaTable says it.
    """
    from deltalake import DeltaTable

    table = newest(path)
    return DeltaTable(str(path)) if table is None else table


def _followed(path: Path) -> DeltaTable | None:
    """The open table, brought to the newest version; None where none is open, or another lies there now."""
    table, mark = _OPEN.tables.pop(path, (None, None))
    if table is None or mark is None or mark != _mark(path, table):
        return None
    if _entry(path, table.version() + 1).exists():
        table.update_incremental()
    return table


def keep(path: Path, table: DeltaTable) -> None:
    """Keeps a table open that has just been read or committed to."""
    _OPEN.tables[path] = table, _mark(path, table)
    while len(_OPEN.tables) > HELD_TABLES:
        _OPEN.tables.popitem(last=False)


def forget(path: Path) -> None:
    """Reads the log anew the next time: after a commit that failed, nobody knows how far the table got."""
    _OPEN.tables.pop(path, None)


def made_of(path: Path, what: object, make: Callable[[DeltaTable | None], T]) -> T:
    """What a function makes of the newest version of a table, None for no table; anew only when the table has changed.

    Args:
        path: the path of the table.
        what: names the function and its arguments; hashable.
        make: the function; nobody changes what it returns.
    """
    table = newest(path)
    version = None if table is None else (str(table.metadata().id), table.version())
    key = path, what
    with _MADE_LOCK:
        known = _MADE.get(key)
    if known is not None and known[0] == version:
        found: T = known[1]
        return found
    made = make(table)
    with _MADE_LOCK:
        _MADE[key] = version, made
        _MADE.move_to_end(key)
        while len(_MADE) > HELD_TABLES:
            _MADE.popitem(last=False)
    return made


def _entry(path: Path, version: int) -> Path:
    return path / "_delta_log" / f"{version:020d}.json"


def _mark(path: Path, table: DeltaTable) -> _Mark | None:
    version = table.version()
    try:
        found = os.stat(_entry(path, version))
    except OSError:  # the log is gone, or was cut
        return None
    return version, found.st_ino, found.st_mtime_ns, found.st_size
