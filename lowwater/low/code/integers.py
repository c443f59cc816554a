"""Integer operators as code: with a test where they can fail (V2), without one where the operands say that they cannot.

Below `low.code.expressions`. The bounds of a column are those of its stored type, so a port plus one is never asked.
"""

from __future__ import annotations

from lowwater.low.code.values import Value
from lowwater.low.runtime.arithmetic import MAX, MIN, truncate

Found = tuple[str, int, int]
"""Code of the result, and its bounds."""

_CHECKED = {"+": "add", "-": "sub", "*": "mul", "/": "div", "%": "mod", "<<": "shl", ">>": "shr"}


def checked(op: str, a: str, b: str) -> str:
    """The call of `low.runtime.arithmetic` that gives the result and whether it failed."""
    return f"{_CHECKED[op]}({a}, {b})"


def unchecked(op: str, a: str, left: Value, b: str = "", right: Value | None = None) -> Found | None:
    """The operator where it cannot fail, with the bounds of the result; else None.

    Args:
        op: as in GSQL; `neg` for unary minus.
        a: code of the left operand, `left` what is known of it; `b` and `right` of the other one.
    """
    if op == "~":
        return f"~{a}", -left.most - 1, -left.least - 1
    if op == "neg":
        return _fitting(f"-{a}", -left.most, -left.least)
    assert right is not None
    if op in ("&", "|"):
        return _bitwise(op, f"{a} {op} {b}", left, right)
    if op == "+":
        return _fitting(f"{a} + {b}", left.least + right.least, left.most + right.most)
    if op == "-":
        return _fitting(f"{a} - {b}", left.least - right.most, left.most - right.least)
    if op == "*":
        ends = [x * y for x in (left.least, left.most) for y in (right.least, right.most)]
        return _fitting(f"{a} * {b}", min(ends), max(ends))
    return None if right.literal is None else _by_constant(op, a, left, right.literal)


def _fitting(text: str, least: int, most: int) -> Found | None:
    return (text, least, most) if least >= MIN and most <= MAX else None


def _bitwise(op: str, text: str, left: Value, right: Value) -> Found:
    if op == "&":
        tops = [each.most for each in (left, right) if each.least >= 0]
        return (text, 0, min(tops)) if tops else (text, MIN, MAX)
    if left.least >= 0 and right.least >= 0:
        return text, 0, (1 << max(left.most, right.most).bit_length()) - 1
    return text, MIN, MAX


def _by_constant(op: str, a: str, left: Value, b: int) -> Found | None:
    if op == "/" and b not in (0, -1):
        text = f"{a} // ({b})" if left.least >= 0 and b > 0 else f"truncate({a}, ({b}))"
        ends = [truncate(left.least, b), truncate(left.most, b)]
        return text, min(ends), max(ends)
    if op == "%" and b > 0 and left.least >= 0:
        return f"{a} % ({b})", 0, min(left.most, b - 1)
    if op == ">>" and 0 <= b < 64:
        return f"{a} >> ({b})", left.least >> b, left.most >> b
    if op == "<<" and 0 <= b < 63 and left.least >= 0:
        return _fitting(f"{a} << ({b})", left.least << b, left.most << b)
    return None
