"""G3: what a join over four links keeps by their skew."""

from __future__ import annotations

import pytest

from experiments import g3
from tests.experiments.broken import measured, order_is_lost, said


def test_the_verdicts_of_a_small_run() -> None:
    assert said(g3.EXPERIMENT, measured(g3.EXPERIMENT)) == [True, True, False]


def test_a_broken_policy_turns_the_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    order_is_lost(monkeypatch, g3)
    assert said(g3.EXPERIMENT, g3.EXPERIMENT.measure(g3.Size.QUICK)) == [True, True, False]
