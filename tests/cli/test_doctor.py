"""The doctor sees what a machine lacks; the machine is faked through PATH, JAVA_HOME and folders, never by mocks."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lowwater.capture.tables.reader import memory
from lowwater.cli import doctor as module
from lowwater.cli.doctor import (
    State,
    check_bounds,
    check_disk,
    check_extras,
    check_jars,
    check_java,
    check_packages,
    check_writable,
    checks,
    doctor,
)
from lowwater.high.process import InProcess
from lowwater.terminal import Terminal

ROOT = Path(__file__).resolve().parents[2]
PREFLIGHT = ROOT / "scripts" / "preflight.sh"


def fake(folder: Path, name: str, script: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    return program


def fake_java(folder: Path, version: str) -> Path:
    return fake(folder, "java", f"echo 'openjdk version \"{version}\" 2025-04-15' >&2")


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH of one empty folder, and no JAVA_HOME."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return folder


def test_no_java(bare: Path) -> None:
    check = check_java()
    assert (check.state, check.found) == (State.MISSING, "no java on PATH")
    assert "openjdk" in check.mend


@pytest.mark.parametrize(
    ("version", "state"),
    [("17.0.15", State.OK), ("21", State.OK), ("11.0.2", State.MISSING), ("1.8.0_392", State.MISSING)],
)
def test_java_version(bare: Path, version: str, state: State) -> None:
    fake_java(bare, version)
    assert check_java().state is state


def test_java_without_a_version(bare: Path) -> None:
    fake(bare, "java", "exit 1")
    check = check_java()
    assert check.state is State.MISSING
    assert "does not tell its version" in check.found


def test_java_home_comes_before_path(bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(bare, "17.0.1")
    fake_java(tmp_path / "old" / "bin", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    check = check_java()
    assert check.state is State.MISSING
    assert check.mend.endswith("unset JAVA_HOME")


def test_java_home_without_java(bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(bare, "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "elsewhere"))
    assert check_java().mend == "unset JAVA_HOME"


def test_packages_against_a_lock(tmp_path: Path) -> None:
    version = module.version_of("lark")
    assert version
    lock = tmp_path / "requirements.txt"
    lock.write_text(f"# a lock\nlark=={version} \\\n    --hash=sha256:00\n    # via -r requirements.in\n")
    assert check_packages(tmp_path).state is State.OK
    lock.write_text(f"lark=={version}.99 \\\n    --hash=sha256:00\nno-such-package==1.0\n")
    check = check_packages(tmp_path)
    assert check.state is State.MISSING
    assert f"lark {version}, not {version}.99" in check.found
    assert "no-such-package absent, not 1.0" in check.found
    assert str(lock) in check.mend


def test_packages_outside_a_checkout(tmp_path: Path) -> None:
    assert check_packages(None).state is State.OK


def test_extras() -> None:
    assert check_extras().state is State.OK
    assert "spark" in check_extras().found


def test_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lowwater.spark.jars import NEEDED

    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    folder = tmp_path / "share" / "lowwater" / "jars"
    folder.mkdir(parents=True)
    for name in NEEDED:
        assert check_jars().state is State.MISSING
        assert check_jars().mend.endswith("-m lowwater.spark.jars")
        (folder / f"{name}-4.4.0.jar").touch()
    assert check_jars().state is State.OK


def test_working_directory(tmp_path: Path) -> None:
    assert check_writable(tmp_path).state is State.OK
    gone = tmp_path / "gone"
    assert check_writable(gone).state is State.MISSING
    assert check_writable(gone).mend == f"chmod u+w {gone}"


def test_disk_names_a_command_exactly_when_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DISK", 0)
    assert (check_disk(tmp_path).state, check_disk(tmp_path).mend) == (State.OK, "")
    monkeypatch.setattr(module, "DISK", 1 << 80)
    assert check_disk(tmp_path).state is not State.OK
    assert check_disk(tmp_path).mend


def test_the_bound_of_memory_is_that_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said is what the runners take: of the machine, of a lake, or of a variable."""
    here = memory()
    plain = check_bounds()
    assert f"process: {here:,} bytes (all of this machine or its container; [replay] memory is not set)" in plain.found
    assert "Spark task: 536,870,912 bytes (as usual)" in plain.found
    (tmp_path / "lowwater.toml").write_text('[replay]\nmemory = "64m"\nthreads = 2\n')
    said = check_bounds(tmp_path).found
    assert "process: 67,108,864 bytes ([replay] memory) for 2 threads, in each of which an" in said
    assert "Spark task: 67,108,864 bytes, in which an operator keeps up to 524,288 rows" in said
    runner = InProcess(2, 64 << 20)
    assert runner._most == 262_144
    monkeypatch.setenv("LOWWATER_REPLAY__MEMORY", "1000000g")
    large = check_bounds(tmp_path)
    assert (large.state, large.mend) == (State.WARNING, f"export LOWWATER_REPLAY__MEMORY={here >> 20}m")
    assert "(LOWWATER_REPLAY__MEMORY)" in large.found
    monkeypatch.setenv("LOWWATER_REPLAY__MEMORY", "much")
    assert check_bounds().state is State.MISSING


def test_every_check_that_is_not_ok_has_a_command(bare: Path) -> None:
    found = checks()
    assert len({check.name for check in found}) == len(found) == 11
    assert all(bool(check.mend) == (check.state is not State.OK) for check in found)


def test_doctor_prints_the_command_unbroken_and_fails(bare: Path) -> None:
    narrow = Terminal()
    narrow.file, narrow.width = io.StringIO(), 40
    assert doctor(narrow) == 1
    assert check_java().mend in narrow.file.getvalue()


def preflight(path: Path, *args: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": str(path)}
    return subprocess.run(["/bin/sh", str(PREFLIGHT), *args], capture_output=True, text=True, env=env, timeout=300)


@pytest.fixture
def tools(bare: Path) -> Path:
    """A PATH with the two tools preflight.sh uses, and no Python and no Java."""
    for name in ("sed", "head"):
        (bare / name).symlink_to(next(p for d in ("/usr/bin", "/bin") if (p := Path(d) / name).exists()))
    return bare


def test_preflight_without_python(tools: Path) -> None:
    done = preflight(tools)
    assert done.returncode == 1
    assert "no Python 3.11 on PATH" in done.stderr
    assert "python3.11-venv" in done.stderr


def test_preflight_takes_a_python3_that_is_3_11(tools: Path) -> None:
    fake(tools, "python3.11", "exit 127")  # a shim without the version behind it
    (tools / "python3").symlink_to(os.path.realpath(sys.executable))
    fake_java(tools, "17.0.15")
    done = preflight(tools)
    assert (done.returncode, done.stdout) == (0, "python3\n"), done.stderr


def test_preflight_refuses_another_python(tools: Path) -> None:
    other = fake(tools, "other", "exit 1")
    done = preflight(tools, str(other))
    assert done.returncode == 1
    assert "is not a Python 3.11" in done.stderr


@pytest.mark.parametrize(("version", "said"), [("", "no Java on PATH"), ("1.8.0_392", "is Java 8; Spark needs 17")])
def test_preflight_without_a_good_java(tools: Path, version: str, said: str) -> None:
    (tools / "python3").symlink_to(os.path.realpath(sys.executable))
    if version:
        fake_java(tools, version)
    done = preflight(tools)
    assert done.returncode == 1
    assert said in done.stderr
