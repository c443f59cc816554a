"""Compiles the kernels of the reader in another process, while this one interprets them.

Below `interpretation`. A process that has more than a few records asks here first; the machine code that the other one
leaves on disk is loaded once it is done (docs/adr/0044).
"""

from __future__ import annotations

import os
import subprocess
import sys
from threading import Lock

from lowwater.terminal import say

MODULE = "lowwater.replay.kernels"
"""What compiles them, by reading a small capture of a kind of link."""

_LOCK = Lock()
_children: dict[int, subprocess.Popen[bytes] | None] = {}


def at_work(link: int, task: str) -> bool:
    """Whether another process compiles the kernels of a link type; the first question in this process begins it.

    It goes on when this process has ended, so that the next one need not begin again.

    Args:
        link: number of the link type.
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
            [sys.executable, "-P", "-m", MODULE, str(link)],
            stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True,
        )  # fmt: skip
    except OSError:
        return None
    say(f"compiling code to {task} beside this, once on this machine; until then it is done several times slower", True)
    return child
