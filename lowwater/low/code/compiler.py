"""Loads generated functions: compiled by numba from a cache folder, or as plain Python, which few records are worth.

Between `low.code.kernel` and the loop of `low.run`. A source is kept in a file named by its sha256, with a fixed time
of change, so that a second run or another process finds numba's machine code valid and compiles nothing. To compile
costs seconds an LFTA, and to interpret costs microseconds a record and LFTA: which is less is a matter of the records
alone, however many LFTAs there are (docs/adr/0044).
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
from lowwater.errors import ConfigError
from lowwater.low.code.kernel import Function
from lowwater.low.runtime import arithmetic as arith

Code = Mapping[str, Callable[..., Any]]
"""The functions of a source by name."""

_LOADING = Lock()
"""Passes over the chunks of a link run side by side and ask for the same code at once."""

_INTERPRETED: Counter[str] = Counter()
"""Records that passes of this process have had plain Python run over, by the file of the source."""

# Without numba's runtime nothing can allocate, and no references are counted: a row that leaves a table would pay two
# atomic operations for each array that holds rows. The functions of the loop are inlined for the same arrays' sake.
_OPTIONS = 'error_model="numpy", nogil=True, _nrt=False'
_HELPER, _PART, _ENTRY = (f"@njit({own}{_OPTIONS})\n" for own in ("", "forceinline=True, ", "cache=True, "))

# The slots of a table that may hold a group: machine code looks at thousands at once, plain Python at those that do.
_FILLED = """def filled(table, begin, end):
    return {}
"""
_ALL_SLOTS, _FILLED_SLOTS = "range(begin, end)", "(begin + np.flatnonzero(table[begin:end, 0])).tolist()"


def pays(functions: Sequence[Function], records: int, few: int, ask: bool = False) -> bool:
    """Whether machine code is to run a pass: it is there, or the records are more than few.

    The passes of a process add up, so that a kernel of many small intervals is compiled in the end.

    Args:
        functions: the functions of the kernel.
        records: the records of the pass, at most.
        few: as of the settings.
        ask: whether there is no pass yet, so that nothing adds up.
    """
    path = _path(source(functions, True))
    with _LOADING:
        count = _INTERPRETED[path.name] + records
        if compiled_before(functions) or count > few:
            return True
        if not ask:
            _INTERPRETED[path.name] = count
        return False


def compiled_before(functions: Sequence[Function]) -> bool:
    """Whether machine code of a source was asked for before, by any process."""
    return _path(source(functions, True)).exists()


def load(functions: Sequence[Function], compiled: bool = True) -> Code:
    """The functions of a generated source.

    Args:
        functions: in order of definition.
        compiled: by numba; otherwise plain Python, which LOWWATER_KERNEL=python asks for everywhere.

    Raises:
        ConfigError: if the cache folder cannot be used.
    """
    if by_numba(compiled):
        with _LOADING:
            return _compiled(source(functions, True))
    return _interpreted(source(functions, False))


def by_numba(compiled: bool) -> bool:
    """Whether code that may be compiled is: not where the environment asks for plain Python."""
    return compiled and os.environ.get("LOWWATER_KERNEL") != "python"


def source(functions: Sequence[Function], compiled: bool) -> str:
    """The whole module: the arithmetic of V2, then the functions, decorated for numba or left as plain Python."""
    helper, part, entry = (_HELPER, _PART, _ENTRY) if compiled else ("", "", "")
    head = "from __future__ import annotations\nimport math\nimport numpy as np\n"
    head += "from numba import njit\n" if compiled else ""
    head += f"MIN = {arith.MIN}\nMAX = {arith.MAX}\nSUMMABLE = {SUMMABLE}\n"
    parts = [f"{helper}{text}" for text in _arithmetic()]
    parts += [f"{part}{_FILLED.format(_ALL_SLOTS if compiled else _FILLED_SLOTS)}"]
    parts += [f"{entry if each.entry else part}{each.text}\n" for each in functions]
    return head + "".join(f"\n\n{part}" for part in parts)


@cache
def _arithmetic() -> tuple[str, ...]:
    return tuple(inspect.getsource(each) for _, each in inspect.getmembers(arith, inspect.isfunction))


@cache
def _interpreted(text: str) -> Code:
    space: dict[str, Any] = {}
    exec(compile(text, "<lowwater kernel>", "exec"), space)
    return space


@cache
def _compiled(text: str) -> Code:
    path = _path(text)
    if not path.exists() or path.read_text() != text:
        _place(path, text)
    name = f"lowwater_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # numba imports it by name when it loads machine code
    spec.loader.exec_module(module)
    return vars(module)


def _path(text: str) -> Path:
    return cache_folder() / f"kernel_{hashlib.sha256(text.encode()).hexdigest()}.py"


def _place(path: Path, text: str) -> None:
    # Whole or not at all, and with one time for ever: numba's index holds the time of the source, and a parallel
    # process that writes the same text must not make it look newer.
    try:
        with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".tmp", delete=False) as file:
            file.write(text)
        os.utime(file.name, (0, 0))
        os.replace(file.name, path)
    except OSError as error:
        hint = "check its rights and the room of its disk, or set LOWWATER_CACHE to another folder"
        raise ConfigError(f"the kernel cache {path.parent} cannot be written: {error.strerror}", hint) from error
