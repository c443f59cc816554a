"""The planner's choices: what goes low and why, prefilter, windows, state, keys, parameters and properties."""

from __future__ import annotations

import pytest

from lowwater.catalog.expr import Case, Column, Const, Param, Type, show
from lowwater.errors import QueryError
from lowwater.plan.bind.clauses.windows import numbered
from lowwater.plan.context import Context, Links
from lowwater.plan.explain import explain
from lowwater.plan.fragments import by_slices
from lowwater.plan.operators import (
    Group,
    Join,
    JoinKind,
    LftaInput,
    Map,
)
from lowwater.plan.queryset import Plan, QueryPlan, plan_texts
from lowwater.replay.checks import require_lowered

LINKS = Links(("a", "b"), {}, {"a": {"site": "berlin"}, "b": {"site": "oslo"}})


def plan(text: str, **params: int | str) -> Plan:
    return plan_texts([("q.gsql", text)], LINKS, context=Context(params=params))


def one(text: str, **params: int | str) -> QueryPlan:
    (query,) = plan(text, **params).queries
    return query


def test_a_higher_threshold_takes_dearer_functions_low() -> None:
    text = "SELECT len FROM TCP WHERE str_match_start[TCP_data, 'GET']"
    assert isinstance(one(text).high, Map)
    assert isinstance(one("DEFINE { query_name 'q'; lfta_cost 'EXPENSIVE'; } " + text).high, LftaInput)


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


@pytest.mark.parametrize("function", ["count(*)", "sum(len)", "and_aggr(flags)", "Or_aggr(SYN)", "xor_aggr(len)"])
def test_what_merges_exactly_is_aggregated_low(function: str) -> None:
    (lfta,) = one(f"SELECT tb, {function} FROM TCP GROUP BY time/60 AS tb").lftas
    assert lfta.aggregates


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


def test_filters_move_into_private_queries_only() -> None:
    reader = "Query q: SELECT tb, c FROM p WHERE srcIP = '10.0.0.1'"
    inner = "SELECT tb, srcIP, count(*) AS c FROM TCP GROUP BY time/60 AS tb, srcIP;"
    hidden = plan("DEFINE { query_name 'p'; visibility 'internal'; } " + inner + reader)
    (lfta,) = hidden.lftas
    assert lfta.predicate is not None and show(lfta.predicate) == "srcIP = IP_VAL'10.0.0.1'"
    (lfta,) = plan("Query p: " + inner + reader).only("q").lftas
    assert lfta.predicate is None


def test_the_prefilter_has_shared_conjuncts_first_and_takes_them_out() -> None:
    found = plan(
        "Query x: SELECT len FROM a.TCP WHERE len > 60 AND srcPort = 80;"
        "Query y: SELECT len FROM a.TCP WHERE srcPort = 80 AND srcIP <> '10.0.0.1';"
        "Query z: SELECT len FROM b.TCP WHERE ttl < 3"
    )
    on_a = next(prefilter for prefilter in found.prefilters if prefilter.links == ("a",))
    assert [show(bit) for bit in on_a.bits] == ["protocol = 6", "flags >= 0", "srcPort = 80", "len > 60"]
    assert on_a.shared == (2, 2, 2, 1)
    masks = {signature.lfta: signature.mask for signature in on_a.signatures}
    assert masks == {"x": 0b1111, "y": 0b0111}
    rest = {signature.lfta: signature.rest for signature in on_a.signatures}
    assert rest["x"] is None and rest["y"] is not None and "10.0.0.1" in show(rest["y"])


def test_parameters_are_values_or_stay_open() -> None:
    text = (
        "PARAM { n uint; m uint = 7; } SELECT tb, count(*) FROM TCP WHERE len > $m AND ttl > $n GROUP BY time/60 AS tb"
    )
    predicate = one(text).lftas[0].predicate
    assert predicate is not None and show(predicate) == "len > 7 AND ttl > $n"
    with pytest.raises(QueryError, match=r"\$n has no value"):
        require_lowered(plan(text))
    require_lowered(plan(text, n=3))
    assert "$n = 3" in one(text, n=3).text and one(text, n=3).text != one(text, n=4).text


def test_properties_are_constants_or_chosen_by_the_link() -> None:
    (item,) = one("SELECT @site AS s FROM a.TCP").lftas[0].keys
    assert item.expr == Const(Type.STRING, "berlin")
    (item,) = one("SELECT @site AS s FROM TCP").lftas[0].keys
    assert isinstance(item.expr, Case) and len(item.expr.branches) == 2
    unknown = plan_texts([("q.gsql", "SELECT @site AS s FROM a.TCP")], Links())
    assert isinstance(unknown.queries[0].lftas[0].keys[0].expr, Param)


def test_the_text_of_a_query_has_all_that_its_rows_depend_on() -> None:
    def text(query: str, properties: dict[str, dict[str, str]]) -> str:
        return plan_texts([("q.gsql", query)], Links(("a", "b"), {}, properties)).queries[0].text

    asking, silent = "SELECT @site AS s FROM a.TCP", "SELECT len FROM a.TCP"
    assert text(asking, {"a": {"site": "x"}}) != text(asking, {"a": {"site": "y"}})
    assert text(silent, {"a": {"site": "x"}}) == text(silent, {"a": {"site": "y"}})
    one_field = "PROTOCOL P (TCP) { uint size get_len; } SELECT size FROM a.P"
    assert text(one_field, {}) != text(one_field.replace("get_len", "get_caplen"), {})


def test_keys_are_declared_or_derived() -> None:
    text = "SELECT tb, srcIP, count(*) AS c FROM TCP GROUP BY time/60 AS tb, srcIP"
    assert one(text).key == ("tb", "srcIP")
    assert one("DEFINE { query_name 'q'; keys 'tb'; } " + text).key == ("tb",)
    assert one("DEFINE { query_name 'q'; extra_keys 'c'; } " + text).key == ("tb", "srcIP", "c")


def test_join_output_makes_progress_where_an_item_repeats_a_side() -> None:
    query = one(
        "SELECT A.time/10 AS tb, A.srcIP, B.time/10*10 AS t FROM a.TCP A JOIN b.TCP B "
        "WHERE A.time/10 = B.time/10 AND A.srcIP = B.destIP"
    )
    assert isinstance(query.logical, Join)
    assert [field.temporal is not None for field in query.logical.fields] == [True, False, True]


@pytest.mark.parametrize("kind", list(JoinKind))
def test_every_join_is_evaluated_in_slices(kind: JoinKind) -> None:
    """Those too whose condition is a function of both sides, or a band that keeps both."""
    for window, form in (
        ("A.time = B.time AND UMAX(A.len, B.len) = 6", "hash join in slices"),
        ("A.time <= B.time AND B.time <= A.time + 2", "band join in slices"),
    ):
        query = one(f"SELECT A.time {kind.value} FROM a.TCP A, b.TCP B WHERE {window}")
        assert query.high.physical().operator == form and by_slices(query.high)


def test_branches_of_one_link_bring_the_numbers_of_its_records_where_their_order_is_seen() -> None:
    select = "SELECT tb, LAST(len) FROM a.TCP UNION {} GROUP BY time/10 AS tb CLOSING_WHEN count(*) > 5"
    assert [lfta.placed for lfta in plan(select.format("b.UDP")).lftas] == [False, False]
    found = plan(select.format("a.UDP"))
    assert [(lfta.placed, lfta.fields[-1].name, lfta.keys[-1].expr) for lfta in found.lftas] == [
        (True, "_record", Column(Type.INT, "record_number"))
    ] * 2
    require_lowered(found)
    assert not any(
        lfta.placed for lfta in plan("SELECT tb, max(len) FROM a.TCP UNION a.UDP GROUP BY time/10 AS tb").lftas
    )


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
