"""Joins row by row: of two streams by windows of time, and of a stream with a table.

`high.operators` has them over columns, for the slices of a run.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from lowwater.catalog import expr as ex, watchlists
from lowwater.plan import operators as ops, temporal
from lowwater.stream.aggregates import compile_key
from lowwater.stream.operators import Life, Promise, Row, StreamOperator, compile_items, evaluate, names_of
from lowwater.stream.values import Evaluate, Faults, Values, compile_expr, compile_predicate

# OOP-Join: the windowed join of two streams, purged by promises (002, section 5.3). Promises of one input remove rows
# of the other that no later row can match.


@dataclass
class JoinRow:
    """A row in the state of a join; it stays until its match window has ended."""

    row: Row
    key: Values
    value: int
    matched: bool = False
    best: JoinRow | None = None  # the nearest row so far that meets this one: of left rows of ASOF, of all with ONCE


@dataclass
class JoinSide:
    """The state of one input of a join."""

    window: Evaluate
    keys: list[Evaluate]  # expressions of the equalities, and of the window where it is an equality
    other: temporal.Temporal
    shift: int  # how far the match window of a value reaches into the other input
    keeps: bool  # whether rows are emitted that have met nothing when their window ends
    ended: bool = False  # whether those are that have met something
    buckets: dict[Values, dict[int, JoinRow]] = field(default_factory=dict)  # key -> number -> row
    # heap of rows by the promise of the other input that ends their window
    ends: list[tuple[int, int, JoinRow]] = field(default_factory=list)

    def keep(self, entry: JoinRow, number: int) -> None:
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

    def __init__(self, node: ops.Join, life: Life) -> None:
        super().__init__(2)
        self._node, self._life = node, life
        window, pairs = node.window, node.ties
        left = [f"{node.left_alias}.{name}" for name in names_of(node.left.fields)]
        right = [f"{node.right_alias}.{name}" for name in names_of(node.right.fields)]
        faults = Faults()
        # In a decreasing attribute progress is downward, so the far end of a match window is its other bound.
        rising = window.left_time.increasing
        ahead, behind = (window.above, window.below) if rising else (-window.below, -window.above)
        left_keys = [compile_key(pair[0], left) for pair in pairs]
        right_keys = [compile_key(pair[1], right) for pair in pairs]
        left_value, right_value = compile_expr(window.left, left, faults), compile_expr(window.right, right, faults)
        self._sides = (
            JoinSide(left_value, left_keys, window.right_time, ahead, node.kind.keeps_left, node.kind.emits_met),
            JoinSide(right_value, right_keys, window.left_time, behind, node.kind.keeps_right),
        )
        self._residual = compile_predicate(node.residual, left + right, faults)
        self._items = compile_items(node.items, left + right)
        self._missing = (None,) * len(right), (None,) * len(left)
        self._order = count()
        self._origin = window.left_time.origin
        self._latest = node.latest, node.exchanged().latest
        # Of ONCE: left rows whose match window has ended, which wait for others that may be nearer to their right row.
        self._rivals: list[tuple[int, int, JoinRow]] = []

    def row(self, port: int, row: Row) -> None:
        """Joins a row with the stored rows of the other input, then stores it for later rows."""
        side, other = self._sides[port], self._sides[1 - port]
        entry = _stored(side, row)
        for candidate in other.buckets.get(entry.key, {}).values():
            left, right = (entry, candidate) if port == 0 else (candidate, entry)
            values = left.row.values + right.row.values
            if self._within_window(left.value, right.value) and self._residual(values):
                left.matched = right.matched = True
                if self._node.kind.nearest:
                    self._meet(left, right, self._latest[0])
                if self._node.kind.mutual:
                    self._meet(right, left, self._latest[1])
                if self._node.kind.once:
                    continue
                self.emit(Row(evaluate(self._items, values), max(left.row.last, right.row.last)))
        side.keep(entry, next(self._order))
        self._purge_side(port, row.last)
        self._release_rivals(row.last)

    def release(self, port: int, promise: Promise) -> None:
        """Lets a promise of one input end match windows of the other."""
        if promise.origin == self._origin:
            self._purge_side(1 - port, promise.at)
            self._release_rivals(promise.at)

    def due(self) -> Iterator[tuple[int, int]]:
        if self._origin:
            return iter(())
        rivals = [(0, self._rivals[0][0])] if self._rivals else []
        return iter([*((1 - port, side.ends[0][0]) for port, side in enumerate(self._sides) if side.ends), *rivals])

    def state_rows(self) -> Iterator[Values]:
        yield from (k.row.values for side in self._sides for bucket in side.buckets.values() for k in bucket.values())
        yield from (entry.row.values for _, _, entry in self._rivals)

    def saved_state(self) -> Any:
        """The stored rows of both inputs, each with whether it has matched. ASOF has beside them the rows that are the
        nearest of a left row, or wait for its rivals; each row has the number of its nearest one so far, -1 for none,
        and whether it is no longer stored."""
        stored = [[entry for bucket in side.buckets.values() for entry in bucket.values()] for side in self._sides]
        if not self._node.kind.nearest:
            return [[(tuple(entry.row), entry.matched) for entry in entries] for entries in stored]
        lefts = [*stored[0], *(entry for _, _, entry in self._rivals)]
        rights = [*{id(entry): entry for entry in (*stored[1], *(left.best for left in lefts)) if entry}.values()]
        numbers = {id(entry): at for entries in (lefts, rights) for at, entry in enumerate(entries)}
        return [
            [
                (tuple(entry.row), entry.matched, numbers.get(id(entry.best), -1), at >= len(kept))
                for at, entry in enumerate(entries)
            ]
            for entries, kept in zip((lefts, rights), stored, strict=True)
        ]

    def load_state(self, state: Any) -> None:
        made = [
            [_stored(side, Row(*parts)) for parts, *_ in rows] for side, rows in zip(self._sides, state, strict=True)
        ]
        for side, entries, others, rows in zip(self._sides, made, made[::-1], state, strict=True):
            for entry, (_, matched, *nearest) in zip(entries, rows, strict=True):
                best, gone = nearest or (-1, False)
                entry.matched, entry.best = matched, others[best] if best >= 0 else None
                if not gone:
                    side.keep(entry, next(self._order))
                elif entries is made[0]:
                    self._await_rivals(entry)

    def _meet(self, entry: JoinRow, new: JoinRow, latest: bool) -> None:
        """Makes a row of the other side the nearest one of an entry, if it is nearer than that (SEMANTICS O9)."""
        if entry.best is None:
            entry.best = new
            return
        ours, theirs = [(abs(other.value - entry.value), other.value) for other in (new, entry.best)]
        first = new.row.order > entry.best.row.order if latest else new.row.order < entry.best.row.order
        if ours < theirs or (ours == theirs and first):
            entry.best = new

    def _within_window(self, left: int, right: int) -> bool:
        window = self._node.window
        return window.equality or left - window.below <= right <= left + window.above

    def _purge_side(self, port: int, at: int) -> None:
        side = self._sides[port]
        for entry in side.purge(self.progress(1 - port, self._origin)):
            if side.ended if entry.matched else side.keeps:
                if port == 0 and self._node.kind.mutual:
                    self._await_rivals(entry)
                else:
                    self.emit(self._at_end(port, entry, at))

    def _await_rivals(self, entry: JoinRow) -> None:
        heapq.heappush(self._rivals, (self._node.window.last_rival(entry.value) + 1, next(self._order), entry))

    def _release_rivals(self, at: int) -> None:
        """Emits the left rows of ONCE to whose nearest row no later left row can be nearer."""
        while self._rivals and self._rivals[0][0] <= self.progress(0, self._origin):
            _, _, entry = heapq.heappop(self._rivals)
            if entry.best and entry.best.best is not entry:
                entry.best = None
            if entry.best or self._node.kind.keeps_left:
                self.emit(self._at_end(0, entry, at))
            entry.best = None

    def _at_end(self, port: int, entry: JoinRow, at: int) -> Row:
        """The row of an entry whose match window has ended: with the nearest row, or without one."""
        missing = entry.best.row.values if entry.best else self._missing[port]
        values = entry.row.values + missing if port == 0 else missing + entry.row.values
        ends = self._node.window.last_left if port == 0 else self._node.window.last_right
        return Row(evaluate(self._items, values), at if self._origin else ends(entry.value) + self._life.late)


def _stored(side: JoinSide, row: Row) -> JoinRow:
    return JoinRow(row, evaluate(side.keys, row.values), side.window(row.values))


# Lookup joins: FILTER_JOIN by keys and time, WATCHLIST_JOIN in a list (SEMANTICS O6, S1). FILTER_JOIN keeps rows
# until promises decide on them. WATCHLIST_JOIN has no state.


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

    def __init__(self, node: ops.FilterJoin, life: Life) -> None:
        super().__init__(2)
        left, right = _aliased(node.left_alias, node.left), _aliased(node.right_alias, node.right)
        faults = Faults()
        self._range, self._life = node.range, life
        self._times = compile_expr(node.left_time, left, faults), compile_expr(node.right_time, right, faults)
        self._keys = (
            [compile_key(a, left) for a, _ in node.keys],
            [compile_key(b, right) for _, b in node.keys],
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

    def __init__(self, node: ops.WatchJoin) -> None:
        super().__init__()
        names = _aliased(node.alias, node.input)
        columns = names_of(node.columns)
        faults = Faults()
        self._keys = [compile_key(expr, names) for expr, _ in node.keys]
        self._residual = compile_predicate(node.residual, [*names, *columns], faults)
        self._items = compile_items(node.items, [*names, *columns])
        types = {f.name: f.type for f in node.columns}
        listed_keys = [compile_key(ex.Column(types[name], name), columns) for _, name in node.keys]
        self._listed: dict[Values, list[Values]] = {}
        written = [(f.name.removeprefix(f"{node.watch_alias}."), f.type) for f in node.columns]
        for entry in watchlists.read_watchlist(node.file, written):
            self._listed.setdefault(evaluate(listed_keys, entry), []).append(entry)

    def row(self, port: int, row: Row) -> None:
        """Emits the row once for each matching entry of the list."""
        for entry in self._listed.get(evaluate(self._keys, row.values), ()):
            values = (*row.values, *entry)
            if self._residual(values):
                self.emit(row._replace(values=evaluate(self._items, values)))


def _aliased(alias: str, node: ops.Node) -> list[str]:
    return [f"{alias}.{name}" for name in names_of(node.fields)]
