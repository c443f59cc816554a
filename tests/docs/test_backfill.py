"""The page on backfills: its commands are run in order and print what is shown; its settings and options exist."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from lowwater.cli.main import cli
from tests.docs.book import ROOT, blocks

PAGE = ROOT / "docs" / "backfill.md"
BLOCKS = blocks(PAGE)


@pytest.mark.spark
def test_every_command_prints_what_follows(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "lowwater"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lowwater.cli.main "$@"\n')
    program.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    (work / "queries").symlink_to(ROOT / "queries")
    path = os.pathsep.join([str(program.parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    ran = 0
    for block, after in pairwise([*BLOCKS, BLOCKS[-1]]):
        if "run" not in block.words:
            continue
        done = subprocess.run(
            ["sh", "-e", "-c", block.text], cwd=work, env=environment, capture_output=True, text=True, timeout=400
        )
        assert done.returncode == 0, f"{block}: {done.stdout}{done.stderr}"
        if after.words == ("text",):
            assert [line.rstrip() for line in done.stdout.splitlines()] == after.text.splitlines(), str(block)
        ran += 1
    assert ran == len(re.findall(r"^```sh run$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)) >= 9
    assert "passed" in (work / "report.txt").read_text()


def test_six_commands_lead_to_the_report() -> None:
    lines = [line for block in BLOCKS if block.words == ("sh", "run") for line in block.text.splitlines()]
    first = lines[: next(number for number, line in enumerate(lines) if "report" in line) + 1]
    assert len([line for line in first if line.startswith("lowwater")]) <= 6
    assert len([line for line in first if line.startswith("sed")]) == 1


def test_a_command_has_these_options() -> None:
    for block in BLOCKS:
        for line in block.text.splitlines() if block.words[0] == "sh" else ():
            words = shlex.split(line.split("|")[0])
            if words[0] == "lowwater":
                known = {option for each in cli.commands[words[1]].params for option in each.opts}
                assert {word for word in words if word.startswith("--")} <= known, line


@pytest.mark.slow
def test_airflow_has_these_options(tmp_path: Path) -> None:
    (block,) = [each for each in BLOCKS if each.words == ("sh", "airflow")]
    environment = {"PATH": str(Path(sys.executable).parent), "AIRFLOW_HOME": str(tmp_path)}
    command = ["airflow", "backfill", "create", "--help"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    for line in block.text.splitlines():
        assert {word for word in shlex.split(line) if word.startswith("--")} <= set(
            re.findall(r"--[a-z-]+", done.stdout)
        )


def test_every_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)", PAGE.read_text(encoding="utf-8")):
        assert (PAGE.parent / target).is_file(), target
