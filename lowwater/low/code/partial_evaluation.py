"""Expressions as the packets of one link see them, and which values no kernel computes.

Below `low.code.expressions`. The name of the link is a constant there, so what compares it has one answer for all
packets.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from lowwater.catalog.expr import COMPARISON, Binary, Call, Case, Column, Const, Expr, OneOf, Type, rewrite

ON_TEXT: dict[str, Callable[[str, str], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def of_link(expr: Expr, link: str) -> Expr:
    """The expression as packets of one link see it: `interface` is its name, comparisons of constants are folded."""

    def change(node: Expr) -> Expr:
        if isinstance(node, Column) and node.name == "interface":
            return Const(Type.STRING, link)
        if isinstance(node, OneOf) and isinstance(node.operand, Const) and not node.operand.param:
            value = node.operand.value
            return Const(Type.BOOL, None if value is None else node.holds()(value))
        if isinstance(node, Binary) and isinstance(node.left, Const) and isinstance(node.right, Const):
            return _fold(node, node.left, node.right)
        return node

    return rewrite(expr, change)


def _fold(node: Binary, left: Const, right: Const) -> Expr:
    if node.op not in COMPARISON or Type.STRING not in (left.type, right.type):
        return node
    # What depends on a parameter stays one: its value is an argument of the kernel.
    param = (
        f"{left.param or left.value!r} {node.op} {right.param or right.value!r}" if left.param or right.param else ""
    )
    if left.value is None or right.value is None:
        return Const(Type.BOOL, None)
    return Const(Type.BOOL, ON_TEXT[node.op](str(left.value), str(right.value)), param)


def hosted(expr: Expr) -> bool:
    """Whether a value is computed beside the kernel: a call, a list, a text, what compares texts; no CASE of texts."""
    if isinstance(expr, Call | OneOf):
        return True
    if isinstance(expr, Column | Const):
        return expr.type is Type.STRING
    return not isinstance(expr, Case) and any(child.type is Type.STRING for child in expr.children())


def computed(expr: Expr) -> list[Expr]:
    """What the kernel computes of the arguments of a hosted value."""
    found: list[Expr] = []
    for child in expr.children():
        if hosted(child):
            found += computed(child)
        elif not isinstance(child, Column | Const):
            found.append(child)
    return found
