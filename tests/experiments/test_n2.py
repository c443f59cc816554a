"""N2: what a join with late packets keeps by their delay."""

from __future__ import annotations

import pytest

from experiments import n2
from tests.experiments.broken import measured, order_is_lost, said


def test_the_verdicts_of_a_small_run() -> None:
    assert said(n2.EXPERIMENT, measured(n2.EXPERIMENT)) == [True, True]


def test_a_broken_policy_turns_the_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    order_is_lost(monkeypatch, n2)
    assert said(n2.EXPERIMENT, n2.EXPERIMENT.measure(n2.Size.QUICK)) == [False, False]
