"""Aggregation by epochs over the rows of a slice with an aggregate in Python: row by row.

The counterpart of `group` for aggregates that Arrow does not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa

from lowwater.catalog.streams import LAST, STREAM_TYPES
from lowwater.errors import LowwaterError
from lowwater.high.slices.canonical_order import order_of, orders
from lowwater.high.slices.instants import group_end
from lowwater.high.slices.keys import codes, normal
from lowwater.high.slices.spill import divided
from lowwater.high.slices.values import Frame
from lowwater.plan.operators import Aggregate, Group
from lowwater.plan.phases import ROWS
from lowwater.stream.aggregates import Accumulator, Aggregates
from lowwater.stream.values import Value


def grouped_in_python(node: Group, blocks: Iterable[Frame], slice_: tuple[int, int], folder: Path) -> Iterator[Frame]:
    """Yields the groups in the form of `group.grouped`.

    Rows of a group before the slice may be missing. If its aggregates fail, no error is raised: the slice that owns the
    group raises it.

    Args:
        node: operator of the aggregation.
        blocks: blocks of rows that its predicate admits.
        slice_: groups with `_last` (ns) in [first, second) are complete.
        folder: folder for spilled rows; the caller removes it.

    Raises:
        ValueOverflowError: the sum of a complete group does not fit 64 bits (SEMANTICS O3).
        LowwaterError: the Python of a user fails.
    """
    aggregates = Aggregates(node.query, node.aggregates, [f.name for f in node.input.fields], node.items)
    names = [item.name for item in node.keys]
    for frame in divided(folder, (_columns(node, frame) for frame in blocks), names):
        keys = [frame[name] for name in names]
        numbers, _ = codes(keys, frame.rows)
        _, first, places, sizes = np.unique(numbers, return_index=True, return_inverse=True, return_counts=True)
        first_rows = Frame({name: frame[name] for name in names}, frame.rows).take(first)
        ends = group_end(node.key_fields, [first_rows[name] for name in names], first_rows.rows)
        groups = [aggregates.fresh() for _ in range(first_rows.rows)]
        argument_rows = [_arguments(aggregate, frame) for aggregate in node.aggregates]
        for place, order, *arguments in zip(places.tolist(), _orders(node, frame), *argument_rows, strict=True):
            aggregates.add(groups[place], arguments, order)
        inside = (ends >= slice_[0]) & (ends < slice_[1])
        values = [
            _results(aggregates, group, is_whole) for group, is_whole in zip(groups, inside.tolist(), strict=True)
        ]
        columns = first_rows.columns | {LAST: pa.array(ends), ROWS.suffix: pa.array(sizes)}
        for at, aggregate in enumerate(node.aggregates):
            columns[aggregate.name] = pa.array([value[at] for value in values], STREAM_TYPES[aggregate.type])
        yield Frame(columns, first_rows.rows)


def _columns(node: Group, frame: Frame) -> Frame:
    """The columns of keys and arguments, and of the order of rows if an aggregate depends on it."""
    columns = {item.name: normal(frame.of_expr(item.expr)) for item in node.keys}
    for aggregate in node.aggregates:
        for at, expr in enumerate(aggregate.taken):
            columns[f"{aggregate.name}#{at}"] = frame.of_expr(expr)
    if node.order_dependent:
        columns |= {name: frame[name] for name in order_of(frame)}
    return Frame(columns, frame.rows)


def _arguments(aggregate: Aggregate, frame: Frame) -> Iterable[tuple[Value, ...]]:
    argument_columns = [frame[f"{aggregate.name}#{at}"].to_pylist() for at in range(len(aggregate.taken))]
    return zip(*argument_columns, strict=True) if argument_columns else [()] * frame.rows


def _orders(node: Group, frame: Frame) -> Iterable[tuple[Value, ...]]:
    return orders(frame) if node.order_dependent else [()] * frame.rows


def _results(aggregates: Aggregates, group: Sequence[Accumulator], is_whole: bool) -> Sequence[Value]:
    if is_whole:
        return list(aggregates.results(group))
    with suppress(LowwaterError):
        return list(aggregates.results(group))
    return [None] * len(group)
