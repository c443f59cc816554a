"""Collects the files of a query's stream: rows written by slices, and a file of punctuation.

They become the files of `streams/`. Columns are the fields of the plan node, then CONTROL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

import pyarrow as pa
import pyarrow.parquet as pq

from lowwater.catalog.streams import CONTROL, PUNCTUATION
from lowwater.columns.files import file_schema
from lowwater.high.timeline import Promise, Timeline
from lowwater.plan.operators import Field
from lowwater.storage import paths


@dataclass
class StreamFiles:
    """The files of one stream.

    Attributes:
        folder: folder of the files: of this machine, or of the lake for readers on other machines.
        fields: the fields of the stream.
        owned: rows with `_last` (ns) in [first, second) belong to the stream.
        closing: promise of the closing punctuation, ns.
        published: whether rows are written in published types, a file for each hour, instead of stream types.
        files: paths in the order of writing; ticks define the order of rows (SEMANTICS P5).
        rows, punctuation: number of rows of each kind.
    """

    folder: PurePath
    fields: Sequence[Field]
    owned: tuple[int, int]
    closing: int
    published: bool = False
    files: list[str] = field(default_factory=list)
    rows: int = 0
    punctuation: int = 0

    @property
    def schema(self) -> pa.Schema:
        """The schema of the files."""
        return file_schema(self.fields, self.published)

    def take(self, file: str, rows: int) -> None:
        """Adds a file of rows."""
        self.files.append(file)
        self.rows += rows

    def close(self, tick: int, timeline: Timeline | None = None) -> None:
        """Writes the punctuation; the closing one has the tick given (ns)."""
        promises = [] if timeline is None else list(timeline.below(self.closing))
        promises.append(Promise(tick, tick, 0, self.closing))
        schema = self.schema
        lasts = [promise.last for promise in promises]
        temporal_columns = [[f.temporal.promise(last) if f.temporal else None for last in lasts] for f in self.fields]
        ticks, untils, periods = zip(
            *((promise.first, promise.until, promise.period) for promise in promises), strict=True
        )
        instants = [[None] * len(lasts)] * (len(schema) - len(self.fields) - len(CONTROL))
        values = [*temporal_columns, *instants, lasts, [PUNCTUATION] * len(promises), ticks, untils, periods]
        columns = [pa.array(value, column.type) for value, column in zip(values, schema, strict=True)]
        file = self.folder / "punctuation.parquet"
        pq.write_table(pa.Table.from_arrays(columns, schema=schema), paths.draft(file))
        paths.place(file)
        self.files.append(str(file))
        self.punctuation = len(promises)
