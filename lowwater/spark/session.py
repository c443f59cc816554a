"""The Spark session of a replay: local, without output, offline once the Delta jars are installed.

The stages use its session; `make setup` runs `python -m lowwater.spark.session --fetch` once.
"""

from __future__ import annotations

import argparse
import atexit
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import ensure_callback_server_started, launch_gateway
from pyspark.sql import SparkSession

import lowwater
from lowwater.caches import written_by_others
from lowwater.descriptors import require_descriptors, require_selectable
from lowwater.errors import LowwaterError
from lowwater.spark.jars import delta_jars, fetch_jars, jars_folder
from lowwater.tempfolders import make_folder, remove_folder
from lowwater.terminal import say

_STARTING = Lock()
_HOME = "lowwater-spark-"
"""Prefix of the folder of a JVM."""
_SAID = "jvm.log"
_QUICK = "-XX:TieredStopAtLevel=1 -XX:CompileThresholdScaling=4"
"""Options of a JVM: few methods run often enough within some seconds to earn the work of compiling them."""
JVM_ENDS = 300.0
"""Seconds that a JVM may take to end; writing its classes takes about twenty."""

_QUIET = """\
rootLogger.level = {level}
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n
"""


@dataclass(frozen=True)
class SessionSettings:
    """Size and options of a session.

    Attributes:
        master: Spark master URL; by default the environment variable LOWWATER_SPARK_MASTER, or this machine.
        shuffle_partitions: partitions of every shuffle.
        driver_memory: heap of the JVM, as Spark writes sizes.
        log_level: the log level of the JVM's log.
        quick_start: use only the first compiler tier of the JVM and one thread for garbage collection. The first
            queries of a session then take two thirds of the time; turn it off for runs over millions of rows.
        delta: let Spark read the tables of a lake. No stage needs it, and it costs nearly a second.
        record: file for the Java classes that were loaded, written when the JVM ends; see `replay.setup.training`.
    """

    master: str = field(default_factory=lambda: os.environ.get("LOWWATER_SPARK_MASTER") or "local[*]")
    shuffle_partitions: int = 2
    driver_memory: str = "2g"
    log_level: str = "off"
    quick_start: bool = True
    delta: bool = False
    record: Path | None = None


@dataclass(frozen=True)
class _Jvm:
    """A JVM without a session.

    Attributes:
        settings: settings it was started with.
        home: its temporary folder.
        gateway: gateway of py4j.
    """

    settings: SessionSettings
    home: Path
    gateway: Any

    def suits(self, settings: SessionSettings) -> bool:
        """Whether the JVM fits these settings; master and shuffle partitions are set later."""
        later = replace(self.settings, master=settings.master, shuffle_partitions=settings.shuffle_partitions)
        return later == settings


_waiting: _Jvm | None = None


def class_archive(folder: Path | None = None) -> Path | None:
    """The archive of Java classes that makes sessions start sooner; None where it was not recorded, or others could be
    its writers.

    Its name contains its size: a JVM crashes when it maps a truncated archive.
    """
    place = folder or jars_folder().parent
    if not place.is_dir() or written_by_others(place, group=True):
        return None
    for archive in place.glob("classes-*.jsa"):
        if archive == archive_of(archive, archive.parent):
            return archive
    return None


def archive_of(recorded: Path, folder: Path) -> Path:
    """The file name that `class_archive` accepts for a recorded archive."""
    return folder / f"classes-{recorded.stat().st_size}.jsa"


LOOPBACK = "127.0.0.1"


def _authenticated(master: str) -> bool:
    """Whether Spark's ports require a secret: a generated one in one process and in pods, else that of the cluster."""
    return master.startswith(("local", "k8s://")) or bool(os.environ.get("LOWWATER_SPARK_SECRET"))


def _submitted(home: Path) -> dict[str, str]:
    """The variable that names a file with the secret of a cluster: every process can read a command line."""
    secret = os.environ.get("LOWWATER_SPARK_SECRET")
    if not secret:
        return {}
    secret_file = home / "secret.conf"
    secret_file.touch(0o600)
    secret_file.write_text(f"spark.authenticate.secret={secret}\n", encoding="utf-8")
    return {
        "PYSPARK_SUBMIT_ARGS": f"--properties-file {shlex.quote(str(secret_file))} --load-spark-defaults pyspark-shell"
    }


def _host() -> str:
    """The address at which the workers of a cluster reach this process: LOWWATER_SPARK_HOST, otherwise loopback."""
    return os.environ.get("LOWWATER_SPARK_HOST") or LOOPBACK


def _environment() -> None:
    # Read by the JVM and by the Python workers it starts; workers import this package by its name.
    os.environ["SPARK_LOCAL_IP"] = _host()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    root = str(Path(lowwater.__file__).resolve().parents[1])
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path != root]
    os.environ["PYTHONPATH"] = os.pathsep.join([root, *paths])


def _options(settings: SessionSettings, home: Path) -> dict[str, str]:
    log = home / "log4j2.properties"
    log.write_text(_QUIET.format(level=settings.log_level))
    java = f"-Dlog4j2.configurationFile=file:{log} -Dderby.system.home={home} -Djava.io.tmpdir={home}"
    if settings.quick_start:
        java += f" -XX:+UseSerialGC {_QUICK}"
    else:
        # Objects of a micro-batch die with it: a large young generation avoids copying them.
        java += " -XX:+UseParallelGC -XX:NewRatio=1"
    if settings.record is not None:
        java += f' "-XX:ArchiveClassesAtExit={settings.record}"'
    else:
        java += f" {_archived()}"
    return {
        **(_delta() if settings.delta else {}),
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.extraJavaOptions": java,
        # Before options of the site. A machine without an archive of this name, which has its size, does without it.
        "spark.executor.defaultJavaOptions": f"{_QUICK if settings.quick_start else ''} {_archived()}".strip(),
        "spark.driver.bindAddress": _host(),
        "spark.driver.host": _host(),
        # Python workers import nothing of the folder in which they, or this process, were started.
        "spark.executorEnv.PYTHONSAFEPATH": "1",
        "spark.authenticate": str(_authenticated(settings.master)).lower(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(home),
        # Hadoop's usual local file system writes a checksum beside every file, each by two more processes (chmod).
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.sql.ansi.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(settings.shuffle_partitions),
        # A task that prefers a machine waits this long for a core of it (cluster.place).
        "spark.locality.wait": "500ms",
        "spark.default.parallelism": str(settings.shuffle_partitions),
    }


def _archived() -> str:
    """The archive of classes of a JVM, if there is one."""
    archive = class_archive()
    # The JVM ignores an archive of another Java, of other jars or with wrong checksums.
    return f'-Xshare:auto -XX:+VerifySharedSpaces "-XX:SharedArchiveFile={archive}"' if archive else ""


def _delta() -> dict[str, str]:
    return {
        "spark.jars": ",".join(str(jar) for jar in delta_jars()),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
    }


def build_session(app: str = "lowwater", settings: SessionSettings | None = None) -> SparkSession:
    """Starts the session, or returns the running one.

    The output of the JVM and its Python workers goes to a file, so that none reaches the user's terminal.

    Args:
        app: name shown by Spark.
        settings: sizes; the defaults suit one machine.

    Raises:
        ConfigError: if the Delta jars are missing that the settings ask for.
        LowwaterError: if the JVM does not start, with the last lines of its output.
    """
    # A failed call may have left a thread that still starts the session.
    with _STARTING:
        if SparkContext._active_spark_context is not None:
            return SparkSession.builder.getOrCreate()
        return _started(app, settings or SessionSettings())


def lake_session(lake: Path | str, settings: SessionSettings | None = None) -> SparkSession:
    """Starts a session in which the tables of a lake have names: that of a query, `measures.links`, `ledgers.captures`.

    What a name of Spark may not have is an underscore. Nothing is written; what SQL changes is changed in the lake.
    """
    spark = build_session(settings=settings or SessionSettings(delta=True))
    root = Path(lake).absolute()
    for schema, folder in (("default", root / "tables"), ("measures", root / "measures"), ("ledgers", root)):
        spark.sql(f"CREATE DATABASE IF NOT EXISTS {schema}")
        for log in sorted(folder.glob("*/_delta_log")):
            name, place = re.sub(r"\W", "_", log.parent.name), str(log.parent).replace("'", "\\'")
            spark.sql(f"CREATE TABLE IF NOT EXISTS {schema}.`{name}` USING delta LOCATION '{place}'")
    return spark


def launch_jvm() -> None:
    """Starts a JVM of default size in advance; does nothing where there is one."""
    global _waiting
    with _STARTING:
        if _waiting is None and SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
            _waiting = _launched(SessionSettings())
            atexit.register(_discard)


def _started(app: str, settings: SessionSettings) -> SparkSession:
    jvm = _jvm(settings)
    try:
        context = SparkContext(conf=_conf(settings, jvm.home).setAppName(app), gateway=jvm.gateway)
    except PySparkException as error:
        raise _unstarted(error, jvm.home) from error
    context.setLogLevel(settings.log_level.upper())
    _listen(context._gateway)
    session = SparkSession.builder.getOrCreate()
    atexit.register(_end, session, alone=settings.master.startswith("local"))
    return session


def _listen(gateway: Any) -> None:
    """Listens for calls of the JVM now, while few files are open: Spark would begin with its first stream."""
    start: Callable[[Any], Any] = ensure_callback_server_started
    start(gateway)
    require_selectable(gateway.get_callback_server().server_socket.fileno())


def _jvm(settings: SessionSettings) -> _Jvm:
    """Returns the JVM for a session: that of an earlier session, a waiting one that fits, or a new one."""
    global _waiting
    if SparkContext._gateway is not None:  # a JVM outlives its session
        return _Jvm(settings, make_folder(_HOME), SparkContext._gateway)
    waiting = _waiting
    if waiting is not None and waiting.suits(settings):
        _waiting = None
        return waiting
    _discard()
    return _launched(settings)


def _launched(settings: SessionSettings) -> _Jvm:
    require_descriptors()
    _environment()
    home = make_folder(_HOME)
    os.environ.update(_submitted(home))
    launch: Callable[..., Any] = launch_gateway
    with (home / _SAID).open("w") as sink:
        try:
            gateway = launch(_conf(settings, home), popen_kwargs={"stdout": sink, "stderr": sink})
        except PySparkException as error:
            raise _unstarted(error, home) from error
    return _Jvm(settings, home, gateway)


def _discard() -> None:
    """Ends the waiting JVM, if there is one."""
    global _waiting
    if _waiting is not None:
        _kill(_waiting.gateway)
        remove_folder(_waiting.home)
        _waiting = None


def _conf(settings: SessionSettings, home: Path) -> SparkConf:
    conf = SparkConf().setAppName("lowwater").setMaster(settings.master)
    return conf.setAll(list(_options(settings, home).items()))


def _unstarted(error: Exception, home: Path) -> LowwaterError:
    tail = "\n".join((home / _SAID).read_text(errors="replace").splitlines()[-12:])
    return LowwaterError(f"Spark did not start: {error}\n{tail}", "`lowwater doctor` looks for the cause")


def _end(session: SparkSession, alone: bool) -> None:
    """Ends a session at process exit. A JVM that serves this process alone is killed: stopping it takes half a second.

    Its files lie in a folder that is removed.
    """
    gateway = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if gateway is None or process is None or not alone:
        session.stop()
    else:
        # Spark's accumulators use a connection that breaks now; the server would report that as an error.
        server: Any = session.sparkContext._accumulatorServer
        if server is not None:  # the session was not stopped
            server.handle_error = lambda *_: None
        _kill(gateway)


def _kill(gateway: Any) -> None:
    gateway.shutdown()  # else objects that are collected later are told to a JVM that is gone, and errors are said
    gateway.proc.kill()
    gateway.proc.wait()


def end_jvm(session: SparkSession) -> None:
    """Stops a session, ends its JVM and waits for it: a JVM that records its classes writes them only now.

    Raises:
        LowwaterError: if the JVM was not started by this process, or does not end.
    """
    atexit.unregister(_end)
    gateway = SparkContext._gateway
    session.stop()
    process = getattr(gateway, "proc", None)
    if process is None:
        raise LowwaterError("the JVM belongs to another process", "start it with `build_session`")
    process.stdin.close()  # on which it exits
    try:
        process.wait(JVM_ENDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise LowwaterError(f"the JVM did not end within {JVM_ENDS:.0f} s") from None


def main() -> None:
    """Entry of `python -m lowwater.spark.session`."""
    parser = argparse.ArgumentParser(prog="python -m lowwater.spark.session", description="Spark set-up of Lowwater")
    parser.add_argument("--fetch", action="store_true", required=True, help="fetch the Delta jars once")
    parser.parse_args()
    try:
        for jar in fetch_jars():
            say(str(jar))
    except LowwaterError as error:
        say(str(error), err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
