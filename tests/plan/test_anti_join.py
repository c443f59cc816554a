"""Joins that have a left row once (SEMANTICS O8, O9): one tree for EXISTS and its join, keys, spellings."""

from __future__ import annotations

import pytest

from lowwater.gsql.parser import parse
from lowwater.gsql.printer import print_file
from lowwater.plan.operators import Join, JoinKind, walk
from lowwater.plan.queryset import plan_texts
from lowwater.plan.shares import all_stages, shown
from tests.plan.batch_pools import KNOWN

GROUPS = (
    "DEFINE { query_name 'g'; visibility 'internal'; } "
    "SELECT tb, srcIP, count(*) AS n FROM TCP GROUP BY time/60 AS tb, srcIP;\n"
)
JOINED = "SELECT A.tb, A.srcIP, A.n FROM g A ANTI JOIN g B ON A.srcIP = B.srcIP AND A.tb = B.tb + 1"


def test_not_exists_is_an_anti_join() -> None:
    text = (
        "SELECT time, len FROM TCP A WHERE len > 60 AND NOT EXISTS "
        "(SELECT 1 FROM UDP WHERE srcIP = A.srcIP AND time BETWEEN A.time AND A.time + 3 "
        "AND UDP.len IN (1, CASE WHEN len > 2 THEN 3 END))"
    )
    joined = (
        "SELECT time, len\nFROM TCP A ANTI JOIN UDP ON UDP.srcIP = A.srcIP AND UDP.time BETWEEN A.time AND A.time + 3"
        " AND UDP.len IN [1, CASE WHEN UDP.len > 2 THEN 3 END]\nWHERE len > 60\n"
    )
    assert print_file(parse(text)) == joined
    assert parse(joined) == parse(text)


def test_exists_is_a_semi_join() -> None:
    text = "SELECT time, len FROM TCP A WHERE EXISTS (SELECT 1 FROM UDP WHERE srcIP = A.srcIP AND time = A.time)"
    joined = "SELECT time, len\nFROM TCP A SEMI JOIN UDP ON UDP.srcIP = A.srcIP AND UDP.time = A.time\n"
    assert print_file(parse(text)) == joined
    assert parse(joined) == parse(text)


@pytest.mark.parametrize(
    ("words", "canonical"),
    [
        ("ANTI JOIN", "ANTI JOIN"),
        ("left anti join", "ANTI JOIN"),
        ("Anti Join", "ANTI JOIN"),
        ("LEFT SEMI JOIN", "SEMI JOIN"),
        ("asof join", "ASOF JOIN"),
        ("ASOF INNER JOIN", "ASOF JOIN"),
        ("Asof Left Outer Join", "ASOF LEFT JOIN"),
        ("asof once join", "ASOF ONCE JOIN"),
        ("Asof Once Left Join", "ASOF ONCE LEFT JOIN"),
    ],
)
def test_spellings(words: str, canonical: str) -> None:
    whole = parse(JOINED.replace("ANTI JOIN", words))
    assert whole == parse(JOINED.replace("ANTI JOIN", canonical))
    assert f" A {canonical} g B ON " in print_file(whole)


@pytest.mark.parametrize(
    ("words", "time"),
    [
        ("SEMI JOIN", "tb"),
        ("ASOF JOIN", "tb after"),
        ("ASOF LEFT JOIN", "tb"),
        ("ASOF ONCE JOIN", "tb after"),
        ("ASOF ONCE LEFT JOIN", "tb"),
    ],
)
def test_a_left_row_is_there_once(words: str, time: str) -> None:
    after = "" if words == "SEMI JOIN" else ", B.tb AS after"
    join = f"SELECT A.tb, A.srcIP, A.n{after} FROM g A {words} g B ON A.srcIP = B.srcIP AND "
    text = f"{GROUPS}DEFINE {{ query_name 'q'; }} {join}A.tb < B.tb AND B.tb <= A.tb + 5"
    (query,) = plan_texts([("q.gsql", text)], KNOWN).queries
    assert query.key == ("tb", "srcIP")
    assert " ".join(field.name for field in query.high.fields if field.temporal) == time


def test_a_name_anti_is_quoted_where_it_could_be_read_as_the_keyword() -> None:
    text = 'SELECT "anti".a\nFROM R "anti" JOIN S ON "anti".t = S.t\n'
    assert print_file(parse(text)) == text
    assert parse(text).statements[0].join == "INNER_JOIN"  # type: ignore[attr-defined]


def test_the_key_is_that_of_the_left_side() -> None:
    (query,) = plan_texts([("q.gsql", f"{GROUPS}DEFINE {{ query_name 'q'; }} {JOINED}")], KNOWN).queries
    (join,) = [node for node in walk(query.high) if isinstance(node, Join)]
    assert join.kind is JoinKind.ANTI and not join.kind.pairs and query.key == ("tb", "srcIP")
    assert [field.name for field in query.high.fields if field.temporal] == ["tb"]
    assert [", ".join(map(shown, stage.keys)) for stage in all_stages(query.high)] == ["srcIP"]


def test_a_condition_of_where_chooses_no_rival_of_once() -> None:
    """A left row that WHERE alone drops competes; what ON leaves out too is filtered below the join."""
    band = "A.srcIP = B.srcIP AND A.tb <= B.tb AND B.tb <= A.tb + 5"
    texts = {
        on: f"{GROUPS}SELECT A.tb FROM g A ASOF ONCE LEFT JOIN g B ON {on} WHERE A.n > 1"
        for on in (band, f"{band} AND A.n > 1")
    }
    for on, text in texts.items():
        plan = plan_texts([("q.gsql", text.replace("SELECT A", "DEFINE { query_name 'q'; } SELECT A"))], KNOWN)
        (join,) = [node for node in walk(plan.queries[0].high) if isinstance(node, Join)]
        assert join.residual is None
        assert ("write it behind ON, too" in " ".join(map(str, plan.notes))) == (on == band)
        assert (plan.queries[0].high is join) == (on != band), "asked of the pairs"
