"""Descriptors of this process: enough of them for files and connections, and one that `select` knows."""

from __future__ import annotations

import os
import resource

from lowwater.errors import LowwaterError

ENOUGH = 512
"""Descriptors for connections to a store, for files, and for Spark's JVM, which has the same limit."""

SELECTABLE = 1024
"""Number from which `select` takes no descriptor; Python's side of Spark waits by it for calls of the JVM."""


def require_descriptors(least: int = ENOUGH) -> None:
    """Raises the limit of open files of this process where it is too low, as far as the system permits.

    Raises:
        LowwaterError: if it does not.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= least:
        return
    if hard != resource.RLIM_INFINITY and hard < least:
        raise LowwaterError(
            f"this process may open {hard} files and connections at once, and needs up to {least}",
            f"raise the limit before the command: ulimit -n {2 * least}",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (least, hard))


def require_selectable(descriptor: int) -> None:
    """Checks that `select` can wait for a descriptor.

    Raises:
        LowwaterError: if it cannot: too many others are open.
    """
    if descriptor >= SELECTABLE:
        open_now = len(os.listdir("/proc/self/fd"))
        raise LowwaterError(
            f"Spark cannot call this process: {open_now:,} files and connections are open, and its own would be number "
            f"{descriptor:,}, while {SELECTABLE - 1:,} is the last that can be waited for",
            "start the Spark session before so many files are open, or close them",
        )
