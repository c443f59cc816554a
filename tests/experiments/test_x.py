"""X1 to X3 in small: their verdicts hold, and a policy that is broken turns them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from experiments import execution, scenarios, x1, x2, x3, x_costs
from experiments.frame import Experiment, Measurement, Size, Verdict
from experiments.scenarios import A, C, D, Scenario, by_rate, measured, of, periodic, run

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
def test_a_union_that_ignores_timestamps_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """What A would be if the rule of section 2 were not kept: as fast as D, and the verdicts of A do not hold."""
    made = execution.Node.__init__

    def latent(self: execution.Node, name: str, operator: Any, inputs: Any, _: bool) -> None:
        made(self, name, operator, inputs, True)

    monkeypatch.setattr(execution.Node, "__init__", latent)
    found = measured(A, SHORT)
    assert isinstance(found["idle"], float) and isinstance(found["peak"], int)
    assert found["idle"] < 0.99 and found["peak"] < 1000
    a, d = run(A, SHORT), run(D, SHORT)
    assert a.latency == d.latency


@pytest.mark.bench
@pytest.mark.slow
def test_the_same_rows_leave_in_every_scenario() -> None:
    found = [run(each, SHORT) for each in (A, periodic(10.0), C, D)]
    assert len({tuple(sorted(each.rows)) for each in found}) == 1 and found[0].rows


@pytest.mark.bench
@pytest.mark.slow
def test_the_share_of_waiting_is_that_of_chance() -> None:
    """1 - (1 - e^-n) / n, n the tuples between two punctuations."""
    for rate in (10.0, 100.0):
        share = measured(periodic(rate), 60.0)["idle"]
        assert share == pytest.approx(x2.expected(rate), rel=0.1)


@pytest.mark.bench
@pytest.mark.slow
def test_a_measurement_is_the_same_again() -> None:
    assert measured(C, SHORT) == measured(C, SHORT)


@pytest.mark.bench
@pytest.mark.slow
def test_verdicts_say_numbers() -> None:
    found = [measured(each, 10.0) for each in (A, periodic(100.0), C, D)]
    assert of(found, "C", "latency_ms") > 0 and len(by_rate(found, "peak")) == 1
    assert all(isinstance(each, Verdict) for each in x3.verdicts(found))


def test_costs_are_measured(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(x_costs, "PIECES", 200)
    monkeypatch.setattr(x_costs, "RUNS", 1)
    x_costs.main()
    printed = dict(line.split(": ") for line in capsys.readouterr().out.splitlines())
    assert list(printed) == ["row", "punctuation", "backtrack"]
    assert all(int(text.removesuffix(" ns").replace(",", "")) > 0 for text in printed.values())
