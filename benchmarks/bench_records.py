"""Records per second of ingest of csv, JSON lines and parquet (hash, parse, write, commit), beside readers of tables.

`python benchmarks/bench_records.py [--records N] [--rounds N] [--json FILE]`. Every figure is that of a process of its
own, the best of the rounds, which alternate; each ends with its files written. Peers (DuckDB, pyarrow, polars) read the
same file with the same types and write it as parquet with lz4. They keep no place of a record, no address as numbers,
no digest, and end at the first value that they cannot read; pyarrow's rows are not checked at all.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

START = 1_767_225_600_000
PER_SECOND = 2000
"""Records of a second, so that a file of some millions is about an hour."""

KINDS = ("csv", "json", "parquet")
SHARES = {"csv": 1.0, "json": 0.25, "parquet": 3.0}
"""Parts of the records: JSON lines are slow for every program, and parquet so fast that opening a lake would count."""

SCHEMA = """PROTOCOL FLOW {
    llong time_ms get_csv_llong (increasing);
    IP src get_csv_ip;
    IP dest get_csv_ip;
    uint port get_csv_uint;
    uint bytes get_csv_uint;
    string host get_csv_string;
}
"""

INGEST = """
import sys, time
from pathlib import Path
from lowwater.config import load_config
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from tests.memory import peak_memory
root, warm, path = map(Path, sys.argv[1:])
for name, file in (("warm", warm), ("lake", path)):
    lake = open_lake(root / name)
    begin, before = time.monotonic(), time.process_time()
    (done,) = ingest(lake, "log", [file], load_config(lake.root))
    seconds, busy = time.monotonic() - begin, time.process_time() - before
assert done.capture.malformed == 0
print(seconds, done.capture.packets, peak_memory() >> 10, busy)
"""

PEERS = {
    "duckdb": """
import duckdb, sys, time
reader = {"csv": "read_csv('{}', header=true)", "json": "read_json('{}', format='newline_delimited')",
          "parquet": "read_parquet('{}')"}[sys.argv[1]].replace("{}", sys.argv[2])
begin = time.monotonic()
duckdb.sql(f"COPY (SELECT * FROM {reader}) TO '{sys.argv[3]}' (FORMAT parquet, COMPRESSION lz4)")
print(time.monotonic() - begin)
""",
    "pyarrow": """
import sys, time
import pyarrow.csv, pyarrow.json, pyarrow.parquet
begin = time.monotonic()
if sys.argv[1] == "csv":
    batches = pyarrow.csv.open_csv(sys.argv[2])
elif sys.argv[1] == "json":
    batches = pyarrow.json.open_json(sys.argv[2])
else:
    file = pyarrow.parquet.ParquetFile(sys.argv[2])
    batches = file.iter_batches(1 << 17)
writer = None
for batch in batches:
    writer = writer or pyarrow.parquet.ParquetWriter(sys.argv[3], batch.schema, compression="lz4")
    writer.write_batch(batch)
writer.close()
print(time.monotonic() - begin)
""",
    "polars": """
import polars, sys, time
begin = time.monotonic()
{"csv": polars.scan_csv, "json": polars.scan_ndjson, "parquet": polars.scan_parquet}[sys.argv[1]](
    sys.argv[2]).sink_parquet(sys.argv[3], compression="lz4")
print(time.monotonic() - begin)
""",
}


def write_file(path: Path, kind: str, records: int) -> Path:
    """Writes a file of flows: times in milliseconds a little out of order, two addresses, two numbers and a name."""
    random = np.random.default_rng(records)
    hosts = pa.array([f"host-{number}.example.net" for number in range(500)])
    writer: Any = None
    with path.open("wb") as out:
        for begin in range(0, records, 1 << 18):
            number = np.arange(begin, min(begin + (1 << 18), records))
            count = len(number)
            words = [random.integers(0, 4096, count) for _ in range(2)]
            table = pa.table(
                {
                    "time_ms": START + number * 1000 // PER_SECOND - random.integers(0, 50, count),
                    "src": [f"10.{word >> 8}.{word & 255}.{word % 200}" for word in words[0].tolist()],
                    "dest": [f"192.168.{word >> 8}.{word & 255}" for word in words[1].tolist()],
                    "port": random.integers(1, 65536, count),
                    "bytes": random.integers(40, 1_000_000, count),
                    "host": hosts.take(pa.array(random.integers(0, 500, count))),
                }
            )
            if kind == "json":
                out.writelines(f"{json.dumps(row)}\n".encode() for row in table.to_pylist())
                continue
            if writer is None:
                options = pcsv.WriteOptions(quoting_style="none")
                writer = (
                    pq.ParquetWriter(out, table.schema, compression="zstd")
                    if kind == "parquet"
                    else pcsv.CSVWriter(out, table.schema, write_options=options)
                )
            writer.write_table(table)
        if writer is not None:
            writer.close()
    return path


def lowwater(folder: Path, kind: str, warm: Path, path: Path) -> dict[str, Any]:
    """Records/s, peak memory and bytes on disk of one ingest into a new lake."""
    for name in ("warm", "lake"):
        lake = folder / name
        lake.mkdir(parents=True)
        (lake / "flow.schema").write_text(SCHEMA)
        (lake / "lowwater.toml").write_text(f'[links.log]\nkind = "{kind}"\nschemas = "flow.schema"\n')
    words = [sys.executable, "-c", INGEST, str(folder), str(warm), str(path)]
    printed = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
    seconds, records, peak, busy = (float(text) for text in printed)
    stored = sum(file.stat().st_size for file in (folder / "lake" / "records").rglob("*.parquet"))
    return {
        "lowwater_records_per_s": round(records / seconds),
        "records": int(records),
        "cpu_s_per_million": round(busy / records * 1e6, 2),
        "peak_memory_mib": int(peak) >> 10,
        "bytes_per_record_on_disk": round(stored / records, 1),
    }


def one_round(folder: Path, kind: str, warm: Path, path: Path) -> dict[str, Any]:
    """All programs, one after another."""
    figures = lowwater(folder, kind, warm, path)
    for name, program in PEERS.items():
        words = [sys.executable, "-c", program, kind, str(path), str(folder / f"{name}.parquet")]
        done = subprocess.run(words, check=False, capture_output=True, text=True)
        figures[f"{name}_records_per_s"] = (
            round(figures["records"] / float(done.stdout.split()[-1])) if done.returncode == 0 else None
        )
    return figures


def best(rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The best figure of each kind over the rounds; of memory and time of the processor, the largest and the least."""
    least = ("cpu_s_per_million",)
    return {
        name: None if value is None else (min if name in least else max)(one[name] for one in rounds)
        for name, value in rounds[0].items()
    }


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--records",
        type=int,
        default=4_000_000,
        help="of csv; a quarter of them of JSON lines, and three times as many of parquet",
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kind", action="append", choices=KINDS, help="only this kind; repeats")
    parser.add_argument("--files", type=Path, help="a folder for the files, which are kept and used again")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="lowwater-bench-"))
    files = options.files or folder
    figures: dict[str, dict[str, Any]] = {}
    try:
        paths: dict[str, list[Path]] = {}
        for kind in options.kind or KINDS:
            records = int(options.records * SHARES[kind])
            paths[kind] = [files / f"{count}.{kind}" for count in (20_000, records)]
            for path, count in zip(paths[kind], (20_000, records), strict=True):
                if not path.exists():
                    write_file(path, kind, count)
        rounds: dict[str, list[dict[str, Any]]] = {kind: [] for kind in paths}
        begin = time.monotonic()
        for number in range(options.rounds):
            for kind, (warm, path) in paths.items():
                rounds[kind].append(one_round(folder / f"{kind}{number}", kind, warm, path))
                shutil.rmtree(folder / f"{kind}{number}")
        for kind, found in rounds.items():
            figures[kind] = {"file_bytes": paths[kind][1].stat().st_size, **best(found)}
        seconds = time.monotonic() - begin
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    print(f"{machine}, {seconds:.0f} s")
    for kind, found in figures.items():
        print(kind)
        for key, value in found.items():
            print(f"  {key:26} {'failed' if value is None else f'{value:,}'}")
    if options.json:
        text = json.dumps({"machine": machine, "kinds": figures}, indent=2)
        options.json.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
