"""Each rule of the planner alone: where it applies, and where it does not."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from lowwater.catalog.expr import Expr, show
from lowwater.plan.operators import Aggregation, Bucket, LftaInput, Map, Node, Source
from lowwater.plan.rules import Rule, Setting, push_filter, split_group, split_sliding_window
from tests.plan.batch_plans import bound_plans
from tests.plan.batch_pools import CONTEXT, KNOWN

PRIVATE = Setting(private=frozenset({"r", "x", "y"}), catalog=CONTEXT.catalog)
PUBLIC = Setting(catalog=CONTEXT.catalog)
ORDERED = Setting(private=PRIVATE.private, ordered=frozenset({"q"}))
R = "DEFINE{query_name 'r';} "
Q = "DEFINE{query_name 'q';} "
MERGED = (
    "DEFINE{query_name 'x';} SELECT time AS t, srcIP AS k, len AS v FROM main1.TCP;"
    "DEFINE{query_name 'y';} SELECT time AS t, srcIP AS k, caplen AS v FROM main2.UDP;"
    "DEFINE{query_name 'r';} MERGE x.t : y.t FROM x, y;"
)
SELECTED = f"{R} SELECT time AS t, srcIP AS k, len * 2 AS v FROM main1.TCP WHERE len > 60;"
GROUPED = f"{R} SELECT tb, srcIP, count(*) AS n FROM main1.TCP GROUP BY time/10 AS tb, srcIP HAVING count(*) > 1;"


def applied(rule: Rule, text: str, setting: Setting = PUBLIC) -> str:
    """The plan of the last query after one step of a rule at its top; empty where it does not apply."""
    node = list(bound_plans(text, KNOWN, CONTEXT).values())[-1]
    found = rule(node, setting)
    if found is None:
        return ""
    assert [(f.name, f.type) for f in found.fields] == [(f.name, f.type) for f in node.fields]
    return shape(found)


def shape(node: Node) -> str:
    """A plan in one line."""
    below = ", ".join(shape(each) for each in node.inputs())
    if isinstance(node, Source):
        return node.protocol
    if isinstance(node, LftaInput):
        lfta = node.lfta
        partials = "; ".join(f"{p.function}({show(p.argument) if p.argument else '*'})" for p in lfta.partials)
        kind = f"lfta group [{exprs(k.expr for k in lfta.keys)}] {partials}" if lfta.aggregates else "lfta "
        kind += "" if lfta.aggregates else exprs(key.expr for key in lfta.keys)
        return f"<{kind}{where(lfta.predicate)}>"
    if isinstance(node, Map):
        return f"map({below}{where(node.predicate)}: {exprs(item.expr for item in node.items)})"
    if isinstance(node, Aggregation):
        keys = exprs(key.expr for key in node.keys)
        found = "; ".join(f"{a.function}({show(a.argument) if a.argument else '*'})" for a in node.aggregates)
        having = f" having {show(node.having)}" if node.having else ""
        return f"{type(node).__name__.lower()}({below}{where(node.predicate)} [{keys}] {found}{having})"
    if isinstance(node, Bucket):
        return f"bucket({below}: {show(node.attribute)} {node.range}/{node.slide})"
    return f"{type(node).__name__.lower()}({below})"


def exprs(found: Iterable[Expr]) -> str:
    """Some expressions."""
    return ", ".join(show(expr) for expr in found)


def where(predicate: Expr | None) -> str:
    """A predicate."""
    return f" where {show(predicate)}" if predicate is not None else ""


@pytest.mark.parametrize(
    ("text", "setting", "expected"),
    [
        # Into a selection, through a union, into HAVING; only what reads group-by variables goes there.
        (
            f"{SELECTED}{Q} SELECT t FROM r WHERE v > 9",
            PRIVATE,
            "map(TCP where len > 60 AND len*2 > 9: timestamp/1000000000)",
        ),
        (
            f"{MERGED}{Q} SELECT t FROM r WHERE v > 9",
            PRIVATE,
            "map(union(map(map(TCP: timestamp/1000000000, srcIP, len) where v > 9: t, k, v), "
            "map(map(UDP: timestamp/1000000000, srcIP, caplen) where v > 9: t, k, v)): t)",
        ),
        (
            f"{GROUPED}{Q} SELECT tb FROM r WHERE n > 5 AND tb % 2 = 0",
            PRIVATE,
            "map(group(TCP [timestamp/1000000000/10, srcIP] count(*) having agg0 > 1 AND tb%2 = 0) where n > 5: tb)",
        ),
        (f"{GROUPED}{Q} SELECT tb FROM r WHERE n > 5", PRIVATE, ""),
        # Not into what others see, nor where nothing is filtered.
        (f"{SELECTED}{Q} SELECT t FROM r WHERE v > 9", PUBLIC, ""),
        (f"{MERGED}{Q} SELECT t FROM r", PRIVATE, ""),
        (f"{SELECTED}{Q} SELECT t FROM r WHERE v > 9", ORDERED, ""),
    ],
)
def test_push_filter(text: str, setting: Setting, expected: str) -> None:
    assert applied(push_filter, text, setting) == expected


SLIDING = f"{Q} SELECT wid, srcIP, sum(len) FROM main1.TCP [RANGE 5, SLIDE 2, WA time] WHERE ttl > 1 GROUP BY srcIP"
ROWS = SLIDING.replace("RANGE 5, SLIDE 2, WA time", "RANGE 5 ROWS, SLIDE 2 ROWS")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            SLIDING,
            "group(bucket(<lfta group [srcIP, timestamp/1000000000/1] sum(len) where ttl > 1>: _pane*1 5/2) "
            "[srcIP, _window] sum(agg0))",
        ),
        (
            SLIDING.replace("RANGE 5", "RANGE 6"),
            "group(bucket(<lfta group [srcIP, timestamp/1000000000/2] sum(len) where ttl > 1>: _pane*2 6/2) "
            "[srcIP, _window] sum(agg0))",
        ),
        # An aggregate that needs all rows in one place, and rows that are counted: packets one by one.
        (
            SLIDING.replace("sum(len)", "FIRST(len)"),
            "group(bucket(<lfta timestamp/1000000000, srcIP, len where ttl > 1>: _attribute 5/2) "
            "[srcIP, _window] FIRST(len))",
        ),
        (ROWS, "group(bucket(<lfta srcIP, len where ttl > 1>: _row 5/2) [srcIP, _window] sum(len))"),
        # What a partition counts is counted before WHERE.
        (
            ROWS.replace("]", ", PARTITION BY srcIP]"),
            "group(bucket(<lfta srcIP, len, ttl > 1>: _row 5/2) where _value [srcIP, _window] sum(len))",
        ),
        (SLIDING.replace("RANGE 5", "RANGE 2"), ""),
    ],
)
def test_split_sliding_window(text: str, expected: str) -> None:
    assert applied(split_sliding_window, text) == expected


FLOWS = f"{Q} SELECT tb, srcIP, avg(len) FROM main1.TCP WHERE ttl > 1 GROUP BY time/10 AS tb, srcIP"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            FLOWS,
            "group(<lfta group [timestamp/1000000000/10, srcIP] sum(len); count(len) where ttl > 1> "
            "[tb, srcIP] sum(agg0_sum); sum(agg0_count))",
        ),
        # The halves of an aggregate of the user's own; constants are for the output.
        (
            FLOWS.replace("avg(len)", "sum_modulo(len, 7)"),
            "group(<lfta group [timestamp/1000000000/10, srcIP] sum(len) where ttl > 1> [tb, srcIP] modulo_of(agg0))",
        ),
        # Not split: an argument, a variable or a conjunct that is not safe, a merge that is not exact (O2).
        (
            FLOWS.replace("avg(len)", "count(DISTINCT len)"),
            "group(<lfta timestamp/1000000000/10, srcIP, len where ttl > 1> [tb, srcIP] count_distinct(len))",
        ),
        (
            FLOWS.replace("ttl > 1", "ttl > 1 AND str_match_start[TCP_data, 'GET']"),
            "group(<lfta timestamp/1000000000/10, srcIP, len, payload where ttl > 1> "
            "where str_match_start[TCP_data, 'GET'] [tb, srcIP] avg(len))",
        ),
        (f"{SELECTED}{Q} SELECT tb, count(*) FROM r GROUP BY t/10 AS tb", ""),
    ],
)
def test_split_group(text: str, expected: str) -> None:
    assert applied(split_group, text) == expected
