"""ERF: generated records of every type against pcap and tshark, ports as interfaces, damage, and what is no ERF."""

from __future__ import annotations

import gzip
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.capture import read
from lowwater.capture.reader import index, open_capture, read_chunk
from tests import capturemaker as maker
from tests.capture import fuzz_inputs
from tests.capture.fuzz_captures import check_file
from tests.capture.fuzz_inputs import damaged
from tests.capture.linkframes import LINKS, PACKET4
from tests.capture.tsharkoracle import compare

SECOND = 1_000_000_000
START = 1_600_000_000 * SECOND
FORGIVING = 1 << 61
HDLC, CHANNEL_HDLC, IPV4, IPV6, INFINIBAND, ATM, PROVENANCE, PADDING = 1, 5, 22, 23, 21, 3, 27, 48


def cut_to_words(packet: bytes, before: int, dice: random.Random) -> bytes:
    """The beginning of a packet that fills a record to 8 bytes."""
    lengths = range(24 - before, len(packet), 8)
    return packet[: dice.choice(lengths)] if lengths else packet


def records(count: int, seed: int = 1) -> list[maker.Record]:
    """Frames of Ethernet, whole and cut, some ns apart from a quarter of a second."""
    dice, made = random.Random(seed), []
    for number in range(count):
        frame = LINKS[maker.ETHERNET].drawn(dice)
        cut = cut_to_words(frame, 2, dice) if number % 3 == 0 else frame
        made.append((START + number * (SECOND // 4 + 7), cut, len(frame)))
    return made


def rows(path: Path, **options: Any) -> list[dict[str, Any]]:
    return [row for batch in read(path, FORGIVING, **options) for row in batch.to_pylist()]


@pytest.mark.slow
def test_an_erf_capture_has_the_rows_of_the_same_records_in_a_pcap(tmp_path: Path) -> None:
    path, packed, other = tmp_path / "one.erf", tmp_path / "one.gz", tmp_path / "one.pcap"
    path.write_bytes(maker.erf_bytes(records(80)))
    packed.write_bytes(gzip.compress(path.read_bytes()))
    other.write_bytes(maker.pcap_bytes(records(80), nanoseconds=True))
    header = open_capture(path)
    assert (header.format, header.link_type, header.resolution) == ("erf", "EN10MB", "2^-32")
    whole = rows(other)
    assert rows(path) == rows(packed) == rows(path, chunk_bytes=100) == whole
    capture_index = index(path, FORGIVING, 600)
    assert len(capture_index.chunks) > 3
    parts = [row for chunk in capture_index.chunks for _, batch in read_chunk(chunk) for row in batch.to_pylist()]
    assert parts == whole
    reader = read(path, FORGIVING)
    list(reader)
    summary = reader.summary
    assert summary is not None and (summary.format, summary.overhead, summary.ended_cleanly) == ("erf", 0, True)
    assert summary.record_bytes == summary.bytes == path.stat().st_size


@given(st.integers(0, (1 << 32) * SECOND - 1))
def test_a_time_is_exact_to_the_nanosecond(stamp: int) -> None:
    parts = (stamp % SECOND << 32) // SECOND
    assert (parts * SECOND + (1 << 31) >> 32) == stamp % SECOND


@pytest.mark.slow
def test_ports_are_interfaces_in_the_order_of_their_packets(tmp_path: Path) -> None:
    frame, path = maker.ethernet(PACKET4), tmp_path / "one.erf"
    ports = [3] * 70 + [0] * 70 + [6, 3, 0] * 20
    path.write_bytes(b"".join(maker.erf_record(START + n, frame, 2, port) for n, port in enumerate(ports)))
    reader = read(path, FORGIVING)
    list(reader)
    assert [(link.index, link.name) for link in reader.interfaces] == [(0, "#3"), (1, ""), (2, "#6")]
    whole = sorted(row["position"] for row in rows(path))
    chunks = index(path, FORGIVING, 1000).chunks
    parts = [(link.name, row["position"]) for chunk in chunks for link, batch in read_chunk(chunk)
             for row in batch.to_pylist()]  # fmt: skip
    assert len(chunks) > 2 and whole == list(range(len(ports)))
    assert sorted(parts, key=lambda part: part[1]) == [(f"#{port}" if port else "", n) for n, port in enumerate(ports)]


@pytest.mark.slow
def test_records_of_every_type_equal_tshark(tmp_path: Path) -> None:
    if shutil.which("tshark") is None:
        pytest.skip("no tshark on this machine")
    dice, path = random.Random(3), tmp_path / "one.erf"
    drawn = {
        2: LINKS[maker.ETHERNET].drawn, 20: LINKS[maker.ETHERNET].drawn, HDLC: LINKS[maker.HDLC].drawn,
        17: LINKS[maker.PPP_SERIAL].drawn, IPV4: LINKS[maker.IPV4].drawn, IPV6: LINKS[maker.IPV6].drawn,
    }  # fmt: skip
    parts = []
    for number in range(240):
        kind = dice.choice(list(drawn))
        packet = drawn[kind](dice)
        short = cut_to_words(packet, {2: 2, 20: 2, 17: 4}.get(kind, 0), dice) if number % 4 == 0 else packet
        stamp = START + number * 333_333_337
        parts.append(maker.erf_record(stamp, short, kind, number % 4, wire=len(packet), extensions=dice.randrange(4)))
    path.write_bytes(b"".join(parts))
    equal, differences = compare(path)
    assert (equal["timestamp"], equal["len"], equal["caplen"], differences) == (240, 240, 240, [])
    assert equal["srcIP"] > 150


def begin_of(number: int, made: list[maker.Record]) -> int:
    return len(maker.erf_bytes(made[:number]))


@pytest.mark.parametrize(("field", "value"), [(8, 0), (8, 26), (8, 77), (11, 5), (8, 0x82)])
def test_a_record_that_is_none_is_one_malformed_row(tmp_path: Path, field: int, value: int) -> None:
    made, path = records(40), tmp_path / "odd.erf"
    data, at = bytearray(maker.erf_bytes(made)), begin_of(10, made)
    data[at + field] = value
    if value == 0x82:  # extension headers without an end
        data[at + 16 : begin_of(11, made)] = b"\xff" * (begin_of(11, made) - at - 16)
    path.write_bytes(data)
    reader = read(path, FORGIVING)
    assert sum(batch.num_rows for batch in reader) == 39
    (bad,) = reader.malformed
    assert (bad.position, bad.offset, bad.length, bad.reason) == (10, at, begin_of(11, made) - at, "length")


@pytest.mark.slow
def test_damaged_captures_keep_every_promise(tmp_path: Path) -> None:
    dice, seeds = random.Random(5), [maker.erf_bytes(records(6, seed)) for seed in range(3)]
    seeds.append(fuzz_inputs.erf(fuzz_inputs.frames()))
    outcomes = {check_file(damaged(dice, seeds), tmp_path / "one.erf", dice) for _ in range(150)}
    assert outcomes == {"read", "read with damage", "refused"}
