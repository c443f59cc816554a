"""Hints of binding errors: suggests GSQL for habits of SQL and tcpdump, and for malformed addresses and times.

Below `scope`, which adds the hint to its error.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from ipaddress import ip_network

from lowwater.catalog.expr import Const, Expr, Type
from lowwater.gsql import nodes as syntax
from lowwater.gsql.printer import print_expression
from lowwater.instants import parse_instant
from lowwater.plan.bind.expressions.durations import named
from lowwater.plan.text import nearest

FUNCTIONS = {
    "abs": "write CASE WHEN a < 0 THEN -a ELSE a END",
    **dict.fromkeys(("coalesce", "ifnull", "nvl"), "write CASE WHEN a IS NOT NULL THEN a ELSE b END"),
    **dict.fromkeys(("stddev", "variance", "var"), "select count(*), sum(x) and sum(x*x), of which it is made"),
    **dict.fromkeys(("date_trunc", "time_bucket"), "write time/60 for minutes, time/3600 for hours"),
}
"""Function of another system in lower case -> GSQL to write instead."""


def of_function(name: str, names: set[str]) -> str:
    """Hint for an unknown function."""
    if name.lower() in FUNCTIONS:
        return FUNCTIONS[name.lower()]
    close = nearest(name, names)
    return f"{close} Otherwise declare it: --functions FILE" if close else "declare it: --functions FILE"


def of_name(name: str) -> str:
    """Hint for a keyword of SQL that was parsed as a column; empty if there is none."""
    return f"write {name.upper()}" if name.lower() in ("true", "false") else ""


def of_address(text: str, kind: Type, other: str) -> str:
    """Hint for a string that is not an address.

    Args:
        text: the string.
        kind: type of the other operand, IP or MAC.
        other: the other operand as GSQL.
    """
    if kind is Type.MAC:
        return "write an address as '02:00:00:00:00:01'"
    bounds = _prefix(text) if "/" in text else None
    return (
        f"write {other} BETWEEN '{bounds[0]}' AND '{bounds[1]}'" if bounds else "write an address as IP_VAL'10.0.0.1'"
    )


def _prefix(text: str) -> tuple[str, str] | None:
    """Returns the first and last address of a prefix such as 10.0.0.0/8; None if the text is no prefix."""
    try:
        network = ip_network(text, strict=False)
    except ValueError:
        return None
    return str(network[0]), str(network[-1])


def of_types(op: str, node: syntax.Expression, operands: tuple[Expr, ...], units: Sequence[Fraction | None]) -> str:
    """Hint for an operator that does not apply to the types of its operands; empty if there is none.

    Args:
        op: the operator.
        node: syntax tree of the operation.
        operands: the bound operands.
        units: unit of every operand in ns; None if unknown.
    """
    if not isinstance(node, syntax.BinaryOp):
        return ""
    left, right = operands
    if op in ("=", "<>") and {left.type, right.type} == {Type.BOOL, Type.INT}:
        condition, number = (node.left, right) if left.type is Type.BOOL else (node.right, left)
        return _of_condition(condition, op, number)
    for side, name, unit in ((left, node.right, units[1]), (right, node.left, units[0])):
        if isinstance(side, Const) and isinstance(side.value, str) and unit is not None:
            return _of_instant(side.value, op if side is right else "", name, unit)
    return ""


def _of_condition(condition: syntax.Expression, op: str, number: Expr) -> str:
    text = print_expression(condition)
    if isinstance(number, Const) and number.value in (0, 1):
        return f"{text} is a condition: write {text if (number.value == 1) == (op == '=') else f'NOT {text}'}"
    return f"{text} is a condition: it stands without a comparison"


def _of_instant(text: str, op: str, other: syntax.Expression, unit: Fraction) -> str:
    try:
        instant = parse_instant(text)
    except ValueError:
        return ""
    number, column = instant // unit, print_expression(other)
    return f"write {f'{column} {op} {number}' if op else number}, the {named(unit)} since 1970 that {column} counts"


def of_like(operand: Expr, written: syntax.Expression) -> str:
    """Hint for LIKE over an address; empty for any other operand."""
    if operand.type is not Type.IP:
        return ""
    return f"an address is no string: write {print_expression(written)} BETWEEN '10.0.0.0' AND '10.0.255.255'"


def of_condition(node: syntax.Expression, bound: Expr) -> str:
    """Hint for a number in place of a condition; empty for any other type."""
    text = print_expression(node)
    simple = isinstance(node, syntax.Name | syntax.Call)
    return f"write {text if simple else f'({text})'} <> 0" if bound.type is Type.INT else ""
