"""Ingest that is killed, that meets another, that finds the disk full: the table is that of a clean run."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lowwater.config import Config
from lowwater.errors import LakeError
from lowwater.lake import open_tables, tables
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import MALFORMED, Lake
from lowwater.lake.ledgers.captures import read_captures
from tests.lake.support import capture, packet_rows
from tests.lake.test_chunks import small

CONFIG = Config()
COUNT = 3000
CHUNK = 20_000
KILLS = int(os.environ.get("LOWWATER_KILLS", "2"))

VICTIM = f"""
import sys
from pathlib import Path
from lowwater.config import Config
from lowwater.lake.ingestion import batch
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
batch.INGEST_CHUNK_BYTES, batch.TASK_ROWS = {CHUNK}, 1
lake = open_lake(Path(sys.argv[1]))
print("ready", flush=True)
ingest(lake, "a", [Path(name) for name in sys.argv[2:]], Config())
"""


def files(folder: Path) -> list[Path]:
    """Three captures in a row, of several chunks each, the last one cut."""
    starts = [10_000 * number for number in range(3)]
    made = [
        capture(folder / f"{start}.pcap", (start + n * 3 for n in range(COUNT)), cut=5 * (start > 10_000))
        for start in starts
    ]
    return made


def seen(lake: Lake) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in packet_rows(lake)]


def check_clean(lake: Lake) -> None:
    """The lake holds what a clean run makes of `files`, and nothing else."""
    rows = read_captures(lake, ["a"])["a"]
    assert [row.packets for row in rows] == [COUNT, COUNT, COUNT - 1]
    assert [(sha256, position) for sha256, position, *_ in seen(lake)] == [
        (row.capture, position) for row in rows for position in range(row.packets)
    ]
    table = open_tables.existing(lake.packets)
    on_disk = {path.relative_to(lake.packets).as_posix() for path in lake.packets.glob("link=*/hour=*/*")}
    assert on_disk == {row["path"] for row in tables.live_files(table)}
    assert tables.read_rows(lake.malformed, MALFORMED).column("reason").to_pylist() == ["cut"]


@pytest.mark.slow
def test_killed_at_any_moment_and_run_again(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = files(tmp_path)
    moments = random.Random(5)
    for _ in range(KILLS):
        words = [sys.executable, "-c", VICTIM, str(lake.root), *map(str, names)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as victim:
            assert victim.stdout is not None and victim.stdout.readline() == "ready\n"
            time.sleep(moments.uniform(0, 2))
            victim.send_signal(signal.SIGKILL)
        for row in read_captures(lake, ["a"])["a"]:
            assert sum(packet[0] == row.capture for packet in seen(lake)) == row.packets
    small(monkeypatch, CHUNK, 1, 64)
    ingest(lake, "a", names, CONFIG)
    check_clean(lake)


@pytest.mark.slow
def test_two_ingests_at_once(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, CHUNK, 1, 1 << 18)
    names = files(tmp_path)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda order: ingest(lake, "a", order, CONFIG), [names, names[::-1]]))
    assert sorted(done.state for each in found for done in each) == ["added"] * 3 + ["known"] * 3
    check_clean(lake)


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file of this process may grow beyond that."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.slow
@pytest.mark.parametrize(("room", "what"), [(1000, "packets of .*10000.pcap"), (7000, "contents:")])
def test_no_room_is_a_lake_error_and_a_retry_works(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int, what: str
) -> None:
    small(monkeypatch, CHUNK, 1, 1 << 18)
    first, *rest = files(tmp_path)
    ingest(lake, "a", [first], CONFIG)
    before = seen(lake)
    with largest_file(room), pytest.raises(LakeError, match=f"{what} cannot be written"):
        ingest(lake, "a", rest[:1], CONFIG)
    assert seen(lake) == before
    ingest(lake, "a", [first, *rest], CONFIG)
    check_clean(lake)
