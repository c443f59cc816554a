"""OOP-Join on Spark: Python state, each side purged by the promise of the other (002, figure 4; SEMANTICS P4).

The second form of `join`, for what Spark's own join of streams cannot do or takes too long for (`plan.joining`). Rows
of one key are sorted by the value of the window, so that a row finds its partners by bisection.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lowwater.catalog.expr import Type
from lowwater.high.python_group import hashable
from lowwater.plan.nodes import Join
from lowwater.plan.temporal import END_OF_TIME
from lowwater.reference.values import Evaluate, Faults, compile_predicate

AT_LAST, AT_PORT, AT_VALUE, AT_KEYS = 2, 3, 4, 5
"""Places in the rows of the machine; before them the bucket and the event time, after them keys, then the columns of
the left input and of the right one, of which those of the other input are NULL. Port 0 is the left input."""

Sides = tuple[list["Kept"], list["Kept"]]

Promises = tuple[int, int]
"""What the left and the right input promise, ns."""


@dataclass
class Kept:
    """A row that is kept while rows of the other input may meet it.

    Attributes:
        value: of the window.
        last: `_last` of the row, ns.
        values: its columns.
        met: whether a row met it.
    """

    value: int
    last: int
    values: tuple[Any, ...]
    met: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        return Kept, (self.value, self.last, self.values, self.met)


def _value(kept: Kept) -> int:
    return kept.value


@dataclass(frozen=True)
class JoinMachine:
    """Rows of two inputs until their match windows have ended. State: by key both sides by value, and rows to come in.

    What it gives has the columns of both sides, then the value of the window and `_last` of each side.

    Attributes:
        node: the join.
        kinds: types of the keys.
        names: of the columns of each side, as the residual has them.
        promises: of the inputs, by the promise of all together: at a boundary each input has its own.
    """

    node: Join
    kinds: tuple[Type, ...]
    names: tuple[tuple[str, ...], tuple[str, ...]]
    promises: Mapping[int, Promises]

    def begin(self) -> Any:
        """No rows."""
        return {}, []

    def take(self, state: Any, rows: Iterable[tuple[Any, ...]]) -> None:
        """Lets rows in; they meet when the watermark rises."""
        state[1].extend(tuple(row) for row in rows)

    def advance(self, state: Any, promise: int) -> Iterator[tuple[Any, ...]]:
        """Pairs of the rows that came in; then the unmatched rows whose windows have ended."""
        sides, coming = state
        for row in coming:
            yield from self._enter(sides, row)
        coming.clear()
        left, right = self._promised(promise)
        for key, kept in list(sides.items()):
            yield from self._purge(kept, 0, right)
            yield from self._purge(kept, 1, left)
            if not any(kept):
                del sides[key]

    def _promised(self, promise: int) -> Promises:
        """What each input promises: at least what all of them do."""
        if promise >= END_OF_TIME:
            return END_OF_TIME, END_OF_TIME
        left, right = self.promises.get(promise, (promise, promise))
        return max(left, promise), max(right, promise)

    def _enter(
        self, sides: dict[tuple[Any, ...], tuple[list[Kept], list[Kept]]], row: Any
    ) -> Iterator[tuple[Any, ...]]:
        """Joins a row with the kept ones of the other side, then keeps it."""
        window, port = self.node.window, row[AT_PORT]
        ends = AT_KEYS + len(self.kinds)
        key = hashable(row[AT_KEYS:ends], self.kinds)
        own, other = sides.setdefault(key, ([], []))[:: -1 if port else 1]
        begin = ends + (len(self.names[0]) if port else 0)
        kept = Kept(row[AT_VALUE], row[AT_LAST], row[begin : begin + len(self.names[port])])
        back, on = (window.above, window.below) if port else (window.below, window.above)
        for at in range(bisect_left(other, kept.value - back, key=_value), len(other)):
            partner = other[at]
            if partner.value > kept.value + on:
                break
            left, right = (partner, kept) if port else (kept, partner)
            if self._residual(left.values + right.values):
                left.met = right.met = True
                yield (*left.values, *right.values, left.value, left.last, right.value, right.last)
        insort(own, kept, key=_value)

    def _purge(self, kept: Sides, port: int, promise: int) -> Iterator[tuple[Any, ...]]:
        """Removes the rows of a side that no later row of the other one can meet."""
        stay: list[Kept] = []
        for row in kept[port]:
            if self._end(port, row.value) >= promise:
                stay.append(row)
            elif not row.met and (self.node.kind.keeps_right if port else self.node.kind.keeps_left):
                missing = (None,) * len(self.names[1 - port])
                columns = (*missing, *row.values) if port else (*row.values, *missing)
                own = (row.value, row.last)
                yield (*columns, *((None, None, *own) if port else (*own, None, None)))
        kept[port][:] = stay

    def _end(self, port: int, value: int) -> int:
        """The last instant (ns) of the other input's rows that a row of this value may meet."""
        window = self.node.window
        # In a decreasing attribute progress is downward, so the far end of a match window is its other bound.
        rising = window.left_time.increasing
        if port:
            return window.left_time.last(value + (window.below if rising else -window.above))
        return window.right_time.last(value + (window.above if rising else -window.below))

    @cached_property
    def _residual(self) -> Evaluate:
        return compile_predicate(self.node.residual, [name for side in self.names for name in side], Faults())
