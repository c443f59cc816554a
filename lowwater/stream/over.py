"""Functions of a row and those before it (SEMANTICS O11), one row at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from lowwater.catalog import expr as ex, tcp
from lowwater.errors import ValueOverflowError
from lowwater.plan import operators as ops
from lowwater.stream import operators
from lowwater.stream.values import INT64_MAX, INT64_MIN, Value, Values

Before = tuple[list[Values], list[Any]]
"""What a partition keeps: its last rows, and of each function what it has of all rows."""


class OverOperator(operators.StreamOperator):
    """Keeps rows until a promise passes them; then, in canonical order, each gets what it and those before it give."""

    def __init__(self, node: ops.Over) -> None:
        super().__init__()
        names = operators.names_of(node.input.fields)
        self._node = node
        self._partition = [names.index(column.name) for column in node.partition]
        self._order = names.index(node.order.name)
        self._taken = [_places(names, each.argument, each.default, *each.more) for each in node.functions]
        self._waiting: list[operators.Row] = []
        self._before: dict[Values, Before] = {}

    def row(self, port: int, row: operators.Row) -> None:
        self._waiting.append(row)

    def release(self, port: int, promise: operators.Promise) -> None:
        if promise.origin:
            return
        ready = [row for row in self._waiting if row.last < promise.instant]
        self._waiting = [row for row in self._waiting if row.last >= promise.instant]
        for _, peers in groupby(sorted(ready, key=lambda row: (row.last, row.order)), key=lambda row: row.last):
            for row in self._given([*peers]):
                self.emit(row)

    def due(self) -> Iterator[tuple[int, int]]:
        return iter([(0, min(row.last for row in self._waiting) + 1)] if self._waiting else [])

    def state_rows(self) -> Iterator[Values]:
        yield from (row.values for row in self._waiting)
        yield from (values for rows, _ in self._before.values() for values in rows)

    def saved_state(self) -> Any:
        """The waiting rows, and what each partition keeps, in an order that does not depend on that of arrival."""
        waiting = [tuple(row) for row in sorted(self._waiting, key=lambda row: (row.last, row.order))]
        ordered = sorted(self._before.items(), key=lambda item: [operators.order_key(value) for value in item[0]])
        return [waiting, dict(ordered)]

    def load_state(self, state: Any) -> None:
        waiting, self._before = state
        self._waiting = [operators.Row(*row) for row in waiting]

    def _given(self, rows: Sequence[operators.Row]) -> Iterator[operators.Row]:
        """Yields the rows of one instant with their values. Those that are peers in a partition are all among them."""
        found, last = [], {}
        for row in rows:
            key = tuple([_normal(row.values[at]) for at in self._partition])
            before, kept = self._before.setdefault(key, ([], [None for _ in self._node.functions]))
            last[key] = [
                self._value(function, taken, row.values, before, kept, at)
                for at, (function, taken) in enumerate(zip(self._node.functions, self._taken, strict=True))
            ]
            before.append(row.values)
            del before[: -self._node.depth]
            found.append((row, key, last[key]))
        for row, key, values in found:
            pairs = zip(self._node.functions, values, last[key], strict=True)
            given = [of_all if function.peers else value for function, value, of_all in pairs]
            yield row._replace(values=(*row.values, *given))

    def _value(
        self,
        function: ops.RowFunction,
        taken: Sequence[int | None],
        row: Values,
        before: Sequence[Values],
        kept: list[Any],
        at: int,
    ) -> Value:
        """The value of a function for a row, of which the others of its partition are before; changes what it keeps."""
        argument, default, *more = (None if place is None else row[place] for place in taken)
        value = argument if taken[0] is not None else 1
        if function.function == "lag":
            earlier = before[-function.reach] if len(before) >= function.reach else None
            found: Value = default if earlier is None else earlier[taken[0] or 0]
            return found
        if function.function == "first_value":
            kept[at] = value if not before else kept[at]
            return kept[at]  # type: ignore[no-any-return]
        if function.function == "session":
            now = int(row[self._order] or 0)
            begins = not before or now - int(before[-1][self._order] or 0) > function.reach
            cut = function.most and before and now - kept[at] >= function.most
            kept[at] = now if begins or cut else kept[at]
            return kept[at]  # type: ignore[no-any-return]
        if function.function.startswith("tcp_"):
            values = [argument, *more]
            if any(each is None for each in values):
                return None
            state, now = np.array(kept[at] or tcp.fresh(), np.int64), int(row[self._order] or 0)
            forward, seq, ack, window, flags, length = (int(each) for each in values)  # type: ignore[arg-type]
            bits = tcp.segment(state, function.reach, now, bool(forward), seq, ack, window, flags, length)
            trip = tcp.handshake(state, now, flags)
            kept[at] = state.tolist()
            told = {"tcp_analysis": bits, "tcp_began": state[tcp.BEGAN], "tcp_round_trip": trip}[function.function]
            return None if told < 0 else int(told)
        if value is not None:
            kept[at] = _added(function.function, kept[at], _normal(value))
        return self._result(function, kept[at])

    def _result(self, function: ops.RowFunction, kept: Any) -> Value:
        if kept is None:
            return 0 if function.function == "count" else None
        if function.function in ("count", "row_number"):
            return kept[0]  # type: ignore[no-any-return]
        if function.function in ("min", "max"):
            return kept  # type: ignore[no-any-return]
        number, total = kept
        if isinstance(total, float):
            total = None if total != total else total
            return total if total is None or function.function == "sum" else total / number
        if function.function == "avg":
            return total / number  # type: ignore[no-any-return]
        if not INT64_MIN <= total <= INT64_MAX:
            raise overflow(self._node)
        return total  # type: ignore[no-any-return]


def overflow(node: ops.Over) -> ValueOverflowError:
    """The error of a sum that does not fit 64 bits (SEMANTICS O3)."""
    message = f"query {node.query}, at {node.place[0]}:{node.place[1]}: a sum OVER the rows before does not fit 64 bits"
    return ValueOverflowError(message, "partition by more columns, scale the argument down, or write avg")


def _places(names: Sequence[str], *columns: ex.Column | None) -> list[int | None]:
    return [None if column is None else names.index(column.name) for column in columns]


def _normal(value: Value) -> Value:
    """Makes equal floats equal as keys (V1, V2): one zero, one NaN."""
    return math.nan if value != value else value + 0.0 if isinstance(value, float) else value


def _added(name: str, kept: Any, value: Any) -> Any:
    """What a function keeps of the rows up to one with a value."""
    if name in ("min", "max"):
        if kept is None:
            return value
        return (min if name == "min" else max)(kept, value, key=operators.order_key)
    if name in ("sum", "avg"):
        return (1, value) if kept is None else (kept[0] + 1, kept[1] + value)
    return (1 if kept is None else kept[0] + 1,)
