"""Compilation of the kernels of the reader.

A kernel consists of many small functions from several modules, which pass on the same arrays.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, TypeVar, cast

from numba import njit

from lowwater.machine_code import cached_njit

_Function = TypeVar("_Function", bound=Callable[..., object])

# Without this, numba counts references to each array at each call by atomic instructions, which take longer than the
# decoding. Numba refuses to allocate memory in such functions.
_UNCOUNTED: dict[str, Any] = {"_nrt": False}


_INLINED = (
    "content/applications",
    "content/hello",
    "content/packet_hashes",
    "formats/capture_file",
    "formats/classic",
    "formats/erf",
    "formats/pcapng",
    "headers/fields",
    "headers/links",
    "headers/packet",
    "headers/tunnels",
    "inlining",
    "records/stream",
)


def inlined() -> list[Traversable]:
    """Lists the modules whose functions and constants become part of kernels."""
    package = resources.files("lowwater.capture")
    files = [package / f"{name}.py" for name in _INLINED]
    return [*files, resources.files("lowwater.catalog") / "schemas.py"]


@cache
def _digest() -> str:
    return hashlib.sha256(b"\0".join(module.read_bytes() for module in inlined())).hexdigest()[:16]


def kernel_name(function: Callable[..., object]) -> str:
    """Returns the name of a kernel for numba's cache.

    Numba finds cached kernels by this name, and recompiles only if the kernel's own module has changed. So the name
    includes a digest of the inlined modules.
    """
    return f"{function.__qualname__}_{_digest()}"


def kernel(function: _Function, arguments: tuple[Any, ...] | None = None) -> _Function:
    """Compiles a kernel, cached on disk until one of the `inlined` modules changes.

    Args:
        arguments: numba types of its arguments, for a kernel that is compiled once and now; None to compile it for
            the types of each first call.
    """
    function.__qualname__ = kernel_name(function)
    return cached_njit(arguments, nogil=True, **_UNCOUNTED)(function)


def part(function: _Function) -> _Function:
    """Compiles a function on the path of every record into its callers."""
    return cast("_Function", njit(forceinline=True, **_UNCOUNTED)(function))


def rare(function: _Function) -> _Function:
    """Compiles a function outside of that path as a function of its own."""
    return cast("_Function", njit(**_UNCOUNTED)(function))
