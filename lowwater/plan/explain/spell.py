"""Prints expressions and temporal properties for EXPLAIN.

Stands between `describe` and `syntax`. LFTAs read stored packet columns, but users know the columns of the protocol.
So EXPLAIN prints a stored expression as a protocol column (`timestamp/1000000000` is `time`).
"""

from __future__ import annotations

from functools import reduce

from lowwater.catalog.builtin.numbers import LOCAL_DAY
from lowwater.catalog.expr import Binary, Call, Column, Const, Expr, Param, Type, Unary, walk, with_children
from lowwater.catalog.protocols import ALIASES, PROTOCOLS
from lowwater.gsql.printer import print_expression
from lowwater.plan.explain.syntax import expression
from lowwater.plan.operators import Item
from lowwater.plan.temporal import Step, Temporal

_COLUMNS: dict[Expr, Column] = {}
for _name, _expr in PROTOCOLS["ETH"].columns.items():
    if not isinstance(_expr, Column):
        _COLUMNS.setdefault(_expr, Column(_expr.type, _name))


def spelled(expr: Expr, records: str) -> Expr:
    """Returns an expression over stored columns as an expression over protocol columns.

    Args:
        expr: expression over stored columns.
        records: the kind of the records; only `pcap` has stored columns that differ from the protocol's.
    """
    if records != "pcap":
        return expr
    column = _COLUMNS.get(expr)
    return column or with_children(expr, [spelled(child, records) for child in expr.children()])


def spelled_item(item: Item, records: str) -> Item:
    """Returns an item of an LFTA over protocol columns; an item with an alias of a column becomes that alias."""
    expr = spelled(item.expr, records)
    second = records == "pcap" and isinstance(expr, Column) and ALIASES.get(item.name) == expr.name
    return Item(item.name, Column(expr.type, item.name) if second else expr)


def low(expr: Expr | None, records: str) -> str:
    """Returns an expression of the low level as text; empty for None."""
    return high(spelled(expr, records)) if expr is not None else ""


def high(expr: Expr | None) -> str:
    """Returns an expression of the high level as text; empty for None."""
    return print_expression(expression(expr)) if expr is not None else ""


def params_of(*exprs: Expr | None) -> dict[str, Param]:
    """Returns name -> parameter, for the parameters without a value in some expressions."""
    return {node.name: node for expr in exprs if expr is not None for node in walk(expr) if isinstance(node, Param)}


def steps(time: Temporal) -> tuple[str, ...]:
    """Returns each component of a value as GSQL over `clock` (ns) or over the origin, such as `(clock - 5)/10*60`."""
    start: Expr = Column(Type.INT, time.origin or "clock")
    return tuple(high(reduce(_step, component, start)) for component in time.components)


def _step(value: Expr, step: Step) -> Expr:
    if step.op == "neg":
        return Unary(Type.INT, "-", value)
    if step.op == "day":
        zone = Param(Type.STRING, step.param) if step.param else Const(Type.STRING, step.zone)
        return Call(Type.INT, LOCAL_DAY, (value, zone))
    op = {"add": "-" if step.by < 0 else "+", "mul": "*", "div": "/"}[step.op]
    constant = Param(Type.INT, step.param) if step.param else Const(Type.INT, abs(step.by))
    return Binary(Type.INT, op, value, constant)
