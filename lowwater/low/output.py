"""Words of rows and promises to Arrow: the stream form of `catalog.streams`.

The last step of `low`: what it builds is written to `lfta/<node>/` as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.catalog.expr import Type
from lowwater.catalog.streams import PUNCTUATION, ROW, STREAM_TYPES
from lowwater.low.heartbeat import Punctuation
from lowwater.low.kernel import Slot
from lowwater.plan.nodes import Lfta
from lowwater.plan.schemas import stream_schema

Words = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def addresses(family: Words, high: Words, low: Words, null: Flags) -> pa.Array:
    """Address values of `catalog.values` from their words: one byte of family, then 4 or 16 bytes."""
    short = (family == 4) & ~null
    if short.all():
        # The usual case, and every value is as long as the next.
        five = np.empty((len(family), 5), np.uint8)
        five[:, 0] = 4
        five[:, 1:] = low.astype(np.uint32).astype(">u4").view(np.uint8).reshape(-1, 4)
        even = np.arange(0, 5 * len(family) + 1, 5, dtype=np.int32)
        return pa.Array.from_buffers(pa.binary(), len(family), [None, pa.py_buffer(even), pa.py_buffer(five)])
    image = np.zeros((len(family), 17), np.uint8)
    image[:, 0] = family
    image[:, 1:9] = high.astype(">i8").view(np.uint8).reshape(-1, 8)
    image[:, 9:] = low.astype(">i8").view(np.uint8).reshape(-1, 8)
    image[short, 1:5] = image[short, 13:]
    length = np.where(null, 0, np.where(short, 5, 17))
    data = np.ascontiguousarray(image[np.arange(17) < length[:, None]])
    offsets = np.zeros(len(family) + 1, np.int32)
    np.cumsum(length, out=offsets[1:])
    valid = pa.array(~null).buffers()[1] if null.any() else None
    return pa.Array.from_buffers(pa.binary(), len(family), [valid, pa.py_buffer(offsets), pa.py_buffer(data)])


def column(rows: Words, slot: Slot, texts: Sequence[str]) -> pa.Array:
    """One output column of rows of words; `texts` are those that the numbers in them stand for."""
    if slot.type is Type.STRING and not slot.at:
        return pa.repeat(pa.scalar(slot.constant, pa.string()), len(rows))
    null = rows[:, slot.mask] & (1 << slot.bit) != 0
    if slot.mask:
        null = ~null  # the mask of partials says which have seen a value
    if slot.type is Type.IP:
        family, high, low = (np.ascontiguousarray(rows[:, slot.at + k]) for k in range(3))
        return addresses(family, high, low, null)
    if slot.type is Type.STRING:
        found = [None if none else texts[code] for code, none in zip(rows[:, slot.at].tolist(), null, strict=True)]
        return pa.array(found, STREAM_TYPES[slot.type])
    values: npt.NDArray[np.generic] = np.ascontiguousarray(rows[:, slot.at])
    if slot.type is Type.FLOAT:
        values = values.view(np.float64)
    elif slot.type is Type.BOOL:
        values = values != 0
    return pa.array(values, STREAM_TYPES[slot.type], mask=null if null.any() else None)


def rows_batch(
    lfta: Lfta, slots: tuple[Slot, ...], rows: Words, lasts: Words, ticks: Words, texts: Sequence[str]
) -> pa.RecordBatch:
    """Rows of an LFTA as a stream batch.

    Args:
        lfta: the node.
        slots: where its output columns lie in the words.
        rows: [row, word].
        lasts: `_last` of each; `ticks` its `_tick`.
        texts: that the numbers in the words stand for.
    """
    kind = pa.repeat(pa.scalar(ROW), len(rows))
    control = [pa.array(lasts), kind, pa.array(ticks), pa.array(ticks), pa.array(np.zeros(len(rows), np.int64))]
    return pa.record_batch(
        [*(column(rows, slot, texts) for slot in slots), *control], schema=stream_schema(lfta.fields)
    )


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


def interleave(rows: pa.RecordBatch, punctuations: pa.RecordBatch, before: list[int]) -> pa.RecordBatch:
    """One batch in order of emission: punctuation k comes after `before[k]` rows."""
    places = np.array(before, np.int64)
    order = np.empty(len(rows) + len(places), np.int64)
    row = np.arange(len(rows))
    order[row + np.searchsorted(places, row, side="right")] = row
    order[places + np.arange(len(places))] = len(rows) + np.arange(len(places))
    whole = pa.Table.from_batches([rows, punctuations]).combine_chunks().to_batches()[0]
    return whole.take(pa.array(order))
