"""Stored bytes of frames, and the payloads in them.

It runs after decoding, for links that store bytes. Ranges of the buffer are copied into an Arrow binary column. Stored
are the first bytes of every frame, so that `export` can write them as a capture with a shorter snaplen.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.capture.headers.loads import big64, put_big64
from lowwater.capture.inlining import kernel

EVERYTHING = -1
"""Value of `keep` for whole frames."""

UNKNOWN_HEADERS = 64
"""Bytes taken for headers in a frame whose payload offset is unknown."""

_LARGEST = (1 << 31) - 1  # bytes of a binary array, whose offsets are 32 bits wide


@kernel
def _copy(source: Any, begins: Any, offsets: Any, target: Any) -> None:
    """Copies n ranges of `source`, which start at `begins`, to the places of `target` that `offsets` bound."""
    for row in range(len(begins)):
        begin, place = begins[row], offsets[row]
        length = offsets[row + 1] - place
        words = length & ~7
        for index in range(0, words, 8):
            put_big64(target, place + index, big64(source, begin + index))
        for index in range(words, length):
            target[place + index] = source[begin + index]


def frame_prefixes(
    buffer: NDArray[np.uint8], begins: NDArray[np.int64], batch: pa.RecordBatch, keep: int, largest: int = _LARGEST
) -> pa.ChunkedArray:
    """Copies the beginning of every frame: its headers and the first `keep` bytes of its payload.

    Args:
        buffer: the bytes of the frames.
        begins: shape (n), index of the frames in the buffer.
        batch: the decoded frames, n rows with `caplen` and `payload_offset`. If the offset is NULL (ARP, protocols
            without a decoder), UNKNOWN_HEADERS bytes count as headers.
        keep: bytes of the payload, or EVERYTHING.
        largest: most bytes of a chunk; a longer frame gets a chunk of its own.

    Returns:
        n values of type binary, in one chunk unless they have more than `largest` bytes. A table splits its other
        columns alike (`pa.Table.from_batches([batch]).append_column("frame", frames).to_batches()`).
    """
    lengths = batch.column("caplen").to_numpy().astype(np.int64)
    if keep != EVERYTHING:
        headers = _numbers(batch.column("payload_offset"), UNKNOWN_HEADERS)
        lengths = np.minimum(lengths, np.maximum(headers, 0) + keep)
    return _gather(buffer, begins, lengths, None, largest)


def payload_of(batch: pa.RecordBatch) -> pa.BinaryArray:
    """Returns the stored part of every payload.

    Args:
        batch: n rows with `frame`, `payload_offset` and `payload_length` (NULL: to the end of the frame).

    Returns:
        n values: NULL if the offset or the frame is NULL, empty if nothing of the payload is stored.
    """
    frames = batch.column("frame")
    _, offsets, data = frames.buffers()
    ends = np.zeros(1, np.int32) if offsets is None else np.frombuffer(offsets, np.int32)
    ends = ends[frames.offset : frames.offset + len(frames) + 1].astype(np.int64)
    place = _numbers(batch.column("payload_offset"), 0)
    begins = np.minimum(ends[:-1] + np.maximum(place, 0), ends[1:])
    lengths = np.minimum(ends[1:] - begins, np.maximum(_numbers(batch.column("payload_length"), _LARGEST), 0))
    absent = batch.column("payload_offset").is_null().to_numpy(False) | frames.is_null().to_numpy(False)
    lengths[absent] = 0
    source = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    # A payload is no longer than its frame, so the payloads fit into one array as the frames do.
    return _gather(source, begins, lengths, absent, _LARGEST).chunk(0)


def _numbers(column: pa.Array, missing: int) -> NDArray[np.int64]:
    """Returns a column of integers, with `missing` for NULL."""
    numbers: NDArray[np.int64] = column.fill_null(missing).to_numpy(False).astype(np.int64)
    return numbers


def _gather(
    source: NDArray[np.uint8],
    begins: NDArray[np.int64],
    lengths: NDArray[np.int64],
    absent: NDArray[np.bool_] | None,
    largest: int,
) -> pa.ChunkedArray:
    """Copies n ranges of `source` into binary chunks, at least one."""
    ends = np.cumsum(lengths)
    chunks: list[pa.Array] = []
    first, before = 0, 0
    while first < len(lengths) or not chunks:
        last = max(int(np.searchsorted(ends, before + largest, "right")), min(first + 1, len(lengths)))
        offsets = np.zeros(last - first + 1, np.int32)
        offsets[1:] = ends[first:last] - before
        target = pa.allocate_buffer(int(offsets[-1]))
        _copy(source, begins[first:last], offsets, np.frombuffer(target, np.uint8))
        valid = None
        if absent is not None and absent.any():
            valid = pa.py_buffer(np.packbits(~absent[first:last], bitorder="little"))
        chunks.append(pa.Array.from_buffers(pa.binary(), last - first, [valid, pa.py_buffer(offsets), target]))
        first, before = last, int(ends[last - 1]) if last else 0
    return pa.chunked_array(chunks, pa.binary())
