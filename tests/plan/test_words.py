"""Words of SQL that are made of what there is: their values beside DuckDB's, and the texts that they are written as."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest
from hypothesis import given, strategies as st

from lowwater.catalog.expr import Column, Expr, Type, show
from lowwater.gsql.parser import parse
from lowwater.gsql.printer import print_file
from lowwater.plan.bind.expressions import Scope
from lowwater.plan.operators import Aggregation, Map
from lowwater.plan.queryset import plan_texts
from lowwater.plan.text import Text
from lowwater.stream.values import Faults, compile_expr
from tests.plan.batch_pools import KNOWN

COLUMNS = {"a": Type.INT, "b": Type.INT, "x": Type.FLOAT, "s": Type.STRING, "t": Type.STRING}
SQL = {"a": "BIGINT", "b": "BIGINT", "x": "DOUBLE", "s": "VARCHAR", "t": "VARCHAR"}
WORDS = (
    "coalesce(a, b)", "coalesce(a, x, 2.5)", "COALESCE(s, t, '')", "nullif(a, b)", "nullif(s, 'lo')", "abs(a)",
    "abs(x)",
    "mod(a, b)", "greatest(a, b)", "greatest(a, b, 3)", "least(a, x)", "least(s, t)", "greatest(s, t, 'm')",
    "a IS DISTINCT FROM b", "a IS NOT DISTINCT FROM b", "s IS DISTINCT FROM t", "NOT (a IS DISTINCT FROM 3)",
    "lower(s)", "upper(s)", "length(s)", "s || t", "s || '-' || t", "substr(s, 2)", "substr(s, 2, 2)",
    "substr(s, 1, 0)",
    "round(x)", "round(x, 1)", "round(a)", "CAST(a AS DOUBLE)", "CAST(a AS BIGINT)", "abs(coalesce(a, 0) - 3)",
    "CASE WHEN a IS NOT DISTINCT FROM b THEN 1 ELSE greatest(a, 0) END",
)  # fmt: skip
TEXTS = st.none() | st.sampled_from(("", "a", "lo", "Water", "m", "z"))
INTS = st.none() | st.integers(-5, 5)
ROWS = st.tuples(INTS, INTS, st.none() | st.sampled_from((0.5, -0.5, 2.5, -2.25, 0.0, 7.0)), TEXTS, TEXTS)


def bound(text: str) -> Expr:
    (statement,) = parse(f"SELECT {text} AS v FROM R").statements
    columns = {name: Column(kind, name) for name, kind in COLUMNS.items()}
    return Scope(Text("q", text), {"R": columns}).bind(statement.items[0].expression)  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", WORDS)
@given(rows=st.lists(ROWS, min_size=1, max_size=8))
def test_values_are_those_of_sql(text: str, rows: list[tuple[Any, ...]]) -> None:
    value = compile_expr(bound(text), list(COLUMNS), Faults())
    with duckdb.connect() as database:
        database.execute(f"CREATE TABLE R (n INT, {', '.join(f'{name} {kind}' for name, kind in SQL.items())})")
        for number, row in enumerate(rows):
            database.execute("INSERT INTO R VALUES (?, ?, ?, ?, ?, ?)", [number, *row])
        theirs = [row for (row,) in database.execute(f"SELECT {text} FROM R ORDER BY n").fetchall()]
    assert [value(row) for row in rows] == theirs


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("count(*) FILTER (WHERE SYN)", "count(CASE WHEN SYN THEN 1 END)"),
        ("sum(len) filter (where len > 60)", "sum(CASE WHEN len > 60 THEN len END)"),
        ("count(DISTINCT srcIP) FILTER (WHERE SYN)", "count(DISTINCT CASE WHEN SYN THEN srcIP END)"),
        ("string_agg(interface, ',') FILTER (WHERE SYN)", "CAT_aggr(',', CASE WHEN SYN THEN interface END)"),
        ("any_value(srcIP)", "FIRST(srcIP)"),
        ("bool_or(SYN)", "or_aggr(SYN)"),
    ],
)
def test_aggregates_of_sql_are_written_as_those_here(text: str, written: str) -> None:
    found = print_file(parse(f"SELECT time/60 AS tb, {text} AS v FROM TCP GROUP BY 1", ("count", "sum")))
    assert found == f"SELECT time/60 AS tb, {written} AS v\nFROM TCP\nGROUP BY time/60 AS tb\n"


def test_a_network_is_the_range_of_its_addresses() -> None:
    found = print_file(parse("SELECT len FROM TCP WHERE srcIP <<= '10.1.0.0/16' OR NOT destIP <<= '2001:db8::/32'"))
    low, high = "'2001:db8::'", "'2001:db8:ffff:ffff:ffff:ffff:ffff:ffff'"
    assert f"srcIP BETWEEN '10.1.0.0' AND '10.1.255.255' OR NOT destIP BETWEEN {low} AND {high}" in found


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("FROM A UNION ALL B AS m", "FROM A UNION B m"),
        ("FROM A union all [x].B UNION C", "FROM A UNION [x].B UNION C"),
        ("FROM A UNION ALL AS m", "FROM A UNION ALL m"),
        ("FROM A UNION ALL\nWHERE a = 1", "FROM A UNION ALL\nWHERE a = 1"),
    ],
)
def test_union_keeps_all_rows_with_all_or_without(text: str, written: str) -> None:
    assert print_file(parse(f"SELECT a {text}")) == f"SELECT a\n{written}\n"


def grouped(text: str) -> tuple[list[str], list[str]]:
    node = plan_texts([("q.gsql", text)], KNOWN).queries[0].logical
    assert isinstance(node, Aggregation)
    keys = [f"{show(key.expr)} AS {key.name}" for key in node.keys]
    return keys, [*(f"{item.name}: {show(item.expr)}" for item in node.items), show(node.having) if node.having else ""]


BY = (
    ["timestamp/1000000000/60 AS tb", "srcIP AS srcIP"],
    ["tb: tb", "srcIP: srcIP", "n: agg0", "agg0 > 5"],
)


@pytest.mark.parametrize("by", ["time/60 AS tb, srcIP", "tb, srcIP", "1, 2", "ALL", "time/60, srcIP", "all"])
def test_groups_by_name_number_and_all(by: str) -> None:
    text = f"SELECT time/60 AS tb, srcIP, count(*) AS n FROM TCP GROUP BY {by} HAVING n > 5 AND tb > 3"
    assert grouped(text) == BY  # what tb must be is asked before


def test_a_column_comes_before_the_name_of_an_item() -> None:
    keys, items = grouped("SELECT time/60 AS tb, ttl AS len, max(len) AS m FROM TCP GROUP BY tb, ttl HAVING m > 1")
    assert keys == ["timestamp/1000000000/60 AS tb", "ttl AS ttl"]
    assert items == ["tb: tb", "len: ttl", "m: agg0", "agg0 > 1"]
    (query,) = plan_texts([("q.gsql", "SELECT len*2 AS caplen, caplen AS c FROM TCP WHERE caplen > 5")], KNOWN).queries
    node = query.logical
    assert isinstance(node, Map) and node.predicate is not None and show(node.predicate) == "caplen > 5"


def test_names_of_tshark_and_of_protocols() -> None:
    where = "A.protocol = 'tcp' AND A.tcp.dstport IN [80] AND ip.proto IN ('udp', 'ICMP')"
    text = f"SELECT A.ip.src AS a, A.frame.len AS l FROM IPV4 A WHERE {where}"
    (query,) = plan_texts([("q.gsql", text)], KNOWN).queries
    node = query.logical
    assert isinstance(node, Map) and node.predicate is not None
    assert show(node.predicate) == "protocol = 6 AND destPort = 80 AND (protocol = 17 OR protocol = 1)"
    assert [show(item.expr) for item in node.items] == ["srcIP", "len"]


@pytest.mark.parametrize("pattern", ["%GET%", "_Et%", "get /", "%\\\\%"])
def test_ilike_is_like_without_case(pattern: str) -> None:
    texts = ("GET /", "get /a", "xGeT", "100%", "")
    with duckdb.connect() as database:
        rows = ", ".join(f"({at}, '{text}')" for at, text in enumerate(texts))
        asked = f"SELECT s ILIKE '{pattern}' ESCAPE '\\' OR NOT s ILIKE 'get%' FROM (VALUES {rows}) AS r(n, s)"
        theirs = [row for (row,) in database.execute(f"{asked} ORDER BY n").fetchall()]
    value = compile_expr(bound(f"s ILIKE '{pattern}' OR s NOT ILIKE 'get%'"), list(COLUMNS), Faults())
    assert [value((0, 0, 0.0, text, "")) for text in texts] == theirs
