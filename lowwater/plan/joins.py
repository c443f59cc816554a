"""Binds joins: which conjuncts filter a side, which make the match window, which decide matching.

Called by `binder`. A conjunct on one side filters that input before the join; the others decide matching (V1). The
window is the first equality of temporal expressions, else a band of two inequalities on one pair of them (P4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lowwater.catalog.expr import Binary, Column, Const, Expr, columns_of, conjunction, conjuncts, rewrite
from lowwater.catalog.protocols import ALIASES
from lowwater.gsql import nodes as syntax
from lowwater.plan.nodes import Field, Join, JoinKind, Node, Source, Window
from lowwater.plan.scope import Scope, Text, place_of
from lowwater.plan.sources import BoundSource, name_items
from lowwater.plan.temporal import Step, Temporal, infer


@dataclass(frozen=True)
class _Side:
    """One input of the join: how its columns are read before and after."""

    source: BoundSource
    before: Mapping[str, Expr]
    after: Mapping[str, Expr]
    times: Mapping[str, Temporal]


def bind_join(query: str, statement: syntax.Select, text: Text, sources: Sequence[BoundSource]) -> Join:
    """The logical plan of a join of two sources.

    Raises:
        QueryError: no temporal predicate relates the sides, equal range variables, GROUP BY beside a join.
    """
    left, right = (_side(source) for source in sources)
    if left.source.alias == right.source.alias:
        hint = "write: FROM flow A, flow B"
        raise text.error(statement.place, f"both sides are called {left.source.alias}", hint)
    if statement.group_by or statement.having:
        raise text.error(statement.place, "one query cannot join and aggregate", "name the join and group that query")
    scope = Scope(text, {left.source.alias: left.after, right.source.alias: right.after}, where="a join")
    parts = conjuncts(scope.predicate(statement.where, "WHERE")) if statement.where else []
    filters: dict[str, list[Expr]] = {left.source.alias: [], right.source.alias: []}
    across: list[Expr] = []
    for part in parts:
        aliases = {name.split(".", 1)[0] for name in columns_of(part)}
        (filters[aliases.pop()] if len(aliases) == 1 else across).append(part)
    window, rest = _window(across, left, right, statement, text)
    equalities, residual = _equalities(rest, left.source.alias)
    items = name_items(statement.items, [scope.bind(item.expression) for item in statement.items], text)
    kind = JoinKind(statement.join)
    read = [*(i.expr for i in items), *across]
    streams = [_stream(query, side, filters[side.source.alias], read) for side in (left, right)]
    times = _output_times(kind, window)
    fields = tuple(Field(item.name, item.expr.type, infer(item.expr, times)) for item in items)
    aliases_of = (left.source.alias, right.source.alias)
    return Join(
        query, fields, kind, streams[0], streams[1], *aliases_of, window, tuple(equalities), residual, tuple(items)
    )


def _side(source: BoundSource) -> _Side:
    columns = dict(source.columns)
    if isinstance(source.node, Source):
        # An alias is read as the column it stands for, so that a projected side has each column once.
        named = {name: Column(expr.type, ALIASES.get(name, name)) for name, expr in columns.items()}
    else:
        named = {name: Column(expr.type, name) for name, expr in columns.items()}
    after = {n: Column(c.type, f"{source.alias}.{c.name}") for n, c in named.items()}
    fields = {f.name: f.temporal for f in source.node.fields if f.temporal}
    times = {f"{source.alias}.{name}": t for name, e in columns.items() if (t := infer(e, fields))}
    return _Side(source, columns, after, times)


def _stream(query: str, side: _Side, filters: list[Expr], read: Sequence[Expr]) -> Node:
    """The input of the join: its own filters below it, and of packets only the columns that the join reads."""
    prefix = f"{side.source.alias}."
    used = [name.removeprefix(prefix) for name in columns_of(*read) if name.startswith(prefix)]
    predicate = conjunction([_before(part, side) for part in filters])
    return side.source.stream(query, predicate, used)


def _before(part: Expr, side: _Side) -> Expr:
    prefix = f"{side.source.alias}."

    def change(node: Expr) -> Expr:
        return side.before[node.name.removeprefix(prefix)] if isinstance(node, Column) else node

    return rewrite(part, change)


def _window(
    across: list[Expr], left: _Side, right: _Side, statement: syntax.Select, text: Text
) -> tuple[Window, list[Expr]]:
    """The match window, and the conjuncts that it does not use up."""
    pairs = [_pair(part, left, right) for part in across]
    for i, pair in enumerate(pairs):
        if pair and pair.op == "=":
            rest = [part for j, part in enumerate(across) if j != i]
            return Window(pair.left, pair.right, pair.left_time, pair.right_time, 0, 0), rest
    bands: dict[tuple[Expr, Expr], list[int]] = {}
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
                raise text.unsupported(place_of(statement.where), "a band over attributes of different scale")
            window = Window(pair.left, pair.right, pair.left_time, pair.right_time, -max(lows), min(highs))
            return window, [part for j, part in enumerate(across) if j not in used]
    raise _no_window(left, right, statement, text)


def _no_window(left: _Side, right: _Side, statement: syntax.Select, text: Text) -> Exception:
    place = place_of(statement.where) if statement.where else statement.place
    names = [min(side.times, key=len, default="") for side in (left, right)]
    hint = f"add a temporal equality such as {names[0]} = {names[1]}" if all(names) else "a side has no temporal column"
    return text.error(place, "no predicate relates a temporal column of each side, so the join would never close", hint)


@dataclass(frozen=True)
class _Pair:
    """A comparison `left op right` of a temporal expression of each side."""

    op: str
    left: Expr
    right: Expr
    left_time: Temporal
    right_time: Temporal

    def bound(self) -> tuple[str, int]:
        """The bound on (right - left), both without their constants: ("low" or "high", value)."""
        shift = _constant(self.left) - _constant(self.right)
        if self.op in ("<", "<="):
            return "low", shift + (1 if self.op == "<" else 0)
        return "high", shift - (1 if self.op == ">" else 0)

    def stripped(self) -> _Pair:
        """The same pair of attributes without added constants."""
        left, right = _without_constant(self.left), _without_constant(self.right)
        left_time = self.left_time.then(Step("add", -_constant(self.left)))
        right_time = self.right_time.then(Step("add", -_constant(self.right)))
        return _Pair(self.op, left, right, left_time, right_time)


def _pair(part: Expr, left: _Side, right: _Side) -> _Pair | None:
    if not (isinstance(part, Binary) and part.op in ("=", "<", "<=", ">", ">=")):
        return None
    times = {**left.times, **right.times}
    op, a, b = part.op, part.left, part.right
    if _alias(a) == right.source.alias and _alias(b) == left.source.alias:
        op, a, b = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(op, op), b, a
    if _alias(a) != left.source.alias or _alias(b) != right.source.alias:
        return None
    a_time, b_time = infer(a, times), infer(b, times)
    if a_time is None or b_time is None or a_time.increasing != b_time.increasing:
        return None
    return _Pair(op, a, b, a_time, b_time)


def _alias(expr: Expr) -> str | None:
    found = {name.split(".", 1)[0] for name in columns_of(expr)}
    return found.pop() if len(found) == 1 else None


def _constant(expr: Expr) -> int:
    """The constant that is added to an expression at its top."""
    if isinstance(expr, Binary) and expr.op in ("+", "-"):
        if isinstance(expr.right, Const) and isinstance(expr.right.value, int):
            return _constant(expr.left) + (expr.right.value if expr.op == "+" else -expr.right.value)
        if expr.op == "+" and isinstance(expr.left, Const) and isinstance(expr.left.value, int):
            return _constant(expr.right) + expr.left.value
    return 0


def _without_constant(expr: Expr) -> Expr:
    if isinstance(expr, Binary) and expr.op in ("+", "-"):
        if isinstance(expr.right, Const) and isinstance(expr.right.value, int):
            return _without_constant(expr.left)
        if expr.op == "+" and isinstance(expr.left, Const) and isinstance(expr.left.value, int):
            return _without_constant(expr.right)
    return expr


def _same_scale(pair: _Pair) -> bool:
    def scale(time: Temporal) -> set[tuple[Step, ...]]:
        return {steps[:-1] if steps and steps[-1].op == "add" else steps for steps in time.components}

    return scale(pair.left_time) == scale(pair.right_time)


def _equalities(parts: list[Expr], left_alias: str) -> tuple[list[tuple[Expr, Expr]], Expr | None]:
    equalities: list[tuple[Expr, Expr]] = []
    residual: list[Expr] = []
    for part in parts:
        sides = (_alias(part.left), _alias(part.right)) if isinstance(part, Binary) and part.op == "=" else (None, None)
        if isinstance(part, Binary) and None not in sides and part.left.type is part.right.type:
            swap = sides[0] != left_alias
            equalities.append((part.right, part.left) if swap else (part.left, part.right))
        else:
            residual.append(part)
    return equalities, conjunction(residual)


def _output_times(kind: JoinKind, window: Window) -> dict[str, Temporal]:
    """Joined column -> its progress: only bare columns of the window have any, carried through it (P4)."""
    times: dict[str, Temporal] = {}
    sign = 1 if window.left_time.increasing else -1
    ahead, behind = (window.above, window.below) if sign > 0 else (window.below, window.above)
    if isinstance(window.left, Column) and (window.equality or not kind.keeps_right):
        times[window.left.name] = window.left_time.joined(window.right_time.then(Step("add", -sign * ahead)))
    if isinstance(window.right, Column) and (window.equality or not kind.keeps_left):
        times[window.right.name] = window.right_time.joined(window.left_time.then(Step("add", -sign * behind)))
    return times
