"""Runs an entry point of `spark_apps/` in a child process that dies with its task.

The operators use it, so that no JVM lives in a process that Airflow forked.
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
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, cast

from lowwater import errors
from lowwater.errors import LowwaterError
from lowwater.extras import shared
from lowwater.processes import python

log = logging.getLogger(__name__)
DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)
GRACE = 10.0
"""Seconds between asking a process to end and killing it."""


class ChildDied(RuntimeError):
    """The child ended without an outcome: killed, out of memory, or an internal error; its log shows the cause."""


PLACES = ("AIRFLOW_HOME", "HOME", "JAVA_HOME", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH", "TMPDIR", "VIRTUAL_ENV")
NAMED = {*PLACES, "XDG_CACHE_HOME", "GX_ANALYTICS_ENABLED", "LANG", "LANGUAGE", "TZ", "USER", "LOGNAME"}
"""Environment variables that a child gets: places of programs, packages and folders, language and time zone.
AIRFLOW_HOME identifies its Airflow. Proxies are left out: their addresses contain passwords, and a replay downloads
nothing.
"""
STORES = ("AWS_", "AZURE_", "GOOGLE_")
"""Prefixes of variables with keys and address of an object store, for children whose lake is in one."""
NAMED_SO = ("LC_", "LOWWATER_", "NUMBA_", "PYSPARK_", "SPARK_")
SECRET = ("LOWWATER_NOTIFY", "LOWWATER_SPARK_SECRET")
"""Prefixes of variables that a child does not get: an address with a token, the secret of a cluster."""


def passed(environment: Mapping[str, str], in_store: bool = False) -> dict[str, str]:
    """Selects the environment of a child, which runs Python of users: without Airflow's secrets.

    Args:
        in_store: whether the lake is in an object store: the child gets its keys.

    Example:
        >>> passed({"PATH": "/bin", "AIRFLOW__API_AUTH__JWT_SECRET": "x", "LOWWATER_REPLAY__MEMORY": "4g"})
        {'PATH': '/bin', 'LOWWATER_REPLAY__MEMORY': '4g'}
        >>> passed({"AWS_SECRET_ACCESS_KEY": "x"}), passed({"AWS_REGION": "eu-central-1"}, in_store=True)
        ({}, {'AWS_REGION': 'eu-central-1'})
    """
    prefixes = (*NAMED_SO, *STORES) if in_store else NAMED_SO
    return {
        name: value
        for name, value in environment.items()
        if (name in NAMED or name.startswith(prefixes)) and not name.startswith(SECRET)
    }


class Child:
    """A child process: `run` starts it and waits, `stop` ends it from another thread or a signal handler."""

    def __init__(self, app: str, arguments: Sequence[str], environment: dict[str, str] | None = None) -> None:
        self._app = app
        self._command = python(str(shared("spark_apps") / f"{app}.py"), *arguments)
        in_store = any("://" in word for word in arguments)
        self._environment = {**passed(os.environ, in_store), **(environment or {})}
        self._process: subprocess.Popen[str] | None = None

    def run(self) -> Any:
        """Starts the process, logs its output line by line, and returns its outcome.
        Raises the error of the entry point, a LowwaterError, with its class, and ChildDied if the process left no
        outcome."""
        with _in_memory() as outcome:
            log.info("starting %s", " ".join(self._command))
            with subprocess.Popen(
                [*self._command, "--outcome", f"/dev/fd/{outcome.fileno()}"],
                pass_fds=[outcome.fileno()],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                cwd=shared("spark_apps").parent,
                env=self._environment,
                start_new_session=True,  # so that `stop` reaches the JVM too
                preexec_fn=_die_with_parent,
            ) as process:
                self._process = process
                assert process.stdout is not None
                for line in process.stdout:
                    log.info(line.rstrip())
            code = process.returncode
            outcome.seek(0)
            if not (said := outcome.read()):
                cause = signal.Signals(-code).name if code < 0 else f"exit code {code}"
                raise ChildDied(f"{self._app}.py ended without an outcome: {cause}; see its lines above")
        return outcome_of(json.loads(said))

    def stop(self) -> None:
        process = self._process
        if process is None or process.poll() is not None:
            return
        for signal_ in (signal.SIGTERM, signal.SIGKILL):
            os.killpg(process.pid, signal_)
            try:
                process.wait(GRACE)
                return
            except subprocess.TimeoutExpired:
                log.warning("process %s did not end on %s", process.pid, signal_.name)


def outcome_of(report: Mapping[str, Any]) -> Any:
    """Returns the outcome in the report of an entry point.
    Raises the error of the entry point, a LowwaterError, with its class."""
    if "error" not in report:
        return report["outcome"]
    raise error_of(report["error"], report["message"])


def error_of(name: str, message: str) -> LowwaterError:
    """The error of an entry point; several errors of a query set are one."""
    kind = getattr(errors, name)
    error: LowwaterError = (errors.QueryError if kind is errors.QueryErrors else kind)(message)
    return error


def _in_memory() -> BinaryIO:
    # The disk of a worker may be full: what is published would then have no outcome.
    if sys.platform == "linux":
        return os.fdopen(os.memfd_create("outcome"), "w+b")
    return cast("BinaryIO", tempfile.TemporaryFile())


_LIBC = ctypes.CDLL(None, use_errno=True)


def _die_with_parent() -> None:
    # The task may be killed with SIGKILL and then runs no code, so the kernel must end the child. Only Linux can.
    if sys.platform == "linux":
        _LIBC.prctl(DIES_WITH_PARENT, signal.SIGKILL)
