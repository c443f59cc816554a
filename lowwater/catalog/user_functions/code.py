"""Loads the Python files that declarations of functions name.

Below `user_functions`. The code belongs to the user: naming its file in a declaration allows it to run.
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
AGGREGATE_METHODS = ("initialize", "iterate", "output", "destroy")


class PythonReference:
    """A function or class of a Python file. It is pickled with the content of the file, so that any process can call
    it, on a machine without the file too.

    Args:
        path: the path of the Python file.
        name: the name of the function or class.
        source: the content of the file; None to read it.
    """

    def __init__(self, path: str, name: str, source: bytes | None = None) -> None:
        # The process that unpickles the object may run in another folder.
        self.path, self.name = os.path.abspath(path), name
        self._source = read_content(path) if source is None else source
        self.target: Any = getattr(_loaded(self.path, self._source), name)

    def __call__(self, *arguments: Any) -> Any:
        """Calls the function or class."""
        return self.target(*arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return PythonReference, (self.path, self.name, self._source)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PythonReference) and self.target is other.target

    def __hash__(self) -> int:
        return hash((self.path, self.name))


class Extracted:
    """The aggregate of an EXTR: a function of the output of another aggregate.

    Args:
        make: makes the inner aggregate.
        function: takes the output of the inner aggregate and the further arguments.
    """

    def __init__(self, make: Any, python_function: Any) -> None:
        self._inner = make()
        self._function = python_function
        self.initialize, self.iterate, self.destroy = (
            self._inner.initialize,
            self._inner.iterate,
            self._inner.destroy,
        )
        for optional in ("merge", "reinit"):
            if hasattr(self._inner, optional):
                setattr(self, optional, getattr(self._inner, optional))

    def output(self, state: Any, *extra: Any) -> Any:
        """Returns the function of the inner output; None where that output is None."""
        value = self._inner.output(state)
        return None if value is None else self._function(value, *extra)


def load_module(path: Path) -> ModuleType:
    """Returns the module of a Python file, loaded once for each content of the file.

    Raises:
        ConfigError: the file is missing, or its code fails.
    """
    return _loaded(str(path), read_content(str(path)))


def _loaded(path: str, source: bytes) -> ModuleType:
    try:
        return _module(os.path.abspath(path), source)
    except Exception as error:
        raise ConfigError(
            f"{path}: fails: {type(error).__name__}: {error}",
            "run the file with Python alone: it shows the line that fails",
        ) from error


def python_function(path: Path, name: str) -> PythonReference:
    """Returns a function of a Python file.

    Raises:
        ConfigError: the file is missing, fails, or has no such function.
    """
    reference = _attribute(path, name)
    if not callable(reference.target):
        raise ConfigError(f"{name} of {path} is no function", f"write `def {name}(...):` in it")
    return reference


def python_aggregate(path: Path, name: str) -> PythonReference:
    """Returns a class of a Python file that implements an aggregate.

    Raises:
        ConfigError: the file is missing, fails, or has no class with the four methods.
    """
    reference = _attribute(path, name)
    if not isinstance(reference.target, type):
        raise ConfigError(f"{name} of {path} is no class", f"write `class {name}:` with {', '.join(AGGREGATE_METHODS)}")
    missing = [method for method in AGGREGATE_METHODS if not callable(getattr(reference.target, method, None))]
    if missing:
        raise ConfigError(f"class {name} of {path} lacks {', '.join(missing)}", f"write {', '.join(missing)} in it")
    return reference


def read_content(path: str, hint: str = "a MODULE path is relative to the file of the declarations") -> bytes:
    """Returns the bytes of a file of declarations or of a Python file.

    Args:
        path: the path of the file.
        hint: the remedy if the file cannot be read.

    Raises:
        ConfigError: the file cannot be read, or has more than MAX_BYTES.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"{path}: cannot be read: {cause}", hint) from None
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{path}: has more than {MAX_BYTES:,} bytes", "split it")
    return data


def _attribute(path: Path, name: str) -> PythonReference:
    if not hasattr(load_module(path), name):
        raise ConfigError(f"{path} has no {name}", f"write `{name}` in it, or declare the name that it has there")
    return PythonReference(str(path), name)


class _Loader(SourceFileLoader):
    """Compiles the content that was read. Cached bytecode is not used: Python trusts it by time and size only."""

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
