"""Expressions that read a column several times: plans stay as large as their texts, and rows stay what they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowwater.errors import QueryError
from lowwater.limits import EXPRESSION_NODES
from lowwater.plan.context import Links
from lowwater.plan.operators import lftas_of, walk
from lowwater.plan.queryset import Plan, plan_texts
from tests.capturemaker import pcap_bytes, tcp
from tests.replay.support import lowwater

pytestmark = pytest.mark.slow
STEPS = 18
SHAPES = {
    "items": ("SELECT time, len+len AS x FROM main1.TCP", "SELECT time, x+x AS x FROM {}"),
    "cases": ("SELECT time, CASE WHEN len > 3 THEN len ELSE len END AS x FROM main1.TCP",
              "SELECT time, CASE WHEN x > 3 THEN x ELSE x END AS x FROM {}"),
    "filters": ("SELECT time, len+len AS x FROM main1.TCP", "SELECT time, x+x AS x FROM {} WHERE x*x > 0"),
    "keys": ("SELECT tb, x, count(*) FROM main1.TCP GROUP BY time/60 AS tb, len AS x",
             "SELECT tb, x+x AS x, count(*) FROM {} WHERE x+x > 0 GROUP BY tb, x"),
    "times": ("SELECT time+time AS t, len FROM main1.TCP", "SELECT t+t AS t, len FROM {}"),
}  # fmt: skip


def chain(shape: str, steps: int = STEPS, last: str = "") -> str:
    """Queries of which each reads the one before, and doubles what it reads; all but the last are internal."""
    first, then = SHAPES[shape]
    texts = [first, *(then.format(f"q{number}") for number in range(steps - 1)), *([last] if last else [])]
    hidden = [f"DEFINE {{ query_name 'q{at}'; visibility 'internal'; }} {text}" for at, text in enumerate(texts[:-1])]
    return ";\n".join([*hidden, f"DEFINE {{ query_name 'last'; }} {texts[-1]}"]) + ";"


def nodes(plan: Plan) -> int:
    """Nodes of the largest operator of a plan, at both levels."""
    high = [node for query in (*plan.queries, *plan.internal) for node in walk(query.logical, query.high)]
    exprs = [node.exprs() for node in high]
    exprs += [tuple(item.expr for item in lfta.keys) for lfta in lftas_of(*(query.high for query in plan.queries))]
    return max(sum(expr.size for expr in of_one) for of_one in exprs)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_chain_that_doubles_does_not_double_the_plan(shape: str) -> None:
    assert nodes(plan_texts([("q.gsql", chain(shape))], Links())) <= EXPRESSION_NODES


def test_rows_of_a_chain_are_those_of_its_definition(tmp_path: Path) -> None:
    """The length of a frame, doubled 18 times, and summed: where operators stay apart, no value is another."""
    frames = [(second * 1_000_000_000, tcp("10.0.0.1", "10.0.0.2", 1000, 80) + bytes(second)) for second in range(9)]
    (tmp_path / "a.pcap").write_bytes(pcap_bytes(frames))
    query = tmp_path / "q.gsql"
    query.write_text(
        chain("filters", last=f"SELECT tb, sum(x) AS s, count(*) AS n FROM q{STEPS - 1} GROUP BY time/60 AS tb")
    )
    said = lowwater(
        "run", query, "--capture", f"main1={tmp_path / 'a.pcap'}", "--engine", "reference", "--out", tmp_path
    )
    assert said.code == 0, said.err
    lengths = [len(frame) for _, frame in frames]
    assert (tmp_path / "last.csv").read_text().splitlines()[1:] == [f"0,{sum(lengths) << STEPS},{len(lengths)}"]


def test_a_long_chain_is_planned_or_refused_in_bounded_time() -> None:
    """Each query is planned with all that it reads, so the work for a chain grows with its square."""
    text = "DEFINE { query_name 'q0'; } SELECT time, len AS x FROM main1.TCP;\n"
    text += "".join(f"DEFINE {{ query_name 'q{at}'; }} SELECT time, x FROM q{at - 1};\n" for at in range(1, 900))
    with pytest.raises(QueryError, match=r"q.gsql:\d+:\d+: query q\d+: .* 200,\d{3} operators"):
        plan_texts([("q.gsql", text)], Links())


@pytest.mark.parametrize("steps", [2, 9, 10, 900])
def test_a_circle_of_any_length_is_one_short_error(steps: int) -> None:
    text = "".join(f"DEFINE {{ query_name 'q{at}'; }} SELECT time FROM q{(at + 1) % steps};\n" for at in range(steps))
    with pytest.raises(QueryError, match=f"query q{steps - 1} reads itself: q{steps - 1} -> q0 -> ") as refused:
        plan_texts([("q.gsql", text)], Links())
    assert len(str(refused.value)) < 300 and str(refused.value).count("reads itself") == 1
