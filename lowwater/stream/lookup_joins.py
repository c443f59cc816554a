"""Lookup joins: FILTER_JOIN by keys and time, WATCHLIST_JOIN in a list (SEMANTICS O6, S1).

FILTER_JOIN keeps rows until promises decide on them. WATCHLIST_JOIN has no state.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from lowwater.catalog.watchlists import read_watchlist
from lowwater.plan.operators import FilterJoin, Node, WatchJoin
from lowwater.stream.operators import Life, Promise, Row, StreamOperator, compile_items, evaluate, names_of
from lowwater.stream.values import Faults, Values, compile_expr, compile_predicate


@dataclass(eq=False)
class WaitingRow:
    """A left row that may still be matched.

    Attributes:
        matched: whether a right row lets it pass; the row is then emitted at once, or when its last instant is known.
    """

    row: Row
    key: Values
    time: int
    matched: bool = False


class FilterJoinOperator(StreamOperator):
    """Passes a left row if the right input has a row with its keys, at most the range before it.

    A left row passes as soon as such a right row has come, and is dropped once none can come. If the attribute is no
    function of the clock, the row waits for its last instant, which only a record can tell.
    """

    def __init__(self, node: FilterJoin, life: Life) -> None:
        super().__init__(2)
        left, right = _aliased(node.left_alias, node.left), _aliased(node.right_alias, node.right)
        faults = Faults()
        self._range, self._life = node.range, life
        self._times = compile_expr(node.left_time, left, faults), compile_expr(node.right_time, right, faults)
        self._keys = (
            [compile_expr(a, left, faults) for a, _ in node.keys],
            [compile_expr(b, right, faults) for _, b in node.keys],
        )
        self._items = compile_items(node.items, left)
        self._clock = node.time
        self._waiting: dict[Values, list[WaitingRow]] = {}
        self._right_times: dict[Values, list[int]] = {}
        self._ends: tuple[list[Any], list[Any]] = ([], [])
        self._order = count()

    def row(self, port: int, row: Row) -> None:
        """Takes a row of either input and emits the left rows that it decides."""
        key, time = evaluate(self._keys[port], row.values), self._times[port](row.values)
        if port == 0:
            near = any(self._in_range(time, other) for other in self._right_times.get(key, ()))
            self._add_left(WaitingRow(row, key, time, near))
        else:
            self._add_right(key, time)
            partners = [waiting for waiting in self._waiting.get(key, ()) if self._in_range(waiting.time, time)]
            if partners:
                self.before_release()
            for waiting in partners:
                waiting.matched = True
                if not self._clock.origin:
                    self._pass(waiting, 0)

    def release(self, port: int, promise: Promise) -> None:
        """Lets a right promise end the wait of left rows, and a left promise remove right rows."""
        ends = self._ends[1 - port]
        while promise.origin == self._clock.origin and ends and ends[0][0] < promise.instant:
            _, _, ended = heapq.heappop(ends)
            if port == 0:
                _remove(self._right_times, *ended)
            elif ended in self._waiting.get(ended.key, ()):
                if ended.matched:
                    self._pass(ended, promise.at)
                else:
                    _remove(self._waiting, ended.key, ended)

    def state_rows(self) -> Iterator[Values]:
        """The waiting left rows, and keys with times of right rows."""
        yield from (waiting.row.values for rows in self._waiting.values() for waiting in rows)
        yield from ((*key, time) for key, times in self._right_times.items() for time in times)

    def saved_state(self) -> Any:
        """The waiting left rows, and keys with times of right rows."""
        waiting = [(tuple(waiting.row), waiting.matched) for rows in self._waiting.values() for waiting in rows]
        return [waiting, [ended for _, _, ended in self._ends[1]]]

    def load_state(self, state: Any) -> None:
        """Restores waiting left rows, and keys with times of right rows."""
        for parts, matched in state[0]:
            row = Row(*parts)
            self._add_left(WaitingRow(row, evaluate(self._keys[0], row.values), self._times[0](row.values), matched))
        for key, time in state[1]:
            self._add_right(key, time)

    def _in_range(self, left: int, right: int) -> bool:
        return right <= left <= right + self._range

    def _add_left(self, waiting: WaitingRow) -> None:
        self._waiting.setdefault(waiting.key, []).append(waiting)
        if waiting.matched and not self._clock.origin:
            self._pass(waiting, 0)
        else:
            heapq.heappush(self._ends[0], (self._last(waiting.time), next(self._order), waiting))

    def _add_right(self, key: Values, time: int) -> None:
        self._right_times.setdefault(key, []).append(time)
        until = self._clock.last(time + (self._range if self._clock.increasing else 0))
        heapq.heappush(self._ends[1], (until, next(self._order), (key, time)))

    def _pass(self, waiting: WaitingRow, at: int) -> None:
        _remove(self._waiting, waiting.key, waiting)
        last = at if self._clock.origin else self._last(waiting.time) + self._life.late
        self.emit(Row(evaluate(self._items, waiting.row.values), last, waiting.row.order))

    def _last(self, time: int) -> int:
        """The last instant at which a right row may come that lets a left row of this time pass."""
        return self._clock.last(time - (0 if self._clock.increasing else self._range))


def _remove(rows_by_key: dict[Values, list[Any]], key: Values, entry: Any) -> None:
    rows_by_key[key].remove(entry)
    if not rows_by_key[key]:
        del rows_by_key[key]


class WatchJoinOperator(StreamOperator):
    """Joins every row with the rows of a watch list that have its key."""

    def __init__(self, node: WatchJoin) -> None:
        super().__init__()
        names = _aliased(node.alias, node.input)
        columns = names_of(node.columns)
        faults = Faults()
        self._keys = [compile_expr(expr, names, faults) for expr, _ in node.keys]
        self._residual = compile_predicate(node.residual, [*names, *columns], faults)
        self._items = compile_items(node.items, [*names, *columns])
        places = [columns.index(name) for _, name in node.keys]
        self._listed: dict[Values, list[Values]] = {}
        written = [(f.name.removeprefix(f"{node.watch_alias}."), f.type) for f in node.columns]
        for entry in read_watchlist(node.file, written):
            self._listed.setdefault(tuple([entry[at] for at in places]), []).append(entry)

    def row(self, port: int, row: Row) -> None:
        """Emits the row once for each matching entry of the list."""
        for entry in self._listed.get(evaluate(self._keys, row.values), ()):
            values = (*row.values, *entry)
            if self._residual(values):
                self.emit(row._replace(values=evaluate(self._items, values)))


def _aliased(alias: str, node: Node) -> list[str]:
    return [f"{alias}.{name}" for name in names_of(node.fields)]
