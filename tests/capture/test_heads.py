"""The digest of the beginning of a frame, beside FNV-1a written out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from lowwater.capture import read
from lowwater.capture.content.retention import ContentOptions
from lowwater.capture.digests import heads
from tests.capturemaker import ethernet, pcap_bytes


def fnv(data: bytes) -> int:
    digest = 0xCBF29CE484222325
    for byte in data[:64]:
        digest = (digest ^ byte) * 0x100000001B3 % (1 << 64)
    return digest - (1 << 64) if digest >= 1 << 63 else digest


@given(st.lists(st.binary(max_size=100), min_size=1, max_size=20))
def test_heads_are_fnv(frames: list[bytes]) -> None:
    lengths = [len(frame) for frame in frames]
    begins = np.cumsum([0, *lengths[:-1]])
    batch = pa.record_batch({"caplen": pa.array(lengths, pa.int32())})
    buffer = np.frombuffer(bytearray().join(frames) + b"\0", np.uint8)
    assert heads(buffer, begins, batch).to_pylist() == [fnv(frame) for frame in frames]


def test_the_published_vectors() -> None:
    assert [fnv(text) % (1 << 64) for text in (b"", b"a", b"foobar")] == [
        0xCBF29CE484222325,
        0xAF63DC4C8601EC8C,
        0x85944171F73967E8,
    ]


@pytest.mark.parametrize("snaplen", [20, 64, 96])
def test_a_link_keeps_them(tmp_path: Path, snaplen: int) -> None:
    frames = [ethernet(bytes(range(size))) for size in (0, 5, 49, 50, 51, 90)]
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap_bytes([(at, frame) for at, frame in enumerate(frames)], nanoseconds=True, snaplen=snaplen))
    table = pa.Table.from_batches(read(path, 60_000_000_000, content=ContentOptions(sampling=True)))
    assert table.column("frame_head").to_pylist() == [fnv(frame[:snaplen]) for frame in frames]
    assert "frame" not in table.column_names
