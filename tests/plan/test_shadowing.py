"""Variables that have the name of a column: what each name of a statement means (docs/language/select.md)."""

from __future__ import annotations

import pytest

from lowwater.catalog.expr import Column, show
from lowwater.plan.context import Links
from lowwater.plan.operators import Aggregation
from lowwater.plan.queryset import Plan, plan_texts


def planned(text: str) -> Plan:
    return plan_texts([("q.gsql", text)], Links())


def read(text: str) -> list[str]:
    """The expression over packets that each select item reads; of an aggregate its argument."""
    node = planned(text).queries[0].logical
    assert isinstance(node, Aggregation)
    over = {key.name: key.expr for key in node.keys}
    over |= {each.name: each.argument for each in node.aggregates if each.argument is not None}
    return [show(over[item.expr.name]) if isinstance(item.expr, Column) else show(item.expr) for item in node.items]


def stored(expression: str) -> str:
    """How the plan shows an expression over packets."""
    return read(f"SELECT x FROM main1.TCP GROUP BY time/60 AS tb, {expression} AS x")[0]


TIME, MINUTE, LEN, MORE = (stored(text) for text in ("time", "time/60", "len", "len + 1"))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT DISTINCT time/60 AS time, time AS t FROM main1.TCP", [MINUTE, TIME]),
        ("SELECT DISTINCT time AS t, time/60 AS time FROM main1.TCP", [TIME, MINUTE]),
        ("SELECT DISTINCT time, len + 1 AS len, len AS l2 FROM main1.TCP", [TIME, MORE, LEN]),
        ("SELECT time, t FROM main1.TCP GROUP BY time/60 AS time, time AS t", [MINUTE, TIME]),
        ("SELECT l2, len FROM main1.TCP GROUP BY time/60 AS tb, len + 1 AS len, len AS l2", [LEN, MORE]),
        ("SELECT sum(len), len FROM main1.TCP GROUP BY time/60 AS tb, len + 1 AS len", [LEN, MORE]),
        ("SELECT len + 1, len FROM main1.TCP GROUP BY time/60 AS tb, len + 1 AS len", [MORE, MORE]),
        ("SELECT p.len, len FROM main1.TCP p GROUP BY time/60 AS tb, len + 1 AS len, len AS l2", [LEN, MORE]),
    ],
)
def test_a_bare_name_over_groups_is_the_variable_of_that_name(text: str, wanted: list[str]) -> None:
    assert read(text) == wanted


def test_a_column_of_either_side_of_a_join_has_its_own_grouping_sets() -> None:
    joined = "FROM main1.TCP A, main2.TCP B WHERE A.time = B.time GROUP BY A.time, CUBE(A.srcIP, B.srcIP)"
    text = planned(f"SELECT A.time, A.srcIP, B.srcIP, count(*) {joined}").queries[0].logical
    assert isinstance(text, Aggregation)
    (expand,) = text.inputs()
    assert expand.sets == (  # type: ignore[attr-defined]
        ("time", "srcIP", "srcIP1"),
        ("time", "srcIP"),
        ("time", "srcIP1"),
        ("time",),
    )
