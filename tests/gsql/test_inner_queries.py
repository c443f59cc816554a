"""WITH, and a SELECT in FROM: hidden queries with a name, as DEFINE writes them."""

from __future__ import annotations

import pytest

from lowwater.errors import QueryError
from lowwater.gsql.parser import parse
from lowwater.gsql.printer import print_file
from lowwater.plan.queryset import plan_texts
from tests.plan.batch_pools import KNOWN

MINUTES = "SELECT time/60 AS tb, srcIP, count(*) AS n FROM TCP GROUP BY tb, srcIP"


def defined(name: str, query: str) -> str:
    return f"DEFINE {{ query_name '{name}'; visibility 'internal'; }} {query};\n"


@pytest.mark.parametrize(
    ("text", "chain"),
    [
        (f"WITH m AS ({MINUTES}) SELECT tb FROM m WHERE n > 5", defined("m", MINUTES) + "SELECT tb FROM m WHERE n > 5"),
        (
            f"with m as ({MINUTES}), f as (SELECT tb, n FROM m WHERE n > 5) SELECT f.tb FROM m JOIN f ON m.tb = f.tb",
            defined("m", MINUTES)
            + defined("f", "SELECT tb, n FROM m WHERE n > 5")
            + "SELECT f.tb FROM m JOIN f ON m.tb = f.tb",
        ),
        (
            f"SELECT a.tb, b.n FROM ({MINUTES}) AS a LEFT JOIN ({MINUTES} HAVING n > 2) b ON a.tb = b.tb WHERE a.n > 1",
            defined("a", MINUTES)
            + defined("b", f"{MINUTES} HAVING n > 2")
            + "SELECT a.tb, b.n FROM a LEFT JOIN b ON a.tb = b.tb WHERE a.n > 1",
        ),
        (
            f"SELECT A.tb FROM ({MINUTES}) A, (SELECT tb FROM ({MINUTES}) C WHERE n > 2) B WHERE A.tb = B.tb",
            defined("A", MINUTES)
            + defined("C", MINUTES)
            + defined("B", "SELECT tb FROM C WHERE n > 2")
            + "SELECT A.tb FROM A, B WHERE A.tb = B.tb",
        ),
    ],
)
def test_an_inner_query_is_a_hidden_query(text: str, chain: str) -> None:
    assert parse(text).statements == parse(chain).statements
    assert print_file(parse(text)) == print_file(parse(chain))
    (query,) = plan_texts([("q.gsql", text)], KNOWN).queries
    assert query.name == "q"


def test_an_inner_query_has_the_dialect_and_the_parameters_of_its_reader() -> None:
    text = (
        "DEFINE { query_name 'q'; dialect 'gigascope'; } PARAM { k int; least int = 3; }\n"
        "WITH a AS (SELECT time, len FROM TCP WHERE len > $k) SELECT time FROM a WHERE len > $least"
    )
    inner, outer = parse(text).statements
    assert inner.defines == (("query_name", "a"), ("visibility", "internal"), ("dialect", "gigascope"))
    assert [param.name for param in inner.params] == ["k"] and len(outer.params) == 2
    (query,) = plan_texts([("q.gsql", text)], KNOWN, {"k": 5, "least": 6}).queries
    assert query.name == "q"


def test_errors_of_inner_queries_stand_at_their_place() -> None:
    text = "WITH a AS (SELECT time, lex FROM TCP)\nSELECT time, b FROM a"
    with pytest.raises(QueryError) as found:
        plan_texts([("q.gsql", text)], KNOWN)
    assert (found.value.line, found.value.column) == (1, 25) and "did you mean len" in str(found.value)
    with pytest.raises(QueryError, match="two queries are called a"):
        plan_texts(
            [("q.gsql", "DEFINE { query_name 'a'; } SELECT len FROM TCP; SELECT x FROM (SELECT len AS x FROM TCP) a")],
            KNOWN,
        )


def test_a_condition_behind_an_inner_query_belongs_to_the_outer_one() -> None:
    """Words of FROM are read again behind the parenthesis: an inner WHERE or GROUP BY has ended."""
    text = (
        "SELECT A.time FROM TCP A WHERE EXISTS (SELECT * FROM UDP B WHERE B.srcIP = A.srcIP AND B.time = A.time)"
        " AND len BETWEEN 5 AND 9 ORDER BY len LIMIT 3 PER time/60"
    )
    (select,) = parse(text).statements
    assert select.top.count == 3 and select.join == "SEMI_JOIN"  # type: ignore[attr-defined]
