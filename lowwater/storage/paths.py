"""Reads, writes, lists and removes the files of a lake; no other module opens, moves or lists them.

Above the errors only. A path of a lake is a `PurePath`, which cannot open anything by itself: a `Path` of a folder on
this machine. Captures, queries and temporary files are local files, and not the business of this module.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath

FileState = tuple[int, int, int] | str
"""Inode, time of change (ns) and size of a file."""


def lake_path(text: str | PurePath) -> PurePath:
    """Returns the absolute path of a lake, as its user named it."""
    return Path(text).absolute()


def is_lake(root: PurePath) -> bool:
    """Whether there is a folder of this name, so that a lake may be in it."""
    return Path(root).is_dir()


def make_folders(*folders: PurePath) -> list[PurePath]:
    """Makes folders that are missing, and returns those that this process may not write.

    Raises:
        OSError: if one cannot be made.
    """
    for folder in folders:
        Path(folder).mkdir(parents=True, exist_ok=True)
    return [folder for folder in folders if not os.access(folder, os.W_OK | os.X_OK)]


def local(path: PurePath) -> Path:
    """Returns a file of this machine with the content of a file of the lake.

    Raises:
        OSError: if there is no such file, or it cannot be read.
    """
    return Path(path)


def locals_of(paths: Iterable[PurePath]) -> list[Path]:
    """Returns `local` of every path, in order."""
    return [local(path) for path in paths]


def draft(path: PurePath) -> Path:
    """Returns where on this machine a new file of the lake is to be written; `place` puts it into the lake.

    The folder of the draft exists. The name of a new file is used once, so that no reader sees a part of it.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def place(path: PurePath) -> None:
    """Puts a whole draft into the lake."""


def take(source: Path, target: PurePath) -> None:
    """Moves a temporary file of the run into the lake."""
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    os.replace(source, target)


def copy(source: PurePath, target: PurePath) -> None:
    """Copies a file of the lake to another place in it.

    A hard link would do on a disk, but damage to one name would then damage the other.
    """
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def take_folder(source: Path, target: PurePath) -> None:
    """Moves a folder of temporary files into the lake, in the place of another; it appears whole."""
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(target, ignore_errors=True)
    os.replace(source, target)


def has_folder(path: PurePath) -> bool:
    """Whether the lake has a whole folder, as `take_folder` makes it."""
    return Path(path).is_dir()


def local_folder(path: PurePath) -> Path:
    """Returns a folder of this machine with the content of a folder of `take_folder`."""
    return Path(path)


def has_file(path: PurePath) -> bool:
    """Whether the lake has a file."""
    return Path(path).is_file()


def settings_folder(path: PurePath) -> Path:
    """Returns the folder of this machine from which a settings file of a lake names captures and queries."""
    return Path(path).resolve().parent


def exists(path: PurePath) -> bool:
    """Whether the lake has a file or a folder of this name."""
    return Path(path).exists()


def read(path: PurePath, most: int = -1) -> bytes:
    """Reads a small file, or the first bytes of it.

    Raises:
        OSError: if it cannot be read.
    """
    with Path(path).open("rb") as file:
        return file.read(most)


def write(path: PurePath, data: bytes, scratch: Path | None = None) -> None:
    """Writes a small file, in the place of another. Readers see the old or the new one.

    Args:
        path: the file.
        data: its content.
        scratch: temporary folder on the disk of a local lake; None for the folder of the file.

    Raises:
        OSError: if it cannot be written.
    """
    folder = scratch or Path(path).parent
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    waiting = folder / f"{path.name}.{os.getpid()}"
    waiting.write_bytes(data)
    os.replace(waiting, path)


def remove(path: PurePath) -> None:
    """Removes a file, if it is there."""
    Path(path).unlink(missing_ok=True)


def remove_tree(path: PurePath) -> None:
    """Removes a folder and all that is in it, as far as that is possible."""
    shutil.rmtree(path, ignore_errors=True)


def children(folder: PurePath) -> list[PurePath]:
    """Lists the files and folders in a folder by name; none if there is no such folder."""
    found = Path(folder)
    return sorted(found.iterdir()) if found.is_dir() else []


def folders(folder: PurePath) -> list[PurePath]:
    """Lists the folders in a folder by name."""
    return [path for path in children(folder) if Path(path).is_dir()]


def files_below(folder: PurePath) -> Iterator[PurePath]:
    """Yields the files in a folder and in its folders, in any order."""
    return (path for path in Path(folder).rglob("*") if path.is_file())


def size(path: PurePath) -> int:
    """Returns the size of a file, bytes.

    Raises:
        OSError: if there is no such file.
    """
    return Path(path).stat().st_size


def state(path: PurePath) -> FileState | None:
    """Returns what differs once another file has the name of a file; None without one."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def written_at(path: PurePath) -> float:
    """Returns when a file was last written, s since the epoch; 0 without one."""
    try:
        return Path(path).stat().st_mtime
    except OSError:
        return 0.0
