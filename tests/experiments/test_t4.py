"""T4: what 004 says of its examples."""

from __future__ import annotations

import pytest

from experiments import t4
from tests.experiments.broken import said


@pytest.mark.slow
def test_the_verdicts_of_a_small_run(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = t4.EXPERIMENT.measure(t4.Size.QUICK)
    assert said(t4.EXPERIMENT, rows) == [True] * 4
    real = t4.evaluated
    # The query without CLOSING_WHEN in the place of the one with it; a merge that keeps no order.
    monkeypatch.setattr(
        t4,
        "evaluated",
        lambda name, links, skew=0, form="oop": real(name.replace("running", "duplicates"), links, skew),
    )
    assert said(t4.EXPERIMENT, t4.EXPERIMENT.measure(t4.Size.QUICK)) == [True, False, False, True]
