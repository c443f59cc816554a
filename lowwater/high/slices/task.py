"""One slice of a query as a task: rows of LFTAs in, a file of rows out. It runs wherever a runner takes it.

Between `high.run` and the evaluation.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lowwater.catalog.streams import CONTROL, ROW
from lowwater.high.chunk import Chunk
from lowwater.high.clock import LAST, TICK
from lowwater.high.slices.choice import Slice
from lowwater.high.slices.evaluate import Counts, Evaluation, gathered, owned
from lowwater.high.slices.join import LINK
from lowwater.high.slices.values import Frame
from lowwater.high.timeline import Timeline
from lowwater.plan.nodes import Field, Node
from lowwater.plan.schemas import stream_schema


@dataclass(frozen=True)
class Stored:
    """What is stored of one LFTA.

    Attributes:
        fields: of its rows.
        chunks: row groups by the number of their link.
        linked: whether rows bring that number.
    """

    fields: Sequence[Field]
    chunks: Sequence[tuple[int, Chunk]]
    linked: bool = False


@dataclass(frozen=True)
class SliceTask:
    """What a slice is evaluated by.

    Attributes:
        node: the plan of the query; `slice_` the part of its time.
        stored: rows of each LFTA, by its name.
        lists: rows of each watch list, by its file and columns.
        file: for the rows out.
        owned: rows with `_last` (ns) in [first, second) belong in it.
        timeline: of the query; it gives rows that waited their ticks.
        step: the replay tick, ns, where rows wait for nothing and bring the ticks at which they came; else None.
        closing: last tick (ns) of the replay.
    """

    node: Node
    slice_: Slice
    stored: Mapping[str, Stored]
    lists: Mapping[tuple[str, tuple[Field, ...]], pa.Table]
    file: Path
    owned: tuple[int, int]
    timeline: Timeline
    step: int | None
    closing: int


@dataclass
class SliceOutcome:
    """What a slice leaves.

    Attributes:
        file: of its rows; none where it has no row.
        rows: how many are in it; `read` how many rows of LFTAs were read.
        points: counts of the operators, as `Counts.points`.
    """

    file: str = ""
    rows: int = 0
    read: int = 0
    points: list[tuple[str, str, Counter[str]]] = field(default_factory=list)


def run_slice(task: SliceTask) -> SliceOutcome:
    """Evaluates a slice and writes its rows.

    Raises:
        ValueOverflowError: if an integer sum does not fit 64 bits.
        LowwaterError: if the Python of a user fails.
    """
    outcome = SliceOutcome()

    def leaf(name: str) -> Callable[[], Iterator[Frame]]:
        def frames() -> Iterator[Frame]:
            for frame in gathered(_rows(task, name)):
                outcome.read += frame.rows
                yield frame

        return frames

    counts = Counts((task.slice_.start, task.slice_.end))
    lists = {name: Frame.of(table) for name, table in task.lists.items()}
    folder = task.file.with_suffix(".spill")
    evaluation = Evaluation({name: leaf(name) for name in task.stored}, lists, counts, folder)
    first = max(task.owned[0], task.slice_.start)
    end = min(task.owned[1], task.slice_.end)
    schema = stream_schema(task.node.fields)
    writer: pq.ParquetWriter | None = None
    try:
        for frame in evaluation.rows(task.node):
            frame = owned(frame, first, end)
            if frame.rows:
                writer = writer or pq.ParquetWriter(task.file, schema, compression="lz4")
                writer.write_table(_dated(task, frame, schema))
                outcome.rows += frame.rows
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if writer is not None:
            writer.close()
            outcome.file = str(task.file)
    outcome.points = counts.points
    return outcome


def _rows(task: SliceTask, name: str) -> Iterator[Frame]:
    stored, slice_ = task.stored[name], task.slice_
    names = [f.name for f in stored.fields] + [LAST] + ([TICK] if task.step is not None else [])
    for link, chunk in stored.chunks:
        if chunk.low < slice_.end and chunk.high >= slice_.reads[name]:
            frame = Frame.of(chunk.ending(names, slice_.reads[name], slice_.end))
            if stored.linked:
                frame.columns[LINK] = pa.repeat(pa.scalar(link, pa.int64()), frame.rows)
            yield frame


def _dated(task: SliceTask, frame: Frame, schema: pa.Schema) -> pa.Table:
    lasts = frame[LAST].to_numpy(zero_copy_only=False)
    if task.step is None:
        ticks = task.timeline.ticks(lasts)
    else:
        ticks = -(-frame[TICK].to_numpy(zero_copy_only=False) // task.step) * task.step
    control = {
        LAST: frame[LAST],
        "_kind": pa.repeat(pa.scalar(ROW), frame.rows),
        TICK: pa.array(np.minimum(ticks, task.closing)),
        "_period": pa.repeat(pa.scalar(0, pa.int64()), frame.rows),
    }
    control["_until"] = control[TICK]
    values = [frame[f.name] for f in task.node.fields] + [control[name] for name in CONTROL.names]
    return pa.Table.from_arrays(values, schema=schema)
