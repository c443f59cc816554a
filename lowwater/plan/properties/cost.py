"""The cost model: what an expression costs, and whether it may run at the low level.

Read by the rules that split a plan and by the prefilter. An expression is LFTA-safe if every function in it is
LFTA-legal and cheaper than the threshold (004, Splitting Selection and Aggregation Queries); the default keeps
functions of cost HIGH at the high level.
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

PREFILTER = 10
"""A conjunct cheaper than this may stand in the prefilter (shared rules of GSQL, section 6)."""

WIDE = 10
"""What comparing two strings or addresses costs beside comparing two numbers."""


def cost(expr: Expr) -> int:
    """Operations that one evaluation takes.

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
            total += WIDE if wide and not _of_link(node) else 1
        elif isinstance(node, OneOf):
            total += WIDE
        elif isinstance(node, Case | StateCall) or type(node).__name__ == "Unary":
            total += 1
    return total


def _of_link(node: Binary) -> bool:
    # The link is one value for all packets of a pass.
    return any(isinstance(side, Column) and side.name == "interface" for side in (node.left, node.right))


def unsafe(expr: Expr, threshold: int = Cost.HIGH) -> str:
    """Why an expression may not run at the low level; empty where it may."""
    for node in walk(expr):
        if isinstance(node, StateCall):
            return f"{node.function.name} has a state, which is kept in canonical order in one place"
        if isinstance(node, Call):
            if SAMPLING_RATE in columns_of(node):
                return f"{node.function.name} of {SAMPLING_RATE}, which only the kernel knows, is computed above"
            if not node.function.lfta:
                return f"{node.function.name} is not LFTA-legal"
            if node.function.cost >= threshold:
                cheap = Cost(threshold).name if threshold in list(Cost) else str(threshold)
                return (
                    f"{node.function.name} costs {Cost(node.function.cost).name}, the low level takes less than {cheap}"
                )
    return ""


def safe(expr: Expr, threshold: int = Cost.HIGH) -> bool:
    """Whether an expression may run at the low level."""
    return not unsafe(expr, threshold)


def unkeepable(expr: Expr) -> str:
    """Why the least or largest value may not stand in the group table of the low level; empty where it may."""
    if expr.type is Type.STRING and not (isinstance(expr, Column) and expr.name == "interface"):
        return "strings are numbers in the group table, which say nothing of their order"
    return ""


def cheap(expr: Expr) -> bool:
    """Whether a conjunct may stand in the prefilter: cheap, and the same in every run."""
    moving = any(isinstance(node, Param) or (isinstance(node, Const) and node.param) for node in walk(expr))
    return cost(expr) < PREFILTER and safe(expr) and not moving
