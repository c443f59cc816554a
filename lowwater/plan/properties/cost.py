"""The cost model: the cost of an expression, and whether the low level may evaluate it.

The rules that split a plan and the prefilter read it. An expression is LFTA-safe if all its functions are LFTA-legal
and cheaper than the threshold (004, Splitting Selection and Aggregation Queries). The default threshold keeps functions
of cost HIGH at the high level.
"""

from __future__ import annotations

from lowwater.catalog.expr import (
    COMPARISON,
    Binary,
    Call,
    Case,
    Column,
    Const,
    Expr,
    OneOf,
    Param,
    StateCall,
    Type,
    columns_of,
    walk,
)
from lowwater.catalog.functions import Cost
from lowwater.catalog.packets import SAMPLING_RATE

PREFILTER_LIMIT = 10
"""A conjunct that costs less may go into the prefilter (shared rules of GSQL, section 6)."""

WIDE_COST = 10
"""Cost of comparing two strings or addresses; comparing two numbers costs 1."""


def cost(expr: Expr) -> int:
    """Returns the number of operations of one evaluation.

    Example:
        >>> from lowwater.catalog.expr import Const
        >>> cost(Binary(Type.BOOL, "=", Column(Type.INT, "protocol"), Const(Type.INT, 6)))
        1
    """
    total = 0
    for node in walk(expr):
        if isinstance(node, Call):
            total += node.function.cost
        elif isinstance(node, Binary):
            wide = node.op in COMPARISON and node.left.type in (Type.STRING, Type.IP)
            total += WIDE_COST if wide and not _compares_link(node) else 1
        elif isinstance(node, OneOf):
            total += WIDE_COST
        elif isinstance(node, Case | StateCall) or type(node).__name__ == "Unary":
            total += 1
    return total


def _compares_link(node: Binary) -> bool:
    # The link is the same for all packets of a pass.
    return any(isinstance(side, Column) and side.name == "interface" for side in (node.left, node.right))


def unsafe(expr: Expr, threshold: int = Cost.HIGH) -> str:
    """Returns why the low level may not evaluate an expression; empty if it may.

    Args:
        expr: the expression.
        threshold: the cost from which a function stays at the high level.
    """
    for node in walk(expr):
        if isinstance(node, StateCall):
            return f"{node.function.name} has a state, which needs rows in canonical order in one process"
        if isinstance(node, Call):
            if SAMPLING_RATE in columns_of(node):
                return f"{node.function.name} reads {SAMPLING_RATE}, so the high level computes it"
            if not node.function.lfta:
                return f"{node.function.name} is not LFTA-legal"
            if node.function.cost >= threshold:
                cheap = Cost(threshold).name if threshold in list(Cost) else str(threshold)
                cost = Cost(node.function.cost).name
                return f"{node.function.name} costs {cost}, the low level runs only functions below {cheap}"
    return ""


def safe(expr: Expr, threshold: int = Cost.HIGH) -> bool:
    """Whether the low level may evaluate an expression.

    Args:
        expr: the expression.
        threshold: the cost from which a function stays at the high level.
    """
    return not unsafe(expr, threshold)


def unkeepable(expr: Expr) -> str:
    """Returns why the low level's group table cannot keep a minimum or maximum; empty if it can.

    Args:
        expr: the argument of the minimum or maximum.
    """
    if expr.type is Type.STRING and not (isinstance(expr, Column) and expr.name == "interface"):
        return "the group table stores strings as numbers, which have another order"
    return ""


def cheap(expr: Expr) -> bool:
    """Whether a conjunct may go into the prefilter: it is cheap, and the same in every run."""
    moving = any(isinstance(node, Param) or (isinstance(node, Const) and node.param) for node in walk(expr))
    return cost(expr) < PREFILTER_LIMIT and safe(expr) and not moving
