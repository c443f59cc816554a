"""Values beside the kernel: texts, calls and comparisons against the reference engine, and groups by texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from lowwater.catalog.builtin import CATALOG
from lowwater.catalog.expr import Call, Case, Column, Expr, Type, Unary
from lowwater.catalog.functions import Function
from lowwater.catalog.schemas import READABLE, TYPES
from lowwater.errors import LowwaterError
from lowwater.low import LowSettings
from lowwater.stream.records import _column
from lowwater.stream.values import Faults, compile_expr, compile_predicate
from tests.lftamaker import Row, col, count, data, lit, make, negate, op, run

QUERY, HOST, DATA = (Column(Type.STRING, name) for name in ("dns_query", "http_host", "payload"))
TEXTS = st.none() | st.sampled_from(("", "a", "b.example", "GET /", "caf\u00e9", "12", "\u20ac"))
ROWS = st.fixed_dictionaries(
    {
        "frame": st.none() | st.binary(max_size=6), "payload_offset": st.none() | st.integers(0, 8),
        "payload_length": st.integers(0, 6), "dns_query": TEXTS, "http_host": TEXTS,
        "dns_type": st.none() | st.integers(0, 2), "ttl": st.none() | st.integers(0, 3),
        "srcPort": st.none() | st.integers(0, 2), "ipversion": st.none() | st.just(4), "srcIP_hi": st.just(0),
        "srcIP_lo": st.integers(0, 3),
    }
)  # fmt: skip


def call(name: str, *arguments: Expr, predicate: bool = False) -> Call:
    types = tuple(argument.type for argument in arguments)
    for one in CATALOG.named(name):
        if isinstance(one, Function) and one.parameters == types and one.predicate is predicate:
            return Call(one.returns, one, arguments)
    raise LookupError(name)


def case(test: Expr, then: Expr, otherwise: Expr) -> Case:
    return Case(then.type, ((test, then),), otherwise)


SHORT = call("str_truncate", DATA, op(col("ttl"), "-", lit(1)))
VALUES: dict[str, Expr] = {
    "data": DATA,
    "query": QUERY,
    "short": SHORT,
    "number": call("to_llong", QUERY),
    "more": op(call("to_llong", QUERY), "/", col("dns_type")),
    "chosen": case(op(QUERY, "=", HOST), call("str_truncate", QUERY, col("ttl")), lit("none")),
    "of_chosen": call("string_hash", case(op(col("ttl"), ">", lit(1)), QUERY, HOST)),
    "absent": Unary(Type.BOOL, "IS NULL", SHORT),
    "address": call("if_else", op(col("srcPort"), "=", lit(1)), col("srcIP"), lit(b"\x04\x01\x02\x03\x04")),
    "root": call("sqrt", call("FLOAT", op(col("ttl"), "-", lit(2)))),
    "larger": call("UMAX", col("ttl"), call("to_llong", QUERY)),
}
TESTS: dict[str, Expr] = {
    "order": op(QUERY, "<", HOST),
    "starts": call("str_match_start", SHORT, lit("G"), predicate=True),
    "partial": op(op(col("srcPort"), "=", lit(1)), "AND", op(call("to_llong", QUERY), ">", lit(1))),
    "sure": op(op(col("srcPort"), "=", lit(1)), "AND", op(QUERY, "<>", lit("a"))),
    "regex": call("str_regex_match", call("str_truncate", QUERY, col("ttl")), lit("^[a-z]"), predicate=True),
    "either": op(call("like", QUERY, lit("%a%"), predicate=True), "OR", op(op(lit(5), "/", col("ttl")), ">", lit(1))),
    "not": negate(op(DATA, "=", QUERY)),
    "root": op(VALUES["root"], ">=", lit(0.0)),
}


def batch(rows: Sequence[Row]) -> pa.RecordBatch:
    whole = {"capture": "c", "len": 60, "caplen": 60}
    made = [{**whole, "position": i, "arrival": i, "timestamp": i, **row} for i, row in enumerate(rows)]
    return pa.RecordBatch.from_pylist(made, schema=READABLE)


def by_reference(rows: pa.RecordBatch) -> list[tuple[Any, ...]]:
    return list(zip(*(_column(rows, name, "L") for name in TYPES), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["ETH", "DataProtocol"])
@given(rows=st.lists(ROWS, max_size=9), chunk=st.integers(1, 9), texts=st.sampled_from((0, 1, 1000)))
def test_values_are_those_of_the_reference_engine(rows: list[Row], chunk: int, texts: int, protocol: str) -> None:
    packets = batch(rows)
    settings = LowSettings(skew=0, compiled=False, chunk_rows=chunk, texts=texts)
    found = data(run([make("q", VALUES, protocol=protocol)], packets, settings)[0]["q"])
    known = [row for row in by_reference(packets) if protocol == "ETH" or row[list(TYPES).index("ipversion")]]
    closures = [compile_expr(expr, list(TYPES), Faults()) for expr in VALUES.values()]
    assert [tuple(row[name] for name in VALUES) for row in found] == [tuple(c(row) for c in closures) for row in known]


@pytest.mark.slow
@pytest.mark.parametrize("name", TESTS)
@given(rows=st.lists(ROWS, max_size=9))
def test_outcomes_are_those_of_the_reference_engine(rows: list[Row], name: str) -> None:
    packets, faults = batch(rows), Faults()
    expected: Counter[str] = Counter()
    test = compile_predicate(TESTS[name], list(TYPES), faults)
    for row in by_reference(packets):
        before = faults.count
        accepted = test(row)
        expected["accepted" if accepted else "failed" if faults.count > before else "filtered"] += 1
    lfta = make("q", {"timestamp": col("timestamp")}, predicate=TESTS[name])
    minutes = run([lfta], packets, LowSettings(skew=0, compiled=False))[1].minutes.to_pylist()
    found = Counter({key: sum(row[key] for row in minutes) for key in ("accepted", "failed", "filtered")})
    assert +found == +expected


@given(
    rows=st.lists(ROWS, max_size=30), chunk=st.integers(1, 30), slots=st.sampled_from((1, 4)),
    texts=st.sampled_from((0, 2, 1000)), compiled=st.just(False),
)  # fmt: skip
def test_groups_by_texts_do_not_depend_on_what_bounds_them(
    rows: list[Row], chunk: int, slots: int, texts: int, compiled: bool
) -> None:
    lfta = make("q", {"query": QUERY, "short": SHORT, "here": Column(Type.STRING, "interface")}, [count()], slots=slots)
    settings = LowSettings(skew=0, compiled=compiled, chunk_rows=chunk, texts=texts)
    stream = run([lfta], batch(rows), settings)[0]["q"]
    ticks = [row["_tick"] for row in stream]
    assert ticks == sorted(ticks)
    found: Counter[tuple[Any, ...]] = Counter()
    for row in data(stream):
        found[row["query"], row["short"], row["here"]] += row["cnt"]
    keys = [compile_expr(expr, list(TYPES), Faults()) for expr in (QUERY, SHORT)]
    assert found == Counter((keys[0](row), keys[1](row), "L") for row in by_reference(batch(rows)))


@pytest.mark.slow
def test_compiled_kernels_read_the_same_values() -> None:
    rows: list[Row] = [
        {"frame": b"GET /", "payload_offset": 1, "payload_length": 9, "dns_query": "12", "http_host": "12", "ttl": 3},
        {"frame": b"x", "payload_offset": 3, "payload_length": 1, "dns_query": "\u20ac", "dns_type": 0, "ttl": 0},
        {"dns_query": None, "ipversion": 4, "srcIP_hi": 0, "srcIP_lo": 7, "srcPort": 1},
    ]
    lfta = make("q", VALUES, predicate=Unary(Type.BOOL, "IS NULL", call("to_llong", lit("x"))))
    plain, compiled = (
        data(run([lfta], batch(rows), LowSettings(skew=0, compiled=each))[0]["q"]) for each in (False, True)
    )
    assert plain == compiled and len(plain) == 3
    assert plain[0]["data"] == "ET /" and plain[1]["data"] == "" and plain[2]["data"] is None


def test_a_function_that_gives_another_type_is_an_error() -> None:
    wrong = Function("wrong", (Type.STRING,), Type.INT, len_as_text, origin="own.fun")
    lfta = make("q", {"x": Call(Type.INT, wrong, (QUERY,))})
    with pytest.raises(LowwaterError, match=r"wrong \(own\.fun\) fails: TypeError"):
        run([lfta], batch([{"dns_query": "abc"}]), LowSettings(skew=0, compiled=False))


def len_as_text(text: str) -> str:
    return str(len(text))
