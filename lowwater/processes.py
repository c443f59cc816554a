"""Processes: what Ctrl-C and SIGTERM do, how many files may be open, and processes of our own that answer requests."""

from __future__ import annotations

import json
import os
import pwd
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from tempfile import TemporaryFile, gettempdir
from typing import IO, Any, NoReturn

from lowwater.errors import LowwaterError

# What Ctrl-C and SIGTERM do to a process. A handler runs between two instructions of the main thread, also where that
# holds a lock: it may set a name, say a line, raise or leave, and no more. An exception that it raises can be lost,
# or come before the wait that it is meant for. It does not run at all while the main thread waits for a lock without
# an end, where the signal came just before that. So a command that ends in order waits in steps and asks a flag, and
# one signal more leaves the process.

STEP = 0.1
"""Longest wait between two looks at the flag, s."""


@contextmanager
def until_stopped(
    then: Callable[[], None] = lambda: None, numbers: tuple[int, ...] = (signal.SIGINT, signal.SIGTERM)
) -> Iterator[Callable[[], bool]]:
    """Yields a function that says whether a signal came; the next one does what it did before the block.

    Other threads than the main one get no signals: there it never comes. `then`: called by the handler of the first
    signal."""
    came = False

    def stop(number: int, frame: object) -> None:
        nonlocal came
        came = True
        for each, handler in before.items():
            signal.signal(each, handler)
        with suppress(RuntimeError):  # of a line that it says while the main thread writes one
            then()

    main = threading.current_thread() is threading.main_thread()
    before: dict[int, Any] = {number: signal.getsignal(number) for number in numbers if main}
    for number in before:
        signal.signal(number, stop)
    try:
        yield lambda: came
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is stop:
                signal.signal(number, handler)


def pause(seconds: float, stopped: Callable[[], bool]) -> None:
    """Sleeps, until a signal came: an event is not safe to set in its handler."""
    end = time.monotonic() + seconds
    while not stopped() and (left := end - time.monotonic()) > 0:
        time.sleep(min(left, STEP))


def interrupt_once(leave: Callable[[], NoReturn]) -> None:
    """Lets Ctrl-C raise KeyboardInterrupt, once: another one, and one that Python would drop, leaves the process."""

    def interrupt(number: int, frame: object) -> None:
        signal.signal(number, lambda *_: leave())
        raise KeyboardInterrupt

    usual = sys.unraisablehook

    def dropped(what: sys.UnraisableHookArgs) -> None:
        if issubclass(what.exc_type, KeyboardInterrupt):
            leave()
        usual(what)

    sys.unraisablehook = dropped
    if not in_background():
        signal.signal(signal.SIGINT, interrupt)


def in_background() -> bool:
    """Whether a shell has put the process into the background such that Ctrl-C is for others."""
    return signal.getsignal(signal.SIGINT) is signal.SIG_IGN


# Descriptors of this process: enough of them for files and connections, and one that `select` knows.

ENOUGH = 512
"""Descriptors for connections to a store, for files, and for Spark's JVM, which has the same limit."""


def require_descriptors(least: int = ENOUGH) -> None:
    """Raises the limit of open files of this process where it is too low, as far as the system permits.
    Raises LowwaterError if it does not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= least:
        return
    if hard != resource.RLIM_INFINITY and hard < least:
        raise LowwaterError(
            f"this process may open {hard} files and connections at once, and needs up to {least}",
            f"raise the limit before the command: ulimit -n {2 * least}",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (least, hard))


# Every Python that a process starts.


def python(*words: str, alone: bool = False) -> list[str]:
    """Returns the command of a Python of this environment that imports nothing of the folder in which it is started:
    captures of strangers may lie there, and beside them a `numpy.py`. `alone`: it needs the standard library only, so
    no variable and no package of the user counts either."""
    return [sys.executable, *(("-I", "-S") if alone else ("-P",)), *words]


# Processes of our own that answer requests, where something may take any time or memory: it can be ended there. It
# says by an empty line that it is there. A request is a line of JSON; the answers are such lines and an empty one.
# Previews and checks of query texts run so, and Great Expectations.

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
        self._command = python("-m", program) if isinstance(program, str) else program
        self._megabytes, self._in_store = megabytes, in_store
        self._turn = threading.RLock()
        self._child: subprocess.Popen[bytes] | None = None
        self._errors: IO[str] | None = None
        self._ready = False

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def begin(self) -> None:
        with self._turn:
            if not self.running:
                self.end()
                self._ready = False
                self._errors = TemporaryFile("w+", errors="replace")  # noqa: SIM115 - it lives as long as the process
                passed, pipe = passed_environment(os.environ, self._in_store), subprocess.PIPE
                if os.path.expanduser("~") == "~":  # a user without a name and a home, as containers have them
                    passed["HOME"] = gettempdir()
                self._child = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, stderr=self._errors, env=passed)

    def ask(self, request: Mapping[str, Any], seconds: float | None = None) -> Answers:
        """Yields the answers to a request as they come.

        `seconds` of it are a time that the process itself keeps (`serve`); the argument is one that this one keeps.
        Both begin when the process is there.
        Raises EndedError if the process took too long or too much memory, or has ended by itself."""
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


def nameless() -> str | None:
    """Says that the user of this process has no name on this machine, without which a JVM starts, and Spark does not;
    None if it has one."""
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        return f"user {os.geteuid()} has no line in /etc/passwd, without which Spark does not start"
    return None


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
    import psutil

    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0
