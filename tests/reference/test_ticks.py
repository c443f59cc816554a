"""When rows come out: at the first tick at which a promise, defined naively, allows it; lulls, accounting, errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict

import pytest
from hypothesis import given, settings, strategies as st

from lowwater.plan.temporal import END_OF_TIME
from lowwater.reference.engine import evaluate
from tests.breadth import examples
from tests.plan.batch_worlds import SECOND
from tests.reference.streams import UNIT, Link, plan, random_link, record, replay

ALL = ("control", "main1", "main2")


@st.composite
def short_links(draw: st.DrawFn) -> dict[str, Link]:
    """Links without long lulls, early in time, so that every tick can be enumerated."""
    links = {name: draw(random_link(12)) for name in ALL}
    for link in links.values():
        for position, kept in enumerate(link.records):
            kept["timestamp"] = kept["timestamp"] % (200 * UNIT)
            kept["id"] = position
    return links


class Ticks:
    """Promises by enumeration: what each link promises at each multiple of the period, and the closing tick."""

    def __init__(self, links: Mapping[str, Link], end: int, period: int, policy: str) -> None:
        self.links, self.end, self.period, self.policy = links, end, period, policy
        arrivals = [a for link in links.values() for a in link.arrivals()]
        self.latest = max(arrivals, default=-1)
        if end < END_OF_TIME:
            self.latest = max(self.latest, end - 1)
        closing = self.after(max(arrivals)) if arrivals else 0
        self.closing = max(closing, end) if end < END_OF_TIME else closing

    def after(self, instant: int) -> int:
        return (instant // self.period + 1) * self.period

    def promise(self, tick: int, names: tuple[str, ...]) -> int:
        made = []
        for name in names:
            link = self.links[name]
            seen = max((a for a in link.arrivals() if a < tick), default=0)
            clock = tick if self.policy == "periodic" else seen
            made.append(min(clock - link.skew, self.end) if self.policy != "none" else 0)
        return min(made)

    def first(self, promise: int, names: tuple[str, ...]) -> int:
        """The first tick at which these links promise at least this much."""
        for tick in range(0, self.latest + 1, self.period):
            if self.promise(tick, names) >= promise:
                return tick
        return self.closing


SETTINGS = {
    "links": short_links(),
    "period": st.sampled_from([5 * UNIT, 10 * UNIT, 37 * UNIT]),
    "policy": st.sampled_from(["periodic", "data-driven", "none"]),
    "end": st.sampled_from([100 * UNIT, 250 * UNIT, END_OF_TIME]),
}


GROUPS = "SELECT tb, srcIP, count(*) FROM [control, main1, main2].ETH GROUP BY (time + 3)/10 AS tb, srcIP"
MERGED = """
DEFINE { query_name 'a'; } SELECT tb, srcPort AS port, count(*) AS n FROM main1.ETH GROUP BY time/10 AS tb, srcPort;
DEFINE { query_name 'b'; } SELECT tb, destPort AS port, count(*) AS n FROM [main2, control].ETH
GROUP BY time/10 AS tb, destPort;
DEFINE { query_name 'm'; } MERGE a.tb : b.tb FROM a, b;
DEFINE { query_name 'q'; } SELECT minute, port, sum(n), count(*) FROM m GROUP BY tb/6 AS minute, port
"""
"""A union must not close an epoch early."""


@pytest.mark.parametrize("query", [GROUPS, MERGED], ids=["aggregation", "merged"])
@settings(max_examples=examples(25))
@given(**SETTINGS)
def test_a_group_closes_at_the_first_tick(query, links, period, policy, end) -> None:  # type: ignore[no-untyped-def]
    result = replay(plan(query), links, 0, end, period, policy)
    naive = Ticks(links, end, period, policy)
    assert result.ticks == [naive.first(last + 1, ALL) for last in result.lasts]
    for tick, promise in result.punctuation:
        assert promise == (end if tick == naive.closing else naive.promise(tick, ALL))


PAIRS = """SELECT A.id AS a, B.id AS b OUTER_JOIN FROM main1.ETH A, main2.ETH B
WHERE A.timestamp/500000000 - 2 <= B.timestamp/500000000 AND B.timestamp/500000000 <= A.timestamp/500000000 + 4"""


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(**SETTINGS)
def test_a_join_emits_pairs_at_once_and_the_unmatched_when_their_window_ends(  # type: ignore[no-untyped-def]
    links, period, policy, end
) -> None:
    result = replay(plan(PAIRS), links, 0, end, period, policy)
    naive = Ticks({name: links[name] for name in ("main1", "main2")}, end, period, policy)
    arrived = {name: {r["id"]: r for r in links[name].admitted()} for name in ("main1", "main2")}
    for (a, b), last, tick in zip(result.rows, result.lasts, result.ticks, strict=True):
        one, two = arrived["main1"].get(a), arrived["main2"].get(b)
        born = naive.after(max(r["arrival"] for r in (one, two) if r))
        if one and two:
            assert (tick, last) == (born, max(one["timestamp"], two["timestamp"]))
        else:
            kept, reach, other = (one, 4, "main2") if one else (two, 2, "main1")
            closed = (kept["timestamp"] // (5 * UNIT) + reach + 1) * 5 * UNIT
            assert (tick, last) == (max(born, naive.first(closed, (other,))), closed - 1)


def test_every_record_is_accounted_for() -> None:
    node = plan("SELECT time/10 AS tb FROM [a, b].UDP WHERE len/(srcPort - 1) > 20 AND destPort = 5")
    udp = {"protocol": 17, "len": 100, "destPort": 5}
    records = [
        record(0, 11 * SECOND, **udp, srcPort=2),  # read for the read range only
        record(1, 22 * SECOND, **udp, srcPort=2),  # accepted
        record(2, 23 * SECOND, **udp, srcPort=1),  # fails: division by zero
        record(3, 24 * SECOND, **udp, srcPort=None),  # no UDP header
        record(4, 24 * SECOND, **udp, srcPort=90),  # filtered
        record(5, 21 * SECOND, **udp, srcPort=2),  # late
        record(6, 23 * SECOND, **udp, srcPort=2),  # as late as the skew allows: accepted
        record(7, 29 * SECOND, **{**udp, "destPort": None}, srcPort=1),  # fails too, NULL beside
        record(8, 30 * SECOND, **udp, srcPort=2),  # of the next interval
        record(9, 28 * SECOND, **udp, srcPort=2),  # late, and arrives in the next interval
    ]
    batches = {"a": Link(0, records).batches(3), "b": []}
    result = evaluate(node, batches, {"a": SECOND, "b": 0}, 20 * SECOND, 30 * SECOND, {"q.UDP": 10 * SECOND}, SECOND)
    first, second = result.counts
    assert asdict(first) == {
        "source": "q.UDP", "link": "a", "sane": 6, "not_of_protocol": 1, "sampled_out": 0, "shed": 0, "filtered": 1,
        "failed": 2, "violating": 1,
    }  # fmt: skip
    assert (first.accepted, result.rows) == (2, [(2,), (2,)])
    assert (second.link, second.sane, second.violating) == ("b", 0, 0)


def test_a_row_equal_to_the_promise_still_finds_its_group() -> None:
    node = plan("SELECT tb, count(*) FROM a.ETH GROUP BY time/10 AS tb")
    link = Link(SECOND + 1, [record(i, stamp) for i, stamp in enumerate((8 * SECOND, 11 * SECOND, 10 * SECOND - 1))])
    result = replay(node, {"a": link}, 0, 13 * SECOND, SECOND, "periodic")
    # the tick of 11 s promises 10 s - 1 ns, which is the last instant of the first epoch
    assert (result.rows, result.ticks) == ([(0, 2)], [12 * SECOND])


@settings(max_examples=examples(12))
@given(links=short_links(), cut=st.integers(0, 200), period=SETTINGS["period"], policy=SETTINGS["policy"])
def test_rows_of_an_interval_need_no_later_records(  # type: ignore[no-untyped-def]
    links, cut, period, policy
) -> None:
    end = cut * UNIT
    early = {n: Link(k.skew, [r for r in k.records if r["timestamp"] < end + k.skew]) for n, k in links.items()}
    whole, part = (
        replay(plan(MERGED), links, 0, end, period, policy),
        replay(plan(MERGED), early, 0, end, period, "none"),
    )
    assert Counter(whole.rows) == Counter(part.rows)
