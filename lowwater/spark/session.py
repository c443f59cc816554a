"""The session of a command: a client of a Spark Connect server, its own or one that is there already; it starts in a
thread while the command does something else.
"""

from __future__ import annotations

import atexit
import os
import secrets
import socket
import subprocess
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from threading import Lock, Thread
from typing import IO, Any
from urllib.parse import quote, urlsplit
from weakref import WeakKeyDictionary, WeakSet

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.shell.progress import ProgressHandler, StageInfo

from lowwater import caches, errors, processes
from lowwater.spark import tasks
from lowwater.spark.server import TOKEN, free_port, lost_in
from lowwater.storage import failures

_HOME = "lowwater-client-"
MODE = "SPARK_CONNECT_MODE_ENABLED"
"""What PySpark sets with a client: programs that this process starts are none of it."""
PORT = 15002
"""Port of a server, where an address has none."""
ANSWERS = 10.0
"""Seconds in which a server takes a connection; Spark would ask for ten minutes."""
STARTS = 900.0
"""Seconds that a session may take to start; a cluster may have to find room for its driver."""
NO_ANSWER = (
    "is its server running, and are address, port and token right? "
    "--spark none, or LOWWATER_SPARK_MASTER=none, works without it"
)
_ENDS = 20.0
"""Seconds that a server may take to end."""


def sent(address: str) -> str:
    """Returns the address as Spark's client takes it: with `use_ssl=false` a token goes as it is, in a header.

    By itself the client asks a server on another machine for TLS as soon as there is a token. It refuses `/` and `=` in
    values, which tokens have, unless they are written `%2F` and `%3D`; its error shows them.

    Example:
        >>> sent("sc://spark:15002/;token=a/b%2Fc=;use_ssl=False")
        'sc://spark:15002/;authorization=Bearer%20a%2Fb%2Fc%3D'
    """
    place, _, rest = address.partition("/;")
    pairs = (each.partition("=") for each in rest.split(";") if each)
    parameters = {name: quote(value, safe="%") for name, _, value in pairs}
    if parameters.get("use_ssl", "").lower() == "false" and "token" in parameters:
        del parameters["use_ssl"]
        parameters["authorization"] = f"Bearer%20{parameters.pop('token')}"
    return f"{place}/;" + ";".join(f"{name}={value}" for name, value in parameters.items())


def build_session(
    app: str = "lowwater", master: str = "local[*]", say: Callable[[str], None] = lambda _: None
) -> SparkSession:
    """Connects to the server at an address `sc://...`; else starts one on a master of Spark, under this name, and says
    which executors and tries of tasks it has lost, when it does.

    Raises:
        SparkError: it does not start, with the last lines of its output.
        AwayError: it gives no answer.
    """
    if master.startswith("sc://"):
        return _connected(master, f"the Spark at {master.partition('/;')[0]}")  # the rest may have a token
    address = started(app, master, say)
    try:
        session = _connected(address, f"the command's own Spark on {master}")
    except Exception:
        _servers[address]()
        raise
    _own[session] = _servers[address]
    return session


_servers: dict[str, Callable[[], None]] = {}
"""Address of each server that this process has started and not ended -> what ends it. A watch may start many."""
_own: WeakKeyDictionary[SparkSession, Callable[[], None]] = WeakKeyDictionary()
"""Session with a server of this process -> what ends the server; it may be called again."""


def started(app: str, master: str, say: Callable[[str], None] = lambda _: None) -> str:
    """Starts a server that ends with this process, its output in a file; returns its address. What it says of lost
    executors and tasks is said as soon as it does."""
    home, token, port = caches.make_folder(_HOME), secrets.token_urlsafe(24), free_port()
    command = processes.python("-m", "lowwater.spark.server", "--attached")
    log = home / "spark.log"
    server = subprocess.Popen(
        [*command, "--app", app, "--master", master, "--port", str(port)], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, TOKEN: token}, start_new_session=True,
    )  # fmt: skip
    held, said, output = server.stdin, server.stdout, server.stderr
    assert held is not None and said is not None and output is not None
    reader = Thread(target=_follow, args=(output, log, say), name="lowwater-spark-log", daemon=True)
    reader.start()

    address = f"sc://localhost:{port}/;token={token}"

    def end() -> None:
        _servers.pop(address, None)
        atexit.unregister(end)
        with suppress(OSError):
            held.close()  # on which it ends
        try:
            server.wait(_ENDS)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        said.close()
        reader.join(_ENDS)  # its workers may hold the other end a little longer
        caches.remove_folder(home)

    if not said.readline():
        server.wait()
        reader.join(_ENDS)
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-12:])
        end()
        cause = processes.nameless()
        more = "`lowwater doctor` looks for the cause"
        raise errors.SparkError(f"Spark did not start: {tail}", more if cause is None else f"{cause}; {more}")
    atexit.register(end)
    _servers[address] = end
    return address


def _follow(output: IO[bytes], log: Path, say: Callable[[str], None]) -> None:
    """Writes the output of a server into a file, and says what it lost."""
    with output, log.open("wb", buffering=0) as sink:
        for line in output:
            sink.write(line)
            if text := lost_in(line.decode(errors="replace")):
                say(text)


class _Done(ProgressHandler):
    """Tasks that have ended: a process that waits for them does nothing else."""

    def __init__(self) -> None:
        self.tasks: dict[str, int] = {}

    def __call__(
        self, stages: Iterable[StageInfo] | None, inflight_tasks: int, operation_id: str | None, done: bool
    ) -> None:
        self.tasks[operation_id or ""] = sum(stage.num_completed_tasks for stage in stages or ())


def _connected(address: str, shown: str) -> SparkSession:
    place = urlsplit(address.partition("/;")[0])
    try:
        socket.create_connection((place.hostname or "", place.port or PORT), ANSWERS).close()
        session: SparkSession = SparkSession.builder.remote(sent(address)).create()
        os.environ.pop(MODE, None)
        session.client.set_retry_policies([DefaultPolicy(max_retries=6, max_backoff=10_000)])
        session.conf.set("spark.sql.session.timeZone", "UTC")
    except (OSError, PySparkException) as error:
        raise errors.AwayError(f"{shown} gives no answer: {tasks.cause_of(str(error))}", NO_ANSWER) from None
    warnings.filterwarnings("ignore", r"\[RETRIES_EXCEEDED\]")  # the error that follows says it
    tasks.name(session, shown)
    handler = _Done()
    tasks.watch(session, handler)
    failures.sign("spark", lambda: dict(handler.tasks))
    atexit.register(_left, session)
    return session


def _left(session: SparkSession) -> None:
    for each in (*tasks.clones(session), session):
        if tasks.lost(session):  # it would be asked for half a minute, by Spark's client at its end too
            each.client.close()
            continue
        with suppress(Exception):  # its server may have ended before
            each.stop()


class Sessions:
    """The Spark session of a command (`build_session`), which is started in advance or when it is needed; `stage` says
    how long the command waits for it, `say` what was lost on the way."""

    def __init__(
        self,
        app: str,
        master: str,
        stage: Callable[[str], AbstractContextManager[Any]],
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.master, self.say = master, say
        self._app, self._stage = app, stage
        self._building: Future[SparkSession] | None = None
        self._built: SparkSession | None = None
        self._failures: WeakSet[errors.LowwaterError] = WeakSet()
        self._turn = Lock()

    def begin(self) -> None:
        """Starts the session in the background; `spark` raises its errors."""
        if self._building is None:
            pool = ThreadPoolExecutor(1, thread_name_prefix="lowwater-session")
            self._building = pool.submit(build_session, self._app, self.master, self.say)
            pool.shutdown(wait=False)

    def broken(self, error: errors.LowwaterError) -> bool:
        """Whether an error is the failure to start the session, which affects every interval."""
        return error in self._failures

    @property
    def spark(self) -> SparkSession:
        """The session; waits until it has started. If its server went away, another one, of a server that is back."""
        with self._turn:
            if self._built is not None and tasks.asked_in_vain(self._built):
                if end := _own.get(self._built):  # its JVM may be dead, or only not answer
                    end()
                self._built = self._building = None
            if self._built is None:
                with self._stage("session"):
                    try:
                        self._built = self._waited()
                    except errors.LowwaterError as error:
                        self._failures.add(error)
                        raise
            return self._built

    def _waited(self) -> SparkSession:
        self.begin()
        assert self._building is not None
        try:
            return self._building.result(STARTS)
        except TimeoutError:
            words = f"the Spark session has not started within {STARTS:.0f} s"
            raise errors.SparkError(words, "look at the load of the machine") from None
        except Exception:  # whoever asks later may find it back, or memory and disk for it: a watch asks for weeks
            self._building = None
            raise
