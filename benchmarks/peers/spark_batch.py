"""PySpark as a batch, by hand: `python -m benchmarks.peers.spark_batch QUERY PACKETS OUT`.

It begins after ingest and writes parquet, without audit or commit.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from benchmarks.peers.session import session
from benchmarks.subjects import SUBJECTS


def main(name: str, packets: Path, out: Path) -> None:
    """Runs a query and writes its rows."""
    spark = session("peer", out.parent, 2 * (os.cpu_count() or 1))
    spark.read.parquet(str(packets)).createOrReplaceTempView("packets")
    spark.sql(SUBJECTS[name].sql).write.parquet(str(out))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
