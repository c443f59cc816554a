"""Processes of our own that answer requests, where something may take any time or memory: it can be ended there.

It says by an empty line that it is there. A request is a line of JSON; the answers are such lines and an empty one.
Previews and checks of query texts run so, and Great Expectations.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from tempfile import TemporaryFile
from typing import IO, Any

import psutil

NAMED = ("HOME", "LANG", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH", "TMPDIR", "TZ", "VIRTUAL_ENV", "XDG_CACHE_HOME")
PREFIXES = ("LC_", "LOWWATER_LINKS", "LOWWATER_REPLAY", "LOWWATER_FILES", "NUMBA_")
STORES = ("AWS_", "AZURE_", "GOOGLE_")
"""Variables of the environment that such a process gets: none with a secret, but the keys of stores where it must."""
STARTS = 300.0
"""Most seconds until such a process is there: on a busy machine imports take long, and are no time of a request."""
LOOK = 0.05
"""Seconds between two looks at the memory and time of a process."""
Answers = Iterator[dict[str, Any]]


class EndedError(Exception):
    """The process was ended, or has ended, before its last answer; the text says why."""

    def __init__(self, why: str, alarm: bool = False) -> None:
        super().__init__(why)
        self.alarm = alarm  # whether it took longer than its request said


class Process:
    """A process that answers one request after another. It starts with the first, and again after it has ended.

    `program` is a module of ours, or a command; a process of more than `megabytes` MiB (resident) is ended. With
    `in_store` it gets the keys of object stores. Threads take turns.
    """

    def __init__(self, program: str | Sequence[str], megabytes: int | None = None, in_store: bool = False) -> None:
        # -P: nothing of the folder in which this process was started is imported.
        self._command = [sys.executable, "-P", "-m", program] if isinstance(program, str) else program
        self._megabytes, self._in_store = megabytes, in_store
        self._turn = threading.RLock()
        self._child: subprocess.Popen[bytes] | None = None
        self._errors: IO[str] | None = None
        self._ready = False

    @property
    def running(self) -> bool:
        """Whether there is a process."""
        return self._child is not None and self._child.poll() is None

    def begin(self) -> None:
        """Starts the process, if there is none."""
        with self._turn:
            if not self.running:
                self.end()
                self._ready = False
                self._errors = TemporaryFile("w+", errors="replace")  # noqa: SIM115 - it lives as long as the process
                passed, pipe = passed_environment(os.environ, self._in_store), subprocess.PIPE
                self._child = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, stderr=self._errors, env=passed)

    def ask(self, request: Mapping[str, Any], seconds: float | None = None) -> Answers:
        """Yields the answers to a request as they come.

        `seconds` of it are a time that the process itself keeps (`serve`); the argument is one that this one keeps.
        Both begin when the process is there.

        Raises:
            EndedError: the process took too long or too much memory, or has ended by itself.
        """
        with self._turn:
            self.begin()
            assert self._child is not None and self._child.stdin is not None
            if not self._ready:
                self._ready = next(self._lines(STARTS)) == b""
            with suppress(OSError):  # it has ended
                self._child.stdin.write(json.dumps(request).encode() + b"\n")
                self._child.stdin.flush()
            answered = False
            try:
                for line in self._lines(seconds):
                    if answered := not line:
                        return
                    yield json.loads(line)
            finally:
                if not answered:  # the rest would be the answer to the next request
                    self.end()

    def _lines(self, seconds: float | None) -> Iterator[bytes]:
        assert self._child is not None and self._child.stdout is not None
        until, found = None if seconds is None else time.monotonic() + seconds, b""
        looks = None if seconds is self._megabytes is None else LOOK
        while True:
            *lines, found = found.split(b"\n")
            yield from lines
            if until is not None and time.monotonic() > until:
                raise self._ended(f"it took longer than {seconds} s")
            if self._megabytes is not None and resident(self._child.pid) > self._megabytes << 20:
                raise self._ended(f"it took more than {self._megabytes} MiB of memory")
            if select.select([self._child.stdout], [], [], looks)[0]:
                piece = os.read(self._child.stdout.fileno(), 1 << 16)
                if not piece:
                    raise self._ended("", seconds)
                found += piece

    def _ended(self, why: str, seconds: float | None = None) -> EndedError:
        child, errors, said = self._child, self._errors, ""
        assert child is not None
        code = None if why else child.wait()
        if code == -signal.SIGXCPU:  # threads on several cores use up the processor's seconds before the clock's
            why = f"it took longer than {seconds} s of a processor"
        if errors is not None and not why:
            errors.seek(0)
            said = errors.read().strip().rpartition("\n")[2] or f"code {code}"
        self.end()
        return EndedError(why or said, code == -signal.SIGALRM)

    def end(self) -> None:
        """Ends the process, whatever it does."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            for pipe in (child.stdin, child.stdout, self._errors):
                if pipe is not None:
                    with suppress(OSError):  # of what was not written yet
                        pipe.close()
            child.wait()


def serve(answer: Callable[[dict[str, Any]], Iterable[Mapping[str, Any]]], megabytes: int | None = None) -> None:
    """Answers the requests of standard input, in such a process, until it ends.

    A request that takes longer than its `seconds` ends the process by an alarm: whatever code of C it is in, and also
    where nobody reads the answers. What is printed is no answer.
    """
    if megabytes is not None:  # of addresses; the parent counts exactly
        resource.setrlimit(resource.RLIMIT_DATA, (4 * megabytes << 20, 4 * megabytes << 20))
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    lines.write("\n")
    lines.flush()
    for line in sys.stdin:
        request = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, request.get("seconds", 0))
        for each in answer(request):
            lines.write(json.dumps(each, default=str) + "\n")
            lines.flush()
        signal.setitimer(signal.ITIMER_REAL, 0)
        lines.write("\n")
        lines.flush()


def passed_environment(environment: Mapping[str, str], in_store: bool) -> dict[str, str]:
    """Selects what such a process gets of the environment.

    Example:
        >>> passed_environment({"PATH": "/bin", "AIRFLOW__API_AUTH__JWT_SECRET": "x", "AWS_REGION": "eu"}, False)
        {'PATH': '/bin'}
    """
    prefixes = (*PREFIXES, *STORES) if in_store else PREFIXES
    return {name: value for name, value in environment.items() if name in NAMED or name.startswith(prefixes)}


def resident(pid: int) -> int:
    """Resident memory of a process, bytes; 0 if it has ended."""
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0
