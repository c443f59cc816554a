"""Spills rows that exceed the memory of a task to files, partitioned by the digest of their key.

Operators of a slice that store rows use it. All rows of a key are in one partition, so each partition is processed
alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc

from lowwater.capture.digests import row_digests
from lowwater.high.slices.keys import normal
from lowwater.high.slices.values import Frame, concat_frames

PARTS = 32
ROWS_IN_MEMORY = 1 << 22
"""Largest number of rows that an operator keeps in memory before it spills."""


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


def divided(folder: Path, frames: Iterator[Frame], keys: Sequence[str]) -> Iterator[Frame]:
    """Yields the same rows, so that all rows with the same key are in one frame.

    Up to `ROWS_IN_MEMORY` rows are one frame. More go to files by the hash of their key; each file is a frame.

    Args:
        folder: folder for files, created only for many rows; the caller removes it.
        frames: rows with the columns `keys`.
        keys: names of the key columns.
    """
    waiting: list[Frame] = []
    spill: Spill | None = None
    for frame in frames:
        if spill is None and sum(waiting_frame.rows for waiting_frame in waiting) + frame.rows > ROWS_IN_MEMORY:
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
