"""How the kernels of the reader and their parts are compiled.

Below all of them. They are made of many small functions of several modules, which hand on the same arrays.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, TypeVar, cast

from numba import njit

_Function = TypeVar("_Function", bound=Callable[..., object])

# Otherwise numba counts references to each array at each call by atomic instructions, which take longer than the
# decoding. Nothing that is compiled so may allocate (numba refuses to).
_UNCOUNTED: dict[str, Any] = {"_nrt": False}


_INLINED = (
    "addresses",
    "formats/header",
    "formats/scan",
    "headers/arp",
    "headers/columns",
    "headers/fields",
    "headers/inner",
    "headers/loads",
    "headers/network",
    "headers/plain",
    "headers/registry",
    "headers/transport",
    "inlining",
)
_FOLDERS = ("formats/pcapng", "headers/links", "headers/tunnels")


def inlined() -> list[Traversable]:
    """The modules whose functions and constants become part of kernels."""
    here = resources.files("lowwater.capture")
    files = [here / f"{name}.py" for name in _INLINED]
    for folder in _FOLDERS:
        found = (one for one in (here / folder).iterdir() if one.name.endswith(".py"))
        files += sorted(found, key=lambda one: one.name)
    return [*files, resources.files("lowwater.catalog") / "packets.py"]


@cache
def _digest() -> str:
    return hashlib.sha256(b"\0".join(one.read_bytes() for one in inlined())).hexdigest()[:16]


def kernel(function: _Function) -> _Function:
    """Compiles a kernel, kept on disk for later processes until one of `inlined` changes."""
    # Numba keeps compiled kernels in files by this name and compiles anew only when their very module has changed:
    # so the name tells what else went in.
    function.__qualname__ += f"_{_digest()}"
    return cast("_Function", njit(nogil=True, cache=True, **_UNCOUNTED)(function))


def part(function: _Function) -> _Function:
    """Compiles a function on the path of every record into its callers."""
    return cast("_Function", njit(forceinline=True, **_UNCOUNTED)(function))


def rare(function: _Function) -> _Function:
    """Compiles a function off that path, to be called."""
    return cast("_Function", njit(**_UNCOUNTED)(function))
