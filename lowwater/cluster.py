"""Tasks of a stage on other machines (docs/cluster.md)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskRun:
    """Where a task of a stage ran: its name on pages, the packets or bytes that it read (0: unknown), and of the try
    that ended well the host, the number from 1, and the seconds."""

    task: str
    size: int
    host: str
    tries: int
    seconds: float
