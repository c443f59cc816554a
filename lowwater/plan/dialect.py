"""Rewrites a bound plan to the value semantics of the old compilers: `dialect 'gigascope'`.

Runs after the binder and before the rules. docs/dialect.md lists the differences: integers and SUM wrap at the width
of their type. AVG of integers over packets truncates. A missing value becomes the default of its type. The operators
are the same as in every other plan, so every engine runs the dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lowwater.catalog.expr import Binary, Call, Case, Column, Const, Expr, Type, Unary, columns_of, rewrite
from lowwater.catalog.values import pack_ip
from lowwater.plan import operators as ops, temporal

NARROW = ("ushort", "uint", "int")
"""GSQL's integer types of at most 32 bits. The others have 64 bits and do not wrap: an overflow is NULL."""

_WRAPS = ("+", "-", "*", "<<")
_MASK = (1 << 32) - 1
_WIDE_COLUMNS = ("timestamp", "sequence_number", "ack_number", "id")


def gigascope(node: ops.Node) -> ops.Node:
    """Returns the plan of one query with the old compilers' values; the queries that it reads keep their own values."""
    return _Dialect(node.query).node(node)


class _Dialect:
    """Rewrites the operators of one query; operators of other queries stay as they are."""

    def __init__(self, query: str) -> None:
        self.query = query

    def node(self, node: ops.Node) -> ops.Node:
        if node.query != self.query:
            return node
        if type(node) in VALUES:
            return VALUES[type(node)](self, node)
        if node.hands_on:
            return self._handed_on(node)
        raise TypeError(f"the Gigascope dialect does not know {type(node).__name__}")

    def _source(self, node: ops.Source) -> ops.Source:
        return replace(node, fields=tuple(_declared(field) for field in node.fields))

    def _union(self, node: ops.Union) -> ops.Union:
        return node.over(*map(self.node, node.branches))

    def _handed_on(self, node: ops.Node) -> ops.Node:
        """Returns an operator that passes rows on, with the widths of its input's columns."""
        (below,) = map(self.node, node.inputs())
        added = node.fields[len(below.fields) :]
        carried = tuple(replace(f, declared=b.declared) for f, b in zip(node.fields, below.fields, strict=False))
        return replace(node.over(below), fields=(*carried, *added))

    def _map(self, node: ops.Map) -> ops.Map:
        node = node.over(self.node(node.input))
        columns = _Columns(node.input.fields)
        items = columns.items(node.items)
        fields = _fields(node.fields, items, columns)
        predicate = columns.condition(node.predicate)
        return replace(node, items=items, fields=fields, predicate=predicate)

    def _aggregation(self, node: ops.Aggregation) -> ops.Aggregation:
        node = node.over(self.node(node.input))
        rows = _Columns(node.input.fields)
        keys = rows.items(node.keys)
        key_fields = _fields(node.key_fields, keys, rows)
        over_packets = isinstance(node, ops.Group) and isinstance(node.input, ops.Source)
        aggregates, finish = _aggregates(node.aggregates, rows, over_packets)
        supers, of_supers = _aggregates(node.supers if isinstance(node, ops.Sampling) else (), rows)
        finish |= of_supers
        counted = (ops.Field(a.name, a.type, None, rows.result(a)) for a in (*aggregates, *supers))
        groups = _Columns((*key_fields, *counted))
        expand = node.input if isinstance(node.input, ops.Expand) else None
        if expand is not None:
            finish |= {name: _present(_column(node, name), "") for name in expand.keys}

        def over(expr: Expr) -> Expr:
            # A default replaces NULL last: the replacement reads the columns of the groups by the same names.
            return ops.with_columns(groups.wrapped(expr), finish)

        items = tuple(ops.Item(item.name, over(item.expr)) for item in node.items)
        fields = _fields(node.fields, items, groups)
        having = over(node.having) if node.having is not None else None
        predicate = rows.condition(node.predicate)
        grouped = replace(node, keys=keys, key_fields=key_fields, aggregates=aggregates)
        grouped = replace(grouped, items=items, fields=fields, having=having, predicate=predicate)
        if isinstance(grouped, ops.Running):
            return replace(grouped, closing=over(grouped.closing))
        if isinstance(grouped, ops.Sampling):
            when, by = (expr and over(expr) for expr in (grouped.cleaning_when, grouped.cleaning_by))
            return replace(grouped, supers=supers, cleaning_when=when, cleaning_by=by)
        return grouped

    def _top(self, node: ops.Top) -> ops.Top:
        node = node.over(self.node(node.input))
        columns = _Columns(node.input.fields)
        items, keys = columns.items(node.items), columns.items(node.keys)
        key_fields, fields = _fields(node.key_fields, keys, columns), _fields(node.fields, items, columns)
        order = tuple(replace(part, expr=columns.wrapped(part.expr)) for part in node.order)
        return replace(node, items=items, fields=fields, keys=keys, key_fields=key_fields, order=order)

    def _join(self, node: ops.Join) -> ops.Node:
        """Returns the join, below a Map that replaces the NULL of a missing side by defaults."""
        node = node.over(self.node(node.left), self.node(node.right))
        columns = _of_sides(node.sides)
        residual = columns.condition(node.residual)
        node = replace(node, equalities=_wrapped_pairs(node.equalities, columns), residual=residual)
        missing_sides = {node.right_alias} if node.kind.keeps_left else set()
        missing_sides |= {node.left_alias} if node.kind.keeps_right else set()
        items = columns.items(node.items)
        if not missing_sides:
            return replace(node, items=items, fields=_fields(node.fields, items, columns))
        # The join outputs plain columns, and those that an equality ties with the value of either side: the Map above
        # computes expressions over a missing column with its default.
        tied = {form for tie in node.ties for form in ops.either(*tie)}
        leaves = dict.fromkeys(leaf for item in items for leaf in _leaves(item.expr, tied))
        names = ops.UniqueNames()
        named = {leaf: ops.Item(names.unique(columns_of(leaf)[0].replace(".", "__", 1)), leaf) for leaf in leaves}
        fields = tuple(
            ops.Field(item.name, leaf.type, node.window.time_of(leaf, node.kind), columns.width(leaf))
            for leaf, item in named.items()
        )
        joined = replace(node, items=tuple(named.values()), fields=fields)
        present: dict[Expr, Expr] = {}
        for leaf, item in named.items():
            column = Column(leaf.type, item.name)
            missing = isinstance(leaf, Column) and leaf.name.split(".", 1)[0] in missing_sides
            present[leaf] = _present(column, columns.width(leaf)) if missing else column
        above = tuple(ops.Item(item.name, ops.replaced(item.expr, present)) for item in items)
        return ops.Map(node.query, _fields(node.fields, items, columns), joined, None, above)

    def _filter_join(self, node: ops.FilterJoin) -> ops.FilterJoin:
        node = node.over(self.node(node.left), self.node(node.right))
        columns = _of_sides(node.sides)
        items = columns.items(node.items)
        fields = _fields(node.fields, items, columns)
        return replace(node, keys=_wrapped_pairs(node.keys, columns), items=items, fields=fields)

    def _watch_join(self, node: ops.WatchJoin) -> ops.WatchJoin:
        node = node.over(self.node(node.input))
        columns = _of_sides([(node.alias, node.input)], node.columns)
        items = columns.items(node.items)
        keys = tuple((columns.wrapped(expr), name) for expr, name in node.keys)
        residual = columns.condition(node.residual)
        return replace(node, keys=keys, residual=residual, items=items, fields=_fields(node.fields, items, columns))


VALUES: dict[type[ops.Node], Callable[[_Dialect, Any], ops.Node]] = {
    ops.Source: _Dialect._source,
    ops.Union: _Dialect._union,
    ops.Join: _Dialect._join,
    ops.Map: _Dialect._map,
    ops.Group: _Dialect._aggregation,
    ops.Running: _Dialect._aggregation,
    ops.Sampling: _Dialect._aggregation,
    ops.Top: _Dialect._top,
    ops.FilterJoin: _Dialect._filter_join,
    ops.WatchJoin: _Dialect._watch_join,
}
"""Operator -> its rewriting; an operator that only passes rows on needs no entry."""


def _leaves(expr: Expr, whole: Container[Expr]) -> list[Expr]:
    """Returns the columns of an expression, and the parts of it that are taken as a whole."""
    if isinstance(expr, Column) or expr in whole:
        return [expr]
    return [leaf for child in expr.children() for leaf in _leaves(child, whole)]


def _column(node: ops.Aggregation, name: str) -> Column:
    return next(Column(f.type, f.name) for f in node.key_fields if f.name == name)


def _declared(field: ops.Field) -> ops.Field:
    if field.type is not Type.INT or field.declared:
        return field
    return replace(field, declared="ullong" if field.name in _WIDE_COLUMNS else "uint")


def _fields(fields: Sequence[ops.Field], items: Sequence[ops.Item], columns: _Columns) -> tuple[ops.Field, ...]:
    return tuple(replace(f, declared=columns.width(item.expr)) for f, item in zip(fields, items, strict=True))


def _present(column: Column, declared: str) -> Expr:
    """Returns the column, or the default of its type where the column is NULL."""
    zero: Mapping[Type, int | float | bool | str | bytes] = {
        Type.BOOL: False,
        Type.FLOAT: 0.0,
        Type.STRING: "",
        Type.IP: pack_ip("::" if declared == "ipv6" else "0.0.0.0"),
    }
    default = Const(column.type, zero.get(column.type, 0))
    return Case(column.type, ((Unary(Type.BOOL, "IS NULL", column), default),), column)


def _of_sides(sides: Sequence[tuple[str, ops.Node]], others: Sequence[ops.Field] = ()) -> _Columns:
    return _Columns([*(replace(f, name=f"{alias}.{f.name}") for alias, side in sides for f in side.fields), *others])


def _wrapped_pairs(pairs: Sequence[tuple[Expr, Expr]], columns: _Columns) -> tuple[tuple[Expr, Expr], ...]:
    return tuple((columns.wrapped(left), columns.wrapped(right)) for left, right in pairs)


def _aggregates(
    of: Sequence[ops.Aggregate], rows: _Columns, over_packets: bool = False
) -> tuple[tuple[ops.Aggregate, ...], dict[str, Expr]]:
    """Returns the rewritten aggregates, and aggregate name -> its expression in conditions and the select items."""
    aggregates: list[ops.Aggregate] = []
    finish: dict[str, Expr] = {}
    for aggregate in of:
        argument = rows.wrapped(aggregate.argument) if aggregate.argument is not None else None
        aggregate = replace(aggregate, argument=argument)
        native = aggregate.native
        parts = native.parts if native is not None else None
        if parts is not None and argument is not None and argument.type is Type.INT and over_packets:
            total = ops.Aggregate(f"{aggregate.name}_total", parts.left, argument, Type.INT)
            count = ops.Aggregate(f"{aggregate.name}_rows", parts.right, argument, Type.INT)
            aggregates += [total, count]
            wrapped = _wrap(Column(Type.INT, total.name), rows.width(argument))
            whole = Binary(Type.INT, parts.operator, wrapped, Column(Type.INT, count.name))
            finish[aggregate.name] = Binary(Type.FLOAT, "*", whole, Const(Type.FLOAT, 1.0))
            continue
        aggregates.append(aggregate)
        if native is not None and native.sums and aggregate.type is Type.INT and argument is not None:
            finish[aggregate.name] = _wrap(Column(Type.INT, aggregate.name), rows.width(argument))
    return tuple(aggregates), finish


def _wrap(expr: Expr, width: str) -> Expr:
    """Returns the integer wrapped to 32 bits; an integer of a wider type stays."""
    if width not in NARROW:
        return expr
    mask = Const(Type.INT, _MASK)
    if width != "int":
        return Binary(Type.INT, "&", expr, mask)
    half = Const(Type.INT, 1 << 31)
    moved = Binary(Type.INT, "&", Binary(Type.INT, "+", expr, half), mask)
    return Binary(Type.INT, "-", moved, half)


class _Columns:
    """Infers the widths of expressions over some columns."""

    def __init__(self, fields: Sequence[ops.Field]) -> None:
        self.widths = {field.name: field.declared for field in fields}  # integer types of GSQL; empty for other types
        self.times = ops.temporals(fields)

    def result(self, aggregate: ops.Aggregate) -> str:
        """Returns the integer type of an aggregate's result; empty for other types."""
        if aggregate.type is not Type.INT:
            return ""
        counts = aggregate.native is not None and aggregate.native.fold is None
        if counts or aggregate.argument is None:
            return "int"
        return self.width(aggregate.argument) or "uint"

    def width(self, expr: Expr) -> str:
        """Returns GSQL's type of an integer expression; empty for an expression of another type."""
        if expr.type is not Type.INT:
            return ""
        if isinstance(expr, Column):
            return self.widths.get(expr.name) or "ullong"
        if isinstance(expr, Const):
            value = int(expr.value) if isinstance(expr.value, int) else 0
            return ("uint" if value <= _MASK else "ullong") if value >= 0 else "int" if value >= -(1 << 31) else "llong"
        if isinstance(expr, Unary):
            inner = self.width(expr.operand)
            return {"uint": "int", "ushort": "int", "ullong": "llong"}.get(inner, inner) if expr.op == "-" else inner
        if isinstance(expr, Binary):
            return _wider(self.width(expr.left), self.width(expr.right), expr.op)
        if isinstance(expr, Case):
            return self.width(expr.branches[0][1])
        name = expr.function.name.lower() if isinstance(expr, Call) else ""
        return name if name in ("int", "uint", "llong", "ullong") else "ullong"

    def wrapped(self, expr: Expr) -> Expr:
        """Returns the expression with every sum, product, shift and negation wrapped to the width of its type."""

        def change(node: Expr) -> Expr:
            overflows = (isinstance(node, Binary) and node.op in _WRAPS) or (isinstance(node, Unary) and node.op == "-")
            # A temporal expression does not wrap, so its order stays: seconds fit 32 bits until 2106.
            if node.type is not Type.INT or not overflows or temporal.infer(node, self.times) is not None:
                return node
            width = self.width(node)
            if isinstance(node, Binary) and node.op in ("*", "<<") and width in NARROW:
                node = self._within_64_bits(node)
            return _wrap(node, width)

        return rewrite(expr, change)

    def condition(self, expr: Expr | None) -> Expr | None:
        return None if expr is None else self.wrapped(expr)

    def items(self, items: Sequence[ops.Item]) -> tuple[ops.Item, ...]:
        return tuple(ops.Item(item.name, self.wrapped(item.expr)) for item in items)

    def _within_64_bits(self, node: Binary) -> Binary:
        """Returns a product or shift of narrow integers with the same low 32 bits, without overflow of 64 bits."""
        mask, half, low = (Const(Type.INT, value) for value in (_MASK, 16, 0xFFFF))
        left, right = node.left, node.right
        if node.op == "<<":
            fits = Binary(Type.INT, "&", left, Binary(Type.INT, ">>", mask, right))
            return Binary(Type.INT, "<<", fits, right)
        if any(isinstance(side, Const) and abs(int(side.value or 0)) < 1 << 31 for side in (left, right)):
            return node
        upper = Binary(Type.INT, "&", Binary(Type.INT, "*", left, Binary(Type.INT, ">>", right, half)), low)
        lower = Binary(Type.INT, "*", left, Binary(Type.INT, "&", right, low))
        return Binary(Type.INT, "+", lower, Binary(Type.INT, "<<", upper, half))


def _wider(left: str, right: str, op: str) -> str:
    if op in ("<<", ">>"):
        return left
    wide = [side for side in (left, right) if side not in NARROW]
    if wide:
        return "ullong" if "ullong" in wide else wide[0]
    if "uint" in (left, right):
        return "uint"
    return "int" if "int" in (left, right) else "ushort"
