"""CONTRIBUTING.md: every path, name in a file and target that it has is there; its sums are right."""

from __future__ import annotations

import re

import pytest

from lowwater.cli.main import cli
from tests.docs.book import make_targets
from tests.replay.support import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PROSE = re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL)
PATHS = re.findall(r"`((?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:md|in|toml))(?:::(\w+))?`", PROSE)
MADE = ("var/", ".venv/")
"""What a checkout has not, and a run or the set-up makes."""


def test_every_path_is_there() -> None:
    named = {path for path, _ in PATHS if not path.startswith(MADE)}
    assert len(named) > 80
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


@pytest.mark.parametrize(("path", "name"), sorted({pair for pair in PATHS if pair[1]}))
def test_every_name_is_in_its_file(path: str, name: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    assert re.search(rf"^(?:\s*def|class) {name}\b|^{name}\b.*=", text, flags=re.MULTILINE), f"{path}::{name}"


def test_every_target_and_command_is_there() -> None:
    targets = set(re.findall(r"(?:`|^)make ([a-z-]+)", TEXT, flags=re.MULTILINE))
    assert targets >= {"setup", "lint", "types", "test", "test-fast", "goldens", "fuzz", "lock"}
    assert targets <= make_targets()
    assert {line.split()[0] for line in re.findall(r"`(?:\.venv/bin/)?lowwater ([^`]+)`", TEXT)} <= set(cli.commands)
