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
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from lowwater.catalog.streams import ROW
from lowwater.high.clock import ET, LAST, SLACK_MS, TICK, EventClock
from lowwater.high.expressions import SPARK_TYPES
from lowwater.plan.nodes import Field
from lowwater.plan.schemas import value_schema

ET_TYPE = pa.timestamp("us", tz="UTC")
PLACE = "_place"
"""Column of the place of a row: the number of its link in the query, and below LINK_BITS its number in the link's
stream."""
LINK_BITS = 40


@dataclass(frozen=True)
class Chunk:
    """A row group with data rows.

    Attributes:
        file: that holds it, as number `group`.
        first, last: least and greatest `_tick` of its data rows.
        place: of its first row.
        number: column with what a row's place is behind that; empty where it is its number in the row group.
    """

    file: str
    group: int
    first: int
    last: int
    place: int
    number: str = ""

    def rows(self, names: list[str], after: int, upto: int) -> pa.Table:
        """The data rows with `_tick` in (after, upto]."""
        with pq.ParquetFile(self.file) as stored:
            stored_names = [name for name in names if name not in (PLACE, TICK)]
            more = [self.number] if self.number and PLACE in names else []
            table = stored.read_row_group(self.group, columns=[*dict.fromkeys([*stored_names, *more, "_kind", TICK])])
        if PLACE in names:
            numbers = table[self.number] if self.number else pa.array(np.arange(table.num_rows))
            table = table.append_column(PLACE, pc.add(numbers, self.place))
        keep = pc.equal(table["_kind"], ROW)
        if self.first <= after or self.last > upto:
            tick = table[TICK]
            keep = pc.and_(keep, pc.and_(pc.greater(tick, after), pc.less_equal(tick, upto)))
        return table.select(names).filter(keep)


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
