"""How the decoding kernels and their parts are compiled.

Below the decoding kernels, which are made of many small functions that hand on the same arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

_Function = TypeVar("_Function", bound=Callable[..., object])

# Otherwise numba counts references to each array at each call by atomic instructions, which take longer than the
# decoding. Nothing that is compiled so may allocate (numba refuses to).
_UNCOUNTED: dict[str, Any] = {"_nrt": False}


def kernel(function: _Function) -> _Function:
    """Compiles a kernel, kept on disk for later processes."""
    return cast("_Function", njit(nogil=True, cache=True, **_UNCOUNTED)(function))


def part(function: _Function) -> _Function:
    """Compiles a function on the path of every record into its callers."""
    return cast("_Function", njit(forceinline=True, **_UNCOUNTED)(function))


def rare(function: _Function) -> _Function:
    """Compiles a function off that path, to be called."""
    return cast("_Function", njit(**_UNCOUNTED)(function))
