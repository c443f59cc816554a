"""Implements `doctor`: the requirements of this machine, or what a lake's store and tables have; with the command that
mends each.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

import psutil
from rich.table import Table

from lowwater import caches, config, errors, extras, instants, processes, threads
from lowwater.cli.main import version_of
from lowwater.lake import layout, upkeep
from lowwater.lake.ledgers.runs import read_replays
from lowwater.lake.results.published import all_damages, lost_text, table_state
from lowwater.plan.explain.text import memory_lines
from lowwater.replay.stages.runners import memory_of
from lowwater.storage import paths
from lowwater.storage.probes import FOLDER, MISSING, OK, WARNING, findings
from lowwater.terminal import Terminal, styled

# This machine.

COLOURS = {OK: "green", WARNING: "yellow", MISSING: "red"}
GIB = 1 << 30
JAVA = 17
LOCKED = [(3, 11)]
PYTHONS = [(3, 11), (3, 12), (3, 13)]
"""Minor versions of Python of the lock, and those that pyproject.toml admits (docs/installation.md)."""
MEMORY = 4 * GIB
DISK = 5 * GIB
_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s\\;]+)", re.MULTILINE)
_INSTALL_JAVA = (
    "brew install openjdk@17" if sys.platform == "darwin" else "sudo apt-get install -y openjdk-17-jre-headless"
)


@dataclass(frozen=True)
class Check:
    """Check of one requirement."""

    name: str
    state: str  # whether the machine meets it: OK, WARNING or MISSING, which alone keeps Lowwater from running
    found: str
    mend: str = ""  # command that fixes the problem, or adds what is absent; empty without a problem


def checks() -> list[Check]:
    """Checks every requirement of Lowwater, in the order in which to fix problems. Returns one `Check` for each
    requirement. No check raises or needs the network."""
    spark = [check_java(), check_jars()] if not extras.absent("spark") else []
    return [
        check_python(),
        check_packages(extras.checkout()),
        check_extras(),
        *spark,
        check_kernels(),
        check_memory(),
        check_bounds(),
        check_disk(Path.cwd()),
        check_port(),
        check_writable(Path.cwd()),
        *check_airflow(),
    ]


def doctor(console: Terminal) -> int:
    """Prints the table of checks, then a command for each requirement that is not ok. Returns 0 if nothing is missing
    (warnings allowed), else 1."""
    results = checks()
    table = Table("check", "state", "found")
    for result in results:
        table.add_row(result.name, styled(result.state, COLOURS[result.state]), result.found)
    console.print(table)
    for result in results:
        if result.mend:
            # On a line of its own and never wrapped, so that it can be copied.
            console.print(f"{result.name}: {result.mend}", soft_wrap=True)
    return int(any(result.state == MISSING for result in results))


def check_python() -> Check:
    """Checks for the Python of the package lock in a checkout, and else for any that the package supports."""
    version = "{}.{}.{}".format(*sys.version_info[:3])
    name, supported = ("Python 3.11", LOCKED) if extras.checkout() else ("Python 3.11 to 3.13", PYTHONS)
    if sys.version_info[:2] in supported:
        return Check(name, OK, version)
    mend = (
        "make clean && rm -rf .venv && make PYTHON=python3.11 setup" if extras.checkout() else "uv venv --python 3.13"
    )
    return Check(name, MISSING, version, mend)


def check_java() -> Check:
    """Checks for Java 17 or newer. As Spark does, takes JAVA_HOME if it is set, else PATH."""
    name = f"Java {JAVA}+"
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(home, "bin") if home else None)
    if java is None and home:
        return Check(name, MISSING, f"JAVA_HOME={home} has no bin/java", "unset JAVA_HOME")
    if java is None:
        return Check(name, MISSING, "no java on PATH", _INSTALL_JAVA)
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check(name, MISSING, f"{java} does not run: {error}", _INSTALL_JAVA)
    version = java_version(done.stderr + done.stdout)
    if version is None:
        return Check(name, MISSING, f"{java} does not tell its version", _INSTALL_JAVA)
    if version < JAVA:
        mend = _INSTALL_JAVA + (" && unset JAVA_HOME" if home else "")
        return Check(name, MISSING, f"{java} is Java {version}", mend)
    if (without := processes.nameless()) is not None:
        line = f"lowwater:x:{os.geteuid()}:{os.getegid()}::/tmp:/bin/sh"
        return Check(name, WARNING, f"{version} ({java}); {without}", f"echo '{line}' >> /etc/passwd  # as root")
    return Check(name, OK, f"{version} ({java})")


def java_version(text: str) -> int | None:
    """Parses the major version from the output of `java -version`; None if there is none.

    >>> java_version('openjdk version "17.0.15" 2025-04-15')
    17
    >>> java_version('java version "1.8.0_392"')
    8
    """
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match.group(1)) if match else None


def check_packages(root: Path | None) -> Check:
    """Checks that the packages have their locked versions; ok in an installation without a lock. `root`: folder of the
    checkout, which holds `requirements.txt`; None where Lowwater is an installed package."""
    lock = (root or Path()) / "requirements.txt"
    if root is None or not lock.is_file():
        return Check("packages", OK, "no lock here: not a checkout")
    pins = dict(_PIN.findall(lock.read_text(encoding="utf-8")))
    wrong = [
        f"{name} {version_of(name) or 'absent'}, not {pin}" for name, pin in pins.items() if version_of(name) != pin
    ]
    if not wrong:
        return Check("packages", OK, f"{len(pins)} as locked")
    more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
    uv = Path(sys.prefix) / "bin" / "uv"
    mend = f"{uv} pip install --python {sys.executable} --require-hashes -r {lock}" if uv.exists() else "make setup"
    return Check("packages", MISSING, "; ".join(wrong[:3]) + more, mend)


def check_extras() -> Check:
    """Says which extras are installed; none is required."""
    present = [extra for extra in extras.EXTRAS if not extras.absent(extra)]
    rest = [extra for extra in extras.EXTRAS if extra not in present]
    found = ", ".join(present) or "none: the light core"
    if not rest:
        return Check("extras", OK, found)
    return Check("extras", OK, f"{found}; absent: {', '.join(rest)}", f"pip install 'lowwater[{','.join(rest)}]'")


def check_kernels() -> Check:
    """Says whether the code that reads headers is compiled on this machine; without, few packets are interpreted."""
    from lowwater.capture.formats.capture_file import ETHERNET
    from lowwater.capture.headers.packet import compiled

    if compiled(ETHERNET):
        return Check("compiled kernels", OK, "for Ethernet, and the link types that were met")
    return Check("compiled kernels", OK, "none yet: compiled at first use, or now by lowwater doctor --prepare")


def check_jars() -> Check:
    """Checks for the Delta jars. Spark needs them to read tables of a lake, and tests of a checkout do; no run does."""
    fetch = f"{sys.executable} -m lowwater.spark.jars"
    state = MISSING if extras.checkout() else WARNING
    try:
        # Imported here, because the doctor must also run without PySpark.
        from lowwater.spark.jars import delta_jars, jars_folder

        jars = delta_jars()
    except ImportError as error:
        return Check("Delta jars", MISSING, f"the session cannot be imported: {error}", "make setup")
    except errors.ConfigError as error:
        return Check("Delta jars", state, error.message, fetch)
    return Check("Delta jars", OK, f"{len(jars)} in {jars_folder()}")


def check_memory() -> Check:
    """Checks for 4 GiB of free memory, for Spark's JVM, its Python workers and the tables of the kernels."""
    free = psutil.virtual_memory().available
    if free >= MEMORY:
        return Check("memory", OK, f"{free / GIB:.1f} GiB free")
    return Check("memory", WARNING, f"{free / GIB:.1f} GiB free, 4 recommended", "ps aux --sort=-rss | head")


def check_bounds(lake: PurePath | None = None) -> Check:
    """Says what bounds the memory of a run; warns of a setting beyond the memory of this machine. `lake`: a lake with
    settings; None for those of the environment."""
    try:
        bounds = memory_of(config.load_config(lake))
    except errors.ConfigError as error:
        return Check("memory of a run", MISSING, error.message, "env | grep ^LOWWATER_")
    found = "; ".join(memory_lines(bounds))
    if bounds.process <= threads.memory():
        return Check("memory of a run", OK, found)
    most = max(1, threads.memory() >> 20)
    found += f"; this machine or its container has {threads.memory():,}"
    return Check("memory of a run", WARNING, found, f"export LOWWATER_REPLAY__MEMORY={most}m")


def check_disk(folder: Path) -> Check:
    """Checks for 5 GiB of free disk space; less than 1 GiB counts as missing."""
    free = shutil.disk_usage(folder).free
    if free >= DISK:
        return Check("disk", OK, f"{free / GIB:.1f} GiB free")
    state = WARNING if free >= GIB else MISSING
    return Check("disk", state, f"{free / GIB:.1f} GiB free, 5 recommended", f"du -xh -d 2 {folder} | sort -h | tail")


def check_port() -> Check:
    """Checks that a loopback port can be bound and reached, because Spark and its Python workers need one."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError as error:
        return Check("loopback port", MISSING, str(error), "sudo ip link set lo up")
    return Check("loopback port", OK, f"127.0.0.1:{port}")


def check_writable(folder: Path) -> Check:
    """Checks that the working directory is writable, because the lake and the results of `run` go there."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return Check("working directory", MISSING, f"{folder}: {error.strerror}", f"chmod u+w {folder}")
    return Check("working directory", OK, f"{folder} is writable")


def check_airflow() -> list[Check]:
    """Asks the Airflow of this environment what it lacks: pool, connections, database, executor, version, DAGs that are
    switched off; nothing without one."""
    home = Path(os.environ.get("AIRFLOW_HOME", Path.home() / "airflow"))
    if extras.absent("airflow") or not (home / "airflow.cfg").exists():
        return []
    # Airflow reads its settings as it is imported, and only the plugin may import it.
    command = processes.python("-m", "lowwater_airflow.checks")
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode:
        cause = (done.stderr.strip() or "no word").splitlines()[-1]
        return [Check("Airflow", WARNING, f"{home}: {cause}", "airflow db migrate")]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    if not found:
        return [Check("Airflow", OK, f"{version_of('apache-airflow')} in {home}, nothing is missing")]
    return [Check(f"Airflow: {each['about']}", WARNING, each["what"], each["mend"]) for each in found]


def prepare(console: Terminal) -> None:
    """Does what the first use would do: compiles kernels; with Spark, fetches Delta's jars.
    Raises LowwaterError if a step fails."""
    from lowwater.replay.kernels import compile_kernels

    console.print("compiling the kernels of every link type: about half a minute, once on this machine")
    folder = caches.make_folder("lowwater-kernels-")
    try:
        compile_kernels(folder)
    finally:
        caches.remove_folder(folder)
    if extras.absent("spark"):
        return
    from lowwater.spark.jars import fetch_jars

    console.print("fetching the jars of Delta")
    fetch_jars()


# A lake: what its store or disk has of what it needs, and what is wrong with its tables.


def examine_lake(root: PurePath, console: Terminal) -> int:
    """Tries the store or the disk of a lake, and prints a table, then what does not hold, and which tables are wrong.
    Returns 0 if nothing is missing (warnings allowed) and no table is wrong, else 1.
    Raises LakeError if nothing can be tried."""
    path = paths.lake_path(root)
    try:
        with paths.private():
            found = list(findings(path))
    except errors.LakeError as error:
        if not layout.is_lake(path):
            raise
        console.print(f"{error.message}: so it can be read only, and its disk is not tried", soft_wrap=True)
        return _tell_wrong(path, console)
    table = Table("needed", "state", "found", "median / longest ms", box=None)
    table.columns[2].overflow = "fold"
    for each in found:
        table.add_row(each.name, styled(each.state, COLOURS[each.state]), styled(each.found), each.timing)
    console.print(table)
    for each in found:
        if each.state != OK:
            console.print(f"{each.name}: {each.state}: {each.found}; then {each.then}", soft_wrap=True)
    bounds = check_bounds(path)
    console.print(f"{bounds.name}: {bounds.state}: {bounds.found}", soft_wrap=True)
    if bounds.mend:
        console.print(f"{bounds.name}: {bounds.mend}", soft_wrap=True)
    sound = all(each.state != MISSING for each in found)
    if not sound:
        console.print("what a store must have, and why: docs/object-stores.md", soft_wrap=True)
    console.print(f"written only below {path / FOLDER}, and removed", soft_wrap=True)
    return int(bool(layout.is_lake(path) and _tell_wrong(path, console)) or not sound)


def _tell_wrong(path: PurePath, console: Terminal) -> int:
    """Prints which tables of a lake are wrong; returns 1 if there are some, else 0."""
    wrong = list(_wrong_tables(layout.lake_to_read(path)))
    for line in wrong:
        console.print(line, soft_wrap=True)
    return int(bool(wrong))


def _wrong_tables(lake: layout.Lake) -> Iterator[str]:
    """Says which tables have rows twice, and which do not have what was published, each with what mends it."""
    found = False
    try:
        for path, doubled in upkeep.doubled_tables(lake):
            found = True
            yield f"{path.relative_to(lake.root)}: {doubled.words()}; {upkeep.MEND}"
        damages = all_damages(lake, read_replays(lake))
        for path in paths.folders(lake.root / "tables"):
            state = table_state(path)
            lost = () if state is None else map(lost_text, state.lost_objects().values())
            for text in sorted({*lost} - {*damages.values()}):
                yield f"{path.name}: {text}; run `lowwater maintain`, then `lowwater backfill`"
    except errors.LakeError as error:
        yield f"{error.message}; {error.hint}"
        return
    together: dict[tuple[str, str], list[tuple[int, int, str]]] = defaultdict(list)
    for (query_set, query, start, end), why in sorted(damages.items()):
        together[query_set, query].append((start, end, why))
    for (query_set, query), ranges in together.items():
        start, end, why = ranges[0]
        more = f", and {len(ranges) - 1:,} more intervals" if len(ranges) > 1 else ""
        first = "first mend what is there twice, then " if found else ""
        yield (
            f"{query}: damaged, {instants.format_instant(start)} to {instants.format_instant(end)}{more}: {why}; "
            f"{first}run `lowwater backfill` for query set {query_set}, from {instants.format_instant(start)} to "
            f"{instants.format_instant(max(end for _, end, _ in ranges))}"
        )
