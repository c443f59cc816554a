"""N1: what a count over a band join costs by its band."""

from __future__ import annotations

import pytest

from experiments import n1
from tests.experiments.broken import measured, order_is_lost, said


def test_the_verdicts_of_a_small_run() -> None:
    assert said(n1.EXPERIMENT, measured(n1.EXPERIMENT)) == [True, True, True, True]


def test_a_broken_policy_turns_the_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    order_is_lost(monkeypatch, n1)
    assert said(n1.EXPERIMENT, n1.EXPERIMENT.measure(n1.Size.QUICK)) == [False, False, False, False]
