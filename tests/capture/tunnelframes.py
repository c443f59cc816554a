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


def over_gpe(dice: random.Random, packet: bytes, kind: int) -> tuple[int, bytes]:
    following = dice.choice((3, 1 if kind == 0x0800 else 2, 4, 5))
    if following == 3:
        packet = maker.ethernet(packet, kind)
    elif following == 4:
        packet = maker.nsh(packet, 1 if kind == 0x0800 else 2)[1]
    elif following == 5:
        packet = maker.mpls(packet, [dice.randrange(16, 1 << 20)])
    return 17, maker.vxlan_gpe(packet, dice.getrandbits(24), following)


def over_l2tp(dice: random.Random, packet: bytes, kind: int) -> tuple[int, bytes]:
    frame = maker.ppp(packet, 0x21 if kind == 0x0800 else 0x57, framed=dice.random() < 0.5)
    flags = {"length": dice.random() < 0.5, "numbered": dice.random() < 0.5, "offset": dice.choice((None, None, 0, 2))}
    return 17, maker.l2tp(frame, dice.getrandbits(16), **flags)


def over_lisp(dice: random.Random, packet: bytes, _: int) -> tuple[int, bytes]:
    return 17, maker.lisp(packet, dice.choice((None, dice.getrandbits(24))))


def over_labels(dice: random.Random, packet: bytes, _: int) -> tuple[int, bytes]:
    stack = maker.mpls(packet, [dice.randrange(16, 1 << 20)])
    return (137, stack) if dice.random() < 0.5 else (17, maker.udp_header(49152, 6635, stack))


def over_etherip(_: random.Random, packet: bytes, kind: int) -> tuple[int, bytes]:
    return 97, b"\x30\0" + maker.ethernet(packet, kind)


def over_gre_in_udp(dice: random.Random, packet: bytes, kind: int) -> tuple[int, bytes]:
    return 17, maker.udp_header(49152, 4754, maker.gre(packet, kind, key=dice.choice((None, 7))))


def over_teredo(dice: random.Random, packet: bytes, kind: int) -> tuple[int, bytes]:
    if kind != 0x86DD:
        return 4, packet  # it carries IPv6 alone
    return 17, maker.teredo(packet, origin=dice.random() < 0.5, authenticated=dice.random() < 0.5)


def over_tzsp(dice: random.Random, packet: bytes, kind: int) -> tuple[int, bytes]:
    tags = dice.choice((b"\x01", b"\0\0\x01", b"\x0a\x01\x05\x01"))
    return 17, maker.tzsp(maker.ethernet(packet, kind), tags)


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
                       (17, maker.geneve(maker.nsh(UDP4, 1)[1], 77, 0x894F), (6081, 77, *UDP4_ROW)),
                       (17, maker.geneve(FRAME4, 77, version=1), (None, None, *NOTHING)))),
    TunnelFrames((4790,), over_gpe, "vxlan", ("vxlan.vni",),
                 lambda packet: (17, maker.vxlan_gpe(maker.ethernet(packet), 77)),
                 rows=((17, maker.vxlan_gpe(FRAME6, 0xFFFFFF), (4790, 0xFFFFFF, *TCP6_ROW)),
                       (17, maker.vxlan_gpe(UDP4, 5, 1), (4790, 5, *UDP4_ROW)),
                       (17, maker.vxlan_gpe(TCP6, 5, 2), (4790, 5, *TCP6_ROW)),
                       (17, maker.vxlan_gpe(maker.nsh(UDP4, 1)[1], 5, 4), (4790, 5, *UDP4_ROW)),
                       (17, maker.vxlan_gpe(maker.mpls(UDP4, [16]), 5, 5), (4790, 5, *UDP4_ROW)),
                       (17, maker.vxlan_gpe(FRAME4, 5, 0, flags=8), (4790, 5, *UDP4_ROW)),
                       (17, maker.vxlan_gpe(UDP4, 5, 1, flags=8), (4790, 5, *UDP4_ROW)),
                       (17, maker.vxlan_gpe(UDP4, 5, 9), (4790, 5, *NOTHING)),
                       (17, maker.vxlan_gpe(UDP4, 5, 1, flags=4), (None, None, *NOTHING)))),
    TunnelFrames((1701,), over_l2tp, "l2tp", ("l2tp.session",), lambda packet: (17, maker.l2tp(maker.ppp(packet), 9)),
                 rows=((17, maker.l2tp(maker.ppp(UDP4, framed=True), 9), (1701, 9, *UDP4_ROW)),
                       (17, maker.l2tp(maker.ppp(TCP6, 0x57), 9, length=True, numbered=True, offset=3),
                        (1701, 9, *TCP6_ROW)),
                       (17, maker.l2tp(maker.ppp(bytes(9), 0xC021), 9), (1701, 9, *NOTHING)),
                       (17, maker.l2tp(b"", 9, control=True, length=True, numbered=True), (None, None, *NOTHING)))),
    TunnelFrames((4341,), over_lisp, "lisp-data", ("lisp-data.iid",), lambda packet: (17, maker.lisp(packet, 5)),
                 rows=((17, maker.lisp(UDP4), (4341, None, *UDP4_ROW)), (17, maker.lisp(TCP6, 7), (4341, 7, *TCP6_ROW)),
                       (17, maker.lisp(bytes(20)), (4341, None, *NOTHING)))),
    TunnelFrames((137, 6635), over_labels, "mpls", (), lambda packet: (137, maker.mpls(packet, [16])),
                 rows=((137, maker.mpls(UDP4, [16, 17]), (137, None, *UDP4_ROW)),
                       (17, maker.udp_header(5, 6635, maker.mpls(TCP6, [16])), (6635, None, *TCP6_ROW)),
                       (137, maker.mpls(bytes(4) + FRAME4, [16]), (137, None, *UDP4_ROW)))),
    TunnelFrames((97,), over_etherip, "etherip", (), lambda packet: (97, b"\x30\0" + maker.ethernet(packet)),
                 rows=((97, b"\x30\0" + FRAME6, (97, None, *TCP6_ROW)),
                       (97, b"\x20\0" + FRAME4, (None, None, *NOTHING)))),
    TunnelFrames((4754,), over_gre_in_udp, "gre", ("gre.key",),
                 lambda packet: (17, maker.udp_header(5, 4754, maker.gre(packet, key=5))),
                 rows=((17, maker.udp_header(5, 4754, maker.gre(UDP4, key=9)), (4754, 9, *UDP4_ROW)),)),
    TunnelFrames((3544,), over_teredo, "teredo", (), lambda packet: (17, maker.teredo(packet)),
                 rows=((17, maker.teredo(TCP6), (3544, None, *TCP6_ROW)),
                       (17, maker.teredo(TCP6, origin=True), (3544, None, *TCP6_ROW)),
                       (17, maker.teredo(TCP6, origin=True, authenticated=True), (3544, None, *TCP6_ROW)),
                       (17, maker.teredo(UDP4), (None, None, *NOTHING)))),
    TunnelFrames((37008,), over_tzsp, "tzsp", (), lambda packet: (17, maker.tzsp(maker.ethernet(packet))),
                 rows=((17, maker.tzsp(FRAME4), (37008, None, *UDP4_ROW)),
                       (17, maker.tzsp(FRAME6, b"\0\x0a\x02\x05\x06\x01", 1), (37008, None, *TCP6_ROW)),
                       (17, maker.tzsp(FRAME4, protocol=18), (None, None, *NOTHING)),
                       (17, maker.tzsp(b"", b"\x0a"), (37008, None, *NOTHING)))),
    TunnelFrames((2152,), over_gtp, "gtp", ("gtp.teid",),
                 lambda packet: (17, maker.gtp_u(packet, 99, [(0x85, bytes(2))])),
                 rows=((17, maker.gtp_u(UDP4, 0xFFFFFFFF), (2152, 0xFFFFFFFF, *UDP4_ROW)),
                       (17, maker.gtp_u(TCP6, 3, sequence=True), (2152, 3, *TCP6_ROW)),
                       (17, maker.gtp_u(UDP4, 3, [(0x85, bytes(2)), (0xC0, bytes(6))]), (2152, 3, *UDP4_ROW)),
                       (17, maker.gtp_u(UDP4, 3, message=1), (None, None, *NOTHING)),
                       (17, maker.gtp_u(b"\x21" + UDP4, 3), (2152, 3, *NOTHING)))),
)  # fmt: skip
"""Every tunnel; several of one number are several forms of it."""
