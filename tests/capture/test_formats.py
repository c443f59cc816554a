"""snoop and ERF: the rows of the same records in a pcap, those of tshark, one malformed row for what is no record."""

from __future__ import annotations

import gzip
import random
import shutil
import struct
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from lowwater.capture.reader import index, open_capture, read_chunk
from tests import capturemaker as maker
from tests.capture import fuzz_inputs
from tests.capture.fuzz_captures import check_file, saved, whole
from tests.capture.fuzz_inputs import SECOND, START, damaged
from tests.capture.linkframes import LINKS, PACKET4
from tests.capture.tsharkoracle import compare

pytestmark = pytest.mark.slow
HDLC, IPV4, IPV6 = 1, 22, 23
Format = Callable[[list[maker.Record]], bytes]


def cut_to_words(packet: bytes, before: int, dice: random.Random) -> bytes:
    """The beginning of a packet that fills a record of ERF to 8 bytes."""
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


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (partial(maker.snoop_bytes, datalink=0), ("snoop", "EN10MB", "us", (2, 0))),
        (partial(maker.snoop_bytes, datalink=4, padding=5), ("snoop", "EN10MB", "us", (2, 0))),
        (maker.erf_bytes, ("erf", "EN10MB", "2^-32", (0, 0))),
    ],
    ids=["snoop of type 0", "snoop of type 4", "ERF"],
)
def test_a_capture_has_the_rows_of_the_same_records_in_a_pcap(
    tmp_path: Path, write: Format, said: tuple[object, ...]
) -> None:
    path = saved(tmp_path, write(records(80)))
    header = open_capture(path)
    assert (header.format, header.link_type, header.resolution, header.version) == said
    _, expected = whole(saved(tmp_path, maker.pcap_bytes(records(80), nanoseconds=said[0] == "erf"), "pcap"))
    reader, rows = whole(path)
    assert reader.summary is not None and reader.summary.format == said[0] and reader.summary.ended_cleanly
    _, pieces = whole(path, chunk_bytes=100)
    _, unpacked = whole(saved(tmp_path, gzip.compress(path.read_bytes()), "packed"))
    chunks = index(path, 1 << 61, 600).chunks
    parts = [row for chunk in chunks for _, batch in read_chunk(chunk) for row in batch.to_pylist()]
    assert rows == pieces == unpacked == parts == expected
    assert len(rows) == 80 and len(chunks) > 2


def test_ports_of_erf_are_interfaces_in_the_order_of_their_packets(tmp_path: Path) -> None:
    frame = maker.ethernet(PACKET4)
    ports = [3] * 70 + [0] * 70 + [6, 3, 0] * 20
    path = saved(tmp_path, b"".join(maker.erf_record(START + n, frame, 2, port) for n, port in enumerate(ports)))
    reader, rows = whole(path)
    assert [(link.index, link.name) for link in reader.interfaces] == [(0, "#3"), (1, ""), (2, "#6")]
    chunks = index(path, 1 << 61, 1000).chunks
    parts = [(link.name, row["position"]) for chunk in chunks for link, batch in read_chunk(chunk)
             for row in batch.to_pylist()]  # fmt: skip
    assert len(chunks) > 2 and sorted(row["position"] for row in rows) == list(range(len(ports)))
    assert sorted(parts, key=lambda part: part[1]) == [(f"#{port}" if port else "", n) for n, port in enumerate(ports)]


def test_what_editcap_writes_as_snoop_equals_tshark(tmp_path: Path) -> None:
    if shutil.which("editcap") is None:
        pytest.skip("no editcap on this machine")
    source, path = saved(tmp_path, maker.pcap_bytes(records(150, 2))), tmp_path / "one.snoop"
    subprocess.run(["editcap", "-F", "snoop", source, path], check=True, capture_output=True)
    equal, found = compare(path)
    assert (equal["timestamp"], equal["len"], equal["caplen"], found) == (150, 150, 150, [])
    assert whole(path)[1] == whole(source)[1]


def test_records_of_every_type_of_erf_equal_tshark(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("write", "field", "wrong"),
    [*((maker.snoop_bytes, 4, struct.pack(">I", length)) for length in (1 << 24, 0xFFFF_FFFF)),
     *((maker.snoop_bytes, 8, struct.pack(">I", length)) for length in (10, 30_000, 0xFFFF_FFFF)),
     *((maker.erf_bytes, 8, bytes([kind])) for kind in (0, 26, 77)), (maker.erf_bytes, 11, b"\5"),
     (maker.erf_bytes, 8, b"\x82")],
)  # fmt: skip
def test_a_record_that_is_none_is_one_malformed_row(tmp_path: Path, write: Format, field: int, wrong: bytes) -> None:
    made = records(40)
    data, (at, end) = bytearray(write(made)), (len(write(made[:count])) for count in (10, 11))
    data[at + field : at + field + len(wrong)] = wrong
    if wrong == b"\x82":  # extension headers without an end
        data[at + 16 : end] = b"\xff" * (end - at - 16)
    reader, rows = whole(saved(tmp_path, bytes(data)))
    assert len(rows) == 39
    (bad,) = reader.malformed
    assert (bad.position, bad.offset, bad.length, bad.reason) == (10, at, end - at, "length")


@pytest.mark.parametrize(
    "seeds",
    [
        [maker.snoop_bytes(records(6, seed), padding=seed) for seed in range(4)],
        [*(maker.erf_bytes(records(6, seed)) for seed in range(3)), fuzz_inputs.erf(fuzz_inputs.frames())],
    ],
    ids=["snoop", "ERF"],
)
def test_damaged_captures_keep_every_promise(tmp_path: Path, seeds: list[bytes]) -> None:
    dice = random.Random(5)
    outcomes = {check_file(damaged(dice, seeds), tmp_path / "one", dice) for _ in range(150)}
    assert outcomes == {"read", "read with damage", "refused"}
