"""`lowwater doctor`: what this machine lacks, and the command that mends each point.

Stands beside the pipeline: `make demo` and `make test` call it before they replay anything.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import psutil
from rich.table import Table

from lowwater.errors import ConfigError
from lowwater.terminal import Terminal, styled

ROOT = Path(__file__).resolve().parents[2]
GIB = 1 << 30
JAVA = 17
MEMORY = 4 * GIB
DISK = 5 * GIB
_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s\\;]+)", re.MULTILINE)
_INSTALL_JAVA = (
    "brew install openjdk@17" if sys.platform == "darwin" else "sudo apt-get install -y openjdk-17-jre-headless"
)


class State(StrEnum):
    """How a check ended: only `missing` keeps Lowwater from running."""

    OK = "ok"
    WARNING = "warning"
    MISSING = "missing"


@dataclass(frozen=True)
class Check:
    """One point of the machine.

    Attributes:
        name: what was looked at.
        state: whether it will do.
        found: what was found, in a few words.
        mend: the command that mends it; empty where nothing is wrong.
    """

    name: str
    state: State
    found: str
    mend: str = ""


def checks() -> list[Check]:
    """Looks at everything Lowwater needs, in the order in which one would mend it.

    Returns:
        One `Check` a point; no check raises, and none needs the network.
    """
    return [
        check_python(),
        check_java(),
        check_packages(ROOT),
        check_jars(),
        check_memory(),
        check_disk(Path.cwd()),
        check_port(),
        check_writable(Path.cwd()),
    ]


def doctor(console: Terminal) -> int:
    """Prints the table of checks, then the command for each point that is not ok.

    Args:
        console: where to print.

    Returns:
        0 if nothing is missing (warnings allowed), else 1.
    """
    found = checks()
    colours = {State.OK: "green", State.WARNING: "yellow", State.MISSING: "red"}
    table = Table("check", "state", "found")
    for check in found:
        table.add_row(check.name, styled(check.state, colours[check.state]), check.found)
    console.print(table)
    for check in found:
        if check.mend:
            # On a line of its own and never wrapped, so that it can be copied.
            console.print(f"{check.name}: {check.mend}", soft_wrap=True)
    return int(any(check.state is State.MISSING for check in found))


def check_python() -> Check:
    """Python 3.11, which the lock is made for."""
    found = "{}.{}.{}".format(*sys.version_info[:3])
    if sys.version_info[:2] == (3, 11):
        return Check("Python 3.11", State.OK, found)
    return Check("Python 3.11", State.MISSING, found, "make clean && rm -rf .venv && make PYTHON=python3.11 setup")


def check_java() -> Check:
    """Java 17 or newer: the one of JAVA_HOME if that is set, as Spark does, else the one on PATH."""
    name = f"Java {JAVA}+"
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(home, "bin") if home else None)
    if java is None and home:
        return Check(name, State.MISSING, f"JAVA_HOME={home} has no bin/java", "unset JAVA_HOME")
    if java is None:
        return Check(name, State.MISSING, "no java on PATH", _INSTALL_JAVA)
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check(name, State.MISSING, f"{java} does not run: {error}", _INSTALL_JAVA)
    version = java_version(done.stderr + done.stdout)
    if version is None:
        return Check(name, State.MISSING, f"{java} does not tell its version", _INSTALL_JAVA)
    if version < JAVA:
        mend = _INSTALL_JAVA + (" && unset JAVA_HOME" if home else "")
        return Check(name, State.MISSING, f"{java} is Java {version}", mend)
    return Check(name, State.OK, f"{version} ({java})")


def java_version(text: str) -> int | None:
    """The major version in the output of `java -version`, or None where there is none.

    >>> java_version('openjdk version "17.0.15" 2025-04-15')
    17
    >>> java_version('java version "1.8.0_392"')
    8
    """
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match.group(1)) if match else None


def check_packages(root: Path) -> Check:
    """The locked packages at their locked versions; an installation without a lock beside it has none to hold to.

    Args:
        root: the checkout, which holds `requirements.txt`.
    """
    lock = root / "requirements.txt"
    if not lock.is_file():
        return Check("packages", State.OK, "no lock here: not a checkout")
    pins = dict(_PIN.findall(lock.read_text(encoding="utf-8")))
    wrong = [
        f"{name} {_installed(name) or 'absent'}, not {pin}" for name, pin in pins.items() if _installed(name) != pin
    ]
    if not wrong:
        return Check("packages", State.OK, f"{len(pins)} as locked")
    more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
    uv = Path(sys.prefix) / "bin" / "uv"
    mend = f"{uv} pip install --python {sys.executable} --require-hashes -r {lock}" if uv.exists() else "make setup"
    return Check("packages", State.MISSING, "; ".join(wrong[:3]) + more, mend)


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def check_jars() -> Check:
    """The Delta jars, so that a session starts without the network."""
    fetch = f"{sys.executable} -m lowwater.high.session --fetch"
    try:
        # Imported here: the doctor must also speak where PySpark is absent.
        from lowwater.high.session import delta_jars, jars_folder

        found = delta_jars()
    except ImportError as error:
        return Check("Delta jars", State.MISSING, f"the session cannot be imported: {error}", "make setup")
    except ConfigError as error:
        return Check("Delta jars", State.MISSING, error.message, fetch)
    return Check("Delta jars", State.OK, f"{len(found)} in {jars_folder()}")


def check_memory() -> Check:
    """4 GiB free are recommended: Spark's JVM, its Python workers and the kernels' tables."""
    free = psutil.virtual_memory().available
    if free >= MEMORY:
        return Check("memory", State.OK, f"{free / GIB:.1f} GiB free")
    return Check("memory", State.WARNING, f"{free / GIB:.1f} GiB free, 4 recommended", "ps aux --sort=-rss | head")


def check_disk(folder: Path) -> Check:
    """5 GiB free are recommended where the lake will lie; below 1 GiB nothing runs.

    Args:
        folder: a folder of that file system.
    """
    free = shutil.disk_usage(folder).free
    if free >= DISK:
        return Check("disk", State.OK, f"{free / GIB:.1f} GiB free")
    state = State.WARNING if free >= GIB else State.MISSING
    return Check("disk", state, f"{free / GIB:.1f} GiB free, 5 recommended", f"du -xh -d 2 {folder} | sort -h | tail")


def check_port() -> Check:
    """A loopback port that can be bound and reached: Spark and its Python workers talk over one."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError as error:
        return Check("loopback port", State.MISSING, str(error), "sudo ip link set lo up")
    return Check("loopback port", State.OK, f"127.0.0.1:{port}")


def check_writable(folder: Path) -> Check:
    """The working directory takes a file: the lake and the results of `run` go below it.

    Args:
        folder: the directory to write to.
    """
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return Check("working directory", State.MISSING, f"{folder}: {error.strerror}", f"chmod u+w {folder}")
    return Check("working directory", State.OK, f"{folder} is writable")
