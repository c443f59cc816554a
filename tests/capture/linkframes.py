"""Frames of every link type, in one table: what `test_links`, the fuzzers and the comparison with tshark need of it."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests import capturemaker as maker

# A port above these means no protocol to tshark, which would then read on and guess.
PORTS = (40_000, 65_535)
CISCO = 0x00000C000000
PACKET4 = maker.ipv4("10.0.0.1", "10.0.0.2", 17, maker.udp_header(5, 6))
PACKET6 = maker.ipv6("2001:db8::1", "2001:db8::2", 17, maker.udp_header(5, 6))
TAGGED = {
    "vntag": "vntag.etype", "etag": "etag.etype", "hsr": "hsr.type", "ieee8021cb": "ieee8021cb.etype",
    "cmd": "cmd.type", "avsp": "avsp.etype",
}  # fmt: skip
"""Layer of tshark for a tag of another kind than VLAN -> its field with the next ether type."""
WRAPPING = (
    "macsec", "mpls", "pppoes", "ieee8021ah", "trill", "nsh", "cfp", "batadv", "pwach", "pwethheuristic", "pwethcw",
    "pwethnocw",
)  # fmt: skip
"""Layers of tshark that wrap a packet or frame, behind which an ether type is no more that of the link."""
BEHIND = ("erf", "ethertype", "vlan", "ieee8021ad", "llc", "ppp", "eth", *TAGGED, *WRAPPING)
"""Layers of tshark that stand between several link layers and the network header."""

Frame = Callable[[random.Random], bytes]


@dataclass(frozen=True)
class LinkFrames:
    """A link type for the tests."""

    drawn: Frame
    around: Callable[[bytes, int], bytes]
    layers: tuple[str, ...]
    addresses: tuple[str, str] | None = None
    types: tuple[str, ...] = ()
    rows: tuple[tuple[bytes, tuple[Any, ...]], ...] = ()


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


def inner_frame(dice: random.Random) -> bytes:
    """An Ethernet frame inside of another one, whose addresses tshark takes for those of a vendor."""
    kind, packet = network(dice)
    packet, kind = maker.tagged(packet, kind, [dice.randrange(1, 4095) for _ in range(dice.randrange(2))], 0x8100)
    return maker.ethernet(packet, kind, CISCO | dice.getrandbits(24), CISCO | dice.getrandbits(24))


def wrapped(dice: random.Random) -> tuple[int, bytes]:
    """An ether type and what wraps a packet or frame behind it."""
    kind, packet = network(dice)
    number = 1 if kind == 0x0800 else 2
    choices = (
        lambda: maker.backbone(inner_frame(dice)),
        lambda: maker.trill(inner_frame(dice), dice.randrange(3)),
        lambda: maker.nsh(packet, number, dice.choice((6, 2, 9))),
        lambda: maker.nsh(inner_frame(dice), 3),
        lambda: maker.nsh(maker.nsh(packet, number)[1], 4),
        lambda: maker.nsh(maker.mpls(packet, labels(dice)), 5),
        lambda: maker.batman(inner_frame(dice), dice.choice((0x40, 0x01, 0x42))),
        lambda: (0x8847, maker.mpls(inner_frame(dice), labels(dice))),
        lambda: (0x8847, maker.mpls(struct.pack("!HH", 0x1000, {1: 0x21, 2: 0x57}[number]) + packet, labels(dice))),
        lambda: (0x6558, inner_frame(dice)),
        lambda: (0x8870, maker.snap(packet, kind)),
    )
    return dice.choice(choices)()


def with_tags(dice: random.Random, kind: int, packet: bytes) -> tuple[int, bytes]:
    """Tags of other kinds than VLAN before an ether type."""
    for _ in range(dice.choice((0, 1, 1, 2))):
        made = (
            maker.tag(0x8926, packet, kind),
            maker.tag(0x893F, packet, kind, (1, 2, 3)),
            maker.tag(0xF1C1, packet, kind, (0, 7)),
            maker.metadata(packet, kind),
            maker.timestamp(packet, kind, dice.random() < 0.5),
        )
        kind, packet = dice.choice(made)
    return kind, packet


def typed(dice: random.Random) -> tuple[int, bytes]:
    """An ether type and what stands behind it: a packet, under MPLS, PPPoE, MACsec and others, under tags."""
    kind, packet = network(dice)
    shape = dice.randrange(9)
    if shape == 1:
        kind, packet = dice.choice((0x8847, 0x8848)), maker.mpls(packet, labels(dice))
    elif shape == 2:
        kind, packet = 0x8864, maker.pppoe(over_ppp(dice))
    elif shape == 3:
        kind, packet = 0x88E5, maker.macsec(packet, kind, sci=dice.choice((b"", bytes(8))))
    elif shape in (4, 5):
        kind, packet = wrapped(dice)
    elif shape == 6:  # tshark reads HSR by a table of its own
        kind, packet = maker.tag(0x892F, packet, kind, (1 << 12 | len(packet) + 6, 7))
    if shape in (5, 7, 8):
        kind, packet = with_tags(dice, kind, packet)
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


def over_hdlc(dice: random.Random) -> bytes:
    kind, packet = network(dice)
    if dice.random() < 0.3:
        kind, packet = 0x8847, maker.mpls(packet, labels(dice))
    return maker.hdlc(packet, kind, dice.choice((0x0F, 0x8F)))


def over_infiniband(dice: random.Random) -> bytes:
    kind, packet = network(dice)
    return maker.infiniband(packet, kind)


def over_nflog(dice: random.Random) -> bytes:
    kind, packet = network(dice)
    before = [(dice.choice((1, 4, 10, 11)), bytes(dice.randint(1, 9))) for _ in range(dice.randrange(4))]
    return maker.nflog(packet, 2 if kind == 0x0800 else 10, before=before)


def over_ppi(dice: random.Random) -> bytes:
    fields = dice.choice((b"", b"\x02\x00\x14\x00" + bytes(20)))
    inner = dice.choice((maker.WIFI, maker.WIFI, maker.ETHERNET, maker.RAW))
    drawn = {maker.WIFI: over_wifi, maker.ETHERNET: over_ethernet, maker.RAW: lambda dice: network(dice)[1]}[inner]
    return maker.ppi(drawn(dice), inner, fields)


def over_prism(dice: random.Random) -> bytes:
    shape, frame = dice.randrange(4), over_wifi(dice)
    if shape == 0:
        return maker.avs(frame)
    return frame if shape == 1 else maker.prism(frame, dice.choice(("little", "big")), dice.choice((0x44, 0x41)))


def transfer(frame: bytes, dice: random.Random) -> bytes:
    """A transfer of USB with an Ethernet frame, which nothing but padding of Ethernet may follow."""
    if dice.random() < 0.4:
        return maker.rndis(frame, dice.choice((0, 0, 12)))
    more = [frame] * dice.randrange(2)
    return maker.ncm([frame, *more], *(dice.random() < 0.5 for _ in range(3)))


def over_usb(long: bool) -> Frame:
    return lambda dice: maker.usbmon(transfer(over_ethernet(dice), dice), long)


def usb_rows(long: bool) -> tuple[tuple[bytes, tuple[Any, ...]], ...]:
    """Transfers that hold a frame, and others."""
    frame, none = maker.ethernet(PACKET4, 0x0800, 7, 8, [5]), (None,) * 5
    whole = (8, 7, 0x0800, 5, 4)
    return tuple(
        (maker.usbmon(data, long, **more), row)
        for data, more, row in (
            (maker.rndis(frame), {}, whole),
            (maker.rndis(frame, 4), {}, whole),
            (maker.ncm([frame, bytes(90)]), {}, whole),
            (maker.ncm([frame], wide=True, checked=True, first=False), {}, whole),
            (maker.rndis(frame), {"kind": 2}, none),
            (maker.rndis(frame), {"absent": 60}, none),
            (maker.rndis(frame, kind=2), {}, none),
            (maker.rndis(frame, offset=0), {}, none),
            (maker.rndis(frame)[:4] + b"\x2d" + maker.rndis(frame)[5:], {}, none),
            (maker.rndis(bytes(13)), {}, none),
            (maker.ncm([frame], word=b"IPS"), {}, none),
            (maker.ncm([bytes(13)], checked=True), {}, none),
            (maker.ncm([]), {}, none),
            (frame, {}, none),
            (b"", {}, none),
        )
    )


def usb_frames(long: bool) -> LinkFrames:
    return LinkFrames(
        over_usb(long),
        lambda packet, kind: maker.usbmon(maker.rndis(maker.ethernet(packet, kind)), long),
        (),
        rows=usb_rows(long),
    )


def bare(packet: bytes, _: int) -> bytes:
    """No header at all."""
    return packet


def chained(count: int) -> bytes:
    """So many VN-tags, the first without its ether type."""
    kind, packet = 0x0800, PACKET4
    for _ in range(count):
        kind, packet = maker.tag(0x8926, packet, kind)
    return packet


_INNER = maker.ethernet(PACKET4, 0x0800)
TAGS = (
    maker.tag(0x8926, PACKET4, 0x0800), maker.tag(0x893F, PACKET4, 0x0800, (1, 2, 3)), maker.metadata(PACKET4, 0x0800),
    maker.tag(0x892F, PACKET4, 0x0800), maker.tag(0xF1C1, PACKET4, 0x0800), maker.timestamp(PACKET4, 0x0800),
    maker.timestamp(PACKET4, 0x0800, False), maker.tag(0x8926, *reversed(maker.metadata(PACKET4, 0x0800))),
)  # fmt: skip
"""Tags before a packet: the ether type behind them is that of the frame."""
ENVELOPES = (
    maker.backbone(_INNER), maker.trill(_INNER), maker.trill(_INNER, 3), maker.nsh(PACKET4, 1), maker.nsh(_INNER, 3),
    maker.nsh(maker.nsh(PACKET4, 1, 2)[1], 4), maker.nsh(maker.mpls(PACKET4, [16]), 5), maker.fabric_path(_INNER),
    maker.batman(_INNER), maker.batman(_INNER, 1), maker.batman(_INNER, 0x42), maker.batman(_INNER, 3, 14),
    (0x6558, _INNER), (0x8870, maker.snap(PACKET4)), (0x8870, b"\x06\x06\x03" + PACKET4),
    (0x8847, maker.mpls(_INNER, [16])), (0x8848, maker.mpls(bytes(4) + _INNER, [16, 17])),
    (0x8847, maker.mpls(b"\x10\0\0\x21" + PACKET4, [16])),
    maker.backbone(maker.ethernet(maker.trill(_INNER)[1], 0x22F3)),
)  # fmt: skip
"""What wraps a packet or frame keeps its ether type."""
CLOSED = (
    (0x8909, maker.tag(0, PACKET4, 0x0800, (0x0102, 1, 9))[1]), (0xD28B, maker.tag(0, PACKET4, 0x0800, (2, 1))[1]),
    maker.nsh(PACKET4, 0), maker.nsh(PACKET4, 9), (0x22F3, b"\xc0" + maker.trill(_INNER)[1][1:]),
    maker.batman(_INNER, 0), (0x8847, maker.mpls(b"\x10\0\0\x07" + PACKET4, [16])),
    (0x88E7, maker.backbone(maker.ieee802_3(b"\x42\x42\x03" + bytes(35)))[1]), (0x8874, bytes(60)),
)  # fmt: skip
"""What is not followed, of these types."""


LINKS: dict[int, LinkFrames] = {
    maker.ETHERNET: LinkFrames(
        over_ethernet, maker.ethernet, ("eth",), addresses=("eth.src", "eth.dst"), types=("eth.type",),
        rows=((maker.ethernet(maker.mpls(PACKET4, [16, 17]), 0x8847, 7, 8), (8, 7, 0x8847, None, 4)),
              (maker.ethernet(maker.pppoe(maker.ppp(PACKET6, 0x57)), 0x8864, 7, 8, [5]), (8, 7, 0x8864, 5, 6)),
              (maker.ethernet(maker.pppoe(maker.ppp(PACKET4), code=9), 0x8863, 7, 8), (8, 7, 0x8863, None, None)),
              (maker.ethernet(maker.pppoe(maker.ppp(PACKET4), code=9), 0x8864, 7, 8), (8, 7, 0x8864, None, None)),
              (maker.ethernet(maker.mpls(bytes(4) + PACKET4, [16]), 0x8847, 7, 8), (8, 7, 0x8847, None, None)),
              (maker.ethernet(maker.macsec(PACKET4), 0x88E5, 7, 8, [5]), (8, 7, 0x88E5, 5, 4)),
              (maker.ethernet(maker.macsec(PACKET6, 0x86DD, sci=bytes(8)), 0x88E5, 7, 8), (8, 7, 0x88E5, None, 6)),
              (maker.ethernet(maker.macsec(b"\0\6\x08\0" + PACKET4, 0x8100), 0x88E5, 7, 8), (8, 7, 0x88E5, 6, 4)),
              (maker.ethernet(maker.macsec(PACKET4, control=0x0C), 0x88E5, 7, 8), (8, 7, 0x88E5, None, None)),
              (maker.ethernet(maker.macsec(PACKET4, control=0x80), 0x88E5, 7, 8), (8, 7, 0x88E5, None, None)),
              (maker.ethernet(maker.macsec(PACKET4, short=2), 0x88E5, 7, 8), (8, 7, 0x88E5, None, None)),
              *((maker.ethernet(packet, kind, 7, 8, [5]), (8, 7, 0x0800, 5, 4)) for kind, packet in TAGS),
              *((maker.ethernet(packet, kind, 7, 8), (8, 7, kind, None, 4)) for kind, packet in ENVELOPES),
              *((maker.ethernet(b"\0\6\x08\0" + PACKET4, kind, 7, 8), (8, 7, 0x0800, 6, 4))
                for kind in (0x8100, 0x88A8, 0x9100, 0x9200, 0x9300)),
              *((maker.ethernet(packet, kind, 7, 8), (8, 7, kind, None, None)) for kind, packet in CLOSED),
              (maker.ethernet(maker.tag(0x8926, b"\0\x65\x08\0" + PACKET4, 0x8100)[1], 0x8926, 7, 8),
               (8, 7, 0x0800, 101, 4)),
              (maker.ethernet(maker.tag(0x892F, b"\0\6\x88\x47" + maker.mpls(PACKET6, [16]), 0x8100)[1], 0x892F, 7, 8),
               (8, 7, 0x8847, 6, 6)),
              (maker.ethernet(maker.backbone(maker.ethernet(PACKET4, vlans=[6]))[1], 0x88E7, 7, 8),
               (8, 7, 0x88E7, 6, 4)),
              (maker.ethernet(chained(15), 0x8926, 7, 8), (8, 7, 0x0800, None, 4)),
              (maker.ethernet(chained(40), 0x8926, 7, 8), (8, 7, 0x8926, None, None)),
              (maker.isl(maker.ethernet(PACKET4, 0x0800, 7, 8)), (8, 7, 0x0800, 66, 4)),
              (maker.isl(maker.ethernet(PACKET6, 0x86DD, 7, 8, [5]), lead=3), (8, 7, 0x86DD, 66, 6)),
              (maker.isl(maker.ieee802_3(maker.snap(PACKET4), 7, 8)), (8, 7, 0x0800, 66, 4)),
              (maker.isl(bytes(40), kind=1), (None, None, None, 66, None)),
              (maker.ieee802_3(maker.snap(PACKET4), 7, 8), (8, 7, 0x0800, None, 4)),
              (maker.ieee802_3(maker.snap(PACKET4, organisation=0xF8), 7, 8), (8, 7, 0x0800, None, 4)),
              (maker.ieee802_3(maker.snap(PACKET4, organisation=0x0C), 7, 8), (8, 7, None, None, None)),
              (maker.ieee802_3(b"\x06\x06\x03" + PACKET4, 7, 8), (8, 7, None, None, 4)),
              (maker.ieee802_3(maker.snap(PACKET4), 7, 8, length=1501), (8, 7, None, None, None))),
    ),
    maker.LINUX_SLL: LinkFrames(over_cooked, maker.linux_sll, ("sll",), addresses=("sll.src.eth", ""),
                                types=("sll.etype",),
                                rows=((maker.linux_sll(maker.snap(PACKET4), 4),
                                       (None, 0x020000000001, 0x0800, None, 4)),
                                      (maker.linux_sll(PACKET4, 1), (None, 0x020000000001, None, None, None)))),
    maker.LINUX_SLL2: LinkFrames(over_cooked2, maker.linux_sll2, ("sll",), addresses=("sll.src.eth", ""),
                                 types=("sll.etype",),
                                 rows=((maker.linux_sll2(PACKET4, src=b"\x07" * 4), (None, None, 0x0800, None, 4)),)),
    maker.NULL: LinkFrames(over_null, lambda packet, _: maker.loopback(packet), ("null",),
                           rows=((maker.loopback(PACKET6, 23, "little"), (None, None, None, None, 6)),)),
    maker.LOOP: LinkFrames(over_loop, lambda packet, _: maker.loopback(packet), ("null",),
                           rows=((maker.loopback(PACKET4, 24), (None, None, None, None, None)),)),
    maker.PPP: LinkFrames(lambda dice: over_ppp(dice, dice.random() < 0.5),
                          lambda packet, _: maker.ppp(packet, framed=True), ("ppp",),
                          rows=((maker.ppp(PACKET4, 0x23), (None, None, None, None, None)),)),
    maker.PPP_SERIAL: LinkFrames(lambda dice: over_ppp(dice, True), lambda packet, _: maker.ppp(packet, framed=True),
                                 ("ppp",)),
    maker.RAW12: LinkFrames(lambda dice: network(dice)[1], bare, ("raw",)),
    maker.RAW14: LinkFrames(lambda dice: network(dice)[1], bare, ("raw",)),
    maker.RAW: LinkFrames(lambda dice: network(dice)[1], bare, ("raw",)),
    maker.IPV4: LinkFrames(of_version(0x0800), bare, ("raw",), rows=((PACKET4, (None, None, None, None, 4)),)),
    maker.IPV6: LinkFrames(of_version(0x86DD), bare, ("raw",)),
    maker.WIFI: LinkFrames(
        over_wifi, lambda packet, kind: maker.wifi(maker.snap(packet, kind)), ("wlan",),
        addresses=("wlan.sa", "wlan.da"),
        rows=((maker.wifi(maker.snap(PACKET4), (1, 2, 3)), (1, 2, 0x0800, None, 4)),
              (maker.wifi(maker.snap(PACKET4), (1, 2, 3), to_ds=True), (3, 2, 0x0800, None, 4)),
              (maker.wifi(maker.snap(PACKET4), (1, 2, 3), from_ds=True), (1, 3, 0x0800, None, 4)),
              (maker.wifi(maker.snap(PACKET4), (1, 2, 3, 4), to_ds=True, from_ds=True), (3, 4, 0x0800, None, 4)),
              (maker.wifi(maker.snap(PACKET4), (1, 2, 3), qos=3, ht_control=bytes(4)), (1, 2, 0x0800, None, 4)),
              (maker.wifi(maker.snap(PACKET4), (1, 2, 3), qos=0x80), (1, 2, None, None, None)),
              (maker.wifi(maker.snap(PACKET4), (1, 2, 3), protected=True), (1, 2, None, None, None)),
              (maker.wifi(maker.snap(PACKET4), (1, 2, 3), fragment_number=1), (1, 2, None, None, None)),
              (maker.wifi(maker.snap(PACKET4), (1, 2, 3), subtype=4), (1, 2, None, None, None)),
              (maker.wifi(maker.snap(PACKET4), (1, 2, 3), kind=0), (1, 2, None, None, None)),
              (maker.wifi(maker.snap(PACKET4), (1, 2, 3), kind=1), (None, None, None, None, None))),
    ),
    maker.HDLC: LinkFrames(over_hdlc, maker.hdlc, ("chdlc",), addresses=("", ""), types=("chdlc.protocol",),
                           rows=((maker.hdlc(PACKET6, 0x86DD), (None, None, 0x86DD, None, 6)),
                                 (maker.hdlc(bytes(18), 0x2000), (None, None, 0x2000, None, None)),
                                 (maker.hdlc(PACKET4, 0x0021), (None, None, None, None, None)))),
    maker.INFINIBAND: LinkFrames(over_infiniband, maker.infiniband, ("ipoib",), addresses=("", ""),
                                 types=("ipoib.type",),
                                 rows=((maker.infiniband(PACKET4), (None, None, 0x0800, None, 4)),)),
    maker.NFLOG: LinkFrames(over_nflog, lambda packet, kind: maker.nflog(packet, 2 if kind == 0x0800 else 10),
                            ("nflog",),
                            rows=((maker.nflog(PACKET4, 2, "big", [(1, bytes(4))]), (None, None, None, None, 4)),
                                  (maker.nflog(PACKET6, 10, "big", [(0x8001, bytes(4))]), (None, None, None, None, 6)),
                                  (maker.nflog(PACKET4, 7), (None, None, None, None, None)),
                                  (maker.nflog(PACKET4, 2, before=[(0, bytes(4))]), (None, None, None, None, None)),
                                  (maker.nflog(PACKET4, 2, kind=10), (None, None, None, None, None)),
                                  (maker.nflog(PACKET4)[:4] + bytes(4) + PACKET4, (None, None, None, None, None)))),
    maker.PPI: LinkFrames(over_ppi, lambda packet, kind: maker.ppi(maker.wifi(maker.snap(packet, kind))),
                          ("ppi", "wlan_radio", "pcap_pktdata", "wlan"), addresses=("wlan.sa", "wlan.da"),
                          rows=((maker.ppi(maker.ethernet(PACKET4, 0x0800, 7, 8, [5]), maker.ETHERNET),
                                 (8, 7, 0x0800, 5, 4)),
                                (maker.ppi(PACKET6, maker.RAW, bytes(12)), (None, None, None, None, 6)),
                                (maker.ppi(PACKET4, maker.NULL), (None, None, None, None, None)),
                                (b"\x01" + maker.ppi(PACKET4, maker.RAW)[1:], (None, None, None, None, None)))),
    maker.PRISM: LinkFrames(over_prism, lambda packet, kind: maker.prism(maker.wifi(maker.snap(packet, kind))),
                            ("prism", "wlancap", "wlan_radio", "wlan"), addresses=("wlan.sa", "wlan.da"),
                            rows=((maker.prism(maker.wifi(maker.snap(PACKET4)), "big"), (1, 2, 0x0800, None, 4)),)),
    maker.AVS: LinkFrames(lambda dice: maker.avs(over_wifi(dice)),
                          lambda packet, kind: maker.avs(maker.wifi(maker.snap(packet, kind))),
                          ("wlancap", "wlan_radio", "wlan"), addresses=("wlan.sa", "wlan.da"),
                          rows=((maker.prism(maker.wifi(maker.snap(PACKET4))), (None, None, None, None, None)),)),
    maker.USB: usb_frames(False),
    maker.USB_MMAPPED: usb_frames(True),
    maker.RADIOTAP: LinkFrames(over_radiotap, lambda packet, kind: maker.radiotap(maker.wifi(maker.snap(packet, kind))),
                               ("radiotap", "wlan_radio", "wlan"), addresses=("wlan.sa", "wlan.da")),
}  # fmt: skip
"""Link type -> its frames."""
