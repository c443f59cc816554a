"""Hostile query texts through all that plans them: an answer or a mistake with its place, in time like their length."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lowwater_review.checking import LONGEST_PLAN, known_of

from lowwater.config import Config
from lowwater.editor.checking import check_scripts, make_script
from lowwater.editor.completion import complete
from lowwater.editor.formatting import formatted
from lowwater.editor.knowledge import learn
from lowwater.editor.meaning import meaning_at
from lowwater.errors import LowwaterError
from lowwater.lake.layout import open_lake
from lowwater.plan.queryset import plan_texts
from tests.cli.hostile import clean
from tests.editor.test_texts import CONTEXT
from tests.gsql.hostile_texts import LONGEST, TEXTS

pytestmark = pytest.mark.slow
MOST = 60.0
"""Processor seconds of a text; the largest needs one. What doubles needs hours."""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("lake")
    open_lake(root)
    return root


def planned(text: str, lake: Path) -> object:
    """What Airflow's DAG processor, `check` and every run do."""
    try:
        return plan_texts([("q.gsql", text)], CONTEXT.links)
    except LowwaterError as error:
        assert len(str(error)) < 10 * LONGEST
        return error


def edited(text: str, lake: Path) -> object:
    """What the editors ask for."""
    scripts = [make_script("q.gsql", text)]
    knowledge = learn(scripts, CONTEXT)
    for at in (0, len(text) // 2, len(text)):
        complete(knowledge, scripts[0], at)
        meaning_at(knowledge, scripts[0], at)
    check_scripts(scripts, CONTEXT, Config())
    return formatted(scripts[0])


def written(text: str, lake: Path) -> object:
    """What the page Write says, in the process that it runs."""
    if any("\ud800" <= sign <= "\udfff" for sign in text):
        return ""  # no form sends them
    answer: dict[str, Any] = known_of({"lake": lake, "text": text, "set": "", "links": ["main1", "main2"]})
    assert len(answer["explained"]) <= LONGEST_PLAN + 100
    return answer


WAYS: dict[str, Callable[[str, Path], object]] = {"planned": planned, "edited": edited, "written": written}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", TEXTS)
def test_no_text_takes_long(name: str, way: str, lake: Path) -> None:
    text = TEXTS[name]
    assert len(text) <= LONGEST + 10
    before = time.process_time()
    WAYS[way](text, lake)
    assert time.process_time() - before < MOST


@pytest.mark.parametrize("name", TEXTS)
def test_check_says_in_short_what_is_wrong(name: str, tmp_path: Path) -> None:
    file = tmp_path / "q.gsql"
    file.write_bytes(TEXTS[name].encode(errors="surrogatepass"))
    before = time.process_time()
    said = clean("check", file, code=None)
    assert said.code in (0, 1) and time.process_time() - before < MOST
    assert said.code == 0 or len(said.err + said.out) < 200_000
