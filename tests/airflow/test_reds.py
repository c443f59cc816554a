"""An hour of intervals of five minutes in a real Airflow: red is true, and clear repairs. `make reds` has a day."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.airflow.reds import Day, Reds
from tests.replay.month import MINUTE


@pytest.mark.nightly
@pytest.mark.slow
def test_each_red_task_says_what_is_so_and_is_green_once_it_is_cleared_after_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "")  # which the driven clock sets
    reds = Reds(Day(tmp_path / "day", hours=1, seed=1, worse=3))
    try:
        reds.run(10 * MINUTE)
        states = reds.finish()
    finally:
        reds.home.stop()
    assert states["done"] and reds.counts["cleared, and green"] and reds.counts["waiting with a name"], reds.counts
    assert reds.counts["without a server"] == 1
