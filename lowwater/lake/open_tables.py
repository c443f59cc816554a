"""Open Delta tables of a thread: each commit is read once, however often somebody asks for a table.

The log of a table is looked at before Delta's library reads it: how large it is. Where the lake is in a store, the
library reads a mirror of the log on the disk of this machine.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from base64 import b64decode, b64encode
from collections import OrderedDict
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from math import inf
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from lowwater import limits
from lowwater.documents import json_value
from lowwater.errors import LakeError
from lowwater.storage import digests, objects, paths, untrusted
from lowwater.storage.object_paths import ObjectPath

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

# Looks at the log of a Delta table before Delta's library reads it, which takes memory and stack for whatever it is.
# What is read at once is bounded by sizes of files, by headers of pages and by brackets; what a table may be is looked
# at once it is open. The bounds are far above those of a lake of years: `packets/` of 30 links and 8,760 hours has a
# checkpoint of 74 MB.

NEWEST = 1 << 53  # versions are below this
DEEPEST = 1000  # brackets of an action that cannot be nested too deeply: Delta's library crashes at 30,000 levels
SMALL = 1 << 13  # bytes of a commit, or of statistics, that cannot be nested deeply enough to be looked into
DEEPEST_TYPE = 16

HINT = "another program wrote this log, and nothing of it was read; restore the table, or do not use the lake"
FEATURES = {"timestampNtz"}
"""Features of readers under which files still are what they say."""
TYPES = {"boolean", "byte", "short", "integer", "long", "float", "double", "string", "binary"}
TYPES |= {"timestamp", "timestamp_ntz"}
"""Types of columns of a lake, and of the values of its lists."""

_NAME = re.compile(r"(\d{20})\.(?:(json|crc)|(\d{20})\.compacted\.json|(checkpoint\..*))")
_PARTS = re.compile(r"checkpoint\.(?:(\d{10})\.(\d{10})\.)?parquet")
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*+"')
_Entry = tuple[str, int]
"""Name and bytes of a file."""


def require_modest_log(path: PurePath, version: int | None = None) -> None:
    """Checks what Delta reads to open a table at a version, or the newest one.
    Raises LakeError if it is too much, or what no writer of a lake makes."""
    log = path / "_delta_log"
    hint = _hint(log)
    entries = sorted(_entries(log, hint))
    begin = _checkpoint(log, entries, NEWEST if version is None else version)
    _require_commits(log, [entry for entry in entries if begin < int(entry[0][:20])])


def require_modest_commits(path: PurePath, after: int) -> None:
    """Checks the commits behind a version, which Delta reads to follow a log."""
    log = path / "_delta_log"
    if isinstance(log, Path):
        _require_commits(log, _following(log, after + 1))
    else:
        _require_commits(log, sorted(_entries(log, after)))


def _hint(log: PurePath) -> int:
    """Returns the version of the checkpoint that the log itself names; -1 without one."""
    place = log / "_last_checkpoint"
    try:
        text = paths.read(place, limits.CHECKPOINT_HINT_BYTES + 1)
        if len(text) > limits.CHECKPOINT_HINT_BYTES:
            raise LakeError(f"{place}: is too long, at most {limits.CHECKPOINT_HINT_BYTES:,} bytes are read", HINT)
        value = json_value(text)
    except FileNotFoundError:
        return -1
    except ValueError as error:
        raise LakeError(f"{place}: {error}", HINT) from None
    version = value.get("version") if isinstance(value, dict) else None
    if type(version) is not int or not 0 <= version < NEWEST:
        raise LakeError(f"{place}: names no version of a table", HINT)
    return version


def _entries(log: PurePath, since: int) -> Iterator[_Entry]:
    """Yields the files of a log that Delta may read; in a store only those of versions behind `since`, or of it."""
    for number, (name, size) in enumerate(paths.sizes(log, f"{since:020d}" if since >= 0 else ""), 1):
        if number > limits.LOG_FILES:
            raise LakeError(f"{log}: has more than {limits.LOG_FILES:,} files", HINT)
        if _NAME.fullmatch(name):
            if int(name[:20]) >= NEWEST:
                raise LakeError(f"{log / name}: no table has so many versions", HINT)
            yield name, size


def _following(log: Path, version: int) -> Iterator[_Entry]:
    while True:
        name = commit_name(version)
        try:
            yield name, paths.size(log / name)
        except FileNotFoundError:
            return
        version += 1


def _checkpoint(log: PurePath, entries: Iterable[_Entry], newest: int) -> int:
    """Checks the checkpoint from which Delta reads; returns its version, -1 without one."""
    found: dict[int, dict[tuple[int, int], str]] = {}
    for name, _ in entries:
        version, rest = int(name[:20]), name[21:]
        if not rest.startswith("checkpoint.") or version > newest:
            continue
        form = _PARTS.fullmatch(rest)
        if form is None:
            raise LakeError(f"{log / name}: is a checkpoint of a form that Lowwater does not read", HINT)
        part, parts = (int(form[1]), int(form[2])) if form[1] else (1, 1)
        found.setdefault(version, {})[parts, part] = name
    for version in sorted(found, reverse=True):
        for parts in {parts for parts, _ in found[version]}:
            names = [found[version].get((parts, number)) for number in range(1, parts + 1)] if parts <= 1000 else [None]
            if None not in names:
                for name_of_part in names:
                    _require_checkpoint(log / str(name_of_part), limits.CHECKPOINT_BYTES // parts)
                return version
    return -1


def _require_checkpoint(place: PurePath, most: int) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    local = paths.local(place)
    untrusted.require_modest(place, local, most)
    for name in ("add.stats", "metaData.schemaString"):
        with pq.ParquetFile(local) as file:
            leaves = [file.schema.column(at).path for at in range(len(file.schema))]
            if name not in leaves:
                continue
            try:
                column = pc.struct_field(file.read([name], use_threads=False).column(0), [name.partition(".")[2]])
            except pa.ArrowException as error:
                raise LakeError(f"{place}: {str(error).splitlines()[0][:200]}", HINT) from None
        _require_texts(place, name, column)


def _require_texts(place: PurePath, name: str, texts: pa.ChunkedArray) -> None:
    import pyarrow.compute as pc

    lengths = pc.binary_length(texts)
    longest = pc.max(lengths).as_py() or 0
    if longest > limits.LOG_LINE_BYTES:
        raise LakeError(f"{place}: {name} has {longest:,} bytes, at most {limits.LOG_LINE_BYTES:,} are read", HINT)
    texts = texts.filter(pc.greater(lengths, SMALL))
    brackets = pc.add(pc.count_substring(texts, "{"), pc.count_substring(texts, "["))
    for text in texts.filter(pc.greater(brackets, DEEPEST)).to_pylist():
        _require_flat(place, name, text.encode())


def _require_commits(log: PurePath, entries: Iterable[_Entry]) -> None:
    total = 0
    for number, (name, size) in enumerate(entries, 1):
        if ".checkpoint." in name:
            continue
        total += size
        if number > limits.LOG_COMMITS:
            raise LakeError(f"{log}: has more than {limits.LOG_COMMITS:,} commits behind its last checkpoint", HINT)
        if total > limits.LOG_COMMIT_BYTES:
            raise LakeError(
                f"{log / name}: makes what is read of the log {total:,} bytes, "
                f"at most {limits.LOG_COMMIT_BYTES:,} are read",
                HINT,
            )
        if size > SMALL:
            _require_lines(log / name)


def _require_lines(place: PurePath) -> None:
    for number, line in enumerate(paths.read(place, limits.LOG_COMMIT_BYTES).split(b"\n"), 1):
        where = f"line {number}"
        if len(line) > limits.LOG_LINE_BYTES:
            raise LakeError(
                f"{place}: {where} has {len(line):,} bytes, at most {limits.LOG_LINE_BYTES:,} are read", HINT
            )
        if line.count(b"{") + line.count(b"[") > DEEPEST:
            _require_flat(place, where, line)
            try:
                action = json.loads(line)
            except ValueError:
                continue  # Delta says where it is no JSON
            added = action.get("add") if isinstance(action, dict) else None
            if isinstance(added, dict) and isinstance(added.get("stats"), str):
                _require_flat(place, where, added["stats"].encode())


def _require_flat(place: PurePath, where: str, text: bytes) -> None:
    """Checks how deep brackets are nested; those in texts do not count."""
    depth = 0
    for bracket in re.findall(rb"[\[{\]}]", _TEXT.sub(b"", text)):
        depth += 1 if bracket in b"[{" else -1
        if depth > 64:
            raise LakeError(f"{place}: {where} is nested too deeply", HINT)


def require_plain_table(path: PurePath, table: DeltaTable) -> None:
    """Checks that the files of a table are what they say: its log hides no row, and names columns as the files do.
    Raises LakeError: Lowwater would read other rows, or a schema that is too large."""
    protocol = table.protocol()
    features = set(protocol.reader_features or ()) - FEATURES
    if protocol.min_reader_version not in (1, 3) or features:
        said = ", ".join(sorted(features)) or f"version {protocol.min_reader_version} of the protocol"
        raise LakeError(f"{path}: the table asks its readers for {said[:200]}, which Lowwater does not have", HINT)
    columns = table.schema().fields
    if len(columns) > limits.TABLE_COLUMNS:
        raise LakeError(
            f"{path}: the table has {len(columns):,} columns, at most {limits.TABLE_COLUMNS:,} are read", HINT
        )
    if any(_deeper(column.type, DEEPEST_TYPE) for column in columns):
        raise LakeError(f"{path}: a type in the table is nested too deeply", HINT)
    for column in columns:
        if (kind := _innermost(column.type)) not in TYPES:
            said = f"column {column.name[:200]!a} is of type {kind}, which no table of a lake has"
            raise LakeError(f"{path}: {said}", HINT)


def _innermost(kind: Any) -> str:
    """Returns the type of the values of a list, or of a list of lists; of others the type itself."""
    while hasattr(kind, "element_type"):
        kind = kind.element_type
    return str(kind.type)


def _deeper(kind: Any, most: int) -> bool:
    inner = [field.type for field in getattr(kind, "fields", ())]
    inner += [getattr(kind, name) for name in ("element_type", "value_type", "key_type") if hasattr(kind, name)]
    return bool(inner) and (most == 0 or any(_deeper(each, most - 1) for each in inner))


# Logs of tables in an object store on the disk of this machine: Delta opens and writes these, and asks no store. A
# commit and a checkpoint never change under their names, so what was brought once stays. A log is followed by the names
# of its commits, and no prefix is listed. What Delta writes here becomes a commit by one write of the next name, which
# succeeds only where there is none (docs/adr/0155): it is for exactly the version that it was computed from, and every
# request goes through the one client and its tries.

CHECKPOINTS = 12
"""Commits after which a log gets a checkpoint, at the end of a command; twice as many are never without one. Whoever
opens a table reads the last one and the commits after it."""

IN_TURN = 10
"""Logs of a lake for which one checkpoint more is made at an end, those first that need it most: all of them grow at
the same time, and no run has to do it for all."""

CLEANINGS = 100
"""Commits between two clean-ups of a log; each lists it."""


KEPT = 30 * 86400.0
"""Seconds for which entries of a log stay that no later checkpoint needs, by the clock of the store."""

_LIVES = count()
_HINT = "_last_checkpoint"
_UNSEEN = b'{"commitInfo":{}}'
"""What stands for a commit of which only the checkpoint was read."""
_ENTRY = re.compile(r"(\d{20})\.(?:json|checkpoint(?:\.\d{10}\.\d{10})?\.parquet)")
_PARQUET = re.compile(r"[^\s/]+\.parquet")


class Mirror:
    """The log of one table. Threads share it; `lock` is held while it changes."""

    def __init__(self, path: ObjectPath, cache: objects.FileCache) -> None:
        self.lock = threading.RLock()
        self.folder = cache.file_of(path)  # the table on this machine, with what was read or written of its data files
        self.version = -1  # the newest known one; -1 without a table
        self.life = next(_LIVES)  # another one once another table has replaced this one
        self._path, self._cache, self._log_there = path, cache, path / "_delta_log"
        self._log = self.folder / "_delta_log"
        # when the newest known commit was last seen to be the last one, and to be there, s of the monotonic clock
        self._looked_at: float | None = None
        self._stood_at: float | None = None
        self._base = 0  # version of the checkpoint from which on the log is here; 0 if all of it is
        self._checked = 0  # version of the newest checkpoint
        self._tag = ""  # entity tag of the newest commit
        self._whole: set[int] = set()  # older versions that can be opened

    def look(self, again: bool = False, follow: bool = True) -> bool:
        """Brings what is new of the log; returns whether there is a table. Without `follow` a commit that is known, and
        is there, is enough, for who changes the table: the write of the next commit fails where there is one already.
        Raises OSError if the store fails."""
        with self.lock:
            now, looked, stood = time.monotonic(), self._looked_at, self._stood_at
            if looked is not None and not again and objects.is_recent(looked, self._path):
                return self.version >= 0
            if self.version >= 0 and stood is not None and now - stood >= objects.LOOK:
                if self._is_same():
                    self._stood_at = now
                else:
                    self._forget()
            if self.version < 0:
                # Commits behind what is packed are seldom; behind a checkpoint there are some.
                follow = not self._begin() or follow
                self._stood_at = now
            if follow or again:
                while self.version >= 0 and self._bring(self.version + 1):
                    self.version += 1
                self._stood_at = self._looked_at = now
            return self.version >= 0

    def _is_same(self) -> bool:
        found = objects.head(self._log_there / commit_name(self.version))
        return found is not None and (not self._tag or found["e_tag"] == self._tag)

    def _forget(self) -> None:
        """Forgets a table that was removed, or replaced by another one."""
        self.life = next(_LIVES)
        self.version, self._base, self._checked, self._tag, self._whole = -1, 0, 0, "", set()
        for file in self._log.glob("*"):
            file.unlink(missing_ok=True)

    def _begin(self) -> bool:
        """Brings the newest checkpoint, or the first commit; returns whether the pack of the lake has the log."""
        entry = _packed(self._path)
        if entry is not None and entry["version"] < 0:
            self.version = 0 if self._bring(0) else -1
            return False
        if entry is not None and self._unpack(entry):
            return True
        try:
            hint = json_value(objects.read(self._log_there / _HINT, limits.CHECKPOINT_HINT_BYTES + 1)[0])
            version, parts = int(hint["version"]), int(hint.get("parts") or 0)
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            version, parts = -1, 0  # it is only a hint
        if version >= 0 and self._bring_checkpoint(version, parts):
            self._begun(version)
            return False
        if self._bring(0):
            self.version = 0
            return False
        found = self._entries("")  # the log was cut, and the hint is gone: seldom, so a list is cheap enough
        for version in sorted({at for at, name in found if "checkpoint" in name}, reverse=True):
            names = [name for at, name in found if at == version and "checkpoint" in name]
            if all(map(self._fetch, names)):
                self._begun(version)
                break
        return False

    def _begun(self, version: int) -> None:
        self._base = self._checked = self.version = version
        hint = {"version": version, "size": 1}
        if parts := len([*self._log.glob(f"{version:020d}.checkpoint.*.*.parquet")]):
            hint["parts"] = parts
        (self._log / _HINT).write_text(json.dumps(hint))

    def _unpack(self, entry: Mapping[str, Any]) -> bool:
        """Takes the log from the pack of its lake, where its newest commit is still the one that was packed."""
        found = objects.head(self._log_there / commit_name(entry["version"]))
        if found is None or found["e_tag"] != entry["tag"]:
            return False
        for name, data in entry["files"].items():
            if _ENTRY.fullmatch(name):
                self._write(name, b64decode(data))
        if entry["base"]:
            if not self._bring_checkpoint(entry["base"]):
                return False
            self._begun(entry["base"])
        self.version, self._tag = entry["version"], entry["tag"]
        for name, data in entry["data"].items():
            with suppress(LakeError, ValueError):
                untrusted.require_names(self._path, [name])
                content = b64decode(data)
                if digests.said(name) == digests.of(content):  # so it is safe to believe, whoever wrote the pack
                    self._cache.place(self._path.joinpath(*name.split("/")), content)
        return True

    def here(self, table: DeltaTable, most: int) -> dict[str, int]:
        """Name -> bytes of the data files of an open table that are on this machine, and not larger."""
        files = table.get_add_actions()
        sizes = zip(files.column("path").to_pylist(), files.column("size_bytes").to_pylist(), strict=True)
        names = ((unquote(name), size) for name, size in sizes if size <= most)
        return {name: size for name, size in names if self._cache.has(self._path.joinpath(*name.split("/")))}

    def pack(self, rows: bool = False) -> dict[str, Any] | None:
        """Returns what `_begin` takes, with `rows` also small data files; None as long as that would be no help."""
        from deltalake import DeltaTable

        with self.lock:
            if self.version < 0 and self._looked_at is not None:
                return {"version": -1, "tag": "", "base": 0, "files": {}, "data": {}}
            base = self._checked
            names = [commit_name(at) for at in range(base + 1 if base else 0, self.version + 1)]
            if self.version < 0 or not self._tag or len(names) > 2 * CHECKPOINTS:
                return None
            try:
                files = {name: (self._log / name).read_bytes() for name in names}
            except FileNotFoundError:  # its copies went with the table, which was renamed or dropped
                return None
            checkpoint = self._log / f"{base:020d}.checkpoint.parquet"
            if base and checkpoint.exists() and checkpoint.stat().st_size <= limits.PACKED_CHECKPOINT_BYTES:
                files[checkpoint.name] = checkpoint.read_bytes()
            texts = {name: b64encode(data).decode() for name, data in files.items()}
            data, size = dict[str, str](), 0
            table = DeltaTable(str(self.folder), version=self.version) if rows else None
            for name, bytes_ in self.here(table, limits.PACKED_FILE_BYTES).items() if table is not None else ():
                if (size := size + bytes_) <= 2 * limits.PACKED_FILE_BYTES:
                    copy = self._cache.file_of(self._path.joinpath(*name.split("/")))
                    data[name] = b64encode(copy.read_bytes()).decode()
            return {"version": self.version, "tag": self._tag, "base": base, "files": texts, "data": data}

    def _bring_checkpoint(self, version: int, parts: int = 0) -> bool:
        names = [f"{version:020d}.checkpoint.parquet"]
        if parts:
            names = [f"{version:020d}.checkpoint.{at:010d}.{parts:010d}.parquet" for at in range(1, parts + 1)]
        return all(map(self._fetch, names))

    def _bring(self, version: int) -> bool:
        """Brings a commit; whether it exists."""
        try:
            data, tag = objects.read(self._log_there / commit_name(version), limits.LOG_COMMIT_BYTES + 1)
        except FileNotFoundError:
            return False
        self._write(commit_name(version), data)
        if version >= self.version:
            self._tag = tag
        return True

    def _fetch(self, name: str) -> bool:
        target = self._log / name
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                objects.download(self._log_there / name, target)
            except FileNotFoundError:
                return False
        return True

    def _write(self, name: str, data: bytes) -> None:
        self._log.mkdir(parents=True, exist_ok=True)
        part = self._log / f"{name}.part"
        part.write_bytes(data)
        os.replace(part, self._log / name)

    def _entries(self, behind: str) -> list[tuple[int, str]]:
        """Lists version and name of entries of the log whose names come behind one."""
        names = (path.name for path, _ in objects.entries(self._log_there, behind))
        return [(int(found[1]), name) for name in names if (found := _ENTRY.fullmatch(name))]

    def entry(self, version: int) -> bytes:
        """Returns the content of a commit. Raises OSError if there is none, or the store fails."""
        name = commit_name(version)
        with suppress(FileNotFoundError):
            if version <= self.version and (data := (self._log / name).read_bytes()) != _UNSEEN:
                return data
        data, _ = objects.read(self._log_there / name)
        if self._base <= version <= self.version:
            self._write(name, data)
        return data

    def reach(self, version: int) -> None:
        """Brings what is needed to open an older version, if it is there."""
        with self.lock:
            if not self.look(again=version > self.version) or version >= self._base or version in self._whole:
                return
            found = self._entries(f"{max(0, version - 2 * CHECKPOINTS):020d}")
            before = [at for at, name in found if "checkpoint" in name and at <= version]
            if not before and version > 2 * CHECKPOINTS:
                found = self._entries("")
                before = [at for at, name in found if "checkpoint" in name and at <= version]
            first = max(before, default=0)
            for at, name in found:
                if first <= at <= version and ("checkpoint" in name) == (at == first and bool(before)):
                    self._fetch(name)
            self._whole.add(version)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Holds the log while Delta changes it here; what was not put into the store is taken back at the end."""
        with self.lock:
            if self.version >= 0 and not self.holds(self.version):
                # Delta writes only after a commit that it can see; what it did is in the checkpoint.
                self._write(commit_name(self.version), _UNSEEN)
            try:
                yield
            finally:
                for file in self._log.glob("*.json"):
                    if file.stem.isdigit() and int(file.stem) > self.version:
                        file.unlink()

    def change(self, work: Callable[[], object]) -> None:
        """Lets Delta do something here; a data file that it reads and that is not here is brought, and it begins again.
        Raises what Delta raises."""
        brought: set[str] = set()
        while True:
            try:
                work()
                return
            except Exception as error:
                names = {name for name in _PARQUET.findall(str(error)) if "not found" in str(error)} - brought
                if not names or not self._bring_named(names):
                    raise
                brought |= names

    def _bring_named(self, names: set[str]) -> bool:
        from deltalake import DeltaTable

        live = DeltaTable(str(self.folder), version=self.version).get_add_actions().column("path").to_pylist()
        found = [unquote(path) for path in live if unquote(path).rpartition("/")[2] in names]
        for name in found:
            self._cache.fetch(self._path.joinpath(*name.split("/")))
        return bool(found)

    def holds(self, version: int) -> bool:
        """Whether a commit is here."""
        return (self._log / commit_name(version)).exists()

    def put(self, version: int) -> bool:
        """Puts a commit that Delta has written here into the store; False if another commit has its number.
        Raises LakeError if it names a file outside of the table, and OSError if the store fails; then it is unknown
        whether the commit is there."""
        file = self._log / commit_name(version)
        data = file.read_bytes()
        actions = [json.loads(line) for line in data.splitlines() if line.strip()]
        names = [unquote(action["add"]["path"]) for action in actions if "add" in action]
        untrusted.require_names(self._path, names)
        for name in names:
            target = self._path.joinpath(*name.split("/"))
            copy = self._cache.file_of(target)
            if copy.exists() and not self._cache.has(target):  # else it is in the store already
                objects.upload(target, copy)
                self._cache.keep(target, copy)
        self._looked_at = self._stood_at = None  # until it is known what became of it
        try:
            self._tag = objects.make(self._log_there / file.name, data)
        except objects.ChangedError:
            file.unlink()
            self.look(again=True)
            return False
        self.version = version
        self._looked_at = self._stood_at = time.monotonic()
        return True

    @property
    def behind(self) -> int:
        """Commits after the newest checkpoint."""
        return self.version - self._checked

    def keep_up(self, most: int = 2 * CHECKPOINTS) -> None:
        """Makes a checkpoint once so many commits are without one, and cleans the log. A store that fails is left
        alone: the commits are there, and the next checkpoint does the same."""
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        with self.lock, suppress(OSError, DeltaError):
            if self.behind < most:
                return
            DeltaTable(str(self.folder), version=self.version).create_checkpoint()
            name = f"{self.version:020d}.checkpoint.parquet"
            objects.upload(self._log_there / name, self._log / name)
            objects.write(self._log_there / _HINT, (self._log / _HINT).read_bytes())
            before, self._checked = self._checked, self.version
            if before // CLEANINGS < self.version // CLEANINGS:
                self._clean()

    def _clean(self) -> None:
        """Removes old entries that no version of the last KEPT seconds needs. No pack that says that there is no table
        stands any more: who has it asks for the first commit only."""
        if lake := _lake_of(self._path):
            drop_pack(lake)
        written = {}
        for path, entry in objects.entries(self._log_there):
            if found := _ENTRY.fullmatch(path.name):
                written[path] = int(found[1]), entry["last_modified"].timestamp()
        limit = max((at for _, at in written.values()), default=0.0) - KEPT
        whole = (version for path, (version, at) in written.items() if "checkpoint" in path.name and at <= limit)
        first = max(whole, default=0)
        objects.delete([path for path, (version, _) in written.items() if version < first])


_LAKES: set[ObjectPath] = set()
_PACK = "_logs"
"""Object of a lake with the newest checkpoints and commits of its tables, and small files of ledgers that runs read:
who opens ten of them asks for it once. It tells nothing that the logs do not: its commits and files never change, and
a table of which the newest commit is another is opened without it. Of one that was not there it says so: then only
the first commit is asked for, which goes no earlier than KEPT later (`Mirror._clean`)."""


def know(lake: PurePath) -> None:
    """Notes that a prefix of a store is a lake, whose tables have one pack of logs."""
    if isinstance(lake, ObjectPath):
        _LAKES.add(lake)


_PACKS: dict[PurePath, tuple[float, dict[str, Any]]] = {}
"""Lake -> when its pack was read, s of the monotonic clock, and what it has."""


def _packed(path: ObjectPath) -> dict[str, Any] | None:
    lake = _lake_of(path)
    return None if lake is None else _read_pack(lake).get(path.relative_to(lake).as_posix())


def _lake_of(path: ObjectPath) -> ObjectPath | None:
    return next((place for place in path.parents if place in _LAKES), None)


def _read_pack(lake: ObjectPath, most: float = objects.LOOK) -> dict[str, Any]:
    """Returns a pack as it was at most so many seconds ago: an older one than the logs costs requests only."""
    at, logs = _PACKS.get(lake, (-inf, {}))
    now = time.monotonic()
    if now - at >= most:
        try:
            found = json_value(objects.read(lake / _PACK)[0])["logs"]
            logs = {str(name): _entry_of(entry) for name, entry in found.items()}
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            logs = {}
        _PACKS[lake] = now, logs
    return logs


def _entry_of(values: Mapping[str, Any]) -> dict[str, Any]:
    files, rows = ({str(name): str(data) for name, data in values.get(kind, {}).items()} for kind in ("files", "data"))
    numbers = {"version": int(values["version"]), "tag": str(values["tag"]), "base": int(values["base"])}
    return {**numbers, "files": files, "data": rows}


def pack_logs(lake: PurePath, read: Container[PurePath] = ()) -> None:
    """Puts what this process knows of the logs of a lake into its pack, at the end of what changed them, with small
    data files of those that are `read` often; those logs that need it most get checkpoints before. A store that fails
    is left alone: the pack saves requests only."""
    if not isinstance(lake, ObjectPath):
        return
    logs_here = sorted((mirror for _, mirror in _known(lake)), key=lambda mirror: -mirror.behind)
    for mirror in logs_here[: 1 + len(logs_here) // IN_TURN]:
        mirror.keep_up(CHECKPOINTS)
    own = {path.relative_to(lake).as_posix(): mirror.pack(path in read) for path, mirror in _known(lake)}
    with suppress(OSError):
        logs = {**_read_pack(lake, inf), **{name: entry for name, entry in own.items() if entry is not None}}
        objects.write(lake / _PACK, json.dumps({"logs": logs}).encode())
        _PACKS[lake] = time.monotonic(), logs


def drop_pack(lake: PurePath) -> None:
    """Removes the pack of a lake, which may have what was taken out of its tables.
    Raises OSError if the store fails."""
    if isinstance(lake, ObjectPath):
        objects.delete([lake / _PACK])
        _PACKS.pop(lake, None)


def _known(lake: ObjectPath) -> list[tuple[ObjectPath, Mirror]]:
    mine = os.getpid()
    mirrors = [*_MIRRORS.items()]  # other threads make some meanwhile
    return [(path, mirror) for (path, process), mirror in mirrors if process == mine and lake in path.parents]


def mirror_of(path: ObjectPath) -> Mirror:
    """The log of a table on this machine, for this process."""
    key = path, os.getpid()  # a process that forked has a disk of its own
    with _MAKING:
        if key not in _MIRRORS:
            _MIRRORS[key] = mirror = Mirror(path, objects.file_cache())
            _ADDRESSES[str(mirror.folder)] = str(path)
        return _MIRRORS[key]


_MAKING = threading.Lock()
_MIRRORS: dict[tuple[ObjectPath, int], Mirror] = {}
_ADDRESSES: dict[str, str] = {}


def address(folder: str) -> str:
    """Returns the address of the table whose log is in a folder of this machine; the folder of another table."""
    return _ADDRESSES.get(folder, folder)


# Cache of open Delta tables: a thread reads each commit once, however often it asks for a table. A run asks a hundred
# times for one of fifteen tables, and reading a whole log takes up to 20 ms. A table object changes when it follows the
# log, so every thread has its own.

T = TypeVar("T")


@dataclass(slots=True)
class _Opened:
    """An open table."""

    table: DeltaTable
    # of the log entry of its version, which differs if another table replaces this one; in an object store the life of
    # its mirror
    state: paths.FileState | int


class _Open(threading.local):
    def __init__(self) -> None:
        self.tables: OrderedDict[PurePath, _Opened] = OrderedDict()


class ValuesByState:
    """Values that threads share, each kept as long as the state that it was computed from is the same; of more than
    `most` those go that were computed longest ago."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, tuple[object, Any]] = OrderedDict()

    def get(self, key: Hashable, state: object, compute: Callable[[], T]) -> T:
        """Returns the value of a key; computes it if its state is another one. Nobody changes the value."""
        with self._lock:
            kept = self._kept.get(key)
        if kept is not None and kept[0] == state:
            known: T = kept[1]
            return known
        value = compute()
        with self._lock:
            self._kept[key] = state, value
            self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return value


_OPEN = _Open()
_VALUES = ValuesByState(limits.OPEN_TABLES)


def _open(path: PurePath, version: int | None = None, mirror: Mirror | None = None) -> DeltaTable:
    """Opens a table, the one place where Delta reads a log from its beginning; that of a store from its mirror.
    Raises LakeError if the log, or the table, is none of a lake."""
    from deltalake import DeltaTable

    folder = path if mirror is None else mirror.folder
    untrusted.require_plain_folder(path)
    untrusted.require_plain_folder(path / "_delta_log")
    with _named(folder, path):
        require_modest_log(folder, version)
    table = DeltaTable(str(folder), version=version)
    require_plain_table(path, table)
    return table


@contextmanager
def _named(folder: PurePath, path: PurePath) -> Iterator[None]:
    """Lets errors about the mirror of a log name the table in its store."""
    try:
        yield
    except LakeError as error:
        if folder == path:
            raise
        raise LakeError(error.message.replace(str(folder), str(path)), error.hint) from None


def newest(path: PurePath, follow: bool = True) -> DeltaTable | None:
    """Returns a table at its newest version, in an object store the one that was seen lately (LOOK), or without
    `follow` one that is known (`Mirror.look`); None without one. The next call in this thread may update the object."""
    from deltalake.exceptions import TableNotFoundError

    if isinstance(path, ObjectPath):
        return _mirrored(mirror_of(path), path, follow)
    opened = _OPEN.tables.pop(path, None)
    if opened is None or paths.state(commit_file(path, opened.table.version())) != opened.state:
        if not (paths.exists(path) or os.path.islink(path)):
            return None
        try:
            table = _open(path)
        except TableNotFoundError:
            return None
        keep(path, table)
        paths.note_absent(commit_file(path, table.version() + 1))
        return table
    if paths.exists(commit_file(path, opened.table.version() + 1)):
        require_modest_commits(path, opened.table.version())
        opened.table.update_incremental()
        require_plain_table(path, opened.table)
        keep(path, opened.table)
    else:
        _put(path, opened)
    return opened.table


def _mirrored(mirror: Mirror, path: PurePath, follow: bool) -> DeltaTable | None:
    with mirror.lock:
        if not mirror.look(follow=follow):
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
    return not isinstance(path, ObjectPath) or (path, os.getpid()) in _MIRRORS


def existing(path: PurePath, follow: bool = True) -> DeltaTable:
    """Returns a table as `newest` does. Raises TableNotFoundError if there is none."""
    from deltalake.exceptions import TableNotFoundError

    if (table := newest(path, follow)) is None:
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
    Raises DeltaError if it cannot be made, and OSError if the store fails."""
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
    """Lets Delta change an open table, which `existing` gave to this thread, by work that commits once, or not at all;
    of one in an object store the change is in the store afterwards, or nothing is.
    Raises CommitFailedError if another writer was faster, DeltaError if Delta fails, and OSError if the store fails;
    then it is unknown whether the commit is there."""
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
    """Returns the content of a commit. Raises OSError if it is not, or no longer, in the log, or cannot be read."""
    return mirror_of(path).entry(version) if isinstance(path, ObjectPath) else paths.read(commit_file(path, version))


def table_address(table: DeltaTable) -> str:
    """Returns the folder or the address of a table, as messages name it."""
    return address(table.table_uri.removeprefix("file://").rstrip("/"))


def log_folder(path: PurePath) -> PurePath:
    """Returns the folder with the newest checkpoint of an open table; of one in an object store that of its mirror."""
    return (mirror_of(path).folder if isinstance(path, ObjectPath) else path) / "_delta_log"


def keep(path: PurePath, table: DeltaTable) -> None:
    """Caches a table that was just read or committed to."""
    state = mirror_of(path).life if isinstance(path, ObjectPath) else paths.state(commit_file(path, table.version()))
    if state is not None:  # without one the log is gone, or was cut
        _put(path, _Opened(table, state))


def _put(path: PurePath, opened: _Opened) -> None:
    _OPEN.tables[path] = opened
    while len(_OPEN.tables) > limits.OPEN_TABLES:
        _OPEN.tables.popitem(last=False)


def forget(path: PurePath) -> None:
    """Removes a table from the cache: after a failed commit its state is unknown."""
    _OPEN.tables.pop(path, None)


def cached_value(path: PurePath, key: Hashable, compute: Callable[[DeltaTable | None], T]) -> T:
    """Returns a value computed from the newest version of a table, None without one; computes it again only if the
    table has changed. The key identifies the function and its arguments. Nobody changes the value."""
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


def commit_file(path: PurePath, version: int) -> PurePath:
    """Returns the file of a commit in the log of a table."""
    return path / "_delta_log" / commit_name(version)


def commit_name(version: int) -> str:
    """Returns the name of a commit in a log."""
    return f"{version:020d}.json"
