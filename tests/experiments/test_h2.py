"""H2: what an outer join and the merges below it keep by the interval of heartbeats."""

from __future__ import annotations

import pytest

from experiments import h2
from tests.experiments.broken import heartbeats_are_lost, said, small


@pytest.mark.bench
@pytest.mark.slow
def test_the_verdicts_of_a_small_run() -> None:
    assert said(h2.EXPERIMENT, small(h2)) == [True, True, True, True]


@pytest.mark.bench
@pytest.mark.slow
def test_a_broken_policy_turns_the_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    heartbeats_are_lost(monkeypatch, h2)
    assert said(h2.EXPERIMENT, h2.EXPERIMENT.measure(h2.Size.QUICK)) == [False, True, False, True]
