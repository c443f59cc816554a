"""Packets without an IP header: their types, and which of them may carry IP."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowwater.capture import read
from lowwater.capture.headers.undecoded import MOST_TYPES, Count, Share, may_carry_ip
from lowwater.capture.reader import index, read_chunk
from tests import capturemaker as maker
from tests.capture.linkframes import PACKET4

START = 1_600_000_000_000_000_000
BARE = bytes(46)


def share(path: Path, frames: list[bytes], link: int = maker.ETHERNET) -> Share:
    path.write_bytes(maker.pcap_bytes([(START, frame) for frame in frames], link_type=link))
    reader = read(path, 1 << 61)
    packets = sum(batch.num_rows for batch in reader)
    assert reader.summary is not None
    (part,) = reader.summary.interfaces
    assert part.wire == sum(map(len, frames)) and packets == len(frames)
    return Share.of(part.types, packets, part.wire)


@pytest.mark.parametrize(
    ("text", "frame", "link"),
    [
        ("0x8874", maker.ethernet(BARE, 0x8874), 1),
        ("0x8874", maker.ethernet(maker.tag(0x8926, BARE, 0x8874)[1], 0x8926, vlans=[7]), 1),
        ("0x8874", maker.ethernet(maker.backbone(maker.ethernet(BARE, 0x8874))[1], 0x88E7), 1),
        ("0x88e5", maker.ethernet(maker.macsec(PACKET4, control=0x0C), 0x88E5), 1),
        ("0x0800", maker.ethernet(BARE, 0x0800), 1),
        ("0x86dd", maker.ethernet(b"", 0x86DD), 1),
        ("MPLS pseudowire", maker.ethernet(maker.mpls(BARE, [16]), 0x8847), 1),
        ("LLC 0xaa", maker.ieee802_3(b"\xaa\xaa\x00" + BARE), 1),
        ("SNAP", maker.ieee802_3(maker.snap(BARE, organisation=0x123456)), 1),
        ("PPP 0x00fd", maker.ethernet(maker.pppoe(maker.ppp(BARE, 0xFD)), 0x8864), 1),
        ("0x8864", maker.ethernet(maker.pppoe(maker.ppp(PACKET4), code=9), 0x8864), 1),
        ("cut", maker.ethernet(BARE)[:9], 1),
        ("ISL type 1", maker.isl(BARE, kind=1), 1),
        ("802.11 encrypted", maker.wifi(BARE, (1, 2, 3), protected=True), maker.WIFI),
        ("802.11 aggregate", maker.wifi(maker.snap(PACKET4), (1, 2, 3), qos=0x80), maker.WIFI),
        ("link type SLIP", PACKET4, 8),
        ("family 15", maker.loopback(PACKET4, 15), maker.NULL),
        ("IP version 3", b"\x35" + BARE, maker.RAW),
    ],
)
def test_what_may_carry_ip_is_named(tmp_path: Path, text: str, frame: bytes, link: int) -> None:
    found = share(tmp_path / "one.pcap", [frame], link)
    assert found.types == {text: Count(1, len(frame))}
    assert (found.largest, found.count) == (1.0, Count(1, len(frame)))
    assert found.words.startswith("1 of 1 packets (100.00%, 100.00% of the bytes) may carry IP") and text in found.words


@pytest.mark.parametrize(
    ("frame", "link"),
    [
        *((maker.ethernet(BARE, kind), 1) for kind in (0x0806, 0x8035, 0x88CC, 0x8892, 0x88B8, 0x88BA, 0x888E, 0x88F7)),
        *((maker.ethernet(BARE, kind, vlans=[7]), 1) for kind in (0x8809, 0x8902, 0x88A4, 0x88FB, 0x8863, 0x22F4)),
        *((maker.ieee802_3(bytes([sap, sap, 3]) + BARE), 1) for sap in (0x42, 0xFE, 0xE0, 0xF0)),
        (maker.ieee802_3(maker.snap(BARE, 0x2000, organisation=0x0C)), 1),
        (maker.ethernet(maker.trill(maker.ethernet(BARE, 0x0806))[1], 0x22F3), 1),
        (maker.ethernet(maker.pppoe(maker.ppp(BARE, 0xC021)), 0x8864), 1),
        (maker.ethernet(maker.mpls(b"\x10\0\0\x07" + BARE, [16]), 0x8847), 1),
        (maker.wifi(BARE, (1, 2, 3), kind=0), maker.WIFI),
        (maker.wifi(BARE, (1, 2, 3), kind=1), maker.WIFI),
        (maker.usbmon(BARE), maker.USB_MMAPPED),
        (BARE, 227),
    ],
)
def test_known_protocols_beside_ip_alarm_nobody(tmp_path: Path, frame: bytes, link: int) -> None:
    found = share(tmp_path / "one.pcap", [frame], link)
    assert (found.types, found.largest, found.words, found.packets) == ({}, 0.0, "", 1)


def test_the_larger_share_counts(tmp_path: Path) -> None:
    frames = [maker.ethernet(PACKET4)] * 3 + [maker.ethernet(bytes(1000), 0x8874)]
    found = share(tmp_path / "one.pcap", frames)
    assert found.largest == 1014 / sum(map(len, frames)) > 1 / 4


def test_chunks_count_what_one_pass_counts_and_many_types_are_others(tmp_path: Path) -> None:
    path = tmp_path / "one.pcap"
    kinds = [0x7000 + number for number in range(50) for _ in range(number % 7 + 1)]
    share(path, [maker.ethernet(BARE, kind) for kind in kinds])
    reader = read(path, 1 << 61)
    list(reader)
    assert reader.summary is not None
    whole = reader.summary.interfaces[0].types
    assert len(whole) == MOST_TYPES + 1 and sum(count.packets for count in whole.values()) == len(kinds)
    assert whole["other"].packets > 0 and may_carry_ip("other")
    counted: dict = {}
    for chunk in index(path, 1 << 61, 1000).chunks:
        list(read_chunk(chunk, undecoded=counted))
    assert counted[0].largest == whole
