"""The files in the folders of the links: one listing a folder, whichever links it belongs to, and the next month's
beside those that patterns reach.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import islice

from lowwater.config import Config
from lowwater.lake.files.patterns import date_shape, dated_parts, wildcard
from lowwater.limits import LISTED_FOLDERS
from lowwater.storage.captures import is_address, objects_beside


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file in a folder of a link."""

    path: str
    size: int  # bytes
    written: int  # last write, ns
    # device and inode, which two names of one file share; None in an object store
    identity: tuple[int, int] | None = None
    broken: bool = False  # whether it is a symbolic link to nothing

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]


@dataclass
class Listing:
    """What was found."""

    files: dict[str, FoundFile] = field(default_factory=dict)
    # folder -> (literal begin of the names of a pattern, link) of each pattern that reaches it
    links: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)  # folder that could not be listed -> why
    _folders: dict[str, list[str]] = field(default_factory=dict, repr=False)

    def candidates(self, file: FoundFile) -> tuple[str, ...]:
        """Returns the links that a file belongs to if it belongs to any. In a folder of several links, the name tells:
        it begins as the names of a pattern do. Where it begins as none, it may be of all of them."""
        owners = self.links.get(file.folder, [])
        fitting = [(len(begin), link) for begin, link in owners if begin and file.name.startswith(begin)]
        longest = max(fitting, default=(0, ""))[0]
        return tuple(sorted({link for length, link in fitting if length == longest} or {link for _, link in owners}))

    def subfolders(self, folder: str) -> list[str]:
        """Lists a folder once: keeps its files, returns the names of the folders in it."""
        if folder in self._folders:
            return self._folders[folder]
        folders: list[str] = []
        self._folders[folder] = folders
        try:
            with os.scandir(folder or "/") as entries:
                for entry in entries:
                    try:
                        if entry.is_dir():
                            folders.append(entry.name)
                        elif (file := _file(entry, f"{folder}/{entry.name}")) is not None:
                            self.files[file.path] = file
                    except OSError as error:
                        self.problems[folder] = f"{entry.name} in it cannot be looked at: {error.strerror}"
        except FileNotFoundError:
            self.problems[folder] = "is not there"
        except OSError as error:
            self.problems[folder] = f"cannot be read: {error.strerror}"
        folders.sort()
        return folders


def listing(config: Config) -> Listing:
    """Lists the folders of all links with a pattern. Raises ConfigError if a pattern has an unknown field."""
    found = Listing()
    reached: set[str] = set()
    for link, settings in sorted(config.links.items()):
        for pattern in settings.patterns:
            begin = re.split(r"[%*?\[]", pattern.rpartition("/")[2], maxsplit=1)[0]
            folders = _objects(found, pattern) if is_address(pattern) else _folders(found, pattern)
            for number, folder in enumerate(dict.fromkeys(folders)):
                if number == LISTED_FOLDERS:
                    found.problems[folder] = (
                        f"more than {LISTED_FOLDERS:,} folders fit {pattern}: this one and more are not looked into"
                    )
                    break
                reached.add(folder)
                found.links.setdefault(folder, []).append((begin, link))
    found.files = {path: file for path, file in found.files.items() if file.folder in reached}
    found.problems = {folder: why for folder, why in found.problems.items() if folder in found.links}
    return found


def _file(entry: os.DirEntry[str], path: str) -> FoundFile | None:
    """Returns a file; None for what is none, such as a socket."""
    try:
        status = entry.stat()
    except FileNotFoundError:
        return FoundFile(path, 0, 0, broken=True) if entry.is_symlink() else None
    if not entry.is_file():
        return None
    return FoundFile(path, status.st_size, status.st_mtime_ns, (status.st_dev, status.st_ino))


def _objects(found: Listing, pattern: str) -> list[str]:
    folders = {pattern.rpartition("/")[0]: None} if not glob.has_magic(wildcard(pattern.rpartition("/")[0])) else {}
    try:
        for path, size, written in objects_beside(wildcard(pattern)):
            file = FoundFile(path, size, written)
            found.files[path] = file
            folders[file.folder] = None
    except OSError as error:
        folder = pattern.rpartition("/")[0]
        found.problems[folder] = f"cannot be listed: {error.strerror}"
        folders[folder] = None
    return list(folders)


def _folders(found: Listing, pattern: str) -> Iterator[str]:
    """Yields the folders that a pattern reaches, from its fixed part on, and those of other dates beside that."""
    parts = [wildcard(part) for part in os.path.abspath(pattern).split("/")[:-1]]
    fixed = next((at for at, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    dated = dated_parts(parts[1:fixed])
    level = ["/".join(parts[: fixed - dated])]
    if dated:
        found.subfolders(level[0])
        if level[0] in found.problems:
            yield level[0]  # nobody can look for the folders in it
    for at in range(fixed - dated, len(parts)):
        if at == fixed:
            level = _with(level, "/".join(parts[:fixed]))
        if at >= fixed:
            yield from _listed(found, level)
        fits: Callable[[str], bool] = _beside(parts[at]) if at < fixed else _fits(parts[at])
        below = (f"{folder}/{name}" for folder in level for name in found.subfolders(folder) if fits(name))
        level = [*islice(below, LISTED_FOLDERS + 1)]
    if fixed == len(parts):
        level = _with(level, "/".join(parts))
    yield from _listed(found, level)


def _with(level: list[str], folder: str) -> list[str]:
    return level if folder in level else [folder, *level]


def _listed(found: Listing, folders: Iterable[str]) -> Iterator[str]:
    for folder in folders:
        found.subfolders(folder)
        yield folder


def _fits(part: str) -> Callable[[str], bool]:
    """Whether `glob` takes a name for a part of a pattern: hidden ones only where the part says so."""
    return lambda name: fnmatchcase(name, part) and (part.startswith(".") or not name.startswith("."))


def _beside(part: str) -> Callable[[str], bool]:
    return lambda name: name == part or (name != date_shape(name) and date_shape(name) == date_shape(part))
