"""Finds the rows of a stream that share their unique key, by a Spark query over its files.

The audit calls it. Keys may not fit into memory, so Spark groups them and spills to disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lowwater.catalog.expr import Type
from lowwater.catalog.streams import CONTROL, ROW, TABLE_TYPES
from lowwater.high.failures import translate
from lowwater.high.query_runs import run_session
from lowwater.plan.operators import Field
from lowwater.plan.properties.schemas import published_schema
from lowwater.storage.object_paths import ObjectPath
from lowwater.storage.paths import lake_path, local

SPARK_TYPES: dict[Type, str] = {
    Type.BOOL: "boolean",
    Type.INT: "bigint",
    Type.FLOAT: "double",
    Type.IP: "binary",
    Type.MAC: "bigint",
    Type.STRING: "string",
}
ARROW_TYPES = {
    "boolean": pa.bool_(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "binary": pa.binary(),
    "string": pa.string(),
}
"""Spark's name of a type -> the type in Arrow."""
CONTROL_TYPES = {name: "string" if name == "_kind" else "bigint" for name in CONTROL.names}


@dataclass(frozen=True)
class KeyedStream:
    """The stream of a query with a unique key.

    Attributes:
        files: the files of the interval, with the columns of `fields` and CONTROL: paths, or addresses in the lake
            where executors do not see the disk of the driver.
        fields: the fields of the query's plan node.
        key: columns whose values no two rows should share; NULL equals NULL.
    """

    files: Sequence[str]
    fields: Sequence[Field]
    key: Sequence[str]


@dataclass(frozen=True)
class SharedKeys:
    """The rows of a query whose key is not unique.

    Attributes:
        keys: number of keys with several rows.
        total: number of rows with such a key.
        rows: first of these rows in order of the key, with the control columns.
    """

    keys: int
    total: int
    rows: pa.Table


def plain(name: str) -> Column:
    """The column of a name that may contain dots."""
    return F.col(f"`{name}`")


def shared_keys(
    spark: SparkSession, streams: Mapping[str, KeyedStream], most: int, partitions: int
) -> dict[str, SharedKeys]:
    """Finds rows that share their unique key.

    Args:
        spark: the session.
        streams: query -> its stream with at least one file.
        most: number of rows to return for each query.
        partitions: number of shuffle partitions.

    Raises:
        LowwaterError: if a file cannot be read.
    """
    shared = {name: SharedKeys(0, 0, _row_schema(stream).empty_table()) for name, stream in streams.items()}
    if not streams:
        return shared
    session = run_session(spark, {"spark.sql.shuffle.partitions": str(partitions)})
    try:
        counts = [
            _several(_rows(session, stream), stream).agg(
                F.lit(name).alias("query"), F.count(F.lit(1)).alias("keys"), F.sum("_count").alias("total")
            )
            for name, stream in streams.items()
        ]
        for name, keys, total in reduce(DataFrame.unionAll, counts).collect():
            if keys:
                shared[name] = SharedKeys(keys, total, _first(session, streams[name], most))
    except PySparkException as error:
        raise translate(", ".join(streams), error) from error
    return shared


def _rows(session: SparkSession, stream: KeyedStream) -> DataFrame:
    kinds = [*((f.name, _published(f)) for f in stream.fields), *CONTROL_TYPES.items()]
    described = ", ".join(f"`{name}` {kind}" for name, kind in kinds)
    if isinstance(lake_path(stream.files[0]), ObjectPath):
        files = session.createDataFrame([(file,) for file in stream.files], "file string")
        schema = pa.schema([(name, ARROW_TYPES[kind]) for name, kind in kinds])
        stored = files.repartition(len(stream.files)).mapInArrow(partial(_stored, schema), described)
    else:
        stored = session.read.schema(described).parquet(*stream.files)
    return stored.filter(F.col("_kind") == ROW).select(*(plain(name) for name, _ in kinds))


def _stored(schema: pa.Schema, files: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Reads files of the lake on an executor."""
    for batch in files:
        for file in batch.column(0).to_pylist():
            with pq.ParquetFile(local(lake_path(file))) as stored:
                for rows in stored.iter_batches(columns=schema.names):
                    yield from pa.Table.from_batches([rows]).select(schema.names).cast(schema).to_batches()


def _published(field: Field) -> str:
    """Spark's type of a field in published form."""
    return SPARK_TYPES[Type.STRING if TABLE_TYPES[field.type] == TABLE_TYPES[Type.STRING] else field.type]


def _several(rows: DataFrame, stream: KeyedStream) -> DataFrame:
    counted = rows.groupBy(*(plain(name) for name in stream.key)).agg(F.count(F.lit(1)).alias("_count"))
    return counted.filter(F.col("_count") > 1)


def _first(session: SparkSession, stream: KeyedStream, most: int) -> pa.Table:
    rows = _rows(session, stream)
    keys = _several(rows, stream).select(*(plain(name).alias(f"_key{i}") for i, name in enumerate(stream.key)))
    same = reduce(lambda a, b: a & b, (plain(n).eqNullSafe(F.col(f"_key{i}")) for i, n in enumerate(stream.key)))
    chosen = rows.join(keys, same, "left_semi").orderBy(*(plain(name) for name in (*stream.key, "_last"))).limit(most)
    return chosen.toArrow().cast(_row_schema(stream))


def _row_schema(stream: KeyedStream) -> pa.Schema:
    """The columns of returned rows: those of the query in published types, then CONTROL."""
    return pa.schema([*published_schema(stream.fields), *CONTROL])
