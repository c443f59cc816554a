"""Aggregation by epochs where an aggregate is Python: the groups of several open windows in the blob of a bucket.

One operator of the lowering (`lower`), for what `group` cannot give to Spark's own aggregation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lowwater.catalog.expr import Type
from lowwater.high.accumulate import Accumulators, arguments
from lowwater.high.buckets import bucket_of, bucketed
from lowwater.high.clock import ET, LAST, EventClock
from lowwater.high.columns import event_time
from lowwater.high.expressions import SPARK_TYPES, lower, plain
from lowwater.high.order import ORDER, of_packets
from lowwater.high.temporal import group_end
from lowwater.plan.nodes import Aggregation, Group, Item
from lowwater.plan.ordering import order_dependent

if TYPE_CHECKING:
    from lowwater.high.frames import Counts

AT_LAST, AT_ORDER, AT_END, AT_KEYS = 2, 3, 4, 5
"""Places in the rows of a machine; before them the bucket and the event time, after them keys, then arguments."""

_NAN = "NaN"
"""Stands for NaN in the keys of groups, since NaN is unequal to itself."""


def lower_python_group(node: Group, frame: DataFrame, clock: EventClock, counts: Counts) -> DataFrame:
    """GROUP BY with the values of the aggregates, `_last`, the event time and the number of `_rows` of each group."""
    accumulators = Accumulators(node.query, node.aggregates)
    packets = of_packets(node.input, node.query)
    machine = GroupMachine(accumulators, _kinds(node.keys), order_dependent(node), packets)
    found = bucketed(node, machine_rows(node, frame), machine, results(node), clock, counts)
    return found.withColumn(ET, event_time(clock, F.col(LAST)))


def machine_rows(node: Aggregation, frame: DataFrame, one_bucket: bool = False) -> DataFrame:
    """The rows of an aggregation as its machine reads them."""
    keys = [lower(item.expr).alias(item.name) for item in node.keys]
    given = [expr for aggregate in node.aggregates for expr in arguments(aggregate)]
    values = [lower(expr).alias(f"_argument{i}") for i, expr in enumerate(given)]
    order = plain(ORDER) if ORDER in frame.columns else F.lit(None).cast("struct<_1: bigint>").alias(ORDER)
    frame = frame.select(ET, LAST, order, *keys, *values)
    bucket = bucket_of([] if one_bucket else [(plain(item.name), item.expr.type) for item in node.keys], frame)
    named = [plain(name) for name in frame.columns[3:]]
    return frame.select(bucket, ET, LAST, ORDER, group_end(node.key_fields).alias("_end"), *named)


def results(node: Aggregation) -> list[tuple[str, str]]:
    """The columns of finished groups: keys, aggregates, `_last`, `_rows`."""
    columns = [*((item.name, item.expr.type) for item in node.keys), *((a.name, a.type) for a in node.aggregates)]
    return [*((name, SPARK_TYPES[kind]) for name, kind in columns), (LAST, "bigint"), ("_rows", "bigint")]


def _kinds(keys: Sequence[Item]) -> tuple[Type, ...]:
    return tuple(item.expr.type for item in keys)


@dataclass(frozen=True)
class GroupMachine:
    """Groups until they are final. State: groups by key, as [end, rows, states], and the rows that wait.

    Attributes:
        accumulators: of the aggregates.
        kinds: types of the keys.
        ordered: whether rows wait, so that a group sees them in canonical order (O1).
        packets: whether the order of rows is that of their timestamps, so that they wait only for the promise; rows of
            queries wait until their group is final.
    """

    accumulators: Accumulators
    kinds: tuple[Type, ...]
    ordered: bool
    packets: bool

    def begin(self) -> Any:
        """No groups."""
        return {}, []

    def take(self, state: Any, rows: Iterable[tuple[Any, ...]]) -> None:
        """Absorbs rows, or keeps them until their turn."""
        groups, waiting = state
        if self.ordered:
            waiting.extend(kept_row(row) for row in rows)
        else:
            for row in rows:
                self._add(groups, row)

    def advance(self, state: Any, promise: int) -> Iterator[tuple[Any, ...]]:
        """The groups that are final: keys, values, end, rows."""
        groups, waiting = state
        until = AT_LAST if self.packets else AT_END
        for row in sorted((row for row in waiting if row[until] < promise), key=canonical):
            self._add(groups, row)
        waiting[:] = [row for row in waiting if row[until] >= promise]
        for key in [key for key, (end, _, _) in groups.items() if end < promise]:
            end, rows, states = groups.pop(key)
            yield (*shown(key, self.kinds), *self.accumulators.results(states), end, rows)

    def _add(self, groups: dict[tuple[Any, ...], list[Any]], row: tuple[Any, ...]) -> None:
        first = AT_KEYS + len(self.kinds)
        key = hashable(row[AT_KEYS:first], self.kinds)
        group = groups.get(key)
        if group is None:
            group = groups[key] = [row[AT_END], 0, self.accumulators.begin()]
        group[1] += 1
        self.accumulators.add(group[2], row[first:])


def kept_row(row: Sequence[Any]) -> tuple[Any, ...]:
    """A row as it is kept as state: its order, a dict of Spark, as a tuple; no event time, which `_last` tells."""
    order = row[AT_ORDER]
    return (row[0], None, row[AT_LAST], tuple(order.values()) if order else (), *row[AT_ORDER + 1 :])


def canonical(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """The place of a row in canonical order, NULL before all values."""
    return tuple([(value is not None, value) for value in row[AT_ORDER]])


def hashable(values: Sequence[Any], kinds: Sequence[Type]) -> tuple[Any, ...]:
    """Keys of a group as a key of a dict: both zeros are one, and so are all NaN."""
    if Type.FLOAT not in kinds:
        return tuple(values)
    return tuple([_NAN if value != value else value for value in values])


def shown(key: tuple[Any, ...], kinds: Sequence[Type]) -> tuple[Any, ...]:
    """The keys that `hashable` made a key of a dict."""
    if Type.FLOAT not in kinds:
        return key
    pairs = zip(key, kinds, strict=True)
    return tuple([float(_NAN) if kind is Type.FLOAT and value == _NAN else value for value, kind in pairs])
