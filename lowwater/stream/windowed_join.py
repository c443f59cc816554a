"""OOP-Join: the windowed join of two streams, purged by promises (002, section 5.3).

Promises of one input remove rows of the other that no later row can match.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from lowwater.catalog.expr import Column, Expr
from lowwater.plan.operators import Join
from lowwater.plan.temporal import Temporal
from lowwater.stream.operators import Life, Promise, Row, StreamOperator, compile_items, evaluate, names_of
from lowwater.stream.values import Evaluate, Faults, Values, compile_expr, compile_predicate


@dataclass
class JoinRow:
    """A row in the state of a join; it stays until its match window has ended."""

    row: Row
    key: Values
    value: int
    matched: bool = False


@dataclass
class JoinSide:
    """The state of one input of a join.

    Attributes:
        window: temporal expression of the match window.
        keys: expressions of the equalities, and of the window where it is an equality.
        other: temporal attribute of the other input.
        shift: how far the match window of a value reaches into the other input.
        keeps: whether unmatched rows are emitted.
        buckets: key -> number -> row.
        ends: heap of rows by the promise of the other input that ends their window.
    """

    window: Evaluate
    keys: list[Evaluate]
    other: Temporal
    shift: int
    keeps: bool
    buckets: dict[Values, dict[int, JoinRow]] = field(default_factory=dict)
    ends: list[tuple[int, int, JoinRow]] = field(default_factory=list)

    def keep(self, entry: JoinRow, number: int) -> None:
        """Adds a row to the state."""
        self.buckets.setdefault(entry.key, {})[number] = entry
        heapq.heappush(self.ends, (self.other.last(entry.value + self.shift) + 1, number, entry))

    def purge(self, promise: int) -> Iterator[JoinRow]:
        """Removes and yields the rows that no later row of the other input can match (SEMANTICS P4)."""
        while self.ends and self.ends[0][0] <= promise:
            _, number, entry = heapq.heappop(self.ends)
            bucket = self.buckets[entry.key]
            del bucket[number]
            if not bucket:
                del self.buckets[entry.key]
            yield entry


class JoinOperator(StreamOperator):
    """OOP-Join (002, figure 4, with the bounds of SEMANTICS P4); port 0 is the left input."""

    def __init__(self, node: Join, life: Life) -> None:
        super().__init__(2)
        self._node, self._life = node, life
        window, pairs = node.window, list(node.equalities)
        if window.equality:
            pairs.insert(0, (window.left, window.right))
        left = [f"{node.left_alias}.{name}" for name in names_of(node.left.fields)]
        right = [f"{node.right_alias}.{name}" for name in names_of(node.right.fields)]
        faults = Faults()
        # In a decreasing attribute progress is downward, so the far end of a match window is its other bound.
        rising = window.left_time.increasing
        ahead, behind = (window.above, window.below) if rising else (-window.below, -window.above)
        left_keys = [compile_expr(pair[0], left, faults) for pair in pairs]
        right_keys = [compile_expr(pair[1], right, faults) for pair in pairs]
        left_value, right_value = compile_expr(window.left, left, faults), compile_expr(window.right, right, faults)
        self._sides = (
            JoinSide(left_value, left_keys, window.right_time, ahead, node.kind.keeps_left),
            JoinSide(right_value, right_keys, window.left_time, behind, node.kind.keeps_right),
        )
        self._residual = compile_predicate(node.residual, left + right, faults)
        self._items = compile_items(node.items, left + right)
        # What an unmatched row of each side gives to the other: its columns that an equality ties, else NULL.
        self._fillers = (
            _filler_columns(right, [(b, a) for a, b in pairs], left, faults),
            _filler_columns(left, pairs, right, faults),
        )
        self._order = count()
        self._origin = window.left_time.origin

    def row(self, port: int, row: Row) -> None:
        """Joins a row with the stored rows of the other input, then stores it for later rows."""
        side, other = self._sides[port], self._sides[1 - port]
        entry = JoinRow(row, evaluate(side.keys, row.values), side.window(row.values))
        for candidate in other.buckets.get(entry.key, {}).values():
            left, right = (entry, candidate) if port == 0 else (candidate, entry)
            values = left.row.values + right.row.values
            if self._within_window(left.value, right.value) and self._residual(values):
                left.matched = right.matched = True
                self.emit(Row(evaluate(self._items, values), max(left.row.last, right.row.last)))
        side.keep(entry, next(self._order))
        self._purge_side(port, row.last)

    def release(self, port: int, promise: Promise) -> None:
        """Lets a promise of one input end match windows of the other."""
        if promise.origin == self._origin:
            self._purge_side(1 - port, promise.at)

    def due(self) -> Iterator[tuple[int, int]]:
        """The promises that end the oldest match windows."""
        if self._origin:
            return iter(())
        return iter([(1 - port, side.ends[0][0]) for port, side in enumerate(self._sides) if side.ends])

    def state_rows(self) -> Iterator[Values]:
        """The stored rows of both inputs."""
        return (k.row.values for side in self._sides for bucket in side.buckets.values() for k in bucket.values())

    def saved_state(self) -> Any:
        """The stored rows of both inputs, each with whether it has matched."""
        return [
            [(tuple(entry.row), entry.matched) for bucket in side.buckets.values() for entry in bucket.values()]
            for side in self._sides
        ]

    def load_state(self, state: Any) -> None:
        """Restores stored rows."""
        for side, rows in zip(self._sides, state, strict=True):
            for parts, matched in rows:
                row = Row(*parts)
                entry = JoinRow(row, evaluate(side.keys, row.values), side.window(row.values), matched)
                side.keep(entry, next(self._order))

    def _within_window(self, left: int, right: int) -> bool:
        window = self._node.window
        return window.equality or left - window.below <= right <= left + window.above

    def _purge_side(self, port: int, at: int) -> None:
        side = self._sides[port]
        for entry in side.purge(self.progress(1 - port, self._origin)):
            if side.keeps and not entry.matched:
                self.emit(self._unmatched(port, entry, at))

    def _unmatched(self, port: int, entry: JoinRow, at: int) -> Row:
        filler = evaluate(self._fillers[port], entry.row.values)
        values = entry.row.values + filler if port == 0 else filler + entry.row.values
        ends = self._node.window.last_left if port == 0 else self._node.window.last_right
        return Row(evaluate(self._items, values), at if self._origin else ends(entry.value) + self._life.late)


def _filler_columns(
    missing: Sequence[str], pairs: Sequence[tuple[Expr, Expr]], present: Sequence[str], faults: Faults
) -> list[Evaluate]:
    """For each column of the missing side, the expression over the present side that fills it (SEMANTICS V1)."""
    tied: dict[str, Evaluate] = {}
    for missing_expr, other in pairs:
        if isinstance(missing_expr, Column):
            tied.setdefault(missing_expr.name, compile_expr(other, present, faults))
    return [tied.get(name, lambda row: None) for name in missing]
