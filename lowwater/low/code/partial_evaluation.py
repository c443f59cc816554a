"""Evaluates expressions partially for one link, and decides which values the kernel cannot compute.

Below `low.code.expressions`. The name of the link is a constant there, so a comparison with it has one result for all
packets.
"""

from __future__ import annotations

from lowwater.catalog.expr import COMPARE, COMPARISON, Binary, Call, Case, Column, Const, Expr, OneOf, Type, rewrite


def of_link(expr: Expr, link: str) -> Expr:
    """Returns the expression for packets of one link: `interface` is a constant, and its comparisons are folded."""

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
    # The result of a parameter stays a parameter: its value is an argument of the kernel.
    param = (
        f"{left.param or left.value!r} {node.op} {right.param or right.value!r}" if left.param or right.param else ""
    )
    if left.value is None or right.value is None:
        return Const(Type.BOOL, None)
    return Const(Type.BOOL, COMPARE[node.op](str(left.value), str(right.value)), param)


def is_hosted(expr: Expr) -> bool:
    """Whether an expression is a host value, computed beside the kernel: a call, a list, a string or its comparison.

    A CASE of strings is not a host value.
    """
    if isinstance(expr, Call | OneOf):
        return True
    if isinstance(expr, Column | Const):
        return expr.type is Type.STRING
    return not isinstance(expr, Case) and any(child.type is Type.STRING for child in expr.children())


def kernel_arguments(expr: Expr) -> list[Expr]:
    """Returns the parts of a host value's arguments that the kernel computes."""
    parts: list[Expr] = []
    for child in expr.children():
        if is_hosted(child):
            parts += kernel_arguments(child)
        elif not isinstance(child, Column | Const):
            parts.append(child)
    return parts
