"""Bytes of small captures for tests: records, frames and headers, nothing random."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable

Record = tuple[int, bytes] | tuple[int, bytes, int]

ETHERNET, LINUX_SLL, LINUX_SLL2, NULL, LOOP, WIFI, RADIOTAP = 1, 113, 276, 0, 108, 105, 127
PPP, PPP_SERIAL, RAW12, RAW14, RAW, IPV4, IPV6 = 9, 50, 12, 14, 101, 228, 229
HDLC, INFINIBAND, NFLOG, PPI, PRISM, AVS, USB, USB_MMAPPED = 104, 242, 239, 192, 119, 163, 189, 220
FIN, SYN, RST, PSH, ACK, URG = 1, 2, 4, 8, 16, 32


def pcap_bytes(
    records: Iterable[Record],
    byte_order: str = "little",
    nanoseconds: bool = False,
    link_type: int = ETHERNET,
    snaplen: int = 65535,
    *,
    version: tuple[int, int] = (2, 4),
    swapped: bool = False,
    modified: bool = False,
) -> bytes:
    """A classic pcap file; frames longer than `snaplen` are cut to it."""
    order = "<" if byte_order == "little" else ">"
    magic = 0xA1B2CD34 if modified else 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    parts = [struct.pack(order + "IHHiIII", magic, *version, 0, 0, snaplen, link_type)]
    for stamp, frame, *wire in records:
        seconds, rest = divmod(stamp, 1_000_000_000)
        body = frame[:snaplen]
        lengths = (len(body), wire[0] if wire else len(frame))
        parts.append(struct.pack(order + "II", seconds, rest if nanoseconds else rest // 1000))
        parts.append(struct.pack(order + "II", *(reversed(lengths) if swapped else lengths)))
        parts.append(bytes([0, 0, 0, 1, 8, 0, 0, 0]) + body if modified else body)
    return b"".join(parts)


def snoop_bytes(records: Iterable[Record], datalink: int = 4, *, padding: int = 0, version: int = 2) -> bytes:
    """A snoop capture; each record is padded to 4 bytes, and by `padding` more."""
    parts = [b"snoop\0\0\0" + struct.pack(">II", version, datalink)]
    for stamp, frame, *wire in records:
        seconds, rest = divmod(stamp, 1_000_000_000)
        behind = -len(frame) % 4 + padding
        sizes = (wire[0] if wire else len(frame), len(frame), 24 + len(frame) + behind, 0)
        parts.append(struct.pack(">6I", *sizes, seconds, rest // 1000) + frame + bytes(behind))
    return b"".join(parts)


def erf_record(
    stamp: int, packet: bytes, kind: int = 2, port: int = 0, *, wire: int | None = None, extensions: int = 0
) -> bytes:
    """A record of ERF, padded to 8 bytes; `extensions` is the number of its extension headers."""
    seconds, rest = divmod(stamp, 1_000_000_000)
    more = b"".join(bytes([0x83 if left else 3]) + bytes(7) for left in reversed(range(extensions)))
    own = {2: 2, 11: 2, 16: 2, 20: 2, 5: 4, 6: 4, 7: 4, 8: 4, 9: 4, 12: 4, 17: 4, 18: 4}.get(kind, 0)
    body = more + bytes(own) + packet
    body += bytes(-len(body) % 8)
    flags = 4 | port & 3 | (port & 4) << 4
    time = seconds << 32 | (rest << 32) // 1_000_000_000
    head = struct.pack("<QBB", time, kind | (0x80 if extensions else 0), flags)
    return head + struct.pack(">HHH", 16 + len(body), 0, len(packet) if wire is None else wire) + body


def erf_bytes(records: Iterable[Record], kind: int = 2) -> bytes:
    """An ERF file of one port."""
    return b"".join(erf_record(stamp, frame, kind, wire=wire[0] if wire else None) for stamp, frame, *wire in records)


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


def macsec(payload: bytes, ether_type: int = 0x0800, control: int = 0, sci: bytes = b"", short: int = 0) -> bytes:
    """A MACsec tag of ether type 0x88E5, protected data, and a check value."""
    head = struct.pack("!BBI", control | (0x20 if sci else 0), short, 1) + sci
    return head + struct.pack("!H", ether_type) + payload + bytes(16)


def tag(kind: int, payload: bytes, ether_type: int, words: Iterable[int] = (1, 2)) -> tuple[int, bytes]:
    """A tag that ends with the next ether type, and what is behind it: VN-tag, E-tag, HSR, R-TAG and others."""
    return kind, struct.pack(f"!{len(list(words)) + 1}H", *words, ether_type) + payload


def metadata(payload: bytes, ether_type: int, group: int = 99) -> tuple[int, bytes]:
    """Cisco's tag with a security group, and its ether type."""
    return tag(0x8909, payload, ether_type, (0x0101, 1, group))


def timestamp(payload: bytes, ether_type: int, long: bool = True) -> tuple[int, bytes]:
    """A tag of Arista's switches with a time of 64 or 48 bits, and its ether type."""
    return tag(0xD28B, payload, ether_type, (1, 0x10, 1, 2, 3, 4) if long else (1, 0x20, 1, 2, 3))


def backbone(frame: bytes) -> tuple[int, bytes]:
    """The service tag of IEEE 802.1ah before a frame, and its ether type."""
    return 0x88E7, struct.pack("!I", 77) + frame


def trill(frame: bytes, options: int = 0) -> tuple[int, bytes]:
    """TRILL with words of options before a frame, and its ether type."""
    return 0x22F3, struct.pack("!HHH", options << 6 | 5, 1, 2) + bytes(4 * options) + frame


def nsh(payload: bytes, following: int, words: int = 6) -> tuple[int, bytes]:
    """A network service header of so many words before what `following` says, and its ether type."""
    kind = 1 if words == 6 else 2
    return 0x894F, struct.pack("!HBBI", 0x0FC0 | words, kind, following, 5 << 8 | 255) + bytes(4 * words - 8) + payload


def fabric_path(frame: bytes) -> tuple[int, bytes]:
    """Cisco's FabricPath before a frame, and its ether type."""
    return 0x8903, struct.pack("!H", 1 << 6 | 5) + frame


def batman(frame: bytes, kind: int = 0x40, version: int = 15) -> tuple[int, bytes]:
    """B.A.T.M.A.N. advanced, of a kind that carries frames, and its ether type."""
    size = {0x40: 10, 0x01: 14, 0x42: 18, 3: 10, 4: 14, 6: 18}.get(kind, 10)
    return 0x4305, bytes([kind, version, 50, 1]) + bytes(size - 4) + frame


def isl(frame: bytes, vlan: int = 66, kind: int = 0, lead: int = 0x01) -> bytes:
    """Cisco's inter-switch link around a frame and its check sequence."""
    head = bytes([lead, 0, 0x0C, 0, 0, kind << 4]) + b"\x02\0\0\0\0\x33" + struct.pack("!H", len(frame) + 16)
    return head + b"\xaa\xaa\x03\x02\0\0" + struct.pack("!HHH", vlan << 1, 1, 0) + frame + bytes(4)


def hdlc(payload: bytes, protocol: int = 0x0800, address: int = 0x0F) -> bytes:
    """A Cisco HDLC frame."""
    return struct.pack("!BBH", address, 0, protocol) + payload


def infiniband(payload: bytes, ether_type: int = 0x0800) -> bytes:
    """A pseudo-header of addresses and an IPoIB header before a packet."""
    return bytes(20) + b"\x07" * 20 + struct.pack("!HH", ether_type, 0) + payload


def nflog(
    packet: bytes, family: int = 2, byte_order: str = "little", before: Iterable[tuple[int, bytes]] = (), kind: int = 9
) -> bytes:
    """A record of NFLOG: attributes `before` as type and value, then the packet as an attribute of type `kind`."""
    form = "<HH" if byte_order == "little" else ">HH"
    parts = [struct.pack("!BBH", family, 0, 5)]
    for number, value in [*before, (kind, packet)]:
        parts.append(struct.pack(form, 4 + len(value), number) + value + bytes(-len(value) % 4))
    return b"".join(parts)


def ppi(frame: bytes, link_type: int = WIFI, fields: bytes = b"") -> bytes:
    """A PPI header with `fields` before a record of a link type."""
    return struct.pack("<BBHI", 0, 0, 8 + len(fields), link_type) + fields + frame


def prism(frame: bytes, byte_order: str = "little", code: int = 0x44) -> bytes:
    """A Prism header before an 802.11 frame."""
    return struct.pack("<II16s" if byte_order == "little" else ">II16s", code, 144, b"wlan0") + bytes(120) + frame


def usbmon(transfer: bytes, long: bool = True, kind: int = 3, absent: int = 0) -> bytes:
    """A transfer of USB as usbmon records it; kind 3 is bulk, and `absent` says that no data follow."""
    head = struct.pack("<QBBBBHBBqiiII", 7, ord("C"), kind, 0x81, 4, 1, ord("-"), absent, 0, 0, 0, *[len(transfer)] * 2)
    return head + bytes(24 if long else 8) + transfer


def rndis(frame: bytes, padding: int = 0, kind: int = 1, offset: int = 36) -> bytes:
    """A message of RNDIS with a frame; `padding` bytes stand before the frame."""
    length = 44 + padding + len(frame)
    return struct.pack("<11I", kind, length, offset + padding, len(frame), *[0] * 7) + bytes(padding) + frame


def ncm(
    frames: Iterable[bytes], wide: bool = False, checked: bool = False, first: bool = True, word: bytes = b"NCM"
) -> bytes:
    """A block of NCM: its table of frames stands before or behind them; a checksum may end each frame."""
    bodies = [frame + bytes(4 if checked else 0) for frame in frames]
    head, pair, form = (16, 16, "<II") if wide else (12, 8, "<HH")
    table = pair + struct.calcsize(form) * (len(bodies) + 1)
    at, entries = head + (table if first else 0), b""
    for body in bodies:
        entries += struct.pack(form, at, len(body))
        at += len(body)
    sign = word.lower() if wide else word
    name = sign + (b"1" if checked else b"0")
    entries += bytes(struct.calcsize(form))
    listed = name + struct.pack("<H", table) + bytes(pair - 6) + entries
    place = head if first else at
    total = head + table + sum(map(len, bodies))
    begin = struct.pack("<4sHHII" if wide else "<4sHHHH", b"ncmh" if wide else b"NCMH", head, 1, total, place)
    return begin + (listed + b"".join(bodies) if first else b"".join(bodies) + listed)


def avs(frame: bytes) -> bytes:
    """An AVS header before an 802.11 frame."""
    return struct.pack("!II", 0x8021_1001, 64) + bytes(56) + frame


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


def arp(
    sender: str = "0.0.0.0",
    target: str = "0.0.0.0",
    op: int = 1,
    hardware: int = 1,
    protocol: int = 0x0800,
    lengths: tuple[int, int] = (6, 4),
) -> bytes:
    """An Ethernet frame with ARP, which no IP protocol sees."""
    head = struct.pack("!HHBBH", hardware, protocol, *lengths, op)
    addresses = [ipaddress.IPv4Address(one).packed for one in (sender, target)]
    return ethernet(head + bytes(6) + addresses[0] + bytes(6) + addresses[1], 0x0806)


def sctp_header(sport: int, dport: int, data: bytes = b"") -> bytes:
    """An SCTP common header and its chunks."""
    return struct.pack("!HHII", sport, dport, 0, 0) + data


def dccp_header(sport: int, dport: int, data: bytes = b"", words: int = 4) -> bytes:
    """A DCCP-Data header with a sequence number of 48 bits, and its data."""
    return struct.pack("!HHBBHBB6x", sport, dport, words, 0, 0, 2 << 1 | 1, 0) + bytes(4 * words - 16) + data


def gre(
    payload: bytes,
    protocol_type: int = 0x0800,
    *,
    checksum: bool = False,
    key: int | None = None,
    sequence: int | None = None,
) -> bytes:
    """A GRE header before a payload."""
    flags = checksum << 15 | (key is not None) << 13 | (sequence is not None) << 12
    fields = bytes(4) if checksum else b""
    fields += b"".join(struct.pack("!I", word) for word in (key, sequence) if word is not None)
    return struct.pack("!HH", flags, protocol_type) + fields + payload


def pptp(payload: bytes, call: int, sequence: int | None = None, acknowledgement: int | None = None) -> bytes:
    """A GRE header of version 1 before a PPP frame."""
    flags = 0x2001 | (sequence is not None) << 12 | (acknowledgement is not None) << 7
    fields = b"".join(struct.pack("!I", word) for word in (sequence, acknowledgement) if word is not None)
    return struct.pack("!HHHH", flags, 0x880B, len(payload), call) + fields + payload


def erspan(frame: bytes, session: int, version: int = 2, subheader: bool = False) -> bytes:
    """GRE and ERSPAN (type II or III) before an Ethernet frame."""
    if version == 2:
        return gre(struct.pack("!HHI", 0x1000, session, 0) + frame, 0x88BE, sequence=1)
    head = struct.pack("!HHIHH", 0x2000, session, 0, 0, subheader) + bytes(8 * subheader)
    return gre(head + frame, 0x22EB, sequence=1)


def vxlan_gpe(payload: bytes, vni: int, following: int = 3, flags: int = 0x0C) -> bytes:
    """UDP and VXLAN-GPE before what `following` says."""
    return udp_header(49152, 4790, struct.pack("!BHBI", flags, 0, following, vni << 8) + payload)


def l2tp(frame: bytes, session: int, *, length: bool = False, numbered: bool = False, offset: int | None = None,
         control: bool = False) -> bytes:  # fmt: skip
    """UDP and L2TP before a PPP frame."""
    flags = 2 | length << 14 | numbered << 11 | (offset is not None) << 9 | control << 15
    body = struct.pack("!HH", 4, session) + (bytes(4) if numbered else b"")
    body += b"" if offset is None else struct.pack("!H", offset) + bytes(offset)
    size = struct.pack("!H", 4 + len(body) + len(frame)) if length else b""
    return udp_header(49152, 1701, struct.pack("!H", flags) + size + body + frame)


def lisp(packet: bytes, instance: int | None = None) -> bytes:
    """UDP and LISP before a packet."""
    flags, word = (0x80, 1) if instance is None else (0x88, instance << 8 | 1)
    return udp_header(49152, 4341, struct.pack("!B3xI", flags, word) + packet)


def teredo(packet: bytes, *, origin: bool = False, authenticated: bool = False) -> bytes:
    """UDP and Teredo before a packet of IPv6."""
    head = b"\0\1\2\3" + bytes(2 + 3 + 9) if authenticated else b""
    return udp_header(49152, 3544, head + (bytes(8) if origin else b"") + packet)


def tzsp(frame: bytes, tags: bytes = b"\x01", kind: int = 0, protocol: int = 1) -> bytes:
    """UDP and TZSP before an Ethernet frame."""
    return udp_header(49152, 37008, struct.pack("!BBH", 1, kind, protocol) + tags + frame)


def vxlan(frame: bytes, vni: int, flags: int = 0x08, port: int = 4789) -> bytes:
    """UDP and VXLAN before an Ethernet frame."""
    return udp_header(49152, port, struct.pack("!B3xI", flags, vni << 8) + frame)


def geneve(payload: bytes, vni: int, protocol_type: int = 0x6558, options: bytes = b"", version: int = 0) -> bytes:
    """UDP and Geneve, its options a multiple of 4 bytes."""
    head = struct.pack("!BBHI", version << 6 | len(options) // 4, 0, protocol_type, vni << 8)
    return udp_header(49152, 6081, head + options + payload)


def gtp_u(
    packet: bytes,
    teid: int,
    extensions: Iterable[tuple[int, bytes]] = (),
    *,
    message: int = 255,
    sequence: bool = False,
) -> bytes:
    """UDP and GTP-U before a packet; an extension is its type and its content, 2 bytes and a multiple of 4."""
    headers = list(extensions)
    flags = 0x30 | (0x04 if headers else 0) | (0x02 if sequence else 0)
    body = b""
    if headers or sequence:
        body = struct.pack("!HBB", 1, 0, headers[0][0] if headers else 0)
        following = [kind for kind, _ in headers[1:]] + [0]
        for (_, content), kind in zip(headers, following, strict=False):
            body += bytes([(len(content) + 2) // 4]) + content + bytes([kind])
    body += packet
    return udp_header(49152, 2152, struct.pack("!BBHI", flags, message, len(body), teid) + body)
