"""Loads the Python files that declarations of functions name.

Below `declared`. The code is the user's own: naming its file in a declaration is what allows it to run.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from functools import lru_cache
from hashlib import sha256
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from lowwater.errors import ConfigError

MAX_BYTES = 10_000_000
FOUR = ("initialize", "iterate", "output", "destroy")


class FromFile:
    """A function or class of a Python file; pickled as file and name, so that any process can call it.

    Args:
        path: the path of the file.
        name: the name of the function or class in it.
    """

    def __init__(self, path: str, name: str) -> None:
        # Absolute, because the process that unpickles it may run elsewhere.
        self.path, self.name = os.path.abspath(path), name
        self.found: Any = getattr(load(Path(path)), name)

    def __call__(self, *arguments: Any) -> Any:
        """Calls it."""
        return self.found(*arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return FromFile, (self.path, self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FromFile) and self.found is other.found

    def __hash__(self) -> int:
        return hash((self.path, self.name))


class Extracted:
    """The aggregate of an EXTR: what the aggregate below gives goes through a function.

    Args:
        make: makes the aggregate.
        function: takes its output and the further arguments.
    """

    def __init__(self, make: Any, function: Any) -> None:
        self._below = make()
        self._function = function
        self.initialize, self.iterate, self.destroy = (
            self._below.initialize,
            self._below.iterate,
            self._below.destroy,
        )
        for optional in ("merge", "reinit"):
            if hasattr(self._below, optional):
                setattr(self, optional, getattr(self._below, optional))

    def output(self, state: Any, *extra: Any) -> Any:
        """The function of the output; None where that is None."""
        value = self._below.output(state)
        return None if value is None else self._function(value, *extra)


def load(path: Path) -> ModuleType:
    """The module that the file is, loaded once for each content.

    Raises:
        ConfigError: it is missing or fails.
    """
    source = content(str(path))
    try:
        return _module(os.path.abspath(path), source)
    except Exception as error:
        raise ConfigError(
            f"{path}: fails: {type(error).__name__}: {error}",
            "run the file with Python alone: it shows the line that fails",
        ) from error


def function(path: Path, name: str) -> FromFile:
    """The function of this name.

    Raises:
        ConfigError: the file is missing or fails, or has no such function.
    """
    found = _attribute(path, name)
    if not callable(found.found):
        raise ConfigError(f"{name} of {path} is no function", f"write `def {name}(...):` in it")
    return found


def aggregate(path: Path, name: str) -> FromFile:
    """The class of this name, which has the four functions of an aggregate.

    Raises:
        ConfigError: the file is missing or fails, or has no such class.
    """
    found = _attribute(path, name)
    if not isinstance(found.found, type):
        raise ConfigError(f"{name} of {path} is no class", f"write `class {name}:` with {', '.join(FOUR)}")
    missing = [each for each in FOUR if not callable(getattr(found.found, each, None))]
    if missing:
        raise ConfigError(f"class {name} of {path} lacks {', '.join(missing)}", f"write {', '.join(missing)} in it")
    return found


def content(path: str, hint: str = "a MODULE path is relative to the file of the declarations") -> bytes:
    """The bytes of a file of declarations or of Python.

    Args:
        path: the path of the file.
        hint: what to do where it cannot be read.

    Raises:
        ConfigError: it cannot be read, or is too large.
    """
    try:
        with open(path, "rb") as file:
            read = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"{path}: cannot be read: {cause}", hint) from None
    if len(read) > MAX_BYTES:
        raise ConfigError(f"{path}: has more than {MAX_BYTES:,} bytes", "split it")
    return read


def _attribute(path: Path, name: str) -> FromFile:
    if not hasattr(load(path), name):
        raise ConfigError(f"{path} has no {name}", f"write `{name}` in it, or declare the name that it has there")
    return FromFile(str(path), name)


class _Loader(SourceFileLoader):
    """Compiles the content that was read: no cached bytecode, which is trusted by time and size only."""

    source = b""

    def get_code(self, fullname: str) -> CodeType:
        code = self.source_to_code(self.source, self.path)
        assert isinstance(code, CodeType)
        return code


@lru_cache(maxsize=64)
def _module(path: str, source: bytes) -> ModuleType:
    name = f"lowwater_functions_{sha256(path.encode() + b'/' + source).hexdigest()[:16]}"
    loader = _Loader(name, path)
    loader.source = source
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
