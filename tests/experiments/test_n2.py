"""N2: what a join with late packets keeps by their delay."""

from __future__ import annotations

import pytest

from experiments import n2
from experiments.frame import Measurement
from tests.experiments.broken import order_is_lost, said, small

pytestmark = [pytest.mark.bench, pytest.mark.slow]


@pytest.fixture(scope="module")
def rows() -> list[Measurement]:
    return small(n2)


def test_the_verdicts_of_a_small_run(rows: list[Measurement]) -> None:
    assert said(n2.EXPERIMENT, rows) == [True, True]


def test_a_broken_policy_turns_the_verdicts(rows: list[Measurement], monkeypatch: pytest.MonkeyPatch) -> None:
    order_is_lost(monkeypatch, n2)
    assert said(n2.EXPERIMENT, n2.EXPERIMENT.measure(n2.Size.QUICK)) == [False, False]
