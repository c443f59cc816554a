"""Lowwater in `bench_end`: commands as a user starts them, and what the lake says of them afterwards."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from deltalake import DeltaTable

from benchmarks.subjects import SUBJECTS, Subject
from benchmarks.watch import folder_bytes, watch

COMMAND = Path(sys.executable).with_name("lowwater")
STAGES = ("low", "high", "audit", "publish")


@dataclass(frozen=True)
class Home:
    """Where a command keeps what it may keep from run to run.

    Attributes:
        caches: generated kernels and numba's compiled code; an empty folder is a cold start, None the installation's.
        scratch: temporary files, sampled as staging.
    """

    caches: Path | None
    scratch: Path

    def variables(self) -> dict[str, str]:
        """The environment of a command."""
        self.scratch.mkdir(parents=True, exist_ok=True)
        found = {"TMPDIR": str(self.scratch)}
        if self.caches is not None:
            found |= {"LOWWATER_CACHE": str(self.caches / "kernels"), "NUMBA_CACHE_DIR": str(self.caches / "numba")}
        return found


def from_captures(name: str, captures: Path, lake: Path, home: Home) -> dict[str, Any]:
    """`init`, `ingest`, `backfill`: figures of the three commands, the stages, memory and bytes on disk."""
    subject = SUBJECTS[name]
    environment = home.variables()
    init = watch([COMMAND, "init", captures, "--lake", lake, "--query", subject.file], environment)
    ingest = watch([COMMAND, "ingest", "--lake", lake], environment)
    staging = (lake / "_work", home.scratch)
    backfill = watch([COMMAND, "backfill", "--lake", lake], environment, staging)
    packets, rows_low, stages = ledger(lake, subject.file.stem)
    seconds = init.seconds + ingest.seconds + backfill.seconds
    return {
        "seconds": round(seconds, 2),
        "stages_seconds": {
            "init": round(init.seconds, 2),
            "ingest": round(ingest.seconds, 2),
            **{stage: round(stages[stage], 2) for stage in STAGES},
            "rest": round(backfill.seconds - sum(stages.values()), 2),
        },
        "packets": packets,
        "packets_per_s": round(packets / seconds),
        "lfta_rows": rows_low,
        "lfta_rows_per_s_high": round(rows_low / max(stages["high"], 1e-3)),
        "peak_memory_bytes": max(init.peak_bytes, ingest.peak_bytes, backfill.peak_bytes),
        "staging_peak_bytes": backfill.disk_bytes,
        "lake_bytes": folder_bytes(lake),
        "packets_table_bytes": folder_bytes(lake / "packets"),
        **published(lake, name, subject),
    }


def ledger(lake: Path, query_set: str) -> tuple[int, int, dict[str, float]]:
    """Packets read, rows of the low level and seconds by stage, summed over the intervals of a backfill.

    An interval's last entry has the seconds of all its stages, whatever the number of its queries.
    """
    with duckdb.connect() as connection:
        for name in ("replays", "contents"):
            connection.register(name, DeltaTable(lake / name).to_pyarrow_table())
        latest = connection.execute(
            "SELECT arg_max(timings, finished_at) FROM replays WHERE query_set = ? AND stage = 'publish' "
            "GROUP BY interval_start",
            [query_set],
        ).fetchall()
        ((rows_low,),) = connection.execute(
            "SELECT coalesce(sum(rows), 0) FROM replays WHERE query_set = ? AND stage = 'low'", [query_set]
        ).fetchall()
        ((packets,),) = connection.execute("SELECT sum(packets) FROM contents").fetchall()
    seconds = dict.fromkeys(STAGES, 0.0)
    for (text,) in latest:
        for stage, spent in json.loads(text).items():
            seconds[stage] = seconds.get(stage, 0.0) + spent
    return int(packets), int(rows_low), seconds


def published(lake: Path, name: str, subject: Subject) -> dict[str, int]:
    """Rows of the output that peers answer too, the packets that they count, and rows of all outputs."""
    found: dict[str, int] = {"rows_published": 0}
    with duckdb.connect() as connection:
        for table in sorted((lake / "tables").iterdir()):
            files = DeltaTable(table).file_uris()
            ((rows,),) = connection.execute("SELECT count(*) FROM read_parquet(?)", [files]).fetchall()
            found["rows_published"] += rows
            if table.name == subject.output:
                text = f"SELECT count(*), {subject.count} FROM read_parquet(?)"
                ((found["rows"], counted),) = connection.execute(text, [files]).fetchall()
                found["counted"] = int(counted)
    if "rows" not in found:
        sys.exit(f"{lake}: {name} has no table {subject.output}")
    return found


def run_command(capture: Path, link: str, form: str, out: Path, home: Home) -> dict[str, Any]:
    """`lowwater run` of the flow query over one capture."""
    words = [COMMAND, "run", SUBJECTS["flows"].file, "--capture", f"{link}={capture}", "--out", out, "--format", form]
    done = watch(words, home.variables())
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    (file,) = out.glob(f"flows.{form}")
    with duckdb.connect() as connection:
        reader = {"csv": "read_csv_auto", "parquet": "read_parquet"}[form]
        ((rows,),) = connection.execute(f"SELECT count(*) FROM {reader}(?)", [str(file)]).fetchall()
    stages = summary["seconds"]
    found = {**done.figures(), "stages_seconds": stages, "rows": rows, "bytes": file.stat().st_size}
    if "write" in stages:
        found["written_rows_per_s"] = round(rows / max(stages["write"], 1e-3))
    return found
