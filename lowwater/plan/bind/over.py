"""Binds OVER: functions of a row and those before it (SEMANTICS O11).

Called by `queries` and `grouping` around the binding of select items. What OVER reads, and what the items read beside
it, become columns of the statement below; `operators.Over` adds its columns to them, and a projection above makes the
items.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lowwater import limits
from lowwater.catalog import expr as ex
from lowwater.errors import nearest
from lowwater.gsql import nodes as syntax
from lowwater.gsql.printer import print_expression
from lowwater.plan import operators as ops, properties
from lowwater.plan.bind.durations import unit_in
from lowwater.plan.bind.expressions import NUMERIC, Scope, number_of, told
from lowwater.plan.temporal import CLOCK, Step, Temporal
from lowwater.plan.text import Text, place_of, spot

_ARGUMENTS = {
    "avg": (1, 1),
    "count": (0, 1),
    "first_value": (1, 1),
    "lag": (1, 3),
    "max": (1, 1),
    "min": (1, 1),
    "row_number": (0, 0),
    "session": (2, 3),
    "sum": (1, 1),
    "tcp_analysis": (7, 7),
    "tcp_began": (7, 7),
    "tcp_round_trip": (7, 7),
}
"""Function -> the least and the largest number of its arguments."""

WORDS = {
    "first_value": ("first_value(x) OVER (...)", "x of the first row"),
    "lag": ("lag(x, rows, default) OVER (PARTITION BY srcIP ORDER BY timestamp)", "x of the row before, or of several"),
    "row_number": ("row_number() OVER (...)", "the number of the row, from 1"),
    "session": ("session(timestamp, 5 min) OVER (...)", "the begin of the session: a longer gap begins a new one"),
}
"""Function that only OVER knows -> its form and its meaning."""

_INSTEAD = {
    "lead": "write lag(x): the later row of the two has both values, and the earlier one waits for none",
    "rank": "write ORDER BY count(*) DESC LIMIT 10 WITH TIES, of each epoch",
    "dense_rank": "write ORDER BY count(*) DESC LIMIT 10 WITH TIES, of each epoch",
    "last_value": "write the column itself: the last of the rows up to this one is this one",
    "nth_value": "write row_number() OVER (...) AS n, and WHERE n = {1:3} in a query that reads it",
    **dict.fromkeys(
        ("ntile", "percent_rank", "cume_dist"), "`lowwater sql` has it, over a capture or over the table of the query"
    ),
}
"""Function of SQL in lower case -> what to write instead."""

_OF_SEGMENTS = ("tcp_analysis", "tcp_began", "tcp_round_trip")
"""Functions of the segments of a connection (SEMANTICS O12)."""

FRAMED = ("avg", "count", "max", "min", "sum")
"""Functions that a frame concerns."""


def _total(call: syntax.Call, node: syntax.Over) -> str:
    """The superaggregate that an aggregate of aggregates over all groups of PARTITION BY is; empty for any other."""
    below = call.arguments[0] if call.arguments else None
    if not isinstance(below, syntax.Call):
        return ""
    same = call.name.lower(), below.name.lower()
    if same not in (("sum", "count"), ("sum", "sum"), ("max", "max"), ("min", "min")):
        return ""
    keys = ", ".join(print_expression(each) for each in node.partition) or "tb"
    return f"{print_expression(replace(below, over=True))}, with SUPERGROUP {keys} behind GROUP BY,"


@dataclass
class RowWindows:
    """Collects the functions of OVER in the select items of one statement."""

    query: str
    text: Text
    _first: syntax.Over | None = None
    _partition: tuple[ex.Expr, ...] = ()
    _order: ex.Expr | None = None
    # function with its arguments as expressions over the rows below -> its column
    _columns: dict[tuple[object, ...], ex.Column] = field(default_factory=dict)

    def bind(self, node: syntax.Over, scope: Scope) -> ex.Expr:
        """Binds one OVER to a column. Raises QueryError if there is no such function, its arguments do not fit, or the
        statement has another OVER."""
        inner = replace(scope, on_over=None, where="another OVER")
        call, text = node.call, self.text
        name = self._function(call)
        ordered = node.order or (call.arguments[0] if name == "session" else None)
        if ordered is None:
            hint = f"write {print_expression(replace(node, order=syntax.Name('timestamp')))}"
            if total := _total(call, node):
                hint = f"write {total} for the total; OVER with ORDER BY has the rows so far"
            elif name in FRAMED:
                hint += " for the rows so far; the total of a group stands in a query of its own, to join"
            raise text.error(node.place, "OVER needs ORDER BY: which rows are before a row", hint)
        partition, order = tuple(inner.all(*node.partition)), inner.bind(ordered)
        if self._first is None:
            self._first, self._partition, self._order = node, partition, order
        elif (partition, order) != (self._partition, self._order):
            hint = "name a query with one of them, and read its column in another one"
            raise text.unsupported(node.place, "Lowwater does not run two different OVER in one SELECT", hint)
        key = self._parts(name, node, inner, order)
        if key not in self._columns:
            self._columns[key] = ex.Column(_type(name, key[1]), f"_over{len(self._columns)}")  # type: ignore[arg-type]
        column = self._columns[key]
        if name in ("lag", "first_value", "session", "max", "min"):
            unit = unit_in(key[1], scope.units)  # type: ignore[arg-type]
            if unit is not None and isinstance(scope.units, dict):
                scope.units[column.name] = unit
        return column

    def _function(self, call: syntax.Call) -> str:
        name = call.name.lower()
        if name in _INSTEAD:
            raise self.text.unsupported(call.place, f"Lowwater does not run {name} OVER", told(_INSTEAD[name], call))
        if name not in _ARGUMENTS or call.distinct or call.brackets or call.over:
            hint = nearest(name, _ARGUMENTS) if name not in _ARGUMENTS else f"write {name}(x) OVER (...)"
            raise self.text.error(call.place, f"no function of OVER is called {print_expression(call)}", hint)
        least, most = _ARGUMENTS[name]
        if not least <= len(call.arguments) <= most or (call.star and name != "count"):
            number = f"{least}" if least == most else f"{least} to {most}"
            given = "*" if call.star else len(call.arguments)
            raise self.text.error(call.place, f"{name} takes {number} argument{'s' * (most != 1)}, not {given}")
        return name

    def _parts(self, name: str, node: syntax.Over, inner: Scope, order: ex.Expr) -> tuple[object, ...]:
        """Returns a function in parts: name, argument, reach, default, whether it takes peers, most, more arguments."""
        written, text = node.call.arguments, self.text
        peers = name in FRAMED and not node.rows
        if not written:
            return name, None, 0, None, peers, 0, ()
        if name in _OF_SEGMENTS:
            return self._of_segments(name, node, inner, order)
        argument = inner.bind(written[0])
        if name == "session":
            if argument != order:
                hint = f"write ORDER BY {print_expression(written[0])}"
                raise text.error(
                    node.place, "a session is told by the gaps of ORDER BY, and this is another time", hint
                )
            beside = written[0], unit_in(argument, inner.units)
            gap = self._length(inner, written[1], "the gap of a session", beside)
            most = self._length(inner, written[2], "the longest time of a session", beside) if len(written) > 2 else 0
            return name, argument, gap, None, peers, most, ()
        if name == "lag":
            back = inner.constant(written[1], "lag") if len(written) > 1 else 1
            if not (isinstance(back, int) and 1 <= back <= limits.LAG_ROWS):
                hint = f"write a number from 1 to {limits.LAG_ROWS:,}"
                raise text.error(place_of(written[1]), "lag looks back by a whole number of rows", hint)
            default = None
            if len(written) > 2:
                argument, default = inner.of_one_type([argument, inner.bind(written[2])], "lag", node.place)
            return name, argument, back, default, peers, 0, ()
        if name in ("sum", "avg"):
            argument = number_of(argument) if argument.type is ex.Type.BOOL else argument
            if argument.type not in NUMERIC:
                raise text.error(node.place, f"{name} takes numbers, not {argument.type}")
            if argument.type is ex.Type.FLOAT:
                argument = ex.Unary(ex.Type.FLOAT, ex.SUMMED, argument)
        return name, argument, 0, None, peers, 0, ()

    def _of_segments(self, name: str, node: syntax.Over, inner: Scope, order: ex.Expr) -> tuple[object, ...]:
        *written, last = node.call.arguments
        arguments = inner.all(*written)
        for at, (each, kind) in enumerate(zip(arguments, (ex.Type.BOOL, *[ex.Type.INT] * 5), strict=True)):
            if each.type is not kind:
                given = "srcPort < destPort, sequence_number, ack_number, window, flags, payload_length, 1 h"
                hint = f"write {name}({given})"
                raise self.text.error(place_of(written[at]), f"{name} takes a condition and five whole numbers", hint)
        gap = self._length(inner, last, "the gap of a connection", (node.order, unit_in(order, inner.units)))
        return name, arguments[0], gap, None, False, 0, tuple(arguments[1:])

    def _length(self, inner: Scope, node: syntax.Expression, what: str, beside: tuple[Any, Any]) -> int:
        length = inner.constant(node, what, beside)
        if not (isinstance(length, int) and 0 < length < 1 << 62):
            raise self.text.error(place_of(node), f"{what} is a whole number above 0")
        return length

    def applied(self, items: Sequence[ops.Item], below: Callable[[Sequence[ops.Item]], ops.Node]) -> ops.Node:
        """Returns the plan of a statement with these select items. `below`: makes the statement without OVER, with
        select items of its own.
        Raises QueryError if ORDER BY is no time, or the rows come in another order than that."""
        if self._first is None:
            return below(items)
        lower = _Lower({column.name for column in self._columns.values()})
        upper = [ops.Item(item.name, lower.over(item.expr, item.name)) for item in items]
        assert self._order is not None
        partition, order = tuple(map(lower.column, self._partition)), lower.column(self._order)
        functions = []
        for (name, argument, reach, default, peers, most, more), column in self._columns.items():
            taken = [None if each is None else lower.column(each) for each in (argument, default)]  # type: ignore[arg-type]
            others = tuple(map(lower.column, more))  # type: ignore[call-overload]
            parts = column.name, name, taken[0], column.type, reach, taken[1], peers, most, others
            functions.append(ops.RowFunction(*parts))  # type: ignore[arg-type]
        node = below(lower.items)
        self._check(node, order, functions)
        time = ops.temporals(node.fields)[order.name]
        added = tuple(ops.Field(each.name, each.type, _begin_of(each, time)) for each in functions)
        fields = (*node.fields, *added)
        over = ops.Over(self.query, fields, node, partition, order, tuple(functions), spot(self._first))
        return ops.Map(self.query, ops.make_fields(upper, ops.temporals(fields)), over, None, tuple(upper))

    def _check(self, node: ops.Node, order: ex.Column, functions: Sequence[ops.RowFunction]) -> None:
        assert self._first is not None
        place, text = self._first.place, self.text
        time = ops.temporals(node.fields).get(order.name)
        # Sessions overlap: their rows come in no order of their begins, unless these are epochs.
        begins = time is not None and time.components != time.chains and not _grouped(node)
        if time is None or not time.increasing or len(time.chains) > 1 or (begins and _in_step(node)):
            hint = "write ORDER BY timestamp; the first rows of each epoch by other columns: ORDER BY ... LIMIT 10"
            raise text.error(place, "ORDER BY of OVER is a column of time that increases", hint)
        if time.origin or properties.by_arrival(node):
            hint = "take a column that follows from the clock, and no windows of rows"
            raise text.unsupported(place, "Lowwater does not run OVER beside attributes of their own", hint)
        if isinstance(node, ops.Running | ops.Sampling):
            hint = "name the aggregation as a query, and read that"
            raise text.unsupported(place, "Lowwater does not run OVER beside CLOSING_WHEN or CLEANING_WHEN", hint)
        if not _in_step(node):
            hint = "write OVER into a query that one side reads, or group the joined rows by an epoch first"
            raise text.unsupported(place, "Lowwater does not run OVER of joined rows, which come in no one order", hint)
        if any(each.function in _OF_SEGMENTS for each in functions) and time.components != CLOCK.components:
            raise text.error(place, "segments are in the order of their time in ns", "write ORDER BY timestamp")
        if any(each.peers for each in functions) and not _told(node, time):
            hint = "write ORDER BY timestamp, or add ROWS UNBOUNDED PRECEDING for a value of each row"
            message = "rows of equal ORDER BY have one value here, and their time is coarser than that of the rows"
            raise text.unsupported(place, message, hint)


def _type(name: str, argument: ex.Expr | None) -> ex.Type:
    if name in ("count", "row_number"):
        return ex.Type.INT
    assert argument is not None
    if name in _OF_SEGMENTS:
        return ex.Type.INT
    return ex.Type.FLOAT if name == "avg" else argument.type


def _begin_of(function: ops.RowFunction, time: Temporal) -> Temporal | None:
    """The progress of the begin of a session that is cut: rows of later times may be of one that began by so much
    before them. None for all else."""
    return time.joined(time.then(Step("add", 1 - function.most))) if function.most else None


@dataclass
class _Lower:
    """The select items of the statement below."""

    above: set[str]  # the columns of OVER
    items: list[ops.Item] = field(default_factory=list)
    _names: ops.UniqueNames = field(default_factory=ops.UniqueNames)

    def column(self, expr: ex.Expr, name: str = "") -> ex.Column:
        """Returns the column of an expression, a new one where there is none."""
        same = next((item for item in self.items if item.expr == expr), None)
        if same is None:
            own = expr.name if isinstance(expr, ex.Column) else "_value"
            same = ops.Item(self._names.unique(name or own), expr)
            self.items.append(same)
        return ex.Column(expr.type, same.name, ex.place_of(expr))

    def over(self, expr: ex.Expr, name: str = "") -> ex.Expr:
        """Returns a select item over the columns below and those of OVER."""
        if isinstance(expr, ex.Const | ex.Param):
            return expr
        if self.above.isdisjoint(ex.columns_of(expr)):
            return self.column(expr, name)
        if isinstance(expr, ex.Column):
            return expr
        return ex.with_children(expr, [self.over(child) for child in expr.children()])


def _in_step(node: ops.Node) -> bool:
    """Whether rows come in the order of every time of theirs, by `_last`: packets, and rows of one epoch each."""
    if isinstance(node, ops.ByEpoch):
        return len(ops.clocks(node.key_fields)) == 1
    return not isinstance(node, ops.Join) and all(map(_in_step, node.inputs()))


def _grouped(node: ops.Node) -> bool:
    """Whether rows are those of epochs."""
    return isinstance(node, ops.ByEpoch) or (bool(node.inputs()) and all(map(_grouped, node.inputs())))


def _told(node: ops.Node, time: Temporal) -> bool:
    """Whether rows with one value of a time have one `_last`, so that none of them comes later."""
    if isinstance(node, ops.ByEpoch):
        return ops.clocks(node.key_fields)[0].components == time.components
    if isinstance(node, ops.Source):
        return time.components == CLOCK.components
    return all(_told(below, time) for below in node.inputs())
