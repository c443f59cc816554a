"""Runs operators whose state outlives a slice: operators of `stream/` over the rows of slices in order.

These are CLOSING_WHEN, whose groups outlive their epoch, and the sampling operator (004; SEMANTICS O1, O4).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from lowwater.catalog.state_json import load_state, write_state
from lowwater.catalog.streams import LAST, STREAM_TYPES
from lowwater.high.slices.canonical_order import orders, tuples
from lowwater.high.slices.values import Frame
from lowwater.high.state_handover import StateHandover, state_file, write_state_file
from lowwater.plan.operators import Cut, Field, Node, Running, Sampling
from lowwater.plan.temporal import END_OF_TIME
from lowwater.stream.groups import RunningOperator, SamplingOperator
from lowwater.stream.operators import Life, Promise, Row, StreamOperator


class ChainedOperator:
    """One operator over the slices of an interval; it reads the state before and writes the state after the interval.

    Args:
        node: the operator; for a Running the input has already applied the predicate.
        carry: place of the interval in the chain of the query.

    Raises:
        LowwaterError: the state that the interval before left cannot be read.
    """

    def __init__(self, node: Running | Sampling, carry: StateHandover) -> None:
        self._node, self._carry = node, carry
        self._given = RowCollector()
        self._operator = _operator_of(node, carry)
        self._operator.connect(self._given, 0)
        if carry.earlier is not None:
            self._operator.restore(load_state(state_file(carry.earlier, node.query)))

    def take(self, frame: Frame) -> int:
        """Stores rows until their epoch has ended; returns their number.

        Rows before the interval are in the earlier state; rows after it are not complete yet.
        """
        lasts = frame[LAST].to_numpy(zero_copy_only=False)
        inside = (lasts >= self._carry.start) & (lasts < self._carry.end)
        frame = frame.where(pa.array(inside))
        rows = zip(tuples(self._node.input, frame), frame[LAST].to_pylist(), orders(frame), strict=True)
        for values, last, order in rows:
            self._operator.receive(0, Row(values, last, order))
        return frame.rows

    def advance(self, promise: int) -> tuple[Frame, Counter[str]]:
        """Returns the rows of epochs that a promise (ns) ends, with counts; the last promise writes the state.

        Raises:
            ValueOverflowError: the sum of a group does not fit 64 bits (SEMANTICS O3).
            LowwaterError: groups stay open over too many epochs without rows, or the Python of a user fails.
        """
        self._operator.receive(0, Promise(min(promise, self._carry.end)))
        rows, counts = self._given.rows, Counter(self._operator.counts)
        self._given.rows = []
        self._operator.counts.clear()
        if promise >= END_OF_TIME and self._carry.left is not None:
            write_state_file(state_file(self._carry.left, self._node.query), write_state(self._operator.state()))
        return frame_of(self._node.fields, rows), counts

    @property
    def held(self) -> int:
        """The number of stored rows and groups."""
        return sum(1 for _ in self._operator.state_rows())


class RowCollector(StreamOperator):
    """Collects the output rows of an operator."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[Row] = []

    def row(self, port: int, row: Row) -> None:
        """Keeps a row."""
        self.rows.append(row)


def frame_of(fields: Sequence[Field], rows: Sequence[Row], **more: Sequence[Any]) -> Frame:
    """Converts rows to columns: fields, `_last`, and further integer columns by name."""
    values = list(zip(*(row.values for row in rows), strict=True)) if rows else [()] * len(fields)
    columns = {f.name: pa.array(value, STREAM_TYPES[f.type]) for f, value in zip(fields, values, strict=True)}
    columns[LAST] = pa.array([row.last for row in rows], pa.int64())
    columns |= {name: pa.array(numbers, pa.int64()) for name, numbers in more.items()}
    return Frame(columns, len(rows))


def _operator_of(node: Running | Sampling, carry: StateHandover) -> RunningOperator | SamplingOperator:
    life = Life(END_OF_TIME if carry.latest is None else carry.latest + 1)
    below: Node = Cut(node.query, node.input.fields, "")
    if isinstance(node, Running):
        return RunningOperator(replace(node, input=below, predicate=None), StreamOperator(), life)
    return SamplingOperator(replace(node, input=below), StreamOperator(), life)
