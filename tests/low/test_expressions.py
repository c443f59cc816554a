"""Every operator of V2 in both kinds of kernel against an independent evaluation."""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings, strategies as st

from lowwater.catalog import schemas
from lowwater.catalog.expr import Binary, Column, Const, Expr, Type, Unary
from lowwater.catalog.values import pack_ip
from lowwater.low import LowSettings
from lowwater.stream.values import Faults, compile_expr
from tests.breadth import examples
from tests.lftamaker import Row, col, data, lit, make, negate, op, records, run

MIN, MAX = -(1 << 63), (1 << 63) - 1
PLAIN = LowSettings(skew=0, compiled=False)
EDGES = [MIN, MIN + 1, -(1 << 31), -7, -2, -1, 0, 1, 2, 3, 7, 63, 64, 1 << 31, (1 << 62) + 5, MAX - 1, MAX]
WORDS = st.one_of(st.sampled_from(EDGES), st.integers(MIN, MAX))


def fits(value: int) -> int | None:
    return value if MIN <= value <= MAX else None


def quotient(a: int, b: int) -> int | None:
    if b == 0:
        return None
    size = abs(a) // abs(b)
    return fits(size if (a < 0) == (b < 0) else -size)


def integer(name: str, a: int | None, b: int | None) -> int | None:
    """The operator by its definition, over Python's unbounded integers."""
    if a is None or b is None:
        return None
    if name in ("<<", ">>"):
        if not 0 <= b < 64:
            return None
        return a >> b if name == ">>" else fits(a << b)
    if name == "/":
        return quotient(a, b)
    if name == "%":
        return None if b == 0 else a - (abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)) * b
    return fits({"+": a + b, "-": a - b, "*": a * b, "&": a & b, "|": a | b}[name])


ORACLE = {
    **{op: f"TRY_CAST(a::HUGEINT {op} b::HUGEINT AS BIGINT)" for op in ("+", "-", "&", "|")},
    "*": "TRY_CAST(TRY(a::HUGEINT * b::HUGEINT) AS BIGINT)",
    "/": "TRY_CAST(a::HUGEINT // nullif(b, 0)::HUGEINT AS BIGINT)",
    "%": "TRY_CAST(a::HUGEINT % nullif(b, 0)::HUGEINT AS BIGINT)",
    "<<": "CASE WHEN b BETWEEN 0 AND 63 THEN TRY_CAST(a::HUGEINT * (1::HUGEINT << b::INT) AS BIGINT) END",
    ">>": "CASE WHEN b BETWEEN 0 AND 63 THEN a >> b END",
}


def test_the_definition_of_integer_operators_is_that_of_duckdb() -> None:
    pairs = [(a, b) for a in EDGES for b in EDGES]
    with duckdb.connect() as oracle:
        oracle.execute("CREATE TABLE pairs (a BIGINT, b BIGINT)")
        oracle.executemany("INSERT INTO pairs VALUES (?, ?)", pairs)
        for name in ORACLE:
            found = oracle.execute(f"SELECT a, b, {ORACLE[name]} FROM pairs").fetchall()
            assert [row for row in found if row[2] != integer(name, row[0], row[1])] == [], name


def evaluate(exprs: dict[str, Expr], packet: Row, settings: LowSettings = PLAIN) -> Row:
    (row,) = data(run([make("q", exprs)], records([{"timestamp": 5, **packet}]), settings)[0]["q"])
    return row


def outcome(predicate: Expr, packet: Row, compiled: bool = False) -> str:
    lfta = make("q", {"timestamp": col("timestamp")}, predicate=predicate)
    setting = LowSettings(skew=0, compiled=compiled)
    minutes = run([lfta], records([{"timestamp": 5, **packet}]), setting)[1].minutes.to_pylist()[0]
    return next(name for name in ("filtered", "failed", "accepted", "not_of_protocol") if minutes[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", ORACLE)
@given(a=st.none() | WORDS, b=st.none() | WORDS)
def test_integer_operators(name: str, a: int | None, b: int | None) -> None:
    """In the kernel and in the reference engine, which counts what fails."""
    expr, wanted, faults = op(col("sequence_number"), name, col("id")), integer(name, a, b), Faults()
    assert evaluate({"x": expr}, {"sequence_number": a, "id": b})["x"] == wanted
    assert compile_expr(expr, ["sequence_number", "id"], faults)((a, b)) == wanted
    assert faults.count == (wanted is None and a is not None and b is not None)


@pytest.mark.slow
def test_compiled_operators_agree_on_every_pair_of_edges() -> None:
    exprs: dict[str, Expr] = {f"x{at}": op(col("sequence_number"), name, col("id")) for at, name in enumerate(ORACLE)}
    exprs |= {"neg": Unary(Type.INT, "-", col("id")), "inv": Unary(Type.INT, "~", col("id"))}
    pairs = [(a, b) for a in EDGES for b in EDGES]
    schemas = [{"timestamp": 5, "sequence_number": a, "id": b} for a, b in pairs]
    rows = data(run([make("q", exprs)], records(schemas), LowSettings(skew=0), batch_rows=1000)[0]["q"])
    for (a, b), row in zip(pairs, rows, strict=True):
        expected = [*(integer(name, a, b) for name in ORACLE), fits(-b), ~b]
        assert [row[key] for key in exprs] == expected, (a, b)


@given(a=WORDS, b=st.floats(-1e6, 1e6) | st.sampled_from([0.0, -0.0]), name=st.sampled_from(["+", "-", "*", "/", "%"]))
def test_float_operators(a: int, b: float, name: str) -> None:
    got = evaluate({"x": op(col("id"), name, lit(b))}, {"id": a})["x"]
    if name in "/%" and b == 0:
        assert got is None
    else:
        x = float(a)
        by_name = {"+": x + b, "-": x - b, "*": x * b, "/": x / (b or 1), "%": math.fmod(x, b or 1)}
        assert got == by_name[name]


TRUTH = {True: op(lit(1), "=", col("len")), False: op(lit(2), "=", col("len")), None: op(lit(1), "=", col("id"))}


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_three_valued_logic(compiled: bool) -> None:
    exprs: dict[str, Expr] = {}
    expected: dict[str, bool | None] = {}
    for a in TRUTH:
        exprs[f"not{a}"], expected[f"not{a}"] = negate(TRUTH[a]), None if a is None else not a
        for b in TRUTH:
            exprs[f"{a}and{b}"] = op(TRUTH[a], "AND", TRUTH[b])
            exprs[f"{a}or{b}"] = op(TRUTH[a], "OR", TRUTH[b])
            expected[f"{a}and{b}"] = False if False in (a, b) else None if None in (a, b) else True
            expected[f"{a}or{b}"] = True if True in (a, b) else None if None in (a, b) else False
    row = evaluate(exprs, {"len": 1, "id": None}, LowSettings(skew=0, compiled=compiled))
    assert {key: row[key] for key in expected} == expected


SHOWN = ("0.0.0.1", "127.0.0.1", "255.0.0.1", "::", "::1", "7fff::", "8000::", "::8000:0:0:1", "ff::")
ADDRESSES = st.sampled_from([None, *map(pack_ip, SHOWN)])
COMPARE: dict[str, Callable[[Any, Any], bool]] = {"=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


def packed(name: str, value: bytes | None) -> Row:
    if value is None:
        return {schemas.ADDRESSES[name]: None}
    high, low = (0, value[1:]) if value[0] == 4 else (int.from_bytes(value[1:9], "big", signed=True), value[9:])
    signed = int.from_bytes(low, "big", signed=value[0] == 6)
    return {schemas.ADDRESSES[name]: value[0], f"{name}_hi": high, f"{name}_lo": signed}


@given(a=ADDRESSES, b=ADDRESSES, column=st.sampled_from(sorted(schemas.ADDRESSES)))
def test_addresses_compare_as_their_bytes(a: bytes | None, b: bytes | None, column: str) -> None:
    exprs: dict[str, Expr] = {name: op(col(column), name, Const(Type.IP, b)) for name in COMPARE}
    row = evaluate({**exprs, "self": col(column)}, packed(column, a))
    assert row["self"] == a
    for name, compare in COMPARE.items():
        wanted = None if a is None or b is None else compare(a, b)
        plain = compile_expr(op(Column(Type.IP, "a"), name, Const(Type.IP, b)), ["a"], Faults())
        assert row[name] is wanted and plain((a,)) is wanted


@pytest.mark.slow
@pytest.mark.parametrize("name", ["&", "|"])
@given(a=ADDRESSES, b=ADDRESSES)
def test_bits_of_addresses_are_those_of_their_bytes(name: str, a: bytes | None, b: bytes | None) -> None:
    packet = packed("srcIP", a)
    masked = Binary(Type.IP, name, col("srcIP"), Const(Type.IP, b))
    same = a is not None and b is not None and a[0] == b[0]
    bits = {"&": and_, "|": or_}[name]
    wanted = a[:1] + bytes(map(bits, a[1:], b[1:])) if same and a and b else None
    assert evaluate({"x": masked}, packet)["x"] == wanted
    found = outcome(op(masked, "=", col("srcIP")), packet)
    if a is None or b is None:
        assert found == "filtered"
    else:
        assert found == ("failed" if not same else "accepted" if wanted == a else "filtered")


@given(a=st.none() | WORDS, b=WORDS, name=st.sampled_from(sorted(COMPARE)))
def test_numbers_compare(a: int | None, b: int, name: str) -> None:
    assert evaluate({"x": op(col("id"), name, lit(b))}, {"id": a})["x"] == (None if a is None else COMPARE[name](a, b))


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("predicate", "expected"),
    [(op(op(lit(1), "/", col("id")), ">", lit(5)), "failed"),
     (op(op(op(lit(1), "/", col("id")), ">", lit(5)), "OR", op(col("len"), "=", lit(60))), "accepted"),
     (op(op(lit(1), "/", col("id")), "=", op(lit(1), "/", col("ttl"))), "failed"),
     (op(op(col("ttl"), "/", col("id")), "=", lit(1)), "filtered"), (op(col("id"), "=", lit(1)), "filtered"),
     (op(op(lit(1), "<<", lit(64)), "=", lit(0)), "failed"),
     (op(lit(MAX), "<", op(lit(MAX), "+", col("len"))), "failed"), (negate(op(col("ttl"), "=", lit(1))), "filtered")],
)  # fmt: skip
def test_a_failure_is_told_from_a_filter(predicate: Expr, expected: str, compiled: bool) -> None:
    assert outcome(predicate, {"id": 0, "ttl": None}, compiled) == expected


def test_the_link_is_a_constant() -> None:
    link = Column(Type.STRING, "interface")
    exprs: dict[str, Expr] = {"interface": link, "here": op(link, "=", lit("L")), "low": op(link, "<", lit("A"))}
    row = evaluate(exprs, {})
    assert (row["interface"], row["here"], row["low"]) == ("L", True, False)


def test_a_float_is_negated_and_grouped_by_value() -> None:
    half: Expr = op(col("len"), "*", lit(0.5))
    row: dict[str, Any] = evaluate({"x": Unary(Type.FLOAT, "-", half), "y": op(half, "<", lit(31))}, {})
    assert (row["x"], row["y"]) == (-30.0, True)


@settings(max_examples=examples(20))
@given(mac=st.integers(0, (1 << 48) - 1))
def test_macs(mac: int) -> None:
    row = evaluate({"m": col("srcMAC"), "e": op(col("srcMAC"), "=", Const(Type.MAC, mac))}, {"srcMAC": mac})
    assert (row["m"], row["e"]) == (mac, True)
