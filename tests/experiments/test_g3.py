"""G3: what a join over four links keeps by their skew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from experiments import g3, model
from experiments.frame import Measurement
from experiments.model import Stream
from lowwater.plan.operators import Node
from tests.experiments.broken import once, said, small

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
