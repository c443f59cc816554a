"""Operators on Spark over columns: every pair of edges, against the kernels' definition and against DuckDB."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import duckdb
import pytest

from lowwater.catalog.expr import Binary, Column, Expr, Type
from lowwater.high.expressions import lower
from lowwater.reference.values import Faults, compile_expr
from tests.low.test_expressions import EDGES, integer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


@pytest.mark.spark
def test_integer_operators_over_columns(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(a, b) for a in EDGES for b in EDGES], "a bigint, b bigint")
    exprs = _expressions(Type.INT, OPERATORS)
    rows = frame.select("a", "b", *(lower(expr).alias(op) for op, expr in exprs.items())).collect()
    assert [
        (row.a, row.b, op, row[op]) for row in rows for op in OPERATORS if row[op] != integer(op, row.a, row.b)
    ] == []


@pytest.mark.spark
def test_float_operators_over_columns(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(a, b) for a in FLOATS for b in FLOATS], "a double, b double")
    exprs = _expressions(Type.FLOAT, ("+", "-", "*", "/", "%"))
    chained = {f"({op})+a": Binary(Type.FLOAT, "+", expr, Column(Type.FLOAT, "a")) for op, expr in exprs.items()}
    chained |= {f"a/({op})": Binary(Type.FLOAT, "/", Column(Type.FLOAT, "a"), expr) for op, expr in exprs.items()}
    exprs |= chained
    rows = frame.select("a", "b", *(lower(expr).alias(op) for op, expr in exprs.items())).collect()
    for op, expr in exprs.items():
        value = compile_expr(expr, ["a", "b"], Faults())
        assert [(row.a, row.b, row[op]) for row in rows if row[op] != value((row.a, row.b))] == [], op
        assert all(row[op] is None or math.isfinite(row[op]) for row in rows)
