"""Streams files through Spark to the end, one micro-batch for each file.

The driver of slices streams its punctuation this way.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from lowwater.high.failures import translate

FIRST_MTIME = 1_000_000_000
"""Modification time (s) of the first file of a stream."""


def place(file: Path, number: int) -> None:
    """Gives a file its number in the stream: Spark's file source reads files in the order of modification times."""
    os.utime(file, (FIRST_MTIME + number, FIRST_MTIME + number))


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
        writer.option("checkpointLocation", str(checkpoint)).start().awaitTermination()
    except PySparkException as error:
        raise translate(query, error) from error
