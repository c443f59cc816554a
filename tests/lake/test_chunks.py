"""Captures packed in many tasks: the same table as in one, whatever runs them; damage in bulk; row groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from lowwater import limits
from lowwater.config import Config
from lowwater.lake import tables
from lowwater.lake.ingestion import batch as batching
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import MALFORMED, Lake, open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.packets import read_packets
from lowwater.threads import each_on_threads
from tests.breadth import each_push
from tests.capturemaker import pcap_bytes, udp
from tests.lake.support import BASE, at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONFIG = Config()
LATE = {700: 3600 * 24, 1500: 3600 * 24 * 9}
"""Records that jump ahead: they are malformed."""


def many(path: Path, count: int = 3000) -> Path:
    """A capture over two hours, somewhat out of order, with damage."""
    seconds = [number * 2.4 - (number % 7) / 10 + LATE.get(number, 0) for number in range(count)]
    frames = ((at(second), udp("10.0.0.1", "10.0.0.2", 1 + number % 5, 53)) for number, second in enumerate(seconds))
    path.write_bytes(pcap_bytes(frames, nanoseconds=True)[:-3])
    return path


def small(monkeypatch: pytest.MonkeyPatch, chunk: int, rows: int, group: int) -> None:
    monkeypatch.setattr(batching, "INGEST_CHUNK_BYTES", chunk)
    monkeypatch.setattr(batching, "TASK_ROWS", rows)
    monkeypatch.setattr(limits, "FILE_ROWS", group)
    monkeypatch.setattr(limits, "PACKET_PAGE_ROWS", group // 4)


def contents(lake: Lake) -> pa.Table:
    """All packets as they are read, and what the ledgers say of them."""
    captures = read_captures(lake, ["a"])["a"]
    batches = read_packets(lake, "a", captures, CONFIG.link("a"), 0, 0, 1 << 62, ["srcIP_lo", "srcPort", "len"])
    table = pa.Table.from_batches(list(batches))
    return table.set_column(0, "capture", table.column("capture").cast(pa.string())).combine_chunks()


def one_after_another(function: Callable[[Any], Any], arguments: Iterable[Any]) -> list[Any]:
    return [function(argument) for argument in arguments]


def facts(lake: Lake) -> list[Any]:
    rows = read_captures(lake, ["a"])["a"]
    told = {"attempt", "ingested_at", "path", "place", "sha256", "bytes", "compression"}
    return [{name: value for name, value in asdict(row).items() if name not in told} for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("runner", "chunk", "rows"),
    each_push(
        [
            (each_on_threads, 4096, 1),
            (one_after_another, 4096, 1),
            (one_after_another, 10_000, 500),
            (each_on_threads, 10_000, 500),
            (each_on_threads, 1 << 20, 1),
            (one_after_another, 1 << 20, 1),
        ],
        2,
    ),
)
def test_tasks_make_the_table_that_one_makes(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runner: Any, chunk: int, rows: int
) -> None:
    path = many(tmp_path / "a.pcap")
    whole = open_lake(tmp_path / "whole")
    ingest(whole, "a", [path], CONFIG, runner=one_after_another)
    small(monkeypatch, chunk, rows, 64)
    ingest(lake, "a", [path], CONFIG, runner=runner)
    assert contents(lake).equals(contents(whole))
    assert facts(lake) == facts(whole)
    bad = [
        tables.read_rows(each.malformed, MALFORMED).drop_columns(["attempt"]).sort_by("offset")
        for each in (lake, whole)
    ]
    assert bad[0].equals(bad[1]) and bad[0].num_rows == len(LATE) + 1


@pytest.mark.spark
def test_workers_of_spark_make_the_same_table(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    from lowwater.spark.tasks import SparkTasks

    test_tasks_make_the_table_that_one_makes(lake, tmp_path, monkeypatch, SparkTasks(lambda: spark), 10_000, 1)
    assert len(list(lake.packets.glob("link=a/hour=*/*.parquet"))) > 3


@pytest.mark.slow
def test_damage_in_bulk(lake: Lake, tmp_path: Path) -> None:
    count = 100_000
    record = np.zeros(count, np.dtype([("s", "<u4"), ("f", "<u4"), ("caplen", "<u4"), ("wire", "<u4")]))
    record["s"] = BASE // 10**9 + np.arange(count) // 1000
    record["wire"] = np.where(np.arange(count) % 2, 60, 1 << 31)
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap_bytes([]) + record.tobytes())
    (done,) = ingest(lake, "a", [path], CONFIG)
    assert (done.capture.packets, done.capture.malformed) == (count // 2, count // 2)
    rows = tables.read_rows(lake.malformed, MALFORMED)
    assert rows.num_rows == count // 2 and set(rows.column("reason").to_pylist()) == {"wire-length"}
    positions = contents(lake).column("position").to_numpy()
    assert np.array_equal(positions, np.arange(1, count, 2))
