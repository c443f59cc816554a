"""N3: what a sliding count keeps by the delay of one link."""

from __future__ import annotations

import pytest

from experiments import n3
from tests.experiments.broken import measured, order_is_lost, said


def test_the_verdicts_of_a_small_run() -> None:
    assert said(n3.EXPERIMENT, measured(n3.EXPERIMENT)) == [True, True]


def test_a_broken_policy_turns_the_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    order_is_lost(monkeypatch, n3)
    assert said(n3.EXPERIMENT, n3.EXPERIMENT.measure(n3.Size.QUICK)) == [False, False]
