"""Who holds a lock: process, machine and container, since two containers have a process 2 each.

Below `leases` and `file_locks`.
"""

from __future__ import annotations

import os
import re
import socket
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_CONTAINER = re.compile(r"(?:docker[-/]|cri-containerd[-:]|crio-|libpod-|kubepods[^\n]*/)([0-9a-f]{64})")
_MOUNTED = re.compile(r"/([0-9a-f]{64})/(?:userdata/)?hostname /etc/hostname")
_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"), Path("/var/run/secrets/kubernetes.io"))


@dataclass(frozen=True)
class Holder:
    """A process that holds a lock.

    Attributes:
        process: its number, among those of its machine or container.
        where: its machine and container, in words; empty where it is unknown.
        place: names the numbering of processes: the start of the machine and the namespace; empty where it is unknown.
    """

    process: str = "unknown"
    where: str = ""
    place: str = ""

    @property
    def is_here(self) -> bool:
        """Whether its number is one of the processes that this process sees."""
        return bool(self.place) and self.place == here().place

    def text(self) -> str:
        """What a lock says of it; `of` reads it."""
        return "\n".join((self.process, self.where, self.place))

    @staticmethod
    def of(text: str) -> Holder:
        """Reads what a lock says."""
        parts = [*text.split("\n"), "", ""]
        return Holder(*parts[:3]) if parts[0].isdigit() else Holder()

    def __str__(self) -> str:
        return f"{self.process} on {self.where}" if self.where else self.process

    def advice(self) -> str:
        """What to do about a lock that it holds. A number of another machine is nobody's to end here."""
        if self.is_here:
            return "wait until it has finished, or end that process; its lock goes with it"
        if not self.place:
            return "wait until it has finished"
        return "wait until it has finished: it is a process of another machine or container; its lock goes with it"


@lru_cache(maxsize=1)
def _place() -> tuple[str, str]:
    host = socket.gethostname()
    try:
        start = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        place = f"{start} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        place = host  # no Linux: the machine is its name
    return f"{host}{_container()}", place


def here() -> Holder:
    """This process."""
    return Holder(str(os.getpid()), *_place())


def _container() -> str:
    for name, pattern in (("cgroup", _CONTAINER), ("mountinfo", _MOUNTED)):
        with suppress(OSError):
            if found := pattern.search(Path("/proc/self", name).read_text()):
                return f", container {found[1][:12]}"
    return ", a container" if any(mark.exists() for mark in _MARKS) else ""
