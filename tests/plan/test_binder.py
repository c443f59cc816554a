"""The binder: what statements mean, and the errors of those that mean nothing."""

from __future__ import annotations

import pytest

from lowwater.catalog.expr import Type, show
from lowwater.errors import QueryError, QueryErrors
from lowwater.plan.context import Links
from lowwater.plan.operators import Group, Join, LftaInput, Source, Union
from lowwater.plan.queryset import Plan, plan_texts

LINKS = Links(("control", "main1", "main2"), {"backbone": ("main1", "main2")})


def plan(text: str) -> Plan:
    return plan_texts([("queries/q.gsql", text)], LINKS)


def links_of(text: str) -> tuple[str, ...]:
    (lfta,) = plan(text).lftas
    return lfta.links


@pytest.mark.parametrize(
    ("source", "links"),
    [
        ("main1.TCP", ("main1",)),
        ("[main2, control].TCP", ("control", "main2")),
        ("[backbone].TCP", ("main1", "main2")),
        ("[backbone, control].TCP", ("control", "main1", "main2")),
        ("TCP", ("control", "main1", "main2")),
    ],
)
def test_sources_name_links_lists_sets_or_all(source: str, links: tuple[str, ...]) -> None:
    assert links_of(f"SELECT srcIP FROM {source}") == links


def test_output_names_follow_gsql() -> None:
    (query,) = plan(
        "SELECT tb, count(*), sum(len), max(len + 1), sum(len)/count(*), 7, tb AS x FROM TCP GROUP BY time/10 AS tb"
    ).queries
    assert [f.name for f in query.high.fields] == ["tb", "Cnt", "SUM_len", "MAX_SE", "Field4", "Literal", "x"]


def test_clashing_names_are_numbered_whatever_their_case() -> None:
    (query,) = plan("SELECT len, caplen AS Len, len AS LEN FROM ETH").queries
    assert [f.name for f in query.high.fields] == ["len", "Len1", "LEN2"]


def test_avg_splits_into_a_sum_and_a_count_of_what_is_not_null() -> None:
    (query,) = plan("SELECT tb, avg(srcPort) FROM main1.ETH GROUP BY time/10 AS tb").queries
    (lfta,) = query.lftas
    assert [(p.function, show(p.argument) if p.argument else "") for p in lfta.partials] == [
        ("sum", "srcPort"),
        ("count", "srcPort"),
    ]
    assert isinstance(query.high, Group)
    assert show(query.high.items[1].expr) == "agg0_sum/agg0_count"
    assert query.high.fields[1].type is Type.FLOAT


def test_a_select_item_that_repeats_a_group_definition_is_that_variable() -> None:
    (query,) = plan("SELECT time/10, srcIP, count(*) FROM TCP GROUP BY time/10 AS tb, srcIP").queries
    assert isinstance(query.high, Group)
    assert show(query.high.items[0].expr) == "tb"
    assert query.high.fields[0].temporal is not None


def test_conjuncts_of_a_join_go_where_they_belong() -> None:
    (query,) = plan(
        "SELECT A.time, B.len LEFT_OUTER_JOIN FROM main1.TCP A, main2.TCP B "
        "WHERE A.time = B.time AND A.SYN AND B.len > 100 AND A.srcIP = B.destIP AND A.len < B.len"
    ).queries
    join = query.logical
    assert isinstance(join, Join)
    assert join.window.equality and show(join.window.left) == "A.time"
    assert [(show(a), show(b)) for a, b in join.equalities] == [("A.srcIP", "B.destIP")]
    assert join.residual is not None and show(join.residual) == "A.len < B.len"
    predicates = [lfta.predicate for lfta in query.lftas]
    assert [show(p) if p else None for p in predicates] == ["flags & 2 <> 0", "len > 100"]


@pytest.mark.parametrize(
    ("where", "below", "above"),
    [
        ("A.time - 3 <= B.time AND B.time <= A.time + 2", 3, 2),
        ("B.time >= A.time AND A.time > B.time - 4", 0, 3),
        ("A.time + 1 < B.time + 1 AND A.time + 9 > B.time", -1, 8),
        ("A.time <= B.time + 5 AND A.time >= B.time - 5 AND A.time <= B.time + 2", 2, 5),
    ],
)
def test_bands_are_read_from_any_writing_of_their_bounds(where: str, below: int, above: int) -> None:
    (query,) = plan(f"SELECT A.time INNER_JOIN FROM main1.TCP A, main2.TCP B WHERE {where}").queries
    assert isinstance(query.logical, Join)
    assert (query.logical.window.below, query.logical.window.above) == (below, above)


def test_merge_keeps_only_the_merge_column_temporal() -> None:
    text = (
        "DEFINE{query_name 'm';} MERGE a.time : b.time FROM main1.TCP a, main2.TCP b;"
        "DEFINE{query_name 'q';} SELECT tb, count(*) FROM m GROUP BY time/60 AS tb"
    )
    merged = plan(text).only("m").queries[0].logical
    assert isinstance(merged, Union)
    assert [f.name for f in merged.fields if f.temporal] == ["time"]


def test_queries_over_queries_are_inlined_and_share_their_lftas() -> None:
    text = (
        "DEFINE{query_name 'a';} SELECT tb, srcIP, count(*) AS c FROM main1.TCP GROUP BY time/10 AS tb, srcIP;"
        "DEFINE{query_name 'b';} SELECT t, max(c) AS m FROM a GROUP BY tb/6 AS t"
    )
    found = plan(text)
    assert [lfta.name for lfta in found.lftas] == ["a"]
    top = found.only("b").queries[0].high
    assert isinstance(top, Group) and isinstance(top.input, Group) and isinstance(top.input.input, LftaInput)
    assert "query_name 'a'" in found.only("b").queries[0].text


def test_links_named_in_any_order_give_one_plan() -> None:
    assert plan("SELECT srcIP FROM [main2, main1].TCP").lftas == plan("SELECT srcIP FROM [main1, main2].TCP").lftas


def test_logical_plans_read_stored_columns_only() -> None:
    node = plan("SELECT tb, count(*) FROM TCP WHERE SYN GROUP BY timestamp_ms/10 AS tb").queries[0].logical
    assert isinstance(node, Group) and isinstance(node.input, Source) and node.predicate is not None
    assert show(node.predicate) == "flags & 2 <> 0"


ERRORS = {
    "SELECT tb, count(*) FROM TCP\nGROUP BY time/10 AS tb, scrIP": (2, "unknown column scrIP", "srcIP"),
    "SELECT srcIP FROM man1.TCP": (1, "no link is called man1", "main1"),
    "SELECT srcIP FROM [backbon].TCP": (1, "no link or set is called backbon", "backbone"),
    "SELECT srcIP FROM main1.TPC": (1, "no protocol is called TPC", "TCP"),
    "SELECT srcIP FROM flow1": (1, "no query, protocol or link is called flow1", ""),
    "SELECT srcIP, count(*) FROM TCP GROUP BY srcIP": (1, "no group-by variable is temporal", "time/60 AS tb"),
    "SELECT tb, len FROM TCP GROUP BY time/10 AS tb": (1, "len is no group-by variable", "add len to GROUP BY"),
    "SELECT srcIP FROM TCP WHERE len": (1, "WHERE needs a condition", ""),
    "SELECT srcIP + 1 FROM TCP": (1, "+ does not apply to types ip and int", ""),
    "SELECT srcIP FROM TCP WHERE srcIP = 'ten'": (1, "'ten' is no address", ""),
    "SELECT srcIP FROM TCP WHERE count(*) > 1": (1, "an aggregate cannot stand in", ""),
    "SELECT tb, sum(srcIP) FROM TCP GROUP BY time AS tb": (1, "sum takes (int) or (float) or (bool), not (ip)", ""),
    "SELECT time INNER_JOIN FROM main1.TCP A, main2.TCP B WHERE A.time = B.time": (1, "ambiguous", "A.time or B.time"),
    "SELECT A.time INNER_JOIN FROM main1.TCP A, main2.TCP B WHERE A.len = B.len": (1, "would never close", "temporal"),
    "SELECT A.time INNER_JOIN FROM main1.TCP A, main2.TCP A WHERE A.time = A.time": (1, "both sides are called A", ""),
    "SELECT len AS _len FROM TCP": (1, "begin with _", ""),
    "DEFINE{query_name 'a';} SELECT len FROM b; DEFINE{query_name 'b';} SELECT len FROM a": (1, "b -> a -> b", ""),
    "DEFINE{query_name '../x';} SELECT len FROM TCP": (1, "only letters, digits and _", ""),
    "DEFINE{query_name 'a';} SELECT len FROM TCP; DEFINE{query_name 'A';} SELECT len FROM TCP": (1, "in case only", ""),
}


@pytest.mark.parametrize("text", ERRORS)
def test_errors_mark_the_place_and_name_the_nearest(text: str) -> None:
    line, message, hint = ERRORS[text]
    with pytest.raises(QueryError) as caught:
        plan(text)
    error = caught.value
    assert message in error.message
    assert hint in error.hint
    assert error.line == line and error.column > 0
    shown = str(error)
    assert shown.startswith(f"queries/q.gsql:{line}:{error.column}: ")
    assert "^" in shown


def test_a_query_with_errors_does_not_hide_those_of_others() -> None:
    text = (
        "DEFINE{query_name 'a';} SELECT scrIP, lenn FROM TCP;"
        "DEFINE{query_name 'b';} SELECT scrIP FROM a;"
        "DEFINE{query_name 'c';} SELECT tb, count(*) FROM TPC GROUP BY time/10 AS tb"
    )
    with pytest.raises(QueryErrors) as caught:
        plan(text)
    assert [error.message for error in caught.value.errors] == [
        "unknown column scrIP",
        "unknown column lenn",
        "no query, protocol or link is called TPC",
    ]
