"""A file of several captures in a lake: it is read as its captures, in the order of their times."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import dpkt
import pyarrow as pa
import pytest

from lowwater.capture.content.retention import ContentOptions
from lowwater.capture.reader import index, read_chunk
from lowwater.config import Config, Link
from lowwater.errors import OverlapError
from lowwater.lake.ingestion import tasks
from lowwater.lake.ingestion.ingest import IngestResult, ingest
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.packets import read_packets
from lowwater.storage import digests
from tests.capturemaker import pcap_bytes, tcp
from tests.lake.support import at
from tests.replay.support import lowwater

CONFIG = Config()


def part(begin: float, count: int, order: str = "little", step: float = 1, port: int = 1) -> bytes:
    """A capture with a packet each so many seconds."""
    stamps = [at(begin + number * step) for number in range(count)]
    return pcap_bytes(
        [(stamp, tcp("10.0.0.1", "10.0.0.2", port, number)) for number, stamp in enumerate(stamps)], order
    )


def taken(lake: Lake, path: Path, config: Config = CONFIG) -> IngestResult:
    (done,) = ingest(lake, "a", [path], config)
    return done


def packets(lake: Lake) -> pa.Table:
    """Position, lateness and port of each packet, in the order in which the engine reads them."""
    captures = read_captures(lake, ["a"])["a"]
    columns = ["position", "arrival", "timestamp", "destPort"]
    return pa.Table.from_batches(list(read_packets(lake, "a", captures, CONFIG.link("a"), 0, 0, 1 << 62, columns)))


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_the_second_half_first_is_one_hour_without_a_late_packet(lake: Lake, tmp_path: Path, packed: bool) -> None:
    first, second = part(0, 600), part(1800, 600, "big")
    path = tmp_path / "a.pcap"
    path.write_bytes(gzip.compress(second + first) if packed else second + first)
    done = taken(lake, path)
    assert done.note == "the captures that are joined in it are read in the order of their times"
    assert (done.capture.packets, done.capture.malformed, done.capture.first) == (1200, 0, at(0))
    assert (done.capture.covers_from, done.capture.covers_to) == (at(0), at(2399))
    table = packets(lake)
    assert table.column("position").to_pylist() == [*range(1200)]
    assert table.column("timestamp").to_pylist() == table.column("arrival").to_pylist()
    assert table.column("destPort").to_pylist() == [*range(600)] * 2
    assert taken(lake, path).state == "known"
    other = tmp_path / "ordered.pcap"
    other.write_bytes(first + second)
    assert taken(lake, other).state == "known", "the same records, joined by somebody else"


def test_chunks_of_a_file_are_void_once_a_capture_in_it_begins_earlier(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packing has begun when the second header is met: it begins anew, and nothing of the first try is left."""
    monkeypatch.setattr("lowwater.lake.ingestion.batch.INGEST_CHUNK_BYTES", 3000)
    monkeypatch.setattr("lowwater.lake.ingestion.batch.TASK_ROWS", 100)
    packed: Counter[str] = Counter()
    pack = tasks.pack

    def counting(task: tasks.PackTask) -> tasks.PackResult | tasks.FailedTask:
        packed[task.attempt] += 1
        return pack(task)

    monkeypatch.setattr("lowwater.lake.ingestion.ingest.pack", counting)
    path = tmp_path / "a.pcap"
    path.write_bytes(part(1800, 600) + part(600, 300) + part(0, 300, "big"))
    taken(lake, path)
    assert len(packed) == 2 and min(packed.values()) > 1
    table = packets(lake)
    assert table.column("timestamp").to_pylist() == [
        at(second) for second in (*range(300), *range(600, 900), *range(1800, 2400))
    ]
    assert {digests.bare(file.name).rpartition("-")[2] for file in lake.packets.glob("link=*/hour=*/*.parquet")} == {
        row.attempt for row in read_captures(lake, ["a"])["a"]
    }


def test_frames_are_found_in_the_file_whatever_order_it_is_read_in(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(part(1800, 50) + part(0, 50))
    taken(lake, path)
    out = tmp_path / "out.pcap"
    said = lowwater("export", "--lake", lake.root, "--link", "a", "--where", "destPort = 7", "--out", out)
    assert said.code == 0, said.err
    with out.open("rb") as file:
        found = [(time, dpkt.ethernet.Ethernet(frame).data.data.dport) for time, frame in dpkt.pcap.Reader(file)]
    assert found == [(at(7) / 1e9, 7), (at(1807) / 1e9, 7)]


def test_captures_in_a_file_may_overlap_by_the_skew_as_files_may(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(part(0, 60) + part(50, 60))
    with pytest.raises(OverlapError) as found:
        taken(lake, path)
    assert f"{path} is 2 captures, one behind the other, and the one at byte {len(part(0, 60)):,} begins at" in str(
        found.value
    )
    assert "9 s before another one ends" in str(found.value) and 'skew = "9s"' in found.value.hint
    path.write_bytes(part(50, 60) + part(0, 60))
    with pytest.raises(OverlapError, match="the one at byte 0 begins"):
        taken(lake, path)
    done = taken(lake, path, Config(links={"a": Link(skew="9s")}))
    assert (done.capture.packets, done.capture.malformed) == (120, 0)


def test_a_task_on_another_machine_gets_the_bytes_of_its_chunks(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(part(1800, 50) + part(600, 50, "big") + part(0, 50))
    made = index(path, 1 << 61, 1000)
    assert [begin for begin, _ in made.summary.order.ranges] == [2 * len(part(0, 50)), len(part(0, 50)), 0]
    chunks = tuple(chunk for chunk in made.chunks if chunk.position < 100)  # those of the last two captures in the file
    task = tasks.PackTask(tmp_path, "a", 0, path, "b" * 12, 0, False, ContentOptions(), chunks)
    near, sent = tasks.received(tasks.send(task, tmp_path, made.summary.sha256))
    assert sent is not None and sent.stat().st_size < path.stat().st_size and near.chunks is not None
    path.unlink()
    there = [row for chunk in near.chunks for _, batch in read_chunk(chunk) for row in batch.to_pylist()]
    assert [(row["position"], row["destPort"]) for row in there] == [(at, at % 50) for at in range(100)]
