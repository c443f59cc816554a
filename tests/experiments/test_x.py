"""X1 to X3 in small: their verdicts hold, and a policy that is broken turns them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from experiments import execution, scenarios, x1, x2, x3
from experiments.frame import Experiment, Measurement, Size
from experiments.scenarios import A, C, D, Scenario, measured, periodic, run

ALL = {"X1": x1.EXPERIMENT, "X2": x2.EXPERIMENT, "X3": x3.EXPERIMENT}


KNOWN: dict[str, Measurement] = {}


def once(scenario: Scenario, seconds: float) -> Measurement:
    """The three experiments share most of their scenarios."""
    key = f"{scenario} {seconds}"
    if key not in KNOWN:
        KNOWN[key] = measured(scenario, seconds)
    return KNOWN[key]


@cache
def rows(name: str) -> list[Measurement]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (scenarios, x1, x2, x3):
            patch.setattr(module, "measured", once, raising=False)
        return ALL[name].measure(Size.QUICK)


def held(experiment: Experiment, of_rows: list[Measurement]) -> list[bool | None]:
    return [each.holds for each in experiment.verdicts(of_rows)]


def replaced(name: str, scenario: str, by: Measurement) -> list[Measurement]:
    """The rows of an experiment with another measurement of a scenario, depth first."""
    found = rows(name)
    return [by if (each["scenario"], each["schedule"]) == (scenario, "depth-first") else each for each in found]


@pytest.mark.bench
@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_every_verdict_holds_in_small(name: str) -> None:
    verdicts = ALL[name].verdicts(rows(name))
    assert [each.claim for each in verdicts if not each.holds] == []
    assert len({each.claim for each in verdicts}) == len(verdicts)
    for panel in ALL[name].panels(rows(name)):
        assert "(" in panel.up and "(" in panel.across  # units
    assert set(ALL[name].columns) <= set(rows(name)[0])


SHORT = 30.0
"""Seconds of streams for what is measured beside the experiments."""


def without_ets(monkeypatch: pytest.MonkeyPatch) -> Measurement:
    """C whose sources never make a timestamp."""
    monkeypatch.setattr(execution.Clocked, "enable", lambda *_: False)
    return measured(C, SHORT)


def with_late_ets(monkeypatch: pytest.MonkeyPatch) -> Measurement:
    """C whose timestamps are those of 20 ms before."""
    enabling = execution.Source.enabling
    monkeypatch.setattr(execution.Source, "enabling", lambda self, now: enabling(self, now) - 20_000_000)
    monkeypatch.setattr(execution.Source, "enables_at", lambda self, stamp: stamp + 20_000_000)
    return measured(C, SHORT)


Broken = Callable[[pytest.MonkeyPatch], Measurement]


@pytest.mark.bench
@pytest.mark.slow
@pytest.mark.parametrize("broken", [without_ets, with_late_ets])
def test_a_broken_policy_on_demand_turns_the_verdicts(broken: Broken, monkeypatch: pytest.MonkeyPatch) -> None:
    found = broken(monkeypatch)
    # Latency: periodic punctuation is better, and the optimum far.
    assert held(x1.EXPERIMENT, replaced("X1", "C", found))[1::2][:2] == [False, False]
    assert held(x2.EXPERIMENT, replaced("X2", "C", found)) == [True, True, False]
    if broken is without_ets:
        assert held(x1.EXPERIMENT, replaced("X1", "C", found))[2] is False
        assert held(x3.EXPERIMENT, replaced("X3", "C", found))[1] is False


@pytest.mark.bench
@pytest.mark.slow
def test_periods_that_make_nothing_turn_the_verdicts() -> None:
    def silent(name: str) -> list[Measurement]:
        without: dict[str, Any] = {**measured(A, SHORT), "scenario": "B"}
        return [{**without, "rate": each["rate"], "timer_ms": each["timer_ms"]} if each["scenario"] == "B" else each
                for each in rows(name)]  # fmt: skip

    assert held(x1.EXPERIMENT, silent("X1"))[0] is False
    assert held(x2.EXPERIMENT, silent("X2"))[1] is False
    assert held(x3.EXPERIMENT, silent("X3"))[2:] == [False, False]


@pytest.mark.bench
@pytest.mark.slow
def test_the_same_rows_leave_in_every_scenario() -> None:
    found = [run(each, SHORT) for each in (A, periodic(10.0), C, D)]
    assert len({tuple(sorted(each.rows)) for each in found}) == 1 and found[0].rows
