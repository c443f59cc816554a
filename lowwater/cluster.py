"""Tasks of a stage on other machines (docs/cluster.md)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskRun:
    """Where a task of a stage ran.

    Attributes:
        task: its link and number, as pages show it.
        size: packets or bytes that it read; 0 if unknown.
        host: machine on which it ended; empty if unknown.
        tries: number of the try that ended well, from 1.
        seconds: length of this try.
    """

    task: str
    size: int
    host: str
    tries: int
    seconds: float
