"""Durations beside columns of time: converts `5 s` in `timestamp + 5 s` to a number in the column's unit.

Below `scope`. The unit of a column follows from its progress (T8). Arithmetic preserves or scales the unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from lowwater.catalog.expr import COMPARISON, Binary, Case, Column, Const, Expr, Type, Unary
from lowwater.errors import QueryError
from lowwater.gsql import nodes as syntax, words
from lowwater.gsql.printer import print_expression
from lowwater.plan import operators as ops, temporal
from lowwater.plan.text import Text, place_of

Units = Mapping[str, Fraction]
"""Column of the input rows -> its unit in ns; without columns of unknown unit."""

BRIEF = 1_000_000
"""Length in ns; a query gets a note on a shorter length written as a plain number, probably a mistake."""

_SECOND, _MICROSECOND = Fraction(10**9), Fraction(1000)
_BESIDE = (*COMPARISON, "+", "-", "%")
_FIT = f"write a shorter one: the largest number is {(1 << 63) - 1}"
_HINT = "write it beside a column of time, such as timestamp + 5 s, or write a plain number"


def unit_of(time: temporal.Temporal) -> Fraction | None:
    """Returns the unit of an attribute in ns, from its progress; None if it is unknown or the components differ."""
    units = set()
    for steps in time.components:
        unit = Fraction(1)
        for step in steps:
            if step.op == "day":
                return None
            if step.op in ("div", "mul"):
                if step.param or not step.by:
                    return None
                unit = unit * step.by if step.op == "div" else unit / step.by
        units.add(unit)
    return units.pop() if len(units) == 1 else None


def units_of(fields: Sequence[ops.Field], declared: Mapping[str, int | None]) -> dict[str, Fraction]:
    """Finds the units of the temporal columns of a stream. Returns column -> unit in ns, without columns of unknown
    unit. `declared`: column -> declared unit in ns, as in `BoundSource.units`."""
    units = {}
    for field in fields:
        if field.temporal is None:
            continue
        unit = None if field.temporal.origin and field.name not in declared else unit_of(field.temporal)
        if unit is not None and field.name in declared:
            declared_unit = declared[field.name]
            unit = None if declared_unit is None else unit * declared_unit if field.temporal.origin else unit
        if unit is not None:
            units[field.name] = unit
    return units


def unit_in(expr: Expr, units: Units) -> Fraction | None:
    """Returns the unit of an expression in ns; None if it is unknown.

    Example:
        >>> stamp = Column(Type.INT, "timestamp")
        >>> unit_in(Binary(Type.INT, "/", stamp, Const(Type.INT, 1_000)), {"timestamp": Fraction(1)})
        Fraction(1000, 1)
    """
    if expr.type is Type.INSTANT:
        return _MICROSECOND
    if isinstance(expr, Column):
        return units.get(expr.name)
    if isinstance(expr, Unary) and expr.op == "-":
        return unit_in(expr.operand, units)
    if isinstance(expr, Case):
        found = {unit_in(value, units) for value in (*(value for _, value in expr.branches), expr.otherwise)}
        return found.pop() if len(found) == 1 else None
    if not isinstance(expr, Binary):
        return None
    left, right = unit_in(expr.left, units), unit_in(expr.right, units)
    if expr.op in ("+", "-"):
        return left if right in (None, left) else right if left is None else None
    if expr.op == "%":
        return left
    scaled, by = (left, expr.right) if left is not None else (right, expr.left)
    if scaled is None or expr.op not in ("*", "/") or not isinstance(by, Const) or type(by.value) is not int:
        return None
    if expr.op == "*":
        return scaled / abs(by.value) if by.value else None
    return scaled * abs(by.value) if by.value and left is not None else None


def length_of(node: syntax.Expression) -> Fraction | None:
    """Returns the length in ns of a duration or a sum of durations; None for any other expression."""
    if isinstance(node, syntax.Duration):
        return words.nanoseconds(node.value, node.unit)
    if isinstance(node, syntax.UnaryOp) and node.op == "-":
        length = length_of(node.operand)
        return None if length is None else -length
    if isinstance(node, syntax.BinaryOp) and node.op in ("+", "-"):
        left, right = length_of(node.left), length_of(node.right)
        return None if left is None or right is None else left + right if node.op == "+" else left - right
    return None


def has_duration(node: syntax.Expression | None) -> bool:
    """Whether an expression contains a duration."""
    if node is None or isinstance(node, syntax.Duration):
        return node is not None
    return any(has_duration(child) for child in syntax.children(node))


def takes(op: str, at: int) -> bool:
    """Whether an operand of an operator may be a duration. A quotient of two times has a meaning, a product has none.
    `at`: position of the operand, 0 or 1."""
    return op in _BESIDE or (op == "/" and at == 1)


def counted(node: syntax.Expression, beside: syntax.Expression, unit: Fraction | None, text: Text) -> Const:
    """Converts a duration to a number in the unit of another operand. Raises QueryError if the unit is unknown, or the
    duration is not a whole number of units. `unit`: unit of `beside` in ns; None if unknown."""
    written, shown = print_expression(node), print_expression(beside)
    length = length_of(node)
    assert length is not None
    if unit is None:
        hint = f"write {written} as a number in the unit of {shown}"
        raise text.error(place_of(node), f"{written} stands beside {shown}, whose unit is not known", hint)
    value = length / unit
    if value.denominator != 1:
        message = f"{written} is no whole number of {named(unit)}, in which {shown} counts"
        hint = "compare a finer time: timestamp is in nanoseconds, timestamp_us and timestamp_ms as they say"
        raise text.error(place_of(node), message, hint)
    if abs(value) >= 1 << 63:
        raise text.error(place_of(node), f"{written} does not fit a 64-bit integer of {named(unit)}", _FIT)
    return Const(Type.INT, int(value))


def in_seconds(expr: Expr, units: Units, node: syntax.Expression, text: Text) -> Expr:
    """Converts a time to seconds if its unit is known.
    Raises QueryError if it counts something else than seconds or parts of them."""
    unit = unit_in(expr, units)
    if unit in (None, _SECOND):
        return expr
    assert unit is not None
    per_second = _SECOND / unit
    if per_second.denominator != 1:
        message = f"{print_expression(node)} counts {named(unit)}, which are no instants of seconds"
        raise text.error(place_of(node), message, "write the time itself, such as time, which counts seconds")
    return Binary(Type.INT, "/", expr, Const(Type.INT, int(per_second)))


def alone(node: syntax.Expression, text: Text) -> QueryError:
    """Builds the error of a duration without an operand that has a unit."""
    return text.error(
        place_of(node), f"{print_expression(node)} stands beside no time, so its unit is not known", _HINT
    )


def brief(reach: int, unit: Fraction | None, attribute: str) -> str:
    """Returns the note on a length below a millisecond that the query writes as a plain number; else an empty string.
    `unit`: unit of the attribute in ns; None if unknown."""
    if unit is None or unit >= BRIEF or not 0 < reach * unit < BRIEF:
        return ""
    return (
        f"{reach} beside {attribute} is {reach} {named(unit)}, less than a millisecond:"
        f" write the unit with the number, such as {reach} s"
    )


def named(unit: Fraction) -> str:
    """Returns the plural name of a unit given in ns, such as `seconds`."""
    return words.unit_name(unit) or (f"units of {unit / 10**9} s" if unit % 10**9 == 0 else f"units of {unit} ns")
