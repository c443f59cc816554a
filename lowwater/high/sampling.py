"""The sampling operator on Spark: that of the reference engine, hosted in one bucket (004; SEMANTICS O1, I4).

One operator of the lowering (`lower`). All supergroups are in one bucket, since one that has no rows in an epoch ends
only if another one has some.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lowwater.catalog.expr import Type
from lowwater.catalog.states import read_state, write_state
from lowwater.high.buckets import BUCKET, bucketed
from lowwater.high.carry import Carry, leave_state, state_file
from lowwater.high.clock import ET, LAST, EventClock
from lowwater.high.columns import event_time, is_row
from lowwater.high.expressions import SPARK_TYPES, plain
from lowwater.high.frames import Counts
from lowwater.high.order import ORDER
from lowwater.high.temporal import long
from lowwater.plan.nodes import Cut, Sampling
from lowwater.plan.temporal import END_OF_TIME
from lowwater.reference.operators import Life, Operator, Promise, Row, order_key
from lowwater.reference.sampling import SamplingOperator

AT_LAST, AT_ORDER, AT_VALUES = 2, 3, 4
"""Places in the rows of the machine; before them the bucket and the event time, after them the columns of the input."""


def lower_sampling(node: Sampling, frame: DataFrame, clock: EventClock, counts: Counts, carry: Carry) -> DataFrame:
    """The groups that every epoch keeps: the select items, `_last`, event time."""
    # What is before the interval is in the state that was handed over, what is behind it is not whole yet.
    mine = (F.col(LAST) >= long(carry.start)) & (F.col(LAST) < long(carry.end))
    frame = frame.filter(F.when(is_row(F.col(ET)), mine).otherwise(F.lit(False)))
    frame = counts.observe(frame, "rows", node, rows_in=F.count(F.lit(1)))
    columns = [plain(f.name) for f in node.input.fields]
    rows = frame.select(F.lit(0).alias(BUCKET), ET, LAST, plain(ORDER), *columns)
    machine = SamplingMachine(
        replace(node, input=Cut(node.query, node.input.fields, "")),
        carry.end,
        state_file(carry.held, node.query) if carry.held else None,
        state_file(carry.kept, node.query) if carry.kept else None,
    )
    results = [*((f.name, SPARK_TYPES[f.type]) for f in node.fields), (LAST, "bigint")]
    # Where nothing is handed over, a query without rows has nothing to do.
    found = bucketed(node, rows, machine, results, clock, counts, wake=bool(carry.held or carry.kept))
    found = counts.observe(found, "sampling", node, rows_out=F.count(F.lit(1)))
    return found.withColumn(ET, event_time(clock, F.col(LAST)))


class _Given(Operator):
    """Collects what the hosted operator gives."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[Row] = []

    def row(self, port: int, row: Row) -> None:
        """Keeps a row."""
        self.rows.append(row)


@dataclass(frozen=True)
class SamplingMachine:
    """The operator of the reference engine as a machine. State: what it keeps, as the one element of a list.

    Attributes:
        node: over an input of which only the columns are known.
        end: of the interval, ns.
        held: file of the state to begin with; `kept` of the state to leave.
    """

    node: Sampling
    end: int
    held: Path | None
    kept: Path | None

    def begin(self) -> Any:
        """The state that the interval before left, or none."""
        if self.held is not None:
            self._operator.restore(read_state(self.held.read_text(encoding="utf-8")))
        return [self._kept(self._operator)]

    def take(self, state: Any, rows: Iterable[tuple[Any, ...]]) -> None:
        """Keeps rows until their epoch has ended."""
        operator = self._resumed(state)
        for row in rows:
            order = tuple([order_key(value) for value in row[AT_ORDER].values()])
            operator.receive(0, Row(tuple(row[AT_VALUES:]), row[AT_LAST], order))
        state[0] = self._kept(operator)

    def advance(self, state: Any, promise: int) -> Iterator[tuple[Any, ...]]:
        """The groups of the epochs that the promise ends; with the last promise, the state is left behind."""
        operator = self._resumed(state)
        operator.receive(0, Promise(min(promise, self.end)))
        for row in self._given.rows:
            yield (*row.values, row.last)
        self._given.rows.clear()
        state[0] = self._kept(operator)
        if promise >= END_OF_TIME and self.kept is not None:
            leave_state(self.kept, write_state(operator.state()))

    def _resumed(self, state: Any) -> SamplingOperator:
        self._operator.restore(read_state(state[0]) if self._as_text else state[0])
        return self._operator

    def _kept(self, operator: SamplingOperator) -> Any:
        return write_state(operator.state()) if self._as_text else operator.state()

    @cached_property
    def _as_text(self) -> bool:
        # What is pickled has a NaN of its own for each key, and none of them would be found again.
        return any(key.expr.type is Type.FLOAT for key in self.node.keys)

    @cached_property
    def _given(self) -> _Given:
        return _Given()

    @cached_property
    def _operator(self) -> SamplingOperator:
        made = SamplingOperator(self.node, Operator(), Life())
        made.connect(self._given, 0)
        return made
