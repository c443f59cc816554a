"""G3 (002, Figure 10): memory of a join in windows over four links by their skew, in order and out of order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from experiments.frame import ROOT, Curve, Experiment, Measurement, Panel, Size, Verdict, main
from experiments.model import FORMS, Stream, memory, objects, planned
from lowwater.plan.operators import Node

SEED = 4
RATE = {Size.QUICK: 5, Size.DEFAULT: 50, Size.FULL: 10_000}
PAPER_RATE = 10_000
SKEWS = {Size.QUICK: (0, 40), Size.DEFAULT: (0, 5, 10, 20, 30, 40), Size.FULL: (0, 5, 10, 20, 30, 40)}
"""Seconds; the quick ones are those that the paper has a number for."""
WINDOW = 10


def query() -> Node:
    """Q6."""
    return planned((ROOT / "queries" / "seeds" / "002-q6.gsql").read_text(), ("A", "B", "C", "D"))


def streams(rate: int, skew: int) -> dict[str, Stream]:
    """A and B beside their answers C and D; B and D are late."""
    seconds, flows = skew + 4 * WINDOW, 200 * rate
    late = {"A": 0, "B": skew, "C": 0, "D": skew}
    return {
        name: Stream(rate, seconds, flows, SEED + at, delay, answers=name in "CD")
        for at, (name, delay) in enumerate(late.items())
    }


def point(node: Node, rate: int, skew: int, form: str) -> Measurement:
    """What the operators keep at one skew, and what the objects that hold it take."""
    given = streams(rate, skew)
    found = memory(node, given, form)
    weighed = objects(node, given, form, 5)
    return {
        "skew": skew,
        "form": form,
        "merge": found.of("Order"),
        "join": found.of("Join"),
        "tuples": found.tuples,
        "megabytes": found.megabytes,
        "objects": weighed.size / 1e6,
        "bytes in a merge": weighed.each.get("Order"),
        "bytes in the join": weighed.each.get("Join"),
        "scaled": found.megabytes * PAPER_RATE / rate,
    }


def measure(size: Size) -> list[Measurement]:
    """Every skew in both forms."""
    node = query()
    return [point(node, RATE[size], skew, form) for form in FORMS for skew in SKEWS[size]]


def share(rows: Sequence[Any], skew: int, column: str) -> float:
    """A column of OOP, of that of IOP."""
    found = {row["form"]: row[column] for row in rows if row["skew"] == skew}
    return float(found["oop"] / found["iop"])


def skews_of(rows: Sequence[Any]) -> list[int]:
    """The measured skews, the least first."""
    return sorted({row["skew"] for row in rows})


def verdicts(rows: Sequence[Any]) -> list[Verdict]:
    """Tuples, and what the structures around them take."""
    skews = skews_of(rows)
    tuples = {skew: share(rows, skew, "tuples") for skew in skews}
    weights = {skew: share(rows, skew, "objects") for skew in skews}
    worst = skews[-1]
    iop, oop = (next(r for r in rows if r["form"] == form and r["skew"] == worst) for form in FORMS)
    merge, join = iop["bytes in a merge"] or 0.0, oop["bytes in the join"]
    foretold = oop["join"] * join / (iop["merge"] * merge + iop["join"] * iop["bytes in the join"])
    return [
        Verdict(
            "IOP and OOP maintain the same number of tuples (taken as: within 10 %)",
            f"OOP has {min(tuples.values()):.2f} to {max(tuples.values()):.2f} times IOP's",
            all(0.9 <= each <= 1.1 for each in tuples.values()),
            "The sum of what each operator keeps at most. A row that goes from a merge into the join at a heartbeat "
            "is in both maxima, so IOP's sum is a little above what waits at one instant.",
        ),
        Verdict(
            "without disorder OOP's structures take at most 20 % more",
            f"{weights[0]:.2f} times IOP's",
            weights[0] <= 1.2,
        ),
        Verdict(
            "in the extreme case OOP takes about 20 % more (taken as: at most 30 %)",
            f"{weights[worst]:.2f} times at {worst} s",
            weights[worst] <= 1.3,
            f"A waiting row takes {merge:.0f} bytes of objects in a merge (an entry of a heap), and {join:.0f} in the "
            "join (entries of a hash table by key and of a heap by end, and an object with its key). These two "
            f"numbers and the tuples alone foretell {foretold:.2f} times. Bytes of values alone are "
            f"{share(rows, worst, 'megabytes'):.2f} times IOP's: all of the rest is structure, as in the paper.",
        ),
    ]


def panels(rows: Sequence[Any]) -> list[Panel]:
    """Tuples and objects by skew."""
    across = "skew of B to A and D to C (s)"

    def curves(column: str) -> list[Curve]:
        return [Curve(f.upper(), [(r["skew"], r[column]) for r in rows if r["form"] == f]) for f in FORMS]

    ratios = [
        Curve(f"OOP / IOP, {name}", [(skew, 100 * share(rows, skew, column)) for skew in skews_of(rows)])
        for name, column in (("tuples", "tuples"), ("bytes of values", "megabytes"), ("objects", "objects"))
    ]
    paper = Curve("paper: 20 % more", [(skews_of(rows)[-1], 120)], True)
    return [
        Panel("G3: join over four links", across, "memory (MB of objects, measured rate)", curves("objects")),
        Panel(
            "OOP's share",
            across,
            "OOP / IOP (%)",
            [*ratios, paper],
        ),
    ]


EXPERIMENT = Experiment(
    id="G3",
    title="a join in windows over four links by skew",
    source="002, Figure 10 (Q6)",
    claim="Both maintain the same tuples; OOP's structures cost nothing worth mention, and 20 % in the extreme case.",
    about="""
Q6 over four links; B and D arrive late by 0 to 40 s, heartbeats of a second. The default has a 200th of the
paper's rate (50 packets/s a link), since shares do not depend on it and weighing objects takes most of the time;
`--full` has all of it. A packet has a tenth of a match on the mean (200 flows for
each packet a second); the paper does not say. Structural overhead is that of the Python objects of the reference
engine: the heap of a merge, the hash tables and heaps of its OOP-Join, looked at each window. Gigascope's structures
are others, so this repeats its question, not its bytes.
""",
    seed=SEED,
    measure=measure,
    verdicts=verdicts,
    panels=panels,
    columns={
        "skew": "skew (s)",
        "form": "form",
        "merge": "tuples in merges",
        "join": "tuples in the join",
        "megabytes": "MB of values",
        "objects": "MB of objects",
        "bytes in a merge": "bytes of objects a tuple in merges",
        "bytes in the join": "in the join",
    },
)

if __name__ == "__main__":
    main(EXPERIMENT)
