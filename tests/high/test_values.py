"""Operators over columns: every pair of edges, against the kernels' definition and against DuckDB."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa

from lowwater.catalog.expr import Binary, Column, Expr, Type
from lowwater.columns.values import evaluate
from lowwater.stream.values import Faults, compile_expr
from tests.low.test_expressions import EDGES, integer

OPERATORS = ("+", "-", "*", "/", "%", "&", "|", "<<", ">>")
FLOATS = [0.0, -0.0, 1.5, -1e-308, 1e308, -1e308, 2.0**960, math.inf, -math.inf, math.nan]
ORACLE = {
    **{op: f"TRY_CAST(a::HUGEINT {op} b::HUGEINT AS BIGINT)" for op in ("+", "-", "&", "|")},
    "*": "TRY_CAST(TRY(a::HUGEINT * b::HUGEINT) AS BIGINT)",
    "/": "TRY_CAST(a::HUGEINT // nullif(b, 0)::HUGEINT AS BIGINT)",
    "%": "TRY_CAST(a::HUGEINT % nullif(b, 0)::HUGEINT AS BIGINT)",
    "<<": "CASE WHEN b BETWEEN 0 AND 63 THEN TRY_CAST(a::HUGEINT * (1::HUGEINT << b::INT) AS BIGINT) END",
    ">>": "CASE WHEN b BETWEEN 0 AND 63 THEN a >> b END",
}


def _expressions(kind: Type, operators: tuple[str, ...]) -> dict[str, Expr]:
    return {op: Binary(kind, op, Column(kind, "a"), Column(kind, "b")) for op in operators}


def test_the_definition_of_integer_operators_is_that_of_duckdb() -> None:
    pairs = [(a, b) for a in EDGES for b in EDGES]
    with duckdb.connect() as oracle:
        oracle.execute("CREATE TABLE pairs (a BIGINT, b BIGINT)")
        oracle.executemany("INSERT INTO pairs VALUES (?, ?)", pairs)
        for op in OPERATORS:
            found = oracle.execute(f"SELECT a, b, {ORACLE[op]} FROM pairs").fetchall()
            assert [row for row in found if row[2] != integer(op, row[0], row[1])] == [], op


def _columns(values: Sequence[int] | Sequence[float]) -> tuple[dict[str, pa.Array], list[tuple[Any, Any]]]:
    pairs = [(a, b) for a in values for b in values]
    return {name: pa.array([pair[at] for pair in pairs]) for at, name in enumerate("ab")}, pairs


def test_integer_operators_over_columns() -> None:
    columns, pairs = _columns(EDGES)
    for op, expr in _expressions(Type.INT, OPERATORS).items():
        found = evaluate(expr, columns.__getitem__, len(pairs)).to_pylist()
        assert [(a, b, x) for (a, b), x in zip(pairs, found, strict=True) if x != integer(op, a, b)] == [], op


def test_float_operators_over_columns() -> None:
    columns, pairs = _columns(FLOATS)
    exprs = _expressions(Type.FLOAT, ("+", "-", "*", "/", "%"))
    chained = {f"({op})+a": Binary(Type.FLOAT, "+", expr, Column(Type.FLOAT, "a")) for op, expr in exprs.items()}
    chained |= {f"a/({op})": Binary(Type.FLOAT, "/", Column(Type.FLOAT, "a"), expr) for op, expr in exprs.items()}
    for op, expr in (exprs | chained).items():
        value = compile_expr(expr, ["a", "b"], Faults())
        found = evaluate(expr, columns.__getitem__, len(pairs)).to_pylist()
        assert [(pair, x) for pair, x in zip(pairs, found, strict=True) if x != value(pair)] == [], op
        assert all(x is None or math.isfinite(x) for x in found)
