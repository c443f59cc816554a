"""Reads, writes, lists and removes the files of a lake; no other module opens, moves or lists them.

A path of a lake is a `PurePath`, which cannot open anything by itself: a `Path` of a folder on this machine, or an
`ObjectPath` of an object store. Captures, queries and temporary files are local files, and not the business of this
module.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
import threading
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from lowwater import caches
from lowwater.limits import COMPARED_BYTES, STORE_PIECE_BYTES, STORE_READS
from lowwater.storage import digests, failures, objects, untrusted
from lowwater.storage.object_paths import ObjectPath, parse

if TYPE_CHECKING:
    from lowwater.storage import locks

OTHERS = stat.S_IRWXO | stat.S_IWGRP  # rights that no new file gives
WHOLE = "_whole"  # name of the object that says that all others of a folder are there: a store shows them one by one


T = TypeVar("T")
FENCED = 5  # most tries to write a small file under a lease
FileState = tuple[int, int, int] | str  # inode, time of change (ns) and size of a file, or version of an object


# What is looked at, for whoever keeps an answer as long as each look would find the same (`lake.answers`).

Looks = dict[str, object]
"""Path -> `state` of the file before it was looked at, `FOLDER`, or None where nothing was; for `path/` the names in a
folder."""
FOLDER = "folder"
_LOOKS: tuple[Looks, ...] = ()
_CHANGING = threading.Lock()


@contextmanager
def looking(looks: Looks) -> Iterator[None]:
    """Adds what is looked at of the files of lakes on this machine until the end of the block, in any thread."""
    global _LOOKS
    with _CHANGING:
        _LOOKS = (*_LOOKS, looks)
    try:
        yield
    finally:
        with _CHANGING:
            _LOOKS = tuple(each for each in _LOOKS if each is not looks)


def look_again(looked: str) -> object:
    """Returns what a look finds now, given its path in `Looks`."""
    if looked.endswith("/"):
        return sorted(names_in(Path(looked)))
    try:
        status = os.stat(looked)
    except OSError:
        return None
    return FOLDER if stat.S_ISDIR(status.st_mode) else (status.st_ino, status.st_mtime_ns, status.st_size)


def _note(looked: PurePath | str) -> None:
    for looks in _LOOKS:
        if (name := str(looked)) not in looks:
            looks[name] = look_again(name)


def note_looks(found: Mapping[str, object]) -> None:
    """Notes looks that somebody took before and that find the same now."""
    for looks in _LOOKS:
        looks.update(found)


def note_absent(path: PurePath) -> None:
    """Notes that there was no such file, for who knows it by other means."""
    note_looks({str(path): None})


def keep_private() -> int:
    """Makes new files and folders of this process such that other users cannot read and the group cannot change them.

    What Lowwater writes holds traffic, and Delta makes files, too. A stricter umask stays as it is.
    Returns the umask before."""
    global _GROUP_MAY
    before = os.umask(0o077)
    os.umask(before | OTHERS)
    if before & OTHERS != OTHERS:  # else it may be ours
        _GROUP_MAY = not before & stat.S_IWGRP
    return before


_GROUP_MAY = False
"""Whether the umask of the user lets the group change what is made."""


def share_with_group(root: PurePath) -> None:
    """Lets the group of a lake change what this process makes from now on, if it may change the folder of the lake, and
    the umask of the user allows it (docs/adr/0209)."""
    if _GROUP_MAY and isinstance(root, Path) and root.is_dir() and root.stat().st_mode & stat.S_IWGRP:
        os.umask(os.umask(0o077) & ~stat.S_IWGRP)


@contextmanager
def private() -> Iterator[None]:
    """Keeps what is made private, as `keep_private` does, and has the umask of before in the end."""
    before = keep_private()
    try:
        yield
    finally:
        os.umask(before)


def lake_path(text: str | PurePath) -> PurePath:
    """Returns the absolute path of a lake, as its user named it.
    Raises ValueError if it is an address that no lake can have."""
    path = parse(text)
    return path if isinstance(path, ObjectPath) else Path(path).absolute()


def names_in(folder: PurePath) -> set[str]:
    """Returns the names of what is directly in a folder, of a store as it was lately; none if there is no folder.
    Raises OSError if it may not be listed."""
    if isinstance(folder, ObjectPath):
        return {path.name for paths in _listed(folder) for path in paths}
    with suppress(FileNotFoundError, NotADirectoryError):
        return set(os.listdir(folder))
    return set()


def make_folders(*folders: PurePath) -> list[PurePath]:
    """Makes folders that are missing, and returns those that this process may not write. Stores have no folders.
    Raises OSError if one cannot be made."""
    on_disk = [folder for folder in folders if not isinstance(folder, ObjectPath)]
    for folder in on_disk:
        Path(folder).mkdir(parents=True, exist_ok=True)
    return [folder for folder in on_disk if not os.access(folder, os.W_OK | os.X_OK)]


def require_writable(folder: PurePath) -> None:
    """Checks that files of a folder, which need not be there yet, can be made. A store says so only when it is asked.
    Raises OSError if they cannot."""
    if isinstance(folder, ObjectPath):
        return
    there = next(path for path in (Path(folder), *Path(folder).absolute().parents) if path.exists())
    if not there.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def local(path: PurePath) -> Path:
    """Returns a file of this machine with the content of a file of the lake, which has the digest of its name.
    Raises DamagedError if it has another one, and OSError if there is no such file, or it cannot be read."""
    found = _modest(path)
    if digest := digests.said(path.name):
        digests.require_sound(path, found, digest)
    return found


def _modest(path: PurePath) -> Path:
    _note(path)
    untrusted.require_inside(path)
    found = objects.file_cache().fetch(path) if isinstance(path, ObjectPath) else Path(path)
    if path.suffix == ".parquet":
        untrusted.require_modest(path, found)
    return found


def locals_of(paths: Iterable[PurePath]) -> list[Path]:
    """Returns `local` of every path, in order."""
    return [local(path) for path in paths]


def as_they_are(paths: Iterable[PurePath]) -> list[Path]:
    """Returns files of this machine, as `locals_of`, whatever digests they have: for who finds out what is wrong."""
    return [_modest(path) for path in paths]


def local_table(folder: PurePath, names: Iterable[str]) -> Path:
    """Returns a folder of this machine with files of a table under their names. Of large ones readers take a few
    columns, and compare the checksums of their pages; smaller ones are compared with their digests.
    Raises OSError if one cannot be read."""
    for name in names:
        found, digest = _modest(folder / name), digests.said(name)
        if digest and _size_here(found) <= COMPARED_BYTES:
            digests.require_sound(folder / name, found, digest)
    return objects.file_cache().file_of(folder) if isinstance(folder, ObjectPath) else Path(folder)


def _size_here(path: Path) -> int:
    with suppress(FileNotFoundError):
        return path.stat().st_size
    return COMPARED_BYTES + 1  # whoever opens it says that it is gone


def draft(path: PurePath) -> Path:
    """Returns where on this machine a new file of the lake is to be written; `put` or `seal` puts it into the lake.

    The folder of the draft exists. The name of a new file is used once, so that no reader sees a part of it.
    """
    untrusted.require_inside(path)
    target = objects.file_cache().file_of(path) if isinstance(path, ObjectPath) else Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def put(path: PurePath) -> None:
    """Puts a whole draft into the lake. Raises OSError if it cannot be written."""
    if isinstance(path, ObjectPath):
        take(objects.file_cache().file_of(path), path)


def seal(path: PurePath) -> PurePath:
    """Puts a whole draft of a data file into the lake, under a name with its digest, and returns its path.
    Raises OSError if it cannot be read or written."""
    waiting = draft(path)
    target = digests.named(path, digests.compute(waiting))
    place = draft(target)
    os.replace(waiting, place)
    put(target)
    digests.note_sound(place)
    return target


def take_sealed(source: PurePath, target: PurePath, stays: bool = False) -> PurePath:
    """Moves a temporary file of rows, as `take`, to a name with its digest, and returns its path.
    Raises OSError if it cannot be read or written."""
    target = digests.named(target, digests.compute(local(source)))
    take(source, target, stays)
    if not isinstance(target, ObjectPath):
        digests.note_sound(Path(target))
    return target


def take(source: PurePath, target: PurePath, stays: bool = False) -> None:
    """Moves a temporary file of the run, which tasks may have left in the lake, to its place; where it `stays`, since
    others read it, it has its old name as well.
    Raises OSError if it cannot be written."""
    if isinstance(source, ObjectPath) and isinstance(target, ObjectPath):
        objects.copy(source, target)
        if not stays:
            objects.file_cache().follow(source, target)
            objects.delete([source])
        return
    source = Path(source)
    if isinstance(target, ObjectPath):
        objects.upload(target, source)
        copy_here = source
        if stays:
            copy_here = source.with_name(f"{source.name}.copy")
            _double(source, copy_here)
        objects.file_cache().keep(target, copy_here)
        return
    if stays:
        _double(source, draft(target))
        return
    os.replace(source, draft(target))


def _double(source: Path, target: Path) -> None:
    """Gives a file another name; on a disk without links it is copied."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def flush(*files: PurePath) -> None:
    """Lets the disk write files, and the names of them in their folders, before this returns. A store has done so when
    it answers, and what is in a temporary folder of this process goes with it.
    Raises OSError if the disk cannot."""
    on_disk = [Path(file) for file in files if not isinstance(file, ObjectPath) and not caches.holds(file)]
    each_at_once(partial(_flush, flags=os.O_RDONLY), on_disk)
    each_at_once(partial(_flush, flags=os.O_RDONLY | os.O_DIRECTORY), {file.parent for file in on_disk})


def each_at_once(work: Callable[[T], object], things: Collection[T]) -> None:
    """Does work that waits for a disk for several things, some of them at once: it writes what waits together, so that
    eight take hardly longer than one. Raises the first error."""
    if len(things) < FEW:
        for thing in things:
            work(thing)
        return
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="lowwater-files") as pool:
        for _ in pool.map(work, things):
            pass


AT_ONCE, FEW = 8, 4
"""Files that are flushed, or written, at once; fewer than FEW are not worth a thread."""


def _flush(path: Path, flags: int) -> None:
    handle = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # of a file system that keeps nothing in memory, or cannot say
            raise
    finally:
        os.close(handle)


def send(source: Path, begin: int, end: int | None, target: PurePath) -> None:
    """Copies the bytes [begin, end), or all from an offset on, of a local file into the lake.
    Raises OSError if it cannot be read or written."""
    waiting = draft(target)
    try:
        with source.open("rb") as file, waiting.open("wb") as part:
            file.seek(begin)
            left = (source.stat().st_size if end is None else end) - begin
            while left > 0 and (data := file.read(min(left, STORE_PIECE_BYTES))):
                left -= part.write(data)
        if isinstance(target, ObjectPath):
            objects.upload(target, waiting)
    finally:
        if isinstance(target, ObjectPath):
            waiting.unlink(missing_ok=True)


def copy(source: PurePath, target: PurePath) -> None:
    """Copies a file of the lake to another place in it.

    A hard link would do on a disk, but damage to one name would then damage the other.
    """
    if isinstance(source, ObjectPath) and isinstance(target, ObjectPath):
        objects.copy(source, target)
        return
    shutil.copyfile(source, draft(target))


def copy_as(
    source: PurePath, place: Callable[[str, int], PurePath | None], scratch: PurePath | None
) -> tuple[str, int]:
    """Copies a file to the place that is given for its sha256 and its size, where it appears whole, and is on the disk;
    to none if that is None. Its bytes are read once. `scratch`: folder for the part of it, on the disk of the place;
    None to read only. Returns sha256 and size.
    Raises OSError if it cannot be read or written."""
    home = Path(tempfile.gettempdir()) if isinstance(scratch, ObjectPath) else scratch
    part = None if home is None else Path(home) / f"part-{uuid.uuid4().hex}"
    digest, size = sha256(), 0
    try:
        with ExitStack() as stack:
            file = stack.enter_context(untrusted.open_regular(stack.enter_context(fresh(source))))
            if part is not None:
                part.parent.mkdir(parents=True, exist_ok=True)
                copied = stack.enter_context(part.open("xb"))
            while data := file.read(_PIECE):
                digest.update(data)
                size += len(data) if part is None else copied.write(data)
        target = None if part is None else place(digest.hexdigest(), size)
        if part is None or target is None:
            pass
        elif isinstance(target, ObjectPath):
            objects.upload(target, part)
        else:
            os.replace(part, draft(target))
            flush(target)
    finally:
        if part is not None:
            part.unlink(missing_ok=True)
    return digest.hexdigest(), size


_PIECE = 1 << 20


def take_folder(source: Path, target: PurePath) -> None:
    """Moves a folder of temporary files into the lake, in the place of another; it appears whole."""
    if isinstance(target, ObjectPath):
        for file in sorted(source.iterdir()):
            objects.upload(target / file.name, file)
        objects.write(target / WHOLE, b"")
        return
    place = draft(target)
    shutil.rmtree(place, ignore_errors=True)
    os.replace(source, place)


def has_folder(path: PurePath) -> bool:
    """Whether the lake has a whole folder, as `take_folder` makes it."""
    _note(path)
    if isinstance(path, ObjectPath):
        return objects.head(path / WHOLE) is not None
    return Path(path).is_dir()


def local_folder(path: PurePath) -> Path:
    """Returns a folder of this machine with the content of a folder of `take_folder`."""
    if not isinstance(path, ObjectPath):
        return Path(path)
    return local_table(path, [file.name for file in objects.below(path)])


def settings_folder(path: PurePath) -> Path:
    """Returns the folder of this machine from which a settings file of a lake names captures and queries."""
    return Path.cwd() if isinstance(path, ObjectPath) else Path(path).resolve().parent


def has_file(path: PurePath) -> bool:
    """Whether the lake has a file."""
    _note(path)
    return objects.head(path) is not None if isinstance(path, ObjectPath) else Path(path).is_file()


def has_size(path: PurePath, expected: int) -> bool:
    """Whether the lake has a file of so many bytes: a power cut, or a full disk, leaves the name of one that has lost
    its content."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return size(path) == expected
    return False


@contextmanager
def fresh(path: PurePath) -> Iterator[Path]:
    """Gives a file of this machine with what a file of the lake has now, which a store is asked for again.
    Raises OSError if it cannot be read."""
    untrusted.require_inside(path)
    if not isinstance(path, ObjectPath):
        yield Path(path)
        return
    with tempfile.TemporaryDirectory(prefix="lowwater-") as folder:
        objects.download(path, place := Path(folder) / "content")
        yield place


ASIDE = ".damaged"
"""Ends the name of a file that was set aside since its bytes had changed."""


def set_aside(path: PurePath) -> None:
    """Gives a damaged file another name, by which nothing reads it. Raises OSError if it cannot be renamed."""
    target = path.with_name(path.name + ASIDE)
    if isinstance(path, ObjectPath) and isinstance(target, ObjectPath):
        objects.copy(path, target)
        objects.delete([path])
        objects.file_cache().drop(path)
    else:
        untrusted.require_folder(path.parent)
        os.replace(path, target)


def exists(path: PurePath) -> bool:
    """Whether the lake has a file of this name, or on a disk a folder."""
    _note(path)
    return has_file(path) if isinstance(path, ObjectPath) else Path(path).exists()


def read_lately(path: PurePath, most: int = -1) -> bytes:
    """Reads as `read` does; of an object what it was lately. Raises OSError if it cannot be read."""
    if not isinstance(path, ObjectPath):
        return read(path, most)
    return objects.lately("content", path, lambda: read(path, most))


def read(path: PurePath, most: int = -1) -> bytes:
    """Reads a small file, or the first bytes of it. Raises OSError if it cannot be read."""
    _note(path)
    if isinstance(path, ObjectPath):
        return objects.read(path, most)[0]
    untrusted.require_inside(path)
    with untrusted.open_file(path) as file:
        return file.read(most)


def write(
    path: PurePath, data: bytes, scratch: Path | None = None, fence: locks.Fence | None = None, new: bool = False
) -> None:
    """Writes a small file, in the place of another. Readers see the old or the new one.
    Raises LostError if the lease is lost, and OSError if it cannot be written.

    Args:
        scratch: temporary folder on the disk of a local lake; None for the folder of the file.
        fence: lease of the writer, who replaces nothing that a later holder wrote.
        new: whether there is most likely no file of this name.
    """
    if isinstance(path, ObjectPath):
        if fence is None:
            objects.write(path, data)
        elif not (new and _created(path, data, fence)):
            _revise_object(path, lambda _: data, fence)
        objects.look_again(path)
        return
    target = draft(path)
    folder = scratch or target.parent
    folder.mkdir(parents=True, exist_ok=True)
    waiting = folder / f"{path.name}.{os.getpid()}"
    waiting.write_bytes(data)
    if data and not caches.holds(waiting):  # else a power cut may leave the new name with no content
        _flush(waiting, os.O_RDONLY)
    os.replace(waiting, target)


def add(path: PurePath, data: bytes) -> bool:
    """Writes a small file, unless there is one of this name; returns whether it did.
    Raises OSError if it cannot be written."""
    if isinstance(path, ObjectPath):
        with suppress(objects.ChangedError):
            objects.swap(path, data, None)
            return True
        return False
    try:
        with open(draft(path), "xb") as file:
            file.write(data)
    except FileExistsError:
        return False
    flush(path, path.parent)
    return True


def revise(path: PurePath, change: Callable[[bytes | None], bytes | None], fence: locks.Fence | None = None) -> None:
    """Replaces a small file, on which the caller has a lock if it is on a disk, by what a change makes of its content
    (None without a file), if that is another one. The change may run often: it is for exactly this content, so what
    others write meanwhile is not lost.
    Raises ContestedError if others write it all the time, LostError if the lease is lost, and OSError if it cannot be
    read or written."""
    if isinstance(path, ObjectPath):
        _revise_object(path, change, fence)
        objects.look_again(path)
        return
    before = None
    with suppress(FileNotFoundError):
        before = read(path)
    data = change(before)
    if data is not None and data != before:
        write(path, data)


def _created(path: ObjectPath, data: bytes, fence: locks.Fence) -> bool:
    """Writes an object under a lease, unless there is one of this name; returns whether it did."""
    fence.require()
    with suppress(objects.ChangedError):
        objects.swap(path, data, None)
        return True
    return False


class ContestedError(failures.StoreError):
    """An object was changed by others each time it was to be replaced."""


def _revise_object(path: ObjectPath, change: Callable[[bytes | None], bytes | None], fence: locks.Fence | None) -> None:
    """Replaces the version that was read, while a lease is held: a later holder has written another one."""
    for _ in range(FENCED):
        try:
            before, version = objects.read(path)
        except FileNotFoundError:
            before, version = None, None
        data = change(before)
        if fence is not None:
            fence.require()
        if data is None or data == before:
            return
        try:
            objects.swap(path, data, version)
            return
        except objects.ChangedError:
            continue  # by a later holder, as `require` then says, or by the own request, whose answer was lost
    raise ContestedError(f"{path}: others write it all the time", failures.LATER)


def remove(*paths: PurePath) -> None:
    """Removes files, if they are there."""
    for path in paths:
        if isinstance(path, ObjectPath):
            objects.delete([path])
            objects.file_cache().drop(path)
        else:
            untrusted.require_folder(path.parent)  # a link itself may go
            Path(path).unlink(missing_ok=True)


def remove_tree(path: PurePath) -> None:
    """Removes a folder and all that is in it, as far as that is possible."""
    if isinstance(path, ObjectPath):
        objects.delete([path / WHOLE])  # first, so that no part of it counts as the whole
        objects.delete(objects.below(path))
    else:
        untrusted.require_inside(path)
        shutil.rmtree(path, ignore_errors=True)


def children(folder: PurePath) -> list[PurePath]:
    """Lists the files and folders in a folder by name; none if there is no such folder."""
    _note(f"{folder}/")
    if isinstance(folder, ObjectPath):
        folders_in, files = objects.children(folder)
        return sorted([*folders_in, *files])
    local = Path(folder)
    return sorted(local.iterdir()) if local.is_dir() else []


def folders(folder: PurePath) -> list[PurePath]:
    """Lists the folders in a folder by name."""
    if isinstance(folder, ObjectPath):
        return [*_listed(folder)[0]]
    return [path for path in children(folder) if Path(path).is_dir()]


def may_hold(root: PurePath, name: str) -> bool:
    """Whether a lake may have a folder of this name; in a store one list, which a command makes once, tells."""
    return not isinstance(root, ObjectPath) or root / name in folders(root)


def _listed(folder: ObjectPath) -> tuple[list[ObjectPath], list[ObjectPath]]:
    """Lists the folders and the objects directly below a prefix, as they were lately."""
    return objects.lately("children", folder, lambda: objects.children(folder))


def files_below(folder: PurePath) -> Iterator[PurePath]:
    """Yields the files in a folder and in its folders, in any order."""
    if isinstance(folder, ObjectPath):
        yield from objects.below(folder)
    else:
        yield from (path for path in Path(folder).rglob("*") if path.is_file())


class Listed(NamedTuple):
    """A file in a list: its path, size in bytes, and when it was written, ns since the epoch by its disk or store."""

    path: PurePath
    size: int
    at: int


def listed(folder: PurePath) -> list[Listed]:
    """Lists the files in a folder and in its folders, in any order."""
    if isinstance(folder, ObjectPath):
        found = objects.entries(folder)
        return [Listed(path, int(entry["size"]), objects.written(entry)) for path, entry in found]
    files = []
    for path in Path(folder).rglob("*"):
        with suppress(FileNotFoundError):  # removed meanwhile
            status = path.lstat()
            if not stat.S_ISDIR(status.st_mode):
                files.append(Listed(path, status.st_size, status.st_mtime_ns))
    return files


def clock(folder: PurePath) -> int:
    """Returns the time of the disk or store of a folder, ns since the epoch: that of a file that is written for it.
    Raises OSError if it cannot be written."""
    probe = folder / f"clock-{uuid.uuid4().hex[:12]}"
    try:
        write(probe, b"")
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT) or isinstance(probe, ObjectPath):
            raise
        os.utime(folder)  # of what is there already, a disk without room writes the time
        return Path(folder).stat().st_mtime_ns
    try:
        if isinstance(probe, ObjectPath):
            stored = objects.head(probe)
            if stored is None:
                raise FileNotFoundError(2, "what was written is not there")
            return objects.written(stored)
        return Path(probe).stat().st_mtime_ns
    finally:
        remove(probe)


def read_all(files: Sequence[PurePath]) -> list[bytes]:
    """Reads small files; those of a store at the same time."""
    if len(files) < STORE_READS or not isinstance(files[0], ObjectPath):
        return [read(file) for file in files]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(STORE_READS) as pool:
        return list(pool.map(read, files))


def matching(folder: PurePath, pattern: str) -> list[PurePath]:
    """Lists what is below a folder and whose last parts match a pattern such as `hour=*/*.parquet`, in any order."""
    if isinstance(folder, ObjectPath):
        return [path for path in objects.below(folder) if path.match(pattern)]
    return [*Path(folder).glob(pattern)]


def size(path: PurePath) -> int:
    """Returns the size of a file, bytes. Raises OSError if there is no such file."""
    _note(path)
    if not isinstance(path, ObjectPath):
        return Path(path).stat().st_size
    stored = objects.head(path)
    if stored is None:
        raise FileNotFoundError(2, "there is no such object")
    return int(stored["size"])


def sizes(folder: PurePath, since: str = "") -> Iterator[tuple[str, int]]:
    """Yields names and sizes of the files directly in a folder; in a store those of names behind `since`."""
    if isinstance(folder, ObjectPath):
        for path, entry in objects.entries(folder, since):
            if path.parent == folder:
                yield path.name, entry["size"]
        return
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as files:
        for file in files:
            if file.is_file():
                yield file.name, file.stat().st_size


def state(path: PurePath) -> FileState | None:
    """Returns what differs once another file has the name of a file; None without one."""
    _note(path)
    if isinstance(path, ObjectPath):
        stored = objects.head(path)
        return None if stored is None else str(stored["e_tag"])
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def written_at(path: PurePath) -> float:
    """Returns when a file was last written, s since the epoch by the clock of its disk or store; 0 without one."""
    _note(path)
    if isinstance(path, ObjectPath):
        stored = objects.head(path)
        return 0.0 if stored is None else float(stored["last_modified"].timestamp())
    try:
        return Path(path).stat().st_mtime
    except OSError:
        return 0.0


def copy_folders(root: ObjectPath, place: Path, names: Sequence[str]) -> None:
    """Makes folders of `place` those of the store, for programs that read files only; what was copied before is not
    read again.
    Raises OSError if the store fails."""
    found: set[Path] = set()
    objects_there = [each for name in names for each in listed(root / name)]
    # A log comes before the files that it names: those that a later version no longer names stay for a while.
    for path, size, at in sorted(objects_there, key=lambda each: ("_delta_log" not in each.path.parts, each.path)):
        assert isinstance(path, ObjectPath)
        target = place / path.relative_to(root)
        untrusted.require_inside(target)
        found.add(target)
        before = target.stat() if target.exists() else None
        if before is None or (before.st_size, before.st_mtime_ns) != (size, at):
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_name(f".{uuid.uuid4().hex}.tmp")
            objects.download(path, part)
            os.utime(part, ns=(at, at))
            part.replace(target)
    for file in [file for name in names for file in (place / name).rglob("*")]:
        if file.is_file() and file not in found:
            file.unlink()
