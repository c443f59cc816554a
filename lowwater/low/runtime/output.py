"""Turns rows and promises into Arrow batches, in the stream form of `catalog.streams`.

The last step of `low`: `lfta/<node>/` holds these batches as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from lowwater.catalog.streams import PUNCTUATION, ROW
from lowwater.low.arrays import Int64Array
from lowwater.low.runtime.heartbeat import PunctuationRun
from lowwater.plan.operators import Lfta
from lowwater.plan.properties.schemas import stream_schema

_MIN_ROWS_TO_SLICE = 64
"""With fewer rows per punctuation, one copy puts rows and punctuations in order; else slices do."""


@lru_cache(maxsize=8)
def _constants(rows: int) -> tuple[pa.Array, pa.Array]:
    """Returns the columns `_kind` and `_period` of rows, which all batches share."""
    return pa.repeat(pa.scalar(ROW), rows), pa.array(np.zeros(rows, np.int64))


def rows_batch(lfta: Lfta, columns: Sequence[pa.Array], clocks: Int64Array, lasts: Int64Array) -> pa.RecordBatch:
    """Returns rows of an LFTA as a stream batch, without a copy.

    Args:
        lfta: the LFTA.
        columns: the columns of its operator; the batch then owns their buffers.
        clocks: shape (rows), the tick of each row, ns.
        lasts: shape (rows), `_last` of each row, ns.
    """
    size = len(clocks)
    kind, period = (array.slice(0, size) for array in _constants(1 << max(size - 1, 0).bit_length()))
    ticks = _int64_array(clocks)
    control = [_int64_array(lasts), kind, ticks, ticks, period]
    return pa.record_batch([*columns, *control], schema=stream_schema(lfta.fields))


def _int64_array(values: Int64Array) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])


def punctuation_batch(lfta: Lfta, punctuations: list[PunctuationRun], period: int) -> pa.RecordBatch:
    """Returns punctuations as a stream batch: promised columns have values, the others are NULL (P5).

    Args:
        lfta: the LFTA.
        punctuations: the punctuations, in order.
        period: time between ticks, ns.
    """
    schema = stream_schema(lfta.fields)
    promised = [lfta.promises(punctuation.promise) for punctuation in punctuations]
    columns = [[row[at] for row in promised] for at in range(len(lfta.fields))]
    columns.append([punctuation.promise for punctuation in punctuations])
    control = [
        pa.repeat(pa.scalar(PUNCTUATION), len(punctuations)),
        pa.array([punctuation.tick for punctuation in punctuations], pa.int64()),
        pa.array([punctuation.until for punctuation in punctuations], pa.int64()),
        pa.array([period if punctuation.until > punctuation.tick else 0 for punctuation in punctuations], pa.int64()),
    ]
    values = [pa.array(column, schema.field(at).type) for at, column in enumerate(columns)]
    return pa.record_batch([*values, *control], schema=schema)


def in_order(rows: pa.RecordBatch, punctuations: pa.RecordBatch, before: list[int]) -> Iterator[pa.RecordBatch]:
    """Yields batches in order of emission.

    Args:
        rows: the rows.
        punctuations: the punctuations.
        before: for each punctuation, the number of rows that precede it.
    """
    if len(before) * _MIN_ROWS_TO_SLICE > len(rows):
        yield _interleave(rows, punctuations, before)
        return
    begin = 0
    for k, end in enumerate(before):
        if end > begin:
            yield rows.slice(begin, end - begin)
        yield punctuations.slice(k, 1)
        begin = end
    if begin < len(rows):
        yield rows.slice(begin)


def _interleave(rows: pa.RecordBatch, punctuations: pa.RecordBatch, before: list[int]) -> pa.RecordBatch:
    if len(rows) == 0:
        return punctuations
    places = np.array(before, np.int64)
    order = np.empty(len(rows) + len(places), np.int64)
    row = np.arange(len(rows))
    order[row + np.searchsorted(places, row, side="right")] = row
    order[places + np.arange(len(places))] = len(rows) + np.arange(len(places))
    unordered = pa.Table.from_batches([rows, punctuations]).combine_chunks().to_batches()[0]
    return unordered.take(pa.array(order))
