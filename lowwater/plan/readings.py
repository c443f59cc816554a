"""How people read the values of a query's columns: of which column of packets they are, and in which unit.

The plan tells it; pages, notebook and command line show the name of a number, bytes and durations by it. The number
itself stays what it is, in tables and in files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lowwater.catalog import expr as ex
from lowwater.catalog.value_names import kind_of, value_name
from lowwater.instants import spoken_duration, spoken_instant
from lowwater.plan import operators as ops
from lowwater.plan.temporal import Temporal

BYTES = "bytes"
_LENGTHS = frozenset(("len", "caplen", "total_length", "ip_length", "payload_length"))
_CHOICES = frozenset(("IF", "if_else", "if_else_i", "if_else_u", "if_else_ll", "if_else_ul", "if_else_f"))
_SPANS = frozenset(("tcp_round_trip",))
"""Functions of rows in order that give spans of time, in units of the order."""
_ONE_VALUE = frozenset(
    (
        "min",
        "max",
        "FIRST",
        "LAST",
        "arg_min",
        "arg_max",
        "median_of",
        "quantile_of",
        "or_aggr",
        "and_aggr",
        "lag",
        "lead",
        "first_value",
        "last_value",
    )
)
"""Aggregates and functions of rows in order that give a value of their argument as it was."""
_IN_UNIT = _ONE_VALUE | {"sum", "avg", "POSAVG", "quantile_cont", "stddev", "stddev_pop", "stddev_samp"}
"""Aggregates whose values have the unit of their argument."""


@dataclass(frozen=True)
class Reading:
    """How the values of a column are read."""

    kind: str = ""  # of numbers with names, as of `kind_of`; empty for others
    unit: str = ""  # `bytes`; empty for none
    nanoseconds: int = 0  # of spans of time: the length of 1, ns; 0 for other values
    instant: bool = False  # whether they are instants, ns

    def text(self, value: object) -> str:
        """Returns what a person reads beside a number; empty for nothing.

        Example:
            >>> Reading("protocol").text(6), Reading(unit="bytes").text(1_536), Reading(nanoseconds=1_000).text(2_500)
            ('TCP', '1.54 kB', '2.5 ms')
        """
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1 << 63:
            return ""
        if self.kind and isinstance(value, int):
            return value_name(self.kind, value)
        if self.unit == BYTES:
            return scaled(value, "B") if abs(value) >= 1000 else ""
        if self.nanoseconds:
            span = round(abs(value) * self.nanoseconds)
            return f"{'-' * (value < 0)}{spoken_duration(span)}" if span < 1 << 62 else ""
        return ""


@dataclass(frozen=True)
class Cell:
    """A value as text, and what a person reads beside it; empty for nothing."""

    text: str
    beside: str = ""


Cells = Callable[[str, Any], Cell]
"""(name of a column, value) -> cell."""


def cells_of(node: ops.Node) -> Cells:
    """Returns how the values of the columns of a logical plan are shown."""
    how, clocks = readings(node), {field.name: field.temporal for field in node.fields if field.temporal}
    return lambda name, value: _cell(how.get(name, Reading()), clocks.get(name), value)


def _cell(how: Reading, clock: Temporal | None, value: Any) -> Cell:
    if value is None:
        return Cell("NULL")
    if clock is not None and not clock.origin and clock.increasing and isinstance(value, int):
        first = clock.first(value)
        if 0 <= first < 1 << 62:
            return Cell(str(value), spoken_instant(first))
    return Cell(str(value), how.text(value))


def scaled(value: float, unit: str) -> str:
    """Writes a number with three digits and the prefix of its size.

    Example:
        >>> scaled(1_234_567, "bit/s"), scaled(0.25, "packets/s"), scaled(12, "")
        ('1.23 Mbit/s', '0.25 packets/s', '12')
    """
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            space = "" if unit.startswith("bit") or unit == "B" else " "
            return f"{value / factor:.3g} {prefix}{space}{unit}".strip()
    return f"{value:.3g} {unit}".strip()


def readings(node: ops.Node) -> dict[str, Reading]:
    """Returns how each output column of a logical plan is read, through joins, merges and queries that others read."""
    found: dict[int, dict[str, Reading]] = {}
    for part in ops.walk(node, done=found):
        found[id(part)] = _of_node(part, [found[id(each)] for each in part.inputs()])
    return found[id(node)]


def _of_node(node: ops.Node, below: list[dict[str, Reading]]) -> dict[str, Reading]:
    if isinstance(node, ops.Source):
        return {field.name: _stored(field.name) for field in node.fields} if node.kind == "pcap" else {}
    names = {name: reading for each in below for name, reading in each.items()}
    if isinstance(node, ops.Aggregation):
        keys = {key.name: _of_expr(key.expr, names) for key in node.keys}
        names = keys | {each.name: _computed(each.function, each.argument, names) for each in node.all_aggregates}
    if isinstance(node, ops.TwoInputs):
        for (alias, _), columns in zip(node.sides, below, strict=True):
            names |= {f"{alias}.{name}": reading for name, reading in columns.items()}
    if isinstance(node, ops.Over):
        spans = Reading(nanoseconds=int(names.get(node.order.name, Reading()).instant))  # in units of the order
        names |= {
            each.name: spans if each.function in _SPANS else _computed(each.function, each.argument, names)
            for each in node.functions
        }
    items: tuple[ops.Item, ...] | None = getattr(node, "items", None)
    if items is not None:
        return {item.name: _of_expr(item.expr, names) for item in items}
    if isinstance(node, ops.Union):
        read = [
            [of.get(own.name, Reading()) for own in each.fields] for each, of in zip(node.branches, below, strict=True)
        ]
        return {field.name: _alike(each) for field, each in zip(node.fields, zip(*read, strict=True), strict=True)}
    return {field.name: names.get(field.name, Reading()) for field in node.fields}


def _stored(name: str) -> Reading:
    if name == "timestamp":
        return Reading(instant=True)
    return Reading(kind_of(name), BYTES if name in _LENGTHS else "")


def _alike(branches: Sequence[Reading]) -> Reading:
    return branches[0] if len(set(branches)) == 1 else Reading()


def _computed(function: str, argument: ex.Expr | None, names: Mapping[str, Reading]) -> Reading:
    if argument is None or function not in _IN_UNIT:
        return Reading()
    of = _of_expr(argument, names)
    return of if function in _ONE_VALUE else replace(of, kind="", instant=False)


def _of_expr(expr: ex.Expr, names: Mapping[str, Reading]) -> Reading:
    if isinstance(expr, ex.Column):
        return names.get(expr.name, Reading())
    if isinstance(expr, ex.Case | ex.Call):
        values = [*(value for _, value in expr.branches), expr.otherwise] if isinstance(expr, ex.Case) else []
        values += expr.arguments[1:] if isinstance(expr, ex.Call) and expr.function.name in _CHOICES else []
        told = [_of_expr(value, names) for value in values if not isinstance(value, ex.Const)]
        return _alike(told) if told else Reading()
    if not isinstance(expr, ex.Binary):
        return Reading()
    left, right = _of_expr(expr.left, names), _of_expr(expr.right, names)
    if expr.op == "-" and left.instant and right.instant:
        return Reading(nanoseconds=1)
    if expr.op in ("+", "-") and (left.unit, left.nanoseconds) == (right.unit, right.nanoseconds):
        return Reading(unit=left.unit, nanoseconds=left.nanoseconds)
    divisor = expr.right.value if isinstance(expr.right, ex.Const) else None
    if expr.op == "/" and left.nanoseconds and isinstance(divisor, int) and divisor > 0:
        return Reading(nanoseconds=left.nanoseconds * divisor)
    return Reading()
