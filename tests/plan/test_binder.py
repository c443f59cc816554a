"""The binder: what statements mean, and the errors of those that mean nothing."""

from __future__ import annotations

import pytest

from lowwater.errors import QueryError, QueryErrors
from lowwater.plan.context import Links
from lowwater.plan.operators import Group, Join, LftaInput
from lowwater.plan.queryset import Plan, plan_texts
from tests.refusals import failure, refusals, told

LINKS = Links(("control", "main1", "main2"), {"backbone": ("main1", "main2")})


def plan(text: str) -> Plan:
    return plan_texts([("queries/q.gsql", text)], LINKS)


def links_of(text: str) -> tuple[str, ...]:
    (lfta,) = plan(text).lftas
    return lfta.links


@pytest.mark.parametrize(
    ("source", "links"),
    [("main1.TCP", ("main1",)), ("[main2, control].TCP", ("control", "main2")), ("[backbone].TCP", ("main1", "main2")),
     ("[backbone, control].TCP", ("control", "main1", "main2")), ("TCP", ("control", "main1", "main2"))],
)  # fmt: skip
def test_sources_name_links_lists_sets_or_all(source: str, links: tuple[str, ...]) -> None:
    assert links_of(f"SELECT srcIP FROM {source}") == links


@pytest.mark.parametrize(
    ("where", "below", "above"),
    [("A.time - 3 <= B.time AND B.time <= A.time + 2", 3, 2), ("B.time >= A.time AND A.time > B.time - 4", 0, 3),
     ("A.time + 1 < B.time + 1 AND A.time + 9 > B.time", -1, 8),
     ("A.time <= B.time + 5 AND A.time >= B.time - 5 AND A.time <= B.time + 2", 2, 5)],
)  # fmt: skip
def test_bands_are_read_from_any_writing_of_their_bounds(where: str, below: int, above: int) -> None:
    (query,) = plan(f"SELECT A.time INNER_JOIN FROM main1.TCP A, main2.TCP B WHERE {where}").queries
    assert isinstance(query.logical, Join)
    assert (query.logical.window.below, query.logical.window.above) == (below, above)


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


@pytest.mark.slow
@pytest.mark.parametrize("name", refusals("planner_"))
def test_the_error_of_a_text_without_a_meaning_is_word_by_word_that_of_refusals(name: str) -> None:
    error = failure(name)
    assert told(error) == refusals()[name].error
    assert error.line > 0 and error.column > 0


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


def test_what_begins_with_an_underscore_is_no_column() -> None:
    with pytest.raises(QueryError, match="begin with _"):
        plan("SELECT len AS _len FROM TCP")
