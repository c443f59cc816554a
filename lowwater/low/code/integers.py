"""Integer operators as code, with an overflow test only if the bounds of the operands allow an overflow (V2).

Below `low.code.expressions`. A column has the bounds of its stored type, so a port plus 1 needs no test.
"""

from __future__ import annotations

from lowwater.low.code.operands import Operand
from lowwater.low.runtime.arithmetic import MAX, MIN, truncate

Bounded = tuple[str, int, int]
"""Code of a result, with its lower and upper bound."""

_CHECKED_FUNCTIONS = {"+": "add", "-": "sub", "*": "mul", "/": "div", "%": "mod", "<<": "shl", ">>": "shr"}


def checked_operation(op: str, a: str, b: str) -> str:
    """Returns the call of `low.runtime.arithmetic` that gives the result and whether it failed."""
    return f"{_CHECKED_FUNCTIONS[op]}({a}, {b})"


def plain_operation(op: str, a: str, left: Operand, b: str = "", right: Operand | None = None) -> Bounded | None:
    """Returns the code of an operator that cannot fail, with the bounds of its result; None if it can fail.

    Args:
        op: the operator of GSQL; `neg` for unary minus.
        a: code of the left operand.
        left: bounds of the left operand.
        b: code of the right operand; empty for a unary operator.
        right: bounds of the right operand; None for a unary operator.
    """
    if op == "~":
        return f"~{a}", -left.most - 1, -left.least - 1
    if op == "neg":
        return _if_fits(f"-{a}", -left.most, -left.least)
    assert right is not None
    if op in ("&", "|"):
        return _bitwise(op, f"{a} {op} {b}", left, right)
    if op == "+":
        return _if_fits(f"{a} + {b}", left.least + right.least, left.most + right.most)
    if op == "-":
        return _if_fits(f"{a} - {b}", left.least - right.most, left.most - right.least)
    if op == "*":
        ends = [x * y for x in (left.least, left.most) for y in (right.least, right.most)]
        return _if_fits(f"{a} * {b}", min(ends), max(ends))
    return None if right.literal is None else _by_constant(op, a, left, right.literal)


def _if_fits(text: str, least: int, most: int) -> Bounded | None:
    return (text, least, most) if least >= MIN and most <= MAX else None


def _bitwise(op: str, text: str, left: Operand, right: Operand) -> Bounded:
    if op == "&":
        tops = [side.most for side in (left, right) if side.least >= 0]
        return (text, 0, min(tops)) if tops else (text, MIN, MAX)
    if left.least >= 0 and right.least >= 0:
        return text, 0, (1 << max(left.most, right.most).bit_length()) - 1
    return text, MIN, MAX


def _by_constant(op: str, a: str, left: Operand, b: int) -> Bounded | None:
    if op == "/" and b not in (0, -1):
        text = f"{a} // ({b})" if left.least >= 0 and b > 0 else f"truncate({a}, ({b}))"
        ends = [truncate(left.least, b), truncate(left.most, b)]
        return text, min(ends), max(ends)
    if op == "%" and b > 0 and left.least >= 0:
        return f"{a} % ({b})", 0, min(left.most, b - 1)
    if op == ">>" and 0 <= b < 64:
        return f"{a} >> ({b})", left.least >> b, left.most >> b
    if op == "<<" and 0 <= b < 63 and left.least >= 0:
        return _if_fits(f"{a} << ({b})", left.least << b, left.most << b)
    return None
