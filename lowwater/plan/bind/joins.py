"""Binds joins: the windows in which rows of two streams match, the conditions of each side, and joins with a file
(FILTER_JOIN, WATCHLIST_JOIN).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from lowwater.catalog import expr as ex
from lowwater.errors import QueryError
from lowwater.gsql import nodes as syntax
from lowwater.gsql.printer import print_expression, print_source
from lowwater.plan import operators as ops
from lowwater.plan.bind import durations, grouping
from lowwater.plan.bind.expressions import Scope, fitted, negate
from lowwater.plan.bind.names import Names, type_of
from lowwater.plan.bind.sources import BoundSource, bind_attribute, expand_stars, length, make_map, name_items, timeless
from lowwater.plan.temporal import Step, Temporal, infer
from lowwater.plan.text import Text, place_of, spot

# The match window: an equality or a band of one temporal expression of each side (SEMANTICS P4).

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
    across: list[ex.Expr], left: Side, right: Side, place: syntax.Place, text: Text, nearest: bool
) -> tuple[ops.Window, list[ex.Expr]]:
    """Finds the match window among the conjuncts of a join condition. Returns the match window, and the conjuncts that
    the window does not cover. `nearest`: whether the join chooses the nearest row, so that an equality is no window."""
    pairs = [_pair(part, left, right) for part in across]
    if nearest:
        pairs = [None if pair and pair.op == "=" else pair for pair in pairs]
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
                raise text.unsupported(place, "a band over attributes of different scale", hint)
            window = ops.Window(pair.left, pair.right, pair.left_time, pair.right_time, -max(lows), min(highs))
            return window, [part for j, part in enumerate(across) if j not in used]
    temporal = [part for part, pair in zip(across, pairs, strict=True) if pair]
    params = [node for part in temporal for node in ex.walk(part) if isinstance(node, ex.Param)]
    if params:
        message = f"the match window of the join needs the value of ${params[0].name}"
        raise text.error(syntax.Place(*params[0].place), message, f"give --param {params[0].name}=VALUE")
    if bands:
        message = "the band of the join is open on one side, so it would never close"
        names = (_clock_name(left), _clock_name(right))
        hint = f"bound it from both sides: {names[0]} - 5 <= {names[1]} AND {names[1]} <= {names[0]} + 5"
        if nearest:
            hint = _other_bound(next(pair for pair in pairs if pair))
        raise text.error(place, message, hint)
    raise _no_window(left, right, place, text, nearest)


def _other_bound(pair: _Pair) -> str:
    """Returns how to bound the band of ASOF JOIN on its other side, too."""
    far = "5 s" if pair.left_time.origin == "" and durations.unit_of(pair.left_time) == 1 else "5"
    left, right = ex.show(pair.left), ex.show(pair.right)
    return f"add AND {right} <= {left} + {far}" if pair.bound()[0] == "low" else f"add AND {left} - {far} <= {right}"


def _no_window(left: Side, right: Side, place: syntax.Place, text: Text, nearest: bool) -> QueryError:
    names = [_clock_name(side) for side in (left, right)]
    if nearest and all(names):
        hint = f"add a band, such as {names[0]} <= {names[1]} AND {names[1]} <= {names[0]} + 5"
        return text.error(place, "no band says how far away the nearest row of ASOF JOIN may be", hint)
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
        return {_divided(steps[:-1] if steps and steps[-1].op == "add" else steps) for steps in time.chains}

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


# Binds joins: splits the conditions into filters of one side, the match window, conditions of matching, and conditions
# of the joined rows. Behind ON and USING stands what decides matching, and WHERE is asked of the
# joined rows. Where WHERE is the only condition, what is of both sides decides matching, and a conjunct on one side
# filters that input before the join, as in the papers; between the sources SQL's keyword keeps the meaning of SQL, and
# one on a side that may be missing is asked of the joined rows (V1). The match window is the first equality of temporal
# expressions, else a band of two inequalities on one such pair (P4).


@dataclass(frozen=True)
class _Match:
    """The condition of a join: when a row of the left side matches a row of the right side."""

    kind: ops.JoinKind
    sides: tuple[Side, Side]  # the left side, then the right side
    filters: Mapping[str, list[ex.Expr]]  # range variable -> conjuncts on that side only, which filter its rows
    across: list[ex.Expr]  # conjuncts that decide matching
    window: ops.Window
    equalities: tuple[tuple[ex.Expr, ex.Expr], ...]
    residual: ex.Expr | None  # the rest of the condition; None if nothing is left
    asked: syntax.Expression | None  # the condition of the joined rows; None for none

    @property
    def ties(self) -> list[tuple[ex.Expr, ex.Expr]]:
        """All equalities, with that of the window first."""
        return [*([(self.window.left, self.window.right)] if self.window.equality else []), *self.equalities]

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
) -> ops.Join | ops.Map | ops.Aggregation:
    """Binds a join of two sources, and the condition of its rows and the aggregation over them if the statement has
    them. Raises QueryError if no temporal predicate relates the sides, or both have one range variable. `sources`: the
    left source, then the right source."""
    match, scope = _match(statement, text, sources, names)
    if not match.kind.pairs:
        scope, sources = _of_left(scope), sources[:1]
    bound: ops.Join | ops.Map | ops.Aggregation
    if grouped:
        rows, whole, made = _rows_of(query, match, scope)
        source = BoundSource("", whole, {field.name: ex.Column(field.type, field.name) for field in whole.fields})
        group = grouping.bind_group(query, replace(statement, where=match.asked, on=None, using=()), rows, source)
        if not isinstance(group, ops.Aggregation):
            hint = "name the aggregation as a query, and read that"
            raise text.unsupported(statement.place, "Lowwater does not run OVER beside a join and its groups", hint)
        bound = _narrowed(query, match, group, whole, made)
    else:
        written = expand_stars(statement.items, sources, text, statement.using)
        nodes = [item.expression for item in written]
        if match.asked is None:
            bound = match.join(query, name_items(written, scope.all(*nodes), text))
        else:
            rows, whole, made = _rows_of(query, match, scope)
            predicate = rows.predicate(match.asked, "WHERE")
            selection = make_map(query, whole, predicate, name_items(written, rows.all(*nodes), text))
            bound = _narrowed(query, match, selection, whole, made)
    if statement.on is None and not statement.using:
        _note_reads(bound, names)
    return bound


def _rows_of(query: str, match: _Match, scope: Scope) -> tuple[Scope, ops.Join, list[ops.Item]]:
    """Returns the scope of expressions over the joined rows, a join that selects all columns, and these columns."""
    named: dict[ex.Expr, ops.Item] = {}
    taken: set[str] = set()

    def column(alias: str, name: str, expr: ex.Expr) -> ex.Expr:
        if expr not in named:
            base_name = expr.name if isinstance(expr, ex.Column) else f"{alias}.{name}" if alias else name
            named[expr] = ops.Item(_free(base_name.replace(".", "_"), taken), expr)
            taken.add(named[expr].name)
        return ex.Column(expr.type, named[expr].name)

    scopes = {
        alias: {name: column(alias, name, expr) for name, expr in columns.items()}
        for alias, columns in scope.sources.items()
    }
    merged = {name: column("", name, expr) for name, expr in scope.merged.items()}
    # Over these columns, what makes progress as a whole: the sides of the window, and the value of either side.
    columns: dict[ex.Expr, ex.Expr] = {expr: ex.Column(expr.type, item.name) for expr, item in named.items()}
    for side in (match.window.left, match.window.right):
        columns.setdefault(side, column("", ex.columns_of(side)[0], side))
    sides = {side: over for side, over in columns.items() if not isinstance(side, ex.Column)}
    plain: dict[ex.Expr, ex.Expr] = {expr: over for expr, over in columns.items() if isinstance(expr, ex.Column)}
    whole = {ops.replaced(side, plain): over for side, over in sides.items()}
    whole |= {
        ops.replaced(form, columns): column("", ex.columns_of(form)[0], ops.merged(*tie))
        for tie in match.ties
        for form in ops.either(*tie)
    }
    units = {item.name: unit for expr, item in named.items() if (unit := durations.unit_in(expr, scope.units))}
    made = list(named.values())
    rows = replace(scope, sources=scopes, merged=merged, whole=whole, units=units)
    return rows, match.join(query, made), made


def _narrowed(
    query: str, match: _Match, node: ops.Map | ops.Aggregation, whole: ops.Join, made: Sequence[ops.Item]
) -> ops.Map | ops.Aggregation:
    """Makes the join below a selection or an aggregation select only the columns that are read."""
    exprs: list[ex.Expr] = []
    below: ops.Node = node
    while below is not whole and below.inputs():
        exprs += below.exprs()
        below = below.inputs()[0]
    used = set(ex.columns_of(*exprs))
    narrowed = _replaced(node, whole, match.join(query, [item for item in made if item.name in used]))
    assert isinstance(narrowed, ops.Map | ops.Aggregation)
    return narrowed


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
    left, right = sides = tuple(_side(source) for source in sources)
    if left.source.alias == right.source.alias:
        named = zip(statement.sources, "AB", strict=True)
        first, second = (print_source(replace(ref, alias=name)) for ref, name in named)
        hint = f"write: FROM {first}, {second}"
        raise text.error(statement.place, f"both sides are called {left.source.alias}", hint)
    kind = ops.JoinKind(statement.join)
    columns = {side.source.alias: side.after for side in sides}
    scope = Scope(text, columns, where="a join", names=names, units=_column_units(*sources))
    scope = replace(scope, merged=_using(statement, kind, scope))
    old = names.defines.get("dialect", names.context.dialect) == "gigascope"
    conditions = _conditions(statement, scope, kind, old)
    filters: dict[str, list[ex.Expr]] = {alias: [] for alias in columns}
    across: list[ex.Expr] = []
    for part in [*(apart(part, left, right) for part in conditions.met), *_windowed(left, right, text, names)]:
        aliases = _aliases(part)
        # A condition of ON on a side whose rows are all kept decides only which of them match.
        decides = len(aliases) != 1 or (conditions.by_on and aliases <= _kept(kind, columns))
        (across if decides else filters[min(aliases)]).append(part)
    for part in conditions.early:
        filters[min(_aliases(part))].append(part)
    window, rest = match_window(across, left, right, conditions.place, text, kind.nearest)
    window = replace(window, mutual=kind.mutual)
    equalities, residual = _equalities(rest, left.source.alias)
    if not conditions.by_on:
        _note_filters(statement, scope, conditions.asked, _optional(kind, columns))
    extents = [side.source.window.range for side in sides if side.source.window]
    plain = not durations.has_duration(statement.on or statement.where)
    note_window(window, conditions.place, names, plain and not any(extent and extent.unit for extent in extents))
    asked = syntax.chain("AND", conditions.asked) if conditions.asked else None
    match = _Match(kind, (left, right), filters, across, window, tuple(equalities), residual, asked)
    return match, replace(scope, sources=_with_ties(match, columns)) if old else scope


@dataclass(frozen=True)
class _Conditions:
    """The conditions of a join, by what they do (V1)."""

    met: Sequence[ex.Expr]  # conjuncts that decide matching, or that filter a side before the join
    early: Sequence[ex.Expr]  # of WHERE, those on one side that no row lacks: they may as well filter it before
    asked: Sequence[syntax.Expression]  # those that are asked of the joined rows
    by_on: bool  # whether ON or USING says what decides matching
    place: syntax.Place


def _conditions(statement: syntax.Select, scope: Scope, kind: ops.JoinKind, old: bool) -> _Conditions:
    """Divides the conditions of a join. `old`: whether the query has the values of the old dialect."""
    _check_once(statement, scope, kind)
    rows = scope if kind.pairs else _of_left(scope)
    if statement.where:
        # As a whole first, so that all its errors are told together.
        rows.predicate(statement.where, "WHERE")
    parts = [(part, ex.conjuncts(rows.predicate(part, "WHERE"))) for part in syntax.conjuncts(statement.where)]
    optional = _optional(kind, scope.sources)
    if statement.on is None and not statement.using:
        place = place_of(statement.where) if statement.where else statement.place
        # Between the sources SQL's keyword means what SQL means, also without ON: what is of a side that may be missing
        # is asked of the joined rows. The dialect of the papers filters that side before the join.
        alone = [part for part, bound in parts if all(_of_one(each, optional) for each in bound)]
        asked = alone if statement.between and not old else []
        return _Conditions(
            [each for part, bound in parts if part not in asked for each in bound], [], asked, False, place
        )
    met = [scope.predicate(part, "USING") for part in _equal(statement, scope)]
    met += ex.conjuncts(scope.predicate(statement.on, "ON")) if statement.on else []
    place = place_of(statement.on) if statement.on else statement.using[0].place
    if kind is ops.JoinKind.INNER:
        return _Conditions([*met, *(each for _, bound in parts for each in bound)], [], [], True, place)
    # The nearest row is chosen before WHERE is asked of it, so a condition on the right side comes later (O9).
    later = {*scope.sources} - {next(iter(scope.sources))} if kind.nearest else optional
    early = [
        part for part, bound in parts if all(len(_aliases(each) - later) == len(_aliases(each)) == 1 for each in bound)
    ]
    if kind.mutual:
        # A left row that WHERE drops may be the nearest one of a right row, unless ON leaves it out too.
        apart = [part for part, bound in parts if part in early and not all(each in met for each in bound)]
        _note_rivals(apart, scope)
        early = [part for part in early if part not in apart]
    sooner = [each for part, bound in parts if part in early for each in bound]
    if kind.mutual:
        met = [each for each in met if each not in sooner]
    return _Conditions(met, sooner, [part for part, _ in parts if part not in early], True, place)


_ONCE = {
    ops.JoinKind.ANTI: ("which rows must not be there", "A.time = B.time"),
    ops.JoinKind.SEMI: ("which rows must be there", "A.time = B.time"),
    ops.JoinKind.ASOF: (
        "which rows it chooses from",
        "A.timestamp <= B.timestamp AND B.timestamp <= A.timestamp + 5 s",
    ),
}
_ONCE |= dict.fromkeys((kind for kind in ops.JoinKind if kind.nearest), _ONCE[ops.JoinKind.ASOF])


def _check_once(statement: syntax.Select, scope: Scope, kind: ops.JoinKind) -> None:
    """Raises QueryError where a join that has a left row once does not say behind ON what meets it."""
    if not kind.once or statement.on is not None or (statement.using and not kind.nearest):
        return
    words, (what, times) = kind.value.replace("_", " "), _ONCE[kind]
    hint = f"write it behind ON: FROM a A {words} b B ON A.k = B.k AND {times}"
    if statement.using:
        message = f"USING of {words} would be equalities, and does not say how far away the nearest row may be"
        raise scope.text.error(statement.using[0].place, message, hint)
    raise scope.text.error(statement.place, f"{words} does not say {what}", hint)


def _of_left(scope: Scope) -> Scope:
    """Returns the scope of rows that have no right side."""
    left, *_ = scope.sources
    return replace(scope, sources={left: scope.sources[left]})


def _equal(statement: syntax.Select, scope: Scope) -> list[syntax.Expression]:
    left, right = scope.sources
    return [
        syntax.BinaryOp("=", replace(name, qualifier=left), replace(name, qualifier=right), name.place)
        for name in statement.using
    ]


def _using(statement: syntax.Select, kind: ops.JoinKind, scope: Scope) -> dict[str, ex.Expr]:
    """Returns the merged columns of USING: of a side that no row lacks, else of the first that is not missing."""
    merged = {}
    for name in statement.using:
        left, right = (scope.bind(replace(name, qualifier=alias)) for alias in scope.sources)
        whole = {ops.JoinKind.RIGHT: right, ops.JoinKind.OUTER: ops.merged(left, right)}
        merged[name.name] = whole.get(kind, left)
    return merged


def _aliases(part: ex.Expr) -> set[str]:
    return {name.split(".", 1)[0] for name in ex.columns_of(part)}


def _kept(kind: ops.JoinKind, aliases: Iterable[str]) -> set[str]:
    """Returns the sides of which every row is in the result; `aliases`: the left side, then the right side."""
    return {alias for alias, kept in zip(aliases, (kind.keeps_left, kind.keeps_right), strict=True) if kept}


def _optional(kind: ops.JoinKind, aliases: Iterable[str]) -> set[str]:
    """Returns the sides that are missing in some rows; `aliases` as of `_kept`."""
    return {alias for alias, gone in zip(aliases, (kind.keeps_right, kind.keeps_left), strict=True) if gone}


def _of_one(part: ex.Expr, sides: Container[str]) -> bool:
    """Whether a condition is on one of some sides only."""
    aliases = _aliases(part)
    return len(aliases) == 1 and min(aliases) in sides


def _of_nulls(condition: ex.Expr) -> bool | None:
    """Returns the truth of a condition whose columns are all NULL; None where it is NULL, or is not known."""
    if isinstance(condition, ex.Unary) and condition.op == "IS NULL":
        return True if isinstance(condition.operand, ex.Column) else None
    if isinstance(condition, ex.Unary) and condition.op == "NOT":
        truth = _of_nulls(condition.operand)
        return None if truth is None else not truth
    if isinstance(condition, ex.Binary) and condition.op in ("AND", "OR"):
        sides = [_of_nulls(condition.left), _of_nulls(condition.right)]
        decides = condition.op == "OR"
        return decides if decides in sides else None if None in sides else not decides
    return None


def _with_ties(match: _Match, columns: Mapping[str, Mapping[str, ex.Expr]]) -> dict[str, dict[str, ex.Expr]]:
    """Returns the columns of both sides as the old compilers have them: one that an equality ties to the other side
    has its value where its own side is missing. The equality of the window comes first, then the others as written."""
    tied: dict[str, ex.Expr] = {}
    for pair in match.ties:
        for own, other in (pair, pair[::-1]):
            if isinstance(own, ex.Column) and alias_of(own) in _optional(match.kind, columns):
                tied.setdefault(own.name, ops.merged(own, other))
    return {
        alias: {name: tied.get(expr.name, expr) if isinstance(expr, ex.Column) else expr for name, expr in own.items()}
        for alias, own in columns.items()
    }


def _note_filters(
    statement: syntax.Select, scope: Scope, asked: Sequence[syntax.Expression], optional: Container[str]
) -> None:
    """Notes conditions on a side that may be missing which drop the rows without a match or filter that side before the
    join, where SQL and the papers differ, and an IS NULL before it, which probably means the rows without a match."""
    apart: dict[bool, list[tuple[syntax.Expression, str]]] = {}
    for part in syntax.conjuncts(statement.where):
        bound = scope.predicate(part, "WHERE")
        if not _of_one(bound, optional):
            continue
        (side,), finds = _aliases(bound), _of_nulls(bound) is True
        if not statement.between and finds:
            written, kind = print_expression(part), _BETWEEN[statement.join]
            scope.names.notes[spot(part)] = (
                f"{written} filters {side} before the join: for the rows without a match write"
                f" {kind} ... ON ... WHERE {written}, or name the join and select WHERE {written} from it"
            )
        elif statement.between and not (finds and part in asked):
            apart.setdefault(part in asked, []).append((part, side))
    for later, parts in apart.items():
        (first, _), sides = parts[0], " and ".join(dict.fromkeys(side for _, side in parts))
        written = print_expression(syntax.chain("AND", [part for part, _ in parts]))
        scope.names.notes[spot(first)] = (
            f"{written} is asked of the joined rows, as in SQL, so that rows without a match of {sides} go: write it"
            f" behind ON to choose what may match; the dialect gigascope filters {sides} before the join"
            if later
            else f"in the dialect gigascope {written} filters {sides} before the join: in SQL and the dialect lowwater"
            " it is asked of the joined rows, so that rows without a match go"
        )


def _note_rivals(apart: Sequence[syntax.Expression], scope: Scope) -> None:
    """Notes conditions of WHERE on the left side of ONCE that ON does not have."""
    if apart:
        written, left = print_expression(syntax.chain("AND", apart)), next(iter(scope.sources))
        scope.names.notes[spot(apart[0])] = (
            f"{written} is asked of the pairs, as in SQL, so a row of {left} that it drops may have the row that"
            " another one would have: write it behind ON, too"
        )


_BETWEEN = {"LEFT_OUTER_JOIN": "LEFT JOIN", "RIGHT_OUTER_JOIN": "RIGHT JOIN", "OUTER_JOIN": "FULL JOIN"}


def _note_reads(bound: ops.Node, names: Names) -> None:
    """Notes the columns of a side that may be missing which had the value of the other side before, by an equality."""
    above, join = [], bound
    while not isinstance(join, ops.Join):
        above += [expr for expr in join.exprs() if expr is not getattr(join, "predicate", None)]
        (join,) = join.inputs()
    found: dict[str, list[tuple[ex.Column, ex.Expr, syntax.Place]]] = {}
    for column, other in join.untied().items():
        named = {item.name for item in join.items if column.name in ex.columns_of(item.expr)}
        reads = [part for expr in above for part in ex.walk(expr) if isinstance(part, ex.Column) and part.name in named]
        if reads or not above:
            place = syntax.Place(*(reads[0] if reads else column).place)
            found.setdefault(alias_of(column) or "", []).append((column, other, place))
    for alias, columns in found.items():
        (first, other, place), several = columns[0], len(columns) > 1
        value = ", ".join(dict.fromkeys(ex.show(value) for _, value, _ in columns))
        if join.kind is ops.JoinKind.OUTER:
            case = f"CASE WHEN {first.name} IS NOT NULL THEN {first.name} ELSE {ex.show(other)} END"
            value = f"{'columns' if several else 'the column'} of USING, or {'such as ' if several else ''}{case},"
        shown = ", ".join(column.name for column, _, _ in columns)
        names.notes[(place.line, place.column)] = (
            f"{shown} {'are' if several else 'is'} NULL where {alias} has no match, though an equality ties"
            f" {'each' if several else 'it'}: take {value} for a value in every row"
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
