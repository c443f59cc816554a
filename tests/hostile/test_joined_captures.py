"""Joined captures of strangers: headers in payloads, headers without end, bombs in another order."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest

from lowwater.capture import reader
from lowwater.capture.records.parts import ReadingOrder
from lowwater.config import Config, Link
from lowwater.errors import CaptureError, LakeError
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.limits import CAPTURE_PARTS
from tests import capturemaker as maker
from tests.lake.support import at

HEADER = maker.pcap_bytes([], snaplen=1 << 24)
FRAME = maker.udp("10.0.0.1", "10.0.0.2", 53, 53, b"x" * 40)


def record(second: float, frame: bytes) -> bytes:
    return maker.pcap_bytes([(at(second), frame)], snaplen=1 << 24)[24:]


def read(path: Path) -> reader.CaptureIndex:
    """The index of a file, of which each byte is accounted for."""
    found = reader.index(path, 1 << 61)
    refused = sum(bad.length for bad in found.malformed)
    assert found.summary.record_bytes + found.summary.overhead + refused == found.summary.unpacked
    return found


@pytest.mark.parametrize("kind", ["headers", "a chain that ends with the record"])
def test_a_payload_of_headers_or_records_before_damage_is_no_part(tmp_path: Path, kind: str) -> None:
    """Each place was tried by a walk to the end of the record: hours for a record of 16 MiB."""
    inner = HEADER * 80_000 if kind == "headers" else struct.pack("<IIII", at(2) // 10**9, 0, 0, 1) * 120_000
    path = tmp_path / "one.pcap"
    path.write_bytes(HEADER + record(1, FRAME) + record(2, inner) + b"\xff" * 16 + record(3, FRAME) * 5)
    found = read(path)
    assert (found.summary.packets, found.summary.malformed, found.summary.parts) == (7, 1, 1)


@pytest.mark.parametrize("order", [1, -1], ids=["in order", "in the other order"])
def test_captures_beyond_the_most_are_damage(tmp_path: Path, order: int) -> None:
    parts = [maker.pcap_bytes([(at(number / 100), FRAME)]) for number in range(CAPTURE_PARTS + 100)]
    path = tmp_path / "one.pcap"
    path.write_bytes(b"".join(parts[::order]))
    found = read(path)
    assert found.summary.parts == CAPTURE_PARTS + 1
    assert found.summary.packets + found.summary.malformed >= CAPTURE_PARTS + 1 and found.summary.malformed


def test_a_compressed_file_without_room_is_read_in_its_own_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = open_lake(tmp_path / "lake")
    path = tmp_path / "one.pcap.gz"
    path.write_bytes(gzip.compress(HEADER + record(100, FRAME) * 60 + HEADER + record(1, FRAME) * 60))
    monkeypatch.setattr(reader, "REORDERED_BYTES", 1000)
    with pytest.raises(CaptureError, match="too large to be unpacked"):
        ingest(lake, "a", [path], Config())
    (done,) = ingest(lake, "a", [path], Config(links={"a": Link(skew="200s")}))
    assert "too large to be unpacked" in done.note
    (capture,) = read_captures(lake, ["a"])["a"]
    assert (capture.packets, capture.first, capture.parts) == (120, at(100), None)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "5",
        "[[1, 2, 3]]",
        '[["a", "b"]]',
        "[[-5, 99]]",
        "[[5, 5]]",
        "[[0, 5], [3, 9]]",
        "[" * 200_000,
        "[[0, null]]",
    ],
)
def test_an_order_that_nobody_wrote_is_named(text: str) -> None:
    with pytest.raises(LakeError, match="no version of Lowwater wrote"):
        ReadingOrder.parse(text)
