"""Binds joins: splits the condition into filters of one side, the match window and conditions of matching.

Called by `binder`. A conjunct on one side filters that input before the join; the others decide matching (V1). The
match window is the first equality of temporal expressions, else a band of two inequalities on one such pair (P4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from lowwater.catalog.expr import (
    Binary,
    Column,
    Const,
    Expr,
    Type,
    Unary,
    columns_of,
    conjunction,
    conjuncts,
    rewrite,
)
from lowwater.gsql import nodes as syntax
from lowwater.gsql.printer import print_source
from lowwater.plan.bind.clauses.grouping import bind_group
from lowwater.plan.bind.clauses.match import Side, alias_of, apart, match_window, note_window
from lowwater.plan.bind.clauses.sources import BoundSource, binder, expand_stars, name_items
from lowwater.plan.bind.clauses.windows import bind_attribute, length
from lowwater.plan.bind.expressions.durations import has_duration, unit_in
from lowwater.plan.bind.expressions.operators import negate
from lowwater.plan.bind.expressions.scope import Scope
from lowwater.plan.bind.names import Names
from lowwater.plan.operators import Aggregation, Field, Item, Join, JoinKind, Node, Source, Window
from lowwater.plan.temporal import infer
from lowwater.plan.text import Text, attempt_all, place_of


@dataclass(frozen=True)
class _Match:
    """The condition of a join: when a row of the left side matches a row of the right side.

    Attributes:
        kind: inner join or outer join.
        sides: the left side, then the right side.
        filters: range variable -> conjuncts on that side only.
        across: conjuncts on both sides, or on no column.
        window: the match window.
        equalities: pairs of (left, right) expressions that must be equal.
        residual: the rest of the condition; None if nothing is left.
    """

    kind: JoinKind
    sides: tuple[Side, Side]
    filters: Mapping[str, list[Expr]]
    across: list[Expr]
    window: Window
    equalities: tuple[tuple[Expr, Expr], ...]
    residual: Expr | None

    def join(self, query: str, items: Sequence[Item]) -> Join:
        """Builds the join that selects the items. Its inputs keep only the columns that it reads."""
        read = [*(item.expr for item in items), *self.across]
        left, right = (_stream(query, side, self.filters[side.source.alias], read) for side in self.sides)
        fields = tuple(Field(item.name, item.expr.type, self.window.time_of(item.expr, self.kind)) for item in items)
        return Join(
            query,
            fields,
            self.kind,
            left,
            right,
            self.sides[0].source.alias,
            self.sides[1].source.alias,
            self.window,
            self.equalities,
            self.residual,
            tuple(items),
        )


def bind_join(
    query: str, statement: syntax.Select, text: Text, sources: Sequence[BoundSource], names: Names, grouped: bool
) -> Join | Aggregation:
    """Binds a join of two sources, and the aggregation over it if the statement has one.

    Args:
        query: name of the query.
        statement: the parsed statement.
        text: the file that holds the statement, for messages.
        sources: the left source, then the right source.
        names: names of the statement other than columns.
        grouped: whether the statement aggregates the rows of the join.

    Returns:
        The logical plan of the join, or of the aggregation over it.

    Raises:
        QueryError: no temporal predicate relates the sides, or both have one range variable.
    """
    match, scope = _match(statement, text, sources, names)
    if grouped:
        return _aggregated(query, statement, match, scope)
    written = expand_stars(statement.items, sources, text)
    bound = attempt_all([binder(scope, item) for item in written])
    return match.join(query, name_items(written, bound, text))


def _aggregated(query: str, statement: syntax.Select, match: _Match, scope: Scope) -> Aggregation:
    """Binds the aggregation over a join. The join selects only the columns that the aggregation reads."""
    named: dict[str, Item] = {}
    scopes: dict[str, dict[str, Expr]] = {}
    for side in match.sides:
        alias = side.source.alias
        scopes[alias] = {}
        for name, expr in side.after.items():
            assert isinstance(expr, Column)
            base_name = expr.name.replace(".", "_")
            item = named.setdefault(expr.name, Item(_free(base_name, {i.name for i in named.values()}), expr))
            scopes[alias][name] = Column(item.expr.type, item.name)
    whole = match.join(query, list(named.values()))
    units = {item.name: scope.units[column] for column, item in named.items() if column in scope.units}
    rows = replace(scope, sources=scopes, units=units)
    source = BoundSource("", whole, {field.name: Column(field.type, field.name) for field in whole.fields})
    group = bind_group(query, replace(statement, where=None), rows, source)
    exprs = [*(key.expr for key in group.keys), *(e for a in group.aggregates for e in (a.argument, *a.more))]
    below = group.input
    while below is not whole and below.inputs():
        exprs += [item.expr for item in getattr(below, "items", ())]
        exprs += [getattr(below, "attribute", None), getattr(below, "predicate", None)]
        below = below.inputs()[0]
    used = set(columns_of(*exprs))
    narrowed = match.join(query, [item for item in named.values() if item.name in used])
    aggregation = _replaced(group, whole, narrowed)
    assert isinstance(aggregation, Aggregation)
    return aggregation


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _replaced(node: Node, old: Node, new: Node) -> Node:
    """Replaces one node of a plan by another. A node that passes rows on takes the fields of its new input."""
    if node is old:
        return new
    below = node.inputs()[0]
    replaced = _replaced(below, old, new)
    if isinstance(node, Aggregation) or hasattr(node, "items"):
        return replace(node, input=replaced)  # type: ignore[call-arg]
    added = node.fields[len(below.fields) :]
    return replace(node, input=replaced, fields=(*replaced.fields, *added))  # type: ignore[call-arg]


def _match(statement: syntax.Select, text: Text, sources: Sequence[BoundSource], names: Names) -> tuple[_Match, Scope]:
    left, right = (_side(source) for source in sources)
    if left.source.alias == right.source.alias:
        named = zip(statement.sources, "AB", strict=True)
        first, second = (print_source(replace(ref, alias=name)) for ref, name in named)
        hint = f"write: FROM {first}, {second}"
        raise text.error(statement.place, f"both sides are called {left.source.alias}", hint)
    sides = {left.source.alias: left.after, right.source.alias: right.after}
    units = {column: unit for side in (left, right) for column, unit in _side_units(side).items()}
    scope = Scope(text, sides, where="a join", names=names, units=units)
    parts = conjuncts(scope.predicate(statement.where, "WHERE")) if statement.where else []
    parts = [apart(part, left, right) for part in parts]
    parts += _windowed(left, right, text, names)
    filters: dict[str, list[Expr]] = {left.source.alias: [], right.source.alias: []}
    across: list[Expr] = []
    for part in parts:
        aliases = {name.split(".", 1)[0] for name in columns_of(part)}
        (filters[aliases.pop()] if len(aliases) == 1 else across).append(part)
    window, rest = match_window(across, left, right, statement, text)
    equalities, residual = _equalities(rest, left.source.alias)
    kind = JoinKind(statement.join)
    _note_missing(kind, filters, across, (left, right), names)
    extents = [side.source.window.range for side in (left, right) if side.source.window]
    plain = not has_duration(statement.where) and not any(extent and extent.unit for extent in extents)
    note_window(window, place_of(statement.where) if statement.where else statement.place, names, plain)
    return _Match(kind, (left, right), filters, across, window, tuple(equalities), residual), scope


def _note_missing(
    kind: JoinKind, filters: Mapping[str, list[Expr]], across: Sequence[Expr], sides: tuple[Side, Side], names: Names
) -> None:
    """Notes an IS NULL on the optional side of an outer join.

    Such a predicate filters that side before the join. The user probably means unmatched rows.
    """
    optional = [side for side, can_miss in zip(sides, (kind.keeps_right, kind.keeps_left), strict=True) if can_miss]
    tied = {
        expr
        for part in across
        if isinstance(part, Binary) and part.op == "="
        for expr in (part.left, part.right)
        if isinstance(part.left, Column) and isinstance(part.right, Column)
    }
    for side in optional:
        for part in filters[side.source.alias]:
            if not (isinstance(part, Unary) and part.op == "IS NULL" and isinstance(part.operand, Column)):
                continue
            name = part.operand.name
            free = f" (not {name}, which an equality ties to the other side)" if part.operand in tied else ""
            names.notes[part.operand.place] = (
                f"{name} IS NULL filters {side.source.alias} before the join: for unmatched rows name the"
                f" join and select WHERE a column of {side.source.alias} IS NULL from it{free}"
            )


def _windowed(left: Side, right: Side, text: Text, names: Names) -> list[Expr]:
    """Turns the windows of both sides into a band (002, section 4.2).

    A row stays in the window of its side for the RANGE, and matches every row in the window of the other side. So x of
    the left side matches y of the right side if x - RANGE_right <= y <= x + RANGE_left, ends included (SEMANTICS P4).
    """
    windows = (left.source.window, right.source.window)
    if windows == (None, None):
        return []
    if None in windows:
        missing = right if windows[0] else left
        place = (windows[0] or windows[1]).place  # type: ignore[union-attr]
        raise text.error(place, f"{missing.source.alias} has no window", "give both sources of the join one")
    attributes, reaches = [], []
    for side, window in zip((left, right), windows, strict=True):
        assert window is not None
        if window.range is None or window.slide is not None or window.partition or window.counted:
            hint = "write [RANGE 2 min, WA ts]"
            raise text.error(window.place, "a window of a join has a RANGE and no SLIDE: it slides by itself", hint)
        scope = Scope(text, {side.source.alias: side.before}, where="a window", names=names)
        attribute, time = bind_attribute(window, side.source, scope)
        reaches.append(length(window.range, attribute, time, side.source, text))
        attributes.append(_after(window, side))
    x, y = attributes
    low = Binary(Type.INT, "-", x, Const(Type.INT, reaches[1]))
    high = Binary(Type.INT, "+", x, Const(Type.INT, reaches[0]))
    return [Binary(Type.BOOL, "<=", low, y), Binary(Type.BOOL, "<=", y, high)]


def _after(window: syntax.Window, side: Side) -> Expr:
    name = window.attribute.name if window.attribute else "time"
    if name in side.after:
        return side.after[name]
    return next(side.after[f.name] for f in side.source.node.fields if f.temporal and f.name in side.after)


def _side(source: BoundSource) -> Side:
    columns = dict(source.columns)
    if isinstance(source.node, Source):
        # Aliases of a packet column read the column itself, so a projected side holds each column once.
        named = {name: Column(expr.type, source.canonical(name)) for name, expr in columns.items()}
    else:
        named = {name: Column(expr.type, name) for name, expr in columns.items()}
    after = {n: Column(c.type, f"{source.alias}.{c.name}") for n, c in named.items()}
    fields = {f.name: f.temporal for f in source.node.fields if f.temporal}
    times = {f"{source.alias}.{name}": t for name, e in columns.items() if (t := infer(e, fields))}
    return Side(source, columns, after, times)


def _side_units(side: Side) -> dict[str, Fraction]:
    units = side.source.time_units()
    column_units = {side.after[name]: unit_in(expr, units) for name, expr in side.source.columns.items()}
    return {columns_of(column)[0]: unit for column, unit in column_units.items() if unit is not None}


def _stream(query: str, side: Side, filters: list[Expr], read: Sequence[Expr]) -> Node:
    """Builds an input of the join with its filters. A packet source keeps only the columns that the join reads."""
    prefix = f"{side.source.alias}."
    used = [name.removeprefix(prefix) for name in columns_of(*read) if name.startswith(prefix)]
    predicate = conjunction([_before(part, side) for part in filters])
    return side.source.stream(query, predicate, used)


def _before(part: Expr, side: Side) -> Expr:
    prefix = f"{side.source.alias}."

    def change(node: Expr) -> Expr:
        return side.before[node.name.removeprefix(prefix)] if isinstance(node, Column) else node

    return rewrite(part, change)


def _equalities(parts: list[Expr], left_alias: str) -> tuple[list[tuple[Expr, Expr]], Expr | None]:
    equalities: list[tuple[Expr, Expr]] = []
    residual: list[Expr] = []
    for part in parts:
        sides: tuple[str | None, str | None] = (None, None)
        if isinstance(part, Binary) and part.op == "=":
            sides = alias_of(part.left), alias_of(part.right)
        if isinstance(part, Binary) and None not in sides and part.left.type is part.right.type:
            swap = sides[0] != left_alias
            equalities.append((part.right, part.left) if swap else (part.left, part.right))
            # NULL equals NULL between columns only (V1), so a computed operand must not be NULL.
            if not (isinstance(part.left, Column) and isinstance(part.right, Column)):
                computed = part.right if isinstance(part.left, Column) else part.left
                residual.append(negate(Unary(Type.BOOL, "IS NULL", computed), True))
        else:
            residual.append(part)
    return equalities, conjunction(residual)
