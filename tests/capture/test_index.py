"""Chunks of a capture that changed; `test_resync` and `test_bounds` hold chunks against one pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowwater.capture.reader import index, read_chunk
from lowwater.errors import CaptureError
from tests import capturemaker as maker

SECOND = 1_000_000_000
START = 1_600_000_000 * SECOND
FRAMES = [maker.tcp("10.0.0.1", "10.0.0.2", 1, 80), maker.arp()]


def test_a_file_that_changed_after_it_was_indexed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "one.pcap"
    path.write_bytes(maker.pcap_bytes((START + number, FRAMES[0]) for number in range(9)))
    (chunk,) = index(path, SECOND).chunks
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CaptureError, match="changed while it was read"):
        list(read_chunk(chunk))
    path.write_bytes(maker.pcap_bytes((START + number, FRAMES[1]) for number in range(9)))
    with pytest.raises(CaptureError, match="changed while it was read"):
        list(read_chunk(chunk))
