"""Digests in the names of data files: what a file of a lake was when it was written (docs/adr/0179).

A file is called `NAME.DIGEST.parquet`, so every log, checkpoint and list that names it has its digest, and a reader on
another machine needs nothing else. It tells damage, of disks, memory or copies, and not a person who names a file anew.
Files of older versions have no digest in their names.
"""

from __future__ import annotations

import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path, PurePath
from typing import TypeVar

from lowwater.storage.untrusted import UnreadableError, open_regular

DIGITS = 16
"""Hexadecimal digits of a sha256 in a name: of 2^64 damaged files one would pass."""
_NAMED = re.compile(rf"\.([0-9a-f]{{{DIGITS}}})\.parquet$")
_PIECE = 1 << 20
_SOUND: OrderedDict[str, object] = OrderedDict()
"""Path of a file on this machine -> its inode, time of change and size when it had its digest."""
_SOUND_FILES = 1 << 15
_LOCK = threading.Lock()

P = TypeVar("P", bound=PurePath)


class DamagedError(UnreadableError):
    """A file that has other bytes than those that were written."""


def said(name: str) -> str:
    """Returns the digest in the name or path of a file; empty without one.

    Example:
        >>> said("_hour=490896/06f14c268647-00000.2cf24dba5fb0a30e.parquet"), said("part-00000.parquet")
        ('2cf24dba5fb0a30e', '')
    """
    found = _NAMED.search(name)
    return found[1] if found else ""


def bare(name: str) -> str:
    """Returns the name of a parquet file without suffix and digest.

    Example:
        >>> bare("000000-000000-302fe3c96f69.2cf24dba5fb0a30e.parquet"), bare("rest-1.parquet")
        ('000000-000000-302fe3c96f69', 'rest-1')
    """
    return _NAMED.sub("", name).removesuffix(".parquet")


def named(path: P, digest: str) -> P:
    """Returns the path of a file with its digest in the name, in the place of another digest."""
    return path.with_name(f"{bare(path.name)}.{digest}.parquet")


def of(content: bytes) -> str:
    """Computes the digest of the content of a file."""
    return sha256(content).hexdigest()[:DIGITS]


def compute(path: Path, told: Callable[[int], object] | None = None) -> str:
    """Computes the digest of a file of this machine. `told` is called with the number of bytes of each piece.
    Raises OSError if the file cannot be read."""
    digest = sha256()
    with open_regular(path) as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
            if told is not None:
                told(len(piece))
    return digest.hexdigest()[:DIGITS]


def require_sound(name: object, path: Path, digest: str) -> None:
    """Checks that a file of this machine has a digest; a file that has not changed is read once by a process.
    Raises DamagedError if it has another one, and OSError if it cannot be read."""
    status = os.stat(path)
    state = status.st_ino, status.st_mtime_ns, status.st_size
    with _LOCK:
        if _SOUND.get(str(path)) == state:
            return
    if (found := compute(path)) != digest:
        raise DamagedError(*damage(name, status.st_size, found))
    note_sound(path)


def damage(name: object, size: int, found: str) -> tuple[str, str]:
    """Returns the message and the hint of a file with another digest than its name says."""
    return (
        f"{name}: its bytes are not those that were written: its {size:,} bytes have the digest {found}",
        "the disk, the memory or a copy changed it: `lowwater verify` with --data says how it is made again",
    )


def note_sound(path: Path) -> None:
    """Notes that a file has its digest, as it is now."""
    status = os.stat(path)
    with _LOCK:
        _SOUND[str(path)] = status.st_ino, status.st_mtime_ns, status.st_size
        while len(_SOUND) > _SOUND_FILES:
            _SOUND.popitem(last=False)
