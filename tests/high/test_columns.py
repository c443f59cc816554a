"""Spark columns against their Python meaning: expressions (V1, V2), `Temporal.last`, event time."""

from __future__ import annotations

import itertools
import math
import operator
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pyspark.sql import functions as F

from lowwater.catalog.expr import Binary, Column, Const, Expr, Type, Unary
from lowwater.high.clock import LATEST_MS, EventClock
from lowwater.high.columns import event_time
from lowwater.high.expressions import lower
from lowwater.high.temporal import last
from lowwater.plan.temporal import END_OF_TIME, Step, Temporal
from tests.high.streams import column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
MIN, MAX = -(1 << 63), (1 << 63) - 1
INTS = [None, MIN, MIN + 1, -7, -1, 0, 1, 2, 7, 63, 64, 1 << 40, MAX]
FLOATS = [None, -2.5, 0.0, 0.5, 3.0]


def whole(value: int) -> int | None:
    return value if MIN <= value <= MAX else None


def integer(op: str, a: int, b: int) -> int | None:
    """The value of an integer operation by V2."""
    if op in "+-*":
        return whole({"+": a + b, "-": a - b, "*": a * b}[op])
    if op in "/%":
        if b == 0:
            return None
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return whole(quotient) if op == "/" else a - b * quotient
    if op in "&|":
        return a & b if op == "&" else a | b
    if not 0 <= b <= 63:
        return None
    shifted = a << b if op == "<<" else a >> b
    return shifted if -(1 << 63) <= shifted < 1 << 63 else None


def evaluate(
    spark: SparkSession, exprs: Sequence[Expr], rows: list[tuple[Any, ...]], types: str
) -> list[tuple[Any, ...]]:
    frame = spark.createDataFrame(rows, types)
    return [tuple(row) for row in frame.select(*(lower(e).alias(str(i)) for i, e in enumerate(exprs))).collect()]


@pytest.mark.parametrize("constant", [False, True], ids=["columns", "constant right side"])
def test_integer_arithmetic(spark: SparkSession, constant: bool) -> None:
    ops = ["+", "-", "*", "/", "%", "&", "|", "<<", ">>"]
    a, b = column("a"), column("b")
    if constant:
        exprs = [Binary(Type.INT, op, a, Const(Type.INT, y)) for op in ops for y in INTS]
        found = evaluate(spark, exprs, [(x,) for x in INTS], "a bigint")
        pairs = [[(op, x, y) for op in ops for y in INTS] for x in INTS]
    else:
        rows = list(itertools.product(INTS, INTS))
        found = evaluate(spark, [Binary(Type.INT, op, a, b) for op in ops], rows, "a bigint, b bigint")
        pairs = [[(op, x, y) for op in ops] for x, y in rows]
    for row, asked in zip(found, pairs, strict=True):
        for value, (op, x, y) in zip(row, asked, strict=True):
            assert value == (None if x is None or y is None else integer(op, x, y)), (op, x, y)


def test_unary_and_float_arithmetic(spark: SparkSession) -> None:
    a, f = column("a"), column("f", Type.FLOAT)
    exprs: list[Expr] = [Unary(Type.INT, "-", a), Unary(Type.INT, "~", a), Unary(Type.FLOAT, "-", f)]
    exprs += [Binary(Type.FLOAT, op, a, f) for op in "+-*/%"]
    rows = list(itertools.product([None, MIN, -7, 0, 3], FLOATS))
    for (x, y), row in zip(rows, evaluate(spark, exprs, rows, "a bigint, f double"), strict=True):
        assert row[0] == (None if x is None else whole(-x))
        assert row[1] == (None if x is None else ~x)
        assert row[2] == (None if y is None else -y)
        for op, value in zip("+-*/%", row[3:], strict=True):
            if x is None or y is None or (op in "/%" and y == 0):
                assert value is None
            else:
                wanted = {"+": x + y, "-": x - y, "*": x * y}.get(op)
                wanted = (x / y if op == "/" else math.fmod(x, y)) if wanted is None else wanted
                assert value == pytest.approx(wanted, rel=1e-12)


def test_bits_of_addresses(spark: SparkSession) -> None:
    chance = random.Random(4)
    known = [None, *(bytes([4, *chance.randbytes(4)]) for _ in range(9)), b"\x04\xff\xff\xff\xff", b"\x04" + bytes(4)]
    known += [*(bytes([6, *chance.randbytes(16)]) for _ in range(9)), b"\x06" + b"\xff" * 16, b"\x06" + bytes(16)]
    rows = list(itertools.product(known, known))
    exprs = [Binary(Type.IP, op, column("a", Type.IP), column("b", Type.IP)) for op in "&|"]
    for (x, y), row in zip(rows, evaluate(spark, exprs, rows, "a binary, b binary"), strict=True):
        for bits, value in zip((operator.and_, operator.or_), row, strict=True):
            whole = x is not None and y is not None and x[0] == y[0]
            assert value == (x[:1] + bytes(map(bits, x[1:], y[1:])) if whole and x and y else None)


def test_comparison_and_three_valued_logic(spark: SparkSession) -> None:
    p, q = column("p", Type.BOOL), column("q", Type.BOOL)
    exprs: list[Expr] = [Binary(Type.BOOL, "AND", p, q), Binary(Type.BOOL, "OR", p, q), Unary(Type.BOOL, "NOT", p)]
    truth = [None, False, True]
    rows = list(itertools.product(truth, truth))
    for (x, y), row in zip(rows, evaluate(spark, exprs, rows, "p boolean, q boolean"), strict=True):
        assert row[0] is (False if x is False or y is False else None if x is None or y is None else True)
        assert row[1] is (True if x or y else None if x is None or y is None else False)
        assert row[2] is (None if x is None else not x)
    low, high = b"\x04\xff\xff\xff\xff", b"\x06" + bytes(16)
    ip = Column(Type.IP, "ip")
    exprs = [Binary(Type.BOOL, op, ip, Const(Type.IP, high)) for op in ("<", "<=", "=", "<>", ">", ">=")]
    found = evaluate(spark, exprs, [(bytearray(low),), (bytearray(high),), (None,)], "ip binary")
    assert found == [(True, True, False, True, False, False), (False, True, True, False, False, True), (None,) * 6]
    mixed = Binary(Type.BOOL, "<", column("a"), column("f", Type.FLOAT))
    assert evaluate(spark, [mixed], [(1, 1.5), (2, 1.5), (None, 1.5)], "a bigint, f double") == [
        (True,),
        (False,),
        (None,),
    ]


def chains(chance: random.Random, falling: bool) -> Temporal:
    """A random attribute of one or two components in one direction."""
    components = []
    for _ in range(chance.choice([1, 1, 2])):
        steps = [
            chance.choice(
                [
                    Step("add", chance.randint(-50, 50)),
                    Step("mul", chance.randint(1, 9)),
                    Step("div", chance.choice([1, 3, 10, 60])),
                    Step("neg"),
                ]
            )
            for _ in range(chance.randint(0, 5))
        ]
        if (sum(step.op == "neg" for step in steps) % 2 == 1) != falling:
            steps.append(Step("neg"))
        components.append(tuple(steps))
    return Temporal(tuple(components))


def test_last_is_that_of_the_plan(spark: SparkSession) -> None:
    chance = random.Random(7)
    values = [None, *range(-12, 13), 10**9, -(10**9), *(chance.randint(-(10**6), 10**6) for _ in range(20))]
    frame = spark.createDataFrame([(i, value) for i, value in enumerate(values)], "i int, v bigint")
    attributes = [chains(chance, bool(number % 2)) for number in range(60)]
    columns = [last(attribute, F.col("v")) for attribute in attributes]
    rows = frame.select("i", *(c.alias(f"c{n}") for n, c in enumerate(columns))).orderBy("i").collect()
    for value, row in zip(values, rows, strict=True):
        if value is None:
            assert set(row[1:]) == {None}
            continue
        wanted = [attribute.last(value) for attribute in attributes]
        assert list(row[1:]) == wanted


def test_an_end_beyond_64_bits_is_the_last_instant(spark: SparkSession) -> None:
    hours = Temporal(((Step("div", 3_600_000_000_000),),))
    assert spark.range(1).select(last(hours, F.lit(MAX).cast("bigint"))).collect()[0][0] == END_OF_TIME - 1


@pytest.mark.parametrize("clock", [EventClock(-1, 1), EventClock(10**18, 1000), EventClock(5, 1_000_000)])
def test_event_time_is_the_same_on_both_sides(spark: SparkSession, clock: EventClock) -> None:
    lasts = [clock.base + clock.unit + offset for offset in (0, 1, 999, 10**9, 10**15)] + [END_OF_TIME, MAX]
    wanted = clock.row_ms(np.array(lasts, np.int64)).tolist()
    frame = spark.createDataFrame([(value,) for value in lasts], "l bigint")
    found = frame.select(F.unix_millis(event_time(clock, F.col("l")))).collect()
    assert [row[0] for row in found] == wanted
    assert wanted[0] == 2 and wanted[-1] <= LATEST_MS
