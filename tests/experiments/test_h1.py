"""H1: what a merge keeps by the interval of heartbeats."""

from __future__ import annotations

import pytest

from experiments import h1
from tests.experiments.broken import heartbeats_are_lost, order_is_lost, said, small


@pytest.mark.slow
def test_the_verdicts_of_a_small_run() -> None:
    assert said(h1.EXPERIMENT, small(h1)) == [True, True, True, True, True]


@pytest.mark.slow
def test_a_broken_policy_turns_the_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    heartbeats_are_lost(monkeypatch, h1)
    assert said(h1.EXPERIMENT, h1.EXPERIMENT.measure(h1.Size.QUICK)) == [False, True, False, True, True]


@pytest.mark.slow
def test_a_merge_that_keeps_no_order_turns_the_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    order_is_lost(monkeypatch, h1)
    assert said(h1.EXPERIMENT, h1.EXPERIMENT.measure(h1.Size.QUICK)) == [False, False, False, False, True]
