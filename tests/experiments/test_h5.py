"""H5: a backlogged operator, found from the traces of heartbeats."""

from __future__ import annotations

import pytest

from experiments import h5
from experiments.frame import Measurement
from tests.experiments.broken import said, small

pytestmark = [pytest.mark.bench, pytest.mark.slow]


@pytest.fixture(scope="module")
def rows() -> list[Measurement]:
    return small(h5)


def parts(rows: list[Measurement]) -> tuple[list[Measurement], list[Measurement]]:
    """The rows of the model, and those of the traces of a run."""
    return [row for row in rows if "slow" in row], [row for row in rows if "lag" in row]


def test_the_verdicts_of_a_small_run(rows: list[Measurement]) -> None:
    assert said(h5.EXPERIMENT, rows) == [True, True, True]
    operators = {row["operator"] for row in rows if "slow" in row}
    assert {row["slow"] for row in rows if "slow" in row} == operators | {h5.NOTHING} and len(operators) > 4


def test_without_heartbeats_nothing_is_found(rows: list[Measurement], monkeypatch: pytest.MonkeyPatch) -> None:
    _, traced = parts(rows)
    with monkeypatch.context() as patch:
        patch.setattr(h5, "PERIOD", 1000.0)
        silent = h5.busy_rows(h5.Size.QUICK)
    assert said(h5.EXPERIMENT, silent + traced) == [False, True, True]
