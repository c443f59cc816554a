"""G2: what a window count over two links keeps by their skew."""

from __future__ import annotations

import pytest

from experiments import g2
from tests.experiments.broken import measured, order_is_lost, said


def test_the_verdicts_of_a_small_run() -> None:
    assert said(g2.EXPERIMENT, measured(g2.EXPERIMENT)) == [True, True, True, True]


def test_a_broken_policy_turns_the_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    order_is_lost(monkeypatch, g2)
    assert said(g2.EXPERIMENT, g2.EXPERIMENT.measure(g2.Size.QUICK)) == [False, False, False, False]
