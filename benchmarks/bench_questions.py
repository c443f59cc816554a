"""Everyday questions beside DuckDB, in processor seconds: the nearest row, top n, the row before, SQL over a capture.

Run `python -m benchmarks.bench_questions [--rows N] [--packets N] [--json FILE]`. ASOF JOIN and lag are evaluated by
the high stage over the files that the low level would leave, and by DuckDB over the same files, each from files to a
parquet file; top n beside its own aggregation; `lowwater sql` counts the packets of a capture beside what decodes them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.bench_high import KNOWN, START, in_duckdb, in_lowwater, write_lfta
from lowwater.capture.content.retention import ContentOptions
from lowwater.capture.reader import read
from lowwater.catalog.schemas import ROW
from lowwater.columns.files import StreamWriter
from lowwater.high.query_runs import HighSettings
from lowwater.limits import GROUP_ROWS
from lowwater.low.settings import LowSettings
from lowwater.plan.operators import Lfta
from lowwater.plan.properties import stream_schema
from lowwater.plan.queryset import Plan, plan_texts
from lowwater.plan.shares import low_shares, undivided_spans
from lowwater.plan.temporal import END_OF_TIME
from lowwater.replay.sql import CaptureFiles, Statement

ASOF, LAG, GROUPS, TOP, COUNT = "asof", "lag", "aggregation", "top n", "sql"
BOUNDS = {ASOF: 2.0, LAG: 3.0, TOP: 1.2, COUNT: 1.2}
"""Times its peer that a question may take."""
_GROUPS = "SELECT time/60 AS tb, srcIP, count(*) AS n FROM [all].DataProtocol GROUP BY time/60 AS tb, srcIP"
TEXTS = {
    ASOF: "SELECT A.time AS ta, B.time AS tb, A.srcIP, A.srcPort FROM main0.TCP A ASOF JOIN main1.TCP B "
    "ON A.srcIP = B.destIP AND A.srcPort = B.destPort AND A.time <= B.time AND B.time <= A.time + 60",
    LAG: "SELECT timestamp, srcIP, timestamp - lag(timestamp) OVER (PARTITION BY srcIP ORDER BY timestamp) AS gap "
    "FROM main0.TCP",
    GROUPS: _GROUPS.replace("time/60 AS tb, srcIP, count", "tb, srcIP, count", 1),
    TOP: _GROUPS.replace("time/60 AS tb, srcIP, count", "tb, srcIP, count", 1) + " ORDER BY n DESC LIMIT 10",
}
SQL = {
    ASOF: 'SELECT A.time AS ta, B.time AS tb, A.srcIP, A.srcPort FROM "{0}" A ASOF JOIN "{1}" B '
    "ON A.srcIP = B.destIP AND A.srcPort = B.destPort AND A.time <= B.time WHERE B.time <= A.time + 60",
    LAG: "SELECT timestamp, srcIP, timestamp - lag(timestamp) OVER (PARTITION BY srcIP ORDER BY timestamp) AS gap "
    'FROM "{0}"',
}


def processor(work: Callable[[], Any]) -> float:
    """Processor seconds of this process for a piece of work, all threads together."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def as_low_writes(plan: Plan, lfta: Lfta, file: Path) -> Path:
    """A stream with its rows by share where the low level would write them so."""
    plans = [query.high for query in plan.queries]
    keys, span = low_shares(plans).get(lfta.name, ()), undivided_spans(plans)[lfta.name]
    path = file.with_suffix(".low.parquet")
    sink = StreamWriter(path, stream_schema(lfta.fields), keys, span, LowSettings(skew=0).shared_rows)
    with pq.ParquetFile(file) as stored:
        for batch in stored.iter_batches(GROUP_ROWS):
            rows = pc.equal(batch.column("_kind"), ROW)
            for part in (batch.filter(rows), batch.filter(pc.invert(rows))):
                if part.num_rows:
                    sink.write(part)
    sink.close()
    file.unlink()
    return path


def high(name: str, rows: int, folder: Path) -> dict[str, Any]:
    """One question over `rows` rows of each LFTA."""
    plan = plan_texts([(f"{name}.gsql", f"DEFINE{{query_name 'q';}} {TEXTS[name]}")], KNOWN)
    instances = [(lfta, link) for lfta in plan.lftas for link in lfta.links]
    share, files = rows // (1 if name == ASOF else len(instances)), {}
    for seed, (lfta, link) in enumerate(instances):
        file = as_low_writes(plan, lfta, write_lfta(folder, lfta, link, share, seed))
        files[lfta.name, link] = [str(file)]
    few = folder / "few"
    few.mkdir()
    start = {
        key: [str(write_lfta(few, lfta, link, 1000, 0))] for key, (lfta, link) in zip(files, instances, strict=True)
    }
    in_lowwater(plan, start, folder / "started", HighSettings())  # what is compiled and imported once
    found: dict[str, Any] = {"question": name, "rows": rows}
    made: list[int] = []
    seconds = processor(lambda: made.append(in_lowwater(plan, files, folder / "lowwater", HighSettings())[1].rows))
    found |= {"rows_out": made[0], "processor_s": round(seconds, 2)}
    if name in SQL:
        views = {
            lfta.name: [file for (owner, _), each in files.items() if owner == lfta.name for file in each]
            for lfta in plan.lftas
        }
        sql = SQL[name].format(*views)
        found["peer_s"] = round(processor(lambda: in_duckdb(sql, views, folder)), 2)
    return found


def capture(folder: Path, packets: int) -> Path:
    """A capture of so many packets of UDP, a millisecond apart."""
    frame = bytes.fromhex(
        "020000000001020000000002080045000020000000004011000 00a0000010a00000204d2003500 0c0000".replace(" ", "")
    )
    frame += bytes(60 - len(frame))
    record = np.dtype([("seconds", "<u4"), ("part", "<u4"), ("captured", "<u4"), ("length", "<u4"), ("frame", "V60")])
    path = folder / "many.pcap"
    with path.open("wb") as file:
        file.write(bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000"))
        for at in range(0, packets, 1_000_000):
            part = np.zeros(min(1_000_000, packets - at), record)
            number = np.arange(at, at + len(part))
            part["seconds"], part["part"] = START + number // 1000, number % 1000 * 1000
            part["captured"] = part["length"] = 60
            part["frame"] = np.frombuffer(frame, "V60")[0]
            part.tofile(file)
    return path


def count(packets: int, folder: Path) -> dict[str, Any]:
    """SQL that counts the packets of a capture, beside decoding it."""
    path = capture(folder, packets)
    text = "SELECT count(*) FROM main1"

    def asked(file: Path) -> int:
        with Statement(CaptureFiles([("main1", file)]), text) as statement:
            ((found,),) = [tuple(batch.column(0).to_pylist()) for batch in statement.batches()]
        return int(found)

    def decoded(file: Path) -> int:
        batches = read(file, END_OF_TIME, sha256="-", content=ContentOptions(), columns=["timestamp"])
        return sum(batch.num_rows for batch in batches)

    (folder / "small").mkdir()
    small = capture(folder / "small", 1000)
    assert asked(small) == decoded(small) == 1000
    counts: list[int] = []
    ours = processor(lambda: counts.append(asked(path)))
    peer = processor(lambda: counts.append(decoded(path)))
    assert counts == [packets, packets]
    return {"question": COUNT, "rows": packets, "processor_s": round(ours, 2), "peer_s": round(peer, 2)}


def main() -> None:
    """Prints a line for each question."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000, help="of each side of a join, else of all links")
    parser.add_argument("--packets", type=int, default=10_000_000, help="of the capture")
    parser.add_argument("--question", action="append", choices=[ASOF, LAG, TOP, COUNT], help="default: all")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    options = parser.parse_args()
    figures: dict[str, Any] = {"machine": f"{platform.machine()}, {os.cpu_count()} cores", "runs": []}
    for name in options.question or [ASOF, LAG, TOP, COUNT]:
        folder = Path(tempfile.mkdtemp(prefix="lowwater-bench-"))
        try:
            if name == COUNT:
                found = count(options.packets, folder)
            else:
                found = high(name, options.rows, folder)
                if name == TOP:
                    (folder / "groups").mkdir()
                    found["peer_s"] = high(GROUPS, options.rows, folder / "groups")["processor_s"]
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        found |= {"times": round(found["processor_s"] / found["peer_s"], 2), "bound": BOUNDS[name]}
        figures["runs"].append(found)
        print(", ".join(f"{key} {value}" for key, value in found.items()), flush=True)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
