"""Link layers: generated frames of every kind against tshark, whole and cut, and the columns each kind fills."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.capture import read
from lowwater.capture.formats.header import DECODED
from lowwater.capture.headers.batches import decode_batch
from tests import capturemaker as maker
from tests.capture.tsharkoracle import compare

START = 1_600_000_000_000_000_000
FORGIVING = 1 << 61
FRAMES = 150
# A port above these means no protocol to tshark, which would then read on and guess.
PORTS = (40_000, 65_535)
RECORD_HEADER = bytes(16)
PACKET4 = maker.ipv4("10.0.0.1", "10.0.0.2", 17, maker.udp_header(5, 6))
PACKET6 = maker.ipv6("2001:db8::1", "2001:db8::2", 17, maker.udp_header(5, 6))
FIXED = ("position", "arrival", "timestamp", "len", "caplen")

Frame = Callable[[random.Random], bytes]


def network(dice: random.Random) -> tuple[int, bytes]:
    """Ether type and a random packet of IPv4 or IPv6."""
    payload = bytes(dice.randrange(20))
    sport, dport = dice.randint(*PORTS), dice.randint(*PORTS)
    protocol = dice.choice((6, 17))
    if protocol == 6:
        segment = maker.tcp_header(sport, dport, dice.randrange(256), dice.getrandbits(32), 0, data=payload)
    else:
        segment = maker.udp_header(sport, dport, payload)
    if dice.random() < 0.5:
        return 0x86DD, maker.ipv6(f"2001:db8::{dice.randrange(9999)}", "2001:db8::1", protocol, segment)
    hosts = [f"10.{dice.randrange(256)}.{dice.randrange(256)}.{dice.randrange(1, 255)}" for _ in range(2)]
    return 0x0800, maker.ipv4(*hosts, protocol, segment, ttl=dice.randrange(1, 256))


def mac(dice: random.Random) -> int:
    return 0x02_00_00_00_00_00 | dice.getrandbits(32)


def typed(dice: random.Random) -> tuple[int, bytes]:
    """An ether type and what stands behind it: a packet, under MPLS or PPPoE, under VLAN tags."""
    kind, packet = network(dice)
    shape = dice.randrange(4)
    if shape == 1:
        kind, packet = dice.choice((0x8847, 0x8848)), maker.mpls(packet, labels(dice))
    elif shape == 2:
        kind, packet = 0x8864, maker.pppoe(over_ppp(dice))
    packet, kind = maker.tagged(packet, kind, [dice.randrange(1, 4095) for _ in range(dice.randrange(3))])
    return kind, packet


def labels(dice: random.Random) -> list[int]:
    return [dice.randrange(16, 1 << 20) for _ in range(dice.randint(1, 4))]


def over_ppp(dice: random.Random, framed: bool = False) -> bytes:
    kind, packet = network(dice)
    number = {0x0800: 0x21, 0x86DD: 0x57}[kind]
    if dice.random() < 0.3:
        return maker.ppp(maker.mpls(packet, labels(dice)), dice.choice((0x0281, 0x0283)), framed)
    return maker.ppp(packet, number, framed, compressed=dice.random() < 0.3)


def over_ethernet(dice: random.Random) -> bytes:
    kind, packet = typed(dice)
    if dice.random() < 0.3:
        return maker.ieee802_3(maker.snap(packet, kind), mac(dice), mac(dice))
    return maker.ethernet(packet, kind, mac(dice), mac(dice))


def over_cooked(dice: random.Random) -> bytes:
    kind, packet = typed(dice)
    if dice.random() < 0.2:
        kind, packet = 4, maker.snap(packet, kind)
    return maker.linux_sll(packet, kind, mac(dice).to_bytes(6, "big"))


def over_cooked2(dice: random.Random) -> bytes:
    kind, packet = typed(dice)
    if dice.random() < 0.2:
        kind, packet = 4, maker.snap(packet, kind)
    return maker.linux_sll2(packet, kind, mac(dice).to_bytes(6, "big"))


def over_null(dice: random.Random) -> bytes:
    kind, packet = network(dice)
    return maker.loopback(packet, 2 if kind == 0x0800 else dice.choice((24, 28, 30)), dice.choice(("little", "big")))


def over_loop(dice: random.Random) -> bytes:
    kind, packet = network(dice)
    return maker.loopback(packet, 2 if kind == 0x0800 else dice.choice((24, 28, 30)))


def of_version(kind: int) -> Frame:
    return lambda dice: next(packet for found, packet in iter(lambda: network(dice), None) if found == kind)


def over_wifi(dice: random.Random, padded: bool = False) -> bytes:
    kind, packet = network(dice)
    shape = dice.randrange(6)
    addresses = [mac(dice) for _ in range(3)]
    if shape == 0:
        return maker.wifi(bytes(12), addresses, kind=0, subtype=8)  # a beacon
    to_ds, from_ds = dice.random() < 0.5, dice.random() < 0.5
    if to_ds and from_ds:
        addresses.append(mac(dice))
    if shape == 1:
        return maker.wifi(dice.randbytes(40), addresses, to_ds=to_ds, from_ds=from_ds, protected=True)
    return maker.wifi(
        maker.snap(packet, kind), addresses, to_ds=to_ds, from_ds=from_ds, padded=padded,
        qos=dice.choice((None, 0, 5)),
    )  # fmt: skip


def over_radiotap(dice: random.Random) -> bytes:
    padded = dice.random() < 0.4
    flags = 0x20 if padded else dice.choice((None, 0))
    return maker.radiotap(over_wifi(dice, padded), dice.random() < 0.5, flags, dice.choice((1, 2, 3)))


MAKERS: dict[int, Frame] = {
    maker.ETHERNET: over_ethernet,
    maker.LINUX_SLL: over_cooked,
    maker.LINUX_SLL2: over_cooked2,
    maker.NULL: over_null,
    maker.LOOP: over_loop,
    maker.PPP: lambda dice: over_ppp(dice, dice.random() < 0.5),
    maker.PPP_SERIAL: lambda dice: over_ppp(dice, True),
    maker.RAW12: lambda dice: network(dice)[1],
    maker.RAW14: lambda dice: network(dice)[1],
    maker.RAW: lambda dice: network(dice)[1],
    maker.IPV4: of_version(0x0800),
    maker.IPV6: of_version(0x86DD),
    maker.WIFI: over_wifi,
    maker.RADIOTAP: over_radiotap,
}


def test_every_decoded_link_type_has_a_maker() -> None:
    assert set(MAKERS) == DECODED


@pytest.mark.slow
@pytest.mark.parametrize("link", MAKERS)
def test_generated_frames_equal_tshark(tmp_path: Path, link: int) -> None:
    if shutil.which("tshark") is None:
        pytest.skip("no tshark on this machine")
    dice = random.Random(link)
    path = tmp_path / "one.pcap"
    path.write_bytes(maker.pcap_bytes(((START, MAKERS[link](dice)) for _ in range(FRAMES)), link_type=link))
    equal, found = compare(path)
    assert (equal["len"], found) == (FRAMES, [])


@pytest.mark.slow
@pytest.mark.parametrize("link", MAKERS)
def test_frames_cut_at_every_length_equal_tshark(tmp_path: Path, link: int) -> None:
    if shutil.which("tshark") is None:
        pytest.skip("no tshark on this machine")
    dice = random.Random(link)
    frames = [MAKERS[link](dice) for _ in range(8)]
    path = tmp_path / "one.pcap"
    cuts = [(START, frame[:length], len(frame)) for frame in frames for length in range(len(frame) + 1)]
    path.write_bytes(maker.pcap_bytes(cuts, link_type=link))
    equal, found = compare(path)
    assert (equal["len"], found) == (len(cuts), [])


def decoded(frame: bytes, link: int, after: bytes = b"", wire: int | None = None) -> dict[str, Any]:
    """The row of a frame in a buffer in which `after` follows it; `wire` is its length, that captured if not given."""
    buffer = np.array(bytearray(RECORD_HEADER + frame + after))
    records = np.array([[0, 0], [START, 0], [wire or len(frame), 0], [len(frame), 0]], np.int64)[:, :1]
    batch, _ = decode_batch(buffer, records, np.zeros(1, np.int64), -1, link)
    (row,) = batch.to_pylist()
    return {name: value for name, value in row.items() if name not in FIXED}


frames = st.sampled_from(sorted(MAKERS)).flatmap(
    lambda link: st.tuples(
        st.just(link), st.binary(max_size=80) | st.randoms(use_true_random=False).map(lambda dice: MAKERS[link](dice))
    )
)


@given(frames, st.integers(0, 120), st.lists(st.tuples(st.integers(0, 60), st.integers(0, 255)), max_size=3))
def test_nothing_is_read_beyond_the_captured_bytes(
    frame: tuple[int, bytes], cut: int, flips: list[tuple[int, int]]
) -> None:
    link, whole = frame[0], bytearray(frame[1])
    for at, value in flips:
        if at < len(whole):
            whole[at] = value
    short, rest = bytes(whole[:cut]), bytes(whole[cut:])
    row = decoded(short, link, rest + bytes(64), len(whole))
    for after in (b"", b"\xff" * 64, b"\x45" * 64):
        assert row == decoded(short, link, after, len(whole))
    complete = decoded(bytes(whole), link)
    assert all(value in (complete[name], None) for name, value in row.items())


@pytest.mark.parametrize("link", MAKERS)
@pytest.mark.parametrize("byte", [0x00, 0x81, 0x88, 0xFF])
def test_long_runs_of_one_byte_end(link: int, byte: int) -> None:
    decoded(bytes([byte]) * 200_000, link)
    decoded(maker.ethernet(bytes([0x81, 0x00]) * 100_000, 0x8100), link)
    decoded(maker.ethernet(bytes(200_000), 0x8847), link)


def present(row: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


LINK = ("destMAC", "srcMAC", "ether_type", "vlan_id", "ipversion")


@pytest.mark.parametrize(
    ("link", "frame", "row"),
    [
        (1, maker.ethernet(maker.mpls(PACKET4, [16, 17]), 0x8847, 7, 8), (8, 7, 0x8847, None, 4)),
        (1, maker.ethernet(maker.pppoe(maker.ppp(PACKET6, 0x57)), 0x8864, 7, 8, [5]), (8, 7, 0x8864, 5, 6)),
        (1, maker.ethernet(maker.pppoe(maker.ppp(PACKET4), code=9), 0x8863, 7, 8), (8, 7, 0x8863, None, None)),
        (1, maker.ethernet(maker.pppoe(maker.ppp(PACKET4), code=9), 0x8864, 7, 8), (8, 7, 0x8864, None, None)),
        (1, maker.ethernet(maker.mpls(bytes(4) + PACKET4, [16]), 0x8847, 7, 8), (8, 7, 0x8847, None, None)),
        (1, maker.ieee802_3(maker.snap(PACKET4), 7, 8), (8, 7, 0x0800, None, 4)),
        (1, maker.ieee802_3(maker.snap(PACKET4, organisation=0xF8), 7, 8), (8, 7, 0x0800, None, 4)),
        (1, maker.ieee802_3(maker.snap(PACKET4, organisation=0x0C), 7, 8), (8, 7, None, None, None)),
        (1, maker.ieee802_3(b"\x06\x06\x03" + PACKET4, 7, 8), (8, 7, None, None, 4)),
        (1, maker.ieee802_3(maker.snap(PACKET4), 7, 8, length=1501), (8, 7, None, None, None)),
        (113, maker.linux_sll(maker.snap(PACKET4), 4), (None, 0x020000000001, 0x0800, None, 4)),
        (113, maker.linux_sll(PACKET4, 1), (None, 0x020000000001, None, None, None)),
        (276, maker.linux_sll2(PACKET4, src=b"\x07" * 4), (None, None, 0x0800, None, 4)),
        (0, maker.loopback(PACKET6, 23, "little"), (None, None, None, None, 6)),
        (108, maker.loopback(PACKET4, 24), (None, None, None, None, None)),
        (228, PACKET4, (None, None, None, None, 4)),
        (9, maker.ppp(PACKET4, 0x23), (None, None, None, None, None)),
        (105, maker.wifi(maker.snap(PACKET4), (1, 2, 3)), (1, 2, 0x0800, None, 4)),
        (105, maker.wifi(maker.snap(PACKET4), (1, 2, 3), to_ds=True), (3, 2, 0x0800, None, 4)),
        (105, maker.wifi(maker.snap(PACKET4), (1, 2, 3), from_ds=True), (1, 3, 0x0800, None, 4)),
        (105, maker.wifi(maker.snap(PACKET4), (1, 2, 3, 4), to_ds=True, from_ds=True), (3, 4, 0x0800, None, 4)),
        (105, maker.wifi(maker.snap(PACKET4), (1, 2, 3), qos=3, ht_control=bytes(4)), (1, 2, 0x0800, None, 4)),
        (105, maker.wifi(maker.snap(PACKET4), (1, 2, 3), qos=0x80), (1, 2, None, None, None)),
        (105, maker.wifi(maker.snap(PACKET4), (1, 2, 3), protected=True), (1, 2, None, None, None)),
        (105, maker.wifi(maker.snap(PACKET4), (1, 2, 3), fragment_number=1), (1, 2, None, None, None)),
        (105, maker.wifi(maker.snap(PACKET4), (1, 2, 3), subtype=4), (1, 2, None, None, None)),
        (105, maker.wifi(maker.snap(PACKET4), (1, 2, 3), kind=0), (1, 2, None, None, None)),
        (105, maker.wifi(maker.snap(PACKET4), (1, 2, 3), kind=1), (None, None, None, None, None)),
    ],
)
def test_what_each_kind_fills(link: int, frame: bytes, row: tuple[Any, ...]) -> None:
    assert present(decoded(frame, link), *LINK) == row


def test_what_follows_the_length_is_padding() -> None:
    whole = maker.pppoe(maker.ppp(maker.ipv4("10.0.0.1", "10.0.0.2", 17, maker.udp_header(5, 6), total_length=0)))
    assert decoded(maker.ethernet(whole, 0x8864), 1)["destPort"] == 6
    short = maker.pppoe(whole[6:], length=2 + 20 + 2)
    assert present(decoded(maker.ethernet(short, 0x8864), 1), "srcPort", "destPort") == (5, None)
    short = maker.ieee802_3(maker.snap(PACKET4), length=8 + 20 + 2)
    assert present(decoded(short, 1), "srcPort", "destPort") == (5, None)


def test_kinds_of_one_process_do_not_mix(tmp_path: Path) -> None:
    for link in (*MAKERS, 147, *reversed(MAKERS)):
        frame = MAKERS.get(link, over_ethernet)(random.Random(1))
        path = tmp_path / "one.pcap"
        path.write_bytes(maker.pcap_bytes([(START, frame)], link_type=link))
        (row,) = [row for batch in read(path, FORGIVING) for row in batch.to_pylist()]
        assert {name: row[name] for name in row if name not in FIXED} == decoded(frame, link)
        assert (row["ipversion"] is None) == (link == 147 or row["protocol"] is None)
