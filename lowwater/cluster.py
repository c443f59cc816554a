"""Whether the tasks of a stage run on other machines, and from which size of the work on.

Below the pipeline. Ingest, the low and the high stage and the audit ask it (docs/cluster.md).
"""

from __future__ import annotations

import os

ALWAYS = "always"


def master(default: str = "local[*]") -> str:
    """Returns the address of Spark's master: LOWWATER_SPARK_MASTER, or the default."""
    return os.environ.get("LOWWATER_SPARK_MASTER", default)


def on_cluster() -> bool:
    """Whether Spark's executors are other processes, possibly on other machines."""
    return not master().startswith("local")


def spreads(size: int, least: int) -> bool:
    """Whether a cluster takes work of a size; with LOWWATER_SPARK_SPREAD=always it takes all.

    Args:
        size: packets, rows or bytes of the work.
        least: smallest work for which a cluster is faster than the threads of one process, in the same unit.

    Example:
        >>> spreads(10, 1_000_000)
        False
    """
    return on_cluster() and (size >= least or os.environ.get("LOWWATER_SPARK_SPREAD") == ALWAYS)
