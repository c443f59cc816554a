"""Operators whose state is Python, on Spark: transformWithState over a few buckets, each with one blob of state.

Beside the lowering (`lower`). One remote call a bucket and micro-batch, whatever the number of its groups; a timer that
every rise of the watermark sets off is how the promise reaches a bucket that has no rows.
"""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from lowwater.catalog.expr import Type
from lowwater.errors import LowwaterError, ValueOverflowError
from lowwater.high.clock import EventClock

if TYPE_CHECKING:
    from lowwater.high.frames import Counts
    from lowwater.plan.nodes import Node

BUCKET = "_bucket"
STATE = "_state"
"""By how many bytes the blob of a bucket has grown, in a row of its own; NULL in the rows of the machine."""
STATE_KIND = "state"
"""Kind of the observed point where that is added up."""
ERROR = "LOWWATER_ERROR"
"""Begins an error of ours within the text of Spark's; then its parts in Base64, then a colon."""


class Machine(Protocol):
    """An operator over rows as tuples. Its state is any picklable value, apart from it."""

    def begin(self) -> Any:
        """The state of a bucket before its first row."""

    def take(self, state: Any, rows: Iterable[tuple[Any, ...]]) -> None:
        """Absorbs rows, in any order."""

    def advance(self, state: Any, promise: int) -> Iterator[tuple[Any, ...]]:
        """The rows that are final now that no row of a smaller `_last` than the promise (ns) will come."""


class Bucketed(StatefulProcessor):
    """Hosts a machine: loads the state of a bucket, lets it take rows, lets it advance when the watermark has risen.

    Args:
        machine: the operator.
        names: columns of the rows out.
        clock: of the query.
    """

    def __init__(self, machine: Machine, names: Sequence[str], clock: EventClock) -> None:
        self._machine, self._clock = machine, clock
        self._row, self._nothing = Row(*names, STATE), (None,) * len(names)

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark before the first bucket of a task."""
        self._handle = handle
        self._blob = handle.getValueState("blob", "blob binary, told bigint")
        self._states: dict[Any, Any] = {}
        self._told: dict[Any, int] = {}

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        """A bucket is woken in the first micro-batch."""
        with marked():
            self._store(key, pickle.dumps(self._load(key), pickle.HIGHEST_PROTOCOL), 0, timerValues)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        """The rows of a bucket in a micro-batch. None of them is final: a promise that excluded them has not been."""
        state = self._load(key)
        with marked():
            self._machine.take(state, rows)
        yield self._keep(key, state, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        """The watermark has risen."""
        state = self._load(key)
        promise = self._clock.promised(timerValues.getCurrentWatermarkInMs())
        if promise is not None:
            with marked():
                for values in self._machine.advance(state, promise):
                    yield self._row(*values, None)
        yield self._keep(key, state, timerValues)

    def close(self) -> None:
        """Called by Spark after the last bucket of a task."""

    def _load(self, key: Any) -> Any:
        # Rows of a bucket may come in several calls, and its timer after them.
        if key not in self._states:
            stored = self._blob.get()
            self._states[key] = self._machine.begin() if stored is None else pickle.loads(bytes(stored[0]))
            self._told[key] = 0 if stored is None else stored[1]
        return self._states[key]

    def _keep(self, key: Any, state: Any, timer_values: Any) -> Row:
        """Stores the state of a bucket. Gives the row that tells how it has grown."""
        blob = pickle.dumps(state, pickle.HIGHEST_PROTOCOL)
        grown = len(blob) - self._told[key]
        self._store(key, blob, len(blob), timer_values)
        return self._row(*self._nothing, grown)

    def _store(self, key: Any, blob: bytes, told: int, timer_values: Any) -> None:
        """Stores a blob, with the size that has been told of it."""
        self._told[key] = told
        self._blob.update((blob, told))
        self._handle.registerTimer(timer_values.getCurrentWatermarkInMs() + 1)


@contextmanager
def marked() -> Iterator[None]:
    """Lets an error of ours that is raised in a Python worker reach the driver."""
    try:
        yield
    except LowwaterError as error:
        said = json.dumps([isinstance(error, ValueOverflowError), error.message, error.hint])
        raise RuntimeError(f"{ERROR}:{base64.b64encode(said.encode()).decode()}:") from None


def bucketed(
    node: Node,
    frame: DataFrame,
    machine: Machine,
    columns: Sequence[tuple[str, str]],
    clock: EventClock,
    counts: Counts,
    wake: bool = False,
) -> DataFrame:
    """The rows that a machine makes of a frame with a bucket, an event time and the columns that the machine reads.

    Args:
        node: the operator in the plan.
        frame: BUCKET is its first column; rows reach the machine as tuples of all columns.
        machine: the operator.
        columns: of the rows out, with their types as Spark writes them.
        clock: of the query.
        counts: of the query; they get the bytes of the state.
        wake: whether there is one bucket, which works also where it has no rows.
    """
    first = frame.sparkSession.range(1).select(F.lit(0).alias(BUCKET)).groupBy(BUCKET) if wake else None
    processor = Bucketed(machine, [name for name, _ in columns], clock)
    schema = ", ".join(f"`{name}` {kind}" for name, kind in columns)
    schema += f", {STATE} bigint"
    found = frame.groupBy(BUCKET).transformWithState(processor, schema, "append", "eventTime", first)
    found = counts.observe(found, STATE_KIND, node, grown=F.sum(STATE))
    return found.filter(F.col(STATE).isNull()).drop(STATE)


def bucket_of(keys: Iterable[tuple[Column, Type]], frame: DataFrame) -> Column:
    """The bucket of the rows of a frame with equal keys, of which the types are known: as many as it has partitions."""
    buckets = int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    # Both zeros are one key.
    hashed = [key + F.lit(0.0) if kind is Type.FLOAT else key for key, kind in keys]
    return (F.pmod(F.hash(*hashed), F.lit(buckets)) if hashed else F.lit(0)).alias(BUCKET)
