"""X1 (003, Figure 7): latency of a union without punctuation, with periodic punctuation, and on demand."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import log10
from typing import Any

from experiments.frame import Curve, Experiment, Measurement, Panel, Size, Verdict, main
from experiments.scenarios import SECONDS, SEED, A, C, D, by_rate, curves, everything, in_turn, measured, of


def measure(size: Size) -> list[Measurement]:
    """All scenarios depth first; A, C and D with operators in turn."""
    return everything(size) + [measured(in_turn(each), SECONDS[size]) for each in (A, C, D)]


def verdicts(rows: Sequence[Any]) -> list[Verdict]:
    """The four statements of the paper on latency, and the other schedule."""
    a, c, d = (of(rows, name, "latency_ms") for name in "ACD")
    line = [latency for _, latency in by_rate(rows, "latency_ms")]
    turn = {row["scenario"]: row["latency_ms"] for row in rows if row["schedule"] == "in turn"}
    difference = c - d
    return [
        Verdict(
            "latency drops regularly with the rate of periodic punctuation",
            f"{' > '.join(map(_shown, line))} ms",
            all(before > after for before, after in pairwise(line)),
        ),
        Verdict(
            "whatever its rate, periodic punctuation does not match timestamps on demand",
            f"at best {min(line):.3g} ms, on demand {c:.3g} ms",
            min(line) > c,
        ),
        Verdict(
            "on demand, latency is several orders of magnitude less than without punctuation (taken as: three or more)",
            f"{log10(a / c):.1f} orders: {a / 1000:.1f} s to {c:.3g} ms",
            a / c >= 1000,
        ),
        Verdict(
            "on demand is about 0.1 ms from latent timestamps (taken as: no more)",
            f"{difference:.3g} ms",
            0 < difference <= 0.1,
            "What remains is the making of a timestamp, its way through the selection, and two or three Backtracks. "
            "How long they take is a cost of the model, measured on a machine that is faster than the paper's.",
        ),
        Verdict(
            "that difference is four orders of magnitude less than A (taken as: at least)",
            f"{log10(a / max(difference, 1e-9)):.1f} orders",
            a >= 1e4 * difference > 0,
            "In A a tuple waits for the next one of a link with 0.05 tuples/s, 20 s on the mean of a long stream.",
        ),
        Verdict(
            "(ours) operators in turn instead of depth first: the same order of scenarios",
            ", ".join(f"{name} {_shown(latency)} ms" for name, latency in turn.items()),
            turn["D"] <= turn["C"] < min(line) and turn["A"] >= 1000 * turn["C"],
        ),
    ]


def _shown(milliseconds: float) -> str:
    """To three digits, without an exponent."""
    return f"{milliseconds:,.0f}" if milliseconds >= 100 else f"{milliseconds:.3g}"


def panels(rows: Sequence[Any]) -> list[Panel]:
    """Figure 7 (a) and (b)."""
    across = "punctuation of B (punctuations/s)"
    lines, near = curves(rows, "latency_ms"), curves(rows, "latency_ms", "CD", 1000)
    paper = Curve("paper: C is about 100 µs above D", [(10, of(rows, "D", "latency_ms") * 1000 + 100)], True)
    return [
        Panel("X1 (a): average output latency", across, "latency (ms)", lines, log_across=True, log_up=True),
        Panel("X1 (b): C and D only", across, "latency (µs)", [*near, paper], log_across=True),
    ]


EXPERIMENT = Experiment(
    id="X1",
    title="latency of a union with timestamps on demand",
    source="003, section 6, Figure 7",
    claim="Latency on demand is orders of magnitude below that without punctuation, and 0.1 ms from the optimum.",
    about="""
Two links of 50 and 0.05 tuples a second, Poisson arrivals, a selection on each that 95 % pass, and their union, as in
the paper. A has internal timestamps and no punctuation, B periodic punctuation on the sparser link, C timestamps on
demand, D latent timestamps. The execution model runs them in virtual time, with costs that were measured once
(`python -m experiments.x_costs`), so that the figures are the same on every machine. The paper does not say how long
its streams are: 600 s by default, in which the sparser link brings about 30 tuples, 20,000 s with `--full`.

The protocol test of each link is an operator of its own here: a tuple takes three steps where the paper has two.
""",
    seed=SEED,
    measure=measure,
    verdicts=verdicts,
    panels=panels,
    columns={
        "scenario": "scenario",
        "schedule": "schedule",
        "rate": "B's punctuation (1/s)",
        "rows": "rows",
        "punctuations": "punctuations",
        "latency_ms": "latency (ms)",
        "busy": "share of time at work",
    },
)

if __name__ == "__main__":
    main(EXPERIMENT)
