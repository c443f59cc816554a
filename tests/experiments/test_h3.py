"""H3: what heartbeats cost."""

from __future__ import annotations

import pytest

from experiments import h3
from tests.experiments.broken import said, small

pytestmark = [pytest.mark.bench, pytest.mark.slow]

ROW = {"query": "flows", "seconds": 60, "promises": 2, "ratio": 1.0, "median": 1.0}


def test_a_small_run_has_a_verdict() -> None:
    assert len(said(h3.EXPERIMENT, small(h3))) == 2


@pytest.mark.parametrize(("dense", "holds"), [(2.0, True), (5000.0, False)])
def test_a_costly_heartbeat_turns_the_verdict(dense: float, holds: bool) -> None:
    rows = [ROW | {"period": 1.0, "without": 1.0, "with": 1.0}, ROW | {"period": 0.001, "without": 1.0, "with": dense}]
    assert said(h3.EXPERIMENT, rows) == [holds, holds]
