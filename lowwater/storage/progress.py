"""Whether this process still gets on with its work: a lease is renewed as long as it does, and not as long as it lives.

Beside the leases of `locks`. Signs of work are answers of the store, what a registered sign says (tasks of Spark on
other machines), and processor time of the process and of those that it started, such as a JVM: a process that waits for
ever has none.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

RENEWER = "lowwater-lease"
"""Name of the threads whose own requests are no work."""

SHARE = 0.1
"""Processor seconds a second of silence that are work; a JVM without any takes a tenth of this."""

_last = time.monotonic()
_signs: dict[str, Callable[[], object]] = {}


class Watch:
    """Looks for signs of work since it was made."""

    def __init__(self) -> None:
        self._at, self._spent = time.monotonic(), _processor()
        self._said = _said()

    def silence(self) -> float:
        """Seconds since the last sign of work."""
        now = time.monotonic()
        if _last <= self._at and now > self._at:
            spent, said = _processor(), _said()
            if said == self._said and spent - self._spent < SHARE * (now - self._at):
                return now - self._at
            self._spent, self._said = spent, said
            self._at = now
        self._at = max(self._at, _last)
        return now - self._at


def made() -> None:
    """Says that this process got on: an answer came."""
    global _last
    if threading.current_thread().name != RENEWER:
        _last = time.monotonic()


def sign(name: str, value: Callable[[], object]) -> None:
    """Registers a sign: what differs from look to look as long as work that this process waits for gets on."""
    _signs[name] = value


def _said() -> list[object]:
    said: list[object] = []
    for value in list(_signs.values()):
        try:
            said.append(value())
        except Exception:  # noqa: BLE001  # a session that has ended says nothing
            said.append(None)
    return said


def _processor() -> float:
    """Processor seconds of this process and of all that it started, as far as the system tells."""
    own = time.process_time()
    tick = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
    for child in _descendants(os.getpid()):
        try:
            fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            own += (int(fields[11]) + int(fields[12])) / tick
        except (OSError, IndexError, ValueError):
            continue  # it has ended
    return own


def _descendants(process: int) -> list[int]:
    found: list[int] = []
    waiting = [process]
    while waiting:
        try:
            threads = list(Path(f"/proc/{waiting.pop()}/task").iterdir())
            children = [int(text) for each in threads for text in (each / "children").read_text().split()]
        except (OSError, ValueError):
            continue
        found += children
        waiting += children
    return found
