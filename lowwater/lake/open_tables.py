"""Open Delta tables of a thread: each commit is read once, however often somebody asks for a table."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeVar

from lowwater.errors import LakeError
from lowwater.lake import table_logs
from lowwater.lake.table_logs import Mirror, mirror_of, require_modest_commits, require_modest_log, require_plain_table
from lowwater.limits import OPEN_TABLES
from lowwater.storage import paths
from lowwater.storage.object_paths import ObjectPath
from lowwater.storage.untrusted import require_plain_folder

if TYPE_CHECKING:
    from deltalake import DeltaTable


# Cache of open Delta tables: a thread reads each commit once, however often it asks for a table. Below `tables`. A
# run asks a hundred times for one of fifteen tables, and reading a whole log takes up to 20 ms. A table object
# changes when it follows the log, so every thread has its own.


T = TypeVar("T")


@dataclass(slots=True)
class _Opened:
    """An open table.

    Attributes:
        state: state of the log entry of its version, which differs if another table replaces this one; of a table in an
            object store the life of its mirror.
    """

    table: DeltaTable
    state: paths.FileState | int


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
_VALUES = ValuesByState(OPEN_TABLES)


def _open(path: PurePath, version: int | None = None, mirror: Mirror | None = None) -> DeltaTable:
    """Opens a table, the one place where Delta reads a log from its beginning; that of a store from its mirror.

    Raises:
        LakeError: the log, or the table, is none of a lake.
    """
    from deltalake import DeltaTable

    place = path if mirror is None else mirror.folder
    require_plain_folder(path)
    require_plain_folder(path / "_delta_log")
    with _named(place, path):
        require_modest_log(place, version)
    table = DeltaTable(str(place), version=version)
    require_plain_table(path, table)
    return table


@contextmanager
def _named(place: PurePath, path: PurePath) -> Iterator[None]:
    """Lets errors about the mirror of a log name the table in its store."""
    try:
        yield
    except LakeError as error:
        if place == path:
            raise
        raise LakeError(error.message.replace(str(place), str(path)), error.hint) from None


def newest(path: PurePath) -> DeltaTable | None:
    """Returns a table at its newest version; None without one. The next call in this thread may update the object.

    Of a table in an object store it is the version that was seen lately (`mirrors.LOOK`).
    """
    from deltalake.exceptions import TableNotFoundError

    if isinstance(path, ObjectPath):
        return _mirrored(mirror_of(path), path)
    opened = _OPEN.tables.pop(path, None)
    if opened is None or paths.state(_entry(path, opened.table.version())) != opened.state:
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


def _mirrored(mirror: Mirror, path: PurePath) -> DeltaTable | None:
    with mirror.lock:
        if not mirror.look():
            return None
        opened = _OPEN.tables.pop(path, None)
        if opened is None or opened.state != mirror.life:
            opened = _Opened(_open(path, None, mirror), mirror.life)
        elif opened.table.version() < mirror.version:
            with _named(mirror.folder, path):
                require_modest_commits(mirror.folder, opened.table.version())
            opened.table.update_incremental()
            require_plain_table(path, opened.table)
        _put(path, opened)
        return opened.table


def has_table(path: PurePath) -> bool:
    """Whether there is a table; on a disk without opening it."""
    return mirror_of(path).look() if isinstance(path, ObjectPath) else paths.exists(path / "_delta_log")


def was_opened(path: PurePath) -> bool:
    """Whether this process has looked at a table of a store; one on a disk can always be looked at."""
    return not isinstance(path, ObjectPath) or table_logs.is_mirrored(path)


def existing(path: PurePath) -> DeltaTable:
    """Returns a table at its newest version.

    Raises:
        TableNotFoundError: if there is none.
    """
    from deltalake.exceptions import TableNotFoundError

    if (table := newest(path)) is None:
        raise TableNotFoundError(f"there is no table {path}")
    return table


def at_version(path: PurePath, version: int) -> DeltaTable:
    """Opens a table at a version. What it has of 9,000 files takes 20 MB, so it is not kept."""
    if isinstance(path, ObjectPath):
        mirror = mirror_of(path)
        mirror.reach(version)
        return _open(path, version, mirror)
    return _open(path, version)


def make_table(path: PurePath, **arguments: Any) -> DeltaTable | None:
    """Makes a table, by the arguments of `DeltaTable.create`; None if another process was first.

    Raises:
        DeltaError: if it cannot be made.
        OSError: if the store fails.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    if not isinstance(path, ObjectPath):
        try:
            table = DeltaTable.create(str(path), **arguments)
        except DeltaError:
            if newest(path) is None:
                raise
            return None
        keep(path, table)
        return table
    mirror = mirror_of(path)
    with mirror.changing():
        if mirror.look():
            return None  # another thread was first
        table = DeltaTable.create(str(mirror.folder), **arguments)
        if not mirror.put(0):
            return None
        keep(path, table)
        return table


def change(path: PurePath, table: DeltaTable, work: Callable[[], object]) -> None:
    """Lets Delta change an open table; of one in an object store the change is in the store afterwards, or nothing is.

    Args:
        table: the table, as `existing` gave it to this thread.
        work: commits once by Delta, or not at all.

    Raises:
        CommitFailedError: if another writer was faster.
        DeltaError: if Delta fails.
        OSError: if the store fails; then it is unknown whether the commit is there.
    """
    from deltalake.exceptions import CommitFailedError

    if not isinstance(path, ObjectPath):
        work()
        return
    mirror, before = mirror_of(path), table.version()
    with mirror.changing():
        if mirror.version != before:
            raise CommitFailedError("concurrent: another thread has committed")
        mirror.change(work)
        if not mirror.holds(before + 1):
            return  # there was nothing to commit
        if not mirror.put(before + 1):
            raise CommitFailedError("concurrent: another process has committed")
        mirror.keep_up()


def entry(path: PurePath, version: int) -> bytes:
    """Returns the content of a commit.

    Raises:
        OSError: if it is not, or no longer, in the log, or cannot be read.
    """
    return mirror_of(path).entry(version) if isinstance(path, ObjectPath) else paths.read(_entry(path, version))


def table_address(table: DeltaTable) -> str:
    """Returns the folder or the address of a table, as messages name it."""
    return table_logs.address(table.table_uri.removeprefix("file://").rstrip("/"))


def log_folder(path: PurePath) -> PurePath:
    """Returns the folder with the newest checkpoint of an open table; of one in an object store that of its mirror."""
    return (mirror_of(path).folder if isinstance(path, ObjectPath) else path) / "_delta_log"


def keep(path: PurePath, table: DeltaTable) -> None:
    """Caches a table that was just read or committed to."""
    state = mirror_of(path).life if isinstance(path, ObjectPath) else paths.state(_entry(path, table.version()))
    if state is not None:  # without one the log is gone, or was cut
        _put(path, _Opened(table, state))


def _put(path: PurePath, opened: _Opened) -> None:
    _OPEN.tables[path] = opened
    while len(_OPEN.tables) > OPEN_TABLES:
        _OPEN.tables.popitem(last=False)


def forget(path: PurePath) -> None:
    """Removes a table from the cache: after a failed commit its state is unknown."""
    _OPEN.tables.pop(path, None)


def cached_value(path: PurePath, key: Hashable, compute: Callable[[DeltaTable | None], T]) -> T:
    """Returns a value computed from the newest version of a table; computes it again only if the table has changed.

    Args:
        key: identifies the function and its arguments; hashable.
        compute: the function; gets None if there is no table. Nobody changes its result.
    """
    table = newest(path)
    return _VALUES.get((path, key), _identity(path, table), lambda: compute(table))


def identity(path: PurePath) -> object:
    """Returns what differs once a table has another version, or another history up to the same one; None without a
    table."""
    return _identity(path, newest(path))


def _identity(path: PurePath, table: DeltaTable | None) -> object:
    if table is None:
        return None
    opened = _OPEN.tables.get(path)  # none where its log is cut
    return str(table.metadata().id), table.version(), None if opened is None else opened.state


def _entry(path: PurePath, version: int) -> PurePath:
    return path / "_delta_log" / f"{version:020d}.json"
