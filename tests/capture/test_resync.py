"""After damage the reading goes on: where, how much is lost, and that windows and chunks change nothing about it."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from lowwater.capture.reader import index, read_chunk
from lowwater.capture.records.facts import Malformed
from lowwater.errors import CaptureError
from tests import capturemaker as maker
from tests.breadth import examples
from tests.capture.fuzz_captures import MAX_JUMP, check_file, saved, whole
from tests.capture.fuzz_inputs import SECOND, START, damaged, files
from tests.pcapngmaker import Section

COUNT = 40
FORMATS = ("little", "big", "kuznetzov", "pcapng little", "pcapng big")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("resync")


def records(name: str) -> tuple[bytes, list[bytes]]:
    """The bytes before the records of a capture, and the records."""
    numbers = Random(3)
    frames = [maker.udp("10.0.0.1", "10.0.0.2", n, 53, numbers.randbytes(n % 50)) for n in range(COUNT)]
    if name.startswith("pcapng"):
        section = Section(name.split()[1])
        head = section.header() + section.interface("a", resolution=9)
        return head, [section.packet(START + n * SECOND, frame) for n, frame in enumerate(frames)]
    if name == "kuznetzov":
        return maker.pcap_bytes([], modified=True), [
            maker.pcap_bytes([(START + n * SECOND, frame)], modified=True)[24:] for n, frame in enumerate(frames)
        ]
    made = [maker.pcap_bytes([(START + n * SECOND, frame)], name)[24:] for n, frame in enumerate(frames)]
    return maker.pcap_bytes([], name), made


def kept(rows: list[dict[str, Any]]) -> list[int]:
    """The numbers that the records were made with."""
    return [row["srcPort"] for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("size", [24, 1000, 1 << 20])
def test_a_length_that_cannot_be_loses_one_record(folder: Path, name: str, size: int) -> None:
    head, made = records(name)
    at = {"kuznetzov": 8, "pcapng little": 4, "pcapng big": 4}.get(name, 8)
    for number in (0, 1, 17, COUNT - 2):
        wrong = bytearray(made[number])
        wrong[at : at + 4] = b"\x7f\xff\xff\x7f"
        before, after = head + b"".join(made[:number]), b"".join(made[number + 1 :])
        reader, rows = whole(saved(folder, before + wrong + after), MAX_JUMP, chunk_bytes=size)
        assert kept(rows) == [n for n in range(COUNT) if n != number]
        arrival = START + (number - 1) * SECOND if number else None
        reason = "block" if name.startswith("pcapng") else "length"
        assert reader.malformed == [Malformed(number, len(before), len(wrong), reason, arrival)]
        assert [row["position"] for row in rows] == kept(rows)
        assert reader.summary is not None and reader.summary.ended_cleanly


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=examples(15))
@given(data=st.data())
def test_bytes_lost_or_put_between_lose_no_other_record(folder: Path, name: str, data: st.DataObject) -> None:
    head, made = records(name)
    number = data.draw(st.integers(2, COUNT - 6))
    rubbish = b"\xff" * data.draw(st.integers(16, 300))
    size = data.draw(st.sampled_from([24, 100, 1 << 20]))
    between = rubbish.join((head + b"".join(made[:number]), b"".join(made[number:])))
    reader, rows = whole(saved(folder, between), MAX_JUMP, chunk_bytes=size)
    assert kept(rows) == list(range(COUNT))
    assert [(bad.position, bad.length) for bad in reader.malformed] == [(number, len(rubbish))]


@pytest.mark.parametrize("name", FORMATS)
def test_a_capture_in_a_payload_is_not_looked_into(folder: Path, name: str) -> None:
    head, made = records(name)
    inner = b"".join(made)
    frame = maker.udp("10.0.0.9", "10.0.0.2", 999, 53, head + inner)
    if name.startswith("pcapng"):
        outer = Section(name.split()[1]).packet(START + SECOND, frame)
    else:
        order = "big" if name == "big" else "little"
        outer = maker.pcap_bytes([(START + SECOND, frame)], order, modified=name == "kuznetzov")[24:]
    damage = head + made[0] + outer + made[2] + b"\xff" * 64 + b"".join(made[3:])
    reader, rows = whole(saved(folder, damage), MAX_JUMP, chunk_bytes=5000)
    assert kept(rows) == [0, 999, *range(2, COUNT)] and len(reader.malformed) == 1


@pytest.mark.parametrize("name", FORMATS)
def test_damage_is_between_chunks(folder: Path, name: str) -> None:
    head, made = records(name)
    wrong = b"\xff" * 100
    data = head + wrong.join(b"".join(made[begin : begin + 5]) for begin in range(0, COUNT, 5))
    file = saved(folder, data)
    reader, rows = whole(file, MAX_JUMP)
    found = index(file, MAX_JUMP)
    assert len(found.chunks) == 8 and found.malformed == tuple(reader.malformed) and len(found.malformed) == 7
    for number, bad in enumerate(found.malformed):
        assert (found.chunks[number].end, found.chunks[number + 1].begin) == (bad.offset, bad.offset + bad.length)
    assert [row for chunk in found.chunks for _, batch in read_chunk(chunk) for row in batch.to_pylist()] == rows


def test_a_file_that_changed_after_it_was_indexed_is_refused(tmp_path: Path) -> None:
    first, other = (maker.pcap_bytes((START + n, frame) for n in range(9)) for frame in (bytes(54), maker.arp()))
    (chunk,) = index(saved(tmp_path, first), SECOND).chunks
    for changed in (first[:-1], other):
        saved(tmp_path, changed)
        with pytest.raises(CaptureError, match="changed while it was read"):
            list(read_chunk(chunk))


SEEDS = files()


@pytest.mark.slow
@settings(max_examples=examples(120))
@given(st.integers(0, 1 << 32))
def test_random_damage_adds_up_whatever_windows_and_chunks(folder: Path, seed: int) -> None:
    random = Random(seed)
    check_file(damaged(random, SEEDS), folder / "one", random)
