"""Binds joins: the windows in which rows of two streams match, the conditions of each side, and joins with a file
(FILTER_JOIN, WATCHLIST_JOIN).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from lowwater.catalog import expr as ex
from lowwater.errors import QueryError
from lowwater.gsql import nodes as syntax
from lowwater.gsql.printer import print_source
from lowwater.plan import operators as ops
from lowwater.plan.bind import durations, grouping
from lowwater.plan.bind.expressions import Scope, fitted, negate
from lowwater.plan.bind.names import Names, type_of
from lowwater.plan.bind.sources import BoundSource, bind_attribute, expand_stars, length, name_items, timeless
from lowwater.plan.temporal import Step, Temporal, infer
from lowwater.plan.text import Text, place_of, spot

# Finds the match window of a join: an equality or a band of one temporal expression of each side (SEMANTICS P4).
# Called by `joins`, which splits the condition into conjuncts.

_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
FAR = 1000
"""Ratio of the units of an equality's sides from which the query gets a note: it is probably a mistake."""


@dataclass(frozen=True)
class Side:
    """One input of a join."""

    source: BoundSource
    before: Mapping[str, ex.Expr]  # column name -> expression over the rows of the source
    after: Mapping[str, ex.Expr]  # column name -> column of the join, named `range_variable.column`
    times: Mapping[str, Temporal]  # column of the join -> progress, for temporal columns


def match_window(
    across: list[ex.Expr], left: Side, right: Side, statement: syntax.Select, text: Text
) -> tuple[ops.Window, list[ex.Expr]]:
    """Finds the match window among the conjuncts of a join condition. Returns the match window, and the conjuncts that
    the window does not cover."""
    pairs = [_pair(part, left, right) for part in across]
    for i, pair in enumerate(pairs):
        if pair and pair.op == "=":
            rest = [part for j, part in enumerate(across) if j != i]
            return ops.Window(pair.left, pair.right, pair.left_time, pair.right_time, 0, 0, equality=True), rest
    bands: dict[tuple[ex.Expr, ex.Expr], list[int]] = {}
    for i, pair in enumerate(pairs):
        if pair:
            key = pair.stripped()
            bands.setdefault((key.left, key.right), []).append(i)
    for used in bands.values():
        bounds = [pairs[i].bound() for i in used]  # type: ignore[union-attr]
        lows = [value for side, value in bounds if side == "low"]
        highs = [value for side, value in bounds if side == "high"]
        if lows and highs:
            pair = pairs[used[0]].stripped()  # type: ignore[union-attr]
            if not _same_scale(pair):
                units = _units(pair.left, pair.right, pair.left_time, pair.right_time)
                hint = f"write {units[1]}/{units[2]} in the place of {units[1]}" if units else ""
                raise text.unsupported(place_of(statement.where), "a band over attributes of different scale", hint)
            window = ops.Window(pair.left, pair.right, pair.left_time, pair.right_time, -max(lows), min(highs))
            return window, [part for j, part in enumerate(across) if j not in used]
    temporal = [part for part, pair in zip(across, pairs, strict=True) if pair]
    params = [node for part in temporal for node in ex.walk(part) if isinstance(node, ex.Param)]
    if params:
        message = f"the match window of the join needs the value of ${params[0].name}"
        place = syntax.Place(*params[0].place)
        raise text.error(place, message, f"give --param {params[0].name}=VALUE")
    if bands:
        message = "the band of the join is open on one side, so it would never close"
        names = (_clock_name(left), _clock_name(right))
        hint = f"bound it from both sides: {names[0]} - 5 <= {names[1]} AND {names[1]} <= {names[0]} + 5"
        raise text.error(place_of(statement.where), message, hint)
    raise _no_window(left, right, statement, text)


def _no_window(left: Side, right: Side, statement: syntax.Select, text: Text) -> QueryError:
    place = place_of(statement.where) if statement.where else statement.place
    names = [_clock_name(side) for side in (left, right)]
    hint = f"add a temporal equality such as {names[0]} = {names[1]}"
    if without := next((side for side, name in zip((left, right), names, strict=True) if not name), None):
        hint = f"{without.source.alias} has no temporal column: {timeless(without.source.node)}"
    return text.error(place, "no predicate relates a temporal column of each side, so the join would never close", hint)


def _clock_name(side: Side) -> str:
    time = f"{side.source.alias}.time"
    return time if time in side.times else min(side.times, key=len, default="")


@dataclass(frozen=True)
class _Pair:
    """A comparison `left op right` of two temporal expressions, one of each side."""

    op: str
    left: ex.Expr
    right: ex.Expr
    left_time: Temporal
    right_time: Temporal

    def bound(self) -> tuple[str, int]:
        """Returns the bound on right - left, both without added constants, as ("low" or "high", value)."""
        shift = _constant(self.left)[0] - _constant(self.right)[0]
        if self.op in ("<", "<="):
            return "low", shift + (1 if self.op == "<" else 0)
        return "high", shift - (1 if self.op == ">" else 0)

    def stripped(self) -> _Pair:
        """Returns the pair without added constants."""
        (more, left), (most, right) = _constant(self.left), _constant(self.right)
        times = self.left_time.then(Step("add", -more)), self.right_time.then(Step("add", -most))
        return _Pair(self.op, left, right, *times)


def _pair(part: ex.Expr, left: Side, right: Side) -> _Pair | None:
    if not (isinstance(part, ex.Binary) and part.op in _FLIPPED):
        return None
    times = {**left.times, **right.times}
    op, a, b = part.op, part.left, part.right
    if alias_of(a) == right.source.alias and alias_of(b) == left.source.alias:
        op, a, b = _FLIPPED[op], b, a
    if alias_of(a) != left.source.alias or alias_of(b) != right.source.alias:
        return None
    a_time, b_time = infer(a, times), infer(b, times)
    if a_time is None or b_time is None or not a_time.alike(b_time):
        return None
    return _Pair(op, a, b, a_time, b_time)


def alias_of(expr: ex.Expr) -> str | None:
    """Returns the range variable of the only side that an expression reads; None if it reads no side or both."""
    aliases = {name.split(".", 1)[0] for name in ex.columns_of(expr)}
    return aliases.pop() if len(aliases) == 1 else None


def _constant(expr: ex.Expr) -> tuple[int, ex.Expr]:
    """Returns the sum of the constants that the outermost additions add, and the expression without them."""
    if isinstance(expr, ex.Binary) and expr.op in ("+", "-"):
        if isinstance(expr.right, ex.Const) and isinstance(expr.right.value, int):
            by, rest = _constant(expr.left)
            return by + (expr.right.value if expr.op == "+" else -expr.right.value), rest
        if expr.op == "+" and isinstance(expr.left, ex.Const) and isinstance(expr.left.value, int):
            by, rest = _constant(expr.right)
            return by + expr.left.value, rest
    return 0, expr


def _same_scale(pair: _Pair) -> bool:
    def scale(time: Temporal) -> set[tuple[Step, ...]]:
        return {_divided(steps[:-1] if steps and steps[-1].op == "add" else steps) for steps in time.components}

    return scale(pair.left_time) == scale(pair.right_time)


def _divided(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Merges consecutive divisions of a progress: x / a / b equals x / (a * b), both truncated."""
    merged: list[Step] = []
    for step in steps:
        constant = not step.param and merged and not merged[-1].param
        if constant and step.op == merged[-1].op == "div":
            merged[-1] = Step("div", merged[-1].by * step.by)
        else:
            merged.append(step)
    return tuple(merged)


def apart(part: ex.Expr, left: Side, right: Side) -> ex.Expr:
    """Rewrites a bound on a difference of temporal expressions, `b - a <= 3`, as `b <= a + 3`. Keeps any other part."""
    if not (isinstance(part, ex.Binary) and part.op in _FLIPPED):
        return part
    op, difference, by = part.op, part.left, part.right
    if isinstance(difference, ex.Const):
        op, difference, by = _FLIPPED[op], by, difference
    whole = isinstance(by, ex.Const | ex.Param) and by.type is ex.Type.INT
    if not (isinstance(difference, ex.Binary) and difference.op == "-" and whole):
        return part
    moved = ex.Binary(ex.Type.BOOL, op, difference.left, ex.Binary(ex.Type.INT, "+", difference.right, by))
    return moved if _pair(moved, left, right) else part


def note_window(window: ops.Window, place: syntax.Place, names: Names, plain: bool) -> None:
    """Notes a match window that is empty or very short, or whose sides count in very different units, in the `notes` of
    `names`. `plain`: whether the query writes the bounds without units."""
    spot = (place.line, place.column)
    if window.below + window.above < 0:
        names.notes[spot] = "the band of the join is empty, so no rows can meet: its lower end is above its upper end"
    unit = None if window.left_time.origin else durations.unit_of(window.left_time)
    reach = max(abs(window.below), abs(window.above))
    if plain and window.below + window.above >= 0 and (note := durations.brief(reach, unit, ex.show(window.left))):
        names.notes[spot] = f"the band of the join hardly reaches: {note}"
    units = _units(window.left, window.right, window.left_time, window.right_time)
    if window.equality and units and units[2] >= FAR:
        coarse, fine, factor = units
        names.notes[spot] = (
            f"{coarse} and {fine} count in units that differ by a factor of {factor:,}, so rows with equal values lie"
            f" far apart: write {coarse} = {fine}/{factor}"
        )


def _units(left: ex.Expr, right: ex.Expr, left_time: Temporal, right_time: Temporal) -> tuple[str, str, int] | None:
    """Compares the units of the two sides of a match window. Returns the side with the larger unit, the other side, and
    the ratio of the units; None if equal or unknown."""
    units = (durations.unit_of(left_time), durations.unit_of(right_time))
    if units[0] is None or units[1] is None or units[0] == units[1] or left_time.origin:
        return None
    coarse, fine = (left, right) if units[0] > units[1] else (right, left)
    return ex.show(coarse), ex.show(fine), round(max(units[0], units[1]) / min(units[0], units[1]))


# Binds joins: splits the condition into filters of one side, the match window and conditions of matching. Called by
# `binder`. A conjunct on one side filters that input before the join; the others decide matching (V1). The match
# window is the first equality of temporal expressions, else a band of two inequalities on one such pair (P4).


@dataclass(frozen=True)
class _Match:
    """The condition of a join: when a row of the left side matches a row of the right side."""

    kind: ops.JoinKind
    sides: tuple[Side, Side]  # the left side, then the right side
    filters: Mapping[str, list[ex.Expr]]  # range variable -> conjuncts on that side only
    across: list[ex.Expr]  # conjuncts on both sides, or on no column
    window: ops.Window
    equalities: tuple[tuple[ex.Expr, ex.Expr], ...]
    residual: ex.Expr | None  # the rest of the condition; None if nothing is left

    def join(self, query: str, items: Sequence[ops.Item]) -> ops.Join:
        """Builds the join that selects the items. Its inputs keep only the columns that it reads."""
        read = [*(item.expr for item in items), *self.across]
        left, right = (_stream(query, side.source, self.filters[side.source.alias], read) for side in self.sides)
        fields = tuple(
            ops.Field(item.name, item.expr.type, self.window.time_of(item.expr, self.kind)) for item in items
        )
        inputs = left, right, self.sides[0].source.alias, self.sides[1].source.alias
        return ops.Join(query, fields, *inputs, self.kind, self.window, self.equalities, self.residual, tuple(items))


def bind_join(
    query: str, statement: syntax.Select, text: Text, sources: Sequence[BoundSource], names: Names, grouped: bool
) -> ops.Join | ops.Aggregation:
    """Binds a join of two sources, and the aggregation over it if the statement has one. Raises QueryError if no
    temporal predicate relates the sides, or both have one range variable. `sources`: the left source, then the right
    source."""
    match, scope = _match(statement, text, sources, names)
    if grouped:
        return _aggregated(query, statement, match, scope)
    written = expand_stars(statement.items, sources, text)
    bound = scope.all(*(item.expression for item in written))
    return match.join(query, name_items(written, bound, text))


def _aggregated(query: str, statement: syntax.Select, match: _Match, scope: Scope) -> ops.Aggregation:
    """Binds the aggregation over a join. The join selects only the columns that the aggregation reads."""
    named: dict[str, ops.Item] = {}
    scopes: dict[str, dict[str, ex.Expr]] = {}
    for side in match.sides:
        alias = side.source.alias
        scopes[alias] = {}
        for name, expr in side.after.items():
            assert isinstance(expr, ex.Column)
            base_name = expr.name.replace(".", "_")
            item = named.setdefault(expr.name, ops.Item(_free(base_name, {i.name for i in named.values()}), expr))
            scopes[alias][name] = ex.Column(item.expr.type, item.name)
    whole = match.join(query, list(named.values()))
    units = {item.name: scope.units[column] for column, item in named.items() if column in scope.units}
    rows = replace(scope, sources=scopes, units=units)
    source = BoundSource("", whole, {field.name: ex.Column(field.type, field.name) for field in whole.fields})
    group = grouping.bind_group(query, replace(statement, where=None), rows, source)
    exprs: list[ex.Expr | None] = [key.expr for key in group.keys]
    exprs += [expr for aggregate in group.aggregates for expr in aggregate.arguments]
    below = group.input
    while below is not whole and below.inputs():
        exprs += [item.expr for item in getattr(below, "items", ())]
        exprs += [getattr(below, "attribute", None), getattr(below, "predicate", None)]
        below = below.inputs()[0]
    used = set(ex.columns_of(*exprs))
    narrowed = match.join(query, [item for item in named.values() if item.name in used])
    aggregation = _replaced(group, whole, narrowed)
    assert isinstance(aggregation, ops.Aggregation)
    return aggregation


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _replaced(node: ops.Node, old: ops.Node, new: ops.Node) -> ops.Node:
    """Replaces one node of a plan by another. A node that passes rows on takes the fields of its new input."""
    if node is old:
        return new
    below = node.inputs()[0]
    replaced = _replaced(below, old, new)
    if isinstance(node, ops.Aggregation) or hasattr(node, "items"):
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
    scope = Scope(text, sides, where="a join", names=names, units=_column_units(*sources))
    parts = ex.conjuncts(scope.predicate(statement.where, "WHERE")) if statement.where else []
    parts = [apart(part, left, right) for part in parts]
    parts += _windowed(left, right, text, names)
    filters: dict[str, list[ex.Expr]] = {left.source.alias: [], right.source.alias: []}
    across: list[ex.Expr] = []
    for part in parts:
        aliases = {name.split(".", 1)[0] for name in ex.columns_of(part)}
        (filters[aliases.pop()] if len(aliases) == 1 else across).append(part)
    window, rest = match_window(across, left, right, statement, text)
    equalities, residual = _equalities(rest, left.source.alias)
    kind = ops.JoinKind(statement.join)
    _note_missing(kind, filters, across, (left, right), names)
    extents = [side.source.window.range for side in (left, right) if side.source.window]
    plain = not durations.has_duration(statement.where) and not any(extent and extent.unit for extent in extents)
    note_window(window, place_of(statement.where) if statement.where else statement.place, names, plain)
    return _Match(kind, (left, right), filters, across, window, tuple(equalities), residual), scope


def _note_missing(
    kind: ops.JoinKind,
    filters: Mapping[str, list[ex.Expr]],
    across: Sequence[ex.Expr],
    sides: tuple[Side, Side],
    names: Names,
) -> None:
    """Notes an IS NULL on the optional side of an outer join. Such a predicate filters that side before the join. The
    user probably means unmatched rows."""
    optional = [side for side, can_miss in zip(sides, (kind.keeps_right, kind.keeps_left), strict=True) if can_miss]
    tied = {
        expr
        for part in across
        if isinstance(part, ex.Binary) and part.op == "="
        for expr in (part.left, part.right)
        if isinstance(part.left, ex.Column) and isinstance(part.right, ex.Column)
    }
    for side in optional:
        for part in filters[side.source.alias]:
            if not (isinstance(part, ex.Unary) and part.op == "IS NULL" and isinstance(part.operand, ex.Column)):
                continue
            name = part.operand.name
            free = f" (not {name}, which an equality ties to the other side)" if part.operand in tied else ""
            names.notes[part.operand.place] = (
                f"{name} IS NULL filters {side.source.alias} before the join: for unmatched rows name the"
                f" join and select WHERE a column of {side.source.alias} IS NULL from it{free}"
            )


def _windowed(left: Side, right: Side, text: Text, names: Names) -> list[ex.Expr]:
    """Turns the windows of both sides into a band (002, section 4.2). A row stays in the window of its side for the
    RANGE, and matches every row in the window of the other side. So x of the left side matches y of the right side if
    x - RANGE_right <= y <= x + RANGE_left, ends included (SEMANTICS P4)."""
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
    low = ex.Binary(ex.Type.INT, "-", x, ex.Const(ex.Type.INT, reaches[1]))
    high = ex.Binary(ex.Type.INT, "+", x, ex.Const(ex.Type.INT, reaches[0]))
    return [ex.Binary(ex.Type.BOOL, "<=", low, y), ex.Binary(ex.Type.BOOL, "<=", y, high)]


def _after(window: syntax.Window, side: Side) -> ex.Expr:
    name = window.attribute.name if window.attribute else "time"
    if name in side.after:
        return side.after[name]
    return next(side.after[f.name] for f in side.source.node.fields if f.temporal and f.name in side.after)


def _side(source: BoundSource) -> Side:
    columns = dict(source.columns)
    # Aliases of a packet column read the column itself, so a projected side holds each column once.
    after = {n: ex.Column(e.type, f"{source.alias}.{source.canonical(n)}") for n, e in columns.items()}
    fields = {f.name: f.temporal for f in source.node.fields if f.temporal}
    times = {f"{source.alias}.{name}": t for name, e in columns.items() if (t := infer(e, fields))}
    return Side(source, columns, after, times)


def _stream(query: str, source: BoundSource, filters: Sequence[ex.Expr], read: Sequence[ex.Expr]) -> ops.Node:
    """Builds an input of a join with its filters. A packet source keeps only the columns that the join reads."""
    prefix = f"{source.alias}."
    used = [name.removeprefix(prefix) for name in ex.columns_of(*read) if name.startswith(prefix)]
    columns = {f"{prefix}{name}": expr for name, expr in source.columns.items()}
    before = ex.conjunction([ops.with_columns(part, columns) for part in filters])
    return source.stream(query, before, used)


def _across(part: ex.Expr, left: str) -> tuple[ex.Expr, ex.Expr] | None:
    """Returns the sides of an equality of two range variables, that of `left` first; None for any other predicate."""
    if not (isinstance(part, ex.Binary) and part.op == "="):
        return None
    aliases = alias_of(part.left), alias_of(part.right)
    if None in aliases or aliases[0] == aliases[1]:
        return None
    return (part.left, part.right) if aliases[0] == left else (part.right, part.left)


def _equalities(parts: list[ex.Expr], left_alias: str) -> tuple[list[tuple[ex.Expr, ex.Expr]], ex.Expr | None]:
    equalities: list[tuple[ex.Expr, ex.Expr]] = []
    residual: list[ex.Expr] = []
    for part in parts:
        sides = _across(part, left_alias)
        if sides is not None and sides[0].type is sides[1].type:
            equalities.append(sides)
            residual += _present(part.children())
        else:
            residual.append(part)
    return equalities, ex.conjunction(residual)


def _present(sides: Sequence[ex.Expr]) -> list[ex.Expr]:
    """The condition that an equality adds: NULL equals NULL between columns only (V1), so no computed side is NULL."""
    computed = [side for side in sides if not isinstance(side, ex.Column)]
    return [negate(ex.Unary(ex.Type.BOOL, "IS NULL", side), True) for side in computed[:1]]


def _alike(left: ex.Expr, right: ex.Expr) -> tuple[ex.Expr, ex.Expr]:
    """Returns the sides of an equality in one type, which a look-up by hash needs: an integer beside a float is one."""
    return fitted(left, right.type, False) or left, fitted(right, left.type, False) or right


# Binds lookup joins: FILTER_JOIN and WATCHLIST_JOIN. Called by `queries`. Both joins run at the low level of
# Gigascope. The right side is a set of keys, and no row waits for a match (SEMANTICS O6; shared rules of GSQL,
# section 2).


@dataclass(frozen=True)
class Watch:
    """A declared watch list."""

    name: str
    file: str  # path of the CSV file with its rows, an input of the run (S1)
    refresh: int  # interval in seconds at which the original system read the file again
    columns: tuple[ops.Field, ...]  # columns in the order of the file
    keys: tuple[str, ...]


def declare_watch(name: str, statement: syntax.Watchlist, text: Text, folders: Sequence[Path]) -> Watch:
    """Reads the declaration of a watch list. Raises QueryError for no key, an unknown type, or no `filename` or
    `refresh_interval` in DEFINE. `folders`: folders that may hold the file of the watch list, besides the folder of the
    query file."""
    defines = dict(statement.defines)
    place = statement.place
    if not defines.get("filename"):
        raise text.error(place, f"watch list {name} names no file", "write DEFINE { filename 'watch.csv'; } before it")
    text.require_inside(defines["filename"], place, folders)
    refresh = defines.get("refresh_interval", "")
    if not refresh.isdigit() or int(refresh) <= 0:
        hint = "write DEFINE { refresh_interval '60'; } before it, in seconds"
        raise text.error(place, f"the refresh_interval of {name} is no number above 0", hint)
    fields, keys = [], []
    for column in statement.columns:
        kind = type_of(column.type)
        if kind is None:
            raise text.error(column.place, f"{column.name} has the type {column.type}, which is none of ours")
        fields.append(ops.Field(column.name, kind))
        if any(word.lower() == "key" for word, _ in column.attributes):
            keys.append(column.name)
    names = [field.name for field in fields]
    for column in statement.columns:
        if names.count(column.name) > 1:
            raise text.error(column.place, f"watch list {name} has two columns called {column.name}")
    if not keys:
        hint = "write (key) behind a column of it, such as IP address (key);"
        raise text.error(place, f"watch list {name} has no key", hint)
    return Watch(name, defines["filename"], int(refresh), tuple(fields), tuple(keys))


def _scoped(source: BoundSource) -> dict[str, ex.Expr]:
    return {name: ex.Column(expr.type, f"{source.alias}.{name}") for name, expr in source.columns.items()}


def _column_units(*sources: BoundSource) -> dict[str, Fraction]:
    units = {
        f"{source.alias}.{name}": durations.unit_in(expr, source.time_units())
        for source in sources
        for name, expr in source.columns.items()
    }
    return {column: unit for column, unit in units.items() if unit is not None}


def _direct(source: BoundSource, kind: str, statement: syntax.Select, text: Text) -> ops.Source:
    if not isinstance(source.node, ops.Source):
        hint = f"name a protocol: {kind} runs where the packets are"
        raise text.error(statement.place, f"{kind} reads links, and {source.alias} is a query", hint)
    return source.node


def bind_filter_join(
    query: str, statement: syntax.Select, text: Text, sources: Sequence[BoundSource], names: Names
) -> ops.FilterJoin:
    """Binds FILTER_JOIN(t, range). Raises QueryError if a source is a query, the links differ, there is no equality, or
    SELECT reads the right side. `sources`: the source to filter, then the source that holds the keys."""
    left, right = sources
    nodes = [_direct(source, "FILTER_JOIN", statement, text) for source in sources]
    if nodes[0].links != nodes[1].links:
        raise text.error(statement.place, "FILTER_JOIN has both sources on the same links")
    if left.alias == right.alias:
        raise text.error(statement.place, f"both sides are called {left.alias}", "write: FROM TCP R, TCP S")
    scopes = {source.alias: _scoped(source) for source in sources}
    scope = Scope(text, scopes, where="FILTER_JOIN", names=names, units=_column_units(*sources))
    assert statement.filter_range is not None
    column, extent = statement.filter_range
    if column.qualifier not in ("", left.alias):
        raise text.error(column.place, f"the attribute of FILTER_JOIN is one of {left.alias}, which it filters")
    times = [source.columns.get(column.name) for source in sources]
    if any(e is None or infer(e, ops.temporals(n.fields)) is None for e, n in zip(times, nodes, strict=True)):
        raise text.error(column.place, f"{column.name} of FILTER_JOIN must be a temporal column of both sides")
    unit = scope.units.get(f"{left.alias}.{column.name}")
    reach = scope.constant(extent, "the range of FILTER_JOIN", (column, unit))
    if not isinstance(reach, int) or reach <= 0:
        raise text.error(place_of(extent), "the range of FILTER_JOIN is a whole number above 0")
    if not durations.has_duration(extent) and (note := durations.brief(reach, unit, f"{left.alias}.{column.name}")):
        names.notes[spot(extent)] = f"the range of FILTER_JOIN hardly reaches: {note}"
    parts = ex.conjuncts(scope.predicate(statement.where, "WHERE")) if statement.where else []
    keys, filters = _keys(parts, left, right, text.error(place_of(statement.where), *_BY_KEY))
    if not keys:
        hint = f"add one to WHERE, such as {left.alias}.srcIP = {right.alias}.srcIP"
        raise text.error(statement.place, "FILTER_JOIN needs an equality between both sides", hint)
    if nodes[0].links == (ops.ANY_LINK,) or len(nodes[0].links) > 1:
        # A row matches only keys of its own link (O6).
        interfaces = [ex.Column(ex.Type.STRING, f"{source.alias}.interface") for source in sources]
        keys.append((interfaces[0], interfaces[1]))
    written = expand_stars(statement.items, [left], text)
    left_scope = replace(scope, sources={left.alias: _scoped(left)}, where="SELECT of FILTER_JOIN")
    bound = left_scope.all(*(item.expression for item in written))
    items = name_items(written, bound, text)
    left_time, right_time = (ex.Column(ex.Type.INT, f"{source.alias}.{column.name}") for source in sources)
    read = [*(expr for pair in keys for expr in pair), *bound, left_time, right_time]
    streams = [_stream(query, source, filters[source.alias], read) for source in sources]
    progress = _progress(left.alias, streams[0].fields, column.name, reach)
    fields = tuple(ops.Field(item.name, item.expr.type, infer(item.expr, progress)) for item in items)
    algorithm = "hash" if names.defines.get("algorithm") == "hash" else "bloom"
    return ops.FilterJoin(
        query,
        fields,
        streams[0],
        streams[1],
        left.alias,
        right.alias,
        tuple(keys),
        left_time,
        right_time,
        reach,
        tuple(items),
        algorithm,
        spot(statement),
    )


_BY_KEY = ("FILTER_JOIN relates its sides by equalities only", "write a join for other conditions")


def _progress(alias: str, fields: Sequence[ops.Field], name: str, reach: int) -> dict[str, Temporal]:
    """Returns the progress of the left columns after FILTER_JOIN (P4). A row waits until its unit of t ends; if t
    decreases, it waits for the whole range. So only columns no finer than t progress."""
    base = next(f.temporal for f in fields if f.name == name)
    assert base is not None
    (chain,), progress = base.components, {}
    for f in fields:
        if f.temporal and f.temporal.origin == base.origin and f.temporal.components[0][: len(chain)] == chain:
            waiting = base.then(Step("add", 0 if base.increasing else reach))
            progress[f"{alias}.{f.name}"] = waiting.then(*f.temporal.components[0][len(chain) :])
    return progress


def _keys(
    parts: Sequence[ex.Expr], left: BoundSource, right: BoundSource, otherwise: QueryError
) -> tuple[list[tuple[ex.Expr, ex.Expr]], dict[str, list[ex.Expr]]]:
    keys: list[tuple[ex.Expr, ex.Expr]] = []
    filters: dict[str, list[ex.Expr]] = {left.alias: [], right.alias: []}
    for part in parts:
        aliases = {name.split(".", 1)[0] for name in ex.columns_of(part)}
        if sides := _across(part, left.alias):
            keys.append(_alike(*sides))
            for side, conditions in zip(keys[-1], filters.values(), strict=True):
                conditions += _present([side])
        elif len(aliases) < 2:
            filters[min(aliases, default=left.alias)].append(part)
        else:
            # A lookup by key decides equalities only.
            raise otherwise
    return keys, filters


def bind_watch_join(
    query: str, statement: syntax.Select, text: Text, source: BoundSource, watch: Watch, alias: str, names: Names
) -> ops.WatchJoin:
    """Binds WATCHLIST_JOIN FROM protocol p, list w.
    Raises QueryError if the left source is a query, or a key of the watch list has no equality."""
    _direct(source, "WATCHLIST_JOIN", statement, text)
    columns = {f.name: ex.Column(f.type, f"{alias}.{f.name}") for f in watch.columns}
    scopes: dict[str, Mapping[str, ex.Expr]] = {source.alias: _scoped(source), alias: columns}
    scope = Scope(text, scopes, where="WATCHLIST_JOIN", names=names, units=_column_units(source))
    parts = ex.conjuncts(scope.predicate(statement.where, "WHERE")) if statement.where else []
    keys: dict[str, ex.Expr] = {}
    filters: list[ex.Expr] = []
    residual: list[ex.Expr] = []
    for part in parts:
        if sides := _across(part, source.alias):
            mine, theirs = sides
            name = theirs.name.removeprefix(f"{alias}.") if isinstance(theirs, ex.Column) else ""
            if name in watch.keys and name not in keys:
                keys[name], listed = _alike(mine, theirs)
                if listed is not theirs:
                    message = f"the key {name} of watch list {watch.name} is {theirs.type}, and not {mine.type}"
                    raise text.error(place_of(statement.where), message, f"declare {name} as {mine.type} in FIELDS")
                filters += _present([keys[name]])
                continue
        left_only = {name.split(".", 1)[0] for name in ex.columns_of(part)} <= {source.alias}
        (filters if left_only else residual).append(part)
    missing = [name for name in watch.keys if name not in keys]
    if missing:
        hint = f"add one to WHERE, such as {source.alias}.srcIP = {alias}.{missing[0]}"
        raise text.error(statement.place, f"no equality with the key {missing[0]} of watch list {watch.name}", hint)
    shown = BoundSource(alias, source.node, columns)
    written = expand_stars(statement.items, [source, shown], text)
    bound = scope.all(*(item.expression for item in written))
    items = name_items(written, bound, text)
    stream = _stream(query, source, filters, [*bound, *keys.values(), *residual])
    progress = {f"{source.alias}.{f.name}": f.temporal for f in stream.fields if f.temporal}
    fields = tuple(ops.Field(item.name, item.expr.type, infer(item.expr, progress)) for item in items)
    columns_out = tuple(ops.Field(f"{alias}.{f.name}", f.type) for f in watch.columns)
    key_pairs = tuple((keys[name], f"{alias}.{name}") for name in watch.keys)
    return ops.WatchJoin(
        query,
        fields,
        stream,
        source.alias,
        watch.name,
        alias,
        watch.file,
        watch.refresh,
        columns_out,
        key_pairs,
        ex.conjunction(residual),
        tuple(items),
        spot(statement),
    )
