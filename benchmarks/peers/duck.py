"""DuckDB over decoded packets: `python -m benchmarks.peers.duck QUERY PACKETS OUT`; prints its answer as JSON.

It begins after ingest: PACKETS is the `packets` folder of a lake. It writes one parquet file, without audit or commit.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import duckdb

from benchmarks.subjects import COLUMNS, SUBJECTS


def answer(name: str, packets: Path, out: Path) -> dict[str, int]:
    """Runs a query and writes its rows; their number and the packets that they count."""
    subject = SUBJECTS[name]
    out.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(config={"threads": os.cpu_count() or 1}) as connection:
        connection.execute(_view(packets))
        connection.execute(f"COPY ({subject.sql}) TO '{out}/rows.parquet'")
    return counted(name, out)


def _view(packets: Path) -> str:
    files = f"read_parquet('{packets}/link=*/**/*.parquet', hive_partitioning = true)"
    return f"CREATE VIEW packets AS SELECT {', '.join(COLUMNS)} FROM {files}"


def counted(name: str, out: Path) -> dict[str, int]:
    """Rows below a folder of parquet files, and the packets that they count."""
    with duckdb.connect() as connection:
        text = f"SELECT count(*), {SUBJECTS[name].count} FROM read_parquet('{out}/**/*.parquet')"
        ((rows, packets),) = connection.execute(text).fetchall()
    return {"rows": rows, "counted": int(packets or 0)}


def agrees_up_to_its_end(name: str, packets: Path, out: Path) -> bool:
    """Whether the rows of a stream (`window`, keys, `cnt`) are all rows of the query up to the stream's last epoch."""
    subject = SUBJECTS[name]
    with duckdb.connect() as connection:
        connection.execute(_view(packets))
        streamed = f"read_parquet('{out}/*.parquet')"
        last = f'(SELECT max(epoch_ns("window".start)) FROM {streamed})'
        text = f"SELECT count(*), sum(cnt) FROM ({subject.sql}) WHERE tb * {subject.epoch}000000000 <= {last}"
        ((rows, counts),) = connection.execute(text).fetchall()
    return {"rows": rows, "counted": int(counts or 0)} == counted(name, out)


def sample(packets: Path, capture: str, count: int) -> dict[str, int]:
    """Rows and packets of the flow query over the first packets of one link's captures, by position in their file."""
    link = capture.split("_")[0]
    listed = ", ".join(COLUMNS)
    with duckdb.connect() as connection:
        connection.execute(
            f"CREATE VIEW packets AS SELECT {listed} FROM (SELECT {listed}, hour, position "
            f"FROM read_parquet('{packets}/link={link}/**/*.parquet', hive_partitioning = true)) "
            f"ORDER BY hour, position LIMIT {count}"
        )
        text = f"SELECT count(*), sum(cnt) FROM ({SUBJECTS['flows'].sql})"
        ((rows, counts),) = connection.execute(text).fetchall()
    return {"rows": rows, "counted": int(counts)}


if __name__ == "__main__":
    print(json.dumps(answer(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))))
