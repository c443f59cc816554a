"""The reader of pcap: files that are cut, records that are malformed, old versions, and what is refused."""

from __future__ import annotations

import statistics
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from lowwater.capture.reader import Malformed
from lowwater.capture.records.sanity import Median
from tests import capturemaker as maker
from tests.breadth import some
from tests.capture.fuzz_captures import saved, whole
from tests.capture.fuzz_inputs import SECOND, START


def small() -> bytes:
    return maker.pcap_bytes(
        [(START + index * SECOND, maker.tcp("10.0.0.1", "10.0.0.2", 1, 80)[: 20 + 10 * index]) for index in range(4)]
    )


@pytest.mark.slow
@pytest.mark.parametrize("size", some(range(24, len(small()) + 1), 5))
def test_a_capture_cut_anywhere_is_accounted_for(tmp_path: Path, size: int) -> None:
    reader, _ = whole(saved(tmp_path, small()[:size]), chunk_bytes=64)
    ends = [24]
    for index in range(4):
        ends.append(ends[-1] + 16 + 20 + 10 * index)
    assert reader.summary is not None and reader.summary.ended_cleanly == (size in ends)
    if size not in ends:
        count, begin = max((number, end) for number, end in enumerate(ends) if end < size)
        arrival = START + (count - 1) * SECOND if count else None
        assert reader.malformed == [Malformed(count, begin, size - begin, "cut", arrival)]


def test_a_length_on_the_wire_beyond_two_gigabytes_is_malformed_alone(tmp_path: Path) -> None:
    records = [(START, maker.arp()), (START, maker.arp(), 1 << 31), (START, maker.arp(), (1 << 31) - 1)]
    reader, rows = whole(saved(tmp_path, maker.pcap_bytes(records)))
    assert [(row["position"], row["len"]) for row in rows] == [(0, 42), (2, (1 << 31) - 1)]
    assert reader.malformed == [Malformed(1, 24 + 58, 58, "wire-length", START)]


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize(
    ("version", "swapped", "modified"),
    [
        *(((major, minor), True, False) for major, minor in ((2, 0), (2, 2), (543, 0), (2, 3))),
        *((version, False, version == (2, 4)) for version in ((2, 3), (2, 4))),
    ],
)
def test_old_versions_and_kuznetzovs_are_read_as_libpcap_does(
    tmp_path: Path, order: str, version: tuple[int, int], swapped: bool, modified: bool
) -> None:
    frame = maker.tcp("10.0.0.1", "10.0.0.2", 1, 80)
    records = [(START, frame, 1500), (START + SECOND, frame[:20], 60)]
    data = maker.pcap_bytes(records, order, version=version, swapped=swapped, modified=modified)
    reader, rows = whole(saved(tmp_path, data))
    assert (reader.header.version, reader.header.modified) == (version, modified)
    assert [(row["caplen"], row["len"], row["srcPort"]) for row in rows] == [(54, 1500, 1), (20, 60, None)]
    assert reader.summary is not None and reader.summary.record_bytes == len(data) - 24 and not reader.malformed


@given(st.lists(st.integers(0, (1 << 62) - 1) | st.integers(0, 3), max_size=60), st.integers(0, 20), st.integers(1, 9))
def test_median_of_more_than_memory(numbers: list[int], in_memory: int, piece: int) -> None:
    median = Median(in_memory)
    for begin in range(0, len(numbers), piece):
        median.add(np.array(numbers[begin : begin + piece], np.int64))
    assert median.value() == (statistics.median_low(numbers) if numbers else None)
    median.close()
