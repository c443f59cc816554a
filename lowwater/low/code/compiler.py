"""Loads generated functions: numba compiles them into a cache folder, or few records run them as plain Python.

Between `low.code.kernel` and the loop of `low.run`. The source lies in a file named by its sha256, with a fixed
modification time. A second run or another process then finds numba's machine code valid and compiles nothing.
Compilation costs seconds per LFTA, interpretation costs microseconds per record and LFTA. So the number of records
alone decides which is cheaper, whatever the number of LFTAs (docs/adr/0044).
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from lowwater.caches import cache_folder
from lowwater.catalog.expr import SUMMABLE
from lowwater.catalog.time import is_late, tick_after
from lowwater.errors import ConfigError
from lowwater.low.code.kernel import GeneratedFunction
from lowwater.low.runtime import arithmetic as arith

Code = Mapping[str, Callable[..., Any]]
"""Name -> function of a generated source."""

_LOAD_LOCK = Lock()
"""Passes over the chunks of a link run in parallel and load the same code at the same time."""

_interpreted_records: Counter[str] = Counter()
"""File of a source -> number of records that this process has interpreted with it."""

# Without numba's runtime the code cannot allocate, and counts no references: for a row that leaves a table these would
# cost two atomic operations per array of rows. The functions of the loop are inlined for the same reason.
_OPTIONS = 'error_model="numpy", nogil=True, _nrt=False'
_HELPER, _PART, _ENTRY = f"@njit({_OPTIONS})\n", f"@njit(forceinline=True, {_OPTIONS})\n", f"@cached_njit({_OPTIONS})\n"

# The slots that may hold a group: machine code visits all slots, plain Python only the used ones.
_FILLED = """def filled(table, begin, end):
    return {}
"""
_ALL_SLOTS, _FILLED_SLOTS = "range(begin, end)", "(begin + np.flatnonzero(table[begin:end, 0])).tolist()"


def worth_compiling(functions: Sequence[GeneratedFunction], records: int, few: int, ask: bool = False) -> bool:
    """Whether machine code should run a pass: it exists, or there are enough records.

    The records of all passes of the process are added up, so that a kernel of many small intervals is compiled at last.

    Args:
        records: the most records of the pass.
        few: the limit of the settings, `LowSettings.few`.
        ask: whether this is only a question, so that the records are not added.
    """
    path = _path(source(functions, True))
    with _LOAD_LOCK:
        count = _interpreted_records[path.name] + records
        if compiled_before(functions) or count > few:
            return True
        if not ask:
            _interpreted_records[path.name] = count
        return False


def compiled_before(functions: Sequence[GeneratedFunction]) -> bool:
    """Whether any process has compiled a source before."""
    return _path(source(functions, True)).exists()


def load(functions: Sequence[GeneratedFunction], compiled: bool = True) -> Code:
    """Returns the functions of a generated source.

    Args:
        functions: the functions, in order of definition.
        compiled: whether numba compiles them; LOWWATER_KERNEL=python asks for plain Python everywhere.

    Raises:
        ConfigError: the cache folder cannot be used.
    """
    if uses_numba(compiled):
        with _LOAD_LOCK:
            return _compiled(source(functions, True))
    return _interpreted(source(functions, False))


def uses_numba(compiled: bool) -> bool:
    """Whether numba compiles code, if the settings allow it: not if the environment asks for plain Python."""
    return compiled and os.environ.get("LOWWATER_KERNEL") != "python"


def source(functions: Sequence[GeneratedFunction], compiled: bool) -> str:
    """Returns the source of the module: the arithmetic of V2, the rules of time, then the functions.

    Args:
        compiled: whether the functions have numba's decorators.
    """
    helper, part, entry = (_HELPER, _PART, _ENTRY) if compiled else ("", "", "")
    head = "from __future__ import annotations\nimport math\nimport numpy as np\n"
    head += "from numba import njit\nfrom lowwater.machine_code import cached_njit\n" if compiled else ""
    head += f"MIN = {arith.MIN}\nMAX = {arith.MAX}\nSUMMABLE = {SUMMABLE}\n"
    parts = [f"{helper}{text}" for text in _arithmetic()]
    parts += [f"{part}{inspect.getsource(rule)}" for rule in (is_late, tick_after)]
    parts += [f"{part}{_FILLED.format(_ALL_SLOTS if compiled else _FILLED_SLOTS)}"]
    parts += [f"{entry if function.entry else part}{function.text}\n" for function in functions]
    return head + "".join(f"\n\n{part}" for part in parts)


@cache
def _arithmetic() -> tuple[str, ...]:
    return tuple(inspect.getsource(function) for _, function in inspect.getmembers(arith, inspect.isfunction))


@cache
def _interpreted(text: str) -> Code:
    space: dict[str, Any] = {}
    exec(compile(text, "<lowwater kernel>", "exec"), space)
    return space


@cache
def _compiled(text: str) -> Code:
    path = _path(text)
    if not path.exists() or path.read_text() != text:
        _write_source(path, text)
    name = f"lowwater_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # numba imports the module by name when it loads machine code
    spec.loader.exec_module(module)
    return vars(module)


def _path(text: str) -> Path:
    return cache_folder() / f"kernel_{hashlib.sha256(text.encode()).hexdigest()}.py"


def _write_source(path: Path, text: str) -> None:
    # Atomic, and with a constant modification time: numba's index holds the time of the source, and a parallel process
    # that writes the same text must not make the source look newer.
    try:
        with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".tmp", delete=False) as file:
            file.write(text)
        os.utime(file.name, (0, 0))
        os.replace(file.name, path)
    except OSError as error:
        hint = "check its rights and the room of its disk, or set LOWWATER_CACHE to another folder"
        raise ConfigError(f"the kernel cache {path.parent} cannot be written: {error.strerror}", hint) from error
