"""Runs kernels as plain Python while records are few, and compiles them meanwhile in another process."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from threading import Lock
from types import CellType, CodeType, FunctionType
from typing import Any, cast

import numpy as np
from numba import config

from lowwater import processes
from lowwater.capture.headers.fields import PYTHON
from lowwater.capture.inlining import kernel, kernel_name
from lowwater.machine_code import has_machine_code
from lowwater.terminal import say

# Compiling in another process, while this one interprets the kernels. The machine code that the other process leaves on
# disk is loaded once it is done (docs/adr/0044).

MODULE = "lowwater.replay.kernels"
"""What compiles them, by reading a small capture of a kind of link."""

_LOCK = Lock()
_children: dict[int, subprocess.Popen[bytes] | None] = {}


def at_work(link: int, task: str) -> bool:
    """Whether another process compiles the kernels of a link type; the first question in this process begins it.

    It goes on when this process has ended, so that the next one need not begin again.

    Args:
        task: what the kernel does, for the message: `read headers of ethernet`.
    """
    with _LOCK:
        if link not in _children:
            _children[link] = _begin(link, task)
        child = _children[link]
    return child is not None and child.poll() is None


def _begin(link: int, task: str) -> subprocess.Popen[bytes] | None:
    if len(os.sched_getaffinity(0)) < 2 if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1) < 2:
        return None  # it would only take turns with this process
    nothing = subprocess.DEVNULL
    try:  # in a session of its own: Ctrl-C is for this process
        child = subprocess.Popen(
            processes.python("-m", MODULE, str(link)),
            stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True,
        )  # fmt: skip
    except OSError:
        return None
    say(f"compiling the code to {task}, once on this machine; until then it goes several times slower", True)
    return child


# Runs kernels as plain Python while records are few, so that the first capture of a machine waits for no compiler.
# Between the kernels of the reader and `inlining`. numba takes ten seconds for the kernel of a link layer; plain
# Python takes some 10 microseconds a record (docs/adr/0044). Both run the same functions: `interpreted` replaces each
# compiled function that a kernel calls by the function it was compiled from.

FEW = 50_000
"""Records that a process interprets with one kernel before it compiles it: about half a second."""

_few = FEW


@contextmanager
def compiling() -> Iterator[None]:
    """Compiles every kernel that the block uses, however few the records are: for work that is done at set-up."""
    global _few
    _few = 0
    try:
        yield
    finally:
        _few = FEW


class FirstRecords:
    """Counts the records that a process gives to a function, which is compiled only when they are more than `FEW`."""

    def __init__(self, function: Callable[..., Any], name: Callable[[], str]) -> None:
        """Counts from 0."""
        self._function, self._name = function, name
        self._records = 0
        self._over = False

    def few(self, records: int) -> bool:
        """Counts the next records; whether they are still few, and no earlier process left machine code."""
        if self._over:
            return False
        with _LOCK:
            self._records += records
            self._over = self._records > _few or self.compiled
        return not self._over

    @cached_property
    def compiled(self) -> bool:
        """Whether machine code of an earlier process was on disk at the first question."""
        return has_machine_code(self._function, self._name())


def announce(function: Callable[..., Any], task: str) -> None:
    """Says that a kernel is about to be compiled, if no machine code of it is on disk; not at set-up, which does."""
    if _few and not has_machine_code(function, kernel_name(function)):
        say(f"compiling code to {task}, once on this machine", err=True)


class Kernel:
    """A kernel in two forms: machine code, and plain Python for few records.

    Machine code is used where any process compiled the kernel before, or once this process has more than `FEW` records.
    """

    def __init__(
        self, function: Callable[..., Any], task: str, link: int, arguments: tuple[Any, ...] | None = None
    ) -> None:
        """Makes both forms lazily.

        Args:
            task: what the kernel does, for the message that it is compiled: `read headers of ethernet`.
            arguments: as for `inlining.kernel`.
        """
        self._function, self._task, self._arguments = cast("FunctionType", function), task, arguments
        self._link = link
        self._first = FirstRecords(function, lambda: kernel_name(function))

    def of(self, records: int) -> Callable[..., Any]:
        """Returns the form for the next records of this process."""
        if config.DISABLE_JIT:  # type: ignore[attr-defined]
            return self._function
        if "machine" in self.__dict__:
            return self.machine
        if self._first.few(records):
            return self.python
        if _few and not self.compiled and at_work(self._link, self._task):
            return self.python
        with _LOCK:
            return self.machine

    @property
    def compiled(self) -> bool:
        """Whether machine code of an earlier process is on disk."""
        return self._first.compiled

    @cached_property
    def machine(self) -> Callable[..., Any]:
        """The kernel as machine code."""
        announce(self._function, self._task)
        return kernel(self._function, self._arguments)

    @cached_property
    def python(self) -> Callable[..., Any]:
        """The kernel as plain Python, over the memory of the same arrays."""
        function = interpreted(self._function)

        def over_memory(*arguments: Any) -> Any:
            return function(*map(_memory, arguments))

        return over_memory


def _memory(argument: Any) -> Any:
    """Returns an array, or a tuple with arrays, as memory: its elements are Python's numbers, which are quicker."""
    if isinstance(argument, np.ndarray):
        return argument.data
    if isinstance(argument, tuple):
        return type(argument)(*map(_memory, argument))
    return argument


@cache
def interpreted(function: FunctionType) -> FunctionType:
    """Returns a function with the same code that calls plain Python wherever this one calls compiled functions.

    Example:
        >>> from lowwater.capture.headers.fields import u16
        >>> interpreted(u16.py_func)(memoryview(b"abc"), 1, 3)
        25187
    """
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    space = {name: _plain(function.__globals__[name]) for name in names & function.__globals__.keys()}
    closure = function.__closure__ and tuple(CellType(_plain(cell.cell_contents)) for cell in function.__closure__)
    return FunctionType(function.__code__, space, function.__name__, function.__defaults__, closure)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _plain(value: Any) -> Any:
    compiled_from = getattr(value, "py_func", None)
    if compiled_from is not None:
        return interpreted(compiled_from)
    return PYTHON.get(value, value) if callable(value) else value
