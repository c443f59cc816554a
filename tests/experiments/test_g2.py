"""G2: what a window count over two links keeps by their skew."""

from __future__ import annotations

import pytest

from experiments import g2
from experiments.frame import Measurement
from tests.experiments.broken import order_is_lost, said, small

pytestmark = [pytest.mark.bench, pytest.mark.slow]


@pytest.fixture(scope="module")
def rows() -> list[Measurement]:
    return small(g2)


def test_the_verdicts_of_a_small_run(rows: list[Measurement]) -> None:
    assert said(g2.EXPERIMENT, rows) == [True, True, True, True, True]


def test_a_broken_policy_turns_the_verdicts(rows: list[Measurement], monkeypatch: pytest.MonkeyPatch) -> None:
    order_is_lost(monkeypatch, g2)
    low = {(each["slots"], each["window"]): each for each in rows if "slots" in each}
    monkeypatch.setattr(g2, "reduced", lambda slots, window, size: low[slots, window])
    assert said(g2.EXPERIMENT, g2.EXPERIMENT.measure(g2.Size.QUICK)) == [False, False, False, False, True]
