"""Cache folder for what is generated once and loaded by later processes: compiled kernels and parser tables.

Below every stage.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from lowwater.errors import ConfigError

CODE = (".py", ".pyc", ".nbi", ".nbc", ".tables", ".jar")
"""Ends of names of files that are run, or unpickled."""


def cache_folder() -> Path:
    """Returns the folder of generated code and tables: LOWWATER_CACHE, or `lowwater/kernels` in the user's cache.

    Raises:
        ConfigError: if it cannot be created, or if other users could write code into it.
    """
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folder = Path(os.environ.get("LOWWATER_CACHE") or Path(home) / "lowwater" / "kernels")
    hint = "set LOWWATER_CACHE to a folder that only you can write to"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        refused = written_by_others(folder)
    except OSError as error:
        raise ConfigError(f"the kernel cache {folder} cannot be made: {error.strerror}", hint) from error
    if refused:
        raise ConfigError(f"the kernel cache {folder} can be written to by others, so its code is not run", hint)
    return folder


def written_by_others(folder: Path, group: bool = False) -> bool:
    """Whether another user than root can write into a folder of code, or has written a file that is in it.

    Args:
        folder: the folder.
        group: whether the group of the folder may write into it, as where Python itself runs what it finds.

    Raises:
        OSError: it cannot be looked at.
    """
    state = folder.stat()
    others = stat.S_IWOTH | (0 if group else stat.S_IWGRP)
    return _is_of_others(state, others) or _has_of_others(str(folder), state.st_mtime_ns)


def _is_of_others(state: os.stat_result, others: int) -> bool:
    return state.st_uid not in (0, os.geteuid()) or bool(state.st_mode & others)


# A folder that was open to others and is no longer may have what they left in it.
@lru_cache(maxsize=16)
def _has_of_others(folder: str, changed: int) -> bool:
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                if entry.name.endswith(CODE) and _is_of_others(entry.stat(), stat.S_IWOTH):
                    return True
    return False
