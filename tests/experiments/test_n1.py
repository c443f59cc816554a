"""N1: what a count over a band join costs by its band."""

from __future__ import annotations

import pytest

from experiments import n1
from experiments.frame import Measurement
from tests.experiments.broken import order_is_lost, said, small


@pytest.fixture(scope="module")
def rows() -> list[Measurement]:
    return small(n1)


def test_the_verdicts_of_a_small_run(rows: list[Measurement]) -> None:
    """Memory and latency; the third is of processor times, which one run of a small size does not settle."""
    memory, latency, _, buffered = said(n1.EXPERIMENT, rows)
    assert memory and latency and buffered


@pytest.mark.parametrize(("factor", "holds"), [(0.01, True), (100.0, False)])
def test_the_verdict_on_time_is_of_the_times(rows: list[Measurement], factor: float, holds: bool) -> None:
    times = [{**row, "seconds": row["seconds"] * factor} if row["form"] == "oop" else row for row in rows]
    assert said(n1.EXPERIMENT, times)[2] is holds


def test_a_broken_policy_turns_the_verdicts(rows: list[Measurement], monkeypatch: pytest.MonkeyPatch) -> None:
    order_is_lost(monkeypatch, n1)
    assert said(n1.EXPERIMENT, n1.EXPERIMENT.measure(n1.Size.QUICK)) == [False, False, False, False]
