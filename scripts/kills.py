"""Kills random processes of a running Airflow, for tests and `endurance.py`.

A computing task is a process with the folder of the lake on its command line, and its parent, the task of Airflow.
"""

from __future__ import annotations

import random
import signal
import threading
from pathlib import Path
from types import TracebackType

import psutil

SURE = 1.0
"""Processor time that every interval needs on any machine, s: a kill before it meets each of them."""
WHOLE = 6.0
"""Processor time of a whole interval in Airflow, s: a kill before it comes at any moment of its work, or too late."""


class Killer(threading.Thread):
    """Kills one process of an interval after some of its work: the computing process, or the task above it.

    Attributes:
        killed: begin of the interval -> `process` or `task`.
    """

    def __init__(self, lake: Path, chance: random.Random, share: float = 1.0, latest: float = SURE) -> None:
        """Kills in the given share of the intervals that work on a lake, from `with` to its end.

        Args:
            lake: the lake.
            chance: source of the moments.
            share: part of the intervals in which it kills.
            latest: most processor time that the process and those below it have had when it is killed, s.
        """
        super().__init__(daemon=True)
        self.killed: dict[str, str] = {}
        self._lake = str(lake)
        self._chance = chance
        self._share, self._latest = share, latest
        self._due: dict[str, tuple[float, bool]] = {}
        self._over = threading.Event()

    def __enter__(self) -> Killer:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        """Looks for processes until the thread is stopped."""
        while not self._over.wait(0.1):
            for process in psutil.process_iter(["cmdline"]):
                line = process.info["cmdline"] or []
                if {"--hold", "--ask"} & set(line) and self._lake in line:
                    self._consider(process, line[line.index("--from") + 1])

    def _consider(self, process: psutil.Process, interval: str) -> None:
        if interval not in self._due:
            spared = self._chance.random() >= self._share
            moment = self._chance.uniform(0.0, self._latest)
            self._due[interval] = (float("inf") if spared else moment, self._chance.random() < 0.5)
        moment, task = self._due[interval]
        if interval not in self.killed:
            try:
                parts = [process, *process.children(recursive=True)]
                if sum(sum(part.cpu_times()[:2]) for part in parts) < moment:
                    return
                victim = process.parent() if task else process
                if victim is not None:
                    victim.send_signal(signal.SIGKILL)
                    self.killed[interval] = "task" if task else "process"
            except psutil.NoSuchProcess:
                return
