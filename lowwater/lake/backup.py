"""Backups of a lake: copies of all that a lake had at one instant, in a folder or a store, and the way back.

A backup is taken while everything else goes on. The versions of all tables are read twice; where none has changed in
between, all of them were there at one instant, and what a lake has at an instant is what a crash leaves, which is right
(docs/protocol.md). What these versions name is then copied. Data files never change and have their digests in their
names, so a file that an earlier backup has is copied no more (docs/adr/0196).

A place of backups has `backups/TIME.DIGEST.json`, a list of files for each backup, `data/` with data files under their
names in the lake, and `rest/` with all other files under their digests.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path, PurePath
from threading import Lock
from typing import NamedTuple
from urllib.parse import unquote

import lowwater
from lowwater import documents, instants, limits
from lowwater.errors import BusyError, LakeError
from lowwater.lake import layout, open_tables, tables
from lowwater.lake.results.pins import stored_pins, tables_by_owner
from lowwater.storage import digests, locks, objects, paths, untrusted
from lowwater.storage.failures import hint_of, lake_error
from lowwater.storage.object_paths import ObjectPath

NOTE = "backup.json"
"""File of a lake that says when it was backed up last, and to where."""
_LEFT_OUT = {"_locks", "_work", "_doctor", "_logs", "tries", NOTE, layout.RESTORING}
"""What has a meaning for processes at work only, or is made again, as trials are."""
_LATE = ("state", "reports")
"""Written before what the tables say of them, so they are copied after the versions are known; the others before."""
_LAST = (documents.FILE_NAME, layout.FORMAT)
"""What makes a folder a lake: it is restored last."""
_NAME = re.compile(r"(\d{8}T\d{6}(?:\.\d{1,9})?Z)\.([0-9a-f]{16})\.json")
_LOG_ENTRY = re.compile(r"(\d{20})\.(?:json|checkpoint(?:\.\d{10}\.\d{10})?\.parquet)")
_LOOKS = 100
"""Most looks at the versions of all tables until none changes between two of them."""
_ROUNDS = 10
"""Most times that the versions are read again since files of them have gone meanwhile."""
ROOM = "make room there and run it again: it goes on where it was"

Told = Callable[[int, int], object]
"""Is called with the bytes that are done, and all of them."""


class Kept(NamedTuple):
    """A file of a backup."""

    path: str  # relative to the lake
    size: int
    digest: str  # its sha256, or of a data file at least the digits in its name
    at: int  # when it was last written in the lake, ns; tells whether a file that is no data file is still the same

    @property
    def place(self) -> PurePath:
        """Where it lies in the place of backups."""
        if digests.said(self.path):
            return PurePath("data", self.path)
        return PurePath("rest", self.digest[:2], self.digest)


@dataclass(frozen=True)
class Backup:
    """All that a lake had at an instant."""

    name: str  # of its file in the place of backups; empty until it is written
    lake: str  # identifies the lake, in whichever place it is; empty before its first ingest
    of: str  # where the lake was
    at: int  # when its versions were read, ns since the epoch
    versions: Mapping[str, int]  # path of each table -> its version
    files: Sequence[Kept]
    damaged: Sequence[str] = ()  # files that were gone, or had other bytes than were written: no copy has them

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)

    def text(self) -> str:
        head = {"form": 1, "lowwater": lowwater.__version__, "lake": self.lake, "of": self.of, "at": self.at}
        head |= {"versions": dict(self.versions), "damaged": [*self.damaged]}
        files = ",\n".join(json.dumps(file) for file in self.files)
        return f'{json.dumps(head)[:-1]}, "files": [\n{files}]}}\n'


@dataclass
class Copied:
    """What a backup did, or with `dry_run` would do."""

    backup: Backup
    files: int = 0  # that no earlier backup had
    bytes: int = 0
    removed: list[str] = field(default_factory=list)  # names of older backups
    freed: int = 0  # bytes
    unkept: str = ""  # why the lake could not be told


# To take one


def back_up(
    lake: layout.Lake, place: PurePath, keep: int | None = None, dry_run: bool = False, told: Told = lambda *_: None
) -> Copied:
    """Backs a lake up; of the backups that are there then, only the newest `keep` stay, or all. It may be killed at any
    moment: what it had copied is not copied again.
    Raises BusyError if another process works on the place, and LakeError if the lake cannot be read, the place cannot
    be written, or has backups of another lake."""
    _require_apart(lake.root, place)
    with _held(place, dry_run):
        return _Copy(lake, place, dry_run, told).all(keep)


def _require_apart(root: PurePath, place: PurePath) -> None:
    one, other = (path if isinstance(path, ObjectPath) else Path(path).resolve() for path in (root, place))
    if one == other or one in other.parents or other in one.parents:
        raise LakeError(
            f"{place}: a backup cannot lie in the lake {root}, nor the lake in it", "name a folder beside it"
        )


@contextmanager
def _held(place: PurePath, dry_run: bool) -> Iterator[None]:
    """Excludes others who write to a place of backups, or read all of it."""
    if dry_run:
        yield
        return
    lock = place / "_locks" / "backup.lock"
    with paths.private(), ExitStack() as stack:
        try:
            paths.make_folders(lock.parent)
            stack.enter_context(locks.hold_lock(lock))
        except locks.HeldError as error:
            raise BusyError(f"{place}: process {error.holder} is at work on it", error.holder.advice()) from error
        except OSError as error:
            hint = hint_of(error, "name a folder or an address that this user may write")
            raise lake_error(error, f"{place}: cannot be written: {error.strerror}", hint) from error
        paths.remove(*paths.files_below(place / "_work"))  # of backups that were ended
        yield


class _GoneError(Exception):
    """Files that the versions named were removed meanwhile."""


class _Copy:
    def __init__(self, lake: layout.Lake, place: PurePath, dry_run: bool, told: Told) -> None:
        self._lake, self._place, self._dry_run, self._told = lake, place, dry_run, told
        self._lost: dict[str, str] = {}  # path -> why there is no copy of it
        self._done = self._total = 0
        self._lock = Lock()
        self._tables: Collection[PurePath] = ()

    def all(self, keep: int | None) -> Copied:
        earlier = list_backups(self._place)
        readable = (each for name in reversed(earlier) if (each := self._readable(name)) is not None)
        newest = next(readable, None)
        self._there = {} if not earlier and self._is_new() else _stored(self._place)
        self._known = {} if newest is None else {file.path: file for file in newest.files}
        made = Copied(Backup("", "", str(self._lake.root), 0, {}, ()))
        for _ in range(_ROUNDS):
            try:
                backup = self._copied(made)
                break
            except _GoneError:
                continue
        else:
            raise LakeError(
                f"{self._lake.root}: files go all the time while they are copied",
                "run it again, at another time than `lowwater maintain`: it goes on where it was",
            )
        if newest is not None and newest.lake and backup.lake and newest.lake != backup.lake:
            raise _of_another(self._place, newest, self._lake)
        made.backup = backup
        if not self._dry_run:
            made.backup = self._written(backup)
            self._note(made)
        if keep is not None:
            self._clear([*earlier, made.backup.name], keep, made)
        return made

    def _readable(self, name: str) -> Backup | None:
        with suppress(LakeError):
            return read_backup(self._place, name)
        return None

    def _is_new(self) -> bool:
        return not paths.names_in(self._place) - {"_locks"}

    def _copied(self, made: Copied) -> Backup:
        """Copies what the lake has at an instant. Raises _GoneError if something of it went meanwhile."""
        # What names versions is read before them, so that it names none that the backup does not have.
        files = [*self._copy(self._rest(late=False), made)]
        at, found = self._versions()
        self._tables = found.keys()
        identity, _ = found.get(self._lake.replays, ("", 0))  # an upgrade makes other tables anew
        files += self._copy(self._named({path: version for path, (_, version) in found.items()}), made)
        files += self._copy(self._rest(late=True), made)
        versions = {self._relative(path): version for path, (_, version) in found.items()}
        damaged = [f"{path}: {why}" for path, why in sorted(self._lost.items())]
        return Backup("", identity, str(self._lake.root), at, versions, sorted(files), damaged)

    def _versions(self) -> tuple[int, dict[PurePath, tuple[str, int]]]:
        """Returns an instant, and identity and version of each table as they all were then."""
        before: dict[PurePath, tuple[str, int]] | None = None
        for _ in range(_LOOKS):
            objects.look_again()
            at = time.time_ns()
            opened = ((path, tables.open_table(path)) for path in self._lake.all_tables())
            now = {path: (str(each.metadata().id), each.version()) for path, each in opened if each is not None}
            if now == before:
                return at, now
            before = now
        raise LakeError(
            f"{self._lake.root}: its tables change so fast that no two looks at them agree", "run it again later"
        )

    def _named(self, versions: Mapping[PurePath, int]) -> Iterator[paths.Listed]:
        """Yields the logs of tables up to their versions, and the data files that these name, or pinned ones."""
        pinned = self._pinned(versions)
        for path, newest in versions.items():
            rows: dict[str, int] = {}
            for version in sorted({newest, *pinned.get(path, ())}):
                with tables.lake_errors(f"{path}: version {version} cannot be read"):
                    there = tables.live_files(open_tables.at_version(path, version))
                rows |= {row["path"]: row["size_bytes"] for row in there}
            yield from (paths.Listed(path / unquote(name), size, 0) for name, size in rows.items())
            with tables.lake_errors(f"{path}: its log cannot be listed"):
                for entry in paths.listed(path / "_delta_log"):
                    found = _LOG_ENTRY.fullmatch(entry.path.name)
                    if found is not None and int(found[1]) <= newest:
                        yield entry

    def _pinned(self, versions: Mapping[PurePath, int]) -> dict[PurePath, set[int]]:
        found: dict[PurePath, set[int]] = {}
        for query_set in tables_by_owner(self._lake):
            pins = stored_pins(self._lake, query_set)
            for query, version in () if pins is None else pins.tables.items():
                path = self._lake.table(query)
                if version < versions.get(path, -1):
                    found.setdefault(path, set()).add(version)
        return found

    def _rest(self, late: bool) -> Iterator[paths.Listed]:
        """Yields the files of the lake that are of no table."""
        root = self._lake.root
        of_tables = {path.relative_to(root).parts[0] for path in self._lake.all_tables()}
        of_tables |= {"tables", "streams", "lfta", "sums", "measures", "records"}
        with tables.lake_errors(f"{root}: cannot be listed"):
            for each in paths.children(root):
                if each.name in _LEFT_OUT | of_tables or each.name.startswith(("clock-", layout.LAYOUT)):
                    continue
                if (each.name in _LATE) != late:
                    continue
                untrusted.require_inside(each)
                if paths.has_file(each):
                    yield paths.Listed(each, paths.size(each), round(paths.written_at(each) * 1e9))
                else:
                    yield from (file for file in paths.listed(each) if file.path.name != paths.WHOLE)

    def _copy(self, files: Iterable[paths.Listed], made: Copied) -> list[Kept]:
        found, work = list[Kept](), list[paths.Listed]()
        for file in files:
            name = self._relative(file.path)
            if name in self._lost:
                continue
            before = self._known.get(name)
            digest = digests.said(name)
            if not digest and before is not None and (before.size, before.at) == (file.size, file.at):
                digest = before.digest
            kept = Kept(name, file.size, digest, 0 if digests.said(name) else file.at)
            if digest and self._there.get(kept.place) == file.size:
                found.append(kept)
            else:
                work.append(file)
        self._total = self._done + sum(file.size for file in work)
        if self._dry_run:
            made.files += len(work)
            made.bytes += sum(file.size for file in work)
            return found + [Kept(self._relative(file.path), file.size, "", 0) for file in work]
        with ThreadPoolExecutor(limits.STORE_READS) as pool:  # a file waits for its disk, too
            copied = [*pool.map(self._one, work)]
        for kept in filter(None, copied):
            made.files += 1
            made.bytes += kept.size
            self._known[kept.path] = kept
            self._there[kept.place] = kept.size
            found.append(kept)
        return found

    def _one(self, file: paths.Listed) -> Kept | None:
        name = self._relative(file.path)
        said = digests.said(name)

        def target(digest: str, size: int) -> PurePath | None:
            if said and (size != file.size or not digest.startswith(said)):
                return None
            return self._place / Kept(name, size, digest, file.at).place

        try:
            digest, size = paths.copy_as(file.path, target, self._place / "_work")
        except FileNotFoundError:
            self._gone(name)
            return None
        except OSError as error:
            raise _unwritten(self._place, error) from error
        with self._lock:
            self._done += size
            self._told(self._done, self._total)
        if said and (size != file.size or not digest.startswith(said)):
            self._lost[name] = "has other bytes than were written"
            return None
        return Kept(name, size, digest, 0 if said else file.at)

    def _gone(self, name: str) -> None:
        """Notes that a file is lost if the newest version of its table names it. Of no table, it may go.
        Raises _GoneError if a writer removed it, so that the versions are another now."""
        path = self._lake.root / name
        table = next((each for each in path.parents if each in self._tables), None)
        if table is None:
            return
        objects.look_again()
        opened = tables.open_table(table)
        names = () if opened is None else [table / unquote(row["path"]) for row in tables.live_files(opened)]
        if path not in names:
            raise _GoneError
        self._lost[name] = "is gone"

    def _written(self, backup: Backup) -> Backup:
        text = backup.text().encode()
        time_of = instants.format_instant(backup.at).replace("-", "").replace(":", "")
        name = f"{time_of}.{sha256(text).hexdigest()[: digests.DIGITS]}.json"
        try:
            paths.make_folders(self._place / "backups")
            paths.write(self._place / "backups" / name, text)
            paths.flush(self._place / "backups" / name)
        except OSError as error:
            raise _unwritten(self._place, error) from error
        return Backup(name, backup.lake, backup.of, backup.at, backup.versions, backup.files, backup.damaged)

    def _note(self, made: Copied) -> None:
        backup = made.backup
        said = {"at": backup.at, "to": str(self._place), "files": len(backup.files), "bytes": backup.bytes}
        said |= {"damaged": len(backup.damaged)}
        try:
            paths.write(self._lake.root / NOTE, json.dumps(said).encode())
        except OSError as error:
            made.unkept = f"{self._lake.root / NOTE}: cannot be written: {error.strerror}"

    def _clear(self, names: Sequence[str], keep: int, made: Copied) -> None:
        """Removes older backups, and lists that cannot be read; then the files that no backup names."""
        found = {name: made.backup if name == made.backup.name else self._readable(name) for name in names}
        staying = [name for name, each in found.items() if each is not None][-keep:]
        made.removed = [name for name in names if name not in staying]
        if not made.removed:
            return
        needed = {file.place for name in staying if (each := found[name]) is not None for file in each.files}
        unused = {place: size for place, size in _stored(self._place).items() if place not in needed}
        made.freed = sum(unused.values())
        if not self._dry_run:
            paths.remove(*(self._place / "backups" / name for name in made.removed))
            paths.remove(*(self._place / place for place in unused))

    def _relative(self, path: PurePath) -> str:
        return path.relative_to(self._lake.root).as_posix()


def _unwritten(place: PurePath, error: OSError) -> LakeError:
    return lake_error(error, f"{place}: cannot be written: {error.strerror}", hint_of(error, ROOM))


def _of_another(place: PurePath, backup: Backup, lake: layout.Lake) -> LakeError:
    return LakeError(
        f"{place}: has backups of another lake, {backup.of}, and none of {lake.root}",
        "name another folder or prefix for the backups of this lake",
    )


def last_backup(lake: layout.Lake) -> int | None:
    """Returns when a lake was backed up last, ns since the epoch; None if nobody knows of a backup."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return int(documents.json_value(paths.read(lake.root / NOTE, limits.STATE_BYTES))["at"])
    return None


# To know what is there


def list_backups(place: PurePath) -> list[str]:
    """Lists the names of the backups in a place, the oldest first.
    Raises LakeError if it cannot be listed."""
    with tables.lake_errors(f"{place}: cannot be listed"):
        return sorted((name for name, _ in paths.sizes(place / "backups") if _NAME.fullmatch(name)), key=taken_at)


def taken_at(name: str) -> int:
    """Returns when the backup of a name was taken, ns since the epoch."""
    found = _NAME.fullmatch(name)
    assert found is not None
    day, clock = found[1].split("T")
    return instants.parse_instant(f"{day[:4]}-{day[4:6]}-{day[6:]}T{clock[:2]}:{clock[2:4]}:{clock[4:]}")


def read_backup(place: PurePath, name: str) -> Backup:
    """Reads the list of files of a backup.
    Raises LakeError if it cannot be read, or is not as it was written."""
    path, found = place / "backups" / name, _NAME.fullmatch(name)
    hint = "another program, or its disk, changed it: take another backup there, or restore an older one, with --at"
    try:
        text = paths.read(path)
        if found is None or sha256(text).hexdigest()[: digests.DIGITS] != found[2]:
            raise LakeError(f"{path}: its bytes are not those that were written", hint)
        values = documents.json_value(text)
        files = [Kept(str(of), int(size), str(digest), int(at)) for of, size, digest, at in values["files"]]
        untrusted.require_names(path, (file.path for file in files))
        if any(not re.fullmatch("[0-9a-f]{16,64}", file.digest) for file in files):
            raise ValueError("a digest is none")
        versions = {str(table): int(version) for table, version in values["versions"].items()}
        return Backup(
            name, str(values["lake"]), str(values["of"]), int(values["at"]), versions, files, values["damaged"]
        )
    except OSError as error:
        raise LakeError(
            f"{path}: cannot be read: {error.strerror}", hint_of(error, "check that it can be read")
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LakeError(f"{path}: is no list of files of a backup", hint) from error


def _stored(place: PurePath) -> dict[PurePath, int]:
    """Lists what backups have copied, relative to their place, with sizes."""
    with tables.lake_errors(f"{place}: cannot be listed"):
        found = [each for name in ("data", "rest") for each in paths.listed(place / name)]
    return {each.path.relative_to(place): each.size for each in found}


# The way back


@dataclass
class Restored:
    """What a restore did, or with `dry_run` found."""

    backup: Backup
    written: int = 0  # files that were not there yet
    damaged: list[str] = field(default_factory=list)  # files of the backup that are gone, or have other bytes
    resumed: bool = False


def restore(place: PurePath, name: str, target: PurePath | None, told: Told = lambda *_: None) -> Restored:
    """Makes the lake of a backup in a folder or prefix that is not there yet, or where an earlier restore of it was
    ended; None writes nothing, and reads and compares all bytes. What was restored is no lake until all of it is there.
    Raises BusyError if a backup is being taken at this place, and LakeError if something lies at the target, it cannot
    be written, or, but without a target, the backup is not as it was written."""
    try:
        with _held(place, dry_run=not _is_writable(place)):
            return _Restore(place, read_backup(place, name), target, told).all()
    except OSError as error:
        raise _unwritten(target or place, error) from error


def _is_writable(place: PurePath) -> bool:
    """Whether others might write to it while it is read, and this process can keep them from it."""
    try:
        paths.require_writable(place)
    except OSError:
        return False
    return not isinstance(place, ObjectPath)


class _Restore:
    def __init__(self, place: PurePath, backup: Backup, target: PurePath | None, told: Told) -> None:
        self._place, self._backup, self._target, self._told = place, backup, target, told
        self._done, self._lock = 0, Lock()

    def all(self) -> Restored:
        made, target = Restored(self._backup), self._target
        if target is not None:
            _require_apart(self._place, target)
            made.resumed = self._begin(target)
            untrusted.know(target)
        first = [file for file in self._backup.files if PurePath(file.path).parts[0] not in _LAST]
        last = [file for file in self._backup.files if PurePath(file.path).parts[0] in _LAST]
        last.sort(key=lambda file: PurePath(file.path).parts[0] == documents.FILE_NAME)
        there = {} if target is None or not made.resumed else {e.path: e.size for e in paths.listed(target)}
        with ThreadPoolExecutor(limits.STORE_READS) as pool:
            for files in (first, last):
                for wrong, wrote in pool.map(lambda file: self._one(file, there), files):
                    made.written += wrote
                    if wrong:
                        made.damaged.append(wrong)
                        if target is not None:
                            raise _not_whole(self._place, self._backup, [wrong])
                if target is not None and files is first and isinstance(target, ObjectPath):
                    self._whole(target)
        if target is not None:
            paths.remove(*paths.files_below(target / "_work"), target / layout.RESTORING)
            objects.look_again()
        return made

    def _begin(self, target: PurePath) -> bool:
        """Marks the target; returns whether an earlier restore of this backup had begun."""
        names = paths.names_in(target)
        if layout.RESTORING in names:
            with suppress(OSError, ValueError, KeyError, TypeError):
                if (
                    documents.json_value(paths.read(target / layout.RESTORING, limits.STATE_BYTES))["backup"]
                    == self._backup.name
                ):
                    return True
        if names:
            what = "there is a lake" if layout.is_lake(target) else "something lies there"
            hint = "restore to a folder or prefix that is not there; or move this one away first"
            if layout.RESTORING in names:
                what = "the restore of another backup was ended there"
                hint = f"remove {target}, and run it again; or restore to another place"
            raise LakeError(f"{target}: {what} already, and a restore replaces nothing", hint)
        paths.make_folders(target)
        said = {"backup": self._backup.name, "from": str(self._place)}
        paths.write(target / layout.RESTORING, json.dumps(said).encode())
        objects.look_again()
        return False

    def _one(self, file: Kept, there: Mapping[PurePath, int]) -> tuple[str, bool]:
        """Restores a file; returns what is wrong with its copy, and whether it was written."""
        goal = None if self._target is None else self._target / file.path
        wrong, wrote = "", False
        if goal is None or there.get(goal) != file.size:
            scratch = None if self._target is None else self._target / "_work"

            def place_of(digest: str, size: int) -> PurePath | None:
                return goal if size == file.size and digest.startswith(file.digest) else None

            try:
                digest, size = paths.copy_as(self._place / file.place, place_of, scratch)
                wrote = goal is not None
                if size != file.size or not digest.startswith(file.digest):
                    wrong = f"{file.place}: has other bytes than were written"
            except FileNotFoundError:
                wrong = f"{file.place}: is gone"
        with self._lock:
            self._done += file.size
            self._told(self._done, self._backup.bytes)
        return wrong, wrote

    def _whole(self, target: ObjectPath) -> None:
        """Says of each state that all of it is there, as `paths.take_folder` does in a store."""
        for folder in {PurePath(file.path).parent for file in self._backup.files if file.path.startswith("state/")}:
            paths.write(target / folder / paths.WHOLE, b"")


def _not_whole(place: PurePath, backup: Backup, wrong: Collection[str]) -> LakeError:
    return LakeError(
        f"{place}: the backup {backup.name} is not whole: {', '.join(wrong)}",
        "restore an older one (`lowwater restore` with --list); the next `lowwater backup` copies again what is gone",
    )


def leads_elsewhere(target: PurePath) -> list[str]:
    """Lists the paths in the settings of a restored lake that nothing lies at: those that are named relative to its
    folder lead elsewhere from another place."""
    try:
        settings = documents.toml_table(paths.read(target / documents.FILE_NAME, limits.SETTINGS_BYTES + 1).decode())
    except (OSError, ValueError):
        return []
    base, found = paths.settings_folder(target / documents.FILE_NAME), list[str]()
    for section in ("links", "query_sets"):
        for each in (settings.get(section) or {}).values():
            named = each.get("captures" if section == "links" else "files") if isinstance(each, dict) else None
            for text in [named] if isinstance(named, str) else named or ():
                if not isinstance(text, str) or "://" in text:
                    continue
                fixed = re.split(r"[%*?\[{]", text)[0] if section == "links" else text
                there = Path(base, fixed if fixed == text else PurePath(f"{fixed}x").parent)
                if not there.exists():
                    found.append(text)
    return found
