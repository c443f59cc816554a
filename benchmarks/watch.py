"""Runs a command as a user does, and measures it from outside: seconds, memory, bytes on disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

PERIOD = 0.2
"""Seconds between two samples."""

PATIENCE = 30.0
"""Seconds that processes of a command may go on after it has ended."""


@dataclass(frozen=True)
class Measured:
    """One command.

    Attributes:
        seconds: from the start of the process to its end.
        peak_bytes: largest sum of the proportional set size (PSS) over the process and all its children: a page that
            several processes share counts once.
        disk_bytes: most bytes that the watched folders held at a sample.
        output: what it wrote to standard output.
    """

    seconds: float
    peak_bytes: int
    disk_bytes: int
    output: str

    def figures(self) -> dict[str, float | int]:
        """As they are written into the JSON."""
        return {
            "seconds": round(self.seconds, 2),
            "peak_memory_bytes": self.peak_bytes,
        }


def watch(
    words: Sequence[str | Path],
    environment: Mapping[str, str] | None = None,
    folders: Sequence[Path] = (),
    codes: Sequence[int] = (0,),
) -> Measured:
    """Runs a command to its end.

    Args:
        words: program and arguments.
        environment: variables added to those of this process.
        folders: whose bytes on disk are sampled together.
        codes: exit codes that are no failure.

    Raises:
        SystemExit: the command failed; its error output is in the message.
    """
    environment = {**os.environ, **(environment or {})}
    with tempfile.TemporaryFile("w+") as errors, tempfile.TemporaryFile("w+") as output:
        begin = time.monotonic()
        arguments = [str(word) for word in words]
        # A session of its own, so that what the command leaves behind is told by its group.
        process = subprocess.Popen(arguments, stdout=output, stderr=errors, env=environment, start_new_session=True)
        peaks = [0, 0]
        ended = threading.Event()
        sampler = threading.Thread(target=_sample, args=(process.pid, folders, peaks, ended))
        sampler.start()
        try:
            code = process.wait()
            seconds = time.monotonic() - begin
        finally:
            ended.set()
            sampler.join()
            if process.poll() is None:  # the wait was interrupted
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            _wait_for_group(process.pid)
        errors.seek(0)
        output.seek(0)
        if code not in codes:
            sys.exit(f"{' '.join(map(str, words))}\nended with {code}:\n{errors.read()[-4000:]}")
        text = output.read()
    return Measured(seconds, peaks[0], peaks[1], text)


def _wait_for_group(group: int) -> None:
    """Waits until no process of a group is left: Spark's JVM ends after its driver and deletes its files then."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _sample(pid: int, folders: Sequence[Path], peaks: list[int], ended: threading.Event) -> None:
    while True:
        peaks[0] = max(peaks[0], tree_bytes(pid))
        peaks[1] = max(peaks[1], sum(map(folder_bytes, folders)))
        if ended.wait(PERIOD):
            return


def tree_bytes(pid: int) -> int:
    """PSS of a process and its children, in bytes; 0 once it has ended."""
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    return sum(_pss(each.pid) for each in family)


def _pss(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    except OSError:  # it has just ended
        pass
    return 0


def folder_bytes(folder: Path) -> int:
    """Bytes of the files below a folder; files that vanish meanwhile count nothing."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(Path(parent) / name).st_size
            except FileNotFoundError:
                continue
    return total
