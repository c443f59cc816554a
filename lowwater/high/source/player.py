"""Plays a stream of files to its end, one micro-batch a file.

Below the driver of slices, whose promises come so.
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
    """Makes a file the one of this number: Spark's file source plays files in the order of their modification times."""
    os.utime(file, (FIRST_MTIME + number, FIRST_MTIME + number))


def play(query: str, name: str, frame: DataFrame, sink: Callable[[DataFrame, int], None], checkpoint: Path) -> None:
    """Plays all that a stream has, and waits for its end.

    Args:
        query: name of the output query, for errors.
        name: the name of the stream within it.
        frame: the streaming DataFrame.
        sink: called with each micro-batch and its number.
        checkpoint: folder for Spark's own files.

    Raises:
        LowwaterError: if Spark or the sink fails.
    """
    writer = frame.writeStream.foreachBatch(sink).trigger(availableNow=True).queryName(f"{query}:{name}")
    try:
        writer.option("checkpointLocation", str(checkpoint)).start().awaitTermination()
    except PySparkException as error:
        raise translate(query, error) from error
