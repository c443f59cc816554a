"""Streams the punctuation of a run through Spark to the end: a micro-batch for each file, or for each number.

The driver of slices calls it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lowwater.errors import LowwaterError
from lowwater.spark.failures import translate

LOOK = 5
"""Seconds after which it is looked whether a stream can still end."""

FIRST_MTIME = 1_000_000_000
"""Modification time (s) of the first file of a stream."""


def place(file: Path, number: int) -> None:
    """Gives a file its number in the stream: Spark's file source reads files in the order of modification times."""
    os.utime(file, (FIRST_MTIME + number, FIRST_MTIME + number))


def require_listening(query: str) -> None:
    """Checks that the JVM can still call this process, since a stream waits for that without an end.

    Raises:
        LowwaterError: if nobody listens any more.
    """
    server = SparkContext._gateway and SparkContext._gateway.get_callback_server()
    if server is not None and not server.thread.is_alive():
        raise LowwaterError(
            f"query {query}: its stream cannot go on: this process no longer hears the JVM of Spark",
            "run the command again; nothing of the interval is published",
        )


def play(query: str, name: str, frame: DataFrame, sink: Callable[[DataFrame, int], None], checkpoint: Path) -> None:
    """Streams all files and waits for the end.

    Args:
        query: name of the output query, for errors.
        name: name of the stream within the query.
        frame: streaming DataFrame.
        sink: called with each micro-batch and its number.
        checkpoint: folder for the checkpoint of Spark.

    Raises:
        LowwaterError: if Spark or the sink fails.
    """
    writer = frame.writeStream.foreachBatch(sink).trigger(availableNow=True).queryName(f"{query}:{name}")
    try:
        stream = writer.option("checkpointLocation", str(checkpoint)).start()
        while not stream.awaitTermination(LOOK):
            require_listening(query)
    except PySparkException as error:
        raise translate(query, error) from error


def count_up(
    query: str, name: str, session: SparkSession, count: int, sink: Callable[[DataFrame, int], None], checkpoint: Path
) -> None:
    """Streams the numbers from 0 on, one for each micro-batch, and waits for the last one.

    Args:
        query: name of the output query, for errors.
        name: name of the stream within the query.
        session: Spark session.
        count: number of micro-batches.
        sink: called with each micro-batch, which has one row with the column `value`, and its number.
        checkpoint: folder for the checkpoint of Spark.

    Raises:
        LowwaterError: if Spark or the sink fails.
    """
    last = threading.Event()

    def counted(frame: DataFrame, number: int) -> None:
        if not last.is_set():  # Spark goes on to count until the stream is stopped
            sink(frame, number)
            if number + 1 == count:
                last.set()

    numbers = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).option("numPartitions", 1)
    writer = numbers.load().writeStream.foreachBatch(counted).queryName(f"{query}:{name}")
    try:
        stream = writer.option("checkpointLocation", str(checkpoint)).start()
        looked = time.monotonic()
        while not last.wait(0.02) and stream.isActive:
            if time.monotonic() - looked > LOOK:
                looked = time.monotonic()
                require_listening(query)
        if not last.is_set():
            stream.awaitTermination()  # raises its error
        stream.stop()
    except PySparkException as error:
        raise translate(query, error) from error
