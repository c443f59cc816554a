"""PySpark Structured Streaming, by hand: `python -m benchmarks.peers.spark_stream QUERY PACKETS OUT`.

A file source a link, a watermark of two seconds, windows, append mode, all files, then the end. Append mode never emits
a window that no watermark passes: the last epochs are missing from the rows. Each micro-batch takes one file of each
link, in the order of time; the watermark is the least of the links.
"""

from __future__ import annotations

import os
import sys
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, functions

from benchmarks.peers.session import session
from benchmarks.subjects import SUBJECTS


def main(name: str, packets: Path, out: Path) -> None:
    """Runs a query without a join and writes its rows."""
    subject = SUBJECTS[name]
    scratch = out.parent
    spark = session("peer", scratch, os.cpu_count() or 1)
    schema = spark.read.parquet(str(packets)).drop("link", "hour").schema

    def link(folder: Path) -> DataFrame:
        # The source reads by modification time, which files of one ingest share; their names are in the order of time.
        for number, file in enumerate(sorted(folder.rglob("*.parquet"))):
            os.utime(file, (1_000_000 + number, 1_000_000 + number))
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).option("recursiveFileLookup", "true")
        return (
            reader.parquet(str(folder))
            .where("ipversion IS NOT NULL")
            .select(functions.expr("timestamp_micros(timestamp div 1000)").alias("at"), *subject.keys)
            .withWatermark("at", "2 seconds")
        )

    links = [link(folder) for folder in sorted(packets.glob("link=*"))]
    window = functions.window("at", f"{subject.epoch} seconds")
    groups = reduce(DataFrame.unionAll, links).groupBy(window, *subject.keys)
    writer = groups.agg(functions.count("*").alias("cnt")).writeStream.format("parquet").outputMode("append")
    writer = writer.option("checkpointLocation", str(scratch / "checkpoint")).option("path", str(out))
    writer.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
