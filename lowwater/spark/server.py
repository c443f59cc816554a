"""A resident Spark: one application with a server of Spark Connect, for the commands and tasks that name its address.

`python -m lowwater.spark.server --master local[2]` prints the address and stays until it is ended. `session` starts one
beside a command whose settings name a master. All clients share its Python workers, which have loaded Lowwater before
the first task (`workers`).
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from random import SystemRandom
from threading import Event
from typing import TYPE_CHECKING
from urllib.parse import quote

import lowwater
from lowwater import caches, processes, terminal
from lowwater.errors import LowwaterError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOME = "lowwater-spark-"
"""Prefix of the folder of a server."""
LOOPBACK = "127.0.0.1"
TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
"""The variable by which Spark knows the token that clients send."""
LOOK = 5.0
"""Seconds between two looks whether Spark still answers."""

_QUIET = """\
rootLogger.level = {level}
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n
# They say which tasks and executors were lost, and why.
logger.tasks.name = org.apache.spark.scheduler.TaskSetManager
logger.tasks.level = warn
logger.executors.name = org.apache.spark.scheduler.TaskSchedulerImpl
logger.executors.level = warn
"""


def host() -> str:
    """The address at which the executors of a cluster reach this process: LOWWATER_SPARK_HOST, otherwise loopback."""
    return os.environ.get("LOWWATER_SPARK_HOST") or LOOPBACK


def options(master: str, app: str, home: Path, port: int, memory: str, level: str, address: str) -> dict[str, str]:
    """Returns the settings of the application; `main` describes its arguments."""
    log = home / "log4j2.properties"
    log.write_text(_QUIET.format(level=level))
    secret = os.environ.get("LOWWATER_SPARK_SECRET")
    return {
        # On this machine too a task is tried again, as on a cluster: workers may be killed.
        "spark.master": re.sub(r"^local(?:\[(\*|\d+)\])?$", lambda cores: f"local[{cores[1] or 1},4]", master),
        "spark.app.name": app,
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": address,
        "spark.connect.grpc.binding.port": str(port),
        # With it the Python workers of a client end with its session, and those of the next one load everything again.
        "spark.sql.artifact.isolation.enabled": "false",
        # With it a session makes a folder when it ends, which may be after this process has removed its own.
        "spark.connect.session.connectML.mlCache.memoryControl.enabled": "false",
        "spark.python.daemon.module": "lowwater.spark.workers",
        # Python starts slowly on a busy machine; 15 s are the default.
        "spark.python.authenticate.socketTimeout": "120s",
        "spark.driver.memory": memory,
        # Values are Arrow in Python, so that the JVM runs little code more than once: what its second compiler does for
        # the first hour takes more processor time than the tasks of that hour.
        "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.io.tmpdir={home} "
        f"-Dlog4j2.configurationFile=file:{log} -Dderby.system.home={home}",
        "spark.driver.bindAddress": host(),
        "spark.driver.host": host(),
        "spark.executorEnv.PYTHONSAFEPATH": "1",
        # The ports of Spark require a secret: a generated one in one process and in pods, else that of the cluster.
        "spark.authenticate": str(master.startswith(("local", "k8s://")) or bool(secret)).lower(),
        **({"spark.authenticate.secret": secret} if secret else {}),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(home),
        # Hadoop's usual local file system writes a checksum beside every file, each by two more processes (chmod).
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        "spark.hadoop.fs.permissions.umask-mode": "027",  # Hadoop sets modes itself, whatever the umask
        "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager",
        "spark.sql.streaming.forceDeleteTempCheckpointLocation": "true",  # of a query that failed, too
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        # Frames have some rows for each task: nothing is worth Java code that is generated and compiled.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
    }


PORTS = range(20_000, 32_000)
"""Where servers of our own listen. The system gives connections ports above these: one of those could be taken before a
server that is told of it has started."""


_LOST = re.compile(
    r"^[\d:]+ (?:WARN|ERROR) \w+: Lost (?:"
    r"executor (?P<executor>\S+) on (?P<machine>\S+): (?P<end>.*)"
    r"|task (?P<task>\d+)\.(?P<tried>\d+) in stage (?P<stage>\d+)\S* \(TID \d+\) "
    r"\((?P<host>\S+) executor (?P<on>\S+)\): (?P<why>.*))"
)
_CLASS = re.compile(r"^(?:[\w$]+\.)+[\w$]+: ")


def lost_in(line: str) -> str:
    """What a line of a server's output says of a lost executor or a failed try of a task; empty if it says nothing.

    Example:
        >>> lost_in("09:30:01 ERROR TaskSchedulerImpl: Lost executor 2 on 10.0.0.3: Command exited with code 137")
        'Spark: executor 2 on 10.0.0.3 was lost: Command exited with code 137'
    """
    found = _LOST.match(line.rstrip())
    if found is None or (found["why"] or "").startswith("TaskKilled"):  # ended on purpose
        return ""
    if found["executor"]:
        return f"Spark: executor {found['executor']} on {found['machine']} was lost: {found['end'][:200]}"
    why = _CLASS.sub("", found["why"])[:200]
    return (
        f"Spark: try {int(found['tried']) + 1} of task {found['task']} of stage {found['stage']} ended without a "
        f"result on {found['host']}, executor {found['on']}: {why}"
    )


def free_port() -> int:
    """Returns a port of this machine that nobody listens at, another one each time.

    Raises:
        LowwaterError: all are taken.
    """
    for port in SystemRandom().sample(PORTS, len(PORTS)):
        with suppress(OSError), socket.create_server((LOOPBACK, port)):
            return port
    raise LowwaterError(f"no port of {PORTS[0]:,} to {PORTS[-1]:,} is free", "end a server that listens at one of them")


def answers(address: str, port: int) -> bool:
    """Whether somebody takes a connection there."""
    try:
        socket.create_connection((address, port), LOOK).close()
    except OSError:
        return False
    return True


def _start(home: Path, settings: dict[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    processes.require_descriptors()
    # Every process can read a command line, so settings are handed over in a file.
    file = home / "spark.conf"
    file.touch(0o600)
    file.write_text("".join(f"{name} {value}\n" for name, value in settings.items()), encoding="utf-8")
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        f"--properties-file {shlex.quote(str(file))} --load-spark-defaults pyspark-shell"
    )
    # Read by the JVM and by the Python workers it starts; workers import this package by its name.
    os.environ["SPARK_LOCAL_IP"] = host()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    root = str(Path(lowwater.__file__).resolve().parents[1])
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path != root]
    os.environ["PYTHONPATH"] = os.pathsep.join([root, *paths])
    os.environ["PYTHONSAFEPATH"] = "1"  # they import nothing of the folder in which they, or this process, were started
    for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):  # of a client that started this process
        os.environ.pop(name, None)
    if settings["spark.master"].startswith("local") and "SPARK_HOME" not in os.environ:
        _without_archives(home / "spark")
    return SparkSession.builder.getOrCreate()


def _without_archives(home: Path) -> None:
    """Has Spark's Python processes import the PySpark that is installed, of which Python has kept the bytecode.

    Spark puts an archive of its sources in front, `python/lib/pyspark.zip` of its folder, which each process compiles
    anew: a second for each stream. Here that folder is one of links, without this part; only processes on other
    machines may need it."""
    import pyspark

    package = Path(pyspark.__file__).parent
    if not (package / "jars").is_dir():  # it is a part of another folder of Spark
        return
    home.mkdir()
    for folder in package.iterdir():
        if folder.is_dir() and folder.name != "python":
            (home / folder.name).symlink_to(folder, target_is_directory=True)
    os.environ["SPARK_HOME"] = str(home)


def _warming(address: str, port: int) -> subprocess.Popen[bytes]:
    """Starts a client that has the server load what the first command would wait for, and says nothing."""
    environment = dict(os.environ)
    token = environment.pop(TOKEN, "")  # with it the client would ask for TLS
    client = f"sc://{address}:{port}/;use_ssl=false" + (f";token={quote(token, safe='')}" if token else "")
    return subprocess.Popen(
        processes.python("-m", "lowwater.spark.runner"),
        env={**environment, "LOWWATER_SPARK_MASTER": client}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def main() -> None:
    """Entry of `python -m lowwater.spark.server`."""
    parser = argparse.ArgumentParser(prog="python -m lowwater.spark.server", description="A resident Spark of Lowwater")
    parser.add_argument("--master", default="local[*]", help="master URL of Spark")
    parser.add_argument("--app", default="lowwater", help="name that Spark shows")
    parser.add_argument("--address", default=LOOPBACK, help="address at which clients reach it")
    parser.add_argument("--port", type=int, default=15002)
    parser.add_argument("--memory", default="2g", help="heap of its JVM, as Spark writes sizes")
    parser.add_argument("--level", default="error", help="log level of the JVM")
    parser.add_argument("--attached", action="store_true", help="end with whoever holds the other end of its input")
    given = parser.parse_args()
    if given.address not in (LOOPBACK, "localhost") and not os.environ.get(TOKEN):
        parser.error(f"--address {given.address}: who reaches it runs any code: set {TOKEN}, the token of its clients")
    home = caches.make_folder(HOME)
    ended, warming = Event(), None
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    try:
        settings = options(given.master, given.app, home, given.port, given.memory, given.level, given.address)
        if given.attached:  # else it forgets its only client after an hour without a request
            settings["spark.connect.session.manager.defaultSessionTimeout"] = "-1"
        session = _start(home, settings)
        terminal.say(f"sc://{given.address}:{given.port}")
        sys.stdout.flush()
        if given.attached:
            sys.stdin.read()
        else:
            warming = _warming(given.address, given.port)
            # It ends with its Spark, such as one whose master went away: whoever keeps it up starts it again
            while not ended.wait(LOOK):
                warming.poll()  # else a zombie stays of it
                if not answers(given.address, given.port):
                    sys.exit(f"the Spark on {given.master} has ended")
            session.stop()  # its executors go before this process does
    finally:
        if warming is not None:
            warming.kill()
            warming.wait()
        caches.remove_folder(home)


if __name__ == "__main__":
    main()
