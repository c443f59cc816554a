"""Compilation by numba of functions whose machine code is kept on disk, where other processes load it.

Below every stage. Nothing is loaded that another user could have written.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import config, njit
from numba.core.caching import FunctionCache
from numba.core.runtime.nrt import rtsys

from lowwater.caches import cache_folder, written_by_others

# It would look for settings in the current folder at each compilation, too (see `lowwater`).
config._config_fname = os.devnull

_Function = TypeVar("_Function", bound=Callable[..., object])


class _Cache(FunctionCache):
    """The machine code of a function on disk, loaded without what only a compilation needs.

    numba's own class first registers each function that it can compile, for which it imports some 120 modules, and
    scipy where it is installed: a quarter of a second of each command that runs kernels (docs/adr/0162).
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        # Loaded code counts references by functions of numba's runtime. The compiler registers the rest by itself.
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]


def _cache_of(function: Callable[..., object]) -> _Cache:
    """Returns the machine code of a function on disk; where numba finds no folder that the user may write, neither
    beside the function nor in a home, it gets one of ours. Raises ConfigError if that is none either."""
    try:
        return _Cache(function)  # type: ignore[no-untyped-call]
    except RuntimeError:
        config.CACHE_DIR = str(cache_folder() / "numba")  # type: ignore[attr-defined]
        return _Cache(function)  # type: ignore[no-untyped-call]


def has_machine_code(function: Callable[..., object], name: str) -> bool:
    """Whether machine code of a function is on disk. It may be stale, then numba compiles again. `name`: its qualified
    name when it was compiled."""
    folder = Path(_cache_of(function).cache_path)
    version = "{}{}".format(*sys.version_info[:2])
    return any(folder.glob(f"*{name.rpartition('.')[2]}-*.py{version}.nbi"))


def is_trusted(folder: Path) -> bool:
    """Whether machine code of a folder may be run: no other user than root can have written it.

    The folder is the one that numba chose: NUMBA_CACHE_DIR, one of the user, or `__pycache__` beside the function,
    where Python itself runs what it finds, also of its group.
    """
    try:
        return not written_by_others(folder, group=folder.name == "__pycache__")
    except FileNotFoundError:
        return True  # numba makes it
    except OSError:
        return False


def cached_njit(arguments: tuple[Any, ...] | None = None, **options: Any) -> Callable[[_Function], _Function]:
    """Decorates a function as `numba.njit` with `cache=True` does.

    Args:
        arguments: numba types of its arguments, for a function that is compiled once and now; None to compile it for
            the types of each first call.
        options: other options of `numba.njit`.
    """

    def decorate(function: _Function) -> _Function:
        dispatcher = njit(**options)(function)
        cache = _cache_of(function)
        if is_trusted(Path(cache.cache_path)):
            dispatcher._cache = cache
        if arguments is not None:
            dispatcher.compile(arguments)
            dispatcher.disable_compile()
        return cast("_Function", dispatcher)

    return decorate
