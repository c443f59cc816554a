"""Finds the match window of a join: an equality or a band of one temporal expression of each side (SEMANTICS P4).

Called by `joins`, which splits the condition into conjuncts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lowwater.catalog.expr import Binary, Const, Expr, Param, Type, columns_of, show, walk
from lowwater.gsql import nodes as syntax
from lowwater.plan.bind.clauses.sources import BoundSource, timeless
from lowwater.plan.bind.expressions.durations import brief, unit_of
from lowwater.plan.bind.names import Names
from lowwater.plan.operators import Window
from lowwater.plan.temporal import Step, Temporal, infer
from lowwater.plan.text import Text, place_of

_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
FAR = 1000
"""Ratio of the units of an equality's sides from which the query gets a note: it is probably a mistake."""


@dataclass(frozen=True)
class Side:
    """One input of a join.

    Attributes:
        source: the bound source.
        before: column name -> expression over the rows of the source.
        after: column name -> column of the join, named `range_variable.column`.
        times: column of the join -> progress, for temporal columns.
    """

    source: BoundSource
    before: Mapping[str, Expr]
    after: Mapping[str, Expr]
    times: Mapping[str, Temporal]


def match_window(
    across: list[Expr], left: Side, right: Side, statement: syntax.Select, text: Text
) -> tuple[Window, list[Expr]]:
    """Finds the match window among the conjuncts of a join condition.

    Args:
        across: conjuncts that name columns of both sides.
        left: left input of the join.
        right: right input of the join.
        statement: the parsed statement.
        text: the file that holds the statement, for messages.

    Returns:
        The match window, and the conjuncts that the window does not cover.
    """
    pairs = [_pair(part, left, right) for part in across]
    for i, pair in enumerate(pairs):
        if pair and pair.op == "=":
            rest = [part for j, part in enumerate(across) if j != i]
            return Window(pair.left, pair.right, pair.left_time, pair.right_time, 0, 0, equality=True), rest
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
                units = _units(pair.left, pair.right, pair.left_time, pair.right_time)
                hint = f"write {units[1]}/{units[2]} in the place of {units[1]}" if units else ""
                raise text.unsupported(place_of(statement.where), "a band over attributes of different scale", hint)
            window = Window(pair.left, pair.right, pair.left_time, pair.right_time, -max(lows), min(highs))
            return window, [part for j, part in enumerate(across) if j not in used]
    temporal = [part for part, pair in zip(across, pairs, strict=True) if pair]
    params = [node for part in temporal for node in walk(part) if isinstance(node, Param)]
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


def _no_window(left: Side, right: Side, statement: syntax.Select, text: Text) -> Exception:
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
    left: Expr
    right: Expr
    left_time: Temporal
    right_time: Temporal

    def bound(self) -> tuple[str, int]:
        """Returns the bound on right - left, both without added constants, as ("low" or "high", value)."""
        shift = _constant(self.left) - _constant(self.right)
        if self.op in ("<", "<="):
            return "low", shift + (1 if self.op == "<" else 0)
        return "high", shift - (1 if self.op == ">" else 0)

    def stripped(self) -> _Pair:
        """Returns the pair without added constants."""
        left, right = _without_constant(self.left), _without_constant(self.right)
        left_time = self.left_time.then(Step("add", -_constant(self.left)))
        right_time = self.right_time.then(Step("add", -_constant(self.right)))
        return _Pair(self.op, left, right, left_time, right_time)


def _pair(part: Expr, left: Side, right: Side) -> _Pair | None:
    if not (isinstance(part, Binary) and part.op in _FLIPPED):
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


def alias_of(expr: Expr) -> str | None:
    """Returns the range variable of the only side that an expression reads; None if it reads no side or both."""
    aliases = {name.split(".", 1)[0] for name in columns_of(expr)}
    return aliases.pop() if len(aliases) == 1 else None


def _constant(expr: Expr) -> int:
    """Returns the sum of the constants that the outermost additions add."""
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


def apart(part: Expr, left: Side, right: Side) -> Expr:
    """Rewrites a bound on a difference of temporal expressions, `b - a <= 3`, as `b <= a + 3`. Keeps any other part."""
    if not (isinstance(part, Binary) and part.op in _FLIPPED):
        return part
    op, difference, by = part.op, part.left, part.right
    if isinstance(difference, Const):
        op, difference, by = _FLIPPED[op], by, difference
    if not (isinstance(difference, Binary) and difference.op == "-" and _whole(by)):
        return part
    moved = Binary(Type.BOOL, op, difference.left, Binary(Type.INT, "+", difference.right, by))
    return moved if _pair(moved, left, right) else part


def _whole(expr: Expr) -> bool:
    """Whether an expression is an integer constant or an integer parameter."""
    return isinstance(expr, Const | Param) and expr.type is Type.INT


def note_window(window: Window, place: syntax.Place, names: Names, plain: bool) -> None:
    """Notes a match window that is empty or very short, or whose sides count in very different units.

    Args:
        window: the match window of the join.
        place: the place of its condition.
        names: the names of the statement; the note goes to its `notes`.
        plain: whether the query writes the bounds without units.
    """
    spot = (place.line, place.column)
    if window.below + window.above < 0:
        names.notes[spot] = "the band of the join is empty, so no rows can meet: its lower end is above its upper end"
    unit = None if window.left_time.origin else unit_of(window.left_time)
    reach = max(abs(window.below), abs(window.above))
    if plain and window.below + window.above >= 0 and (note := brief(reach, unit, show(window.left))):
        names.notes[spot] = f"the band of the join hardly reaches: {note}"
    units = _units(window.left, window.right, window.left_time, window.right_time)
    if window.equality and units and units[2] >= FAR:
        coarse, fine, factor = units
        names.notes[spot] = (
            f"{coarse} and {fine} count in units that differ by a factor of {factor:,}, so rows with equal values lie"
            f" far apart: write {coarse} = {fine}/{factor}"
        )


def _units(left: Expr, right: Expr, left_time: Temporal, right_time: Temporal) -> tuple[str, str, int] | None:
    """Compares the units of the two sides of a match window.

    Returns:
        The side with the larger unit, the other side, and the ratio of the units; None if equal or unknown.
    """
    units = (unit_of(left_time), unit_of(right_time))
    if units[0] is None or units[1] is None or units[0] == units[1] or left_time.origin:
        return None
    coarse, fine = (left, right) if units[0] > units[1] else (right, left)
    return show(coarse), show(fine), round(max(units[0], units[1]) / min(units[0], units[1]))
