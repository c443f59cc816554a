"""Frames of every tunnel, in one table: what `test_tunnels`, the fuzzers and the comparison with tshark need of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests import capturemaker as maker

NOTHING = (None,) * 7
UDP4 = maker.ipv4("10.0.0.1", "10.0.0.2", 17, maker.udp_header(5, 6, b"x"))
UDP4_ROW = (4, "10.0.0.1", "10.0.0.2", 17, 5, 6, None)
TCP6 = maker.ipv6("2001:db8::1", "2001:db8::2", 6, maker.tcp_header(7, 80, maker.SYN))
TCP6_ROW = (6, "2001:db8::1", "2001:db8::2", 6, 7, 80, maker.SYN)
FRAME4 = maker.ethernet(UDP4)
FRAME6 = maker.ethernet(TCP6, 0x86DD, vlans=[9])


@dataclass(frozen=True)
class TunnelFrames:
    """A tunnel for the tests."""

    numbers: tuple[int, ...]
    wrap: Callable[[random.Random, bytes, int], tuple[int, bytes]]
    layer: str
    ids: tuple[str, ...]
    around: Callable[[bytes], tuple[int, bytes]]
    rows: tuple[tuple[int, bytes, tuple[Any, ...]], ...]


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


TUNNELS = (
    TunnelFrames((4, 41), over_ip, "ip", (), lambda packet: (4 if packet[0] >> 4 == 4 else 41, packet),
                 rows=((4, UDP4, (4, None, *UDP4_ROW)), (41, TCP6, (41, None, *TCP6_ROW)),
                       (4, TCP6, (4, None, *NOTHING)), (41, UDP4, (41, None, *NOTHING)),
                       (4, b"", (4, None, *NOTHING)))),
    TunnelFrames((47,), over_pptp, "gre", ("gre.key.call_id",), lambda packet: (47, maker.pptp(maker.ppp(packet), 5)),
                 rows=((47, maker.pptp(maker.ppp(UDP4), 300), (47, 300, *UDP4_ROW)),
                       (47, maker.pptp(maker.ppp(TCP6, 0x57, framed=True), 300, 1, 2), (47, 300, *TCP6_ROW)),
                       (47, maker.pptp(b"", 300, None, 2), (47, 300, *NOTHING)))),
    TunnelFrames((47,), over_erspan, "gre", ("erspan.spanid",),
                 lambda packet: (47, maker.erspan(maker.ethernet(packet), 5)),
                 rows=((47, maker.erspan(FRAME4, 1023), (47, 1023, *UDP4_ROW)),
                       (47, maker.erspan(FRAME6, 5, 3), (47, 5, *TCP6_ROW)),
                       (47, maker.erspan(FRAME6, 5, 3, subheader=True), (47, 5, *TCP6_ROW)),
                       (47, maker.gre(FRAME4, 0x88BE), (47, None, *UDP4_ROW)))),
    TunnelFrames((47,), over_gre, "gre", ("gre.key",),
                 lambda packet: (47, maker.gre(packet, 0x0800 if packet[0] >> 4 == 4 else 0x86DD, key=5)),
                 rows=((47, maker.gre(UDP4), (47, None, *UDP4_ROW)),
                       (47, maker.gre(TCP6, 0x86DD, checksum=True, key=99, sequence=3), (47, 99, *TCP6_ROW)),
                       (47, maker.gre(UDP4, key=0xFFFFFFFF), (47, 0xFFFFFFFF, *UDP4_ROW)),
                       (47, maker.gre(FRAME6, 0x6558, key=7), (47, 7, *TCP6_ROW)),
                       (47, maker.gre(maker.mpls(UDP4, [16]), 0x8847), (47, None, *UDP4_ROW)),
                       (47, maker.gre(maker.ppp(UDP4), 0x880B), (47, None, *UDP4_ROW)),
                       (47, maker.gre(UDP4, 0x0806), (47, None, *NOTHING)),
                       (47, b"\x40" + maker.gre(UDP4)[1:], (47, None, *NOTHING)),
                       (47, b"\x00\x02" + maker.gre(UDP4)[2:], (47, None, *NOTHING)))),
    TunnelFrames((4789, 8472), over_vxlan, "vxlan", ("vxlan.vni",),
                 lambda packet: (17, maker.vxlan(maker.ethernet(packet), 77)),
                 rows=((17, maker.vxlan(FRAME4, 0xFFFFFF), (4789, 0xFFFFFF, *UDP4_ROW)),
                       (17, maker.vxlan(FRAME6, 5, port=8472), (8472, 5, *TCP6_ROW)),
                       (17, maker.vxlan(maker.arp(), 5), (4789, 5, *NOTHING)),
                       (17, maker.vxlan(FRAME4, 5, flags=0), (None, None, *NOTHING)),
                       (17, maker.udp_header(4789, 5000, maker.vxlan(FRAME4, 5)[8:]), (None, None, *NOTHING)),
                       (6, maker.tcp_header(5, 4789, data=maker.vxlan(FRAME4, 5)[8:]), (None, None, *NOTHING)))),
    TunnelFrames((6081,), over_geneve, "geneve", ("geneve.vni",),
                 lambda packet: (17, maker.geneve(maker.ethernet(packet), 77)),
                 rows=((17, maker.geneve(FRAME4, 77), (6081, 77, *UDP4_ROW)),
                       (17, maker.geneve(TCP6, 77, 0x86DD, options=bytes(12)), (6081, 77, *TCP6_ROW)),
                       (17, maker.geneve(FRAME4, 77, version=1), (None, None, *NOTHING)))),
    TunnelFrames((2152,), over_gtp, "gtp", ("gtp.teid",),
                 lambda packet: (17, maker.gtp_u(packet, 99, [(0x85, bytes(2))])),
                 rows=((17, maker.gtp_u(UDP4, 0xFFFFFFFF), (2152, 0xFFFFFFFF, *UDP4_ROW)),
                       (17, maker.gtp_u(TCP6, 3, sequence=True), (2152, 3, *TCP6_ROW)),
                       (17, maker.gtp_u(UDP4, 3, [(0x85, bytes(2)), (0xC0, bytes(6))]), (2152, 3, *UDP4_ROW)),
                       (17, maker.gtp_u(UDP4, 3, message=1), (None, None, *NOTHING)),
                       (17, maker.gtp_u(b"\x21" + UDP4, 3), (2152, 3, *NOTHING)))),
)  # fmt: skip
"""Every tunnel; several of one number are several forms of it."""
