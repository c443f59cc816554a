"""Answers that take longer than a page: what is shown meanwhile, what is kept, when the work ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from lowwater_review import Board
from lowwater_review.app import create
from lowwater_review.results import answers
from lowwater_review.results.answers import Answer, Answers, wait_for

from lowwater.errors import LakeError
from lowwater.lake.results.exploring import ResultTable
from tests.review.asgi import ask
from tests.review.resultlake import make_results

HOUR = "from=2026-01-01T00:00:00Z&to=2026-01-01T01:00:00Z"


def waited(answer: Answer) -> Answer:
    wait_for(0, answer)
    return answer


def test_an_answer_is_computed_once_and_an_error_again() -> None:
    asked: list[str] = []

    def make(name: str, wrong: bool = False) -> Callable[[Callable[[int], None]], str]:
        def made(watch: Callable[[int], None]) -> str:
            asked.append(name)
            watch(1)
            if wrong:
                raise LakeError("no such table")
            return name

        return made

    kept = Answers()
    assert waited(kept.ask("a", 2, make("a"))).ready and waited(kept.ask("a", 2, make("a"))).value == "a"
    assert kept.ask("a", 2, make("a")).share == 0.5 and asked == ["a"]
    for _ in range(2):
        with pytest.raises(LakeError, match="no such table"):
            assert waited(kept.ask("b", 1, make("b", wrong=True))).ready
    assert waited(kept.ask("a", 2, make("again"), fresh=-1)).value == "again"
    assert asked == ["a", "b", "b", "again"]


def test_work_ends_once_nobody_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "FORGOTTEN", 0.05)
    begun, kept = threading.Event(), Answers()

    def make(watch: Callable[[int], None]) -> None:
        begun.set()
        while True:
            time.sleep(0.02)
            watch(0)

    answer = kept.ask("endless", 1, make)
    assert begun.wait(10) and answer.done.wait(10)
    with pytest.raises(LakeError, match="nobody has asked"):
        assert answer.ready
    assert not kept._kept


@pytest.mark.slow
def test_a_page_shows_what_is_ready_and_the_rest_when_it_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, goes_on, count = create(Board(*make_results(tmp_path))), threading.Event(), ResultTable.count
    monkeypatch.setattr(answers, "MUCH", 0)
    monkeypatch.setattr(answers, "WAIT", 5.0)
    monkeypatch.setattr(ResultTable, "count", lambda *given: goes_on.wait(60) and count(*given))
    address = "/results/q/flows"
    early = ask(app, address, query=HOUR).text
    assert "Look again" in early and "0 % is done" in early and "<tbody>\n<tr>" in early and "The rows whose" in early
    goes_on.set()
    whole = ask(app, address, query=HOUR).text
    assert "Look again" not in whole and "The rows whose" not in whole and "<svg" in whole
    wrong = ask(app, address, query=f"{HOUR}&column=cnt&op=%3D&value=many")
    assert wrong.status == 400 and "is no value of column" in wrong.text
