"""The planner's choices: what goes low and why, prefilter, windows, state, keys, parameters and properties."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowwater.catalog.expr import Call, Case, Column, Const, Param, Type, show
from lowwater.errors import LowwaterError, QueryError
from lowwater.plan.bind.sources import numbered
from lowwater.plan.context import Context, Links
from lowwater.plan.explain import explain
from lowwater.plan.operators import (
    Bucket,
    Expand,
    FilterJoin,
    Group,
    Join,
    JoinKind,
    LftaInput,
    Map,
    Running,
    Sampling,
    Source,
    Union,
    WatchJoin,
)
from lowwater.plan.properties import carried_state, cost, read_from, unsafe
from lowwater.plan.queryset import Plan, QueryPlan, plan_files, plan_texts
from lowwater.plan.shares import by_slices
from lowwater.replay.checks import require_lowered

HOUR = 3600 * 10**9
LINKS = Links(("a", "b"), {}, {"a": {"site": "berlin"}, "b": {"site": "oslo"}})


def plan(text: str, **params: int | str) -> Plan:
    return plan_texts([("q.gsql", text)], LINKS, context=Context(params=params))


def one(text: str, **params: int | str) -> QueryPlan:
    (query,) = plan(text, **params).queries
    return query


def test_the_hostnames_of_the_paper_split_as_printed() -> None:
    query = one(
        "SELECT time/60*60 AS t, destIP, dest_port, str_extract_regex(TCP_data, '[Hh][Oo][Ss][Tt]:.*') AS hostheader "
        "FROM TCP WHERE ipversion=4 and offset=0 and protocol=6 and str_match_start[TCP_data, 'GET']"
    )
    (lfta,) = query.lftas
    assert [item.name for item in lfta.keys] == ["t", "destIP", "dest_port", "TCP_data"]
    assert lfta.predicate is not None and show(lfta.predicate) == "ipversion = 4 AND offset = 0 AND protocol = 6"
    assert isinstance(query.high, Map) and query.high.predicate is not None
    assert show(query.high.predicate) == "str_match_start[TCP_data, 'GET']"


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


def test_groups_by_strings_are_aggregated_low() -> None:
    (lfta,) = one("SELECT tb, dns_query, count(*) FROM DNS GROUP BY time/60 AS tb, dns_query").lftas
    assert lfta.aggregates


def test_sliding_windows_are_made_of_panes() -> None:
    query = one("SELECT count(*) FROM a [RANGE 5 min, SLIDE 2 min, WA ts]")
    assert isinstance(query.high, Group) and isinstance(query.high.input, Bucket)
    (lfta,) = query.lftas
    assert [(key.name, show(key.expr)) for key in lfta.keys] == [("_pane", "timestamp/1000000000/60")]
    # The window that ends in the interval's first minute begins five minutes before that.
    assert read_from(query.high, 100 * HOUR)["q"] == 100 * HOUR - 240 * 10**9


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


def test_windows_of_rows_are_numbered_before_where() -> None:
    query = one("SELECT srcIP, count(*) FROM a.TCP [RANGE 10 ROWS, PARTITION BY srcIP] WHERE len > 60")
    assert isinstance(query.logical, Group) and isinstance(query.logical.input, Bucket)
    assert query.logical.input.rows and isinstance(query.logical.input.input, Source)
    assert carried_state(query.high) == ["q: row numbers count from the first interval of the chain"]


def test_state_is_found_through_chains() -> None:
    found = plan(
        "Query r: SELECT tb, srcIP, LAST(len) AS l FROM TCP GROUP BY time/60 AS tb, srcIP CLOSING_WHEN count(*) = 0;"
        "Query s: SELECT t, max(l) FROM r GROUP BY tb/10 AS t;"
        "Query f: SELECT tb, count(*) FROM TCP GROUP BY time/60 AS tb"
    )
    states = {query.name: carried_state(query.high) for query in found.queries}
    assert states["s"] == states["r"] == ["r: CLOSING_WHEN carries groups from epoch to epoch"] and states["f"] == []
    assert isinstance(found.only("r").queries[0].high, Running)
    assert read_from(found.only("s").queries[0].high, 100 * HOUR) == {"r": 0}


def test_the_sampling_operator_keeps_its_clauses() -> None:
    query = one(
        "SELECT tb, srcIP, UMAX(sum(len), ssthreshold()) FROM TCP "
        "WHERE len > 0 and ssample(len, 100) = TRUE and ttl > 1 "
        "GROUP BY time/20 AS tb, srcIP HAVING ssfinal_clean(sum(len)) = TRUE "
        "CLEANING WHEN ssdo_clean() = TRUE CLEANING BY ssclean_with(sum(len)) = TRUE"
    )
    assert isinstance(query.high, Sampling) and query.high.supergroup == ("tb",)
    (lfta,) = query.lftas
    assert lfta.predicate is not None and show(lfta.predicate) == "len > 0"
    # What follows a stateful conjunct is seen by the state, so it filters high; what is safe of it is computed low.
    assert query.high.predicate is not None and show(query.high.predicate) == "ssample(len, 100) = TRUE AND _value"
    assert "ttl > 1" in [show(key.expr) for key in lfta.keys]


def test_superaggregates_group_by_the_supergroup() -> None:
    query = one(
        "SELECT tb, srcIP, destIP, sum(len) FROM TCP GROUP BY time/20 AS tb, srcIP, destIP "
        "SUPERGROUP tb, srcIP HAVING sum(len) * 10 > sum$(len)"
    )
    assert isinstance(query.high, Sampling)
    assert query.high.supergroup == ("tb", "srcIP") and query.high.supers[0].function == "sum"


def test_cubes_expand_partial_groups() -> None:
    query = one("SELECT tb, srcIP, destIP, sum(len) FROM TCP GROUP BY time/60 AS tb, CUBE(srcIP, destIP)")
    assert isinstance(query.high, Group) and isinstance(query.high.input, Expand)
    assert query.high.input.sets == (("tb", "srcIP", "destIP"), ("tb", "srcIP"), ("tb", "destIP"), ("tb",))
    (lfta,) = query.lftas
    assert lfta.aggregates and [key.name for key in lfta.keys] == ["tb", "srcIP", "destIP"]


def test_groupings_multiply() -> None:
    query = one(
        "SELECT tb, count(*) FROM TCP GROUP BY time/60 AS tb, ROLLUP(srcIP, destIP), GROUPING_SETS((srcPort), ())"
    )
    assert isinstance(query.logical, Group) and isinstance(query.logical.input, Expand)
    assert len(query.logical.input.sets) == 6


def test_lookups_keep_their_keys() -> None:
    text = "SELECT R.time, R.srcIP FILTER_JOIN(time, 15) FROM a.TCP R, a.TCP S WHERE R.srcIP = S.destIP AND S.SYN"
    query = one(text)
    assert isinstance(query.logical, FilterJoin) and query.logical.range == 15 and query.logical.algorithm == "bloom"
    assert read_from(query.high, 100 * HOUR) == {"q.R": 100 * HOUR, "q.S": 100 * HOUR - 15 * 10**9}
    watch = (
        "DEFINE { query_name 'w'; filename 'w.csv'; refresh_interval '60'; } WATCHLIST FIELDS { IP a (key); int n; };"
    )
    query = one(
        watch + "Query q: SELECT p.time, x.n WATCHLIST_JOIN FROM a.TCP p, w x WHERE p.srcIP = x.a AND p.len > 5"
    )
    assert isinstance(query.logical, WatchJoin) and query.logical.refresh == 60
    assert [f.temporal is not None for f in query.logical.fields] == [True, False]


def test_filters_move_into_private_queries_only() -> None:
    reader = "Query q: SELECT tb, c FROM p WHERE srcIP = '10.0.0.1'"
    inner = "SELECT tb, srcIP, count(*) AS c FROM TCP GROUP BY time/60 AS tb, srcIP;"
    hidden = plan("DEFINE { query_name 'p'; visibility 'internal'; } " + inner + reader)
    (lfta,) = hidden.lftas
    assert lfta.predicate is not None and show(lfta.predicate) == "srcIP = IP_VAL'10.0.0.1'"
    (lfta,) = plan("Query p: " + inner + reader).only("q").lftas
    assert lfta.predicate is None


def test_unions_are_narrowed_for_their_one_reader() -> None:
    query = one(
        "DEFINE { query_name 'm'; visibility 'internal'; } MERGE x.time : y.time FROM a.TCP x, b.TCP y;"
        "Query q: SELECT tb, sum(len) FROM m WHERE srcPort = 80 GROUP BY time/60 AS tb"
    )
    assert isinstance(query.logical, Group) and isinstance(query.logical.input, Union)
    assert [field.name for field in query.logical.input.fields] == ["len", "time"]
    assert [sorted(key.name for key in lfta.keys) for lfta in query.lftas] == [["len", "time"]] * 2
    assert all(lfta.predicate is not None and show(lfta.predicate) == "srcPort = 80" for lfta in query.lftas)


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


def test_costs_are_those_of_gsql() -> None:
    query = one("SELECT len FROM TCP WHERE srcIP = '10.0.0.1' AND interface = 'a' AND sqrt(len) > 3.5")
    parts = [part for lfta in query.lftas if lfta.predicate for part in [lfta.predicate]]
    assert cost(parts[0]) > 20
    call = one("SELECT str_extract_regex(TCP_data, 'x') FROM TCP").high
    assert isinstance(call, Map) and isinstance(call.items[0].expr, Call)
    assert unsafe(call.items[0].expr) == "str_extract_regex is not LFTA-legal"


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


def test_an_epoch_of_an_open_parameter_is_temporal() -> None:
    query = one("PARAM { n uint; } SELECT tb, count(*) FROM TCP GROUP BY time/$n AS tb")
    time = query.logical.fields[0].temporal
    assert time is not None and time.increasing and time.components[0][-1].param == "n"


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


def test_define_values_are_strings() -> None:
    (item,) = one("DEFINE { query_name 'q'; who 'me'; } SELECT #who AS w FROM TCP").lftas[0].keys
    assert item.expr == Const(Type.STRING, "me")


def test_keys_are_declared_or_derived() -> None:
    text = "SELECT tb, srcIP, count(*) AS c FROM TCP GROUP BY time/60 AS tb, srcIP"
    assert one(text).key == ("tb", "srcIP")
    assert one("DEFINE { query_name 'q'; keys 'tb'; } " + text).key == ("tb",)
    assert one("DEFINE { query_name 'q'; extra_keys 'c'; } " + text).key == ("tb", "srcIP", "c")


def test_libraries_are_folders_of_queries(tmp_path: Path) -> None:
    (tmp_path / "qlib" / "flows").mkdir(parents=True)
    (tmp_path / "qlib" / "flows" / "base.gsql").write_text("SELECT time, len FROM TCP")
    query = tmp_path / "q.gsql"
    query.write_text("SELECT tb, sum(len) FROM flows/base GROUP BY time/60 AS tb")
    found = plan_files([query], LINKS)
    assert [each.name for each in found.queries] == ["q"] and [each.name for each in found.internal] == ["flows_base"]
    query.write_text("SELECT len FROM flows/nothing")
    with pytest.raises(QueryError, match="no query nothing in library flows"):
        plan_files([query], LINKS)


def test_a_bare_link_reads_data_protocol() -> None:
    assert one("SELECT count(*) FROM a UNION b [RANGE 1 min, WA ts]").lftas[0].protocol == "DataProtocol"
    free = plan_texts([("q.gsql", "SELECT srcIP FROM Main1")], Links())
    assert free.links == ["Main1"]
    with pytest.raises(LowwaterError, match="no query, protocol or link"):
        plan_texts([("q.gsql", "SELECT srcIP FROM DataProtcol")], Links())


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


def test_an_lfta_that_two_queries_read_has_the_numbers_if_one_asks_for_them() -> None:
    text = "Query a: SELECT tb, LAST(len) FROM a.TCP UNION a.UDP GROUP BY time/10 AS tb;\n"
    found = plan(text + "Query b: SELECT tb + 1 AS t, LAST_len FROM a;\n")
    assert [lfta.name for lfta in found.lftas] == ["a.TCP", "a.UDP"] and all(lfta.placed for lfta in found.lftas)


def test_an_order_over_branches_of_one_link_beside_windows_of_rows_has_the_numbers_too() -> None:
    inner = "DEFINE {{ query_name '{}'; visibility 'internal'; }} SELECT tb, "
    text = (
        inner.format("n")
        + "wid, count(*) AS c FROM a.TCP [RANGE 4 ROWS, SLIDE 4 ROWS] GROUP BY time/10 AS tb;\n"
        + inner.format("l")
        + "LAST(len) AS c FROM a.TCP UNION a.UDP GROUP BY time/10 AS tb;\n"
        "Query m: SELECT x.c, y.c AS d OUTER_JOIN FROM n x, l y WHERE x.tb = y.tb"
    )
    found = plan(text)
    require_lowered(found)
    placed = {lfta.name: lfta.placed for lfta in found.lftas}
    assert placed == {"n": False, "l._by_arrival.TCP": True, "l._by_arrival.UDP": True}


def test_links_of_one_protocol_are_read_together_wherever_they_stand() -> None:
    found = plan("SELECT tb, count(*) FROM a.UDP UNION b.UDP UNION a.TCP GROUP BY time/10 AS tb")
    assert [(lfta.name, lfta.links) for lfta in found.lftas] == [("q.UDP", ("a", "b")), ("q.TCP", ("a",))]
    with pytest.raises(QueryError, match="lists a link twice"):
        plan("SELECT tb, count(*) FROM a.UDP UNION a.TCP UNION a.UDP GROUP BY time/10 AS tb")


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


def test_private_queries_of_two_links_have_lftas_of_their_own() -> None:
    inner = "DEFINE {{ query_name '{0}'; visibility 'internal'; }} SELECT time, srcIP, len FROM {1}.TCP;"
    text = inner.format("x", "a") + inner.format("y", "b")
    text += "Query q: SELECT A.time FROM x A JOIN y B WHERE A.time = B.time AND A.len > 5 AND B.len > 6"
    found = plan(text)
    assert {lfta.name: lfta.links for lfta in found.lftas} == {"q.x.TCP": ("a",), "q.y.TCP": ("b",)}


@pytest.mark.slow
def test_a_set_whose_queries_join_one_another_twice_plans() -> None:
    text = "Query q0: SELECT tb, srcIP, count(*) AS c FROM TCP GROUP BY time/10 AS tb, srcIP"
    for at in range(1, 150):
        text += f";Query q{at}: SELECT A.tb, A.srcIP, A.c FROM q{at - 1} A JOIN q{at - 1} B "
        text += "WHERE A.tb = B.tb AND A.srcIP = B.srcIP"
    found = plan(text)
    assert len(found.queries) == 150 and len(found.lftas) == 1
    assert explain(found).count("\nquery ") == 149
