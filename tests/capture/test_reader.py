"""The reader of pcap: files that are cut, records that are malformed, old versions, and what is refused."""

from __future__ import annotations

import statistics
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from lowwater.capture import open_capture, read
from lowwater.capture.reader import Malformed
from lowwater.capture.records.sanity import Median
from lowwater.errors import CaptureError
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


def test_a_capture_without_packets_is_valid(tmp_path: Path) -> None:
    reader, rows = whole(saved(tmp_path, maker.pcap_bytes([])))
    summary = reader.summary
    assert rows == [] and reader.malformed == [] and summary is not None
    (only,) = summary.interfaces
    assert (summary.packets, only.first, only.median, summary.ended_cleanly) == (0, None, None, True)


@pytest.mark.parametrize(
    ("data", "words", "hint"),
    [
        (b"", "empty file (0 bytes)", ""),
        (b"hello, this is no capture", "begins with 68 65 6c 6c", ""),
        (maker.pcap_bytes([])[:11], "11 of 24 bytes", ""),
        (b"\xa1", "begins with a1", ""),
        (b"BZh9" + bytes(30), "a bzip2 file, which is not supported", ""),
        (b"\xd4\xc3\xb2\xa1\x01\x00\x00\x00" + bytes(16), "version 1.0 is not supported", ""),
        (b"GMBU" + bytes(200), "a capture of Network Monitor 2", "editcap -F pcap"),
        (b"RTSS" + bytes(200), "a capture of Network Monitor 1", "editcap -F pcap"),
        (b"snoop\0\0\0" + bytes(30), "snoop version 0 is not supported", "editcap -F pcap"),
        (maker.snoop_bytes([], version=3), "snoop version 3", "editcap -F pcap"),
        (maker.snoop_bytes([], 8), "datalink type 8", "editcap -F pcap"),
    ],
)
def test_what_is_no_capture_is_refused_by_name(tmp_path: Path, data: bytes, words: str, hint: str) -> None:
    path = saved(tmp_path, data)
    for opened in (open_capture, lambda path: read(path, SECOND)):
        with pytest.raises(CaptureError) as caught:
            opened(path)
        assert str(path) in caught.value.message and words in caught.value.message
        assert caught.value.hint and hint in caught.value.hint


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
