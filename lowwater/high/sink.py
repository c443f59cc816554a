"""The sink of a Spark query: each micro-batch's rows and its punctuation as parquet files.

Between the lowering and `streams/`; the files have the fields of the plan node, then CONTROL.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lowwater.catalog.streams import CONTROL, PUNCTUATION, ROW
from lowwater.high.clock import LAST, EventClock
from lowwater.high.expressions import plain
from lowwater.high.temporal import long
from lowwater.plan.nodes import Field
from lowwater.plan.schemas import stream_schema
from lowwater.plan.temporal import END_OF_TIME


@dataclass
class StreamFiles:
    """The files of one stream as they are written.

    Attributes:
        folder: that holds them.
        fields: of the stream.
        owned: rows with `_last` (ns) in [first, second) belong in it.
        closing: promise (ns) of the closing punctuation.
        files: in order of `_tick`, rows before punctuation.
        rows, punctuation: how many are in them.
        promised: the last promise (ns).
    """

    folder: Path
    fields: Sequence[Field]
    owned: tuple[int, int]
    closing: int
    files: list[str] = field(default_factory=list)
    rows: int = 0
    punctuation: int = 0
    promised: int = -END_OF_TIME

    def add(self, folder: Path) -> None:
        """Takes in the parts that Spark wrote to a folder."""
        for file in sorted(folder.glob("part-*.parquet")):
            rows = pq.read_metadata(file).num_rows
            if rows:
                self.files.append(str(file))
                self.rows += rows

    def punctuate(self, promise: int, tick: int, file: Path) -> None:
        """Writes a punctuation row unless it says nothing new: no later row has `_last` below `promise` (ns)."""
        if promise <= self.promised:
            return
        schema = stream_schema(self.fields)
        said = [f.temporal.promise(promise) if f.temporal else None for f in self.fields]
        values = [*said, promise, PUNCTUATION, tick, tick, 0]
        columns = [pa.array([value], column.type) for value, column in zip(values, schema, strict=True)]
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_arrays(columns, schema=schema), file)
        self.files.append(str(file))
        self.promised = promise
        self.punctuation += 1

    def close(self, tick: int) -> None:
        """Writes the closing punctuation."""
        self.punctuate(self.closing, tick, self.folder / "closing.parquet")


@dataclass
class BatchSink:
    """What Spark calls for each micro-batch of a query.

    Attributes:
        stream: that is written.
        checkpoint: of the query; its offsets tell the watermark and the boundary of each batch.
        clock, boundaries: of the replay.
        lag: ms by which the promise trails the watermark.
    """

    stream: StreamFiles
    checkpoint: Path
    clock: EventClock
    boundaries: Sequence[int]
    lag: int

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Writes the owned rows of a micro-batch, then what the watermark that it ran under promises."""
        watermark, boundary = self._offsets(number)
        stream = self.stream
        first, end = stream.owned
        target = stream.folder / f"batch-{number:05d}"
        values = [plain(LAST), F.lit(ROW), long(boundary), long(boundary), long(0)]
        control = [value.alias(name) for value, name in zip(values, CONTROL.names, strict=True)]
        rows = frame.filter((plain(LAST) >= long(first)) & (plain(LAST) < long(end)))
        rows.select(*(plain(f.name) for f in stream.fields), *control).write.mode("overwrite").parquet(str(target))
        stream.add(target)
        promise = self.clock.promised(max(0, watermark - self.lag))
        if promise is not None and promise < stream.closing:
            stream.punctuate(promise, boundary, target / "punctuation.parquet")

    def _offsets(self, number: int) -> tuple[int, int]:
        """The watermark (ms) that a batch runs under, and the boundary (ns) that it reaches."""
        lines = (self.checkpoint / "offsets" / str(number)).read_text().splitlines()
        played = min(json.loads(line)["logOffset"] for line in lines[2:])
        return json.loads(lines[1])["batchWatermarkMs"], self.boundaries[played]
