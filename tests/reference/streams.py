"""Random links for tests of the engines: disorder, lulls and violations, and what of them is admitted (T2)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from experiments.architectures import Experiment
from lowwater.catalog.schemas import READABLE
from lowwater.catalog.values import pack_ip, words_from_ip
from lowwater.plan.context import Links
from lowwater.plan.operators import Node
from lowwater.plan.properties import read_from
from lowwater.plan.queryset import plan_texts
from lowwater.plan.temporal import END_OF_TIME
from lowwater.reference.engine import ReferenceResult, evaluate

UNIT = 100_000_000
ADDRESSES = [None, *(pack_ip(text) for text in ("10.0.0.1", "10.0.0.2", "::ffff:10.0.0.1", "fe80::1"))]


@dataclass
class Link:
    """A link: its skew (ns) and its records in canonical order, as columns of READABLE without arrival."""

    skew: int
    records: list[dict[str, Any]] = field(default_factory=list)

    def arrivals(self) -> list[int]:
        return list(accumulate((r["timestamp"] for r in self.records), max))

    def admitted(self) -> list[dict[str, Any]]:
        """The records that are no violation, with their arrival."""
        pairs = zip(self.records, self.arrivals(), strict=True)
        return [{**r, "arrival": a} for r, a in pairs if a - r["timestamp"] <= self.skew]

    def batches(self, size: int = 7) -> list[pa.RecordBatch]:
        rows = [{**r, "arrival": a} for r, a in zip(self.records, self.arrivals(), strict=True)]
        return [pa.RecordBatch.from_pylist(rows[i : i + size], READABLE) for i in range(0, len(rows), size)]


def record(position: int, timestamp: int, address: bytes | None = None, **values: int | None) -> dict[str, Any]:
    """One record; `id` numbers it unless given."""
    version, high, low = words_from_ip(address) if address else (None, None, None)
    made: dict[str, Any] = {"capture": "c", "position": position, "timestamp": timestamp, "len": 100, "caplen": 100}
    return made | {"id": position, "ipversion": version, "srcIP_hi": high, "srcIP_lo": low} | values


_GAPS = st.one_of(st.integers(0, 15), st.integers(0, 60), st.integers(400, 3000))
_PORTS = st.sampled_from([None, 1, 2, 3])


@st.composite
def random_link(draw: st.DrawFn, most: int = 24) -> Link:
    skew = draw(st.sampled_from([0, 5, 20])) * UNIT
    clock, records = draw(st.integers(10_000, 10_050)), []
    for position in range(draw(st.integers(0, most))):
        clock += draw(_GAPS)
        late = draw(st.sampled_from([0, 0, 0, 3, 5, 19, 20, 21, 60]))
        ports = {"srcPort": draw(_PORTS), "destPort": draw(_PORTS)}
        other = {"len": draw(st.integers(60, 110)), "protocol": draw(st.sampled_from([6, 17]))}
        stamp = (clock - late) * UNIT + draw(st.integers(-1, 1))
        records.append(record(position, stamp, draw(st.sampled_from(ADDRESSES)), **ports, **other))
    return Link(skew, records)


def plan(query: str) -> Node:
    """The logical plan of the last query of a text."""
    return plan_texts([("q.gsql", query)], Links(("a", "b", "control", "main1", "main2"))).queries[-1].logical


def replay(
    node: Node,
    links: Mapping[str, Link],
    start: int = 0,
    end: int = END_OF_TIME,
    period: int = 10 * UNIT,
    policy: str = "periodic",
    experiment: Experiment | None = None,
) -> ReferenceResult:
    """An interval of a plan over links."""
    packets = {name: link.batches() for name, link in links.items()}
    skews = {name: link.skew for name, link in links.items()}
    return evaluate(node, packets, skews, start, end, read_from(node, start), period, policy, experiment=experiment)


def check_grammar(result: ReferenceResult) -> None:
    """Promises rise, at most one a tick, and no later row is below one (P1)."""
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(result.punctuation))
    ticks = [tick for tick, _ in result.punctuation]
    for last, tick in zip(result.lasts, result.ticks, strict=True):
        earlier = bisect_left(ticks, tick)
        assert earlier == 0 or last >= result.punctuation[earlier - 1][1]
