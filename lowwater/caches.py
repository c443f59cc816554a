"""Cache folder for what is generated once and loaded by later processes: compiled kernels and parser tables.

Below every stage.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from lowwater.errors import ConfigError


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
        state = folder.stat()
    except OSError as error:
        raise ConfigError(f"the kernel cache {folder} cannot be made: {error.strerror}", hint) from error
    if state.st_uid != os.getuid() or state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigError(f"the kernel cache {folder} can be written to by others, so its code is not run", hint)
    return folder
