"""Values of expressions (V1, V2): by table, and against the arithmetic that the kernels compile."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from lowwater.catalog.expr import COMPARISON, LOGICAL, Binary, Column, Const, Expr, Type, Unary
from lowwater.catalog.values import pack_ip
from lowwater.low.runtime import arithmetic as arith
from lowwater.stream.values import Faults, compile_expr

MIN, MAX = -(1 << 63), (1 << 63) - 1


def const(value: int | float | bool | str | bytes | None) -> Const:
    kinds = {bool: Type.BOOL, float: Type.FLOAT, str: Type.STRING, bytes: Type.IP}
    return Const(kinds.get(type(value), Type.INT), value)


def op(left: Expr, symbol: str, right: Expr | int) -> Binary:
    """`left symbol right`; FLOAT where a side is, BOOL where the operator compares."""
    other = right if isinstance(right, Expr) else const(right)
    kind = Type.FLOAT if Type.FLOAT in (left.type, other.type) else left.type
    return Binary(Type.BOOL if symbol in COMPARISON + LOGICAL else kind, symbol, left, other)


NULL, NO_FLAG, YES, NO = const(None), Const(Type.BOOL, None), const(True), const(False)
FAULT = op(op(const(1), "/", 0), "=", 1)
V4, V6 = pack_ip("255.255.255.255"), pack_ip("::1")

TABLE: list[tuple[Expr, object, int]] = [
    (op(const(7), "/", -2), -3, 0),
    (op(const(-7), "/", 2), -3, 0),
    (op(const(-7), "%", 2), -1, 0),
    (op(const(7), "%", -2), 1, 0),
    (op(const(7), "/", 0), None, 1),
    (op(const(7), "%", 0), None, 1),
    (op(const(MIN), "/", -1), None, 1),
    (op(const(MAX), "+", 1), None, 1),
    (op(const(MIN), "-", 1), None, 1),
    (op(const(MAX), "*", 2), None, 1),
    (Unary(Type.INT, "-", const(MIN)), None, 1),
    (op(NULL, "/", 0), None, 0),
    (op(op(const(7), "/", 0), "+", 1), None, 1),
    (op(const(1), "<<", 63), None, 1),
    (op(const(3), "<<", 63), None, 1),
    (op(const(-1), "<<", 63), MIN, 0),
    (op(const(MIN), "%", -1), 0, 0),
    (op(const(1), "<<", 64), None, 1),
    (op(const(1), "<<", -1), None, 1),
    (op(const(-8), ">>", 63), -1, 0),
    (op(const(-8), ">>", 64), None, 1),
    (op(const(12), "&", 10), 8, 0),
    (op(const(12), "|", 3), 15, 0),
    (Unary(Type.INT, "~", const(5)), -6, 0),
    (op(const(1.5), "/", const(0.0)), None, 1),
    (op(const(1), "/", const(4.0)), 0.25, 0),
    (op(const(1e308), "*", const(10.0)), None, 1),
    (op(const(math.inf), "-", const(1.0)), None, 1),
    (op(const(MAX), "=", const(float(1 << 63))), True, 0),
    (op(NULL, "=", NULL), None, 0),
    (op(const(V4), "<", const(V6)), True, 0),
    (Unary(Type.BOOL, "NOT", NO_FLAG), None, 0),
    (Unary(Type.BOOL, "NOT", NO), True, 0),
    (Const(Type.FLOAT, 2), 2.0, 0),
    (op(FAULT, "AND", NO), False, 1),
    (op(FAULT, "OR", YES), True, 1),
]


@pytest.mark.parametrize(("expr", "expected", "faults"), TABLE)
def test_values(expr: Expr, expected: object, faults: int) -> None:
    counted = Faults()
    value = compile_expr(expr, [], counted)(())
    assert (value, type(value), counted.count) == (expected, type(expected), faults)


KLEENE = {True: YES, False: NO, None: NO_FLAG}


@pytest.mark.parametrize("a", KLEENE)
@pytest.mark.parametrize("b", KLEENE)
def test_three_valued_logic(a: bool | None, b: bool | None) -> None:
    def value(symbol: str) -> object:
        return compile_expr(op(KLEENE[a], symbol, KLEENE[b]), [], Faults())(())

    assert value("AND") is (False if False in (a, b) else None if None in (a, b) else True)
    assert value("OR") is (True if True in (a, b) else None if None in (a, b) else False)


WORDS = st.one_of(st.integers(MIN, MAX), st.integers(-3, 3), st.sampled_from([MIN, MIN + 1, MAX, MAX - 1, 63, 64]))
KERNEL = {"+": "add", "-": "sub", "*": "mul", "/": "div", "%": "mod", "<<": "shl", ">>": "shr"}


@given(WORDS, WORDS, st.sampled_from(sorted(KERNEL)))
def test_integers_are_those_of_the_kernels(a: int, b: int, symbol: str) -> None:
    faults = Faults()
    columns = Column(Type.INT, "a"), Column(Type.INT, "b")
    value = compile_expr(Binary(Type.INT, symbol, *columns), ["a", "b"], faults)((a, b))
    word, failed = getattr(arith, KERNEL[symbol])(a, b)
    assert (value, faults.count) == (None if failed else word, int(failed))
