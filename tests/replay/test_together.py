"""Two processes replay a query set over overlapping intervals at once: one does it, the other says who is at it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lowwater.instants import HOUR, format_instant
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.runs import read_replays
from lowwater.lake.locks import folder_of_run
from lowwater.lake.results.streams import stream_files
from lowwater.storage.locks import here
from tests.replay.support import DEMO, QUERIES, ROOT, START, all_tables, each_query, leftovers, states, table_rows

pytestmark = pytest.mark.slow
HOUR_1 = (START, START + HOUR)
ENDS = 300.0
"""Seconds that an hour may take on a busy machine."""

TOGETHER = """
import sys, time
from pathlib import Path
from spark_apps.replay import main
Path(sys.argv[1]).touch()
while not Path(sys.argv[2]).exists():
    time.sleep(0.005)
sys.exit(main(sys.argv[3:]))
"""
"""Begins when it is told to: what Python imports before takes longer on one core than on the other."""


@pytest.mark.nightly
def test_two_runs_of_one_interval(published: Path, lake: Path) -> None:
    superseded = Path(folder_of_run(Lake(lake), "demo", *HOUR_1)) / "0123456789ab" / "high" / "checkpoint"
    superseded.mkdir(parents=True)
    runs = [begin(lake, number) for number in (0, 1)]
    try:
        deadline = time.monotonic() + ENDS
        while not all((lake.parent / f"ready-{number}").exists() for number in (0, 1)):
            assert time.monotonic() < deadline and all(run.poll() is None for run in runs), said(lake)
            time.sleep(0.02)
        (lake.parent / "go").touch()
        codes = [run.wait(ENDS) for run in runs]
    finally:
        for run in runs:
            run.kill()
    assert sorted(codes) == [0, 1], said(lake)
    did, left = codes.index(0), codes.index(1)
    (outcome,) = ended(lake, did)["outcome"]
    assert (outcome["state"], outcome["committed"]) == ("done", True)
    error = ended(lake, left)
    assert error["error"] == "BusyError"
    hour = "2026-01-01T00:00:00Z to 2026-01-01T01:00:00Z"
    assert f"demo {hour}: process {runs[did].pid} on {here().where} is at work on {hour}" in error["message"]
    assert all_tables(lake) == {query: table_rows(published, query, *HOUR_1) for query in DEMO}
    assert {query: streamed(lake, query) for query in DEMO} == {query: streamed(published, query) for query in DEMO}
    assert recorded(lake) == recorded(published)
    assert states(lake) == each_query("done", "missing", "missing")
    assert leftovers(lake) == []


def begin(lake: Path, number: int) -> subprocess.Popen[bytes]:
    """A process that replays the hour when it is told to."""
    own = lake.parent
    (own / f"tmp-{number}").mkdir()
    span = ["--from", format_instant(HOUR_1[0]), "--to", format_instant(HOUR_1[1])]
    asked = ["demo", "--lake", str(lake), "--queries", str(QUERIES), *span, "--outcome", str(own / f"{number}.json")]
    with (own / f"{number}.log").open("w") as log:
        return subprocess.Popen(
            [sys.executable, "-c", TOGETHER, str(own / f"ready-{number}"), str(own / "go"), *asked],
            cwd=ROOT,
            stdout=log,
            stderr=log,
            env={**os.environ, "TMPDIR": str(own / f"tmp-{number}")},
        )


def ended(lake: Path, number: int) -> dict[str, Any]:
    """What a process left of its run."""
    found: dict[str, Any] = json.loads((lake.parent / f"{number}.json").read_text(encoding="utf-8"))
    return found


def said(lake: Path) -> str:
    """What the processes printed."""
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(lake.parent.glob("*.log")))


def streamed(lake: Path, query: str) -> Counter[tuple[Any, ...]]:
    """The rows and the punctuation of the hour in `streams/`, whose order within a tick says nothing."""
    found: Counter[tuple[Any, ...]] = Counter()
    for path in stream_files(open_lake(lake).stream(query), *HOUR_1):
        found.update(tuple(row.values()) for row in pq.ParquetFile(path).read().to_pylist())
    return found


def recorded(lake: Path) -> list[tuple[Any, ...]]:
    """Stages of the hour in the ledger, in their order, each with what it was made of and how many rows came out."""
    rows = [row for row in read_replays(open_lake(lake), "demo", HOUR_1) if row.interval_start == START]
    return [(row.stage, row.query, row.state, row.reason, row.digest, row.rows) for row in rows]
