"""H4: a failed node, found by the heartbeats that it does not make."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from experiments import h4
from lowwater.low import LowSettings, Policy
from tests.experiments.broken import said, small


@pytest.mark.slow
def test_the_verdicts_of_a_small_run() -> None:
    assert said(h4.EXPERIMENT, small(h4)) == [True, True, True]


@pytest.mark.slow
def test_without_heartbeats_the_verdicts_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    def settings(skew: int, period: int) -> LowSettings:
        return LowSettings(skew=skew, period=period, policy=Policy.DATA_DRIVEN)

    monkeypatch.setattr(h4, "LowSettings", settings)
    assert said(h4.EXPERIMENT, h4.EXPERIMENT.measure(h4.Size.QUICK))[1] is False


def test_a_recovery_that_loses_rows_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    real, failed = h4.output, []

    def output(lfta: Any, link: str, batches: Any, period: int) -> pa.Table:
        try:
            found = real(lfta, link, batches, period)
        except h4.NodeError:
            failed.append(link)
            raise
        return found.slice(1) if failed else found

    monkeypatch.setattr(h4, "output", output)
    monkeypatch.setattr(h4, "PERIODS", (5,))
    rows = [h4.point("selection", 5, h4.Size.QUICK)]
    assert not rows[0]["recovered"]
