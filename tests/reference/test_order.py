"""In-order operators over random worlds: rows in order at every output, and equal to those of the others."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from experiments.architectures import Experiment
from lowwater.plan.operators import Node
from lowwater.plan.queryset import plan_texts
from tests.breadth import examples
from tests.plan.batch_join_questions import CHAINS
from tests.plan.batch_plans import plans_of
from tests.plan.batch_pools import CONTEXT, KNOWN
from tests.plan.batch_questions import FAMILIES, Question
from tests.plan.batch_rows import World
from tests.plan.batch_worlds import BASE, SECOND, world
from tests.reference.feeds import arriving, owned_rows, pieces, whole, write_watch_list
from tests.reference.outputs import check_order, outputs
from tests.reference.streams import check_grammar
from tests.reference.test_questions import CUTS, PERIODS, POLICIES

LINKS = ("control", "main1", "main2")
SKEWS = st.tuples(*[st.sampled_from((0, SECOND // 2, 2 * SECOND, 9 * SECOND))] * len(LINKS)).map(
    lambda found: dict(zip(LINKS, found, strict=True))
)
SEEDS = st.integers(0, 1 << 20)
IOP = Experiment("iop")


@pytest.fixture(autouse=True)
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch list of the queries in the working folder."""
    write_watch_list(tmp_path)
    monkeypatch.chdir(tmp_path)


def check(node: Node, made: World, cuts: list[int], period: int, policy: str, skews: dict[str, int]) -> int:
    """Holds the in-order form and slow flushes, whole and in intervals, against the other; how many rows there are."""
    free = whole(node, made, period, policy, Experiment("oop"), skews)
    with outputs() as found:
        ordered = whole(node, made, period, policy, IOP, skews)
    check_grammar(ordered)
    check_order(found)
    assert ordered.lasts == sorted(ordered.lasts)
    expected, ours = owned_rows(free), owned_rows(ordered)
    missing, extra = list((expected - ours).items())[:4], list((ours - expected).items())[:4]
    assert ours == expected, f"missing {missing}, too many {extra}"
    pairs = [sorted(zip(map(repr, each.rows), each.lasts, each.ticks, strict=True)) for each in (free, ordered)]
    assert sum(later[2] - early[2] for early, later in zip(*pairs, strict=True)) >= 0
    assert owned_rows(*pieces(node, made, cuts, period, policy, IOP, skews)) == expected
    slow = Experiment(("oop", "iop")[len(cuts) % 2], 1 + len(cuts) // 2)
    flushed = whole(node, made, period, policy, slow, skews)
    check_grammar(flushed)
    assert owned_rows(flushed) == owned_rows(*pieces(node, made, cuts, period, policy, slow, skews)) == expected
    return ours.total()


KINDS = ("INNER_JOIN", "LEFT_OUTER_JOIN", "RIGHT_OUTER_JOIN", "OUTER_JOIN")
MEETINGS = {
    "equality": "A.time = B.time",
    "scaled": f"(A.time - {BASE // SECOND}) * 2 = B.time - {BASE // SECOND}",
    "band": "A.time - 9 <= B.time AND B.time <= A.time + 9",
    "ahead": "A.time + 2 <= B.time AND B.time <= A.time + 4",
}
SLIDING = "[RANGE 7 s, SLIDE 2 s, WA time]"
CLEANED = "CLEANING_WHEN ssdo_clean() = TRUE CLEANING_BY ssclean_with(sum(len)) = TRUE"
JOINED = (
    "DEFINE{query_name 'j'; visibility 'internal';} SELECT A.time AS t, A.srcIP AS k, B.len AS v LEFT_OUTER_JOIN "
    "FROM main1.ETH A, main2.ETH B WHERE A.time - 2 <= B.time AND B.time <= A.time + 5 AND A.srcIP = B.srcIP;\n"
    "DEFINE{query_name 'q';} "
)
KNOWN_HOSTS = (
    "DEFINE{query_name 'f'; visibility 'internal';} SELECT r.time AS t, r.srcIP AS k, r.len AS v FILTER_JOIN(time, 9) "
    "FROM [pair].ETH r, [pair].TCP s WHERE r.srcIP = s.destIP;\n"
    "DEFINE{query_name 'q';} "
)
FLOWS = (
    "DEFINE{query_name 'g'; visibility 'internal';} SELECT tb AS t, srcIP AS k, sum(len) AS v FROM [pair].ETH "
    "GROUP BY time/3 AS tb, srcIP;\n"
    "DEFINE{query_name 'q';} "
)
SHAPES = {
    **{
        f"{kind}_{name}": f"SELECT A.time AS ta, B.time AS tb, A.len AS a, B.len AS b {kind} "
        f"FROM main1.ETH A, [main2, control].ETH B WHERE {meeting}"
        for kind in KINDS
        for name, meeting in MEETINGS.items()
    },
    "a join of a join": f"{JOINED}SELECT A.t, A.v, B.len OUTER_JOIN FROM j A, control.ETH B "
    "WHERE A.t - 1 <= B.time AND B.time <= A.t + 3 AND A.k = B.srcIP",
    "a join of joins": f"{JOINED}SELECT A.t AS ta, B.t AS tb, A.v INNER_JOIN FROM j A, j B "
    "WHERE A.t - 1 <= B.t AND B.t <= A.t + 3 AND A.k = B.k",
    "a union of a join": "DEFINE{query_name 'p'; visibility 'internal';} "
    "SELECT time AS t, srcIP AS k, len AS v FROM control.ETH;\n"
    f"{JOINED}MERGE x.t : y.t FROM j x, p y",
    "groups of a join": f"{JOINED}SELECT tb, k, count(*), sum(v) FROM j GROUP BY t/4 AS tb, k",
    "windows of a join": f"{JOINED}SELECT wid, k, count(*), sum(v), FIRST(v) FROM j [RANGE 7, SLIDE 2, WA t] "
    "GROUP BY k",
    "a filter join": "SELECT r.time, r.srcIP, r.len FILTER_JOIN(timestamp_ms, 9000) FROM [pair].ETH r, [pair].ETH s "
    "WHERE r.srcIP = s.destIP",
    "a join of filter joins": f"{KNOWN_HOSTS}SELECT A.t, A.k, A.v, B.len OUTER_JOIN FROM f A, control.ETH B "
    "WHERE A.t - 3 <= B.time AND B.time <= A.t + 3 AND A.k = B.srcIP",
    "windows of a filter join": f"{KNOWN_HOSTS}SELECT wid, k, count(*), LAST(v) FROM f [RANGE 7, SLIDE 2, WA t] "
    "GROUP BY k",
    "windows of groups": f"{FLOWS}SELECT wid, k, count(*), sum(v) FROM g [RANGE 7, SLIDE 2, WA t] GROUP BY k",
    "windows with gaps": "SELECT wid, srcIP, count(*), sum(len) FROM [pair].ETH [RANGE 2 s, SLIDE 5 s, WA time] "
    "GROUP BY srcIP",
    "windows and epochs": f"SELECT wid, tb, count(*), FIRST(len) FROM [pair].ETH {SLIDING} GROUP BY time/3 AS tb",
    "windows and instants": f"SELECT wid, tb, count(*) FROM main1.ETH {SLIDING} GROUP BY timestamp_ms/300 AS tb",
    "sets of windows": f"SELECT wid, srcIP, destPort, count(*), sum(len) FROM [pair].TCP {SLIDING} WHERE len > 40 "
    "GROUP BY CUBE(srcIP, destPort)",
    "sets of windows and epochs": f"SELECT wid, tb, srcIP, count(*), max(len) FROM [pair].TCP {SLIDING} "
    "GROUP BY time/3 AS tb, ROLLUP(srcIP, len % 3 AS n)",
    "windows of sets": f"SELECT wid, srcIP, destPort, count(*) FROM main1.TCP {SLIDING} "
    "GROUP BY GROUPING_SETS((srcIP, destPort), (destPort), ())",
    "closing of windows": f"SELECT wid, srcIP, count(*), running_sum(len), LAST(destPort) FROM [pair].ETH {SLIDING} "
    "GROUP BY srcIP CLOSING_WHEN count(*) = 0",
    "closing of windows and epochs": f"SELECT wid, tb, srcIP, count(*), running_sum(len) FROM [pair].ETH {SLIDING} "
    "GROUP BY time/3 AS tb, srcIP CLOSING_WHEN count(*) = 0 OR srcIP IS NULL",
    "sampling of windows": f"SELECT wid, srcIP, sum(len), count$(*) FROM [pair].ETH {SLIDING} "
    "WHERE ssample(len, 5) = TRUE GROUP BY srcIP SUPERGROUP srcIP "
    f"HAVING ssfinal_clean(sum(len)) = TRUE {CLEANED}",
    "closing": "SELECT tb, srcIP, count(*), running_sum(len) FROM [pair].ETH GROUP BY time/3 AS tb, srcIP "
    "CLOSING_WHEN count(*) = 0",
    "two epochs": "SELECT tb, tc, count(*) FROM [pair].ETH GROUP BY time/3 AS tb, timestamp_ms/700 AS tc",
}


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.hypothesis
def test_rows_are_in_order_and_those_of_the_other_form(shape: str) -> None:
    node = plan_texts([("q.gsql", SHAPES[shape])], KNOWN, 1, CONTEXT).queries[-1].logical
    seen: list[int] = []

    @settings(max_examples=examples(6))
    @given(SEEDS, CUTS, PERIODS, POLICIES, SKEWS)
    def run(seed: int, cuts: list[int], period: int, policy: str, skews: dict[str, int]) -> None:
        made = arriving(world(seed, LINKS, catalog=CONTEXT.catalog))
        seen.append(check(node, made, cuts, period, policy, skews))

    run()
    assert any(seen)


EVERY = {**FAMILIES, **CHAINS}


@pytest.mark.slow
@pytest.mark.parametrize("family", [family for family in EVERY if family != "row_windows"])
@pytest.mark.hypothesis
def test_rows_of_random_queries_are_in_order_and_those_of_the_other_form(family: str) -> None:
    seen: list[int] = []

    @settings(max_examples=examples(10))
    @given(EVERY[family](), SEEDS, CUTS, PERIODS, POLICIES, SKEWS)
    def run(question: Question, seed: int, cuts: list[int], period: int, policy: str, skews: dict[str, int]) -> None:
        for plans in plans_of(question.text, KNOWN, CONTEXT):
            made = arriving(world(seed, plans.links, catalog=CONTEXT.catalog))
            seen.append(check(plans.logical, made, cuts, period, policy, skews))

    run()
    assert any(seen)
