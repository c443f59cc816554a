"""The doctor sees what a machine lacks; the machine is faked through PATH, JAVA_HOME and folders, never by mocks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lowwater.cli import doctor as module
from lowwater.cli.doctor import MISSING, OK, WARNING, check_bounds, check_jars, check_java, check_packages, checks
from lowwater.high.process import InProcess
from lowwater.threads import memory

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
    assert (check.state, check.found) == (MISSING, "no java on PATH")
    assert "openjdk" in check.mend


@pytest.mark.parametrize(
    ("version", "state"), [("17.0.15", OK), ("21", OK), ("11.0.2", MISSING), ("1.8.0_392", MISSING)]
)
def test_java_version(bare: Path, version: str, state: str) -> None:
    fake_java(bare, version)
    assert check_java().state is state


def test_a_user_without_a_name_is_told_before_spark_does_not_start(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(bare, "17.0.15")
    monkeypatch.setattr(os, "geteuid", lambda: 54_321)
    check = check_java()
    assert check.state == WARNING and "user 54321 has no line in /etc/passwd" in check.found
    assert check.mend.startswith("echo 'lowwater:x:54321:")


def test_packages_against_a_lock(tmp_path: Path) -> None:
    version = module.version_of("lark")
    assert version
    lock = tmp_path / "requirements.txt"
    lock.write_text(f"# a lock\nlark=={version} \\\n    --hash=sha256:00\n    # via -r requirements.in\n")
    assert check_packages(tmp_path).state == OK
    lock.write_text(f"lark=={version}.99 \\\n    --hash=sha256:00\nno-such-package==1.0\n")
    check = check_packages(tmp_path)
    assert check.state == MISSING
    assert f"lark {version}, not {version}.99" in check.found
    assert "no-such-package absent, not 1.0" in check.found
    assert str(lock) in check.mend


def test_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lowwater.spark.jars import NEEDED

    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    folder = tmp_path / "share" / "lowwater" / "jars"
    folder.mkdir(parents=True)
    for name in NEEDED:
        assert check_jars().state == MISSING
        assert check_jars().mend.endswith("-m lowwater.spark.jars")
        (folder / f"{name}-4.4.0.jar").touch()
    assert check_jars().state == OK


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
    assert runner.most == 262_144
    monkeypatch.setenv("LOWWATER_REPLAY__MEMORY", "1000000g")
    large = check_bounds(tmp_path)
    assert (large.state, large.mend) == (WARNING, f"export LOWWATER_REPLAY__MEMORY={here >> 20}m")
    assert "(LOWWATER_REPLAY__MEMORY)" in large.found
    monkeypatch.setenv("LOWWATER_REPLAY__MEMORY", "much")
    assert check_bounds().state == MISSING


def preflight(path: Path, *args: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": str(path)}
    return subprocess.run(["/bin/sh", str(PREFLIGHT), *args], capture_output=True, text=True, env=env, timeout=300)


@pytest.fixture
def tools(bare: Path) -> Path:
    """A PATH with the two tools preflight.sh uses, and no Python and no Java."""
    for name in ("sed", "head"):
        (bare / name).symlink_to(next(p for d in ("/usr/bin", "/bin") if (p := Path(d) / name).exists()))
    return bare


@pytest.mark.slow
@pytest.mark.parametrize(("version", "said"), [("", "no Java on PATH"), ("1.8.0_392", "is Java 8; Spark needs 17")])
def test_preflight_without_a_good_java(tools: Path, version: str, said: str) -> None:
    (tools / "python3").symlink_to(os.path.realpath(sys.executable))
    if version:
        fake_java(tools, version)
    done = preflight(tools)
    assert done.returncode == 1
    assert said in done.stderr


def test_every_check_that_is_not_ok_has_a_command(bare: Path) -> None:
    found = checks()
    assert len({check.name for check in found}) == len(found) == 11
    assert all(bool(check.mend) == (check.state is not OK) for check in found)
