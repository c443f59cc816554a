"""N3 (002, Figure 13): memory of a sliding count over three links by the delay of one, in order and out of order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from experiments.frame import ROOT, Curve, Experiment, Measurement, Panel, Size, Verdict, main
from experiments.levels import held, planned_query, slices
from experiments.model import FORMS, Stream, memory, planned, slope
from lowwater.plan.operators import Node

SEED = 30
RATE = {Size.QUICK: 2, Size.DEFAULT: 20, Size.FULL: 4_000}
PAPER_RATE = 4_000
DELAYS = {Size.QUICK: (0, 120, 240), Size.DEFAULT: (0, 60, 120, 240), Size.FULL: (0, 30, 60, 120, 180, 240)}


LINKS = ("M1", "M2", "C")
QUERY = (ROOT / "queries" / "seeds" / "002-q9.gsql").read_text()


def query() -> Node:
    """Q9."""
    return planned(QUERY, LINKS)


def streams(rate: int, delay: int, seconds: int) -> dict[str, Stream]:
    """Two links in order, and a late one."""
    return {
        "M1": Stream(rate, seconds, rate, SEED),
        "M2": Stream(rate, seconds, rate, SEED + 1),
        "C": Stream(rate / 100, seconds, rate, SEED + 2, delay),
    }


def point(node: Node, rate: int, delay: int, form: str) -> Measurement:
    """What the operators keep at one delay of C."""
    found = memory(node, streams(rate, delay, delay + 420), form)
    packets = sum(each.bytes for each in found.operators if each.operator.split("/")[1] in ("Order", "BufferedWindows"))
    scaled = 1e6 * found.megabytes + packets * (PAPER_RATE / rate - 1)
    return {
        "delay": delay,
        "form": form,
        "merge": found.of("Order"),
        "windows": found.of("BufferedWindows"),
        "groups": found.of("Group"),
        "megabytes": found.megabytes,
        "scaled": scaled / 1e6,
    }


def measure(size: Size) -> list[Measurement]:
    """Every delay in both forms; slices of the high level, whose rows are panes and do not follow the rate."""
    node, rate, delays = query(), RATE[size], DELAYS[size]
    rows = [point(node, rate, delay, form) for form in FORMS for delay in delays]
    both, longest = planned_query(QUERY, LINKS), delays[-1]
    return rows + [
        {"delay": delay} | slices(both, streams(rate, delay, longest + 420), 1.0, 1, 1)
        for delay in (delays[0], longest)
    ]


def verdicts(rows: Sequence[Any]) -> list[Verdict]:
    """Growth of both."""
    iop, oop = ([row for row in rows if row["form"] == form] for form in FORMS)
    rise, _ = slope([(row["delay"], row["scaled"]) for row in iop])
    groups = [row["groups"] for row in oop]
    grown = iop[-1]["scaled"] / iop[0]["scaled"]
    more = {each[0]["form"]: each[-1]["scaled"] - each[0]["scaled"] for each in (iop, oop)}
    return [
        Verdict(
            "IOP's memory grows significantly with the delay of C (taken as: by ten times what OOP's grows)",
            f"{grown:.2f} times from 0 to {iop[-1]['delay']} s, {1000 * rise:.0f} kB a second of delay",
            more["iop"] > 10 * max(more["oop"], 0),
            f"The buffered windows keep {iop[0]['windows']:,} packets, five minutes of them, whatever the delay.",
        ),
        Verdict(
            "OOP's memory is relatively stable (taken as: it grows by less than a tenth of what IOP's grows)",
            f"{groups[0]} to {groups[-1]} windows at once, {1e6 * oop[-1]['scaled']:.0f} bytes at the end",
            0 < more["oop"] < more["iop"] / 10,
        ),
        held(rows, "the delay of C"),
    ]


def panels(rows: Sequence[Any]) -> list[Panel]:
    """Memory by delay, and OOP's alone, which is too small beside IOP's."""
    across = "delay of C (s)"
    curves = [Curve(f.upper(), [(r["delay"], r["scaled"]) for r in rows if r["form"] == f]) for f in FORMS]
    windows = Curve("OOP", [(r["delay"], r["groups"]) for r in rows if r["form"] == "oop"])
    return [
        Panel("N3: sliding count", across, "memory (MB, at the paper's rates)", curves),
        Panel("OOP alone", across, "windows open at once", [windows]),
    ]


EXPERIMENT = Experiment(
    id="N3",
    title="a sliding count over three links",
    source="002, Figure 13 (Q9)",
    claim="IOP's memory grows significantly as the delay of C increases, OOP's is relatively stable.",
    about="""
Q9: a count of five minutes by one over M1, M2 and C, of which C has a hundredth of the packets and arrives late by 0
to 240 s; the figure's axis is not in the text. The default has a 200th of the paper's rate (20 packets/s), `--full`
all of it; OOP's bytes are those of windows, not of packets, and are not multiplied. The default has four delays and
`--full` six: the model looks at five minutes of packets every second, which takes the time.
""",
    seed=SEED,
    measure=measure,
    verdicts=verdicts,
    panels=panels,
    columns={
        "delay": "delay of C (s)",
        "form": "form",
        "merge": "tuples in merges",
        "windows": "packets in buffered windows",
        "groups": "windows of OOP, groups",
        "slice": "rows of the largest slice",
        "megabytes": "MB",
        "scaled": "MB at the paper's rates",
    },
)

if __name__ == "__main__":
    main(EXPERIMENT)
