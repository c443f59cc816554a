"""Manages an Airflow under `var/airflow`: prepare, start, query, stop. `python scripts/home.py up|down`.

The demo and the tests use it. It has SQLite, the LocalExecutor, a free port on loopback and its own password. It
touches nothing outside its folder and leaves no process running.
"""

from __future__ import annotations

import argparse
import configparser
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path, PurePath
from typing import Any, TextIO

import psutil

from lowwater.spark.server import free_port
from lowwater.terminal import Terminal

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
USER = "admin"
STARTS = 240.0
"""Seconds that Airflow may take to start on a busy machine."""
LOCKED = 60
"""Seconds that a component waits for a lock of SQLite; the default of 5 is too short on a busy machine."""
POOL = "lowwater"
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
AIRFLOW_PORT = 8080
"""The usual port of Airflow's web interface."""


class HomeError(RuntimeError):
    """Airflow failed; the message names the log to read."""


@dataclass
class Home:
    """One Airflow installation.

    Attributes:
        folder: AIRFLOW_HOME.
        lake: lake of its DAGs.
        queries: folder of query sets, with a DAG for each.
        anyone: whether no login is needed; for screenshots only.
        database: URL of Airflow's database; SQLite in its folder unless given.
        more: section of `airflow.cfg` -> settings that stand beside those of this module.
        spark: master of a resident Spark beside this Airflow, whose clients the tasks are; empty for none.
        port: preferred port of the web interface; 0, or a port in use, takes any free one. Two that are prepared at the
            same time must prefer different ports: a port is free until its Airflow has started.
    """

    folder: Path
    lake: PurePath
    queries: Path
    anyone: bool = False
    database: str | None = None
    spark: str = ""
    port: int = 0
    more: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    _started: subprocess.Popen[bytes] | None = field(default=None, init=False, repr=False)
    _resident: subprocess.Popen[bytes] | None = field(default=None, init=False, repr=False)

    def prepare(self, keep: bool = False) -> None:
        """Creates the folder, or keeps its runs; the password stays, settings and port are new.

        Raises:
            HomeError: an Airflow runs in it.
        """
        if self.running():
            raise HomeError(f"Airflow runs in {self.folder}: stop it with `make down`")
        password_file = self.folder / "password.json"
        password = self.password if password_file.exists() else secrets.token_urlsafe(9)
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        (self.folder / "token").unlink(missing_ok=True)
        address = f"http://127.0.0.1:{_port(self.port)}"
        config = configparser.RawConfigParser()
        config.read_dict(self._settings(address))
        config.read_dict(self.more)
        with _private(self.folder / "airflow.cfg") as file:
            config.write(file)
        with _private(password_file) as file:
            json.dump({USER: password}, file)
        if self.spark:
            said = {"conn_type": "spark_connect", "host": "localhost", "port": free_port()}
            with _private(self.folder / "spark.json") as file:
                json.dump({**said, "password": secrets.token_urlsafe(24)}, file)

    def _settings(self, address: str) -> dict[str, dict[str, object]]:
        cores, database_file = os.cpu_count() or 1, self.folder / "airflow.db"
        return {
            "core": {
                "dags_folder": ROOT / "dags",
                "plugins_folder": self.folder / "plugins",  # ours is an entry point of the package
                "load_examples": False,
                "executor": "LocalExecutor",
                "parallelism": 2 * cores,
                "execution_api_server_url": f"{address}/execution/",
                "simple_auth_manager_users": f"{USER}:admin",
                "simple_auth_manager_passwords_file": self.folder / "password.json",
                "simple_auth_manager_all_admins": self.anyone,
            },
            "database": {"sql_alchemy_conn": self.database or f"sqlite:///{database_file}?timeout={LOCKED}"},
            "logging": {"base_log_folder": self.folder / "logs"},
            "api": {
                "host": "127.0.0.1",
                "port": address.rpartition(":")[2],
                "base_url": address,
                "secret_key": secrets.token_hex(16),
            },
            "api_auth": {"jwt_secret": secrets.token_hex(32)},
            "usage_data_collection": {"enabled": False},
        }

    def environment(self) -> dict[str, str]:
        """The environment of every process of this Airflow, without settings of another Airflow."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW__")}
        connection = {"AIRFLOW_CONN_LOWWATER_SPARK": (self.folder / "spark.json").read_text()} if self.spark else {}
        return (
            inherited
            | connection
            | {
                "AIRFLOW_HOME": str(self.folder),
                "PATH": f"{BIN}{os.pathsep}{inherited.get('PATH', '')}",
                "LOWWATER_LAKE": str(self.lake),
                "LOWWATER_QUERIES": str(self.queries),
                "GX_ANALYTICS_ENABLED": "false",
            }
        )

    @property
    def address(self) -> str:
        """The address of the web interface."""
        config = configparser.RawConfigParser()
        config.read(self.folder / "airflow.cfg")
        return config["api"]["base_url"]

    @property
    def password(self) -> str:
        """The password of the user `admin`."""
        return str(json.loads((self.folder / "password.json").read_text())[USER])

    @property
    def log(self) -> Path:
        """The log of the components."""
        return self.folder / "airflow.log"

    def start(self) -> None:
        """Starts scheduler, web server, triggerer and DAG processor, and waits until they are healthy.

        Raises:
            HomeError: they are not healthy in time.
        """
        if self.spark:
            self._start_spark()
        with _private(self.log) as log:
            # A new session: it outlives `make up`, and an interrupt in the terminal does not reach it.
            self._started = subprocess.Popen(
                [str(BIN / "airflow"), "standalone"],
                cwd=self.folder,
                env=self.environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=0o077,  # of the database and of the logs of tasks
            )
        with _private(self.folder / "session") as file:
            file.write(str(self._started.pid))
        deadline = time.monotonic() + STARTS
        while not self._well():
            if self._started.poll() is not None or time.monotonic() > deadline:
                self.stop()
                tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])
                raise HomeError(f"Airflow did not start:\n{tail}\n  its whole log: {self.log}")
            time.sleep(0.5)

    def _start_spark(self) -> None:
        """Starts the resident Spark; tasks that come before it answers are tried again."""
        said = json.loads((self.folder / "spark.json").read_text())
        command = [BIN / "python", "-P", "-m", "lowwater.spark.server", "--master", self.spark, "--port", said["port"]]
        with _private(self.folder / "spark.log") as log:
            self._resident = subprocess.Popen(
                [str(word) for word in command],
                cwd=self.folder,
                env=self.environment() | {"SPARK_CONNECT_AUTHENTICATE_TOKEN": said["password"]},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=0o077,
            )

    def _well(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.address}/api/v2/monitor/health", timeout=5) as answer:
                health = json.load(answer)
        except (OSError, ValueError):
            return False
        return all(health[part]["status"] == "healthy" for part in ("scheduler", "triggerer", "dag_processor"))

    def running(self) -> bool:
        """Whether any process of this Airflow is alive."""
        return bool(self._processes())

    def _processes(self) -> list[psutil.Process]:
        """Every process of this Airflow, tasks and their JVMs included.

        Most have the inherited AIRFLOW_HOME. Processes that overwrite their environment with a title have its session.
        """
        session_file = self.folder / "session"
        session = int(session_file.read_text()) if session_file.exists() else -1  # kernel threads are of session 0
        return list(_of_session_or_variable(session, "AIRFLOW_HOME", str(self.folder)))

    def stop(self, signals: Sequence[signal.Signals] = ENDS) -> None:
        """Stops every process of this Airflow, tasks included, by one signal after another."""
        for sent in signals:
            alive = self._processes()
            for process in alive:
                # `standalone` passes an interrupt on to its parts; the others are asked themselves.
                try:
                    process.send_signal(sent)
                except psutil.NoSuchProcess:
                    continue
            psutil.wait_procs(alive, timeout=8)
        for started in (self._started, self._resident):
            if started is not None:
                started.wait()
        (self.folder / "session").unlink(missing_ok=True)

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Sends one request to Airflow's REST interface as the user `admin`.

        Raises:
            HomeError: Airflow refused the request, or was busy for STARTS seconds.
        """
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._token()}"}
        request = urllib.request.Request(f"{self.address}/api/v2/{path}", data, headers, method=method)
        deadline = time.monotonic() + STARTS
        while True:
            try:
                # What changes something is asked once, since nobody knows what became of it after this time.
                with urllib.request.urlopen(request, timeout=30 if method == "GET" else STARTS) as answer:
                    text = answer.read()
                return json.loads(text) if text else None
            except urllib.error.HTTPError as error:
                # SQLite has one writer at a time; Airflow asks a second one to retry.
                if error.code != HTTPStatus.SERVICE_UNAVAILABLE or time.monotonic() > deadline:
                    refused = error.read().decode(errors="replace")[:500]
                    raise HomeError(f"{method} {path}: {error.code} {refused}") from error
            except TimeoutError as error:
                if method != "GET" or time.monotonic() > deadline:
                    raise HomeError(f"{method} {path}: no answer in time; see {self.log}") from error
            time.sleep(1)

    def _token(self) -> str:
        token_file = self.folder / "token"
        if not token_file.exists():
            body = json.dumps({"username": USER, "password": self.password}).encode()
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(f"{self.address}/auth/token", body, headers)
            try:
                with urllib.request.urlopen(request, timeout=30) as answer, _private(token_file) as file:
                    file.write(json.load(answer)["access_token"])
            except urllib.error.HTTPError as error:
                raise HomeError(f"{self.address} does not know our password: another Airflow answers there") from error
        return token_file.read_text()

    def ready(self, *dags: str, slots: int | None = None) -> None:
        """Waits until the DAGs exist, and unpauses them.

        Args:
            dags: names of the DAGs.
            slots: of the pool; None for those of the plugin, which makes it.

        Raises:
            HomeError: a DAG file has an error, or the DAGs do not appear.
        """
        if slots is not None:
            if POOL in {pool["name"] for pool in self.ask("GET", "pools")["pools"]}:  # the plugin was first
                body = {"pool": POOL, "slots": slots, "include_deferred": False}  # Airflow asks for all three
                self.ask("PATCH", f"pools/{POOL}?update_mask=slots", body)
            else:
                self.ask("POST", "pools", {"name": POOL, "slots": slots, "include_deferred": False})
        deadline = time.monotonic() + STARTS
        while set(dags) - {dag["dag_id"] for dag in self.ask("GET", "dags?limit=100")["dags"]}:
            broken = self.ask("GET", "importErrors")["import_errors"]
            if broken or time.monotonic() > deadline:
                cause = broken[0]["stack_trace"] if broken else f"see {self.log}"
                raise HomeError(f"the DAGs {', '.join(dags)} did not appear: {cause}")
            time.sleep(0.5)
        for dag in dags:
            self.ask("PATCH", f"dags/{dag}", {"is_paused": False})

    def backfill(
        self,
        dag: str,
        first: str,
        last: str,
        parallel: int = 4,
        backwards: bool = False,
        again: str = "none",
        params: dict[str, Any] | None = None,
    ) -> int:
        """Starts a backfill of Airflow from the interval at `first` to the one at `last`; returns its id.

        The DAG is paused meanwhile. Where SQLite refuses one of the runs, Airflow removes those before it, and a
        scheduler that has begun with them ends with an error.

        Args:
            dag: name of the DAG.
            first: begin of the first interval.
            last: begin of the last interval.
            parallel: number of runs at once.
            backwards: whether the newest interval runs first.
            again: which existing runs run again: none, failed or completed.
            params: parameters of the runs, over those of the DAG.
        """
        body: dict[str, Any] = {"dag_id": dag, "from_date": first, "to_date": last, "run_backwards": backwards}
        body |= {"max_active_runs": parallel, "reprocess_behavior": again, "dag_run_conf": params or {}}
        paused = self.ask("GET", f"dags/{dag}")["is_paused"]
        self.ask("PATCH", f"dags/{dag}", {"is_paused": True})
        try:
            return int(self.ask("POST", "backfills", body)["id"])
        finally:
            self.ask("PATCH", f"dags/{dag}", {"is_paused": paused})

    def tasks(self, dag: str) -> list[dict[str, Any]]:
        """The task instances of all runs of a DAG."""
        instances = self.ask("GET", f"dags/{dag}/dagRuns/~/taskInstances?limit=100")["task_instances"]
        return [dict(instance) for instance in instances]

    def runs(self, dag: str) -> list[dict[str, Any]]:
        """The runs of a DAG."""
        return [dict(dag_run) for dag_run in self.ask("GET", f"dags/{dag}/dagRuns?limit=100")["dag_runs"]]

    def why(self, task: dict[str, Any]) -> str:
        """The last lines of a task's log, one text each."""
        index = "" if task["map_index"] < 0 else f"?map_index={task['map_index']}"
        path = f"dags/{task['dag_id']}/dagRuns/{task['dag_run_id']}/taskInstances/{task['task_id']}"
        content = self.ask("GET", f"{path}/logs/{task['try_number']}{index}")["content"]
        lines = []
        for entry in content:
            if isinstance(entry, dict) and not str(entry.get("event", "")).startswith("::"):
                errors = [f"{error['exc_type']}: {error['exc_value']}" for error in entry.get("error_detail") or []]
                lines.append("\n".join([str(entry.get("event", "")), *errors]))
        return "\n".join(lines[-12:])


def _private(path: Path) -> TextIO:
    """Opens a new file that only this user can read, from its creation on."""
    path.unlink(missing_ok=True)
    return open(path, "x", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600))


def _of_session_or_variable(session: int, name: str, value: str) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and (
                os.getsid(process.pid) == session or process.environ().get(name) == value
            ):
                yield process
        except (psutil.Error, OSError):
            continue


def _port(preferred: int) -> int:
    """Returns the preferred port if it is free, otherwise any free port."""
    with suppress(OSError), socket.create_server(("127.0.0.1", preferred)):
        return preferred or free_port()
    return free_port()


def default_home(anyone: bool = False) -> Home:
    """The Airflow of `make demo` and `make up`, over the demo's lake."""
    var = ROOT / "var"
    return Home(var / "airflow", var / "lake", ROOT / "queries", anyone, spark="local[*]", port=AIRFLOW_PORT)


def main() -> int:
    """`up` starts the Airflow of the demo, with what the demo left in it; `down` stops it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["up", "down"])
    command = parser.parse_args().command
    home, console = default_home(), Terminal()
    if command == "down":
        console.print("Airflow is stopped" if home.running() else "no Airflow was running")
        home.stop()
        return 0
    if not Path(home.lake / "lowwater.toml").exists():
        console.print(f"error: there is no lake at {home.lake}\n  hint: run `make demo` first, it makes one")
        return 1
    if not home.running():
        home.prepare(keep=True)
        with console.working("starting Airflow"):
            home.start()
            home.ready("capture_ingest", "replay_demo")
    console.print(f"Airflow: {home.address}\nlogin: {USER}, password: {home.password}\nstop it with: make down")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except HomeError as problem:
        print(f"error: {problem}", file=sys.stderr)
        sys.exit(1)
