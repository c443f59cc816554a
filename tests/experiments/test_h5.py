"""H5: a backlogged operator, found from the traces of heartbeats."""

from __future__ import annotations

import pytest

from experiments import h5
from experiments.execution import Costs
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


def test_where_all_are_slow_nobody_is_found(rows: list[Measurement], monkeypatch: pytest.MonkeyPatch) -> None:
    _, traced = parts(rows)
    monkeypatch.setattr(h5, "MEASURED", Costs(row=12_500_000, punctuation=3_600, backtrack=0))
    assert said(h5.EXPERIMENT, h5.busy_rows(h5.Size.QUICK) + traced) == [False, False, True]


def test_a_link_in_time_is_not_accused(rows: list[Measurement]) -> None:
    modelled, _ = parts(rows)
    assert said(h5.EXPERIMENT, modelled + h5.late_rows(h5.Size.QUICK, 0.0)) == [True, True, False]


def test_a_merge_that_waits_for_a_slow_input_is_accused_by_single_heartbeats_only(rows: list[Measurement]) -> None:
    modelled, _ = parts(rows)
    (slow,) = {name for name in (row["slow"] for row in modelled) if str(name).startswith("a/Map")}
    assert h5.accused(modelled, str(slow)) == {slow}
    assert {str(name).split("/")[1] for name in h5.accused(modelled, str(slow), "wait")} == {"Map", "Union"}
