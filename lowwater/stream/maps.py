"""Operators that make rows of single rows: selection, union, windows, grouping sets, and the place in canonical order.

Beside the other families; none of them keeps a row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lowwater.catalog.expr import Column
from lowwater.plan.fields import ROWS
from lowwater.plan.operators import Bucket, Expand, Field, Map, Node
from lowwater.stream.aggregates import compile_keys
from lowwater.stream.operators import (
    MOST,
    Operator,
    Promise,
    Row,
    by_columns,
    carried,
    compile_items,
    evaluate,
    names_of,
)
from lowwater.stream.sources import Filter
from lowwater.stream.values import Faults, Values, compile_expr


class MapOperator(Operator):
    """Selection and projection."""

    def __init__(self, node: Map, below: Operator) -> None:
        super().__init__()
        names = names_of(node.input.fields)
        self.groupwise = carried(below.groupwise, node.items)
        self._filter = Filter(node.predicate, names, below)
        self._items = compile_items(node.items, names)

    def row(self, port: int, row: Row) -> None:
        """Emits the items of a row whose predicate is true."""
        if self._filter.passes(row.values):
            self.emit(row._replace(values=evaluate(self._items, row.values)))


class UnionOperator(Operator):
    """Merge of inputs in whatever order they come (002, figure A-1); packets keep their place, that of the branch last.

    Args:
        ports: how many inputs.
        packets: whether all rows are packets of the union's own query.
    """

    def __init__(self, ports: int, packets: bool) -> None:
        super().__init__(ports)
        self._packets = packets

    def row(self, port: int, row: Row) -> None:
        """Hands on a row."""
        self.emit(row._replace(order=(*row.order, port) if self._packets else ()))


class PlaceOperator(Operator):
    """Gives the rows of another query, and of operators without an order, their place by their columns (O1)."""

    def __init__(self, fields: tuple[Field, ...], below: Operator) -> None:
        super().__init__()
        self.groupwise = below.groupwise
        self._place = by_columns(fields)

    def row(self, port: int, row: Row) -> None:
        """Hands on a row with its place."""
        self.emit(row._replace(order=self._place(row.values)))


class BucketOperator(Operator):
    """Tags each row with its windows, one row out for each (WID; 002, figure A-2).

    Rows of a window of rows bring their number; with PARTITION BY they are counted here, in the order in which they
    come, and each partition is promised for itself.
    """

    def __init__(self, node: Bucket, below: Operator) -> None:
        super().__init__()
        names = names_of(node.input.fields)
        self._attribute = compile_expr(node.attribute, names, Faults())
        self._partition = compile_keys(node.partition, names)
        self._range, self._slide = node.range, node.slide
        self._counts: dict[Values, int] = {}
        self.groupwise = tuple(item.expr for item in node.partition) or below.groupwise

    def row(self, port: int, row: Row) -> None:
        """Emits the row once for each of its windows."""
        if not self._partition:
            self._tag(row, self._attribute(row.values))
            return
        of = evaluate(self._partition, row.values)
        number = self._counts.get(of, 0)
        self._counts[of] = number + 1
        self._tag(row, number)
        self.emit(Promise(number + 1, ROWS, of, row.last))

    def promise(self, port: int, promise: Promise) -> None:
        """Hands on a promise; that of all rows says nothing of the rows of a partition, until the links have ended."""
        if not self._partition or promise.origin != ROWS or promise.instant == MOST:
            super().promise(port, promise)

    def held(self) -> Any:
        """The rows of each partition so far."""
        return self._counts

    def hold(self, held: Any) -> None:
        """Takes up the counts."""
        self._counts = held

    def _tag(self, row: Row, value: int | None) -> None:
        if value is None:
            return
        # The first window that ends behind the value.
        number = (value - self._range) // self._slide + 1
        while number * self._slide <= value:
            self.emit(row._replace(values=(*row.values, number)))
            number += 1


class ExpandOperator(Operator):
    """One row out for each grouping set; a column that the set leaves out is NULL."""

    def __init__(self, node: Expand, below: Operator) -> None:
        super().__init__()
        names = names_of(node.input.fields)
        left_out = {Column(f.type, f.name) for f in node.input.fields if f.name in node.keys}
        self.groupwise = () if left_out.intersection(below.groupwise) else below.groupwise
        self._kept = [[name not in node.keys or name in kept for name in names] for kept in node.sets]

    def row(self, port: int, row: Row) -> None:
        """Emits the row of each set."""
        for number, kept in enumerate(self._kept):
            values = tuple([value if keep else None for value, keep in zip(row.values, kept, strict=True)])
            self.emit(row._replace(values=(*values, number)))


OPERATORS: dict[type[Node], Callable[[Any, Operator], Operator]] = {
    Map: MapOperator,
    Bucket: BucketOperator,
    Expand: ExpandOperator,
}
"""The operator of each node that makes rows of single rows of one input."""
