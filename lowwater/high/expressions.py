"""Bound expressions as Spark columns, with the values of SEMANTICS V1 and V2 under ANSI mode.

Read by every operator of the lowering. Nothing here raises at run time: what has no value is NULL.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import Column as Spark
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf

from lowwater.catalog.calls import Coded, called
from lowwater.catalog.expr import (
    ARITHMETIC,
    BITWISE,
    COMPARISON,
    SUMMABLE,
    SUMMED,
    Binary,
    Call,
    Case,
    Column,
    Const,
    Expr,
    OneOf,
    Type,
    Unary,
    walk,
)

SPARK_TYPES: dict[Type, str] = {
    Type.BOOL: "boolean",
    Type.INT: "bigint",
    Type.FLOAT: "double",
    Type.IP: "binary",
    Type.MAC: "bigint",
    Type.STRING: "string",
}

Resolve = Callable[[str], Spark]


def plain(name: str) -> Spark:
    """The column of this name, dots and all."""
    return F.col(f"`{name}`")


def lower(expr: Expr, column: Resolve = plain) -> Spark:
    """The Spark column of a bound expression.

    Args:
        expr: over the columns of one row.
        column: gives the Spark column behind a name.
    """
    if isinstance(expr, Const):
        value = bytearray(expr.value) if isinstance(expr.value, bytes) else expr.value
        return F.lit(value).cast(SPARK_TYPES[expr.type])
    if isinstance(expr, Column):
        return column(expr.name)
    if isinstance(expr, Unary):
        return _unary(expr, lower(expr.operand, column))
    if isinstance(expr, Case):
        return _case(expr, column)
    if isinstance(expr, OneOf):
        operand = lower(expr.operand, column)
        values = [bytearray(value) if isinstance(value, bytes) else value for value in expr.values]
        return (operand.cast("double") if expr.kind is Type.FLOAT else operand).isin(values)
    if isinstance(expr, Call):
        return _call(expr, [lower(argument, column) for argument in expr.arguments])
    if _is_float(expr):
        found = _float(expr, column)
        return F.when(F.abs(found) < F.lit(math.inf), found)
    if isinstance(expr, Binary):
        return _binary(expr, lower(expr.left, column), lower(expr.right, column))
    raise TypeError(type(expr).__name__)


def beforehand(frame: DataFrame, expr: Expr, name: str) -> tuple[DataFrame, Expr]:
    """A frame with the value of an expression as a column of this name, if functions are called in it.

    Spark evaluates Python in projections and filters, and not in what is observed of a frame.
    """
    if not any(isinstance(node, Call) for node in walk(expr)):
        return frame, expr
    return frame.withColumn(name, lower(expr)), Column(expr.type, name)


def _call(expr: Call, arguments: list[Spark]) -> Spark:
    """A call of the Python value in Spark's workers, over Arrow columns."""
    function = expr.function

    def value(*columns: pa.Array) -> pa.Array:
        given = [Coded.of(column) for column in columns]
        return called(function, given, len(columns[0])).array(function.returns)

    # The overloads ask for a kind of function, which Spark reads from the annotations of `value`.
    make: Any = arrow_udf
    found: Spark = make(value, SPARK_TYPES[expr.type])(*arguments)
    return found


def _case(expr: Case, column: Resolve) -> Spark:
    (when, then), *others = ((lower(when, column), lower(then, column)) for when, then in expr.branches)
    chosen = F.when(when, then)
    for when, then in others:
        chosen = chosen.when(when, then)
    return chosen.otherwise(lower(expr.otherwise, column))


def _unary(expr: Unary, operand: Spark) -> Spark:
    if expr.op == "NOT":
        return ~operand
    if expr.op == "IS NULL":
        return operand.isNull()
    if expr.op == "~":
        return F.bitwise_not(operand)
    if expr.op == SUMMED:
        return F.when(F.abs(operand) <= F.lit(SUMMABLE), operand).when(operand.isNotNull(), F.lit(math.nan))
    return -operand if expr.type is Type.FLOAT else F.try_subtract(_int(0), operand)


def _binary(expr: Binary, left: Spark, right: Spark) -> Spark:
    if expr.op in COMPARISON:
        if {expr.left.type, expr.right.type} == {Type.INT, Type.FLOAT}:
            left, right = left.cast("double"), right.cast("double")
        return _compare(expr.op, left, right)
    if expr.op in ARITHMETIC:
        return _integer(expr, left, right)
    if expr.op in BITWISE:
        return _bitwise(expr, left, right)
    return (left & right) if expr.op == "AND" else (left | right)


def _compare(op: str, left: Spark, right: Spark) -> Spark:
    if op == "=":
        return left == right
    if op == "<>":
        return left != right
    if op == "<":
        return left < right
    if op == "<=":
        return left <= right
    return left > right if op == ">" else left >= right


def _is_float(expr: Expr) -> bool:
    return isinstance(expr, Binary) and expr.op in ARITHMETIC and expr.type is Type.FLOAT


def _float(expr: Expr, column: Resolve) -> Spark:
    """Arithmetic of floats that may be infinite or NaN, where its value is NULL (V2).

    Nothing makes a finite number of these again but a division by one, so that they are asked once and not at each
    operator: to ask writes the expression twice.
    """
    if not _is_float(expr):
        return lower(expr, column).cast("double")
    assert isinstance(expr, Binary)
    op, left = expr.op, _float(expr.left, column)
    right = lower(expr.right, column).cast("double") if op in ("/", "%") else _float(expr.right, column)
    if op == "+":
        return left + right
    if op == "-":
        return left - right
    if op == "*":
        return left * right
    divisor = F.nullif(right, F.lit(0.0))
    return left / divisor if op == "/" else left % divisor


def _integer(expr: Binary, left: Spark, right: Spark) -> Spark:
    if expr.op == "+":
        return F.try_add(left, right)
    if expr.op == "-":
        return F.try_subtract(left, right)
    if expr.op == "*":
        return F.try_multiply(left, right)
    known = expr.right.value if isinstance(expr.right, Const) else None
    divisor = right if known else F.nullif(right, _int(0))
    if expr.op == "%":
        return left % divisor
    quotient = F.call_function("div", left, divisor)
    if known not in (None, -1):
        return quotient
    # Spark raises where MIN / -1 overflows; a negation that cannot raise has the value of every other x / -1.
    return F.when(right == -1, F.try_subtract(_int(0), left)).otherwise(quotient)


def _bitwise(expr: Binary, left: Spark, right: Spark) -> Spark:
    if expr.type is Type.IP:
        return _masked(expr.op, left, right)
    if expr.op == "&":
        return left.bitwiseAND(right)
    if expr.op == "|":
        return left.bitwiseOR(right)
    count = right.try_cast("int")
    shifted = F.call_function("shiftright" if expr.op == ">>" else "shiftleft", left, count)
    if expr.op == ">>":
        return F.when(right.between(0, 63), shifted)
    # What leaves 64 bits does not come back.
    return F.when(right.between(0, 63) & (F.call_function("shiftright", shifted, count) == left), shifted)


def _masked(op: str, left: Spark, right: Spark) -> Spark:
    """Bits of two addresses of one family, NULL of two: Spark has them of integers only, eight bytes at a time."""

    def word(address: Spark, at: int) -> Spark:
        return F.conv(F.hex(F.substring(address, at, 8)), 16, -10).cast("bigint")

    def merged(at: int, size: int) -> Spark:
        a, b = word(left, at), word(right, at)
        bits = a.bitwiseAND(b) if op == "&" else a.bitwiseOR(b)
        return F.unhex(F.lpad(F.hex(bits), 2 * size, "0"))

    family = F.substring(left, 1, 1)
    value = F.when(F.length(left) == 5, merged(2, 4)).otherwise(F.concat(merged(2, 8), merged(10, 8)))
    return F.when(family == F.substring(right, 1, 1), F.concat(family, value))


def _int(value: int) -> Spark:
    return F.lit(value).cast("bigint")
