"""H3 (000, section 7.3; 001, slides 47 and 48): what heartbeats of a second cost in processor time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from experiments.frame import ROOT, Curve, Experiment, Measurement, Panel, Size, Verdict, main
from experiments.model import SECOND, Stream
from lowwater.catalog.schemas import RECORD
from lowwater.low import Bounds, LowSettings, Policy, needed_columns, run_link
from lowwater.plan.context import Links
from lowwater.plan.operators import Lfta
from lowwater.plan.queryset import plan_texts
from lowwater.plan.temporal import END_OF_TIME

SEED = 40
LINKS = ("main1", "main2")
RATE = 100_000
FLOWS = 20_000
SECONDS = {Size.QUICK: 3, Size.DEFAULT: 30, Size.FULL: 300}
PAIRS = {Size.QUICK: 2, Size.DEFAULT: 12, Size.FULL: 40}
PAPER_SHARE = 0.2 / 37.3
"""What the paper calls immeasurable, of the load without heartbeats."""

PERIODS = (1.0, 0.001)
"""The paper's, and one that is a thousand times as dense: what a heartbeat costs at all."""

QUERIES = {
    "flows": (ROOT / "queries" / "seeds" / "001-overhead.gsql").read_text(),
    "selection": "SELECT timestamp, srcIP, destIP, len FROM DataProtocol WHERE len > 90",
}


def packets(link: str, seconds: int, columns: Sequence[str]) -> list[pa.RecordBatch]:
    """The packets of a link, with the columns that a kernel reads."""
    made = Stream(RATE, seconds, FLOWS, SEED + LINKS.index(link)).batch()
    known = {
        "capture": pa.DictionaryArray.from_arrays(pa.nulls(made.num_rows, pa.int32()).fill_null(0), ["0" * 64]),
        "position": pa.array(range(made.num_rows)),
        "offset": pa.nulls(made.num_rows, pa.int32()).fill_null(0),
    }
    found = [
        known[name]
        if name in known
        else made[name].cast(RECORD.field(name).type)
        if name in made.schema.names
        else None
        for name in columns
    ]
    assert None not in found, columns
    whole = pa.record_batch(found, names=list(columns))
    return [whole.slice(at, 1 << 16) for at in range(0, whole.num_rows, 1 << 16)]


def spent(lfta: Lfta, links: dict[str, list[pa.RecordBatch]], settings: LowSettings) -> tuple[float, int]:
    """Processor seconds of one pass over the links, and the promises that it made."""
    began, promises = time.process_time(), 0
    for link, batches in links.items():
        bounds = Bounds({lfta.name: 0}, 0, END_OF_TIME)
        result = run_link([lfta], link, batches, bounds, settings, lambda _, __: None)
        promises += result.statistics[0].punctuations
    return time.process_time() - began, promises


def point(name: str, period: float, size: Size) -> Measurement:
    """Seconds with heartbeats and without, in pairs whose order alternates."""
    (lfta,) = plan_texts([("query.gsql", QUERIES[name])], Links(LINKS)).lftas
    links = {link: packets(link, SECONDS[size], needed_columns([lfta])) for link in LINKS}
    on = LowSettings(skew=0, period=round(period * SECOND))
    kinds = {"on": on, "off": LowSettings(skew=0, period=round(period * SECOND), policy=Policy.NONE)}
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    # Compiles, too.
    made = {kind: spent(lfta, links, settings)[1] for kind, settings in kinds.items()}
    for number in range(PAIRS[size]):
        for kind in ("on", "off") if number % 2 else ("off", "on"):
            times[kind].append(spent(lfta, links, kinds[kind])[0])
    # Medians and the least: another process can only lengthen a run.
    return {
        "query": name,
        "period": period,
        "seconds": SECONDS[size],
        "promises": made["on"],
        "without": 100 * min(times["off"]) / SECONDS[size],
        "with": 100 * min(times["on"]) / SECONDS[size],
        "ratio": min(times["on"]) / min(times["off"]),
        "median": statistics.median(a / b for a, b in zip(times["on"], times["off"], strict=True)),
    }


def measure(size: Size) -> list[Measurement]:
    """Both queries with heartbeats of a second, and one with a thousand a second."""
    return [point(name, period, size) for name in QUERIES for period in PERIODS]


def verdicts(rows: Sequence[Any]) -> list[Verdict]:
    """What a heartbeat a second adds; it is seen only where there are a thousand times as many."""
    second = {row["query"]: row for row in rows if row["period"] == 1.0}
    dense = {row["query"]: row for row in rows if row["period"] != 1.0}
    each = {
        name: (row["with"] - row["without"]) / 100 * 1e6 * row["period"] / len(LINKS) for name, row in dense.items()
    }
    # What a heartbeat a second of each link adds: points of a processor, and of the processor time without any.
    points = {name: len(LINKS) * max(value, 0) / 1e4 for name, value in each.items()}
    shares = {name: points[name] / second[name]["without"] for name in each}
    said = "; ".join(f"{name} {row['without']:.2f} and {row['with']:.2f} %" for name, row in second.items())
    cost = "; ".join(f"{name} {value:.1f} µs" for name, value in each.items())
    every = ", ".join(f"{name} {share:.3%}" for name, share in shares.items())
    return [
        Verdict(
            f"the load of the merge query rises immeasurably (taken as: by no more than there, {PAPER_SHARE:.2%})",
            f"by {shares['flows']:.3%} with a heartbeat a second",
            shares["flows"] <= PAPER_SHARE,
            "Measured with a thousand heartbeats a second, since one a second is below the noise: without and with one "
            f"a second the processor is at {said}. A heartbeat that promises nothing new is not stored: the query of "
            f"ten seconds stores one in ten. A selection of timestamps stores each. Of all work that is {every}.",
        ),
        Verdict(
            "from 37.3 to 37.5 % of a processor: 0.2 points (taken as: at most)",
            f"{max(points.values()):.4f} points at most: a heartbeat costs {cost}",
            max(points.values()) <= 0.2,
        ),
    ]


def panels(rows: Sequence[Any]) -> list[Panel]:
    """Processor by heartbeats a second."""
    curves = [
        Curve(
            name,
            [(0.1, row["without"]) for row in rows if row["query"] == name and row["period"] == 1.0]
            + [(1 / row["period"], row["with"]) for row in rows if row["query"] == name],
        )
        for name in QUERIES
    ]
    paper = [Curve("paper: without (37.3 %), one a second (37.5 %)", [(0.1, 37.3), (1, 37.5)], True)]
    across = "heartbeats/s (the leftmost point: none)"
    return [Panel("H3: what heartbeats cost", across, "processor (%), two links of 100,000/s", [*curves, *paper], True)]


EXPERIMENT = Experiment(
    id="H3",
    title="what heartbeats cost",
    source="000, section 7.3; 001, slides 47 and 48",
    claim="A heartbeat a second raises the load of the merge query from 37.3 to 37.5 % of a processor.",
    about="""
The overhead query of 001 and a selection, low level over two links of 100,000 packets/s, processor seconds of pairs
whose order alternates, the least of each kind (another process can only lengthen a run). One heartbeat a second is
below the noise of a run, so a thousand a second are measured too, and their cost is divided. The high level reads
punctuation as rows of a file: its cost on Spark is not measured, because the start of a JVM varies by more than 1 %.
The default has 12 pairs of half a minute, so that it takes about a minute.
""",
    seed=SEED,
    measure=measure,
    verdicts=verdicts,
    panels=panels,
    columns={
        "query": "query",
        "period": "heartbeat every (s)",
        "promises": "promises stored",
        "without": "processor without (%)",
        "with": "processor with (%)",
        "ratio": "ratio of the least",
        "median": "median ratio of pairs",
    },
)

if __name__ == "__main__":
    main(EXPERIMENT)
