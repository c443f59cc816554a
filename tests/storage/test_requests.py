"""How often a store is asked for one more interval."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from benchmarks.bench_store import BEGIN, moved, publish, settings, write_captures
from lowwater.config import load_config
from lowwater.instants import HOUR
from lowwater.lake import mirrors
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import HEARTBEATS, LATENESS, METRICS, open_lake
from lowwater.lake.tables import append_rows, read_rows
from lowwater.storage import paths, snapshots
from lowwater.storage.object_paths import ObjectPath
from tests.storage.faults import as_another_process
from tests.storage.servers import Proxy, kinds_of

MOST = 140


@pytest.mark.slow
def test_the_run_that_asks_most_for_one_more_interval_of_two_tables(
    root: ObjectPath, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ledgers are joined in turn, one each run beside `replays`. It is the turn of the one that a run does not read,
    the others are as full as they are then, and as many checkpoints are due as a run makes."""
    hour = 10
    write_captures(tmp_path, hour + 2)
    paths.write(root / "lowwater.toml", settings(tmp_path))
    lake = open_lake(root)
    config = load_config(root)
    for capture in sorted((tmp_path / "captures").iterdir())[hour:]:
        ingest(lake, "main1", [capture], config)
    publish(root, BEGIN + hour * HOUR, BEGIN + (hour + 1) * HOUR)
    ledgers = (lake.heartbeats, HEARTBEATS, 3), (lake.metrics, METRICS, 2), (lake.lateness, LATENESS, 1)
    for path, schema, more in ledgers:
        rows = read_rows(path, schema).to_pylist()
        for at in range(more):
            append_rows(path, pa.Table.from_pylist([moved(row, at) for row in rows], schema=schema))
    as_another_process(root)
    snapshots.look_again()
    monkeypatch.setattr(mirrors, "_PACKS", {})
    monkeypatch.setattr(mirrors, "CHECKPOINTS", 6)
    proxy.seen()
    publish(root, BEGIN + (hour + 1) * HOUR, BEGIN + (hour + 2) * HOUR)
    seen = [(method, path) for method, path, _ in proxy.seen()]
    written = [path for method, path in seen if method == "PUT"]
    assert [path.split("/")[3] for path in written if "/joined-" in path] == ["replays", "heartbeats"]
    assert sum("checkpoint.parquet" in path for path in written) == 2
    assert 100 < len(seen) <= MOST, sorted(kinds_of(*each) for each in seen)
