"""The replay source: a stored stream laid out as one small file a boundary, which Spark's file source plays in order.

Stands between the files of one LFTA instance, or of a part of a cut plan, and the lowering. Files and no Python data
source, because each of those costs a Python process of its own at the start of a query and a worker's round trip for
every row, and a query has a source for each alias and link.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from lowwater.high.chunk import PLACE, Chunk
from lowwater.high.clock import ET, LAST, SLACK_MS, TICK, EventClock
from lowwater.high.expressions import SPARK_TYPES
from lowwater.plan.nodes import Field
from lowwater.plan.schemas import value_schema

ET_TYPE = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class Reel:
    """One source of a query, laid out: file k holds what lies between boundary k-1 and boundary k.

    Attributes:
        folder: of the files.
        fields: that are replayed.
        promises: of the source at each boundary, ns.
        placed: whether rows bring their place; `dated` whether their tick.
    """

    folder: Path
    fields: Sequence[Field]
    promises: Sequence[int]
    placed: bool = False
    dated: bool = False

    def open(self, session: SparkSession) -> DataFrame:
        """The streaming DataFrame of the fields, the place and the tick if asked for, `_last`, event time.

        It plays one file a micro-batch.

        `prepare` of the trigger AvailableNow, offsets and restart are those of Spark's file source.
        """
        kinds = [(f.name, SPARK_TYPES[f.type]) for f in self.fields]
        kinds += [(name, "bigint") for name, asked in ((PLACE, self.placed), (TICK, self.dated)) if asked]
        kinds += [(LAST, "bigint"), (ET, "timestamp")]
        reader = session.readStream.schema(", ".join(f"`{name}` {kind}" for name, kind in kinds))
        return (
            reader.option("maxFilesPerTrigger", 1)
            .parquet(str(self.folder))
            .withWatermark(ET, f"{SLACK_MS} milliseconds")
        )


def lay_out(
    folder: Path,
    fields: Sequence[Field],
    chunks: Sequence[Chunk],
    boundaries: Sequence[int],
    promises: Sequence[int],
    clock: EventClock,
    placed: bool = False,
    dated: bool = False,
) -> Reel:
    """Writes the files of a source.

    Args:
        folder: of the files; made here.
        fields: that are replayed, in order.
        chunks: row groups that hold its data rows.
        boundaries: instants (ns); file k has the rows with `_tick` in (boundary k-1, boundary k].
        promises: of the source at each boundary (ns), sent by a row that has nothing but the watermark.
        clock: of the query.
        placed: whether rows bring their place; `dated` whether their tick.
    """
    more = [pa.field(name, pa.int64()) for name, asked in ((PLACE, placed), (TICK, dated)) if asked]
    schema = pa.schema([*value_schema(fields), *more, pa.field(LAST, pa.int64()), pa.field(ET, ET_TYPE)])
    folder.mkdir(parents=True)

    def write(number: int) -> None:
        after, upto = boundaries[number - 1] if number else -(1 << 63), boundaries[number]
        file = folder / f"{number:05d}.parquet"
        with pq.ParquetWriter(file, schema, compression="lz4", use_dictionary=False, write_statistics=False) as writer:
            for table in _between(chunks, schema, after, upto, clock):
                writer.write_table(table)
            writer.write_table(_mark(schema, clock.promise_ms(promises[number])))
        # Spark's file source plays files in the order of their modification times.
        os.utime(file, (1_000_000_000 + number, 1_000_000_000 + number))

    with ThreadPoolExecutor(max(1, min(len(boundaries), os.cpu_count() or 1))) as pool:
        list(pool.map(write, range(len(boundaries))))
    return Reel(folder, fields, promises, placed, dated)


def _between(
    chunks: Sequence[Chunk], schema: pa.Schema, after: int, upto: int, clock: EventClock
) -> Iterator[pa.Table]:
    for chunk in chunks:
        if chunk.first <= upto and chunk.last > after:
            table = chunk.rows(schema.names[:-1], after, upto)
            event = _instants(clock.row_ms(table[LAST].to_numpy()))
            yield table.append_column(ET, event).cast(schema)


def _mark(schema: pa.Schema, mark: int) -> pa.Table:
    event = _instants(np.array([mark + SLACK_MS], np.int64))
    nulls = [pa.nulls(1, field.type) for field in schema if field.name != ET]
    return pa.Table.from_arrays([*nulls, event], schema=schema)


def _instants(milliseconds: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array(milliseconds * 1000, pa.int64()).cast(ET_TYPE)
