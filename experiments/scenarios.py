"""The scenarios of 003, section 6, for X1 to X3: a union of two links of which one is rarely heard of.

Between an experiment and `experiments.execution`. A has internal timestamps without punctuation, B with periodic
punctuation on the sparser link, C on demand, D has latent timestamps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from experiments.execution import DepthFirst, Execution, Punctuate, RoundRobin, Setup, Stamps, execute
from experiments.frame import Curve, Measurement, Size
from lowwater.plan.context import Links
from lowwater.plan.operators import Node
from lowwater.plan.queryset import plan_texts

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
SEED = 3
RATES = {"fast": 50.0, "slow": 0.05}
"""Tuples a second of each link, as in the paper."""

PUNCTUATION = (0.1, 1.0, 10.0, 100.0, 1000.0)
"""Punctuations a second of scenario B, the range of Figures 7 and 8."""

SECONDS = {Size.QUICK: 70, Size.DEFAULT: 600, Size.FULL: 20_000}
"""Length of the streams. The paper does not say; in 600 s the sparser link brings 30 tuples, and 70 s
have a silence in which a thousand tuples of the other one come."""

QUERY = """
DEFINE { query_name 'a'; visibility 'internal'; } SELECT timestamp, len FROM fast.ETH WHERE len >= 50;
DEFINE { query_name 'b'; visibility 'internal'; } SELECT timestamp, len FROM slow.ETH WHERE len >= 50;
DEFINE { query_name 'q'; } MERGE a.timestamp : b.timestamp FROM a, b
"""
"""Figure 4 with its selections: `len` is even over 1,000 values, of which 95 % pass."""


@dataclass(frozen=True)
class Scenario:
    """One of the paper's.

    Attributes:
        name: A, B, C or D.
        rate: of punctuation, a second; 0 where it is not periodic.
        setup: of the execution.
    """

    name: str
    rate: float
    setup: Setup


A = Scenario("A", 0.0, Setup(punctuate=Punctuate.NONE))
C = Scenario("C", 0.0, Setup(punctuate=Punctuate.ON_DEMAND))
D = Scenario("D", 0.0, Setup(Stamps.LATENT, Punctuate.NONE))


def periodic(rate: float, timer: int = 0) -> Scenario:
    """Scenario B at a rate of punctuation, a second; `timer` is the resolution (ns) of the clock that it comes from."""
    periods = {"slow": round(SECOND / rate)}
    return Scenario("B", rate, Setup(punctuate=Punctuate.PERIODIC, periods=periods, timer=timer))


def in_turn(scenario: Scenario) -> Scenario:
    """The scenario with operators in turn instead of depth first."""
    return replace(scenario, setup=replace(scenario.setup, schedule=RoundRobin))


@cache
def query() -> Node:
    """The union of Figure 4."""
    return plan_texts([("x.gsql", QUERY)], Links(tuple(RATES))).queries[-1].logical


def packets(link: str, seconds: float) -> Iterator[pa.RecordBatch]:
    """A link of Poisson arrivals."""
    chance = np.random.default_rng([SEED, *link.encode()])
    rate = RATES[link]
    gaps = chance.exponential(SECOND / rate, int(seconds * rate * 2) + 20)
    stamps = START + np.cumsum(gaps).astype(np.int64)
    stamps = stamps[stamps < START + round(seconds * SECOND)]
    columns = {"timestamp": stamps, "arrival": stamps, "len": chance.integers(0, 1000, len(stamps)).astype(np.int32)}
    yield pa.record_batch([pa.array(each) for each in columns.values()], names=list(columns))


def run(scenario: Scenario, seconds: float) -> Execution:
    """Executes a scenario."""
    return execute(query(), {link: packets(link, seconds) for link in RATES}, dict.fromkeys(RATES, 0), scenario.setup)


def measured(scenario: Scenario, seconds: float) -> Measurement:
    """What an experiment may want to know of a scenario."""
    found = run(scenario, seconds)
    (idle,) = found.idle.values()
    return {
        "scenario": scenario.name,
        "schedule": "depth-first" if scenario.setup.schedule is DepthFirst else "in turn",
        "rate": scenario.rate,
        "timer_ms": scenario.setup.timer / 1e6,
        "rows": len(found.rows),
        "punctuations": sum(found.made.values()),
        "latency_ms": found.latency / 1e6,
        "idle": idle,
        "peak": found.queued.peak,
        "peak_punctuations": found.queued.punctuation_part,
        "peak_tuples": found.queued.most_tuples,
        "busy": found.busy / max(found.nanoseconds, 1),
    }


def rates_of(size: Size, rates: Sequence[float]) -> list[float]:
    """The rates of a size: the quick one goes to 300/s, since those of 1,000/s take most of the time."""
    return [min(rate, 300.0) if size is Size.QUICK else rate for rate in rates]


def everything(size: Size, rates: Sequence[float] = PUNCTUATION) -> list[Measurement]:
    """A, B at each rate, C and D."""
    return [measured(each, SECONDS[size]) for each in (A, *map(periodic, rates_of(size, rates)), C, D)]


def of(rows: Sequence[Mapping[str, Any]], name: str, value: str) -> float:
    """What was measured of the scenario A, C or D, depth first."""
    (found,) = [row[value] for row in rows if row["scenario"] == name and row["schedule"] == "depth-first"]
    return float(found)


def by_rate(rows: Sequence[Mapping[str, Any]], value: str) -> list[tuple[float, float]]:
    """What was measured of scenario B, by its rate."""
    return [(row["rate"], row[value]) for row in rows if row["scenario"] == "B" and not row["timer_ms"]]


def level(rows: Sequence[Mapping[str, Any]], name: str, value: str, scale: float = 1.0) -> list[tuple[float, float]]:
    """A line across the figure: what was measured of a scenario without periodic punctuation, times a scale."""
    rates = [rate for rate, _ in by_rate(rows, value)]
    return [(rate, of(rows, name, value) * scale) for rate in rates]


NAMES = {"A": "A: no punctuation", "B": "B: periodic", "C": "C: on demand", "D": "D: latent timestamps"}


def curves(rows: Sequence[Mapping[str, Any]], value: str, names: str = "ABCD", scale: float = 1.0) -> list[Curve]:
    """What was measured of scenarios by the rate of B's punctuation, times a scale; all but B are level."""
    lines = {name: level(rows, name, value, scale) for name in names if name != "B"}
    lines["B"] = [(rate, found * scale) for rate, found in by_rate(rows, value)]
    return [Curve(NAMES[name], lines[name]) for name in names]
