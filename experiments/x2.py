"""X2 (003, section 6): share of the time in which a union waits idly."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from typing import Any

from experiments.frame import Curve, Experiment, Measurement, Panel, Size, Verdict, main
from experiments.scenarios import RATES, SECONDS, SEED, by_rate, curves, everything, measured, of, periodic, rates_of

TIMER = 10_000_000
"""Resolution (ns) of the timers of Linux 2.4, on machines of the paper's time."""

PASSING = 0.95


def measure(size: Size) -> list[Measurement]:
    """All scenarios; B again from a timer of 10 ms."""
    timed = [measured(periodic(rate, TIMER), SECONDS[size]) for rate in rates_of(size, (100.0, 1000.0))]
    return everything(size) + timed


def expected(rate: float) -> float:
    """The share that chance gives under periodic punctuation.

    The union waits from the first tuple after a punctuation to the next punctuation.
    """
    tuples = RATES["fast"] * PASSING / rate
    return 1 - (1 - exp(-tuples)) / tuples


def verdicts(rows: Sequence[Any]) -> list[Verdict]:
    """The three shares that the paper prints."""
    a, c = of(rows, "A", "idle"), of(rows, "C", "idle")
    share = dict(by_rate(rows, "idle"))
    timed = [row["idle"] for row in rows if row["timer_ms"]]
    top = max(share)
    return [
        Verdict("99 % of the time without punctuation (taken as: at least)", f"{a:.2%}", a >= 0.99),
        Verdict(
            "15 % at 100 punctuations/s and more (taken as: half to one and a half of it at 100/s, no more above)",
            f"{share[100]:.1%} at 100/s, {share[top]:.1%} at {top:,.0f}/s",
            0.075 <= share[100] <= 0.225 and share[top] <= share[100],
            "Half to one and a half, since the paper's one number stands for rates ten times apart. "
            f"A tuple waits for the next punctuation: chance gives {expected(100):.1%} at 100/s, 15 % at 140/s, "
            f"{expected(top):.1%} at {top:,.0f}/s, whatever the machine. The paper has one number for all rates from "
            f"100/s on. Punctuation from a timer of 10 ms does so: {timed[0]:.1%} at 100/s, {timed[1]:.1%} at "
            f"{top:,.0f}/s.",
        ),
        Verdict("less than 0.1 % on demand", f"{c:.3%}", c < 0.001),
    ]


def panels(rows: Sequence[Any]) -> list[Panel]:
    """Idle-waiting by the rate of punctuation; the paper has no figure of it."""
    timed = [(row["rate"], 100 * row["idle"]) for row in rows if row["timer_ms"]]
    lines = [
        *curves(rows, "idle", "ABC", 100),
        Curve("B, from a timer of 10 ms", timed),
        Curve("paper: A, 99 %", [(0.1, 99)], True),
        Curve("paper: B, 15 % from 100/s on", [(100, 15), (1000, 15)], True),
        Curve("paper: C, below 0.1 %", [(1, 0.1)], True),
    ]
    across, up = "punctuation of B (punctuations/s)", "time spent idle-waiting (%)"
    return [Panel("X2: idle-waiting of the union", across, up, lines, log_across=True, log_up=True)]


EXPERIMENT = Experiment(
    id="X2",
    title="idle-waiting of a union",
    source="003, section 6",
    claim="A union idles 99 % of the time without punctuation, 15 % with 100/s and more, below 0.1 % on demand.",
    about="""
The streams and scenarios of X1. An operator waits idly while tuples are in its inputs and the relaxed condition
`more` (section 4.1) lets it take none. In D nothing ever waits.
""",
    seed=SEED,
    measure=measure,
    verdicts=verdicts,
    panels=panels,
    columns={
        "scenario": "scenario",
        "rate": "B's punctuation (1/s)",
        "timer_ms": "timer (ms)",
        "punctuations": "punctuations",
        "idle": "share of time idle-waiting",
    },
)

if __name__ == "__main__":
    main(EXPERIMENT)
