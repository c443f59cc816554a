"""The page on changes: its commands are commands, with these options; tests/replay/test_trial.py runs them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from lowwater.cli.main import cli
from tests.docs.book import ROOT

TEXT = (ROOT / "docs" / "changes.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^ {4,}(lowwater .+)$", TEXT, re.M) + re.findall(r"`(lowwater \w+ [^`]*--[^`]*)`", TEXT)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_parses(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "flows.gsql").touch()
    _, name, *arguments = shlex.split(command)
    context = cli.commands[name].make_context(name, arguments, parent=click.Context(cli))
    assert context.params["lake"] is not None
