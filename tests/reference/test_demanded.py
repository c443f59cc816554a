"""The engines' policy `on-demand` beside the model's: the same rows, and how many promises each makes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from experiments.execution import Punctuate, Setup, execute
from lowwater.catalog.schemas import ROW
from lowwater.low import Bounds, LowSettings, needed_columns, run_link
from lowwater.plan.context import Links
from lowwater.plan.queryset import Plan, plan_texts
from lowwater.plan.temporal import END_OF_TIME
from lowwater.reference.plan import Operators
from lowwater.replay.stages.low_tasks import Demand, Promises, StreamName, fewest_ticks
from lowwater.stream.operators import Life, Promise, Row, StreamOperator
from tests.breadth import examples
from tests.reference.streams import Link, random_links, record

SECOND = 1_000_000_000
LINKS = ("control", "main1", "main2")
SELECTED = "DEFINE{{query_name '{0}'; visibility 'internal';}} SELECT time AS t, id AS n FROM {1}.ETH;\n"
COUNTED = (
    "DEFINE{{query_name '{0}'; visibility 'internal';}} SELECT tb, count(*) AS n FROM {1}.ETH GROUP BY time/3 AS tb;\n"
)
BOTH = SELECTED.format("a", "main1") + SELECTED.format("b", "main2")
QUERIES = {
    "union": BOTH + "DEFINE{query_name 'q';} MERGE a.t : b.t FROM a, b",
    "counts of a union": BOTH + "DEFINE{query_name 'm'; visibility 'internal';} MERGE a.t : b.t FROM a, b;\n"
    "DEFINE{query_name 'q';} SELECT tb, count(*) FROM m GROUP BY t/3 AS tb",
    "join of counts": COUNTED.format("a", "main1")
    + COUNTED.format("b", "main2")
    + "DEFINE{query_name 'q';} SELECT A.tb, A.n, B.n AS other OUTER_JOIN FROM a A, b B WHERE A.tb = B.tb",
}
Stream = list[dict[str, Any]]


class Sink(StreamOperator):
    """Collects the rows of a query."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[Any] = []

    def row(self, port: int, row: Row) -> None:
        self.rows.append((row.last, row.values))


def streams(planned: Plan, links: Mapping[str, Link]) -> dict[StreamName, Stream]:
    """The streams of the low stage with the promises of every second."""
    found: dict[StreamName, Stream] = {}
    for lfta in planned.lftas:
        for link in lfta.links:
            kept: Stream = []
            batches: list[pa.RecordBatch] = [b.select(needed_columns([lfta])) for b in links[link].batches()]
            known = LowSettings(links[link].skew, SECOND, compiled=False)
            bounds = Bounds({lfta.name: 0}, 0, END_OF_TIME)
            run_link([lfta], link, batches, bounds, known, lambda _, out, kept=kept: kept.extend(out.to_pylist()))
            found[lfta.name, link] = kept
    return found


def is_row(each: Mapping[str, Any]) -> bool:
    return bool(each["_kind"] == ROW)


def thinned(planned: Plan, found: Mapping[StreamName, Stream]) -> dict[StreamName, list[tuple[int, int]]]:
    """(tick, promise) of what the policy leaves, the closing one last."""
    runs = {
        name: [(m["_tick"], m["_until"], m["_period"], m["_last"]) for m in stream if not is_row(m)]
        for name, stream in found.items()
    }
    promises = {name: Promises.of(of) for name, of in runs.items()}
    demand = Demand(planned.queries[-1].high, promises)
    for (lfta, _), stream in found.items():
        demand.add(lfta, np.array([each["_last"] for each in stream if is_row(each)], np.int64))
    left = {}
    for name, of in runs.items():
        parts = promises[name].runs_to_keep(fewest_ticks(demand.tick_spans(name)))
        ticks = [
            (tick, of[run][3] + tick - of[run][0])
            for run, (first, last) in parts.items()
            for tick in range(first, last + 1, of[run][2] or SECOND)
        ]
        closing = of[-1][1], of[-1][3] + of[-1][1] - of[-1][0]
        left[name] = sorted({*ticks, closing})
    return left


def high_rows(
    planned: Plan, found: Mapping[StreamName, Stream], left: Mapping[StreamName, list[tuple[int, int]]]
) -> list[Any]:
    """The rows of the high plan over the rows of the streams and the promises that are left."""
    operators, sink = Operators(range(END_OF_TIME), {}, Life()), Sink()
    operators.operator(planned.queries[-1].high).connect(sink, 0)
    events: list[tuple[int, int, str, Any]] = []
    for name, stream in found.items():
        fields = [f.name for lfta in planned.lftas if lfta.name == name[0] for f in lfta.fields]
        for each in stream:
            if is_row(each):
                row = Row(tuple(each[field] for field in fields), each["_last"])
                events.append((each["_tick"], 0, name[0], row))
        events += [(tick, 1, name[0], Promise(promise)) for tick, promise in left[name]]
    for _, _, lfta, message in sorted(events, key=lambda event: event[:2]):
        operators.fed[lfta].receive(0, message)
    return sink.rows


def compare(query: str, links: Mapping[str, Link]) -> tuple[int, int, int]:
    """Holds the rows of both against each other; promises of every tick, of the engines on demand, of the model."""
    planned = plan_texts([("q.gsql", QUERIES[query])], Links(LINKS))
    found = streams(planned, links)
    left = thinned(planned, found)
    ours = high_rows(planned, found, left)
    packets = {name: link.batches() for name, link in links.items()}
    skews = {name: link.skew for name, link in links.items()}
    model = execute(planned.queries[-1].logical, packets, skews, Setup(punctuate=Punctuate.ON_DEMAND))
    assert Counter(ours) == Counter(zip(model.lasts, model.rows, strict=True))
    ticks = sum(
        (each["_until"] - each["_tick"]) // (each["_period"] or SECOND) + 1
        for stream in found.values()
        for each in stream
        if not is_row(each)
    )
    return ticks, sum(len(of) - 1 for of in left.values()), sum(model.made.values())


@pytest.mark.slow
@pytest.mark.parametrize("query", QUERIES)
@settings(max_examples=examples(16))
@given(links=random_links())
def test_rows_are_those_of_the_engines_on_demand(query: str, links: dict[str, Link]) -> None:
    ticks, left, _ = compare(query, links)
    assert left <= ticks


def test_promises_of_both_beside_those_of_every_tick() -> None:
    """Ten packets a second beside one in twenty seconds, for a minute."""
    fast = Link(0, [record(at, 1000 * SECOND + at * SECOND // 10) for at in range(600)])
    slow = Link(0, [record(at, (1010 + 20 * at) * SECOND) for at in range(3)])
    links = {"main1": fast, "main2": slow, "control": Link(0)}
    ticks, engines, model = compare("union", links)
    # The engines let ten packets go at a tick of a second, and both links have to promise it: at most 120. The model
    # makes a promise of the slow link for every packet of the fast one, but for three of the same instants.
    assert (engines, model) == (109, 597)
    assert engines < ticks
