"""EXPLAIN: its goldens, its GSQL as GSQL, its JSON by its schema, its flowcharts; and what it says of progress."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache

import jsonschema
import pytest
from hypothesis import given, strategies as st

from lowwater.errors import QueryError
from lowwater.gsql import nodes
from lowwater.gsql.parser import parse
from lowwater.gsql.printer import print_statement
from lowwater.plan.context import Links
from lowwater.plan.explain import FORMS, describe, explain
from lowwater.plan.explain.describe import steps
from lowwater.plan.explain.model import laid_out, schema
from lowwater.plan.queryset import Plan, plan_texts
from lowwater.plan.temporal import Step, Temporal, grid
from tests.plan.golden import SCHEMA, cases, golden_path, golden_text, names, plan

EVERY_KIND = """
DEFINE { query_name 'base'; visibility 'internal'; }
SELECT tb, srcIP, destIP, avg(len) AS mean, count(*) AS cnt FROM TCP
GROUP BY time/60 AS tb, srcIP, destIP HAVING count(*) > 3;

DEFINE { query_name 'pairs'; slow_flush '1'; }
SELECT A.tb, A.srcIP, A.cnt + B.cnt AS total RIGHT_OUTER_JOIN FROM base A, base B
WHERE A.tb = B.tb + 1 AND A.srcIP = B.srcIP AND A.cnt < B.cnt;

DEFINE { query_name 'cubed'; }
SELECT tb, srcIP, destIP, sum(len), avg(len) FROM TCP GROUP BY time/60 AS tb, CUBE(srcIP, destIP);

DEFINE { query_name 'rolled'; }
SELECT tb, srcIP, destIP, count(DISTINCT len) FROM TCP GROUP BY time/60 AS tb, ROLLUP(srcIP, destIP);

DEFINE { query_name 'chosen'; }
SELECT tb, srcIP, destIP, max(len) FROM TCP
GROUP BY time/60 AS tb, GROUPING_SETS((srcIP), (destIP), (srcIP, destIP), ());

DEFINE { query_name 'counted'; }
SELECT srcIP, count(*), wid FROM main1.TCP [RANGE 100 ROWS, SLIDE 10 ROWS, PARTITION BY srcIP];

DEFINE { query_name 'sliding'; }
SELECT srcIP, avg(len), window_start FROM TCP [RANGE 5 min, SLIDE 1 min, WA time] GROUP BY srcIP;

DEFINE { query_name 'looked'; algorithm 'hash'; }
SELECT R.time, R.srcIP, R.len FILTER_JOIN(time, 5) FROM TCP R, TCP S WHERE R.srcIP = S.destIP AND S.SYN AND R.len > 100;

DEFINE { query_name 'watch'; filename 'watch.csv'; refresh_interval '60'; }
WATCHLIST FIELDS { IP address (key); string label; };

DEFINE { query_name 'watched'; }
SELECT p.time, p.srcIP, w.label WATCHLIST_JOIN FROM TCP p, watch w
WHERE p.srcIP = w.address AND p.len > 5 AND w.label <> 'x';

DEFINE { query_name 'sampled'; }
PARAM { lim uint; }
SELECT tb, srcIP, sum(len), count$(*) FROM TCP WHERE ssample(len, 10) = TRUE
GROUP BY time/60 AS tb, srcIP SUPERGROUP tb HAVING count(*) > $lim
CLEANING_WHEN ssdo_clean() CLEANING_BY ssclean_with(sum(len));

DEFINE { query_name 'running'; }
SELECT tb, srcIP, sum(len) FROM TCP GROUP BY time/60 AS tb, srcIP CLOSING_WHEN count(*) = 0;

DEFINE { query_name 'united'; }
SELECT tb, srcIP, CASE WHEN cnt IS NOT NULL THEN cnt ELSE -1 END AS c FROM many UNION most
WHERE srcIP = IP_VAL'10.0.0.1' OR srcIP IS NULL;

DEFINE { query_name 'many'; visibility 'internal'; }
SELECT tb, srcIP, cnt FROM base WHERE cnt > 5;

DEFINE { query_name 'most'; visibility 'internal'; }
SELECT tb, destIP, max(cnt) FROM base GROUP BY tb, destIP;

DEFINE { query_name 'merged'; }
MERGE a.timestamp : b.timestamp FROM main1.UDP a, main2.UDP b;

DEFINE { query_name 'asked'; }
PARAM { lim uint; }
SELECT time, len, @speed FROM main1.TCP WHERE srcPort = $lim AND NOT TCP_data LIKE 'a%';

DEFINE { query_name 'unread'; visibility 'internal'; }
SELECT time FROM UDP
"""
KINDS = {
    "selection", "aggregation", "running aggregation", "sampling", "windows", "grouping sets", "merge",
    "RIGHT_OUTER_JOIN", "FILTER_JOIN", "WATCHLIST_JOIN", "lfta", "stream",
}  # fmt: skip


def planned(text: str) -> Plan:
    return plan_texts([("all.gsql", text)], Links())


@pytest.fixture(scope="module")
def every() -> Plan:
    return planned(EVERY_KIND)


@cache
def plans() -> list[Plan]:
    found = [planned(EVERY_KIND)]
    for name in names():
        try:
            found.append(plan(name))
        except QueryError:  # its golden is the error
            continue
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("name", "form"), cases())
def test_golden(name: str, form: str) -> None:
    text = golden_text(name, form)
    assert text == golden_path(name, form).read_text(encoding="utf-8")
    assert text.count("\n") < 300
    if form == "text":
        assert max(len(line) for line in text.splitlines()) <= 120


def test_all_operators_are_described(every: Plan) -> None:
    description = describe(every)
    assert {op.kind for query in description.queries for op in query.operators} == KINDS
    text = explain(every)
    assert text == explain(planned(EVERY_KIND))
    assert max(len(line) for line in text.splitlines()) <= 120 and "0x7f" not in text
    for query in (*every.queries, *every.internal):
        assert len(re.findall(rf"^query {query.name}\b", text, flags=re.MULTILINE)) == 1


@pytest.mark.slow
def test_gsql_of_both_levels_is_canonical_gsql() -> None:
    for each in plans():
        description = describe(each)
        for text in [lfta.gsql for lfta in description.lftas] + [query.high for query in description.queries]:
            for part in filter(None, text.split(";\n\n")):
                (statement,) = parse(part).statements
                (defined,) = dict(statement.defines).values()
                body = print_statement(replace(statement, defines=()))
                assert f"Query {defined}:\n{body}" == part


@pytest.mark.parametrize(("call", "most"), [("", 60), ("sum", 60), ("avg", 30)])
def test_an_aggregation_of_more_columns_than_a_group_table_has_is_whole(call: str, most: int) -> None:
    for count, split in ((most, True), (most + 1, False)):
        own = [f"len+{number}" for number in range(count - (not call))]  # the epoch is a group-by variable too
        items = [f"{call}({each})" if call else f"k{at}" for at, each in enumerate(own)]
        keys = [] if call else [f"{each} AS k{at}" for at, each in enumerate(own)]
        found = planned(f"SELECT {', '.join(['tb', *items])} FROM TCP GROUP BY {', '.join(['time/60 AS tb', *keys])}")
        why = describe(found).queries[0].operators[0].high
        assert why.startswith("a group table has at most 60 group-by variables") if not split else why == ""
        assert [lfta.aggregates for query in found.queries for lfta in query.lftas] == [split]


_STEP = st.one_of(
    st.builds(Step, st.just("add"), st.integers(-40, 40)),
    st.builds(Step, st.sampled_from(["mul", "div"]), st.integers(1, 9)),
    st.just(Step("neg")),
)


def _value(expression: nodes.Expression, clock: int) -> int:
    """Evaluates printed arithmetic by the rules of GSQL (SEMANTICS V2)."""
    if isinstance(expression, nodes.Name):
        assert expression.name == "clock"
        return clock
    if isinstance(expression, nodes.Literal):
        assert type(expression.value) is int
        return expression.value
    if isinstance(expression, nodes.UnaryOp):
        assert expression.op == "-"
        return -_value(expression.operand, clock)
    assert isinstance(expression, nodes.BinaryOp)
    left, right = _value(expression.left, clock), _value(expression.right, clock)
    quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1) if right else 0
    return {"+": left + right, "-": left - right, "*": left * right, "/": quotient}[expression.op]


@given(st.lists(_STEP, max_size=6), st.integers(0, 1000))
def test_the_printed_progress_of_a_column_is_what_the_plan_computes(drawn: list[Step], clock: int) -> None:
    time = Temporal((tuple(drawn),))
    (text,) = steps(time)
    (statement,) = parse(f"SELECT {text} AS value FROM TCP").statements
    assert isinstance(statement, nodes.Select)
    assert _value(statement.items[0].expression, clock) == time.promise(clock)


def test_spark_queries_are_counted_with_the_reason_of_each_cut() -> None:
    band = "FROM main1.TCP A, main2.TCP B WHERE A.time <= B.time AND B.time <= A.time + 3 AND A.len = B.len;\n"
    text = (
        f"DEFINE {{ query_name 'pairs'; }} SELECT A.time AS ta, B.time AS tb LEFT_OUTER_JOIN {band}"
        "DEFINE { query_name 'each'; } SELECT ta, count(*) FROM pairs GROUP BY ta;\n"
        "DEFINE { query_name 'ends'; } SELECT tb, sum(len) FROM TCP GROUP BY time/60 AS tb CLOSING_WHEN count(*) = 0;\n"
        "DEFINE { query_name 'sums'; } SELECT tb, count(*) FROM ends GROUP BY tb"
    )
    made = plan_texts([("q.gsql", text)], Links(("main1", "main2")))
    queries = {query.name: query for query in describe(made).queries}
    assert queries["pairs"].parts == queries["ends"].parts == ()
    assert queries["each"].again == ("pairs",) and queries["sums"].again == ("ends",)
    assert queries["each"].parts == ()
    (below,) = queries["sums"].parts
    assert (below.operator, below.of, below.reader) == ("running aggregation", "ends", "aggregation")
    assert "carries state from slice to slice" in below.reason
    shown = explain(made)
    assert shown.count("  evaluations: one\n") == 2 and "  evaluations: one; recomputes pairs\n" in shown
    assert "  evaluations: 2, one after another; recomputes ends\n" in shown


@pytest.mark.slow
def test_json_keeps_its_schema(every: Plan) -> None:
    made = schema()
    jsonschema.Draft202012Validator.check_schema(made)
    validator = jsonschema.Draft202012Validator(made)
    for each in (every, *plans()):
        value = json.loads(explain(each, "json"))
        validator.validate(value)
        assert value["version"] == 1
    assert SCHEMA.read_text(encoding="utf-8") == laid_out(made) + "\n"


_LABEL = r'"[^"]*"'
_NODE = re.compile(rf"(\w+)(?:\[/{_LABEL}/\]|\[{_LABEL}\]|\(\[{_LABEL}\]\))")
_EDGE = re.compile(rf"(\w+) (?:-- {_LABEL} )?--> (\w+)")


@pytest.mark.slow
def test_mermaid_is_well_formed() -> None:
    for each in plans():
        first, *lines = explain(each, "mermaid").splitlines()
        assert first == "flowchart BT"
        boxes: set[str] = set()
        edges: list[tuple[str, str]] = []
        depth = 0
        for line in (line.strip() for line in lines):
            if re.fullmatch(rf"subgraph \w+\[{_LABEL}\]", line) or line == "end":
                depth += 1 if line != "end" else -1
            elif match := _NODE.fullmatch(line):
                assert match[1] not in boxes
                boxes.add(match[1])
            else:
                match = _EDGE.fullmatch(line)
                assert match, line
                edges.append((match[1], match[2]))
            assert depth in (0, 1)
        assert depth == 0 and {end for edge in edges for end in edge} == boxes


def chain(count: int, visibility: str) -> str:
    first = "DEFINE { query_name 'q0'; %s } SELECT tb, count(*) AS c FROM TCP GROUP BY time/60 AS tb;\n"
    step = "DEFINE { query_name 'q%d'; %s } SELECT tb, max(c) AS c FROM q%d GROUP BY tb;\n"
    texts = [first % visibility, *(step % (n, visibility, n - 1) for n in range(1, count))]
    return "".join([*texts, f"DEFINE {{ query_name 'last'; }} SELECT tb, min(c) FROM q{count - 1} GROUP BY tb"])


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("visibility", ["", "visibility 'internal';"])
def test_a_chain_of_150_queries(visibility: str) -> None:
    found = planned(chain(150, visibility))
    for form in FORMS:
        explain(found, form)
    assert max(len(line) for line in explain(found).splitlines()) <= 120


def test_every_value_of_an_attribute_begins_on_the_grid() -> None:
    second = (Step("div", 10**9),)
    fives, from_two = (*second, Step("div", 5)), (*second, Step("add", 3), Step("div", 5))
    assert grid([]) == 1
    assert grid([Temporal((fives,))]) == 5 * 10**9
    assert grid([Temporal((from_two,))]) == 10**9
    assert grid([Temporal(((*second, Step("div", 6)),)), Temporal(((*second, Step("div", 10)),))]) == 2 * 10**9
    assert grid([Temporal(((*second, Step("mul", 3), Step("div", 2)),))]) == 10**9
    assert grid([Temporal(((*second, Step("neg"), Step("div", 60)),))]) == 60 * 10**9


@given(st.lists(st.tuples(st.sampled_from(("add", "mul", "div", "neg")), st.integers(1, 90)), max_size=4))
def test_a_value_begins_at_no_other_instant(drawn: list[tuple[str, int]]) -> None:
    steps = (Step("div", 10**9), *(Step(op, 0 if op == "neg" else by) for op, by in drawn))
    time, clock = Temporal((steps,)), grid([Temporal((steps,))])
    begin = 1_767_225_600 * 10**9
    values = [time.promise(begin + at * 10**9) for at in range(400)]
    changes = [begin + at * 10**9 for at in range(1, 400) if values[at] != values[at - 1]]
    assert not [at for at in changes if at % clock]
