"""Implements `lowwater doctor`: checks the requirements of this machine, and prints the command that fixes each one.

`make demo` and `make test` call it before they replay anything.
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
    """Result of a check. Only `missing` keeps Lowwater from running."""

    OK = "ok"
    WARNING = "warning"
    MISSING = "missing"


@dataclass(frozen=True)
class Check:
    """Check of one requirement.

    Attributes:
        name: the requirement.
        state: whether the machine meets it.
        found: what the machine has, in a few words.
        mend: command that fixes the problem; empty without a problem.
    """

    name: str
    state: State
    found: str
    mend: str = ""


def checks() -> list[Check]:
    """Checks every requirement of Lowwater, in the order in which to fix problems.

    Returns:
        One `Check` for each requirement. No check raises or needs the network.
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
    """Prints the table of checks, then a command for each requirement that is not ok.

    Args:
        console: terminal to print to.

    Returns:
        0 if nothing is missing (warnings allowed), else 1.
    """
    results = checks()
    colours = {State.OK: "green", State.WARNING: "yellow", State.MISSING: "red"}
    table = Table("check", "state", "found")
    for result in results:
        table.add_row(result.name, styled(result.state, colours[result.state]), result.found)
    console.print(table)
    for result in results:
        if result.mend:
            # On a line of its own and never wrapped, so that it can be copied.
            console.print(f"{result.name}: {result.mend}", soft_wrap=True)
    return int(any(result.state is State.MISSING for result in results))


def check_python() -> Check:
    """Checks for Python 3.11, the version of the package lock."""
    version = "{}.{}.{}".format(*sys.version_info[:3])
    if sys.version_info[:2] == (3, 11):
        return Check("Python 3.11", State.OK, version)
    return Check("Python 3.11", State.MISSING, version, "make clean && rm -rf .venv && make PYTHON=python3.11 setup")


def check_java() -> Check:
    """Checks for Java 17 or newer. As Spark does, takes JAVA_HOME if it is set, else PATH."""
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
    """Parses the major version from the output of `java -version`; None if there is none.

    >>> java_version('openjdk version "17.0.15" 2025-04-15')
    17
    >>> java_version('java version "1.8.0_392"')
    8
    """
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match.group(1)) if match else None


def check_packages(root: Path) -> Check:
    """Checks that the packages have their locked versions; ok in an installation without a lock.

    Args:
        root: folder of the checkout, which holds `requirements.txt`.
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
    """Checks for the Delta jars, which a Spark session needs to start without network."""
    fetch = f"{sys.executable} -m lowwater.high.session --fetch"
    try:
        # Imported here, because the doctor must also run without PySpark.
        from lowwater.high.session import delta_jars, jars_folder

        jars = delta_jars()
    except ImportError as error:
        return Check("Delta jars", State.MISSING, f"the session cannot be imported: {error}", "make setup")
    except ConfigError as error:
        return Check("Delta jars", State.MISSING, error.message, fetch)
    return Check("Delta jars", State.OK, f"{len(jars)} in {jars_folder()}")


def check_memory() -> Check:
    """Checks for 4 GiB of free memory, for Spark's JVM, its Python workers and the tables of the kernels."""
    free = psutil.virtual_memory().available
    if free >= MEMORY:
        return Check("memory", State.OK, f"{free / GIB:.1f} GiB free")
    return Check("memory", State.WARNING, f"{free / GIB:.1f} GiB free, 4 recommended", "ps aux --sort=-rss | head")


def check_disk(folder: Path) -> Check:
    """Checks for 5 GiB of free disk space; less than 1 GiB counts as missing.

    Args:
        folder: a folder in the file system of the lake.
    """
    free = shutil.disk_usage(folder).free
    if free >= DISK:
        return Check("disk", State.OK, f"{free / GIB:.1f} GiB free")
    state = State.WARNING if free >= GIB else State.MISSING
    return Check("disk", state, f"{free / GIB:.1f} GiB free, 5 recommended", f"du -xh -d 2 {folder} | sort -h | tail")


def check_port() -> Check:
    """Checks that a loopback port can be bound and reached, because Spark and its Python workers need one."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError as error:
        return Check("loopback port", State.MISSING, str(error), "sudo ip link set lo up")
    return Check("loopback port", State.OK, f"127.0.0.1:{port}")


def check_writable(folder: Path) -> Check:
    """Checks that the working directory is writable, because the lake and the results of `run` go there.

    Args:
        folder: the directory.
    """
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return Check("working directory", State.MISSING, f"{folder}: {error.strerror}", f"chmod u+w {folder}")
    return Check("working directory", State.OK, f"{folder} is writable")
