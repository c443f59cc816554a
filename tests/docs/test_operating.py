"""The page of who operates a lake: its recipes run, and what they copy is a lake."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from lowwater.cli.main import cli
from tests.cli.hostile import clean
from tests.lake.damage import TO, publish, rows_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operating.md"


def recipe(tool: str) -> list[str]:
    """The commands of a recipe, a pass each."""
    found = re.search(rf"<!-- recipe {tool} -->\n```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    return found[1].splitlines()


def test_each_command_of_the_page_is_one() -> None:
    commands = re.findall(r"^lowwater (.*)$", PAGE.read_text(), re.MULTILINE)
    assert len(commands) > 15
    for line in commands:
        name, *words = shlex.split(line, comments=True)
        known = cli.commands[name]
        known.make_parser(click.Context(known)).parse_args(words)


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["rsync", "rclone"])
def test_a_copy_by_another_tool_is_a_lake(tool: str, tmp_path: Path) -> None:
    """An interval is published between the two passes."""
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    folder = publish(tmp_path)
    lake, copy = folder / "lake", folder / "copy"
    names = {**os.environ, "LAKE": str(lake), "COPY": str(copy)}
    first, second = recipe(tool)
    settings = lake / "lowwater.toml"
    settings.write_text(settings.read_text().replace('skew = "2s"', 'skew = "1500ms"'))
    subprocess.run(first, shell=True, env=names, check=True, timeout=60)
    clean("backfill", "--lake", lake, "--to", TO)
    subprocess.run(second, shell=True, env=names, check=True, timeout=60)
    lost = clean("verify", "--lake", copy, "--data", code=None).out
    assert lost.count("is gone") == lost.count("what is published needs them no more"), lost
    clean("backfill", "--lake", copy, "--to", TO)
    assert rows_of(copy) == rows_of(lake)
    clean("verify", "--lake", copy, "--data")
    assert "damaged" not in clean("status", "--lake", copy).out
