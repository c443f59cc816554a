"""Starts a preview in a process of its own, and ends it where it takes too long or too much memory.

Between the page on which queries are written and `evaluation`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass

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
    """Bounds of a preview.

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
    # -P: nothing of the folder in which the server was started is imported.
    command = [sys.executable, "-P", "-m", "lowwater.replay.preview"]
    given = json.dumps(asdict(request) | asdict(bounds)).encode()
    passed = passed_environment(os.environ, "://" in request.lake)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=passed
    ) as child:
        output, why = _watched(child, given, bounds)
    if why:
        raise LowwaterError(f"the preview was ended: {why}", "choose a shorter range, or make the query smaller")
    try:
        document = json.loads(output)
    except ValueError:
        raise LowwaterError(
            f"the preview ended with code {child.returncode} and no result", "choose a shorter range, or another query"
        ) from None
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


def _watched(child: subprocess.Popen[bytes], given: bytes, bounds: Limits) -> tuple[bytes, str]:
    """Gives a child its input. Returns its output, and why it was ended; empty if it ended by itself."""
    output: list[bytes] = []
    talk = threading.Thread(target=lambda: output.append(child.communicate(given)[0]), daemon=True)
    talk.start()
    until, why = time.monotonic() + bounds.seconds, ""
    while talk.is_alive() and not why:
        talk.join(LOOK)
        if time.monotonic() > until:
            why = f"it took longer than {bounds.seconds} s"
        elif resident(child.pid) > bounds.megabytes << 20:
            why = f"it took more than {bounds.megabytes} MiB of memory"
    if why:
        child.kill()
    talk.join()
    return (output[0] if output else b""), why


def resident(pid: int) -> int:
    """Resident memory of a process, bytes; 0 if it has ended."""
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0
