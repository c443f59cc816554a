"""Expectations that people write in Python: modules that are loaded into this process, which then knows their classes.

Who calls it has checked that they may run (`lowwater.quality.modules`): they may do what this process may.
"""

from __future__ import annotations

import sys
import traceback
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from great_expectations.expectations import core
from great_expectations.expectations.expectation import Expectation

from lowwater.errors import ConfigError
from lowwater.quality.modules import files_of

KINDS: dict[str, type[Expectation]] = {}
"""The expectations of the modules that were loaded, by type."""
_loaded: set[str] = set()


def load(folder: str) -> None:
    """Loads the modules of a folder once; none of an empty name.
    Raises ConfigError, of one line with file and line, if one cannot be loaded, has the name of another module, or
    gives an expectation the name of one of Great Expectations."""
    if not folder or folder in _loaded:
        return
    sys.path.append(folder)  # behind all others: a module takes no name away, and may import those beside it
    try:
        for file in files_of(Path(folder)):
            _load(file)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be read: {error.strerror}", "name the folder of the modules") from None
    finally:
        sys.path.remove(folder)
    _loaded.add(folder)


def _load(file: Path) -> None:
    there = sys.modules.get(file.stem) or find_spec(file.stem)
    origin = getattr(there, "origin", None) or getattr(there, "__file__", None) or ""
    if Path(origin).resolve() != file.resolve():
        raise ConfigError(f"{file}: another module has the name {file.stem}", "give the file a name of its own")
    try:
        module = import_module(file.stem)
    except BaseException as error:  # whatever a module does, such as to end its process
        if isinstance(error, KeyboardInterrupt):
            raise
        raise ConfigError(f"{_place(file, error)}: cannot be loaded: {_said(error)}", "mend the module") from None
    for each in vars(module).values():
        if isinstance(each, type) and issubclass(each, Expectation) and each.__module__ == module.__name__:
            kind = str(each.expectation_type)
            if kind in {getattr(one, "expectation_type", "") for one in vars(core).values()}:
                raise ConfigError(
                    f"{file}: the class {each.__name__} has the name of an expectation of Great Expectations, {kind}",
                    "give the class another name",
                )
            if KINDS.get(kind, each) is not each:
                raise ConfigError(f"{file}: two classes are the expectation {kind}", "give one another name")
            KINDS[kind] = each


def _place(file: Path, error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    mine = [frame for frame in frames if Path(frame.filename).resolve().parent == file.resolve().parent]
    return f"{mine[-1].filename}:{mine[-1].lineno}" if mine else str(file)


def _said(error: BaseException) -> str:
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {' '.join(said.split())[:200]}"
