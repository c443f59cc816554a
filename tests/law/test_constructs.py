"""The law for every construct through `run` on the reference engine: captures in, the rows of SQL out."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from lowwater.replay.progress import Progress
from lowwater.replay.scratch import run
from tests.law.compare import Rows, request_of, rows_of, same_rows, sql_rows
from tests.law.constructs import FAMILIES, WATCH, prepare
from tests.law.questions import Question
from tests.law.settings import Choice, choices
from tests.law.worlds import World, worlds


@pytest.fixture(autouse=True)
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch list in the working folder."""
    (tmp_path / "w.csv").write_text(WATCH, encoding="utf-8")
    monkeypatch.chdir(tmp_path)


def evaluated(world: World, question: Question, choice: Choice) -> Rows:
    """The rows of a run on the reference engine."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        run(request_of(world, [question], Path(folder), out, choice, "reference"), Progress(quiet=True))
        return rows_of(out, question)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_rows_are_those_of_sql_or_of_one_interval(family: Callable[[], st.SearchStrategy[Question]]) -> None:
    seen: list[int] = []

    @settings(max_examples=max(4, settings().max_examples // 4), phases=(Phase.explicit, Phase.generate))
    @given(worlds(), family(), choices())
    def check(world: World, question: Question, choice: Choice) -> None:
        found = evaluated(world, question, choice)
        if not question.sql:
            assert same_rows(found, evaluated(world, question, replace(choice, interval=None)))
        else:
            with world.oracle() as oracle:
                prepare(world, oracle)
                assert same_rows(found, sql_rows(oracle, question))
        seen.append(found.total())

    check()
    assert any(seen)
