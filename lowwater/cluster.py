"""Tasks of a stage on other machines: from which size of the work on, and where each of them runs (docs/cluster.md)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

ALWAYS = "always"
SPREAD_PACKETS = 8_000_000
"""From this number of packets on, the workers of a cluster run the low stage faster than threads."""
SLACK = 1.1
"""By how much a machine may exceed its share of the work, so that a task runs where copies of its files are."""


@dataclass(frozen=True)
class TaskRun:
    """Where a task of a stage ran.

    Attributes:
        task: its link and number, as pages show it.
        size: packets or bytes that it read; 0 if unknown.
        planned: machine that was chosen for it; empty without a choice.
        host: machine on which it ended; empty if unknown.
        tries: number of the try that ended well, from 1.
        seconds: length of this try.
    """

    task: str
    size: int
    planned: str
    host: str
    tries: int
    seconds: float


@dataclass(frozen=True)
class LostExecutor:
    """An executor that Spark gave up while a stage ran.

    Attributes:
        executor: its number.
        host: its machine.
        reason: why, as Spark says it: no heartbeats, a lost worker, an exit code.
    """

    executor: str
    host: str
    reason: str


def on_cluster(master: str) -> bool:
    """Whether the executors of a master are other processes, possibly on other machines.

    Example:
        >>> on_cluster("local[*]"), on_cluster("spark://10.0.0.1:7077")
        (False, True)
    """
    return not master.startswith("local")


def spreads(size: int, least: int) -> bool:
    """Whether a cluster takes work of a size; with LOWWATER_SPARK_SPREAD=always it takes all.

    Args:
        size: packets, rows or bytes of the work.
        least: smallest work for which a cluster is faster than the threads of one process, in the same unit.

    Example:
        >>> spreads(10, 1_000_000)
        False
    """
    return size >= least or os.environ.get("LOWWATER_SPARK_SPREAD") == ALWAYS


def place(tasks: Sequence[tuple[str, int]], cores: Mapping[str, int]) -> list[str]:
    """Chooses a machine for each task, by size and by where copies of its files are.

    A task has a machine of its own, which depends on its files only: so another query set, or the same interval again,
    finds the copies that the first run left there. The largest tasks are placed first. A machine that has its share of
    the work takes no more, and the task goes to the next of its machines.

    Args:
        tasks: (name of the first file, packets or bytes) of each task.
        cores: machine -> its cores; a machine gets work in proportion.

    Returns:
        A machine for each task, in the order of the tasks; empty texts without machines.

    Example:
        >>> place([("a", 5), ("b", 5)], {"10.0.0.1": 1, "10.0.0.2": 1})
        ['10.0.0.2', '10.0.0.1']
    """
    chosen = [""] * len(tasks)
    loads = dict.fromkeys(sorted(cores), 0)
    share = sum(size for _, size in tasks) / max(1, sum(cores.values()))
    for at in sorted(range(len(tasks)), key=lambda at: (-tasks[at][1], tasks[at][0], at)) if loads else ():
        name, size = tasks[at]
        liked = sorted(loads, key=lambda host: blake2b(f"{name}\0{host}".encode(), digest_size=8).digest())
        with_room = (host for host in liked if loads[host] + size <= share * cores[host] * SLACK)
        least = min(liked, key=lambda host: (loads[host] + size) / cores[host])
        chosen[at] = next(with_room, least)
        loads[chosen[at]] += size
    return chosen
