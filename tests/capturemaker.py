"""Bytes of small captures for tests: records, frames and headers, nothing random.

A record is `(timestamp in ns, frame)` or `(timestamp, frame, length on the wire)`.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable

Record = tuple[int, bytes] | tuple[int, bytes, int]

ETHERNET, LINUX_SLL, LINUX_SLL2, NULL, LOOP, WIFI, RADIOTAP = 1, 113, 276, 0, 108, 105, 127
PPP, PPP_SERIAL, RAW12, RAW14, RAW, IPV4, IPV6 = 9, 50, 12, 14, 101, 228, 229
FIN, SYN, RST, PSH, ACK, URG = 1, 2, 4, 8, 16, 32


def pcap_bytes(
    records: Iterable[Record],
    byte_order: str = "little",
    nanoseconds: bool = False,
    link_type: int = ETHERNET,
    snaplen: int = 65535,
) -> bytes:
    """A classic pcap file; frames longer than `snaplen` are cut to it."""
    order = "<" if byte_order == "little" else ">"
    magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    parts = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, snaplen, link_type)]
    for stamp, frame, *wire in records:
        seconds, rest = divmod(stamp, 1_000_000_000)
        body = frame[:snaplen]
        length = wire[0] if wire else len(frame)
        parts.append(struct.pack(order + "IIII", seconds, rest if nanoseconds else rest // 1000, len(body), length))
        parts.append(body)
    return b"".join(parts)


def ethernet(
    payload: bytes,
    ether_type: int = 0x0800,
    src: int = 0x020000000001,
    dest: int = 0x020000000002,
    vlans: Iterable[int] = (),
) -> bytes:
    """An Ethernet frame, with 802.1Q tags for `vlans`."""
    tags = b"".join(struct.pack("!HH", 0x8100, vlan) for vlan in vlans)
    return dest.to_bytes(6, "big") + src.to_bytes(6, "big") + tags + struct.pack("!H", ether_type) + payload


def linux_sll(payload: bytes, protocol: int = 0x0800, src: bytes = b"\x02\x00\x00\x00\x00\x01") -> bytes:
    """A Linux cooked frame."""
    return struct.pack("!HHH8sH", 0, 1, len(src), src, protocol) + payload


def linux_sll2(payload: bytes, protocol: int = 0x0800, src: bytes = b"\x02\x00\x00\x00\x00\x01") -> bytes:
    """A Linux cooked frame, version 2."""
    return struct.pack("!HHIHBB8s", protocol, 0, 3, 1, 0, len(src), src) + payload


def tagged(payload: bytes, ether_type: int, vlans: Iterable[int], outer: int = 0x88A8) -> tuple[bytes, int]:
    """VLAN tags before a payload, the first of them of type `outer`; with the ether type to put before them."""
    for vlan in reversed(list(vlans)):
        payload, ether_type = struct.pack("!HH", vlan, ether_type) + payload, 0x8100
    return payload, outer if ether_type == 0x8100 else ether_type


def mpls(payload: bytes, labels: Iterable[int]) -> bytes:
    """A stack of MPLS labels, the last one marked."""
    words = [label << 12 | 64 for label in labels]
    words[-1] |= 0x100
    return struct.pack(f"!{len(words)}I", *words) + payload


def ppp(payload: bytes, protocol: int = 0x0021, framed: bool = False, compressed: bool = False) -> bytes:
    """A PPP frame: with address and control, with a protocol number of one byte."""
    number = bytes([protocol]) if compressed else struct.pack("!H", protocol)
    return (b"\xff\x03" if framed else b"") + number + payload


def pppoe(payload: bytes, session: int = 1, length: int | None = None, code: int = 0) -> bytes:
    """A PPPoE session header before a PPP frame."""
    return struct.pack("!BBHH", 0x11, code, session, len(payload) if length is None else length) + payload


def loopback(payload: bytes, family: int = 2, byte_order: str = "big") -> bytes:
    """A NULL (either order) or LOOP (big endian) frame."""
    return struct.pack(">I" if byte_order == "big" else "<I", family) + payload


def snap(payload: bytes, ether_type: int = 0x0800, organisation: int = 0) -> bytes:
    """An LLC and SNAP header before a payload."""
    return b"\xaa\xaa\x03" + organisation.to_bytes(3, "big") + struct.pack("!H", ether_type) + payload


def ieee802_3(
    payload: bytes, src: int = 0x020000000001, dest: int = 0x020000000002, length: int | None = None
) -> bytes:
    """An Ethernet frame with the length of its payload, which begins with LLC, in place of a type."""
    return ethernet(payload, len(payload) if length is None else length, src, dest)


def wifi(
    payload: bytes,
    addresses: Iterable[int] = (1, 2, 3),
    *,
    to_ds: bool = False,
    from_ds: bool = False,
    qos: int | None = None,
    ht_control: bytes = b"",
    protected: bool = False,
    fragment_number: int = 0,
    kind: int = 2,
    subtype: int = 0,
    padded: bool = False,
) -> bytes:
    """An 802.11 frame of a kind (0 management, 1 control, 2 data), with three or four addresses, not encrypted."""
    first = kind << 2 | subtype << 4 | (0x80 if qos is not None else 0)
    flags = to_ds | from_ds << 1 | protected << 6 | bool(ht_control) << 7
    one, two, three, *four = [address.to_bytes(6, "big") for address in addresses]
    head = bytes([first, flags, 0, 0]) + one + two + three + struct.pack("<H", fragment_number) + b"".join(four)
    head += (b"" if qos is None else struct.pack("<H", qos)) + ht_control
    return head + (bytes(-len(head) % 4) if padded else b"") + payload


def radiotap(frame: bytes, time: bool = False, flags: int | None = None, words: int = 1) -> bytes:
    """A radiotap header with up to two fields and `words` words of presence, before an 802.11 frame."""
    present = [0x8000_0000 | (0x2000_0000 if index == 0 else 0) for index in range(words)]
    present[0] |= time | (flags is not None) << 1
    present[-1] &= 0x7FFF_FFFF
    if words == 1:
        present[0] &= 0x1FFF_FFFF
    head = struct.pack(f"<{words}I", *present)
    if time:
        head += bytes(-(len(head) + 4) % 8) + bytes(8)
    if flags is not None:
        head += bytes([flags])
    return struct.pack("<BBH", 0, 0, len(head) + 4) + head + frame


def ipv4(
    src: str,
    dest: str,
    protocol: int,
    payload: bytes,
    *,
    tos: int = 0,
    ttl: int = 64,
    identity: int = 1,
    options: bytes = b"",
    offset: int = 0,
    more: bool = False,
    total_length: int | None = None,
) -> bytes:
    """An IPv4 packet; `offset` in bytes (a multiple of 8), `options` a multiple of 4 bytes. Its checksum is 0."""
    words = 5 + len(options) // 4
    total = 4 * words + len(payload) if total_length is None else total_length
    field = offset // 8 | (0x2000 if more else 0)
    head = struct.pack("!BBHHHBBH", 0x40 | words, tos, total, identity, field, ttl, protocol, 0)
    return head + ipaddress.IPv4Address(src).packed + ipaddress.IPv4Address(dest).packed + options + payload


def ipv6(
    src: str,
    dest: str,
    next_header: int,
    payload: bytes,
    *,
    tos: int = 0,
    ttl: int = 64,
    payload_length: int | None = None,
) -> bytes:
    """An IPv6 packet; extension headers are part of `payload`."""
    length = len(payload) if payload_length is None else payload_length
    head = struct.pack("!IHBB", 6 << 28 | tos << 20, length, next_header, ttl)
    return head + ipaddress.IPv6Address(src).packed + ipaddress.IPv6Address(dest).packed + payload


def ip(src: str, dest: str, protocol: int, payload: bytes) -> bytes:
    """An Ethernet frame with the IP version of the addresses."""
    if ":" in src:
        return ethernet(ipv6(src, dest, protocol, payload), 0x86DD)
    return ethernet(ipv4(src, dest, protocol, payload))


def extension(next_header: int, body: bytes = bytes(6)) -> bytes:
    """An IPv6 hop-by-hop, routing, destination or mobility header; `body` has 6 bytes more than a multiple of 8."""
    return bytes([next_header, (len(body) + 2) // 8 - 1]) + body


def fragment(next_header: int, offset: int, more: bool, identity: int = 7) -> bytes:
    """An IPv6 fragment header; `offset` in bytes (a multiple of 8)."""
    return struct.pack("!BBHI", next_header, 0, offset | more, identity)


def tcp_header(
    sport: int, dport: int, flags: int = ACK, seq: int = 0, ack: int = 0, window: int = 8192, data: bytes = b""
) -> bytes:
    """A TCP header and its data."""
    return struct.pack("!HHIIBBHHH", sport, dport, seq, ack, 0x50, flags, window, 0, 0) + data


def udp_header(sport: int, dport: int, data: bytes = b"") -> bytes:
    """A UDP header and its data."""
    return struct.pack("!HHHH", sport, dport, 8 + len(data), 0) + data


def tcp(
    src: str, dest: str, sport: int, dport: int, flags: int = ACK, seq: int = 0, ack: int = 0, data: bytes = b""
) -> bytes:
    """An Ethernet frame with a TCP segment, over IPv4 or IPv6 as the addresses are."""
    return ip(src, dest, 6, tcp_header(sport, dport, flags, seq, ack, data=data))


def udp(src: str, dest: str, sport: int, dport: int, data: bytes = b"") -> bytes:
    """An Ethernet frame with a UDP datagram, over IPv4 or IPv6 as the addresses are."""
    return ip(src, dest, 17, udp_header(sport, dport, data))


def icmp(src: str, dest: str, kind: int = 8, code: int = 0, data: bytes = bytes(8)) -> bytes:
    """An Ethernet frame with an ICMP (over IPv4) or ICMPv6 (over IPv6) message."""
    return ip(src, dest, 58 if ":" in src else 1, struct.pack("!BBH", kind, code, 0) + data)


def arp() -> bytes:
    """An Ethernet frame with an ARP request, which no IP protocol sees."""
    return ethernet(struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + bytes(20), 0x0806)
