"""G3: what a join over four links keeps by their skew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from experiments import g3, model
from experiments.frame import Measurement
from experiments.model import Stream
from lowwater.plan.operators import Node
from tests.experiments.broken import once, order_is_lost, said, small

pytestmark = [pytest.mark.bench, pytest.mark.slow]


@pytest.fixture(scope="module")
def rows() -> list[Measurement]:
    return small(g3)


def test_the_verdicts_of_a_small_run(rows: list[Measurement]) -> None:
    """Python's objects are larger in the join than in a merge; structures of C would not be."""
    assert said(g3.EXPERIMENT, rows) == [True, True, False, True]


def test_a_join_that_is_cleared_too_late_turns_the_verdicts(
    rows: list[Measurement], monkeypatch: pytest.MonkeyPatch
) -> None:
    """OOP hears of a promise every 20 s only, twice its window: it keeps more tuples than IOP, and more objects."""

    def late(function: Callable[..., Any]) -> Callable[..., Any]:
        def found(node: Node, streams: Mapping[str, Stream], form: str, *others: Any) -> Any:
            return once(function)(node, streams, form, *others, *([20.0] if form == "oop" else []))

        return found

    monkeypatch.setattr(g3, "memory", late(model.memory))
    monkeypatch.setattr(g3, "objects", late(model.objects))
    assert said(g3.EXPERIMENT, g3.EXPERIMENT.measure(g3.Size.QUICK)) == [False, False, False, False]


def test_without_merges_the_structures_are_the_same(rows: list[Measurement], monkeypatch: pytest.MonkeyPatch) -> None:
    """What the last verdicts compare OOP with is the merges of IOP: without them both have the same structures."""
    order_is_lost(monkeypatch, g3)
    assert said(g3.EXPERIMENT, g3.EXPERIMENT.measure(g3.Size.QUICK)) == [True, True, False, False]


def test_structures_without_words_turn_the_verdict(rows: list[Measurement], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(g3, "IN_JOIN", g3.IN_MERGE)
    assert said(g3.EXPERIMENT, rows) == [True, True, False, False]
    assert g3.share(rows, 40, "arrays") == pytest.approx(g3.share(rows, 40, "tuples"))


def test_objects_of_equal_size_turn_the_verdict(rows: list[Measurement]) -> None:
    """The paper's 20 % would hold for objects too, if those of the join were as large as the paper's structures."""
    extreme = [{**row, "objects": g3.arrays(row, g3.PAPER_TUPLE)} for row in rows]
    assert said(g3.EXPERIMENT, extreme) == [True, True, True, True]
