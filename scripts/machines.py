"""A Spark cluster on loopback whose workers share nothing but an S3 server: for the demo, tests and runs with kills.

Each worker runs in mount and address of its own: its `/tmp` is a folder that no other process sees, and `var/` of the
project is empty for it. Only the programs (Python, Java, the packages) are common, as an image would have them.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # the S3 server belongs to the tests

from lowwater.spark.server import LOOPBACK, answers, free_port  # noqa: E402
from lowwater.storage.object_paths import ObjectPath  # noqa: E402
from tests.storage.servers import BUCKET, DISK, disk_server  # noqa: E402

KEYS = {
    "AWS_ACCESS_KEY_ID": "AKIACLUSTERCLUSTER00",
    "AWS_SECRET_ACCESS_KEY": "cluster/secret",
    "AWS_REGION": "us-east-1",
}
"""Keys of the S3 server, which accepts any."""

PASSED = ("PATH", "JAVA_HOME", "JAVA_TOOL_OPTIONS", "LANG", "VIRTUAL_ENV")
"""Variables that parts of the cluster get of their starter: where programs are, and how Java runs."""

STARTS = 300.0
"""Seconds that a part may take to start on a busy machine."""

EXECUTOR = 1024
"""Memory of an executor, MiB: Spark's default."""

ISOLATED = """\
set -e
mount --bind "$1" /tmp
[ ! -d "$2" ] || mount -t tmpfs -o size=1m none "$2"
shift 2
mkdir -p /tmp/home /tmp/local /tmp/work /tmp/kernels
exec "$@"
"""
"""Shell program: own folder as /tmp, nothing in the project's `var/`, then a command."""


class ClusterError(RuntimeError):
    """A part of the cluster failed; the message names its log."""


@dataclass
class Cluster:
    """An S3 server, a master and workers.

    Attributes:
        folder: folder for logs, the state of the master, and the worker's own folders.
        workers: number of workers.
        cores: cores of each worker.
        memory: memory of each worker, as Spark writes sizes; empty for that of its executors.
        packages: folder of Python packages that workers find beside the installed ones; empty for none.
        applications: most Spark applications at once; each has so many cores of each worker.
        resident: whether a server of Spark Connect is a part, which all drivers are clients of.
        far: pattern of paths of the store to which a write takes a second; empty for none.
    """

    folder: Path
    workers: int = 3
    cores: int = 1
    memory: str = ""
    packages: str = ""
    applications: int = 1
    resident: bool = False
    far: str = ""
    _parts: dict[str, psutil.Popen] = field(default_factory=dict, init=False, repr=False)
    _ports: dict[str, int] = field(default_factory=dict, init=False, repr=False)

    @property
    def names(self) -> list[str]:
        """The parts that may be killed and started again; the S3 server has its objects on the disk."""
        workers = (f"worker{number}" for number in range(self.workers))
        return [*workers, "master", "s3", *(["server"] if self.resident else [])]

    @property
    def master(self) -> str:
        """Address of the master."""
        return f"spark://127.0.0.1:{self._ports['master']}"

    def lake(self, name: str) -> ObjectPath:
        """A lake in the bucket of the cluster."""
        return ObjectPath("s3:", BUCKET, name)

    def store(self) -> dict[str, str]:
        """The environment of a process that reaches the S3 server."""
        return {**KEYS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._ports['s3']}", "LOWWATER_STORE_TIMEOUT": "20"}

    def environment(self) -> dict[str, str]:
        """The environment of a driver: the store and the master; even small work goes to the workers."""
        resident = f"sc://127.0.0.1:{self._ports['server']}"
        return {**self.store(), "LOWWATER_SPARK_MASTER": resident if self.resident else self.master}

    def start(self) -> None:
        """Starts all parts.

        Raises:
            ClusterError: a part did not start, or this machine cannot isolate workers.
        """
        if not DISK.exists():
            raise ClusterError("the S3 server is not installed: make .venv/.s3")
        if subprocess.run([*_namespace(), "true"], capture_output=True, check=False).returncode:
            raise ClusterError("workers cannot be isolated: `unshare --mount` is not allowed here")
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self._ports = {name: free_port() for name in ("disk", "s3", "master", "server")}
        (self.folder / "objects" / BUCKET).mkdir(parents=True)
        workers = [f"worker{number}" for number in range(self.workers)]
        for names in (["s3"], ["master"], workers, ["server"] if self.resident else []):
            works = {name: self._begun(name) for name in names}
            for name in names:
                self._await(name, works[name])

    def revive(self, name: str) -> None:
        """Starts a part that is not running, and waits until it works. It ends with the thread that calls this."""
        if not self.running(name):
            self._await(name, self._begun(name))

    def _begun(self, name: str) -> Callable[[], bool]:
        """Launches a part; returns what tells whether it works."""
        if name == "s3":
            ports = str(self._ports["disk"]), str(self._ports["s3"])
            self._launch("disk", disk_server(self._ports["disk"], self.folder / "objects"))
            self._launch(name, [sys.executable, "-m", "tests.storage.servers", *ports, "conditions", f"far={self.far}"])
            return lambda: all(answers(LOOPBACK, self._ports[part]) for part in ("disk", "s3"))
        if name == "master":
            command = ["--host", "127.0.0.1", "--port", str(self._ports["master"]), "--webui-port", "0"]
            self._launch(name, [_spark(), "org.apache.spark.deploy.master.Master", *command])
            return lambda: answers(LOOPBACK, self._ports["master"])
        if name == "server":
            command = ["--master", self.master, "--port", str(self._ports[name])]
            self._launch(name, [sys.executable, "-P", "-m", "lowwater.spark.server", *command])
            return lambda: answers(LOOPBACK, self._ports[name])
        self._launch(name, self._worker(name))
        return lambda: "Successfully registered with master" in self._log(name).read_text()

    def _worker(self, name: str) -> list[str]:
        own = self.folder / name
        shutil.rmtree(own, ignore_errors=True)
        own.mkdir()
        host = self._host(name)
        memory = self.memory or f"{self.applications * EXECUTOR}m"
        size = ["--cores", str(self.cores * self.applications), "-m", memory]
        command = ["--host", host, "--webui-port", "0", *size, self.master]
        isolated = [*_namespace(), "sh", "-c", ISOLATED, "sh", str(own), str(ROOT / "var")]
        return [*isolated, _spark(), "org.apache.spark.deploy.worker.Worker", *command]

    def _host(self, name: str) -> str:
        return f"127.0.0.{10 + int(name.removeprefix('worker'))}"

    def _environment_of(self, name: str) -> dict[str, str]:
        """The environment of a part: nothing of its starter but what `PASSED` names."""
        common = {key: os.environ[key] for key in PASSED if key in os.environ}
        common |= {
            "PYTHONDONTWRITEBYTECODE": "1",
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_HOME": str(Path(_spark()).parents[1]),
        }
        if name == "disk":
            return dict(os.environ)
        if name == "s3":
            return {**os.environ, "PYTHONPATH": str(ROOT)}
        if name == "server":
            return {**os.environ, **self.store()}
        if name == "master":
            kept = self.folder / "master-state"
            kept.mkdir(exist_ok=True)
            options = f"{QUICK} -Dspark.deploy.recoveryMode=FILESYSTEM -Dspark.deploy.recoveryDirectory={kept}"
            options += f" -Dspark.deploy.defaultCores={self.workers * self.cores}"
            return {
                **common,
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_DAEMON_JAVA_OPTS": options,
                "SPARK_DAEMON_MEMORY": "256m",
            }
        own = {"HOME": "/tmp/home", "TMPDIR": "/tmp", "LOWWATER_CACHE": "/tmp/kernels", "SPARK_DAEMON_MEMORY": "256m"}
        own |= {
            "SPARK_DAEMON_JAVA_OPTS": QUICK,
            "SPARK_LOCAL_DIRS": "/tmp/local",
            "SPARK_WORKER_DIR": "/tmp/work",
            "SPARK_LOCAL_IP": self._host(name),
        }
        return {**common, **self.store(), **own, **({"PYTHONPATH": self.packages} if self.packages else {})}

    def _launch(self, name: str, command: Sequence[str]) -> None:
        with self._log(name).open("w") as log:
            self._parts[name] = psutil.Popen(
                command,
                cwd=ROOT,
                env=self._environment_of(name),
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_starter,
            )

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def _await(self, name: str, works: Callable[[], bool]) -> None:
        deadline = time.monotonic() + STARTS
        while not works():
            if time.monotonic() > deadline or not self.running(name):
                tail = "\n".join(self._log(name).read_text(errors="replace").splitlines()[-12:])
                raise ClusterError(f"{name} did not start:\n{tail}\n  its log: {self._log(name)}")
            time.sleep(0.1)

    def running(self, name: str) -> bool:
        """Whether a part runs."""
        part = self._parts.get(name)
        return part is not None and part.poll() is None

    def kill(self, name: str) -> None:
        """Kills a part at once; a worker with its executors and their Python processes, as a machine that goes down."""
        for part in [self._parts[each] for each in (("disk", "s3") if name == "s3" else (name,))]:
            for process in [part, *_family(part)]:
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGKILL)
            part.wait()

    def executors(self, driver: psutil.Process | None = None) -> list[psutil.Process]:
        """The executors of all workers.

        Args:
            driver: a process above a driver, whose executors are meant; None for those of all.
        """
        ports = None if driver is None else _ports_of(driver)
        return [
            process
            for _, process, line in self._commands()
            if "org.apache.spark.executor.CoarseGrainedExecutorBackend" in line
            and (ports is None or int(line[line.index("--driver-url") + 1].rpartition(":")[2]) in ports)
        ]

    def processes(self, words: str) -> list[psutil.Process]:
        """The processes below the workers of which the command line has these words."""
        return [process for _, process, line in self._commands() if words in " ".join(line)]

    def computing(self) -> list[str]:
        """The workers whose executors have Python processes, which run the tasks."""
        return list(dict.fromkeys(name for name, _, line in self._commands() if "lowwater.spark.workers" in line))

    def _commands(self) -> Iterator[tuple[str, psutil.Process, list[str]]]:
        """Each process below a worker that is at work: the name of the worker, the process, its words."""
        for name in (f"worker{number}" for number in range(self.workers)):
            part = self._parts.get(name)
            for process in _family(part) if part is not None and part.poll() is None else ():
                with suppress(psutil.Error):
                    yield name, process, process.cmdline()

    def stop(self) -> None:
        """Ends all parts."""
        for name in [*self._parts]:
            with suppress(psutil.NoSuchProcess):
                self.kill(name)
        self._parts.clear()


@contextmanager
def cluster(folder: Path, **options: Any) -> Iterator[Cluster]:
    """Runs a cluster; arguments as of `Cluster`."""
    running = Cluster(folder, **options)
    try:
        running.start()
        yield running
    finally:
        running.stop()


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Sets variables of this process for a while."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def die_with_starter() -> None:
    """Makes a new process end with the thread that starts it; for `preexec_fn`."""
    # Who is killed ends nothing itself; PR_SET_PDEATHSIG is 1. An executor ends when its worker is gone.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _namespace() -> list[str]:
    """The command prefix that gives a process mounts of its own; a user who is not root maps itself to root."""
    return ["unshare", "--mount", "--propagation", "private", *([] if os.geteuid() == 0 else ["--map-root-user"])]


def _spark() -> str:
    found = importlib.util.find_spec("pyspark")  # it is not imported: only its programs are needed
    assert found is not None and found.origin is not None
    return str(Path(found.origin).parent / "bin" / "spark-class")


QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Options of a JVM that starts quickly: that of a worker does little, and dies soon."""


def _family(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _ports_of(process: psutil.Process) -> set[int]:
    """The ports at which a process and those below it listen."""
    found = set()
    for each in [process, *_family(process)]:
        with suppress(psutil.Error):
            found |= {at.laddr.port for at in each.net_connections("tcp") if at.status == psutil.CONN_LISTEN}
    return found
