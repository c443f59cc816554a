"""Chunks of a capture: decoded one by one, in any order, they hold what one pass over it gives."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from lowwater.capture import read
from lowwater.capture.reader import BATCH, index, read_chunk
from lowwater.errors import CaptureError
from tests import capturemaker as maker
from tests.breadth import examples

SECOND = 1_000_000_000
START = 1_600_000_000 * SECOND
FRAMES = [maker.tcp("10.0.0.1", "10.0.0.2", 1, 80), maker.udp("::1", "::2", 5, 53, b"x" * 900), maker.arp()]


def rows(batches: Any) -> list[dict[str, Any]]:
    return pa.Table.from_batches(list(batches), BATCH).to_pylist()


@settings(max_examples=examples(60))
@given(
    st.lists(st.integers(0, 90) | st.just(4_000), max_size=300),
    st.integers(24, 20_000),
    st.integers(0, 60),
    st.randoms(use_true_random=False),
)
def test_chunks_hold_what_one_pass_gives(
    tmp_path_factory: Any, seconds: list[int], size: int, cut: int, order: random.Random
) -> None:
    records = [(START + second * SECOND, FRAMES[number % 3]) for number, second in enumerate(seconds)]
    data = maker.pcap_bytes(records)
    path = tmp_path_factory.mktemp("chunks") / "one.pcap"
    path.write_bytes(data[: max(24, len(data) - cut)])
    reader = read(path, 61 * SECOND, identified=True)
    whole = rows(reader)
    found = index(path, 61 * SECOND, size)
    chunks = [pickle.loads(pickle.dumps(chunk)) for chunk in found.chunks]
    order.shuffle(chunks)
    parts = {chunk.position: rows(batch for _, batch in read_chunk(chunk)) for chunk in chunks}
    assert [row for position in sorted(parts) for row in parts[position]] == whole
    assert tuple(reader.malformed) == found.malformed
    assert reader.summary is not None
    (only,) = reader.summary.interfaces
    assert replace(reader.summary, interfaces=(replace(only, undecoded=0),)) == found.summary


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
