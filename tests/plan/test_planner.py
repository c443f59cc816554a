"""The planner's choices: what goes low and why, prefilter, windows, state, keys, parameters and properties."""

from __future__ import annotations

import pytest

from lowwater.plan.bind.sources import numbered
from lowwater.plan.context import Context, Links
from lowwater.plan.explain import explain
from lowwater.plan.operators import Group, JoinKind
from lowwater.plan.queryset import Plan, QueryPlan, plan_texts
from lowwater.plan.shares import by_slices
from lowwater.replay.checks import require_lowered

LINKS = Links(("a", "b"), {}, {"a": {"site": "berlin"}, "b": {"site": "oslo"}})


def plan(text: str, **params: int | str) -> Plan:
    return plan_texts([("q.gsql", text)], LINKS, context=Context(params=params))


def one(text: str, **params: int | str) -> QueryPlan:
    (query,) = plan(text, **params).queries
    return query


@pytest.mark.parametrize(
    "text",
    [
        "SELECT tb, host, count(*) FROM TCP GROUP BY time/60 AS tb, str_extract_regex(TCP_data, 'Host') AS host",
        "SELECT tb, count(*) FROM TCP WHERE str_match_start[TCP_data, 'GET'] GROUP BY time/60 AS tb",
        "SELECT tb, LAST(len) FROM TCP GROUP BY time/60 AS tb",
        "SELECT tb, count(DISTINCT srcIP) FROM TCP GROUP BY time/60 AS tb",
        "SELECT tb, max(TCP_data) FROM TCP GROUP BY time/60 AS tb",
        "DEFINE { query_name 'q'; select_lfta '1'; } SELECT tb, count(*) FROM TCP GROUP BY time/60 AS tb",
    ],
)
def test_what_does_not_split_gets_a_selection(text: str) -> None:
    query = one(text)
    (lfta,) = query.lftas
    assert not lfta.aggregates and isinstance(query.high, Group)


@pytest.mark.parametrize(("reach", "slide"), [(300, 60), (7, 3), (10, 10), (2, 5), (5, 1)])
def test_window_numbers_promise_the_first_window_still_open(reach: int, slide: int) -> None:
    from lowwater.plan.temporal import CLOCK

    time = numbered(CLOCK, reach, slide)
    for value in range(4 * (reach + slide)):
        open_windows = [w for w in range(-reach, value + 1) if w * slide <= value < w * slide + reach]
        later = min(w for w in range(-reach, value + slide + 2) if w * slide + reach > value)
        assert time.promise(value) <= min([*open_windows, later])
        if reach >= slide:
            assert time.promise(value) == min(open_windows)
    for window in range(5):
        assert time.last(window) == window * slide + reach - 1
        assert time.first(window) <= window * slide


def test_the_text_of_a_query_has_all_that_its_rows_depend_on() -> None:
    def text(query: str, properties: dict[str, dict[str, str]]) -> str:
        return plan_texts([("q.gsql", query)], Links(("a", "b"), {}, properties)).queries[0].text

    asking, silent = "SELECT @site AS s FROM a.TCP", "SELECT len FROM a.TCP"
    assert text(asking, {"a": {"site": "x"}}) != text(asking, {"a": {"site": "y"}})
    assert text(silent, {"a": {"site": "x"}}) == text(silent, {"a": {"site": "y"}})
    one_field = "PROTOCOL P (TCP) { uint size get_len; } SELECT size FROM a.P"
    assert text(one_field, {}) != text(one_field.replace("get_len", "get_caplen"), {})


BETWEEN = {
    JoinKind.INNER: "JOIN", JoinKind.LEFT: "LEFT JOIN", JoinKind.RIGHT: "RIGHT JOIN", JoinKind.OUTER: "FULL JOIN",
    JoinKind.ANTI: "ANTI JOIN", JoinKind.SEMI: "SEMI JOIN", JoinKind.ASOF: "ASOF JOIN",
    JoinKind.ASOF_LEFT: "ASOF LEFT JOIN", JoinKind.ONCE: "ASOF ONCE JOIN", JoinKind.ONCE_LEFT: "ASOF ONCE LEFT JOIN",
}  # fmt: skip


@pytest.mark.parametrize("kind", list(JoinKind))
def test_every_join_is_evaluated_in_slices(kind: JoinKind) -> None:
    """Those too whose condition is a function of both sides, or a band that keeps both."""
    equality = ("A.time = B.time AND UMAX(A.len, B.len) = 6", "hash join in slices")
    join = f"{'mutual ' if kind.mutual else ''}nearest-row" if kind.nearest else "band"
    band = ("A.time <= B.time AND B.time <= A.time + 2", f"{join} join in slices")
    for window, form in (band,) if kind.nearest else (equality, band):
        query = one(f"SELECT A.time FROM a.TCP A {BETWEEN[kind]} b.TCP B ON {window}")
        assert query.high.physical().operator == form and by_slices(query.high)


def test_a_skew_for_each_value_of_a_column_makes_group_wise_punctuation() -> None:
    links = Links(("a", "b"), {}, {}, {}, {"a": "vlan_id", "b": "vlan_id"})
    text = "SELECT tb, vlan_id AS v, count(*) FROM TCP GROUP BY time/60 AS tb, vlan_id"
    query = plan_texts([("q.gsql", text)], links).queries[0]
    (lfta,) = query.lftas
    assert lfta.punctuation.groupwise == ("vlan_id",)
    assert query.high.punctuation(None).groupwise == ("v",)
    require_lowered(plan_texts([("q.gsql", text)], links))
    without = plan_texts([("q.gsql", "SELECT tb, count(*) FROM TCP GROUP BY time/60 AS tb")], links)
    assert without.queries[0].high.punctuation(None).groupwise == ()


@pytest.mark.slow
def test_a_set_whose_queries_join_one_another_twice_plans() -> None:
    text = "Query q0: SELECT tb, srcIP, count(*) AS c FROM TCP GROUP BY time/10 AS tb, srcIP"
    for at in range(1, 150):
        text += f";Query q{at}: SELECT A.tb, A.srcIP, A.c FROM q{at - 1} A JOIN q{at - 1} B "
        text += "WHERE A.tb = B.tb AND A.srcIP = B.srcIP"
    found = plan(text)
    assert len(found.queries) == 150 and len(found.lftas) == 1
    assert explain(found).count("\nquery ") == 149
