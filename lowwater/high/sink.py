"""The sink of a Spark query: each micro-batch's rows and its punctuation as parquet files.

Between the lowering and `streams/`; the files have the fields of the plan node, then CONTROL.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lowwater.catalog.streams import CONTROL, PUNCTUATION, ROW
from lowwater.high.clock import LAST, TICK
from lowwater.high.expressions import plain
from lowwater.high.feeds import Replay
from lowwater.high.temporal import floor, long
from lowwater.high.timeline import Promise, Timeline
from lowwater.plan.nodes import Field
from lowwater.plan.schemas import stream_schema


@dataclass
class StreamFiles:
    """The files of one stream as they are written.

    Attributes:
        folder: that holds them.
        fields: of the stream.
        owned: rows with `_last` (ns) in [first, second) belong in it.
        closing: promise (ns) of the closing punctuation.
        files: as they were written; ticks say what comes before what (SEMANTICS P5).
        rows, punctuation: how many are in them.
    """

    folder: Path
    fields: Sequence[Field]
    owned: tuple[int, int]
    closing: int
    files: list[str] = field(default_factory=list)
    rows: int = 0
    punctuation: int = 0

    def add(self, folder: Path, boundary: int, timeline: Timeline | None) -> None:
        """Takes in the parts that Spark wrote to a folder at a boundary (ns); each row gets its tick of a timeline."""
        for file in sorted(folder.glob("part-*.parquet")):
            rows = pq.read_metadata(file).num_rows
            if rows:
                self.files.append(str(file if timeline is None else _dated(file, boundary, timeline)))
                self.rows += rows

    def take(self, file: str, rows: int) -> None:
        """Takes in a file whose rows have their ticks."""
        self.files.append(file)
        self.rows += rows

    def close(self, tick: int, timeline: Timeline | None = None) -> None:
        """Writes the punctuation, of which the closing one comes at a tick (ns)."""
        made = [] if timeline is None else list(timeline.below(self.closing))
        made.append(Promise(tick, tick, 0, self.closing))
        schema = stream_schema(self.fields)
        lasts = [promise.last for promise in made]
        said = [[f.temporal.promise(last) if f.temporal else None for last in lasts] for f in self.fields]
        ticks, untils, periods = zip(*((each.first, each.until, each.period) for each in made), strict=True)
        values = [*said, lasts, [PUNCTUATION] * len(made), ticks, untils, periods]
        columns = [pa.array(value, column.type) for value, column in zip(values, schema, strict=True)]
        file = self.folder / "punctuation.parquet"
        pq.write_table(pa.Table.from_arrays(columns, schema=schema), file)
        self.files.append(str(file))
        self.punctuation = len(made)


def _dated(file: Path, boundary: int, timeline: Timeline) -> Path:
    """A file of rows at a boundary with the tick of each: the first that is promised, at the latest the boundary.

    Instead of a tick each row has the last instant that could change it.
    """
    finals = pq.read_table(file, columns=["_tick"]).column("_tick").to_numpy()
    ticks = pa.array(np.minimum(timeline.ticks(finals), boundary))
    if pc.all(pc.equal(ticks, pa.array(finals))).as_py():
        return file
    dated = file.with_name(f"dated-{file.name}")
    at = 0
    with pq.ParquetFile(file) as stored, pq.ParquetWriter(dated, stored.schema_arrow, compression="lz4") as writer:
        names = stored.schema_arrow.names
        for rows in stored.iter_batches():
            own = ticks.slice(at, rows.num_rows)
            for name in ("_tick", "_until"):
                place = names.index(name)
                rows = rows.set_column(place, stored.schema_arrow.field(place), own)
            writer.write_batch(rows)
            at += rows.num_rows
    file.unlink()
    return dated


def _ceiling(tick: Column, step: int) -> Column:
    """The first multiple of a step that is not before a tick."""
    return -floor(-tick, step) * long(step)


@dataclass
class BatchSink:
    """What Spark calls for each micro-batch of a query.

    Attributes:
        stream: that is written.
        checkpoint: of the query; its offsets tell the boundary of each batch.
        replay: of the query.
        timeline: of the query.
        step: the replay tick, ns, where rows wait for nothing and bring the ticks at which they came; else None.
    """

    stream: StreamFiles
    checkpoint: Path
    replay: Replay
    timeline: Timeline
    step: int | None

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Writes the owned rows of a micro-batch."""
        boundary = self._boundary(number)
        stream = self.stream
        first, end = stream.owned
        target = stream.folder / f"batch-{number:05d}"
        if self.step is not None:
            tick = F.least(_ceiling(plain(TICK), self.step), long(boundary))
        else:
            tick = plain(TICK if TICK in frame.columns else LAST)
        values = [plain(LAST), F.lit(ROW), tick, tick, long(0)]
        control = [value.alias(name) for value, name in zip(values, CONTROL.names, strict=True)]
        rows = frame.filter((plain(LAST) >= long(first)) & (plain(LAST) < long(end)))
        rows.select(*(plain(f.name) for f in stream.fields), *control).write.mode("overwrite").parquet(str(target))
        stream.add(target, boundary, self.timeline if self.step is None else None)

    def _boundary(self, number: int) -> int:
        """The boundary (ns) that a batch reaches."""
        lines = (self.checkpoint / "offsets" / str(number)).read_text().splitlines()
        played: int = min(json.loads(line)["logOffset"] for line in lines[2:])
        return self.replay.boundaries[played]
