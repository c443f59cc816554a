"""What is generated for a link: one kernel for all LFTAs, parameters as arguments, exact outcomes, a listing."""

from __future__ import annotations

import ast
from collections import Counter

import pytest
from hypothesis import given, strategies as st

from lowwater.catalog.expr import Const, Expr, Type, conjunction
from lowwater.low import LowSettings
from lowwater.low.code.kernel import list_kernels
from lowwater.plan.context import Context, Links
from lowwater.plan.operators import Lfta
from lowwater.plan.queryset import Plan, plan_texts
from tests.lftamaker import SECOND, Row, col, count, data, lit, make, op, records, run

PLAIN = LowSettings(skew=SECOND, compiled=False)
CONJUNCTS: list[Expr] = [
    op(col("destPort"), "=", lit(80)),
    op(op(lit(12), "/", col("ttl")), ">", lit(3)),
    op(col("len"), "<", lit(90)),
    op(op(col("id"), "+", lit((1 << 63) - 1)), "<>", lit(0)),
    op(op(op(col("id"), "*", col("id")), "*", op(col("id"), "*", col("id"))), ">", op(lit(5), "%", col("ttl"))),
    op(Const(Type.STRING, "L"), "=", lit("L")),
]
PACKETS = st.lists(
    st.fixed_dictionaries({"timestamp": st.integers(0, 200).map(lambda second: second * SECOND),
                           "ipversion": st.sampled_from([4, 6, None]), "protocol": st.sampled_from([6, 17, None]),
                           "destPort": st.sampled_from([80, 53, None]), "flags": st.sampled_from([2, None]),
                           "ttl": st.sampled_from([0, 2, 64, None]), "len": st.sampled_from([60, 90]),
                           "id": st.sampled_from([0, 1, -1, 1 << 62, None])}),
    max_size=12,
)  # fmt: skip


@st.composite
def nodes(draw: st.DrawFn) -> list[Lfta]:
    """Some LFTAs of one link that share conjuncts."""
    found = []
    for number in range(draw(st.integers(1, 4))):
        parts = draw(st.lists(st.sampled_from(CONJUNCTS), max_size=4, unique=True))
        protocol = draw(st.sampled_from(["ETH", "DataProtocol", "TCP"]))
        partials = [count()] if draw(st.booleans()) else []
        name = f"q{number}"
        found.append(make(name, {"time": col("time")}, partials, predicate=conjunction(parts), protocol=protocol))
    return found


@pytest.mark.slow
@given(lftas=nodes(), packets=PACKETS, chunk=st.integers(1, 9))
def test_one_pass_counts_every_outcome_as_each_node_alone(lftas: list[Lfta], packets: list[Row], chunk: int) -> None:
    settings = LowSettings(skew=30 * SECOND, compiled=False, chunk_rows=chunk)
    streams, together = run(lftas, records(packets), settings)
    for lfta in lftas:
        alone, result = run([lfta], records(packets), settings)
        assert streams[lfta.name] == alone[lfta.name]
        mine = [row for row in together.minutes.to_pylist() if row["lfta"] == lfta.name]
        assert mine == result.minutes.to_pylist()


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=[pytest.mark.slow, pytest.mark.nightly])])
@given(
    length=st.integers(0, 300),
    nulls=st.lists(st.tuples(st.integers(0, 299), st.sampled_from(["srcPort", "destPort"])), max_size=4),
    stops=st.sets(st.integers(1, 299), max_size=3),
    offset=st.integers(0, 17),
    batch_rows=st.sampled_from([7, 64, 300]),
)
def test_a_null_is_seen_wherever_it_lies(
    compiled: bool, length: int, nulls: list[tuple[int, str]], stops: set[int], offset: int, batch_rows: int
) -> None:
    """In a block, in a byte of validity, in a batch that begins within one, behind a promise that stops the kernel."""
    packets: list[Row] = [{"timestamp": 0, "srcPort": at % 3, "destPort": 7} for at in range(length)]
    for at, name in nulls:
        if at < length:
            packets[at][name] = None
    for at, packet in enumerate(packets):
        packet["timestamp"] = SECOND * sum(stop <= at for stop in stops)
    ports = {"srcPort": col("srcPort"), "destPort": col("destPort")}
    lftas = [make("rows", ports), make("groups", {"time": col("time"), **ports}, [count()], slots=16)]
    settings = LowSettings(skew=SECOND, compiled=compiled)
    before = [{"timestamp": 0, "srcPort": None, "destPort": None}] * offset
    streams, _ = run(lftas, records([*before, *packets]).slice(offset), settings, batch_rows=batch_rows)
    assert [(row["srcPort"], row["destPort"]) for row in data(streams["rows"])] == [
        (packet["srcPort"], packet["destPort"]) for packet in packets
    ]
    found: Counter[tuple[object, ...]] = Counter()
    for row in data(streams["groups"]):
        found[row["time"], row["srcPort"], row["destPort"]] += row["cnt"]
    assert found == Counter((each["timestamp"] // SECOND, each["srcPort"], each["destPort"]) for each in packets)


TEXT = """DEFINE {{ query_name few; }} PARAM {{ least uint; most float; host string; source ip; }}
SELECT tb, count(*) AS cnt FROM L.DataProtocol WHERE len > $least AND len < $most AND srcIP <> $source
AND interface <> $host AND len + {extra} > -$least GROUP BY time/$least AS tb"""


def planned(extra: int = 1, **params: int | float | str) -> Plan:
    return plan_texts(
        [("q.gsql", TEXT.format(extra=extra))], Links(("L",)), context=Context(Links(("L",)), params=params)
    )


@pytest.mark.parametrize(("least", "expected"), [(50, [(1, 2), (2, 1)]), (70, [(1, 1)])])
def test_a_parameter_has_its_value_in_the_rows(least: int, expected: list[tuple[int, int]]) -> None:
    lftas = planned(least=least, most=100.0, host="M", source="10.0.0.9").lftas
    packet = {"ipversion": 4, "srcIP_hi": 0, "srcIP_lo": 1}
    packets = [{**packet, "timestamp": at * SECOND, "len": length} for at, length in ((60, 60), (90, 80), (101, 60))]
    settings = LowSettings(skew=0, compiled=False, slots=64)
    rows = data(run(lftas, records(packets), settings)[0]["few"])
    assert [(row["tb"], row["agg0"]) for row in rows] == expected


def test_the_listing_is_code_that_names_queries_and_columns_in_comments_only() -> None:
    named = make("evil\nimport os", {"a\x1bb": col("destPort")}, predicate=op(col("len"), ">", lit(3)))
    text = list_kernels([named], PLAIN)
    assert "# LFTA evil?import os" in text and "a?b" in text and "# kernel of link L" in text
    tree = ast.parse(text)
    assert {type(node) for node in tree.body} == {ast.FunctionDef}
