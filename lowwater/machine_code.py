"""Compilation by numba of functions whose machine code is kept on disk, where other processes load it.

Below every stage. Nothing is loaded that another user could have written.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit
from numba.core.caching import FunctionCache

from lowwater.caches import written_by_others

_Function = TypeVar("_Function", bound=Callable[..., object])


def has_machine_code(function: Callable[..., object], name: str) -> bool:
    """Whether machine code of a function is on disk. It may be stale, then numba compiles again. `name`: its qualified
    name when it was compiled."""
    folder = Path(FunctionCache(function).cache_path)  # type: ignore[no-untyped-call]
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
        if is_trusted(Path(FunctionCache(function).cache_path)):  # type: ignore[no-untyped-call]
            dispatcher.enable_caching()
        if arguments is not None:
            dispatcher.compile(arguments)
            dispatcher.disable_compile()
        return cast("_Function", dispatcher)

    return decorate
