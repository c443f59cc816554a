"""Starts a preview in a process of its own, and ends it where it takes too long or too much memory.

Between the page on which queries are written and `evaluation`. Checks of that page have such a process too.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import psutil

from lowwater.errors import LowwaterError
from lowwater.replay.preview.evaluation import Preview, PreviewRequest, from_json

LOOK = 0.05
"""Seconds between two looks at the process."""


NAMED = ("HOME", "LANG", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH", "TMPDIR", "TZ", "VIRTUAL_ENV", "XDG_CACHE_HOME")
PREFIXES = ("LC_", "LOWWATER_LINKS", "LOWWATER_REPLAY", "LOWWATER_FILES", "NUMBA_")
STORES = ("AWS_", "AZURE_", "GOOGLE_")
"""Variables of the environment that the process gets: none with a secret, but the keys of a store for a lake in one."""


@dataclass(frozen=True)
class Limits:
    """Bounds of an answer.

    Attributes:
        seconds: most seconds, of the clock and of the processor.
        megabytes: most resident memory, MiB.
    """

    seconds: int = 30
    megabytes: int = 1024


def run_preview(request: PreviewRequest, limits: Limits | None = None) -> Preview:
    """Tries a query text in a process of its own.

    Args:
        request: what is tried.
        limits: bounds; None for the usual ones.

    Raises:
        LowwaterError: the text, the range or the lake is wrong, or the preview exceeds a bound.
    """
    bounds = limits or Limits()
    child = start(own_module("lowwater.replay.preview"), "://" in request.lake)
    try:
        output, why = answer(child, asdict(request) | asdict(bounds), bounds)
    finally:
        end(child)
    if why:
        raise LowwaterError(f"the preview was ended: {why}", "choose a shorter range, or make the query smaller")
    try:
        document = json.loads(output)
    except ValueError:
        raise LowwaterError("the preview ended without a result", "choose a shorter range, or another query") from None
    if "error" in document:
        raise LowwaterError(document["error"], document["hint"])
    return from_json(document["preview"])


def passed_environment(environment: Mapping[str, str], in_store: bool) -> dict[str, str]:
    """Selects the environment of the process.

    Args:
        environment: that of the server.
        in_store: whether the lake is in an object store.

    Example:
        >>> passed_environment({"PATH": "/bin", "AIRFLOW__API_AUTH__JWT_SECRET": "x", "AWS_REGION": "eu"}, False)
        {'PATH': '/bin'}
    """
    prefixes = (*PREFIXES, *STORES) if in_store else PREFIXES
    return {name: value for name, value in environment.items() if name in NAMED or name.startswith(prefixes)}


def own_module(name: str) -> list[str]:
    """The command of a module of ours; -P: nothing of the folder in which the server was started is imported."""
    return [sys.executable, "-P", "-m", name]


def start(command: Sequence[str], in_store: bool) -> subprocess.Popen[bytes]:
    """Starts a process that answers lines; arguments as of `passed_environment`."""
    passed = passed_environment(os.environ, in_store)
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=passed
    )


def answer(child: subprocess.Popen[bytes], asked: Mapping[str, Any], bounds: Limits) -> tuple[bytes, str]:
    """Gives a process of `start` a line of JSON. Returns the line that it answers, or less than one, and which bound
    it has exceeded; empty for none."""
    assert child.stdin is not None and child.stdout is not None
    until, found = time.monotonic() + bounds.seconds, b""
    with suppress(OSError):  # it has ended
        child.stdin.write(json.dumps(asked).encode() + b"\n")
        child.stdin.flush()
    while not found.endswith(b"\n"):
        if time.monotonic() > until:
            return found, f"it took longer than {bounds.seconds} s"
        if resident(child.pid) > bounds.megabytes << 20:
            return found, f"it took more than {bounds.megabytes} MiB of memory"
        if select.select([child.stdout], [], [], LOOK)[0]:
            piece = os.read(child.stdout.fileno(), 1 << 16)
            if not piece:
                with suppress(subprocess.TimeoutExpired):
                    # Threads on several cores use up the processor's seconds before the clock's.
                    if child.wait(1) == -signal.SIGXCPU:
                        return found, f"it took longer than {bounds.seconds} s of a processor"
                break
            found += piece
    return found, ""


def end(child: subprocess.Popen[bytes]) -> None:
    """Ends a process of `start`, whatever it does."""
    child.kill()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with suppress(OSError):  # of what was not written yet
                pipe.close()
    child.wait()


def resident(pid: int) -> int:
    """Resident memory of a process, bytes; 0 if it has ended."""
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0
