"""H4 (000, section 6.1): a failed node found by the heartbeats that it does not make, and its recovery."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from experiments.frame import ROOT, Curve, Experiment, Measurement, Panel, Size, Verdict, main
from experiments.levels import stored
from experiments.model import SECOND, START, Stream
from lowwater.catalog.schemas import PUNCTUATION
from lowwater.low import Bounds, LowSettings, needed_columns, run_link
from lowwater.plan.context import Links
from lowwater.plan.operators import Lfta
from lowwater.plan.queryset import plan_texts
from lowwater.plan.temporal import END_OF_TIME

SEED = 60
SECONDS = 120
PERIODS = (1, 5, 10)
FAILURES = {Size.QUICK: 20, Size.DEFAULT: 1_000, Size.FULL: 10_000}
RATES = {"main2": 200.0, "control": 0.05}
"""Packets a second of the node that fails, and of one that has nearly nothing to say and has not failed."""

QUERIES = {
    "selection": "SELECT timestamp, srcIP, destIP, len FROM DataProtocol WHERE len > 90",
    "flows": (ROOT / "queries" / "seeds" / "000-7.1.gsql").read_text(),
}


class NodeError(Exception):
    """The machine of a node is gone."""


def packets(link: str, columns: Sequence[str]) -> pa.RecordBatch:
    """The packets of a node, with the columns that its kernel reads."""
    return stored(Stream(RATES[link], SECONDS, 50, SEED), columns)


def until(batch: pa.RecordBatch, failure: int) -> Iterator[pa.RecordBatch]:
    """The packets of a node that fails."""
    yield batch.slice(0, int(np.searchsorted(batch["arrival"].to_numpy(), failure)))
    raise NodeError


def output(lfta: Lfta, link: str, batches: Iterable[pa.RecordBatch], period: int) -> pa.Table:
    """The stream of a node."""
    found: list[pa.RecordBatch] = []
    settings = LowSettings(skew=0, period=period * SECOND)
    bounds = Bounds({lfta.name: 0}, 0, END_OF_TIME)
    run_link([lfta], link, batches, bounds, settings, lambda _, batch: found.append(batch))
    return pa.Table.from_batches(found)


def heartbeats(stream: pa.Table) -> np.ndarray:
    """The instants (ns) at which a node made a promise, those of a lull too."""
    said = stream.filter(pa.compute.equal(stream["_kind"], PUNCTUATION)).select(["_tick", "_until", "_period"])
    return np.unique(np.concatenate([_ticks(*each) for each in zip(*said.to_pydict().values(), strict=True)]))


def _ticks(first: int, last: int, step: int) -> np.ndarray:
    """The ticks of a lull from the start on: one before the first packet begins with the epoch."""
    if step:
        first += max(0, -(-(START - first) // step)) * step
    return np.arange(first, last + 1, step or last + 1 - first)


def point(name: str, period: int, size: Size) -> Measurement:
    """Seconds from failures at random instants until a heartbeat is missed, alarms of nodes that live, and recovery."""
    (lfta,) = plan_texts([("query.gsql", QUERIES[name])], Links(tuple(RATES))).lftas
    columns = needed_columns([lfta])
    streams = {link: output(lfta, link, [packets(link, columns)], period) for link in RATES}
    ticks = {link: heartbeats(stream) for link, stream in streams.items()}
    # Allowed: what the heartbeats of the living node are apart, where the first packet and the end do not shorten it.
    apart = int(np.diff(ticks["main2"]).max())
    failures = START + np.random.default_rng(SEED).integers(20 * SECOND, (SECONDS - 20) * SECOND, FAILURES[size])
    newest = ticks["main2"][np.searchsorted(ticks["main2"], failures, side="right") - 1]
    waits = (newest + apart - failures) / SECOND
    try:
        output(lfta, "main2", until(packets("main2", columns), int(failures[0])), period)
        recovered = False
    except NodeError:
        recovered = output(lfta, "main2", [packets("main2", columns)], period).equals(streams["main2"])
    gaps = np.diff(ticks["control"])
    return {
        "query": name,
        "period": period,
        "heartbeats": apart / SECOND,
        "mean": float(waits.mean()),
        "longest": float(waits.max()),
        "alarms": int((gaps > apart).sum()),
        "recovered": recovered,
    }


def measure(size: Size) -> list[Measurement]:
    """Both queries at every period."""
    return [point(name, period, size) for name in QUERIES for period in PERIODS]


def verdicts(rows: Sequence[Any]) -> list[Verdict]:
    """How soon, alarms, recovery."""
    each = {name: [row for row in rows if row["query"] == name] for name in QUERIES}
    longest = ", ".join(f"{row['longest']:.1f} s at {row['period']} s" for row in each["selection"])
    epochs = ", ".join(f"{row['longest']:.1f} s at {row['period']} s" for row in each["flows"])
    return [
        Verdict(
            "a node that makes no heartbeat for a period has failed: found within one (selection)",
            longest,
            all(0 <= row["longest"] <= row["period"] for row in each["selection"]),
            f"An aggregation by ten seconds stores the heartbeats that promise a new epoch only, so it is found within "
            f"the longer of an epoch and a period: {epochs}.",
        ),
        Verdict(
            "a quiet node has not failed: heartbeats go on without packets",
            f"{sum(row['alarms'] for row in rows)} alarms for a link with a packet in 20 s",
            not any(row["alarms"] for row in rows),
        ),
        Verdict(
            "the query is recovered on another machine",
            f"{sum(row['recovered'] for row in rows)} of {len(rows)} streams are those of a node that did not fail",
            all(row["recovered"] for row in rows),
        ),
    ]


def panels(rows: Sequence[Any]) -> list[Panel]:
    """Seconds until the failure is found."""
    curves = [
        Curve(f"{name}, {of}", [(row["period"], row[of]) for row in rows if row["query"] == name])
        for name in QUERIES
        for of in ("longest", "mean")
    ]
    bound = Curve("paper: within a heartbeat", [(period, period) for period in PERIODS], True)
    return [Panel("H4: a failed node", "period of heartbeats (s)", "failure to detection (s)", [*curves, bound])]


EXPERIMENT = Experiment(
    id="H4",
    title="a failed node",
    source="000, section 6.1",
    claim="A subquery that makes no heartbeat for some time has failed; its query is started on another machine.",
    about="""
The low level of a node, as its stream of rows and promises in virtual time, is cut at random instants, as a machine
that dies leaves it; who reads the stream declares a failure when a heartbeat is missed. A second node has a packet in
20 s and must raise no alarm. Recovery is the run of the node from the start of its packets, since a replay keeps no
state that a machine could lose. Lowwater itself stops a run at a gap in the coverage of a link and names it (T5, T6);
it has no machines to move queries between.
""",
    printed=False,
    seed=SEED,
    measure=measure,
    verdicts=verdicts,
    panels=panels,
    columns={
        "query": "query",
        "period": "period (s)",
        "heartbeats": "stored heartbeats, apart by (s)",
        "mean": "found after (s), mean",
        "longest": "longest",
        "alarms": "false alarms",
        "recovered": "same stream after recovery",
    },
)

if __name__ == "__main__":
    main(EXPERIMENT)
