"""T4 (004): the examples of the text, and what it says of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from experiments.architectures import Experiment as Form
from experiments.frame import ROOT, Experiment, Measurement, Panel, Size, Verdict, main
from experiments.model import SECOND, Stream, planned
from lowwater.catalog.schemas import RECORD
from lowwater.catalog.user_functions import load_functions
from lowwater.gsql.declarations import parse_declarations
from lowwater.plan.context import Context, Links
from lowwater.plan.properties import read_from
from lowwater.plan.queryset import plan_texts
from lowwater.plan.temporal import END_OF_TIME
from lowwater.reference.engine import ReferenceResult, evaluate

SEED = 50
RATE = {Size.QUICK: 10, Size.DEFAULT: 50, Size.FULL: 500}
SECONDS = 240
SEEDS = ROOT / "queries" / "seeds"
FUNCTIONS = ROOT / "examples" / "functions" / "duplicates.fun"


def text(name: str) -> str:
    """A query of 004."""
    return (SEEDS / f"004-{name}.gsql").read_text()


def evaluated(name: str, links: Mapping[str, pa.RecordBatch], skew: int = 0, form: str = "oop") -> ReferenceResult:
    """The rows of a query of 004."""
    context = Context(catalog=Context().catalog.extended(load_functions([FUNCTIONS], parse_declarations)))
    node = planned(text(name), list(links), context)
    packets = {link: [_whole(batch)] for link, batch in links.items()}
    starts, skews = read_from(node, 0), dict.fromkeys(links, skew)
    return evaluate(node, packets, skews, 0, END_OF_TIME, starts, SECOND, experiment=Form(form))


def _whole(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch with every column of packets, NULL where it has none."""
    for field in RECORD:
        if field.name not in batch.schema.names:
            batch = batch.append_column(field.name, pa.nulls(batch.num_rows, field.type))
    return batch


def connections(rate: int) -> pa.RecordBatch:
    """Packets of connections that last all the time, some with a sequence number that was there before."""
    made = Stream(rate, SECONDS, max(1, rate // 2), SEED).batch()
    random = np.random.default_rng(SEED)
    added = {
        "flags": np.full(made.num_rows, 16, np.int32),
        "sequence_number": random.integers(0, 4 * SECONDS, made.num_rows),
    }
    for name, values in added.items():
        made = made.append_column(name, pa.array(values))
    return made


def measure(size: Size) -> list[Measurement]:
    """A row a statement of the text: what it says there must be, and what there is."""
    batch = connections(RATE[size])
    minute = (batch["timestamp"].to_numpy() // SECOND) // 60
    flow, number = batch["srcIP_lo"].to_numpy(), batch["sequence_number"].to_numpy()

    def distinct(*columns: Any) -> int:
        return len(set(zip(*columns, strict=True)))

    total = batch.num_rows
    pairs = evaluated("aggregation", {"L": batch})
    within = evaluated("duplicates", {"L": batch})
    running = evaluated("running", {"L": batch})
    rows: list[Measurement] = [
        {"what": "aggregation: rows of a minute and pair", "text": distinct(minute, flow), "found": len(pairs.rows)},
        {"what": "aggregation: packets in them", "text": total, "found": _last(pairs)},
        {"what": "duplicates of an epoch", "text": total - distinct(minute, flow, number), "found": _last(within)},
        {"what": "duplicates of a connection", "text": total - distinct(flow, number), "found": _last(running)},
    ]
    rows += [_merge(RATE[size], form) for form in ("iop", "oop")]
    return rows + [_split(name) for name in ("hostnames", "hostcounts")]


def _last(result: ReferenceResult) -> int:
    return sum(value for row in result.rows if isinstance(value := row[-1], int))


def _merge(rate: int, form: str) -> Measurement:
    """The steps back in the timestamps of two merged links, one of which is late: none where order is kept."""
    late = Stream(rate, 60, 10, SEED + 1, delay=5).batch()
    links = {"interface1": Stream(rate, 60, 10, SEED).batch(), "interface2": late}
    links = {
        name: batch.append_column("flags", pa.array([16] * batch.num_rows, pa.int32())) for name, batch in links.items()
    }
    lasts = np.array(evaluated("merge", links, 5 * SECOND, form).lasts)
    return {"what": f"merge ({form}): steps back in time", "text": 0, "found": int((np.diff(lasts) < 0).sum())}


def _split(name: str) -> Measurement:
    """Functions that the text calls too costly for the low level, in the text of our LFTA."""
    plan = plan_texts([(name, text(name))], Links(("L",)))
    low = " ".join(str(lfta.predicate) + str(lfta.keys) + str(lfta.partials) for lfta in plan.lftas)
    high = str(plan.queries[0].high)
    costly = sum(each in low for each in ("str_extract_regex", "str_match_start"))
    kept = all(each in low for each in ("ipversion", "offset", "protocol"))
    above = all(each in high for each in ("str_extract_regex", "str_match_start"))
    return {"what": f"{name}: costly functions at the low level", "text": 0, "found": costly if kept and above else -1}


def verdicts(rows: Sequence[Any]) -> list[Verdict]:
    """One a statement of the text."""
    at = {row["what"]: row for row in rows}
    counts = [row for name, row in at.items() if name.startswith("aggregation")]
    epoch, whole = at["duplicates of an epoch"], at["duplicates of a connection"]
    merges = [at[f"merge ({form}): steps back in time"]["found"] for form in ("iop", "oop")]
    splits = [row["found"] for name, row in at.items() if "costly" in name]
    return [
        Verdict(
            "the aggregation counts the packets of each pair in epochs of 60 s",
            f"{counts[0]['found']:,} rows of {counts[1]['found']:,} packets",
            all(row["text"] == row["found"] for row in counts),
        ),
        Verdict(
            "without CLOSING_WHEN connections of several epochs are undercounted; the running aggregate counts them",
            f"{epoch['found']:,} and {whole['found']:,} of {whole['text']:,} repeated sequence numbers",
            epoch["found"] == epoch["text"] < whole["text"] == whole["found"],
        ),
        Verdict(
            "the merge preserves timestamps",
            f"{merges[0]} steps back in time (IOP)",
            merges[0] == 0,
            f"Lowwater's own union gives up order (002): {merges[1]} steps back, and a promise in its place.",
        ),
        Verdict(
            "the low level tests ipversion, offset and protocol; the regular expression goes above",
            f"{sum(splits)} costly functions in the two LFTAs",
            splits == [0, 0],
        ),
    ]


def panels(rows: Sequence[Any]) -> list[Panel]:
    """No figure: 004 has none of measurements."""
    return []


EXPERIMENT = Experiment(
    id="T4",
    title="the examples of the architecture",
    source="004, sections Aggregation Queries to Splitting",
    claim="Running aggregates count what epochs miss, a merge keeps order, costly functions go above the low level.",
    about="""
The queries of `queries/seeds/004-*` by the reference engine, over packets whose counts are known: connections that
last four minutes, with sequence numbers drawn from 960, and two links of which one is five seconds late.
""",
    printed=False,
    seed=SEED,
    measure=measure,
    verdicts=verdicts,
    panels=panels,
    columns={"what": "what", "text": "as the text says", "found": "here"},
)

if __name__ == "__main__":
    main(EXPERIMENT)
