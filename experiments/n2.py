"""N2 (002, Figure 12): memory of a join with late packets on one input by their delay, in order and out of order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from experiments.frame import ROOT, Curve, Experiment, Measurement, Panel, Size, Verdict, main
from experiments.model import FORMS, Stream, memory, planned, slope
from lowwater.plan.operators import Node

SEED = 20
RATE = {Size.QUICK: 8, Size.DEFAULT: 100, Size.FULL: 4_000}
PAPER_RATE = 4_000
DELAYS = (0, 10, 20, 40, 60, 80)


def query() -> Node:
    """Q8."""
    return planned((ROOT / "queries" / "seeds" / "002-q8.gsql").read_text(), ("M1", "M2", "C"))


def point(node: Node, rate: int, delay: int, form: str) -> Measurement:
    """What the operators keep at one delay of C."""
    seconds, flows = delay + 60, 10 * rate
    streams = {
        "M1": Stream(rate, seconds, flows, SEED),
        "M2": Stream(rate, seconds, flows, SEED + 1, answers=True),
        "C": Stream(rate / 100, seconds, flows, SEED + 2, delay, answers=True),
    }
    found = memory(node, streams, form)
    return {
        "delay": delay,
        "form": form,
        **found.measures(PAPER_RATE / rate, merge="Order", join="Join"),
    }


def measure(size: Size) -> list[Measurement]:
    """Every delay in both forms."""
    node = query()
    return [point(node, RATE[size], delay, form) for form in FORMS for delay in DELAYS]


def verdicts(rows: Sequence[Any]) -> list[Verdict]:
    """Growth of both, and the advantage of OOP."""
    lines = {f: [(r["delay"], r["megabytes"]) for r in rows if r["form"] == f] for f in FORMS}
    rises = {form: slope(points)[0] for form, points in lines.items()}
    last = {form: points[-1][1] for form, points in lines.items()}
    (join,) = (row["join"] for row in rows if (row["form"], row["delay"]) == ("oop", DELAYS[-1]))
    (merge,) = (row["merge"] for row in rows if (row["form"], row["delay"]) == ("iop", DELAYS[-1]))
    return [
        Verdict(
            "with the delay OOP's memory increases more slowly",
            f"{rises['oop'] / rises['iop']:.0%} of IOP's rise",
            0 < rises["oop"] < rises["iop"],
            f"Q8 keeps M1 for the delay in both forms. Only IOP keeps M2 too, {merge:,} tuples in merges at "
            f"{DELAYS[-1]} s; OOP's join has {join:,} tuples of both.",
        ),
        Verdict(
            "OOP needs less memory at the largest delay",
            f"{last['oop'] / last['iop']:.0%} of IOP's",
            last["oop"] < last["iop"],
        ),
    ]


def panels(rows: Sequence[Any]) -> list[Panel]:
    """Memory by delay."""
    curves = [Curve(f.upper(), [(r["delay"], r["scaled"]) for r in rows if r["form"] == f]) for f in FORMS]
    return [Panel("N2: join with late packets", "delay of C (s)", "memory (MB, at the paper's rates)", curves)]


EXPERIMENT = Experiment(
    id="N2",
    title="a join with late packets on one input",
    source="002, Figure 12 (Q8)",
    claim="With the delay of the late packets the memory of OOP increases more slowly than that of IOP.",
    about="""
Q8: M1 beside M2 and C, of which C has a hundredth of the packets and arrives late by 0 to 80 s; the figure's axis is
not in the text. The default has a 40th of the paper's rate (100 packets/s), `--full` all of it. Flows: ten for each
packet a second.
""",
    seed=SEED,
    measure=measure,
    verdicts=verdicts,
    panels=panels,
    columns={
        "delay": "delay of C (s)",
        "form": "form",
        "merge": "tuples in merges",
        "join": "tuples in the join",
        "megabytes": "MB",
        "scaled": "MB at the paper's rates",
    },
)

if __name__ == "__main__":
    main(EXPERIMENT)
