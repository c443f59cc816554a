"""Windowed joins."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

from lowwater.catalog.expr import Column, Expr, columns_of, with_children
from lowwater.plan.fields import Item, exprs_of, temporal_names, written
from lowwater.plan.operators.aggregation import Aggregation
from lowwater.plan.operators.base import Facts, Final, Key, Node, Physical, Punctuation
from lowwater.plan.operators.keys import affine, key_through
from lowwater.plan.temporal import Step, Temporal, grid, infer


class JoinKind(StrEnum):
    """Kinds of joins, as GSQL writes them before FROM."""

    INNER = "INNER_JOIN"
    LEFT = "LEFT_OUTER_JOIN"
    RIGHT = "RIGHT_OUTER_JOIN"
    OUTER = "OUTER_JOIN"

    @property
    def keeps_left(self) -> bool:
        return self in (JoinKind.LEFT, JoinKind.OUTER)

    @property
    def keeps_right(self) -> bool:
        return self in (JoinKind.RIGHT, JoinKind.OUTER)


@dataclass(frozen=True)
class Window:
    """When two rows meet: `left - below <= right <= left + above` on one temporal expression of each side.

    Attributes:
        left: over the left row.
        right: over the right row.
        left_time: temporal property of `left`; `right_time` of `right`; same direction.
        equality: whether it is written as one: then below = above = 0, and it ties its columns (V1). A band of no
            width meets the same pairs and ties nothing.
    """

    left: Expr
    right: Expr
    left_time: Temporal
    right_time: Temporal
    below: int
    above: int
    equality: bool = False

    def present(self, kind: JoinKind) -> tuple[bool, bool]:
        """Whether every row of a join of this kind has a value of `left`, and of `right`; that side is temporal."""
        tied = [self.equality and isinstance(side, Column) for side in (self.left, self.right)]
        return tied[0] or not kind.keeps_right, tied[1] or not kind.keeps_left

    def time_of(self, expr: Expr, kind: JoinKind) -> Temporal | None:
        """The progress of an expression over joined rows: of the sides of the window and what is computed of them (P4).

        A side that is no bare column is NULL in the unmatched rows of the other, so then it makes no progress.
        """
        sign = 1 if self.left_time.increasing else -1
        ahead, behind = (self.above, self.below) if sign > 0 else (self.below, self.above)
        times: dict[str, Temporal] = {}
        sides: dict[Expr, Expr] = {}
        left, right = self.present(kind)
        if left:
            times["<left>"] = self.left_time.joined(self.right_time.then(Step("add", -sign * ahead)))
            sides[self.left] = Column(self.left.type, "<left>")
        if right:
            times["<right>"] = self.right_time.joined(self.left_time.then(Step("add", -sign * behind)))
            sides[self.right] = Column(self.right.type, "<right>")
        return infer(_replaced(expr, sides), times)

    def last_left(self, value: int) -> int:
        """Last instant at which a right row may still match a left row of this value (its match window's end)."""
        return max(self.left_time.last(value), self.right_time.last(value + self._reach(self.above)))

    def last_right(self, value: int) -> int:
        """Last instant at which a left row may still match a right row of this value."""
        return max(self.right_time.last(value), self.left_time.last(value + self._reach(self.below, right=True)))

    def _reach(self, bound: int, right: bool = False) -> int:
        # In a decreasing attribute progress is downward, so the far end of the window is the other bound.
        if self.left_time.increasing:
            return bound
        return -self.above if right else -self.below

    def needed(self, start: int, kind: JoinKind) -> tuple[int, int]:
        """From which timestamp (ns) each side is needed for the rows with `_last` at `start` (ns) or after it."""
        if self.left_time.origin:
            return 0, 0
        if self.equality:
            value = self.left_time.joined(self.right_time).promise(start)
            return max(0, self.left_time.first(value)), max(0, self.right_time.first(value))
        left, right = self._earliest(start, kind)
        return max(0, self.left_time.first(left)), max(0, self.right_time.first(right))

    def _earliest(self, start: int, kind: JoinKind) -> tuple[int, int]:
        """The earliest value of each side that a row with `_last` at or after `start` depends on."""
        # In a decreasing attribute everything is mirrored: negate the values and exchange the bounds.
        sign = 1 if self.left_time.increasing else -1
        below, above = (self.below, self.above) if sign > 0 else (self.above, self.below)
        left_promise = sign * self.left_time.promise(start)
        right_promise = sign * self.right_time.promise(start)
        left = min(left_promise, right_promise - above)
        right = min(right_promise, left_promise - below)
        # An unmatched row depends on everything that could have matched it.
        needed_left = min(left, right - above) if kind.keeps_right else left
        needed_right = min(right, left - below) if kind.keeps_left else right
        return sign * needed_left, sign * needed_right


@dataclass(frozen=True)
class Join(
    Node,
    facts=Facts(
        "join", passes=False, waits=True, outlives="", promise="the clocks of its sides, as its reader uses them"
    ),
):
    """Windowed join of two streams (P4, V1). Input columns are named `<alias>.<column>` in every expression.

    A pair meets when the window holds, every equality holds (NULL equals NULL) and the residual is true. Its `_last` is
    the larger of the two; an unmatched row's is `window.last_left`/`last_right` of its value. Predicates on one side
    alone are already in Maps below.

    Attributes:
        left_alias: prefix of the left columns; `right_alias` of the right ones.
        equalities: (over the left row, over the right row), the window's own equality not among them.
        residual: over both rows; not applied to unmatched rows.
        items: over both rows. For an unmatched row a column that an equality ties to the other side has that side's
            value; every other column of the missing side is NULL.
    """

    kind: JoinKind
    left: Node
    right: Node
    left_alias: str
    right_alias: str
    window: Window
    equalities: tuple[tuple[Expr, Expr], ...]
    residual: Expr | None
    items: tuple[Item, ...]

    def inputs(self) -> tuple[Node, ...]:
        """Both sides."""
        return (self.left, self.right)

    def over(self, *inputs: Node) -> Self:
        """The join of others."""
        left, right = inputs
        return replace(self, left=left, right=right)

    def exprs(self) -> tuple[Expr, ...]:
        """The window, equalities, residual and items."""
        ties = [expr for pair in self.equalities for expr in pair]
        return written(self.window.left, self.window.right, *ties, self.residual, *exprs_of(self.items))

    @property
    def label(self) -> str:
        """As GSQL writes it."""
        return self.kind.value

    def physical(self) -> Physical:
        """By slices."""
        what = "hash join" if self.window.equality else "band join"
        return Physical(f"{what} in slices", "a promise closes the match windows of a slice: nothing is kept beyond it")

    def reads_from(self, start: int) -> tuple[int, ...]:
        """Each side from the rows on that could match."""
        return self.window.needed(start, self.kind)

    def ends(self, latest: int) -> list[int]:
        """Those of unmatched rows: a pair ends with the later one of its rows."""
        window, ends = self.window, []
        if window.left_time.origin:
            return []
        if self.kind.keeps_left:
            ends.append(window.last_left(window.left_time.latest(latest)))
        if self.kind.keeps_right:
            ends.append(window.last_right(window.right_time.latest(latest)))
        return ends

    def final(self, port: int) -> Final | None:
        """A row is final at the end of its match window."""
        window = self.window
        if window.left_time.origin:
            return None
        if port == 0:
            return lambda last: max(last, window.last_left(window.left_time.latest(last)))
        return lambda last: max(last, window.last_right(window.right_time.latest(last)))

    def origins(self) -> tuple[str, ...]:
        """That of the window."""
        return (self.window.left_time.origin,)

    def grain(self) -> int:
        """That of the window."""
        return grid([self.window.left_time, self.window.right_time])

    def looks_at(self, below: Node) -> set[str]:
        """The columns of the window on that side."""
        sides = [(self.left, self.left_alias, self.window.left), (self.right, self.right_alias, self.window.right)]
        return {
            name.removeprefix(f"{alias}.") for side, alias, expr in sides if side is below for name in columns_of(expr)
        }

    def punctuation(self, reader: Node | None) -> Punctuation:
        """Two attributes progress, and the reader decides on which of them it punctuates (002, sections 5.3, 7.2)."""
        columns = temporal_names(self.fields)
        if not columns:
            return super().punctuation(reader)
        used = reader.looks_at(self) if reader is not None else set(columns)
        chosen = tuple(name for name in columns if name in used) or columns[:1]
        joint, reason = self._chosen(chosen, used, reader)
        return Punctuation(chosen, joint, (), reason)

    def _chosen(self, chosen: Sequence[str], used: set[str], reader: Node | None) -> tuple[bool, str]:
        """Whether the chosen columns are promised together, and why they are chosen."""
        if len(chosen) > 1 and isinstance(reader, Aggregation):
            return True, f"{reader.query} groups by both clocks, so both together close its groups earlier"
        if len(chosen) > 1 and reader is None:
            return True, "no later row is below both of them"
        if len(chosen) > 1:
            return False, "the clock of each side by its own promise: the reader takes either"
        if reader is None:
            return False, "the only clock among the columns of the query"
        if not used.intersection(chosen):
            return False, f"{reader.query} uses none of its clocks"
        return False, f"the clock that {reader.query} uses"

    def key(self, below: Sequence[Key]) -> Key:
        """Of keyed inputs: the key of one side, and what of the other's it does not determine."""
        left, right = below
        if left is None or right is None:
            return None
        left_key = tuple(f"{self.left_alias}.{name}" for name in left)
        right_key = tuple(f"{self.right_alias}.{name}" for name in right)
        ties = [(_Side.of(a, temporal=False), _Side.of(b, temporal=False)) for a, b in self.equalities]
        if self.window.equality:
            ties.append((_Side.of(self.window.left, temporal=True), _Side.of(self.window.right, temporal=True)))
        turned = [(b, a) for a, b in ties]
        found = [
            (*left_key, *_undetermined(right_key, left_key, ties, self.kind.keeps_right)),
            (*right_key, *_undetermined(left_key, right_key, turned, self.kind.keeps_left)),
        ]
        equal = _equal_columns(self.kind, ties)
        through = [
            key_through([equal.get(name, {name}) for name in key], self.items, self.fields)
            for key in found
            if self.kind is not JoinKind.OUTER or _sides_differ(self, key, ties)
        ]
        return min((key for key in through if key is not None), key=len, default=None)


@dataclass(frozen=True)
class _Side:
    """One side of an equality that every pair of a join satisfies.

    Attributes:
        bare: the column that it is, which takes the other side's value where its own is missing (V1); else None.
        told: the column that its value determines, if any.
    """

    bare: str | None
    told: str | None

    @staticmethod
    def of(expr: Expr, temporal: bool) -> _Side:
        if isinstance(expr, Column):
            return _Side(expr.name, expr.name)
        return _Side(None, columns_of(expr)[0] if temporal and affine(expr) else None)


_Tie = tuple[_Side, _Side]


def _undetermined(other: Sequence[str], base: Sequence[str], ties: Sequence[_Tie], keeps_other: bool) -> list[str]:
    """The columns of one side's key that the key of the base side does not determine.

    In a pair, each equality of the join determines one column by another. In an unmatched row of the other side, the
    bare column of the base side takes the value that its one equality gives (V1), so it determines it too. `ties` have
    the base side first.
    """
    bare = [side.bare for side, _ in ties]
    needed = []
    for name in other:
        telling = [side.bare for side, its in ties if its.told == name]
        if not any(not keeps_other or (column in base and bare.count(column) == 1) for column in telling):
            needed.append(name)
    return needed


def _sides_differ(node: Join, key: Collection[str], ties: Sequence[_Tie]) -> bool:
    """Whether an unmatched row of the left side never has the key of an unmatched row of the right side.

    Two such rows with equal keys would satisfy every equality that the key shows, so they would have met where there is
    no other condition. Or the key has a clock of one side, which the other side's rows leave NULL.
    """
    bare = [side.bare for tie in ties for side in tie]
    if node.residual is None and node.window.equality:
        shown = [tie for tie in ties if any(side.bare in key and bare.count(side.bare) == 1 for side in tie)]
        if len(shown) == len(ties):
            return True
    clocks = [
        f"{alias}.{field.name}"
        for alias, side in ((node.left_alias, node.left), (node.right_alias, node.right))
        for field in side.fields
        if field.temporal is not None
    ]
    return any(name in key and name not in bare for name in clocks)


def _equal_columns(kind: JoinKind, ties: Sequence[_Tie]) -> dict[str, set[str]]:
    """Columns that are equal in every joined row, unmatched ones included: each with itself among them."""
    bare = [side.bare for tie in ties for side in tie]
    equal: dict[str, set[str]] = {}
    for left, right in ties:
        # Of several equalities of one column only one gives the missing value (V1), so the others need not hold.
        always = kind is JoinKind.INNER or bare.count(left.bare) == bare.count(right.bare) == 1
        if left.bare and right.bare and always:
            merged = equal.get(left.bare, {left.bare}) | equal.get(right.bare, {right.bare})
            equal.update(dict.fromkeys(merged, merged))
    return equal


def _replaced(expr: Expr, parts: Mapping[Expr, Expr]) -> Expr:
    """The expression with some parts replaced, wherever they stand in it whole."""
    if expr in parts:
        return parts[expr]
    return with_children(expr, [_replaced(child, parts) for child in expr.children()])
