"""`lowwater ingest --watch` as a process: kills at random moments lose nothing, and a signal ends it cleanly."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest

from lowwater.config import Link
from lowwater.lake.layout import MALFORMED, Lake, open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.packets import read_packets
from lowwater.lake.tables import read_rows
from lowwater.plan.temporal import END_OF_TIME
from tests.capturemaker import pcap_bytes, udp
from tests.replay.support import lowwater, wait

KILLS = int(os.environ.get("LOWWATER_KILLS", "2"))
BEGIN, SECOND = 1_577_836_800, 1_000_000_000  # 2020-01-01T00:00:00Z
PACKETS = 300
SETTINGS = """
[links.dated]
captures = "../captures/dated_%Y%m%dT%H%M%S.pcap"
rotation = "1h"
[links.free]
captures = "../captures/free*.pcap"
[links.log]
kind = "csv"
schemas = "log.schema"
captures = "../captures/log*.csv"
"""
SCHEMA = "PROTOCOL LOG { uint time get_csv_uint (increasing); uint size get_csv_uint; string of get_csv_string; }"
LINKS = ("dated", "free", "log")


def data(link: str, number: int) -> bytes:
    """The bytes of a capture: an hour of a link. Each line of a file of records can be read wherever it is cut."""
    if link == "log":
        begin = BEGIN + 3600 * number
        lines = "".join(f"{begin + at},{1000 + at},log {number}\n" for at in range(PACKETS))
        return f"time,size,of\n{lines}".encode()
    payload = f"{link} {number}".encode()
    frames = (udp("10.0.0.1", "10.0.0.2", 1, at, payload) for at in range(PACKETS))
    begin = (BEGIN + 3600 * number) * SECOND
    return pcap_bytes([(begin + at * SECOND, frame) for at, frame in enumerate(frames)], nanoseconds=True)


def name(link: str, number: int) -> str:
    if link == "dated":
        return time.strftime("dated_%Y%m%dT%H%M%S.pcap", time.gmtime(BEGIN + 3600 * number))
    return f"free{number:02}.pcap" if link == "free" else f"log{number:02}.csv"


def write(folder: Path, draw: random.Random, numbers: range) -> None:
    """Writes captures as programs do: under their name, piece by piece, or elsewhere and moved."""
    for number in numbers:
        for link in LINKS:
            path, content = folder / name(link, number), data(link, number)
            if draw.random() < 0.5:
                (folder / "unfinished").write_bytes(content)
                (folder / "unfinished").rename(path)
            else:
                cuts = sorted({0, len(content), draw.randrange(len(content)), draw.randrange(len(content))})
                with path.open("wb", buffering=0) as file:
                    for begin, end in pairwise(cuts):
                        file.write(content[begin:end])
                        time.sleep(draw.random() / 2)
        time.sleep(draw.random())


def watcher(lake: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "lowwater.cli.main", "ingest", "--lake", str(lake), "--watch"]
    command += ["--every", "0.1s", "--settle", "2s", "--growing"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ingested(lake: Lake) -> dict[str, list[str]]:
    """Link -> digests of its whole captures, in their order."""
    found = read_captures(lake, LINKS)
    return {link: [row.file_digest for row in rows if not row.growing] for link, rows in found.items()}


@pytest.mark.nightly
@pytest.mark.slow
def test_kills_lose_nothing_and_read_nothing_twice(tmp_path: Path) -> None:
    draw, folder, root = random.Random(24), tmp_path / "captures", tmp_path / "lake"
    folder.mkdir()
    root.mkdir()
    (root / "lowwater.toml").write_text(SETTINGS)
    (root / "log.schema").write_text(SCHEMA)
    lake, files = open_lake(root), range(4 + 3 * KILLS)
    expected = {link: [hashlib.sha256(data(link, number)).hexdigest() for number in files] for link in LINKS}
    writer = threading.Thread(target=write, args=(folder, draw, files[:-1]))
    writer.start()
    for _ in range(KILLS):
        process = watcher(root)
        time.sleep(2 + 6 * draw.random())
        process.kill()
        process.communicate()
    process = watcher(root)
    try:
        writer.join()
        write(folder, draw, files[-1:])
        assert wait(lambda: ingested(lake) == expected, 240, 0.2), "it takes too long"
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert "watching dated, free, log" in err and "stopped: " in err and "Traceback" not in err
    assert ", 300 packets, 0 malformed, covers 2020-01-01T" in out
    assert ", 300 records, 0 malformed, covers 2020-01-01T" in out
    assert read_rows(lake.malformed, MALFORMED).num_rows == 0  # nothing is left of a line that was cut
    for link, digests in expected.items():
        captures = read_captures(lake, [link])[link]
        settings = Link(kind="csv") if link == "log" else Link()
        batches = read_packets(lake, link, captures, settings, 0, 0, END_OF_TIME)
        rows = [(row["capture"], row["position"]) for batch in batches for row in batch.to_pylist()]
        names = {row.file_digest: row.capture for row in captures}
        assert rows == [(names[digest], position) for digest in digests for position in range(PACKETS)]
    again = lowwater("ingest", "--lake", root)
    # A file that was read at once after its last write is looked at again.
    assert again.code == 0 and " added " not in again.out and " replaced " not in again.out, again


@pytest.mark.slow
def test_an_interrupted_watch_ends_at_once_where_nothing_comes(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    root.mkdir()
    (root / "lowwater.toml").write_text(SETTINGS)
    (root / "log.schema").write_text(SCHEMA)
    process = watcher(root)
    assert process.stderr is not None
    line = process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0 and line.startswith("watching dated, free, log")
    told, stopped = err.splitlines()
    assert told.endswith("captures: is not there") and stopped == "stopped: 0 files ingested, 0 refused"
