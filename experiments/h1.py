"""H1 (000, Figure 4): memory of a merge whose third link is almost silent, by the interval of heartbeats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from experiments.frame import ROOT, Curve, Experiment, Measurement, Panel, Size, Verdict, main
from experiments.levels import BETWEEN, held, merged, planned_query, slices
from experiments.model import FORMS, Stream, memory, planned, slope
from lowwater.plan.operators import Node
from lowwater.reference.clock import NONE, PERIODIC

SEED = 1
RATE = {Size.QUICK: 20, Size.DEFAULT: 500, Size.FULL: 100_000}
PAPER_RATE = 100_000
SECONDS = 90
INTERVALS = (1, 5, 10, 15, 20, 25, 30)


LINKS = ("main1", "main2", "control")
QUERY = (ROOT / "queries" / "seeds" / "000-7.1.gsql").read_text()


def query() -> Node:
    """The query of 000, section 7.1."""
    return planned(QUERY, LINKS)


def streams(rate: int, seconds: int) -> dict[str, Stream]:
    """Two busy links, and one that is almost silent."""
    return {
        "main1": Stream(rate, seconds, rate, SEED),
        "main2": Stream(rate, seconds, rate, SEED + 1),
        "control": Stream(0.1, seconds, 10, SEED + 2),
    }


def point(
    node: Node, rate: int, interval: int, form: str, policy: str = PERIODIC, seconds: int = SECONDS
) -> Measurement:
    """What the operators keep at one interval of heartbeats."""
    found = memory(node, streams(rate, seconds), form, interval, policy)
    return {
        "heartbeat": interval if policy == PERIODIC else policy,
        "form": form,
        "seconds": seconds,
        **found.measures(PAPER_RATE / rate, merge="Order", groups="Group"),
    }


def measure(size: Size) -> list[Measurement]:
    """Every interval in both forms; the merge without heartbeats, over two lengths; slices of the high level."""
    node, rate = query(), RATE[size]
    rows = [point(node, rate, interval, form) for form in FORMS for interval in INTERVALS]
    rows += [point(node, rate, 1, "iop", NONE, seconds) for seconds in (SECONDS // 2, SECONDS)]
    both = planned_query(QUERY, LINKS)
    return rows + [
        {"heartbeat": interval, "seconds": SECONDS} | slices(both, streams(rate, SECONDS), interval, rate, PAPER_RATE)
        for interval in (INTERVALS[0], INTERVALS[-1])
    ]


def verdicts(rows: Sequence[Any]) -> list[Verdict]:
    """Growth, the size at 30 s, and what a heartbeat of a second leaves."""
    merge = {row["heartbeat"]: row for row in rows if row["form"] == "iop"}
    _, share = slope([(interval, merge[interval]["tuples"]) for interval in INTERVALS])
    largest, least = merge[30], merge[1]
    bytes_each = 1e6 * largest["megabytes"] / largest["tuples"]
    low, high = merged(rows, 30, 2 * PAPER_RATE * largest["megabytes"] / largest["scaled"] * SECONDS)
    none = [row["tuples"] for row in rows if row["heartbeat"] == NONE]
    return [
        Verdict(
            "state grows linearly with the interval (taken as: a line explains 99 % of it)",
            f"R² of a line is {share:.4f}",
            share > 0.99,
        ),
        Verdict(
            f"420 MB at 30 s ({BETWEEN})",
            f"{largest['scaled']:.0f} MB of packets' values at the paper's rates; {low:.0f} to {high:.0f} MB",
            low <= 420 <= high,
            "The merge is above the low level there, and the text names neither flows nor slots, which say how many "
            f"rows a packet gives. A tuple has {bytes_each:.0f} bytes of values here; 420 MB are 70 bytes for each "
            "packet of two links in 30 s, so Gigascope's tuples have headers too.",
        ),
        Verdict(
            "at 1 s heartbeats unblock the merge: little state (taken as: an order of magnitude less than at 30 s)",
            f"{largest['tuples'] / least['tuples']:.0f} times less than at 30 s",
            largest["tuples"] > 10 * least["tuples"],
        ),
        Verdict(
            "without heartbeats the state grows until memory is full (taken as: in proportion to time, within 5 %)",
            f"{none[1] / none[0]:.2f} times the state after twice the time",
            none[1] > 1.9 * none[0],
        ),
        held(rows, "the interval of heartbeats"),
    ]


def panels(rows: Sequence[Any]) -> list[Panel]:
    """Memory by interval, in the paper's axes."""
    curves = [
        Curve(
            {"iop": "merge restores order (IOP)", "oop": "union without order (OOP)"}[form],
            [(row["heartbeat"], row["scaled"]) for row in rows if row["form"] == form and row["heartbeat"] != NONE],
        )
        for form in FORMS
    ]
    paper = Curve("paper: 420 MB", [(30, 420)], True)
    return [
        Panel("H1: merge of 7.1", "interval of heartbeats (s)", "memory (MB, at the paper's rates)", [*curves, paper])
    ]


EXPERIMENT = Experiment(
    id="H1",
    title="a merge, unblocked by heartbeats",
    source="000, section 7.1, Figure 4",
    claim="The state of the merge grows linearly with the interval of heartbeats, to 420 MB at 30 s.",
    about="""
The query of 7.1 over two links and a control link with a packet every ten seconds. The default is a 200th of the
paper's rate (500 packets/s a link), since memory follows the rate; `--full` is all of it; the figure has bytes
multiplied by what the rate was divided by. Flows: as many as packets a second, drawn evenly, since the paper does not
say; they change the groups, not the merge. The model has a merge above the links, where Gigascope has one above the
low level: what waits is packets, not partial groups. Lowwater itself has no merge: its union hands rows on (OOP), and
what grows is the number of open groups.
""",
    seed=SEED,
    measure=measure,
    verdicts=verdicts,
    panels=panels,
    columns={
        "heartbeat": "heartbeats (s)",
        "form": "form",
        "seconds": "length (s)",
        "merge": "tuples in merges",
        "groups": "groups",
        "slice": "rows of the largest slice",
        "megabytes": "MB",
        "scaled": "MB at the paper's rates",
    },
)

if __name__ == "__main__":
    main(EXPERIMENT)
