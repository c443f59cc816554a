"""N1: what a count over a band join costs by its band."""

from __future__ import annotations

import pytest

from experiments import model, n1
from experiments.frame import Measurement
from tests.experiments.broken import said, small

pytestmark = [pytest.mark.bench, pytest.mark.slow]


@pytest.fixture(scope="module")
def rows() -> list[Measurement]:
    return small(n1)


@pytest.mark.parametrize(("factor", "holds"), [(0.01, True), (100.0, False)])
def test_the_verdict_on_time_is_of_the_calls(rows: list[Measurement], factor: float, holds: bool) -> None:
    times = [{**row, "calls": row["calls"] * factor} if row["form"] == "oop" else row for row in rows]
    assert said(n1.EXPERIMENT, times)[2] is holds


def test_calls_are_the_same_again() -> None:
    node, links = n1.query(1), n1.streams(2, 1.0, n1.SEED)
    found = [model.calls(node, links, form) for form in ("iop", "oop", "iop", "oop")]
    assert found[:2] == found[2:] and found[0] > found[1] > 0
