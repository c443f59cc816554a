"""Record spans: judged records of a piece of a capture, divided by interface and decoded.

`sanity` makes them; the reader and `formats.division.read_chunk` decode them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.capture.content.retention import ContentBuilder
from lowwater.capture.formats import classic
from lowwater.capture.headers.batches import Memory, decode_batch
from lowwater.capture.records.facts import Interface


@dataclass(frozen=True)
class RecordSpan:
    """Judged records from a piece of the file without damage.

    Attributes:
        buffer: the bytes of the records.
        records: shape (classic.ROWS, n), as `scan` fills it; n is at least 1.
        sane: indices of the sane records, ascending.
        position: number of the first record in the capture.
        begin: offset of the first record in the file.
        end: offset behind the last record.
        after_damage: whether damage lies between the span before and this one.
    """

    buffer: NDArray[np.uint8]
    records: NDArray[np.int64]
    sane: NDArray[np.int64]
    position: int
    begin: int
    end: int
    after_damage: bool


def split_by_interface(span: RecordSpan, interfaces: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yields, for every interface with sane records, its number and the indices of its records."""
    if not len(span.sane):
        return
    if interfaces == 1:
        yield 0, span.sane
        return
    numbers = span.records[classic.INTERFACE][span.sane]
    ordered = np.argsort(numbers, kind="stable")
    present, begins = np.unique(numbers[ordered], return_index=True)
    for number, chosen in zip(present.tolist(), np.split(ordered, begins[1:]), strict=True):
        yield number, span.sane[chosen]


def select_records(span: RecordSpan, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns records by index (ascending, at least one); a view, not a copy, where they are the first ones."""
    first = chosen[-1] == len(chosen) - 1
    return span.records[:, : len(chosen)] if first else span.records[:, chosen]


def decode_span(
    span: RecordSpan,
    chosen: NDArray[np.int64],
    clock: int,
    interface: Interface,
    builder: ContentBuilder,
    memory: Memory | None = None,
) -> pa.RecordBatch:
    """Decodes some records of a span, and adds the content columns that the link stores.

    Args:
        span: the span.
        chosen: indices of sane records of one interface, ascending, at least one.
        clock: largest sane timestamp of the interface before these records, ns; -1 if there is none.
        interface: the interface of these records.
        builder: adds the content columns.
        memory: as in `decode_batch`.

    Returns:
        A batch of the builder's schema.
    """
    selected = select_records(span, chosen)
    link, positions = interface.link_number, chosen + span.position
    batch, _ = decode_batch(span.buffer, selected, positions, clock, link, memory, builder.shape)
    return builder.batch(span.buffer, selected[classic.OFFSET], batch, link)
