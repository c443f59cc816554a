"""Turns bound expressions back into syntax trees, so that the printer of the language prints them for EXPLAIN.

`gsql` calls this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lowwater.catalog.expr import (
    SUMMED,
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
    Unary,
    conjunction,
)
from lowwater.catalog.native import type_of
from lowwater.catalog.records import field_name
from lowwater.catalog.values import format_ip, format_mac
from lowwater.gsql import nodes as gsql
from lowwater.plan.operators import Aggregate, Item, Window

Names = Mapping[str, gsql.Expression]
"""Column -> its replacement: an aggregate, or the name of a window's number."""

PARAM_TYPES = {Type.INT: "int", Type.FLOAT: "float", Type.BOOL: "bool", Type.IP: "ip"}
"""Type -> its name in GSQL; a type without an entry is `string`."""


def expression(expr: Expr, names: Names | None = None) -> gsql.Expression:
    """Returns the syntax tree of a bound expression.

    Args:
        expr: the bound expression.
        names: column -> its replacement.
    """
    names = names or {}
    if isinstance(expr, Const):
        return _constant(expr)
    if isinstance(expr, Column):
        if expr.name in names:
            return names[expr.name]
        qualifier, _, name = expr.name.rpartition(".")
        return gsql.Name(field_name(name), qualifier)
    if isinstance(expr, Param):
        return gsql.Property(expr.name[1:]) if expr.name.startswith("@") else gsql.Parameter(expr.name)
    if isinstance(expr, Unary):
        return _unary(expr, names)
    if isinstance(expr, Binary):
        left, right = expression(expr.left, names), expression(expr.right, names)
        if expr.op == "/" and expr.type is Type.FLOAT and expr.left.type is expr.right.type is Type.INT:
            left = gsql.Call("FLOAT", (left,))  # GSQL truncates the quotient of integers
        return gsql.BinaryOp(expr.op, left, right)
    return _wide(expr, names)


def _unary(expr: Unary, names: Names) -> gsql.Expression:
    if expr.op == SUMMED:
        return expression(expr.operand, names)
    if expr.op == "IS NULL":
        return gsql.IsNull(expression(expr.operand, names))
    inner = expr.operand
    if expr.op == "NOT" and isinstance(inner, Unary) and inner.op == "IS NULL":
        return gsql.IsNull(expression(inner.operand, names), negated=True)
    return gsql.UnaryOp(expr.op, expression(inner, names))


def _wide(expr: Expr, names: Names) -> gsql.Expression:
    if isinstance(expr, Call | StateCall):
        arguments = tuple(expression(argument, names) for argument in expr.arguments)
        if expr.function.name == "like" and len(arguments) == 2:
            return gsql.Like(*arguments)
        brackets = isinstance(expr, Call) and expr.function.predicate
        return gsql.Call(expr.function.name, arguments, brackets=brackets)
    if isinstance(expr, OneOf):
        values = tuple(_constant(Const(expr.kind, value)) for value in expr.values)
        return gsql.InList(expression(expr.operand, names), values)
    if isinstance(expr, Case):
        branches = tuple((expression(when, names), expression(then, names)) for when, then in expr.branches)
        empty = isinstance(expr.otherwise, Const) and expr.otherwise.value is None
        return gsql.Case(branches, None, None if empty else expression(expr.otherwise, names))
    raise TypeError(type(expr).__name__)


def _constant(expr: Const) -> gsql.Expression:
    value = expr.value
    if value is None:
        return gsql.Literal("null", None)
    if isinstance(value, bool):
        return gsql.Literal("bool", value)
    if isinstance(value, bytes):
        return gsql.Literal("ip", format_ip(value))
    if expr.type is Type.MAC:
        return gsql.Literal("string", format_mac(int(value)))
    if isinstance(value, str):
        return gsql.Literal("string", value)
    kind = "float" if isinstance(value, float) else "int"
    return gsql.UnaryOp("-", gsql.Literal(kind, -value)) if value < 0 else gsql.Literal(kind, value)


def select_items(items: Sequence[Item], names: Names | None = None) -> tuple[gsql.SelectItem, ...]:
    """Returns the items of a select list; a column that keeps its name has no AS."""
    select = []
    for item in items:
        value = expression(item.expr, names)
        same = isinstance(value, gsql.Name) and value.name == item.name
        select.append(gsql.SelectItem(value, "" if same else item.name))
    return tuple(select)


def aggregate_call(aggregate: Aggregate, over: bool = False) -> gsql.Call:
    """Returns the call of an aggregate, or of a superaggregate (`over`)."""
    if aggregate.argument is None and aggregate.native is not None:
        return gsql.Call(aggregate.function, star=True, over=over)
    arguments = [aggregate.argument] if aggregate.argument is not None else []
    call = gsql.Call(aggregate.function, tuple(expression(e) for e in (*arguments, *aggregate.more)), over=over)
    native, argument = aggregate.native, aggregate.argument
    own = native is None or argument is None or type_of(native.name, argument.type) is aggregate.type
    return call if own else gsql.Call("FLOAT", (call,))


def band(window: Window) -> gsql.Expression:
    """Returns the condition of a match window."""
    left, right = expression(window.left), expression(window.right)
    if window.equality:
        return gsql.BinaryOp("=", left, right)
    low = gsql.BinaryOp("<=", _plus(left, -window.below), right)
    return gsql.BinaryOp("AND", low, gsql.BinaryOp("<=", right, _plus(left, window.above)))


def _plus(expr: gsql.Expression, by: int) -> gsql.Expression:
    if not by:
        return expr
    return gsql.BinaryOp("-" if by < 0 else "+", expr, gsql.Literal("int", abs(by)))


def both(*conditions: gsql.Expression | None) -> gsql.Expression | None:
    """Returns the conjunction of some conditions; None if all are None."""
    present = [condition for condition in conditions if condition is not None]
    return gsql.chain("AND", present) if present else None


def equality(left: Expr, right: Expr) -> gsql.Expression:
    """Returns the condition `left = right`."""
    return gsql.BinaryOp("=", expression(left), expression(right))


def condition(*parts: Expr | None, names: Names | None = None) -> gsql.Expression | None:
    """Returns the conjunction of some predicates; None if all are None."""
    whole = conjunction([part for part in parts if part is not None])
    return expression(whole, names) if whole is not None else None
