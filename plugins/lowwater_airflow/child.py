"""Runs an entry point of `spark_apps/` in a process of its own that dies with its task.

Between the operators and the package: no JVM ever lives in a process that Airflow forked.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lowwater import errors
from lowwater_airflow.settings import ROOT

log = logging.getLogger(__name__)
DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)
GRACE = 10.0
"""Seconds between asking a process to end and killing it."""


class ChildDied(RuntimeError):
    """The process ended without an outcome: killed, out of memory, or a fault of our own (its log tells)."""


class Child:
    """One process; `run` starts it and waits, `stop` ends it from another thread or a signal handler."""

    def __init__(self, app: str, arguments: Sequence[str], environment: dict[str, str] | None = None) -> None:
        self._command = [sys.executable, str(ROOT / "spark_apps" / f"{app}.py"), *arguments]
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[str] | None = None

    def run(self) -> Any:
        """The outcome that the entry point leaves, each of its lines logged as it comes.

        Raises:
            LowwaterError: the one that the entry point raised, of its class.
            ChildDied: it left no outcome.
        """
        with tempfile.TemporaryDirectory(prefix="lowwater-task-") as folder:
            outcome = Path(folder) / "outcome.json"
            log.info("starting %s", " ".join(self._command))
            with subprocess.Popen(
                [*self._command, "--outcome", str(outcome)],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                cwd=ROOT,
                env=self._environment,
                start_new_session=True,  # so that `stop` reaches the JVM too
                preexec_fn=_die_with_parent,
            ) as process:
                self._process = process
                assert process.stdout is not None
                for line in process.stdout:
                    log.info(line.rstrip())
            code = process.returncode
            if not outcome.exists():
                cause = signal.Signals(-code).name if code < 0 else f"exit code {code}"
                raise ChildDied(f"{Path(self._command[1]).name} ended without an outcome: {cause}; see its lines above")
            said = json.loads(outcome.read_text(encoding="utf-8"))
        if "error" in said:
            raise getattr(errors, said["error"])(said["message"])
        return said["outcome"]

    def stop(self) -> None:
        """Ends the process and all that it started."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        for each in (signal.SIGTERM, signal.SIGKILL):
            os.killpg(process.pid, each)
            try:
                process.wait(GRACE)
                return
            except subprocess.TimeoutExpired:
                log.warning("process %s did not end on %s", process.pid, each.name)


_LIBC = ctypes.CDLL(None, use_errno=True)


def _die_with_parent() -> None:
    # The task's process may be killed outright, and then nothing of it runs any more: the kernel must see to it.
    _LIBC.prctl(DIES_WITH_PARENT, signal.SIGKILL)
