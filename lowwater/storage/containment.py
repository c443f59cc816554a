"""Nothing of a lake leads out of it: neither a link in its folders nor a path in the log of a table.

Below `paths`. A lake may come from somebody else. What it names is read, overwritten and removed by commands, so a path
is followed only where it ends inside of the folder of the lake. The folder itself may be a link, and lie below some.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path, PurePath
from typing import BinaryIO
from urllib.parse import unquote

from lowwater.errors import LakeError
from lowwater.storage.object_paths import ObjectPath

REMEDY = "if the lake is yours, move what lies there into its folder, or mount it there; do not use a lake of strangers"

_ROOTS: dict[str, str] = {}
"""Folder of each lake of this process -> where it really is."""

_OUT = re.compile(r"(^|/)\.\.(/|$)|^/|^[A-Za-z][A-Za-z0-9+.-]*:|\\|\x00")


def know(root: PurePath) -> None:
    """Notes that a folder is a lake; `require_inside` then judges the paths below it. Stores have no links."""
    if not isinstance(root, ObjectPath) and str(root) not in _ROOTS:
        _ROOTS[str(root)] = os.path.realpath(root)


def require_inside(path: PurePath) -> None:
    """Checks that a path of a known lake ends inside of it, whatever its folders and its last part are.

    Raises:
        LakeError: a link leads out of the lake.
    """
    if not isinstance(path, ObjectPath):
        require_folder(path if os.path.islink(path) else path.parent)


def require_folder(folder: PurePath) -> None:
    """Checks that a folder of a known lake is inside of it; what lies in it may lead elsewhere.

    Raises:
        LakeError: a link leads out of the lake.
    """
    if isinstance(folder, ObjectPath):
        return
    above = [str(folder), *map(str, folder.parents)]
    lake = next((place for place in above if place in _ROOTS), None)
    if lake is None or lake == above[0] or _below(_real(above[0]), _ROOTS[lake]):
        return
    link = next(place for place in reversed(above[: above.index(lake)]) if not _below(_real(place), _ROOTS[lake]))
    raise LakeError(f"{link}: is a link that leads out of the lake, to {_real(link)}", REMEDY)


# An honest lake has thousands of files in each folder, which is looked at once.
@lru_cache(maxsize=4096)
def _real(folder: str) -> str:
    return os.path.realpath(folder)


def _below(target: str, root: str) -> bool:
    return target == root or target.startswith(root.rstrip("/") + "/")


def open_file(path: PurePath | str) -> BinaryIO:
    """Opens a file to read it. A pipe in a lake, into which nobody writes, would be waited for without an end.

    Raises:
        OSError: it cannot be read, or is no file.
    """
    if not any(str(place) in _ROOTS for place in PurePath(path).parents):
        return open(path, "rb")  # such as <(...) of a shell
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is no file", str(path))
    return os.fdopen(handle, "rb")


def require_names(folder: PurePath | str, names: Iterable[str]) -> None:
    """Checks that paths in the log of a table, written as URLs, name files below its folder.

    Raises:
        LakeError: one leads elsewhere.
    """
    for name in names:
        if _OUT.search(name) or ("%" in name and _OUT.search(unquote(name))):
            raise LakeError(
                f"{folder}: its log names a file outside of the table: {name!a}",
                "another program wrote this log, and nothing of it was read; restore the table, or do not use the lake",
            )


def require_plain_folder(folder: PurePath) -> None:
    """Checks that neither a folder of a lake nor what lies directly in it leads out of the lake.

    Raises:
        LakeError: a link does.
    """
    if isinstance(folder, ObjectPath):
        return
    require_folder(folder)
    try:
        with os.scandir(folder) as entries:
            links = [entry.name for entry in entries if entry.is_symlink()]
    except OSError:
        return  # whoever opens it says why it cannot
    for name in links:
        require_inside(Path(folder) / name)
