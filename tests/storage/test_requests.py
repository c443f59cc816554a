"""How often a store is asked for one more interval."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from math import inf
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as pads
import pytest

from benchmarks.bench_store import BEGIN, moved, publish, settings, write_captures
from lowwater import limits
from lowwater.config import load_config
from lowwater.instants import HOUR
from lowwater.lake import open_tables
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import HEARTBEATS, LATENESS, METRICS, open_lake
from lowwater.lake.ledgers.runs import read_replays
from lowwater.lake.tables import append_rows, read_rows
from lowwater.storage import objects, paths
from lowwater.storage.object_paths import ObjectPath
from tests.replay.support import lowwater
from tests.storage.faults import as_another_process
from tests.storage.servers import Proxy, kinds_of

USUAL, MOST = 70, 104
"""Requests of one more interval of two tables, without its locks: of a usual run, and where no file is packed."""


@pytest.mark.slow
def test_the_run_that_asks_most_for_one_more_interval_of_two_tables(
    root: ObjectPath, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ledgers with files that are not packed are joined in turn, two each run."""
    hour = 10
    write_captures(tmp_path, hour + 2)
    paths.write(root / "lowwater.toml", settings(tmp_path))
    monkeypatch.setattr(limits, "PACKED_FILE_BYTES", 0)
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
    objects.look_again()
    monkeypatch.setattr(open_tables, "_PACKS", {})
    monkeypatch.setattr(open_tables, "CHECKPOINTS", 6)
    monkeypatch.setattr(objects, "LOOK", inf)  # a run on a busy machine looks no more often than another one
    proxy.seen()
    publish(root, BEGIN + (hour + 1) * HOUR, BEGIN + (hour + 2) * HOUR)
    asked = [(method, path) for method, path, _ in proxy.seen()]
    seen = [each for each in asked if "/_locks/" not in each[1]]  # a slow run renews its lease more often
    written = [path for method, path in seen if method == "PUT"]
    assert [path.split("/")[3] for path in written if "/joined-" in path] == ["heartbeats", "metrics"]
    assert sum("checkpoint.parquet" in path for path in written) in (1, 2)
    assert sum("/measures/" in path for path in written) == 8, "links, skew, lftas and queries: a file and a commit"
    assert 90 < len(seen) <= MOST, (len(seen), sorted(kinds_of(*each) for each in seen))
    measured = read_rows(lake.measures("skew"), pa.schema([("interval_start", pa.int64())]))
    assert sorted(measured["interval_start"].to_pylist()) == [BEGIN + hour * HOUR, BEGIN + (hour + 1) * HOUR]

    assert lowwater("gx", "--lake", root).code == 2
    place = tmp_path / "copy"
    suite = place / "expectations" / "demo" / "flows.json"
    for seconds in (None, 60):
        if seconds is not None:
            suite.write_text(json.dumps({**json.loads(suite.read_text()), "notes": f"{seconds}"}))
            os.utime(suite, (time.time() + seconds,) * 2)
        said = lowwater("gx", "--lake", root, "--to", place)
        assert said.code == 0 and f"wrote {place}/gx" in said.out, said
    rows = pads.dataset(place / "gx" / "data" / "measures" / "skew" / "whole.parquet").to_table()
    assert rows.num_rows == 2 and json.loads(paths.read(root / "expectations" / "demo" / "flows.json"))["notes"] == "60"
    assert {each.name for each in place.iterdir()} >= {"gx", "tables", "streams"}


@pytest.mark.slow
def test_one_more_interval_and_further_ones_of_its_batch(
    root: ObjectPath, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A further one: its packets, the two files of each stream, and the rows of each table."""
    write_captures(tmp_path, 6)
    paths.write(root / "lowwater.toml", settings(tmp_path))
    assert lowwater("ingest", "--lake", root).code == 0
    monkeypatch.setattr(objects, "LOOK", inf)
    asked = []
    for begin, hours in ((0, 1), (1, 1), (2, 4)):  # the first one makes the tables
        as_another_process(root)
        objects.look_again()
        monkeypatch.setattr(open_tables, "_PACKS", {})
        proxy.seen()
        publish(root, BEGIN + begin * HOUR, BEGIN + (begin + hours) * HOUR)
        asked.append(Counter(kinds_of(method, path) for method, path, _ in proxy.seen() if "/_locks/" not in path))
    _, one, four = asked
    assert 60 < one.total() <= USUAL, one
    assert four.total() - one.total() <= 3 * 10, four - one

    lake = open_lake(root)
    told, pack = read_replays(lake), json.loads(paths.read(root / "_logs"))
    files = pack["logs"]["replays"]["data"]
    assert len(files) == 1
    pack["logs"]["replays"]["data"] = {**dict.fromkeys(files, "UEFSMQ=="), "../x.parquet": "UEFSMQ=="}
    paths.write(root / "_logs", json.dumps(pack).encode())
    as_another_process(root)
    objects.look_again()
    monkeypatch.setattr(open_tables, "_PACKS", {})
    assert read_replays(lake) == told, "what is no file of the ledger, by its digest, is not taken for one"


class Crowded(ObjectPath):
    """A table; another one is opened by the time that somebody looks where it lies."""

    __slots__ = ()

    @property
    def parents(self) -> Sequence[ObjectPath]:
        open_tables._MIRRORS.setdefault((self / "other", os.getpid()), open_tables._MIRRORS[self, os.getpid()])
        return super().parents


def test_a_table_that_a_thread_opens_while_another_packs_a_lake_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = ObjectPath("s3://lakes/crowded")
    table = Crowded(lake / "tables" / "one")
    mirror = open_tables.Mirror(table, objects.file_cache())
    monkeypatch.setattr(open_tables, "_MIRRORS", {(table, os.getpid()): mirror})
    assert open_tables._known(lake) == [(table, mirror)]
    assert open_tables._known(lake) == [(table, mirror), (table / "other", mirror)]
