"""Tunnels: hand-made frames of each kind, nested, cut at every byte and at random, and against tshark."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.capture.headers.batches import decode_batch
from lowwater.catalog.packets import ADDRESSES
from lowwater.catalog.values import format_ip, ip_from_words
from tests import capturemaker as maker
from tests.capture.test_links import START, decoded
from tests.capture.tsharkoracle import compare

COLUMNS = (
    "tunnel", "tunnel_id", "inner_ipversion", "inner_srcIP", "inner_destIP", "inner_protocol", "inner_srcPort",
    "inner_destPort", "inner_flags",
)  # fmt: skip
NOTHING = (None,) * 7
UDP4 = maker.ipv4("10.0.0.1", "10.0.0.2", 17, maker.udp_header(5, 6, b"x"))
UDP4_ROW = (4, "10.0.0.1", "10.0.0.2", 17, 5, 6, None)
TCP6 = maker.ipv6("2001:db8::1", "2001:db8::2", 6, maker.tcp_header(7, 80, maker.SYN))
TCP6_ROW = (6, "2001:db8::1", "2001:db8::2", 6, 7, 80, maker.SYN)
FRAME4 = maker.ethernet(UDP4)
FRAME6 = maker.ethernet(TCP6, 0x86DD, vlans=[9])


def outer(protocol: int, payload: bytes, version: int = 4) -> bytes:
    if version == 6:
        return maker.ip("2001:db8:1::1", "2001:db8:1::2", protocol, payload)
    return maker.ip("192.0.2.1", "192.0.2.2", protocol, payload)


def told(row: dict[str, Any]) -> tuple[Any, ...]:
    def value(name: str) -> Any:
        if name not in ADDRESSES:
            return row[name]
        words = (row[ADDRESSES[name]], row[f"{name}_hi"], row[f"{name}_lo"])
        return None if None in words else format_ip(ip_from_words(*words))

    return tuple(value(name) for name in COLUMNS)


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize(
    ("protocol", "payload", "row"),
    [
        (4, UDP4, (4, None, *UDP4_ROW)),
        (41, TCP6, (41, None, *TCP6_ROW)),
        (4, TCP6, (4, None, *NOTHING)),
        (41, UDP4, (41, None, *NOTHING)),
        (4, b"", (4, None, *NOTHING)),
        (47, maker.gre(UDP4), (47, None, *UDP4_ROW)),
        (47, maker.gre(TCP6, 0x86DD, checksum=True, key=99, sequence=3), (47, 99, *TCP6_ROW)),
        (47, maker.gre(UDP4, key=0xFFFFFFFF), (47, 0xFFFFFFFF, *UDP4_ROW)),
        (47, maker.gre(FRAME6, 0x6558, key=7), (47, 7, *TCP6_ROW)),
        (47, maker.gre(maker.mpls(UDP4, [16]), 0x8847), (47, None, *UDP4_ROW)),
        (47, maker.gre(maker.ppp(UDP4), 0x880B), (47, None, *UDP4_ROW)),
        (47, maker.gre(UDP4, 0x0806), (47, None, *NOTHING)),
        (47, b"\x40" + maker.gre(UDP4)[1:], (47, None, *NOTHING)),
        (47, b"\x00\x02" + maker.gre(UDP4)[2:], (47, None, *NOTHING)),
        (47, maker.pptp(maker.ppp(UDP4), 300), (47, 300, *UDP4_ROW)),
        (47, maker.pptp(maker.ppp(TCP6, 0x57, framed=True), 300, 1, 2), (47, 300, *TCP6_ROW)),
        (47, maker.pptp(b"", 300, None, 2), (47, 300, *NOTHING)),
        (47, maker.erspan(FRAME4, 1023), (47, 1023, *UDP4_ROW)),
        (47, maker.erspan(FRAME6, 5, 3), (47, 5, *TCP6_ROW)),
        (47, maker.erspan(FRAME6, 5, 3, subheader=True), (47, 5, *TCP6_ROW)),
        (47, maker.gre(FRAME4, 0x88BE), (47, None, *UDP4_ROW)),
        (17, maker.vxlan(FRAME4, 0xFFFFFF), (4789, 0xFFFFFF, *UDP4_ROW)),
        (17, maker.vxlan(FRAME6, 5, port=8472), (8472, 5, *TCP6_ROW)),
        (17, maker.vxlan(maker.arp(), 5), (4789, 5, *NOTHING)),
        (17, maker.vxlan(FRAME4, 5, flags=0), (None, None, *NOTHING)),
        (17, maker.udp_header(4789, 5000, maker.vxlan(FRAME4, 5)[8:]), (None, None, *NOTHING)),
        (17, maker.geneve(FRAME4, 77), (6081, 77, *UDP4_ROW)),
        (17, maker.geneve(TCP6, 77, 0x86DD, options=bytes(12)), (6081, 77, *TCP6_ROW)),
        (17, maker.geneve(FRAME4, 77, version=1), (None, None, *NOTHING)),
        (17, maker.gtp_u(UDP4, 0xFFFFFFFF), (2152, 0xFFFFFFFF, *UDP4_ROW)),
        (17, maker.gtp_u(TCP6, 3, sequence=True), (2152, 3, *TCP6_ROW)),
        (17, maker.gtp_u(UDP4, 3, [(0x85, bytes(2)), (0xC0, bytes(6))]), (2152, 3, *UDP4_ROW)),
        (17, maker.gtp_u(UDP4, 3, message=1), (None, None, *NOTHING)),
        (17, maker.gtp_u(b"\x21" + UDP4, 3), (2152, 3, *NOTHING)),
        (6, maker.tcp_header(5, 4789, data=maker.vxlan(FRAME4, 5)[8:]), (None, None, *NOTHING)),
    ],
)
def test_what_each_tunnel_fills(version: int, protocol: int, payload: bytes, row: tuple[Any, ...]) -> None:
    found = decoded(outer(protocol, payload, version), 1)
    assert told(found) == row
    assert (found["ipversion"], found["protocol"]) == (version, protocol)


@pytest.mark.parametrize(
    ("protocol", "above", "row"),
    [
        (132, maker.sctp_header(5, 6), (132, 5, 6, None)),
        (136, maker.udp_header(5, 6), (136, 5, 6, None)),
        (33, maker.dccp_header(5, 6), (33, 5, 6, None)),
        (1, bytes(8), (1, None, None, None)),
        (50, bytes(8), (50, None, None, None)),
    ],
)
def test_ports_of_the_inner_packet(protocol: int, above: bytes, row: tuple[Any, ...]) -> None:
    inner = maker.ipv4("10.0.0.1", "10.0.0.2", protocol, above, options=bytes(8))
    assert told(decoded(outer(4, inner), 1))[5:] == row


def test_fragments() -> None:
    """A later fragment has no header: outer, it is no tunnel; inner, it has no ports."""
    inner = maker.ipv4("10.0.0.1", "10.0.0.2", 17, maker.udp_header(5, 6), offset=8)
    assert told(decoded(outer(4, inner), 1)) == (4, None, 4, "10.0.0.1", "10.0.0.2", 17, None, None, None)
    later = maker.ethernet(maker.ipv4("192.0.2.1", "192.0.2.2", 4, UDP4, offset=8))
    assert told(decoded(later, 1)) == (None, None, *NOTHING)
    tunnel = maker.ipv4("10.0.0.1", "10.0.0.2", 4, UDP4, offset=8)
    assert told(decoded(outer(4, tunnel), 1))[:6] == (4, None, 4, "10.0.0.1", "10.0.0.2", 4)


def nested(depth: int) -> bytes:
    """UDP4 in `depth` tunnels of IPv4 in IPv4; the header in tunnel n from outside has the source 10.9.9.n."""
    packet = UDP4
    for number in range(depth - 1, -1, -1):
        packet = maker.ipv4(f"10.9.9.{number}", "10.9.9.99", 4, packet)
    return maker.ethernet(packet)


def test_the_innermost_header_within_four_tunnels() -> None:
    for depth in range(1, 5):
        assert told(decoded(nested(depth), 1)) == (4, None, *UDP4_ROW)
    for depth in (5, 6, 40):
        assert told(decoded(nested(depth), 1)) == (4, None, 4, "10.9.9.4", "10.9.9.99", 4, None, None, None)


def test_the_outermost_tunnel_names_the_packet() -> None:
    inside = maker.ipv4("10.3.3.1", "10.3.3.2", 47, maker.gre(TCP6, 0x86DD, key=5))
    frame = outer(17, maker.vxlan(maker.ethernet(inside), 33))
    assert told(decoded(frame, 1)) == (4789, 33, *TCP6_ROW)
    # Nothing is left of the header further out, whose address and ports the innermost has not.
    inside = maker.ipv6("2001:db8::1", "2001:db8::2", 4, maker.ipv4("10.0.0.1", "10.0.0.2", 50, bytes(8)))
    assert told(decoded(outer(41, inside), 1)) == (41, None, 4, "10.0.0.1", "10.0.0.2", 50, None, None, None)


def test_an_error_message_is_no_tunnel() -> None:
    assert told(decoded(maker.icmp("10.0.0.1", "10.0.0.2", 3, 1, bytes(4) + UDP4), 1)) == (None, None, *NOTHING)


def test_a_length_of_nothing_ends_the_extensions_of_gtp() -> None:
    frame = outer(17, maker.gtp_u(bytes(80), 3, [(0x85, bytes(2))]))
    at = 14 + 20 + 8 + 8 + 4
    for zeros in (1, 30):
        looping = frame[:at] + bytes(zeros) + b"\x85" * (len(frame) - at - zeros)
        assert told(decoded(looping, 1)) == (2152, 3, *NOTHING)


def over_gre(dice: random.Random, packet: bytes, kind: int) -> tuple[int, bytes]:
    key = dice.choice((None, dice.getrandbits(32)))
    sequence = dice.choice((None, 5))
    if dice.random() < 0.5:
        packet, kind = maker.ethernet(packet, kind), 0x6558
    return 47, maker.gre(packet, kind, checksum=dice.random() < 0.5, key=key, sequence=sequence)


def over_pptp(dice: random.Random, packet: bytes, kind: int) -> tuple[int, bytes]:
    frame = maker.ppp(packet, 0x21 if kind == 0x0800 else 0x57)
    return 47, maker.pptp(frame, dice.getrandbits(16), *(dice.choice((None, 9)) for _ in range(2)))


def over_erspan(dice: random.Random, packet: bytes, kind: int) -> tuple[int, bytes]:
    return 47, maker.erspan(maker.ethernet(packet, kind), dice.getrandbits(10), dice.choice((2, 3)))


def over_vxlan(dice: random.Random, packet: bytes, kind: int) -> tuple[int, bytes]:
    return 17, maker.vxlan(maker.ethernet(packet, kind), dice.getrandbits(24), port=dice.choice((4789, 8472)))


def over_geneve(dice: random.Random, packet: bytes, kind: int) -> tuple[int, bytes]:
    return 17, maker.geneve(maker.ethernet(packet, kind), dice.getrandbits(24), options=bytes([0, 1, 9, 0]) * 2)


def over_gtp(dice: random.Random, packet: bytes, _: int) -> tuple[int, bytes]:
    extensions = [(0xC0, bytes(2))] * dice.randrange(3)
    return 17, maker.gtp_u(packet, dice.getrandbits(32), extensions, sequence=dice.random() < 0.5)


def over_ip(_: random.Random, packet: bytes, kind: int) -> tuple[int, bytes]:
    return (4 if kind == 0x0800 else 41), packet


WRAPS = (over_gre, over_pptp, over_erspan, over_vxlan, over_geneve, over_gtp, over_ip)


def tunnelled(dice: random.Random) -> bytes:
    """An Ethernet frame with a random packet in up to four random tunnels."""
    sport, dport = dice.randint(40_000, 65_535), dice.randint(40_000, 65_535)
    protocol, above = dice.choice(
        (
            (6, maker.tcp_header(sport, dport, dice.randrange(256))),
            (17, maker.udp_header(sport, dport, bytes(4))),
            (132, maker.sctp_header(sport, dport)),
        )
    )
    for _ in range(dice.randint(1, 4) + 1):
        if dice.random() < 0.5:
            hosts = [f"2001:db8::{dice.randrange(1, 9999)}" for _ in range(2)]
            packet, kind = maker.ipv6(*hosts, protocol, above), 0x86DD
        else:
            hosts = [f"10.{dice.randrange(256)}.0.{dice.randrange(1, 255)}" for _ in range(2)]
            packet, kind = maker.ipv4(*hosts, protocol, above), 0x0800
        protocol, above = dice.choice(WRAPS)(dice, packet, kind)
    return maker.ethernet(packet, kind)


def test_random_tunnels_equal_tshark(tmp_path: Path) -> None:
    if shutil.which("tshark") is None:
        pytest.skip("no tshark on this machine")
    dice = random.Random(5)
    path = tmp_path / "one.pcap"
    path.write_bytes(maker.pcap_bytes((START, tunnelled(dice)) for _ in range(600)))
    equal, found = compare(path)
    assert (equal["len"], found) == (600, [])


@pytest.mark.slow
@given(
    st.randoms(use_true_random=False).map(tunnelled) | st.binary(max_size=120).map(lambda raw: outer(4, raw)),
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255)), max_size=3),
)
def test_nothing_is_read_beyond_the_captured_bytes(frame: bytes, flips: list[tuple[int, int]]) -> None:
    whole = bytearray(frame)
    for at, value in flips:
        if at < len(whole):
            whole[at] = value
    for cut in range(len(whole) + 1):
        short, rest = bytes(whole[:cut]), bytes(whole[cut:])
        row = decoded(short, 1, wire=len(whole))
        for after in (rest + bytes(64), b"\xff" * 64, b"\x45" * 64):
            assert row == decoded(short, 1, after, len(whole)), cut


@pytest.mark.parametrize("protocol", [4, 17, 41, 47])
@given(raw=st.binary(max_size=200), port=st.sampled_from([2152, 4789, 6081, 8472]))
def test_random_bytes_in_a_tunnel(protocol: int, raw: bytes, port: int) -> None:
    payload = maker.udp_header(5, port, raw) if protocol == 17 else raw
    row = decoded(outer(protocol, payload), 1)
    assert row["tunnel"] in (None, port if protocol == 17 else protocol)
    assert row["inner_ipversion"] in (None, 4, 6)
    assert row["tunnel"] is not None or row["inner_ipversion"] is None


def test_rows_of_one_batch_do_not_mix() -> None:
    """Columns that few records have are NULL, not what another batch left, in all others."""
    dice = random.Random(3)
    plain = [maker.tcp("10.0.0.1", "10.0.0.2", 5, 6), maker.udp("::1", "::2", 5, 6), bytes(20)]
    some = [maker.arp("10.0.0.1", "10.0.0.2"), tunnelled(dice), nested(2), FRAME6]
    for frames in (some, plain, [*plain, some[0]], [*plain * 9, some[1], *plain, some[2]], plain * 20, some * 9):
        together = b"".join(bytes(16) + frame for frame in frames)
        lengths = [len(frame) for frame in frames]
        offsets = [16 * index + sum(lengths[:index]) for index in range(len(frames))]
        records = np.array([offsets, [START] * len(frames), lengths, lengths], np.int64)
        batch, _ = decode_batch(np.frombuffer(together, np.uint8), records, np.arange(len(frames)), -1, 1)
        batch.validate(full=True)
        for frame, row in zip(frames, batch.to_pylist(), strict=True):
            alone = decoded(frame, 1)
            assert {name: row[name] for name in alone} == alone
