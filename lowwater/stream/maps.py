"""Operators without stored rows: selection, union, windows, grouping sets, canonical order.

Each row is processed by itself. Only windows with PARTITION BY keep counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lowwater.catalog.expr import Column
from lowwater.plan.operators import ROWS, Bucket, Expand, Field, Map, Node
from lowwater.stream import aggregates, operators, records
from lowwater.stream.values import Faults, Values, compile_expr


class MapOperator(operators.StreamOperator):
    """Selection and projection."""

    def __init__(self, node: Map, below: operators.StreamOperator) -> None:
        super().__init__()
        names = operators.names_of(node.input.fields)
        self.groupwise = operators.carried(below.groupwise, node.items)
        self._filter = records.Filter(node.predicate, names, below)
        self._items = operators.compile_items(node.items, names)

    def row(self, port: int, row: operators.Row) -> None:
        """Emits the items of a row for which the predicate is true."""
        if self._filter.passes(row.values):
            self.emit(row._replace(values=operators.evaluate(self._items, row.values)))


class UnionOperator(operators.StreamOperator):
    """Merges inputs in the order in which rows come (002, figure A-1). The order of a packet gets the number of its
    branch.

    Args:
        packets: whether all rows are packets of the union's own query.
    """

    def __init__(self, ports: int, packets: bool) -> None:
        super().__init__(ports)
        self._packets = packets

    def row(self, port: int, row: operators.Row) -> None:
        self.emit(row._replace(order=(*row.order, port) if self._packets else ()))


class PlaceOperator(operators.StreamOperator):
    """Gives rows of another query, and of operators without an order, a canonical order by their columns (O1)."""

    def __init__(self, fields: tuple[Field, ...], below: operators.StreamOperator) -> None:
        super().__init__()
        self.groupwise = below.groupwise
        self._place = operators.by_columns(fields)

    def row(self, port: int, row: operators.Row) -> None:
        self.emit(row._replace(order=self._place(row.values)))


class BucketOperator(operators.StreamOperator):
    """Assigns windows: emits a row once for each of its windows (WID; 002, figure A-2).

    Rows of a window of rows bring their number. With PARTITION BY or a condition they are counted here in order of
    arrival, and each partition has its own promises.
    """

    def __init__(self, node: Bucket, below: operators.StreamOperator) -> None:
        super().__init__()
        names = operators.names_of(node.input.fields)
        self._attribute = compile_expr(node.attribute, names, Faults())
        self._rows, self._counts_here = node.rows, node.rows and not node.every_record
        self._counted = compile_expr(node.counted, names, Faults()) if node.counted is not None else None
        self._partition = aggregates.compile_keys(node.partition, names)
        self._range, self._slide = node.range, node.slide
        self._counts: dict[Values, int] = {}
        self._told: int | None = None
        self.groupwise = tuple(item.expr for item in node.partition) or below.groupwise

    def row(self, port: int, row: operators.Row) -> None:
        if not self._counts_here:
            self._tag(row, self._attribute(row.values))
            return
        if self._counted is not None and self._counted(row.values) is not True:
            return
        of = operators.evaluate(self._partition, row.values)
        number = self._counts.get(of, 0)
        self._counts[of] = number + 1
        self._tag(row, number)
        if self._first_open(number + 1) != self._first_open(number):
            self.emit(operators.Promise(number + 1, ROWS, of, row.last))

    def promise(self, port: int, promise: operators.Promise) -> None:
        """Passes a promise on.

        A promise about all records is dropped where rows are counted here, until the links end. Elsewhere it passes
        only where it closes a window: a promise a record through all operators above would cost more than the rows.
        """
        if self._rows and promise.origin == ROWS and promise.instant != operators.MOST:
            if self._counts_here or self._first_open(promise.instant) == self._told:
                return
            self._told = self._first_open(promise.instant)
        super().promise(port, promise)

    def _first_open(self, number: int) -> int:
        """The first window that a row of this number or a later one may be in."""
        return (number - self._range) // self._slide + 1

    @property
    def counted(self) -> int:
        """The number of rows so far, of windows without a partition."""
        return self._counts.get((), 0)

    @counted.setter
    def counted(self, rows: int) -> None:
        self._counts[()] = rows

    def saved_state(self) -> Any:
        return self._counts

    def load_state(self, state: Any) -> None:
        self._counts = state

    def _tag(self, row: operators.Row, value: int | None) -> None:
        if value is None:
            return
        number = self._first_open(value)
        while number * self._slide <= value:
            self.emit(row._replace(values=(*row.values, number)))
            number += 1


class ExpandOperator(operators.StreamOperator):
    """Emits a row for each grouping set; columns outside the set are NULL."""

    def __init__(self, node: Expand, below: operators.StreamOperator) -> None:
        super().__init__()
        names = operators.names_of(node.input.fields)
        left_out = {Column(f.type, f.name) for f in node.input.fields if f.name in node.keys}
        self.groupwise = () if left_out.intersection(below.groupwise) else below.groupwise
        self._in_set = [[name not in node.keys or name in set_keys for name in names] for set_keys in node.sets]

    def row(self, port: int, row: operators.Row) -> None:
        for number, flags in enumerate(self._in_set):
            values = tuple([value if keep else None for value, keep in zip(row.values, flags, strict=True)])
            self.emit(row._replace(values=(*values, number)))


OPERATORS: dict[type[Node], Callable[[Any, operators.StreamOperator], operators.StreamOperator]] = {
    Map: MapOperator,
    Bucket: BucketOperator,
    Expand: ExpandOperator,
}
"""The operator of each node that makes rows of single rows of one input."""
