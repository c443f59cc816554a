"""Tunnels: hand-made frames of each kind, nested, cut at every byte and at random, and against tshark."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from lowwater.capture.headers.tunnels import NAMES
from lowwater.catalog.schemas import ADDRESSES
from lowwater.catalog.values import format_ip, ip_from_words
from tests import capturemaker as maker
from tests.capture.test_links import START, decoded
from tests.capture.tsharkoracle import compare
from tests.capture.tunnelframes import FRAME4, NOTHING, TUNNELS, UDP4

COLUMNS = (
    "tunnel", "tunnel_id", "inner_ipversion", "inner_srcIP", "inner_destIP", "inner_protocol", "inner_srcPort",
    "inner_destPort", "inner_flags",
)  # fmt: skip


def outer(protocol: int, payload: bytes, version: int = 4) -> bytes:
    if version == 6:
        return maker.ip("2001:db8:1::1", "2001:db8:1::2", protocol, payload)
    return maker.ip("192.0.2.1", "192.0.2.2", protocol, payload)


def test_every_tunnel_has_frames() -> None:
    assert {number for tunnel in TUNNELS for number in tunnel.numbers} == set(NAMES)


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
        *(row for tunnel in TUNNELS for row in tunnel.rows),
        (6, maker.tcp_header(5, 4789, data=maker.vxlan(FRAME4, 5)[8:]), (None, None, *NOTHING)),
    ],
)
def test_what_each_tunnel_fills(version: int, protocol: int, payload: bytes, row: tuple[Any, ...]) -> None:
    found = decoded(outer(protocol, payload, version), 1)
    assert told(found) == row
    assert (found["ipversion"], found["protocol"]) == (version, protocol)


def test_fragments() -> None:
    """A later fragment has no header: outer, it is no tunnel; inner, it has no ports."""
    inner = maker.ipv4("10.0.0.1", "10.0.0.2", 17, maker.udp_header(5, 6), offset=8)
    assert told(decoded(outer(4, inner), 1)) == (4, None, 4, "10.0.0.1", "10.0.0.2", 17, None, None, None)
    later = maker.ethernet(maker.ipv4("192.0.2.1", "192.0.2.2", 4, UDP4, offset=8))
    assert told(decoded(later, 1)) == (None, None, *NOTHING)
    tunnel = maker.ipv4("10.0.0.1", "10.0.0.2", 4, UDP4, offset=8)
    assert told(decoded(outer(4, tunnel), 1))[:6] == (4, None, 4, "10.0.0.1", "10.0.0.2", 4)


def test_a_length_of_nothing_ends_the_extensions_of_gtp() -> None:
    frame = outer(17, maker.gtp_u(bytes(80), 3, [(0x85, bytes(2))]))
    at = 14 + 20 + 8 + 8 + 4
    for zeros in (1, 30):
        looping = frame[:at] + bytes(zeros) + b"\x85" * (len(frame) - at - zeros)
        assert told(decoded(looping, 1)) == (2152, 3, *NOTHING)


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
        protocol, above = dice.choice(TUNNELS).wrap(dice, packet, kind)
    return maker.ethernet(packet, kind)


@pytest.mark.slow
def test_random_tunnels_equal_tshark(tmp_path: Path) -> None:
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
