"""Operators of the in-order architecture (IOP), for experiments: the merge that restores order, buffered windows.

Beside the operators that they stand in for; 002, sections 1, 3.2 and 5.5. The rows are the same, later and from another
state: a merge keeps rows until all inputs have passed them, a buffered window keeps the rows of all its windows.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import count
from typing import Any

from lowwater.plan.nodes import Bucket, Group
from lowwater.reference.aggregates import Accumulator, Aggregates, compile_keys, results_of
from lowwater.reference.groups import last_values
from lowwater.reference.operators import Life, Operator, Promise, Row, compile_items, evaluate, names_of
from lowwater.reference.values import Faults, Values, compile_expr, compile_predicate


class OrderOperator(Operator):
    """The order-preserving merge: keeps rows until no earlier one can come, and gives them in order.

    Args:
        ports: inputs; one for the records of a source, which are merged over its links.
        union: whether it stands for a union, whose packets keep the place of their branch last.
        packets: whether all rows are packets of the union's own query.
    """

    def __init__(self, ports: int, union: bool, packets: bool) -> None:
        super().__init__(ports)
        self._union, self._packets = union, packets
        self._waiting: list[tuple[int, tuple[Any, ...], int, Values]] = []
        self._number = count()

    def row(self, port: int, row: Row) -> None:
        """Keeps a row."""
        order = row.order if not self._union else (*row.order, port) if self._packets else ()
        heapq.heappush(self._waiting, (row.last, order, next(self._number), row.values))

    def release(self, port: int, promise: Promise) -> None:
        """Gives the rows that all inputs have passed."""
        least = min(self.promised)
        while self._waiting and self._waiting[0][0] < least:
            last, order, _, values = heapq.heappop(self._waiting)
            self.emit(Row(values, last, order))

    def due(self) -> Iterator[tuple[int, int]]:
        """The promise that lets the oldest row go; every input has to make it."""
        ports = [port for port, promised in enumerate(self.promised) if promised == min(self.promised)]
        return iter([(port, self._waiting[0][0] + 1) for port in ports] if self._waiting else [])

    def kept(self) -> Iterator[Values]:
        """The waiting rows."""
        return (values for _, _, _, values in self._waiting)

    def held(self) -> Any:
        """The waiting rows, in order."""
        return sorted(self._waiting, key=lambda waiting: waiting[:3])

    def hold(self, held: Any) -> None:
        """Takes up waiting rows."""
        self._waiting, self._number = held, count(len(held))


class BufferedWindowsOperator(Operator):
    """Sliding windows without WID: keeps every row until its last window has ended, and aggregates a window at its end.

    It stands for a Group and the Bucket below it, over an attribute of the clock.
    """

    def __init__(self, node: Group, bucket: Bucket, life: Life) -> None:
        super().__init__()
        names, results = names_of(bucket.fields), results_of(node)
        self._node, self._bucket, self._life = node, bucket, life
        self._attribute = compile_expr(bucket.attribute, names_of(bucket.input.fields), Faults())
        self._where = compile_predicate(node.predicate, names, Faults())
        self._keys = compile_keys(node.keys, names)
        self._aggregates = Aggregates(node.query, node.aggregates, names, node.items)
        self._having = compile_predicate(node.having, results, Faults())
        self._items = compile_items(node.items, results)
        self._time = next(f.temporal for f in bucket.fields if f.name == bucket.name)
        self._rows: list[tuple[range, Row]] = []
        self._open: set[int] = set()

    def row(self, port: int, row: Row) -> None:
        """Keeps a row that is in a window."""
        value, slide = self._attribute(row.values), self._bucket.slide
        if value is not None:
            windows = range((value - self._bucket.range) // slide + 1, value // slide + 1)
            if windows:
                self._rows.append((windows, row))
                self._open.update(windows)

    def release(self, port: int, promise: Promise) -> None:
        """Aggregates the windows that have ended, one after the other, and forgets the rows of no other window."""
        while self._open and not promise.origin and self._last(min(self._open)) < promise.instant:
            window = min(self._open)
            self._open.remove(window)
            self._end(window)
            self._rows = [(windows, row) for windows, row in self._rows if windows.stop > window + 1]

    def due(self) -> Iterator[tuple[int, int]]:
        """The promise that ends the oldest window."""
        return iter([(0, self._last(min(self._open)) + 1)] if self._open else [])

    def kept(self) -> Iterator[Values]:
        """The rows of open windows."""
        return (row.values for _, row in self._rows)

    def held(self) -> Any:
        """The rows, with their open windows."""
        return [[tuple(row) for _, row in self._rows], self._open]

    def hold(self, held: Any) -> None:
        """Takes up rows."""
        for parts in held[0]:
            self.row(0, Row(*parts))
        self._open = held[1]

    def _last(self, window: int) -> int:
        assert self._time is not None
        return self._time.last(window)

    def _end(self, window: int) -> None:
        groups: dict[Values, list[Accumulator]] = {}
        for windows, row in self._rows:
            values = (*row.values, window)
            if window in windows and self._where(values):
                group = groups.setdefault(evaluate(self._keys, values), self._aggregates.fresh())
                self._aggregates.add(group, self._aggregates.arguments(values), row.order)
        for key, group in groups.items():
            found = (*key, *self._aggregates.results(group))
            if self._having(found):
                last = last_values(self._node.key_fields, key)[""] + self._life.late
                self.emit(Row(evaluate(self._items, found), last))
