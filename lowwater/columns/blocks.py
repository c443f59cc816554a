"""Rows that do not fit: blocks, keys as one number a row, and files by key for what exceeds the memory of a task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.ipc as ipc

from lowwater.capture.digests import row_digests
from lowwater.columns.values import Frame, concat_frames

# Equal keys have equal numbers, and NULL equals NULL.

Numbers = npt.NDArray[np.int64]


def codes(columns: Sequence[pa.Array], rows: int) -> tuple[Numbers, int]:
    """Encodes the key of each row as a number; also returns an upper limit of the numbers.

    Args:
        columns: key columns of equal length; empty if all rows are equal.
        rows: number of rows.
    """
    numbers, size = np.zeros(rows, np.int64), 1
    for column in columns:
        coded = normal(column).dictionary_encode()
        places = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64) + 1
        numbers, size = numbers * (len(coded.dictionary) + 1) + places, size * (len(coded.dictionary) + 1)
        if size > 1 << 31:  # the next column may have as many values again
            again = pa.array(numbers).dictionary_encode()
            numbers, size = again.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(again.dictionary)
    return numbers, size


def normal(column: pa.Array) -> pa.Array:
    """Makes equal values of a column equal in bits: one zero, one NaN."""
    if column.type != pa.float64():
        return column
    values = column.fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0
    return pa.array(np.where(np.isnan(values), np.nan, values), mask=column.is_null().to_numpy(zero_copy_only=False))


# An operator may make many rows from one.

BLOCK = 1 << 20
"""Largest number of rows of a block, unless a single row makes more."""


def repeated(counts: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
    """Repeats each row as often as its count, a block at a time.

    Yields:
        Positions of the rows, and the number of each repetition.

    Example:
        >>> [(places.tolist(), times.tolist()) for places, times in repeated(np.array([2, 0, 1]))]
        [([0, 0, 2], [0, 1, 0])]
    """
    upto = np.cumsum(counts)
    at = 0
    while at < len(upto):
        before = int(upto[at - 1]) if at else 0
        until = max(at + 1, int(np.searchsorted(upto, before + BLOCK, side="right")))
        row_counts = counts[at:until]
        places = np.repeat(np.arange(at, until), row_counts)
        yield places, np.arange(len(places)) - np.repeat(np.cumsum(row_counts) - row_counts, row_counts)
        at = until


def in_blocks(blocks: Iterable[Frame]) -> Iterator[Frame]:
    """Regroups rows into blocks of about BLOCK rows."""
    waiting: list[Frame] = []
    for frame in blocks:
        if frame.rows:
            waiting.append(frame)
        if sum(block.rows for block in waiting) >= BLOCK:
            yield concat_frames(waiting)
            waiting = []
    if waiting:
        yield concat_frames(waiting)


# All rows of a key are in one partition, so each partition is processed alone.

PARTS = 32
ROWS_IN_MEMORY = 1 << 22
"""Largest number of rows that an operator keeps in memory before it spills, where a part has no bound of its own."""
_ROW = 128
"""About the bytes that such a row takes."""


def rows_within(memory: int) -> int:
    """Returns the number of rows that an operator may keep in so many bytes; 0, for the usual number, without a bound.

    Example:
        >>> rows_within(512 << 20) == ROWS_IN_MEMORY, rows_within(0)
        (True, 0)
    """
    return max(1, memory // _ROW) if memory else 0


class Spill:
    """Rows in files, one file for each partition.

    Args:
        folder: folder for the files, created here; the caller removes it.
        nothing: frame for an empty partition; None leaves empty partitions out.
    """

    def __init__(self, folder: Path, nothing: Frame | None = None) -> None:
        folder.mkdir(parents=True)
        self._folder, self._nothing = folder, nothing
        self._files = ExitStack()
        self._writers: dict[int, ipc.RecordBatchFileWriter] = {}

    def add(self, frame: Frame, keys: Sequence[pa.Array]) -> None:
        """Adds rows, partitioned by their keys."""
        parts = row_digests([normal(key) for key in keys], frame.rows) % np.uint64(PARTS)
        order = np.argsort(parts, kind="stable")
        edges = np.searchsorted(parts[order], np.arange(PARTS + 1, dtype=np.uint64))
        for part in range(PARTS):
            rows = order[edges[part] : edges[part + 1]]
            if len(rows):
                batch = pa.record_batch(frame.take(rows).columns)
                self._writer(part, batch.schema).write_batch(batch)

    def _writer(self, part: int, schema: pa.Schema) -> ipc.RecordBatchFileWriter:
        if part not in self._writers:
            options = ipc.IpcWriteOptions(compression="lz4")
            writer = ipc.new_file(str(self._folder / f"{part}.arrow"), schema, options=options)
            self._writers[part] = self._files.enter_context(writer)
        return self._writers[part]

    def parts(self) -> Iterator[Frame]:
        """Yields the rows of each partition."""
        self._files.close()
        for part in range(PARTS):
            if part in self._writers:
                with pa.OSFile(str(self._folder / f"{part}.arrow")) as source:
                    table = ipc.open_file(source).read_all()
                yield Frame.of(table)
            elif self._nothing is not None:
                yield self._nothing


def divided(folder: Path, frames: Iterator[Frame], keys: Sequence[str], most: int = 0) -> Iterator[Frame]:
    """Yields the same rows, so that all rows with the same key are in one frame.

    Up to `most` rows are one frame. More go to files by the hash of their key; each file is a frame.

    Args:
        folder: folder for files, created only for many rows; the caller removes it.
        frames: rows with the columns `keys`.
        keys: names of the key columns.
        most: number of rows; 0 for ROWS_IN_MEMORY.
    """
    most = most or ROWS_IN_MEMORY
    waiting: list[Frame] = []
    spill: Spill | None = None
    for frame in frames:
        if spill is None and sum(waiting_frame.rows for waiting_frame in waiting) + frame.rows > most:
            spill = Spill(folder)
            for waiting_frame in waiting:
                spill.add(waiting_frame, [waiting_frame[name] for name in keys])
            waiting = []
        if spill is None:
            waiting.append(frame)
        else:
            spill.add(frame, [frame[name] for name in keys])
    if spill is not None:
        yield from spill.parts()
    elif waiting:
        yield concat_frames(waiting)
