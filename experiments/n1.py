"""N1 (002, Figure 11): memory, latency and time of a count over a band join by its band, in order and out of order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from experiments.frame import ROOT, Curve, Experiment, Measurement, Panel, Size, Verdict, main
from experiments.model import FORMS, Stream, calls, memory, planned, timed
from lowwater.plan.operators import Node

SEED = 10
RATE = {Size.QUICK: 5, Size.DEFAULT: 12, Size.FULL: 4_000}
RUNS = {Size.QUICK: 1, Size.DEFAULT: 8, Size.FULL: 8}
SECONDS = 180
BANDS = {Size.QUICK: (1, 10, 30), Size.DEFAULT: (1, 5, 10, 20, 30), Size.FULL: (1, 5, 10, 20, 30)}
DENSITIES = (0.1, 1.0)
"""Answers a second that a packet has in its flow: results of the join, and with them what IOP sorts, follow it."""

Q7 = (ROOT / "queries" / "seeds" / "002-q7.gsql").read_text()


def query(band: int) -> Node:
    """Q7 with a band of n seconds."""
    return planned(Q7.replace("n uint = 1", f"n uint = {band}"), ("M1", "M2"))


def streams(rate: int, density: float, seed: int) -> dict[str, Stream]:
    """Two links in order and in step."""
    flows = round(rate / density)
    return {
        "M1": Stream(rate, SECONDS, flows, seed),
        "M2": Stream(rate, SECONDS, flows, seed + 100, answers=True),
    }


def point(rate: int, density: float, band: int, form: str, runs: int) -> Measurement:
    """Memory of one run, latency and time of some, each of other packets."""
    node = query(band)
    found = memory(node, streams(rate, density, SEED), form)
    times = [timed(node, streams(rate, density, SEED + run), form) for run in range(runs)]
    return {
        "answers": density,
        "band": band,
        "form": form,
        "merge": found.of("Order"),
        "join": found.of("Join"),
        "megabytes": found.megabytes,
        "calls": calls(node, streams(rate, density, SEED), form),
        "latency": 1000 * sum(each.latency for each in times) / runs,
        "seconds": sum(each.seconds for each in times) / runs,
    }


def measure(size: Size) -> list[Measurement]:
    """Every band in both forms, for both densities."""
    return [
        point(RATE[size], density, band, form, RUNS[size])
        for density in DENSITIES
        for form in FORMS
        for band in BANDS[size]
    ]


def ratio(rows: Sequence[Any], density: float, band: int, column: str) -> float:
    """A column of IOP, of that of OOP."""
    found = {row["form"]: row[column] for row in rows if (row["answers"], row["band"]) == (density, band)}
    return float(found["iop"] / found["oop"])


def verdicts(rows: Sequence[Any]) -> list[Verdict]:
    """Memory, latency, time."""
    found = []
    bands = sorted({row["band"] for row in rows})
    first, last = bands[0], bands[-1]
    for column, name in (("megabytes", "memory"), ("latency", "latency"), ("calls", "execution time")):
        parts, least = [], []
        for density in DENSITIES:
            ratios = [ratio(rows, density, band, column) for band in bands]
            least.append(min(ratios))
            parts.append(f"with {density:g} answers/s IOP takes {ratios[0]:.2f} to {ratios[-1]:.2f} times OOP's")
        said = f"{'; '.join(parts)} (bands of {first} and {last} s)"
        counted = ", in calls of the interpreter" if column == "calls" else ""
        cause = _closest(rows) if column == "calls" else ""
        found.append(Verdict(f"OOP needs less {name} at every band", said + counted, min(least) > 1, cause))
    kept = {
        density: [r["merge"] for r in rows if (r["form"], r["answers"]) == ("iop", density)] for density in DENSITIES
    }
    said = "; ".join(f"{each[0]:,} to {each[-1]:,} with {density:g} answers/s" for density, each in kept.items())
    found.append(
        Verdict(
            "what IOP buffers to order the output of the join increases with the band (section 5.3; taken as: at each)",
            f"tuples in merges: {said}",
            all(each == sorted(set(each)) for each in kept.values()),
            "The excess is results of the join, so it follows the answers that a packet has in the band; both forms "
            "keep the inputs of the band itself.",
        )
    )
    return found


def _closest(rows: Sequence[Any]) -> str:
    """Where calls and seconds are closest, and what IOP sorts there."""
    iop = {(row["answers"], row["band"]): row for row in rows if row["form"] == "iop"}
    at = min(iop, key=lambda each: ratio(rows, *each, "calls"))
    most = max(iop, key=lambda each: iop[each]["merge"])
    seconds = [ratio(rows, *each, "seconds") for each in iop]
    return (
        "Calls are the same in every run, on every machine. IOP's are more by those of its merges: "
        f"{ratio(rows, *at, 'calls') - 1:.0%} where these keep {iop[at]['merge']:,} tuples ({at[0]:g} answers/s, "
        f"{at[1]} s), {ratio(rows, *most, 'calls') - 1:.0%} where they keep {iop[most]['merge']:,}. Processor seconds "
        f"beside them are {min(seconds):.2f} to {max(seconds):.2f} times OOP's; other processes "
        "lengthen them by as much as the least difference."
    )


def panels(rows: Sequence[Any]) -> list[Panel]:
    """The three panels of the figure, and time in calls."""
    across = "band n (s)"

    def curves(column: str) -> list[Curve]:
        return [
            Curve(
                f"{form.upper()}, {density:g} answers/s",
                [(r["band"], r[column]) for r in rows if (r["form"], r["answers"]) == (form, density)],
            )
            for density in DENSITIES
            for form in FORMS
        ]

    return [
        Panel("N1 (a): memory", across, "memory (MB of values)", curves("megabytes")),
        Panel("N1 (b): latency", across, "promise to row (processor ms)", curves("latency")),
        Panel("N1 (c): time of the query", across, "processor seconds", curves("seconds")),
        Panel("N1 (c): work of the query", across, "calls of the interpreter", curves("calls")),
    ]


EXPERIMENT = Experiment(
    id="N1",
    title="a count over a band join by its band",
    source="002, Figure 11 (Q7)",
    claim="OOP significantly outperforms IOP, especially in memory and latency: its join need not be sorted.",
    about="""
Q7 over two links in order and in step, three minutes, bands of 1 to 30 s; the figure's axis is not in the text. The
default has a 333rd of the paper's rate (12 packets/s a link), since its 160 runs are for the mean of the times;
`--full` has all of it. How many results the join has
depends on how many packets a flow has in the band, which the text does not say of its real headers: so two densities
are measured, an answer to a packet in ten seconds and one each second. Latency is from the heartbeat that closes a
minute to its row, in processor milliseconds, as the paper defines it; time is of the query at full speed; both are
the mean of 8 runs with packets of their own. Seconds of forms so close are below the noise of a shared machine, so
the work of a query is counted too: calls of Python functions and of functions in C, once a point.
""",
    seed=SEED,
    measure=measure,
    verdicts=verdicts,
    panels=panels,
    columns={
        "answers": "answers/s of a packet",
        "band": "band (s)",
        "form": "form",
        "merge": "tuples in merges",
        "join": "tuples in the join",
        "megabytes": "MB",
        "latency": "latency (ms)",
        "calls": "calls of the interpreter",
        "seconds": "time (s)",
    },
)

if __name__ == "__main__":
    main(EXPERIMENT)
