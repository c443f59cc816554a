"""Formats of other tools: snoop against tshark and pcap, whole and damaged; refused formats and their hints."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lowwater.capture import read
from lowwater.capture.reader import open_capture
from lowwater.errors import CaptureError
from tests import capturemaker as maker
from tests.capture.fuzz_captures import check_file
from tests.capture.fuzz_inputs import damaged
from tests.capture.linkframes import LINKS
from tests.capture.tsharkoracle import compare
from tests.pcapngmaker import Section

SECOND = 1_000_000_000
START = 1_600_000_000 * SECOND
FORGIVING = 1 << 61
HEADER = 16


def records(count: int, seed: int = 1) -> list[maker.Record]:
    """Frames of Ethernet, whole and cut, a quarter of a second apart."""
    dice, found = random.Random(seed), []
    for number in range(count):
        frame = LINKS[maker.ETHERNET].drawn(dice)
        cut = frame[: dice.randrange(14, len(frame) + 1)] if number % 3 == 0 else frame
        found.append((START + number * SECOND // 4, cut, len(frame)))
    return found


def rows(path: Path, **options: Any) -> list[dict[str, Any]]:
    return [row for batch in read(path, FORGIVING, **options) for row in batch.to_pylist()]


@pytest.mark.parametrize("datalink", [0, 4])
def test_a_snoop_capture_has_the_rows_of_the_same_records_in_a_pcap(tmp_path: Path, datalink: int) -> None:
    path, other = tmp_path / "one.snoop", tmp_path / "one.pcap"
    path.write_bytes(maker.snoop_bytes(records(60), datalink))
    other.write_bytes(maker.pcap_bytes(records(60)))
    header = open_capture(path)
    assert (header.format, header.link_type, header.resolution, header.version) == ("snoop", "EN10MB", "us", (2, 0))
    assert rows(path) == rows(other) == rows(path, chunk_bytes=100)
    reader = read(path, FORGIVING)
    assert sum(batch.num_rows for batch in reader) == 60
    summary = reader.summary
    assert summary is not None and (summary.format, summary.overhead, summary.ended_cleanly) == ("snoop", HEADER, True)
    assert summary.record_bytes + summary.overhead == summary.bytes == path.stat().st_size


@pytest.mark.slow
def test_what_editcap_writes_equals_tshark(tmp_path: Path) -> None:
    if shutil.which("editcap") is None:
        pytest.skip("no editcap on this machine")
    source, path = tmp_path / "one.pcap", tmp_path / "one.snoop"
    source.write_bytes(maker.pcap_bytes(records(150, 2)))
    subprocess.run(["editcap", "-F", "snoop", source, path], check=True, capture_output=True)
    equal, found = compare(path)
    assert (equal["timestamp"], equal["len"], equal["caplen"], found) == (150, 150, 150, [])
    assert rows(path) == rows(source)


def begin_of(number: int, made: list[maker.Record]) -> int:
    return len(maker.snoop_bytes(made[:number]))


@pytest.mark.parametrize(("field", "value"), [(4, 1 << 24), (8, 10), (8, 0xFFFF_FFFF), (8, 30_000), (4, 0xFFFF_FFFF)])
def test_a_record_whose_lengths_do_not_fit_is_one_malformed_row(tmp_path: Path, field: int, value: int) -> None:
    made, path = records(40), tmp_path / "odd.snoop"
    data, at = bytearray(maker.snoop_bytes(made)), begin_of(10, made)
    struct.pack_into(">I", data, at + field, value)
    path.write_bytes(data)
    reader = read(path, FORGIVING)
    assert sum(batch.num_rows for batch in reader) == 39
    (bad,) = reader.malformed
    assert (bad.position, bad.offset, bad.length, bad.reason) == (10, at, begin_of(11, made) - at, "length")


@pytest.mark.slow
def test_damaged_snoop_captures_keep_every_promise(tmp_path: Path) -> None:
    dice, seeds = random.Random(5), [maker.snoop_bytes(records(6, seed), padding=seed) for seed in range(4)]
    path, kinds = tmp_path / "one.snoop", set()
    for _ in range(150):
        kinds.add(check_file(damaged(dice, seeds), path, dice))
    assert kinds == {"read", "read with damage", "refused"}


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("minor", [0, 2])
def test_a_pcapng_of_the_old_draft_has_the_bytes_of_its_version_swapped(tmp_path: Path, order: str, minor: int) -> None:
    section, frame = Section(order), maker.udp("10.0.0.1", "10.0.0.2", 5, 6)
    data = bytearray(section.header() + section.interface("eth0") + section.packet(START // 1000, frame))
    path, draft = tmp_path / "one.pcapng", tmp_path / "draft.pcapng"
    path.write_bytes(data)
    struct.pack_into("<HH" if order == "little" else ">HH", data, 12, 1 << 8, minor << 8)
    draft.write_bytes(data)
    assert open_capture(draft).version == (1, minor)
    assert rows(draft) == rows(path) != []


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"GMBU" + bytes(200), "a capture of Network Monitor 2"),
        (b"RTSS" + bytes(200), "a capture of Network Monitor 1"),
        (maker.snoop_bytes([], version=3), "snoop version 3"),
        (maker.snoop_bytes([], 8), "datalink type 8"),
    ],
)
def test_a_format_that_is_not_read_is_named_with_its_converter(tmp_path: Path, data: bytes, says: str) -> None:
    path = tmp_path / "other"
    path.write_bytes(data)
    with pytest.raises(CaptureError, match=says) as raised:
        open_capture(path)
    assert "editcap -F pcap" in raised.value.hint
