"""Windowed joins of two streams."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Self

from lowwater.catalog.expr import Column, Expr, columns_of, with_children
from lowwater.plan.fields import Field, Item, Place, exprs_of, off_clock, temporal_names, written
from lowwater.plan.operators.aggregation import Aggregation
from lowwater.plan.operators.base import Facts, Final, Key, Node, Physical, Punctuation, Unary
from lowwater.plan.operators.keys import affine, key_through
from lowwater.plan.operators.rows import CARRIED_THROUGH
from lowwater.plan.temporal import Step, Temporal, grid, infer


class JoinKind(StrEnum):
    """Kinds of joins, by GSQL's keyword before FROM."""

    INNER = "INNER_JOIN"
    LEFT = "LEFT_OUTER_JOIN"
    RIGHT = "RIGHT_OUTER_JOIN"
    OUTER = "OUTER_JOIN"

    @property
    def keeps_left(self) -> bool:
        """Whether unmatched left rows come out."""
        return self in (JoinKind.LEFT, JoinKind.OUTER)

    @property
    def keeps_right(self) -> bool:
        """Whether unmatched right rows come out."""
        return self in (JoinKind.RIGHT, JoinKind.OUTER)


@dataclass(frozen=True)
class Window:
    """Match window of a join: two rows meet if `left - below <= right <= left + above`.

    Attributes:
        left: temporal expression over the left row.
        right: temporal expression over the right row.
        left_time: temporal property of `left`.
        right_time: temporal property of `right`, with the same direction.
        below: how far `right` may be below `left`, in units of the expressions.
        above: how far `right` may be above `left`, in units of the expressions.
        equality: whether the query writes `left = right`. Then `below` and `above` are 0, and both columns have one
            value (V1). A band of width 0 matches the same pairs, but its columns keep separate values.
    """

    left: Expr
    right: Expr
    left_time: Temporal
    right_time: Temporal
    below: int
    above: int
    equality: bool = False

    def present(self, kind: JoinKind) -> tuple[bool, bool]:
        """Returns whether every joined row has a value of `left`, and of `right`; a side with a value is temporal."""
        tied = [self.equality and isinstance(side, Column) for side in (self.left, self.right)]
        return tied[0] or not kind.keeps_right, tied[1] or not kind.keeps_left

    def time_of(self, expr: Expr, kind: JoinKind) -> Temporal | None:
        """Returns the progress of an expression over joined rows, from the progress of both sides of the window (P4).

        A side that is no bare column is NULL in the unmatched rows of the other side, so it makes no progress there.
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
        """Returns the end (ns) of a left row's match window: a matching right row may come until then."""
        return max(self.left_time.last(value), self.right_time.last(value + self._reach(self.above)))

    def last_right(self, value: int) -> int:
        """Returns the end (ns) of a right row's match window: a matching left row may come until then."""
        return max(self.right_time.last(value), self.left_time.last(value + self._reach(self.below, right=True)))

    def _reach(self, bound: int, right: bool = False) -> int:
        # A decreasing attribute progresses downward, so the far end of the window is the other bound.
        if self.left_time.increasing:
            return bound
        return -self.above if right else -self.below

    def needed(self, start: int, kind: JoinKind) -> tuple[int, int]:
        """Returns the first timestamp (ns) of both sides that rows with `_last` >= `start` (ns) need."""
        if self.left_time.origin:
            return 0, 0
        if self.equality:
            value = self.left_time.joined(self.right_time).promise(start)
            return max(0, self.left_time.first(value)), max(0, self.right_time.first(value))
        left, right = self._earliest(start, kind)
        return max(0, self.left_time.first(left)), max(0, self.right_time.first(right))

    def _earliest(self, start: int, kind: JoinKind) -> tuple[int, int]:
        """Returns the earliest value of both sides that a row with `_last` >= `start` depends on."""
        # A decreasing attribute mirrors the window: negate the values and exchange the bounds.
        sign = 1 if self.left_time.increasing else -1
        below, above = (self.below, self.above) if sign > 0 else (self.above, self.below)
        left_promise = sign * self.left_time.promise(start)
        right_promise = sign * self.right_time.promise(start)
        left = min(left_promise, right_promise - above)
        right = min(right_promise, left_promise - below)
        # An unmatched row depends on every row that could have matched it.
        needed_left = min(left, right - above) if kind.keeps_right else left
        needed_right = min(right, left - below) if kind.keeps_left else right
        return sign * needed_left, sign * needed_right


@dataclass(frozen=True)
class Join(
    Node,
    facts=Facts(
        "join", passes=False, waits=True, outlives="", promise="the clocks of both sides, as the reader uses them"
    ),
):
    """Windowed join of two streams (P4, V1). Expressions name an input column `<alias>.<column>`.

    A pair meets if the window and every equality hold (NULL equals NULL) and the residual is true. Its `_last` is the
    larger `_last` of the two rows. The `_last` of an unmatched row is `window.last_left` or `window.last_right` of its
    value. Maps below the join already apply the predicates on one side alone.

    Attributes:
        kind: which unmatched rows come out.
        left: the left input.
        right: the right input.
        left_alias: prefix of the left columns.
        right_alias: prefix of the right columns.
        window: the match window.
        equalities: pairs (over the left row, over the right row), without the equality of the window.
        residual: condition over both rows; unmatched rows need not satisfy it.
        items: the output columns over both rows. In an unmatched row, a column in an equality takes the value of the
            other side. Every other column of the missing side is NULL.
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
        """Returns both sides."""
        return (self.left, self.right)

    def over(self, *inputs: Node) -> Self:
        """Returns the join over two other inputs with the same columns."""
        left, right = inputs
        return replace(self, left=left, right=right)

    def exprs(self) -> tuple[Expr, ...]:
        """Returns the expressions of the window, equalities, residual and items."""
        ties = [expr for pair in self.equalities for expr in pair]
        return written(self.window.left, self.window.right, *ties, self.residual, *exprs_of(self.items))

    @property
    def label(self) -> str:
        """GSQL's keyword of the join."""
        return self.kind.value

    @property
    def by_time_alone(self) -> bool:
        """Whether rows meet within a band, and by no equality."""
        return not self.window.equality and not self.equalities

    def physical(self) -> Physical:
        """Returns a hash join or band join by slices of time."""
        what = "hash join" if self.window.equality else "band join"
        return Physical(f"{what} in slices", "a promise closes the match windows of a slice, and no state remains")

    def reads_from(self, start: int) -> tuple[int, ...]:
        """Returns the first timestamp (ns) of both sides that could match."""
        return self.window.needed(start, self.kind)

    def ends(self, latest: int) -> list[int]:
        """Returns the ends (ns) of unmatched rows; a pair ends with the later one of its rows."""
        window, ends = self.window, []
        if window.left_time.origin:
            return []
        if self.kind.keeps_left:
            ends.append(window.last_left(window.left_time.latest(latest)))
        if self.kind.keeps_right:
            ends.append(window.last_right(window.right_time.latest(latest)))
        return ends

    def final(self, port: int) -> Final | None:
        """Returns the end of a row's match window, at which the row is final."""
        window = self.window
        if window.left_time.origin:
            return None
        if port == 0:
            return lambda last: max(last, window.last_left(window.left_time.latest(last)))
        return lambda last: max(last, window.last_right(window.right_time.latest(last)))

    def origins(self) -> tuple[str, ...]:
        """Returns the origin of the window."""
        return (self.window.left_time.origin,)

    def grain(self) -> int:
        """Returns the grain (ns) of the window's two expressions."""
        return grid([self.window.left_time, self.window.right_time])

    def looks_at(self, below: Node) -> set[str]:
        """Returns the columns of the window on the side of `below`."""
        sides = [(self.left, self.left_alias, self.window.left), (self.right, self.right_alias, self.window.right)]
        return {
            name.removeprefix(f"{alias}.") for side, alias, expr in sides if side is below for name in columns_of(expr)
        }

    def punctuation(self, reader: Node | None) -> Punctuation:
        """Returns the promise of one or both attributes, as the reader uses them (002, sections 5.3, 7.2)."""
        columns = temporal_names(self.fields)
        if not columns:
            return super().punctuation(reader)
        used = reader.looks_at(self) if reader is not None else set(columns)
        chosen = tuple(name for name in columns if name in used) or columns[:1]
        joint, reason = self._chosen(chosen, used, reader)
        return Punctuation(chosen, joint, (), reason)

    def _chosen(self, chosen: Sequence[str], used: set[str], reader: Node | None) -> tuple[bool, str]:
        """Returns whether one punctuation promises all chosen columns together, and why the columns are chosen."""
        if len(chosen) > 1 and isinstance(reader, Aggregation):
            return True, f"{reader.query} groups by both clocks, so a promise on both closes its groups earlier"
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
        """Returns the key of one side, with the columns of the other side's key that it does not determine."""
        left, right = below
        if left is None or right is None:
            return None
        left_key = tuple(f"{self.left_alias}.{name}" for name in left)
        right_key = tuple(f"{self.right_alias}.{name}" for name in right)
        ties = [(_Side.of(a, temporal=False), _Side.of(b, temporal=False)) for a, b in self.equalities]
        if self.window.equality:
            ties.append((_Side.of(self.window.left, temporal=True), _Side.of(self.window.right, temporal=True)))
        swapped = [(b, a) for a, b in ties]
        candidates = [
            (*left_key, *_undetermined(right_key, left_key, ties, self.kind.keeps_right)),
            (*right_key, *_undetermined(left_key, right_key, swapped, self.kind.keeps_left)),
        ]
        equal = _equal_columns(self.kind, ties)
        carried = [
            key_through([equal.get(name, {name}) for name in key], self.items, self.fields)
            for key in candidates
            if self.kind is not JoinKind.OUTER or _sides_differ(self, key, ties)
        ]
        return min((key for key in carried if key is not None), key=len, default=None)


@dataclass(frozen=True)
class _Side:
    """A side of an equality that every pair of a join satisfies.

    Attributes:
        bare: the column, if the side is a bare column. It takes the other side's value in an unmatched row (V1).
        told: the column that the value of the side determines; None for no column.
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
    """Returns the columns of one side's key that the key of the base side does not determine.

    In a pair, every equality of the join determines one column by another. In an unmatched row of the other side, a
    bare base column takes the value of its equality (V1). With only one equality, it determines the other column too.

    Args:
        other: key of the other side.
        base: key of the base side.
        ties: the equalities, with the base side first.
        keeps_other: whether unmatched rows of the other side come out.
    """
    bare = [side.bare for side, _ in ties]
    needed = []
    for name in other:
        determining = [side.bare for side, other_side in ties if other_side.told == name]
        if not any(not keeps_other or (column in base and bare.count(column) == 1) for column in determining):
            needed.append(name)
    return needed


def _sides_differ(node: Join, key: Collection[str], ties: Sequence[_Tie]) -> bool:
    """Returns whether an unmatched left row and an unmatched right row never have the same key.

    With equal keys, the two rows would satisfy every equality of the key. Without another condition they would have
    met. The keys also differ if the key has a clock of one side: the rows of the other side have NULL in this column.
    """
    bare = [side.bare for tie in ties for side in tie]
    if node.residual is None and node.window.equality:
        covered = [tie for tie in ties if any(side.bare in key and bare.count(side.bare) == 1 for side in tie)]
        if len(covered) == len(ties):
            return True
    clocks = [
        f"{alias}.{field.name}"
        for alias, side in ((node.left_alias, node.left), (node.right_alias, node.right))
        for field in side.fields
        if field.temporal is not None
    ]
    return any(name in key and name not in bare for name in clocks)


def _equal_columns(kind: JoinKind, ties: Sequence[_Tie]) -> dict[str, set[str]]:
    """Returns column -> the columns with the same value in every joined row, itself and unmatched rows included."""
    bare = [side.bare for tie in ties for side in tie]
    equal: dict[str, set[str]] = {}
    for left, right in ties:
        # Only one equality of a column supplies a missing value (V1), so the other equalities need not hold.
        always = kind is JoinKind.INNER or bare.count(left.bare) == bare.count(right.bare) == 1
        if left.bare and right.bare and always:
            merged = equal.get(left.bare, {left.bare}) | equal.get(right.bare, {right.bare})
            equal.update(dict.fromkeys(merged, merged))
    return equal


def _replaced(expr: Expr, parts: Mapping[Expr, Expr]) -> Expr:
    """Returns the expression with some of its subexpressions replaced."""
    if expr in parts:
        return parts[expr]
    return with_children(expr, [_replaced(child, parts) for child in expr.children()])


# Semi join: rows of a source that a matching row of another source precedes.


@dataclass(frozen=True)
class FilterJoin(Node, facts=Facts("FILTER_JOIN", passes=False, waits=True, outlives="", promise=CARRIED_THROUGH)):
    """Semi join: keeps a left row if a right row with equal keys precedes it by at most `range` (O6).

    Both sides are packets of one link. `_last` of a left row is the last instant at which its match may still come.
    That is the end of the left row's unit of t; for a decreasing t it is the end of the unit t - range.

    Attributes:
        left: the rows to filter.
        right: the rows to search for a match, on the same links.
        left_alias: prefix of the left columns.
        right_alias: prefix of the right columns.
        keys: pairs of equal expressions (over the left row, over the right row).
        left_time: the attribute t of FILTER_JOIN(t, range) over the left row.
        right_time: the attribute t over the right row.
        range: the largest distance of two matching rows, in units of the attribute.
        items: the output columns over the left row.
        algorithm: the algorithm that DEFINE asks for, shown by EXPLAIN; it does not change the rows.
        place: line and column in the text of the query.
    """

    left: Node
    right: Node
    left_alias: str
    right_alias: str
    keys: tuple[tuple[Expr, Expr], ...]
    left_time: Expr
    right_time: Expr
    range: int
    items: tuple[Item, ...]
    algorithm: str
    place: Place = field(default=(0, 0), compare=False)

    def inputs(self) -> tuple[Node, ...]:
        """Returns the left and the right input."""
        return (self.left, self.right)

    def over(self, *inputs: Node) -> Self:
        """Returns the join over two other inputs with the same columns."""
        left, right = inputs
        return replace(self, left=left, right=right)

    def exprs(self) -> tuple[Expr, ...]:
        """Returns the times, keys and items."""
        ties = [expr for pair in self.keys for expr in pair]
        return written(self.left_time, self.right_time, *ties, *exprs_of(self.items))

    def physical(self) -> Physical:
        """Returns a semi join by slices of time."""
        return Physical("semi join in slices", "rows of a slice wait until a promise passes their window")

    @property
    def time(self) -> Temporal:
        """The temporal property of the attribute t of FILTER_JOIN(t, range)."""
        times = {f"{self.right_alias}.{field.name}": field.temporal for field in self.right.fields if field.temporal}
        time = infer(self.right_time, times)
        assert time is not None
        return time

    def reads_from(self, start: int) -> tuple[int, ...]:
        """Returns the first instants (ns) of the left rows final at `start` and of their possible matches."""
        time = self.time
        if time.origin:
            return 0, 0
        value = time.promise(start)
        left = value if time.increasing else value + self.range
        right = value - self.range if time.increasing else value + self.range
        return max(0, time.first(left)), max(0, time.first(right))

    def ends(self, latest: int) -> list[int]:
        """Returns the last instant (ns) at which a match of the last left row may still come."""
        final = self.final(0)
        return [final(latest)] if final else []

    def final(self, port: int) -> Final | None:
        """Returns when a left row is final: at the end of the wait for its match."""
        time = self.time
        if port or time.origin:
            return None
        reach = 0 if time.increasing else self.range
        return lambda last: max(last, time.last(time.latest(last) - reach))

    def origins(self) -> tuple[str, ...]:
        """Returns the origin of t where t is a column; else the clock."""
        if not isinstance(self.right_time, Column):
            return ("",)
        name = self.right_time.name.removeprefix(f"{self.right_alias}.")
        return (off_clock([field for field in self.right.fields if field.name == name]),)

    def grain(self) -> int:
        """Returns 0: the reader decides."""
        return 0


# Lookup join of a stream with a watch list.


@dataclass(frozen=True)
class WatchJoin(Unary, facts=Facts("WATCHLIST_JOIN", passes=True, waits=False, outlives="", promise=CARRIED_THROUGH)):
    """Lookup join: pairs a row with the row of a watch list that has its key. The run records the list's hash (S1).

    Attributes:
        alias: range variable of the stream.
        watchlist: name of the list.
        watch_alias: range variable of the list.
        file: path of the list.
        refresh: period of the old engine's reloads, in seconds.
        columns: the columns of the list, as `alias.name`.
        keys: pairs (expression over the input row, column of the list).
        residual: condition over both rows; None for no condition.
        items: the output columns over both rows.
        place: line and column in the text of the query.
    """

    alias: str
    watchlist: str
    watch_alias: str
    file: str
    refresh: int
    columns: tuple[Field, ...]
    keys: tuple[tuple[Expr, str], ...]
    residual: Expr | None
    items: tuple[Item, ...]
    place: Place = field(default=(0, 0), compare=False)

    def exprs(self) -> tuple[Expr, ...]:
        """Returns the keys, the residual and the items."""
        return written(*(expr for expr, _ in self.keys), self.residual, *exprs_of(self.items))

    def physical(self) -> Physical:
        """Returns a lookup in a table in memory."""
        return Physical("lookup", "each task holds the list in memory, so no row waits")
