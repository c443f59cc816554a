"""tshark to fields, then DuckDB over them: `python -m benchmarks.peers.tshark CAPTURE PACKETS OUT`; prints JSON.

The first packets of one capture only: all of them would take minutes. The question is `queries/flows.gsql`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import duckdb

FIELDS = (
    "frame.time_epoch", "ip.src", "ip.dst", "ipv6.src", "ipv6.dst", "ip.proto", "ipv6.nxt",
    "tcp.srcport", "tcp.dstport", "udp.srcport", "udp.dstport",
)  # fmt: skip


def main(capture: Path, packets: int, out: Path) -> dict[str, int]:
    """Groups, and packets that they count."""
    out.mkdir(parents=True, exist_ok=True)
    words = ["tshark", "-n", "-r", str(capture), "-c", str(packets), "-T", "fields", "-E", "separator=,"]
    words += ["-E", "occurrence=f", "-E", "header=y", *(part for name in FIELDS for part in ("-e", name))]
    file = out / "fields.csv"
    with file.open("wb") as target:
        subprocess.run(words, check=True, stdout=target, stderr=subprocess.DEVNULL)
    keys = ", ".join(f'"{name}"' for name in FIELDS[1:])
    tb = 'CAST(floor(CAST("frame.time_epoch" AS DOUBLE) / 10) AS BIGINT)'
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT {tb} AS tb, {keys}, count(*) AS cnt "
            f"FROM read_csv('{file}', header = true, all_varchar = true) "
            f'WHERE coalesce("ip.src", "ipv6.src") IS NOT NULL GROUP BY {tb}, {keys}) TO \'{out}/rows.parquet\''
        )
        text = f"SELECT count(*), sum(cnt) FROM '{out}/rows.parquet'"
        ((rows, counted),) = connection.execute(text).fetchall()
    return {"rows": rows, "counted": int(counted)}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))))
