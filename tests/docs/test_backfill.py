"""The page on backfills: its commands are run in order and print what is shown; its settings and options exist."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from lowwater_generator import generate

from lowwater.instants import format_instant, parse_instant
from tests.docs.book import ROOT, blocks, program, shell
from tests.replay.support import lowwater
from tests.replay.test_looks import at, deliver, lake_of

pytestmark = pytest.mark.slow
PAGE = ROOT / "docs" / "backfill.md"
BLOCKS = blocks(PAGE)
RUN = {"run", "edit", "example"}
"""What is run: a command of the page, its edited line, and what stands for the reader's own captures."""


@pytest.mark.nightly
def test_every_command_prints_what_follows(tmp_path: Path) -> None:
    folder, work, ran = program(tmp_path / "bin"), tmp_path / "work", 0
    work.mkdir()
    (work / "queries").symlink_to(ROOT / "queries")
    for block, after in pairwise([*BLOCKS, BLOCKS[-1]]):
        if not RUN & set(block.words):
            continue
        said = shell(block, work, folder)
        if after.words == ("text",):
            assert [line.rstrip() for line in said.splitlines()] == after.text.splitlines(), str(block)
        ran += 1
    assert ran == len(re.findall(r"^```sh (?:run|edit|example)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)) >= 9
    assert "passed" in (work / "report.txt").read_text()


def test_six_commands_and_one_edited_line_lead_to_the_report(tmp_path: Path) -> None:
    """What the README has for a new machine, then every command up to the report; the edit changes one line."""
    commands, edits = ["make setup"], []
    assert "setup: $(VENV)" in (ROOT / "Makefile").read_text(encoding="utf-8")
    for block in BLOCKS:
        commands += block.text.splitlines() if block.words == ("sh", "run") else []
        edits += block.text.splitlines() if block.words == ("sh", "edit") else []
        if "report" in commands[-1]:
            break
    assert [line.split()[1] for line in commands] == ["setup", "init", "ingest", "plan", "backfill", "report"]
    (edit,) = edits
    assert generate(tmp_path / "captures", parse_instant("2026-01-01T00:00:00Z"), 2, rate=1.0)
    query = ROOT / "queries" / "flows.gsql"
    done = lowwater("init", tmp_path / "captures", "--lake", tmp_path / "lake", "--query", query)
    assert done.code == 0, done.err
    settings = tmp_path / "lake" / "lowwater.toml"
    before = settings.read_text(encoding="utf-8").splitlines()
    subprocess.run(["sh", "-e", "-c", edit], cwd=tmp_path, check=True, timeout=300)
    after = settings.read_text(encoding="utf-8").splitlines()
    changed = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
    assert [line.partition("#")[0].strip() for _, line in changed] == ['policy = "publish"']


@pytest.mark.nightly
def test_cron_and_systemd_look(tmp_path: Path) -> None:
    """Their lines in the little environment that both give, with another folder in place of /srv."""
    srv = tmp_path / "srv"
    lake_of(srv, [0, 1], more='[schedule]\nlook_back = "36500d"')
    with (srv / "lake" / "lowwater.toml").open("a") as settings:
        settings.write(f'until = "{format_instant(at(3))}"\n')
    program(srv / "venv" / "bin", f"PYTHONPATH={ROOT}")
    little = {"HOME": str(tmp_path), "LOGNAME": "lowwater", "SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"}
    text = PAGE.read_text(encoding="utf-8").replace("/srv", str(srv))
    (cron,) = re.findall(r"^```text\n((?:\S+ +){5}.*lowwater watch.*)\n```", text, re.MULTILINE)
    assert "%" not in cron, "an end of line to cron"
    line = cron.split(None, 5)[5]
    for mail in ("cannot start", ""):
        done = subprocess.run(["sh", "-c", line], cwd="/", env=little, capture_output=True, text=True, timeout=300)
        assert (done.returncode, done.stdout) == (bool(mail), "") and mail in done.stderr, done
    assert done.stderr == "", "what cannot start is told once"
    assert "done" in lowwater("status", "--lake", srv / "lake", "--queries", srv).out

    (unit,) = re.findall(r"^```ini\n(\[Unit\].*?)^```", text, re.MULTILINE | re.DOTALL)
    file = tmp_path / "lowwater.service"
    file.write_text(unit)
    if check := shutil.which("systemd-analyze"):
        verified = subprocess.run([check, "verify", file], capture_output=True, text=True, timeout=60)
        assert (verified.returncode, verified.stdout, verified.stderr) == (0, "", "")
    service_lines = dict(line.split("=", 1) for line in unit.splitlines() if "=" in line)
    deliver(srv / "captures", 2)
    command, where = shlex.split(service_lines["ExecStart"]), service_lines["WorkingDirectory"]
    with subprocess.Popen(command, cwd=where, env=little, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        assert any("done" in line for line in service.stdout)
        service.terminate()
        assert service.wait(300) == 0, "systemd stops it without a failure"
