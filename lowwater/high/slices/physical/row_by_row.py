"""An operator without Arrow code of its own: the operator of the tuple-at-a-time engine, over the blocks of a slice.

Beside the operators of `evaluate`, for one that hands on the rows of its input and keeps nothing. It is slow and right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from lowwater.catalog.streams import STREAM_TYPES
from lowwater.high.slices.values import Frame
from lowwater.plan.operators import Node
from lowwater.stream.maps import OPERATORS
from lowwater.stream.operators import Row, StreamOperator


class _Rows(StreamOperator):
    """Collects what an operator emits. Attributes: the rows since they were taken last."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[Row] = []

    def row(self, port: int, row: Row) -> None:
        """Keeps the row."""
        self.rows.append(row)


def evaluated(node: Node, blocks: Iterable[Frame]) -> Iterator[Frame]:
    """The rows of an operator with one input, with the control columns of the rows that they come from.

    Args:
        node: the operator; no row waits in it, and its state does not outlive a slice.
        blocks: the blocks of its input.

    Raises:
        TypeError: neither engine has the operator.
    """
    if type(node) not in OPERATORS or not node.hands_on:
        raise TypeError(f"slices have no operator for {type(node).__name__}")
    names = [field.name for field in node.inputs()[0].fields]
    source, result = StreamOperator(), _Rows()
    operator = OPERATORS[type(node)](node, source)
    operator.connect(result, 0)
    for frame in blocks:
        origins: list[int] = []
        result.rows = []
        for number, values in enumerate(zip(*(frame[name].to_pylist() for name in names), strict=True)):
            operator.row(0, Row(values, 0))
            origins += [number] * (len(result.rows) - len(origins))
        block = frame.take(np.array(origins, np.int64))
        for at, field in enumerate(node.fields):
            column = [row.values[at] for row in result.rows]
            block.columns[field.name] = pa.array(column, STREAM_TYPES[field.type])
        yield block
