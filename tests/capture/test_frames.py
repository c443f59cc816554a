"""The kept beginnings of frames and their payloads equal slices of the frames, row by row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from lowwater.capture.content.retention import EVERYTHING
from lowwater.capture.content.stored import UNKNOWN_HEADERS, frame_prefixes, payload_of

Row = tuple[bytes, int | None, int | None]
"""A frame, where its payload begins, how long the payload is on the wire."""

ROWS = st.lists(
    st.tuples(st.binary(max_size=60), st.none() | st.integers(0, 70), st.none() | st.integers(0, 70)), max_size=40
)
KEEP = st.just(EVERYTHING) | st.integers(0, 70)


def laid_out(rows: list[Row], gap: int = 16) -> tuple[NDArray[np.uint8], NDArray[np.int64], pa.RecordBatch]:
    """A buffer with the frames behind headers of `gap` bytes, their begins, and what was decoded of them."""
    buffer, begins = b"", []
    for frame, _, _ in rows:
        begins.append(len(buffer) + gap)
        buffer += b"\xee" * gap + frame
    batch = pa.record_batch(
        {
            "caplen": pa.array([len(frame) for frame, _, _ in rows], pa.int32()),
            "payload_offset": pa.array([offset for _, offset, _ in rows], pa.int32()),
            "payload_length": pa.array([length for _, _, length in rows], pa.int32()),
        }
    )
    return np.frombuffer(bytearray(buffer), np.uint8), np.array(begins, np.int64), batch


def prefix(row: Row, keep: int) -> bytes:
    frame, offset, _ = row
    return frame if keep == EVERYTHING else frame[: (UNKNOWN_HEADERS if offset is None else offset) + keep]


def payload(row: Row, keep: int) -> bytes | None:
    _, offset, length = row
    kept = prefix(row, keep)
    if offset is None:
        return None
    return kept[offset:] if length is None else kept[offset : offset + length]


@given(ROWS, KEEP)
def test_frames_and_payloads_are_slices(rows: list[Row], keep: int) -> None:
    buffer, begins, batch = laid_out(rows)
    frames = frame_prefixes(buffer, begins, batch, keep)
    frames.validate(full=True)
    assert frames.num_chunks == 1
    assert frames.to_pylist() == [prefix(row, keep) for row in rows]
    whole = batch.append_column("frame", frames.chunk(0))
    found = payload_of(whole)
    found.validate(full=True)
    assert found.to_pylist() == [payload(row, keep) for row in rows]


@given(ROWS, st.integers(0, 40), st.integers(0, 40))
def test_a_slice_of_a_batch_has_the_payloads_of_its_rows(rows: list[Row], first: int, count: int) -> None:
    buffer, begins, batch = laid_out(rows)
    whole = batch.append_column("frame", frame_prefixes(buffer, begins, batch, EVERYTHING).chunk(0))
    assert payload_of(whole.slice(first, count)) == payload_of(whole).slice(first, count)


@given(ROWS, KEEP, st.integers(1, 200))
def test_many_bytes_are_split_and_a_table_follows(rows: list[Row], keep: int, largest: int) -> None:
    buffer, begins, batch = laid_out(rows)
    frames = frame_prefixes(buffer, begins, batch, keep, largest)
    frames.validate(full=True)
    for chunk in frames.chunks:
        assert len(chunk) == 1 or sum(map(len, chunk.to_pylist())) <= largest
    table = pa.Table.from_batches([batch]).append_column("frame", frames)
    pieces = [value for piece in table.to_batches() for value in piece.column("frame").to_pylist()]
    assert pieces == [prefix(row, keep) for row in rows]
