"""Runs an entry point of `spark_apps/` as a driver on a Spark cluster, which lives on when the task of Airflow dies.

`child` does the same in a process of the task. The next try of a task finds the driver of the try before by a note in
the lake, and follows it.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import logging
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from lowwater.places import shared
from lowwater.storage import paths
from lowwater_airflow.child import ChildDied, outcome_of, passed
from lowwater_airflow.straight import send

log = logging.getLogger(__name__)
RUNNER = "org.apache.spark.deploy.PythonRunner"
"""Main class of a driver in Python. `spark-submit` starts it for Python in client mode, and refuses Python in cluster
mode of a standalone master; the master itself starts any class."""
LIVE = ("SUBMITTED", "QUEUED", "RUNNING", "RELAUNCHING")
"""States of a driver that has not ended."""
POLL = 1.0
"""Seconds between two questions about the state."""
PATIENCE = 300.0
"""Seconds for which a master may give no answer: one that is started again knows its drivers."""
SETTINGS = ("LOWWATER_", "NUMBA_", "GX_")
OF_THIS_MACHINE = ("LOWWATER_CACHE", "LOWWATER_SPARK_HOST")
ANSWER = 20.0
"""Seconds in which a master answers."""


class Driver:
    """A driver on the cluster: `run` submits or finds it and waits, `stop` ends it.

    Args:
        app: name of the program in `spark_apps/`, without its suffix.
        arguments: its arguments, without the place of the outcome.
        environment: LOWWATER_SPARK_MASTER, for the driver.
        rest: address of the REST server of the master, as http://master:6066.
        folder: folder of the lake for notes and outcomes.
        key: what only tries of one task have in common.
    """

    def __init__(
        self, app: str, arguments: Sequence[str], environment: dict[str, str], rest: str, folder: PurePath, key: str
    ) -> None:
        self._script = str(shared("spark_apps") / f"{app}.py")
        self._rest = rest.rstrip("/")
        name = hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
        self._note, self._outcome = folder / f"{name}.json", folder / f"{name}-outcome.json"
        self._arguments = [*arguments, "--outcome", str(self._outcome), "--deployed"]
        self._environment = {**sent(os.environ), **environment}
        self._name = f"lowwater {key}"
        self._submission = ""

    def run(self) -> Any:
        """Follows the driver until it ends, and returns its outcome.

        Raises:
            LowwaterError: the error of the entry point, with its class.
            ChildDied: the driver left no outcome, or the master gives no answer.
        """
        self._submission = self._found() or self._submitted()
        state = self._followed()
        if not paths.has_file(self._outcome):
            raise ChildDied(
                f"driver {self._submission} ended without an outcome: {state}; the log of its worker says why"
            )
        report = json.loads(paths.read(self._outcome))
        paths.remove(self._note, self._outcome)  # a task that is cleared runs anew
        return outcome_of(report)

    def stop(self) -> None:
        """Ends the driver, for a task that is cleared or times out."""
        if self._submission:
            self._ask(f"kill/{self._submission}", {})
            paths.remove(self._note)

    def _found(self) -> str:
        """Returns the driver of an earlier try that is alive, or has left an outcome; empty without one."""
        if not paths.has_file(self._note):
            return ""
        submission = str(json.loads(paths.read(self._note))["submission"])
        state = self._state(submission)
        if state in LIVE or paths.has_file(self._outcome):
            log.info("driver %s of an earlier try is found: %s", submission, state)
            return submission
        return ""

    def _submitted(self) -> str:
        paths.remove(self._outcome)
        jars = Path(_pyspark()) / "jars"
        # The master wants a file that all machines have; the classes are those of the worker.
        (resource,) = jars.glob("spark-launcher_*.jar")
        properties = {
            "spark.app.name": self._name,
            "spark.master": self._environment["LOWWATER_SPARK_MASTER"],
            "spark.submit.deployMode": "cluster",
            "spark.driver.supervise": "true",
            "spark.driver.memory": self._environment.get("LOWWATER_REPLAY__MEMORY", "2g"),
        }
        answer = self._ask(
            "create",
            {
                "action": "CreateSubmissionRequest",
                "clientSparkVersion": _version(),
                "appResource": f"file:{resource}",
                "mainClass": RUNNER,
                "appArgs": [self._script, "", *self._arguments],
                "environmentVariables": {
                    **self._environment,
                    "PYSPARK_PYTHON": sys.executable,
                    "PYTHONSAFEPATH": "1",  # nothing of the folder in which the driver is started is imported
                },
                "sparkProperties": properties,
            },
        )
        submission = answer.get("submissionId")
        if not answer.get("success") or not submission:
            raise ChildDied(f"{self._rest} takes no driver: {answer.get('message') or answer}")
        paths.write(self._note, json.dumps({"submission": submission}).encode())
        log.info("driver %s is submitted to %s", submission, self._rest)
        return str(submission)

    def _followed(self) -> str:
        """Waits for the end of the driver, and returns its last state."""
        last = ""
        while True:
            state = self._state(self._submission)
            if state != last:
                log.info("driver %s: %s", self._submission, state)
                last = state
            if state not in LIVE:
                return state
            time.sleep(POLL)

    def _state(self, submission: str) -> str:
        answer = self._ask(f"status/{submission}", None)
        state = str(answer.get("driverState") or "NOT_FOUND")
        worker = answer.get("workerHostPort")
        return f"{state}" if state in LIVE or not worker else f"{state} on {worker}"

    def _ask(self, path: str, sent: dict[str, Any] | None) -> dict[str, Any]:
        """Asks the master; it may be away for a while."""
        data = None if sent is None else json.dumps(sent).encode()
        deadline = time.monotonic() + PATIENCE
        while True:
            request = urllib.request.Request(
                f"{self._rest}/v1/submissions/{path}", data, {"Content-Type": "application/json;charset=UTF-8"}
            )
            try:
                with send(request, ANSWER) as answer:
                    found: dict[str, Any] = json.load(answer)
                    return found
            except urllib.error.HTTPError as error:
                raise ChildDied(f"{self._rest}: {error.code} {error.read()[:300].decode(errors='replace')}") from error
            except (OSError, ValueError) as error:
                if time.monotonic() > deadline:
                    raise ChildDied(f"{self._rest} gives no answer: {error}") from error
                time.sleep(POLL)


def sent(environment: Mapping[str, str]) -> dict[str, str]:
    """Selects the variables that a driver on another machine gets: settings, and nothing about places of this machine.

    Example:
        >>> sent({"PATH": "/bin", "LOWWATER_SPARK_HOST": "10.0.0.5", "LOWWATER_REPLAY__MEMORY": "4g"})
        {'LOWWATER_REPLAY__MEMORY': '4g'}
    """
    settings = passed({name: value for name, value in environment.items() if name.startswith(SETTINGS)})
    return {name: value for name, value in settings.items() if name not in OF_THIS_MACHINE}


def _pyspark() -> str:
    found = importlib.util.find_spec("pyspark")
    assert found is not None and found.origin is not None
    return str(Path(found.origin).parent)


def _version() -> str:
    return importlib.metadata.version("pyspark")
