"""Somebody with a capture finds a query, and runs it as the commands say."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from lowwater_generator import generate

from lowwater.cli.commands.texts import recipes
from tests.replay.support import START, lowwater


def test_every_recipe_of_the_page_is_found_by_its_name() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "cookbook.md").read_text(encoding="utf-8")
    found = recipes()
    assert [recipe.title for recipe in found] == re.findall(r"^## (.+)$", page, re.M)
    assert len({recipe.name for recipe in found}) == len(found)
    assert all(recipe.text in page for recipe in found)


@pytest.mark.slow
def test_the_last_line_of_inspect_leads_to_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (capture,) = list(generate(tmp_path / "captures", START, 1, ["main1"], rate=0.2, seed=1))[:1]
    said = lowwater("inspect", capture.path)
    assert said.code == 0
    show, run = said.err.strip().splitlines()[-1].split("; ")[1:]
    name, file = show.removeprefix("lowwater cookbook ").split(" > ")
    Path(file).write_text(lowwater("cookbook", name).out, encoding="utf-8")
    assert name in lowwater("cookbook").out
    done = lowwater(*shlex.split(run)[1:])
    assert done.code == 0 and Path("results", f"{name}.csv").read_text().startswith("begin,")
    assert "did you mean 'talkers'?" in lowwater("cookbook", "talker").err
