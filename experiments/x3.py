"""X3 (003, Figure 8): the most that all buffers hold, by the rate of punctuation."""

from __future__ import annotations

from collections.abc import Sequence
from math import log10
from typing import Any

from experiments.frame import Curve, Experiment, Measurement, Panel, Size, Verdict, main
from experiments.scenarios import SEED, by_rate, curves, everything, of

RATES = (0.1, 1.0, 10.0, 30.0, 100.0, 1000.0)


def measure(size: Size) -> list[Measurement]:
    """All scenarios, B at more rates, since its least peak lies between those of Figure 7."""
    return everything(size, RATES)


def verdicts(rows: Sequence[Any]) -> list[Verdict]:
    """The paper's statements on peaks."""
    a, c = of(rows, "A", "peak"), of(rows, "C", "peak")
    line = by_rate(rows, "peak")
    peaks = [peak for _, peak in line]
    least = peaks.index(min(peaks))
    tuples = [peak for _, peak in by_rate(rows, "peak_tuples")]
    part = by_rate(rows, "peak_punctuations")[-1][1]
    return [
        Verdict("without punctuation the peak is thousands of tuples", f"{a:,.0f}", a >= 1000),
        Verdict(
            "on demand it is more than two orders of magnitude less",
            f"{log10(a / c):.1f} orders: {c:.0f} tuples and punctuations",
            a > 100 * c,
        ),
        Verdict(
            "with periodic punctuation it falls with the rate, and rises again at high rates",
            f"{peaks[0]:,.0f} at {line[0][0]}/s, {peaks[least]:,.0f} at {line[least][0]:.0f}/s, {peaks[-1]:,.0f} at "
            f"{line[-1][0]:,.0f}/s",
            0 < least < len(peaks) - 1 and peaks[0] > peaks[least] < peaks[-1],
        ),
        Verdict(
            "it rises because punctuation occupies the buffers",
            f"{part / peaks[-1]:.0%} of the peak at {line[-1][0]:,.0f}/s are punctuations",
            part > peaks[-1] / 2 and tuples[-1] <= tuples[least],
            "The paper says: while bursts of tuples are processed. Here it is between tuples too: the register of the "
            "faster link keeps the timestamp of its last tuple, and later punctuation of the other link waits for the "
            f"next one. Tuples alone go on falling: at most {tuples[least]:,.0f} at the least peak, {tuples[-1]:,.0f} "
            f"at {line[-1][0]:,.0f}/s.",
        ),
    ]


def panels(rows: Sequence[Any]) -> list[Panel]:
    """Figure 8."""
    lines = [
        *curves(rows, "peak"),
        Curve("B, tuples alone", by_rate(rows, "peak_tuples")),
        Curve("paper: A, thousands", [(0.1, 1000)], True),
        Curve("paper: C, A/100 or less", [(0.1, of(rows, "A", "peak") / 100)], True),
    ]
    across, up = "punctuation of B (punctuations/s)", "peak of all buffers (tuples and punctuations)"
    return [Panel("X3: peak total queue size", across, up, lines, log_across=True, log_up=True)]


EXPERIMENT = Experiment(
    id="X3",
    title="memory of a union with timestamps on demand",
    source="003, section 6, Figure 8",
    claim="The peak of all buffers is thousands without punctuation, and two orders of magnitude less on demand.",
    about="""
The streams and scenarios of X1. Counted are the tuples and punctuations in all buffers of the graph together, at
every instant. The peak of A is set by the longest silence of the sparser link, so it grows slowly with the length of
the streams.
""",
    seed=SEED,
    measure=measure,
    verdicts=verdicts,
    panels=panels,
    columns={
        "scenario": "scenario",
        "rate": "B's punctuation (1/s)",
        "peak": "peak",
        "peak_punctuations": "punctuations of it",
        "peak_tuples": "most tuples",
    },
)

if __name__ == "__main__":
    main(EXPERIMENT)
