"""Verdicts of small runs hold, and turn where a policy is broken; test_g3 and others have those that need more."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest

from experiments import g2, h1, h2, h3, n1, n2, n3
from experiments.frame import Measurement
from tests.experiments.broken import heartbeats_are_lost, order_is_lost, said, small

Breaks = Callable[[pytest.MonkeyPatch, ModuleType], None]
BENCH = [pytest.mark.bench, pytest.mark.slow]


def _reduced(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> None:
    """The lowest level of G2 is that of the small run."""
    order_is_lost(monkeypatch, module)
    low = {(each["slots"], each["window"]): each for each in small(g2) if "slots" in each}
    monkeypatch.setattr(module, "reduced", lambda slots, window, size: low[slots, window])


CASES = [
    pytest.param(h1, [1, 1, 1, 1, 1], heartbeats_are_lost, [0, 1, 0, 1, 1], marks=pytest.mark.slow, id="h1"),
    pytest.param(h1, [1, 1, 1, 1, 1], order_is_lost, [0, 0, 0, 0, 1], marks=pytest.mark.slow, id="h1 order"),
    pytest.param(h2, [1, 1, 1, 1], heartbeats_are_lost, [0, 1, 0, 1], marks=BENCH, id="h2"),
    pytest.param(g2, [1, 1, 1, 1, 1], _reduced, [0, 0, 0, 0, 1], marks=BENCH, id="g2"),
    pytest.param(n1, [1, 1, 1, 1], order_is_lost, [0, 0, 0, 0], marks=BENCH, id="n1"),
    pytest.param(n2, [1, 1], order_is_lost, [0, 0], marks=BENCH, id="n2"),
    pytest.param(n3, [1, 1, 1], order_is_lost, [0, 0, 1], marks=BENCH, id="n3"),
]


@pytest.mark.parametrize("module, holds, breaks, broken", CASES)
def test_verdicts_hold_and_a_broken_policy_turns_them(
    module: ModuleType, holds: list[int], breaks: Breaks, broken: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert said(module.EXPERIMENT, small(module)) == list(map(bool, holds))
    breaks(monkeypatch, module)
    assert said(module.EXPERIMENT, module.EXPERIMENT.measure(module.Size.QUICK)) == list(map(bool, broken))


@pytest.mark.parametrize(("dense", "holds"), [(2.0, True), (5000.0, False)])
def test_a_costly_heartbeat_turns_the_verdict(dense: float, holds: bool) -> None:
    row: Measurement = {"query": "flows", "seconds": 60, "promises": 2, "ratio": 1.0, "median": 1.0}
    rows = [row | {"period": 1.0, "without": 1.0, "with": 1.0}, row | {"period": 0.001, "without": 1.0, "with": dense}]
    assert said(h3.EXPERIMENT, rows) == [holds, holds]
