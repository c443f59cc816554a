"""Tries what a lake needs of its store, or of its disk: it writes, reads, lists, races, times, and cleans up.

`lowwater doctor --lake` prints what it finds; docs/object-stores.md says why each is needed.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TypeVar

from lowwater import processes
from lowwater.errors import LakeError
from lowwater.limits import STORE_PIECE_BYTES
from lowwater.storage import locks, objects
from lowwater.storage.failures import StoreError
from lowwater.storage.object_paths import ObjectPath
from lowwater.storage.untrusted import know, require_inside

FOLDER = "_doctor"  # folder of a lake in which all of it happens
RACERS, ROUNDS = 8, 5  # writers at once of one name, and how often they meet
TIMES = 10  # times that a thing is tried that a store may do late
PATIENCE = 10.0  # seconds to wait for what is late
APART = 60.0  # seconds by which two clocks may differ without a word

ODD = ("a b+c", "d%2Fe%20f=g", "h~!$&'()*,;:@[]", "i\u00e9", "i\u0065\u0301", "I\u00e9", "\u65e5\u672c", "j" * 200)
"""Names that must stay what they are, byte for byte: two of them look alike, and two differ by a capital letter."""

PARTS, PART = 3, 5 << 20  # parts of a large file, and the bytes of each: the least that stores take
FREE = 5 << 30  # free bytes below which a disk is told

T = TypeVar("T")
OK, WARNING, MISSING = "ok", "warning", "missing"
"""States of a finding; only `missing` keeps a lake from being sound."""


@dataclass(frozen=True)
class Finding:
    """What was found about one thing that a lake needs."""

    name: str
    state: str  # whether it is there
    found: str
    then: str = ""  # what of Lowwater does not hold without it; empty where it is there
    seconds: tuple[float, ...] = ()  # how long each request or step took, s

    @property
    def timing(self) -> str:
        """Median and longest time, ms; empty without one."""
        if not self.seconds:
            return ""
        return f"{statistics.median(self.seconds) * 1000:,.1f} / {max(self.seconds) * 1000:,.1f}"


class _Clock:
    """Times of one thing."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def __call__(self, step: Callable[[], T]) -> T:
        begun = time.monotonic()
        try:
            return step()
        finally:
            self.seconds.append(time.monotonic() - begun)


Probe = Callable[[_Clock], str]
"""Tries one thing; returns what it saw, and raises `_Missing` where the thing is not there."""


class _Missing(Exception):
    """A thing that a lake needs is not there; the text says what was seen."""


class _Doubtful(Exception):
    """A thing is not as it should be, and a lake works nevertheless."""


def _found(name: str, then: str, probe: Probe) -> Finding:
    clock, state = _Clock(), MISSING
    try:
        state, seen = OK, probe(clock)
    except _Missing as missing:
        state, seen = MISSING, str(missing)
    except _Doubtful as doubtful:
        state, seen = WARNING, str(doubtful)
    except FileNotFoundError:
        state, seen = MISSING, "what was just written is not there"
    except objects.ChangedError:
        state, seen = MISSING, "a condition that holds was refused"
    except OSError as error:
        state, seen = MISSING, error.strerror or str(error)
    return Finding(name, state, seen, "" if state == OK else then, tuple(clock.seconds))


def findings(root: PurePath) -> Iterator[Finding]:
    """Tries everything that a lake needs, one after the other, below `_doctor` of the lake alone; nothing needs to be
    there but the bucket, or the folder.
    Raises LakeError if nothing can be tried: there is no such folder or bucket, the store refuses the keys, or a link
    leads out of the lake."""
    if isinstance(root, ObjectPath):
        yield from _of_store(root / FOLDER / uuid.uuid4().hex[:12])
        return
    folder = Path(root)
    if not folder.is_dir():
        raise LakeError(f"{root}: there is no such folder", "name the folder of the lake, or make it: mkdir -p")
    know(folder)
    require_inside(folder / FOLDER)
    try:
        (folder / FOLDER).mkdir(exist_ok=True)
        own = Path(tempfile.mkdtemp(dir=folder / FOLDER))
    except OSError as error:
        hint = "`status`, `rows` and `report` need no more; for everything else use a folder that you may write"
        raise LakeError(f"{root}: cannot be written: {error.strerror}", hint) from None
    try:
        for name, then, probe in _Disk(own).probes():
            yield _found(name, then, probe)
    finally:
        shutil.rmtree(own, ignore_errors=True)
        with suppress(OSError):  # another doctor is at work
            (folder / FOLDER).rmdir()


def _of_store(home: ObjectPath) -> Iterator[Finding]:
    try:
        objects.write(home / "first", b"first")
    except StoreError as error:
        if "does not allow" not in error.message:
            raise
        objects.below(home)
        yield Finding("write", MISSING, error.message, "the keys may only read: `status`, `rows` and `report`")
        return
    store = _Store(home)
    try:
        for name, then, probe in store.probes():
            yield _found(name, then, probe)
    finally:
        with suppress(OSError):
            objects.delete(list({*objects.below(home), *store.made}))


class _Store:
    """Probes of a store."""

    def __init__(self, home: ObjectPath) -> None:
        self._home = home
        self.made: list[ObjectPath] = [home / "first"]  # objects that a list may not show

    def probes(self) -> list[tuple[str, str, Probe]]:
        """Name of each thing, what does not hold without it, and how it is tried."""
        tables = "tables of Delta lose commits, and two runs may publish at once"
        return [
            ("write, then read", "nothing that is written can be relied on", self._write),
            ("overwrite, then read", "settings, locks and positions may be read as they were before", self._overwrite),
            ("write, then list", "tables show old versions, and files are missed", self._list),
            ("list from a name on", "each commit reads the whole log of its table", self._list_behind),
            ("create, if absent", tables, self._create),
            ("replace, if unchanged", "two processes may hold one lock, and write over each other", self._replace),
            ("delete", "`maintain` frees no room, and locks stay", self._delete),
            ("copy", "results cannot be taken to their place", self._copy),
            ("large files in parts", f"files above {STORE_PIECE_BYTES >> 20} MiB cannot be written", self._parts),
            ("read a range", "captures in the store cannot be read", self._range),
            ("names, byte for byte", "links and groups with such names are lost, or mixed up", self._names),
            ("clock", "requests are refused from a quarter of an hour on, and ages of files are wrong", self._clock),
        ]

    def _at(self, name: str) -> ObjectPath:
        path = self._home / name
        self.made.append(path)
        return path

    def _write(self, clock: _Clock) -> str:
        for number in range(TIMES):
            path, data = self._at(f"written {number}"), os.urandom(1000)
            clock(lambda path=path, data=data: objects.write(path, data))  # type: ignore[misc]
            if objects.read(path)[0] != data:
                raise _Missing("other bytes are read than were written")
        return f"{TIMES} objects"

    def _overwrite(self, clock: _Clock) -> str:
        path = self._at("overwritten")
        tags = set()
        for number in range(TIMES):
            data = b"%d" % number
            objects.write(path, data)
            seen, tag = clock(lambda: objects.read(path))
            tags.add(tag)
            if seen != data:
                raise _Missing(f"version {seen!r} is read after {data!r}: late by {self._until(path, data)}")
        if len(tags) != TIMES or "" in tags:
            raise _Missing("versions of an object have the same entity tag, or none")
        return f"{TIMES} versions"

    def _until(self, path: ObjectPath, data: bytes) -> str:
        begun = time.monotonic()
        while time.monotonic() - begun < PATIENCE:
            if objects.read(path)[0] == data:
                return f"{time.monotonic() - begun:.1f} s"
            time.sleep(0.1)
        return f"more than {PATIENCE:g} s"

    def _list(self, clock: _Clock) -> str:
        folder = self._home / "listed"
        for number in range(TIMES):
            path = self._at(f"listed/{number:02}")
            objects.write(path, b"")
            begun = time.monotonic()
            while path not in clock(lambda: objects.below(folder)):
                if time.monotonic() - begun > PATIENCE:
                    raise _Missing(f"an object is not listed within {PATIENCE:g} s")
                time.sleep(0.1)
            if time.monotonic() - begun > 0.1 and len(clock.seconds) > number + 1:
                raise _Missing(f"an object is listed {time.monotonic() - begun:.1f} s after it was written")
        folders, files = objects.children(folder)
        if folders or len(files) != TIMES:
            raise _Missing(f"a list with a delimiter has {len(files)} of {TIMES} objects")
        objects.delete([folder / f"{number:02}" for number in range(TIMES)])
        if left := objects.below(folder):
            raise _Missing(f"{len(left)} objects are listed after they were removed")
        return f"{TIMES} objects"

    def _list_behind(self, clock: _Clock) -> str:
        for name in ("behind/1", "behind/2", "behind/3"):
            objects.write(self._at(name), b"")
        folder, behind = f"{self._home.key}/behind/", f"{self._home.key}/behind/1"

        def ask() -> list[str]:
            with objects.store_errors():
                pages = objects.store(self._home).list(prefix=folder, offset=behind)
                return [entry["path"].rpartition("/")[2] for page in pages for entry in page]

        names = clock(ask)
        if sorted(names) != ["2", "3"]:
            raise _Doubtful(f"objects {', '.join(names) or 'none'} are listed behind the first of three")
        return "two of three objects"

    def _race(self, clock: _Clock, path: ObjectPath, version: objects.Version | None) -> list[bytes]:
        """Lets writers change an object at once, each if nobody did; returns what the winners wrote."""
        data = [f"{number} {uuid.uuid4().hex}".encode() for number in range(RACERS)]

        def write(number: int) -> None:
            clock(lambda: objects.swap(path, data[number], version))

        return [data[number] for number in _race(write, objects.ChangedError)]

    def _one_winner(self, path: ObjectPath, winners: list[bytes]) -> None:
        if len(winners) != 1:
            raise _Missing(f"{len(winners)} of {RACERS} writers at once succeeded, not one")
        if objects.read(path)[0] != winners[0]:
            raise _Missing("a writer succeeded, and what another one wrote is there")

    def _create(self, clock: _Clock) -> str:
        for number in range(ROUNDS):
            path = self._at(f"created {number}")
            self._one_winner(path, self._race(clock, path, None))
            try:
                objects.swap(path, b"again", None)
            except objects.ChangedError:
                continue
            raise _Missing("an object that is there was created once more")
        return f"one of {RACERS} writers at once, {ROUNDS} times"

    def _replace(self, clock: _Clock) -> str:
        path = self._at("replaced")
        version = objects.swap(path, b"0", None)
        for _ in range(ROUNDS):
            self._one_winner(path, self._race(clock, path, version))
            with suppress(objects.ChangedError):
                objects.swap(path, b"late", version)
                raise _Missing("an object was replaced by a writer that had seen an older version")
            version = objects.read(path)[1]
        return f"one of {RACERS} writers at once, {ROUNDS} times"

    def _delete(self, clock: _Clock) -> str:
        for number in range(3):
            path = self._at(f"removed {number}")
            objects.write(path, b"x")
            clock(lambda path=path: objects.delete([path]))  # type: ignore[misc]
            if objects.head(path) is not None:
                raise _Missing("an object is there after it was removed")
            objects.delete([path])  # one that is gone is no error
        return "3 objects"

    def _copy(self, clock: _Clock) -> str:
        source, target, data = self._at("copied from"), self._at("copied to"), os.urandom(1000)
        objects.write(source, data)
        clock(lambda: objects.copy(source, target))
        if objects.read(target)[0] != data:
            raise _Missing("a copy has other bytes")
        return "by the store"

    def _parts(self, clock: _Clock) -> str:
        path, size = self._at("in parts"), PARTS * PART - 17
        with tempfile.NamedTemporaryFile() as file:
            file.write(os.urandom(PART) * PARTS)
            file.truncate(size)
            file.flush()

            def put() -> None:
                with objects.store_errors():
                    objects.store(path).put(path.key, Path(file.name), chunk_size=PART)

            clock(put)
            target = Path(f"{file.name}.back")
            try:
                objects.download(path, target)
                same = target.read_bytes() == Path(file.name).read_bytes()
            finally:
                target.unlink(missing_ok=True)
        if not same:
            raise _Missing("other bytes are read than were written")
        return f"{size / (1 << 20):.0f} MiB in {PARTS} parts"

    def _range(self, clock: _Clock) -> str:
        path, data = self._at("range"), os.urandom(100_000)
        objects.write(path, data)
        version = objects.read(path)[1]
        for start, size in ((0, 1), (99_999, 1), (1, 50_000), (4_096, 65_536)):
            seen = clock(lambda start=start, size=size: objects.read_range(path, start, size, version))  # type: ignore[misc]
            if seen != data[start : start + size]:
                raise _Missing(f"bytes {start} to {start + size} are others")
        objects.write(path, data[::-1])
        try:
            objects.read_range(path, 0, 1, version)
        except StoreError:
            return "4 ranges; one of a replaced object is refused"
        raise _Doubtful("a range of an object that was replaced is given out as one of the old version")

    def _names(self, clock: _Clock) -> str:
        for name in ODD:
            objects.write(self._at(f"odd/{name}"), name.encode())
        folder = self._home / "odd"
        listed = {path.key.removeprefix(f"{folder.key}/") for path in clock(lambda: objects.below(folder))}
        return _lost_names(
            [name for name in ODD if name not in listed or objects.read(folder / name)[0] != name.encode()]
        )

    def _clock(self, clock: _Clock) -> str:
        path = self._at("clock")
        before = time.time()
        clock(lambda: objects.write(path, b""))
        after = time.time()
        stored = objects.head(path)
        if stored is None:
            raise FileNotFoundError
        return _clocks(before, after, stored["last_modified"].timestamp(), 1.0, "the store")


def _race(step: Callable[[int], object], refused: type[Exception]) -> list[int]:
    """Lets threads do a step at once that only one may do; returns the numbers of those that were not refused."""
    ready, winners = threading.Barrier(RACERS), list[int]()

    def run(number: int) -> None:
        ready.wait()
        with suppress(refused):
            step(number)
            winners.append(number)

    with ThreadPoolExecutor(RACERS) as pool:
        list(pool.map(run, range(RACERS)))
    return winners


def _lost_names(lost: list[str]) -> str:
    """Says whether names stayed what they are."""
    if lost:
        raise _Missing(f"{len(lost)} of {len(ODD)} are lost or changed: {', '.join(map(ascii, lost[:3]))}")
    return f"{len(ODD)} names"


def _clocks(before: float, after: float, told: float, grain: float, who: str) -> str:
    """Compares the time of a write with the clock of this machine before and after it, s since the epoch."""
    early, late = before - grain - told, told - after - grain
    off = max(early, late, 0.0)
    if off < APART:
        return f"{who} agrees with this machine" + (f", but for {off:.1f} s" if off >= 1 else "")
    text = f"{who} is {off:,.0f} s {'behind' if early > late else 'ahead of'} this machine"
    raise _Missing(text) if off >= 15 * APART else _Doubtful(text)


_HOLDER = """
import fcntl, os, sys, time
handle = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(handle, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(60)
"""


class _Disk:
    """Probes of an empty folder of the lake."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def probes(self) -> list[tuple[str, str, Probe]]:
        """Name of each thing, what does not hold without it, and how it is tried."""
        return [
            ("file system", "a lake there is for one machine at a time: mount it with locks of the server", self._kind),
            ("write, then read", "nothing that is written can be relied on", self._write),
            ("locks", "two runs may publish at once: one machine at a time, or an object store", self._locks),
            ("create, if absent", "tables of Delta lose commits", self._create),
            ("links of files", "tables of Delta lose commits, which are made by them", self._links),
            ("rename over a file", "readers see parts of files", self._rename),
            ("write, then list", "tables show old versions, and files are missed", self._list),
            ("names, byte for byte", "links and groups with such names are lost, or mixed up", self._names),
            ("free space", "a run that finds no room ends, and what was published stays", self._free),
            ("clock", "ages of files are wrong, by which `maintain` decides what to remove", self._clock),
        ]

    def _kind(self, clock: _Clock) -> str:
        best, kind, local = "", "unknown", ""
        place = os.path.realpath(self._home)
        with suppress(OSError), open("/proc/self/mounts", encoding="utf-8", errors="replace") as mounts:
            for line in mounts:
                source, folder, name, options, *_ = line.split(" ")
                folder = folder.replace("\\040", " ")
                if (place == folder or place.startswith(folder.rstrip("/") + "/")) and len(folder) >= len(best):
                    best, kind = folder, f"{name}, {source}"
                    own = {"nolock", "local_lock=all", "local_lock=flock", "nobrl"} & {*options.split(",")}
                    local = next(iter(own), "")
        if local:
            raise _Doubtful(f"{kind}: locks are of this machine alone ({local})")
        return kind

    def _write(self, clock: _Clock) -> str:
        for number in range(TIMES):
            path, data = self._home / f"written {number}", os.urandom(1000)

            def write(path: Path = path, data: bytes = data) -> None:
                with path.open("wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())

            clock(write)
            if path.read_bytes() != data:
                raise _Missing("other bytes are read than were written")
        return f"{TIMES} files, each forced to the disk"

    def _locks(self, clock: _Clock) -> str:
        path = self._home / "lock"
        command = processes.python("-c", _HOLDER, str(path), alone=True)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as holder:
            try:
                assert holder.stdout is not None
                if not holder.stdout.readline():
                    raise _Missing("a lock of a file cannot be taken (flock)")
                try:
                    with locks.hold_file(path):
                        raise _Missing("two processes hold one lock (flock)")
                except locks.HeldError:
                    pass
            finally:
                holder.kill()
        begun = time.monotonic()
        while time.monotonic() - begun < PATIENCE:
            try:
                with locks.hold_file(path):
                    return "one of two processes; free once its process is dead"
            except locks.HeldError:
                time.sleep(0.05)
        raise _Missing("a lock stays after its process was killed")

    def _create(self, clock: _Clock) -> str:
        for number in range(ROUNDS):
            path = self._home / f"created {number}"
            won = len(_race(lambda _, path=path: clock(lambda: path.open("xb").close()), FileExistsError))  # type: ignore[misc]
            if won != 1:
                raise _Missing(f"{won} of {RACERS} writers at once succeeded, not one")
        return f"one of {RACERS} writers at once, {ROUNDS} times"

    def _links(self, clock: _Clock) -> str:
        for racer in range(RACERS):
            (self._home / f"draft {racer}").write_bytes(b"%d" % racer)
        for number in range(ROUNDS):
            path = self._home / f"linked {number}"

            def link(racer: int, path: Path = path) -> None:
                clock(lambda: os.link(self._home / f"draft {racer}", path))

            try:
                won = len(_race(link, FileExistsError))
            except OSError as error:
                raise _Missing(f"a file cannot have two names: {error.strerror}") from None
            if won != 1 or path.stat().st_nlink < 2:
                raise _Missing(f"{won} of {RACERS} links at once succeeded, not one, or they are not counted")
        return f"one of {RACERS} at once, {ROUNDS} times; counted"

    def _rename(self, clock: _Clock) -> str:
        path, over, torn = self._home / "renamed", threading.Event(), list[str]()
        versions = [letter * 4096 for letter in (b"a", b"b")]
        path.write_bytes(versions[0])

        def read() -> None:
            while not over.is_set():
                try:
                    if path.read_bytes() not in versions:
                        torn.append("a reader saw a part of a file")
                except OSError as error:
                    torn.append(f"a reader saw no file: {error.strerror}")

        reader = threading.Thread(target=read)
        reader.start()
        try:
            for number in range(20 * TIMES):
                draft = self._home / "renamed.new"
                draft.write_bytes(versions[number % 2])
                clock(lambda draft=draft: os.replace(draft, path))  # type: ignore[misc]
        finally:
            over.set()
            reader.join()
        if torn:
            raise _Missing(torn[0])
        return f"{20 * TIMES} times, beside a reader"

    def _list(self, clock: _Clock) -> str:
        folder = self._home / "listed"
        folder.mkdir()
        for number in range(TIMES):
            (folder / str(number)).touch()
            if str(number) not in clock(lambda: os.listdir(folder)):
                raise _Missing("a file is not listed after it was written")
        return f"{TIMES} files"

    def _names(self, clock: _Clock) -> str:
        folder = self._home / "odd"
        folder.mkdir()
        for name in ODD:
            with suppress(OSError):
                (folder / name).write_text(name, encoding="utf-8")
        names = clock(lambda: os.listdir(folder))
        return _lost_names(
            [name for name in ODD if name not in names or (folder / name).read_text(encoding="utf-8") != name]
        )

    def _free(self, clock: _Clock) -> str:
        usage, status = shutil.disk_usage(self._home), os.statvfs(self._home)
        text = f"{usage.free / (1 << 30):.1f} of {usage.total / (1 << 30):.1f} GiB"
        if status.f_files:
            text += f", {status.f_favail:,} files"
        if usage.free < FREE or (status.f_files and status.f_favail < 10_000):
            raise _Doubtful(text)
        return text

    def _clock(self, clock: _Clock) -> str:
        path, before = self._home / "clock", time.time()
        clock(path.touch)
        return _clocks(before, time.time(), path.stat().st_mtime, 0.1, "the disk")
