"""The Spark session of the peers: what an engineer would set for a job of this size on one machine."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import SparkSession


def session(name: str, scratch: Path, partitions: int) -> SparkSession:
    """A local session with as many tasks as processors, 4 GiB of heap and state in RocksDB."""
    cores = os.cpu_count() or 1
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "4g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.local.dir": str(scratch),
    }
    builder = SparkSession.builder.appName(name).master(f"local[{cores}]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
