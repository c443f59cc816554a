"""Rows and promises as Arrow: the stream form of `catalog.streams`.

The last step of `low`: what it builds is written to `lfta/<node>/` as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.catalog.streams import PUNCTUATION, ROW
from lowwater.low.runtime.heartbeat import Punctuation
from lowwater.plan.operators import Lfta
from lowwater.plan.properties.schemas import stream_schema

Words = npt.NDArray[np.int64]
_SPARSE = 64
"""With fewer rows to a punctuation they are put in order by a copy, else by slices."""


@lru_cache(maxsize=8)
def _constants(rows: int) -> tuple[pa.Array, pa.Array]:
    """`_kind` and `_period` of rows, shared by all batches."""
    return pa.repeat(pa.scalar(ROW), rows), pa.array(np.zeros(rows, np.int64))


def rows_batch(lfta: Lfta, columns: Sequence[pa.Array], clocks: Words, lasts: Words) -> pa.RecordBatch:
    """Rows of an LFTA as a stream batch, without a copy.

    Args:
        lfta: the node.
        columns: as its operator has them; their room is the batch's then.
        clocks: tick of each row.
        lasts: `_last` of each.
    """
    size = len(clocks)
    kind, period = (array.slice(0, size) for array in _constants(1 << max(size - 1, 0).bit_length()))
    ticks = _plain(clocks)
    control = [_plain(lasts), kind, ticks, ticks, period]
    return pa.record_batch([*columns, *control], schema=stream_schema(lfta.fields))


def _plain(values: Words) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])


def punctuation_batch(lfta: Lfta, made: list[Punctuation], period: int) -> pa.RecordBatch:
    """Punctuations as a stream batch: promised columns have their values, the others are NULL (P5)."""
    schema = stream_schema(lfta.fields)
    promised = [lfta.promises(one.promise) for one in made]
    columns = [[row[at] for row in promised] for at in range(len(lfta.fields))]
    columns.append([one.promise for one in made])
    control = [
        pa.repeat(pa.scalar(PUNCTUATION), len(made)),
        pa.array([one.tick for one in made], pa.int64()),
        pa.array([one.until for one in made], pa.int64()),
        pa.array([period if one.until > one.tick else 0 for one in made], pa.int64()),
    ]
    values = [pa.array(column, schema.field(at).type) for at, column in enumerate(columns)]
    return pa.record_batch([*values, *control], schema=schema)


def in_order(rows: pa.RecordBatch, punctuations: pa.RecordBatch, before: list[int]) -> Iterator[pa.RecordBatch]:
    """Batches in order of emission: punctuation k comes after `before[k]` rows."""
    if len(before) * _SPARSE > len(rows):
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
    whole = pa.Table.from_batches([rows, punctuations]).combine_chunks().to_batches()[0]
    return whole.take(pa.array(order))
