"""N3: what a sliding count keeps by the delay of one link."""

from __future__ import annotations

import pytest

from experiments import n3
from experiments.frame import Measurement
from tests.experiments.broken import order_is_lost, said, small

pytestmark = [pytest.mark.bench, pytest.mark.slow]


@pytest.fixture(scope="module")
def rows() -> list[Measurement]:
    return small(n3)


def test_the_verdicts_of_a_small_run(rows: list[Measurement]) -> None:
    assert said(n3.EXPERIMENT, rows) == [True, True, True]


def test_a_broken_policy_turns_the_verdicts(rows: list[Measurement], monkeypatch: pytest.MonkeyPatch) -> None:
    order_is_lost(monkeypatch, n3)
    assert said(n3.EXPERIMENT, n3.EXPERIMENT.measure(n3.Size.QUICK)) == [False, False, True]
