"""Decoded columns against dpkt, field by field, and the cases that dpkt reads otherwise."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import dpkt
import pytest
from hypothesis import given, strategies as st

from lowwater.capture import inlining, read
from lowwater.capture.formats import classic, pcapng
from lowwater.capture.headers import packet as decode
from lowwater.capture.headers.links import LAYERS
from lowwater.capture.headers.tunnels import PORTS
from lowwater.capture.inlining import inlined
from lowwater.capture.reader import BATCH
from tests import capturemaker as maker

START = 1_600_000_000_000_000_000
FORGIVING = 1 << 61
PADDING = 3
EXTENSIONS = (0, 43, 44, 51, 60, 135)
FIELDS = [name for name in BATCH.names if name not in ("position", "arrival", "timestamp", "len", "caplen")]


def rows(path: Path, data: bytes, **options: Any) -> list[dict[str, Any]]:
    path.write_bytes(data)
    return [row for batch in read(path, FORGIVING, chunk_bytes=4096, **options) for row in batch.to_pylist()]


def signed(raw: bytes) -> int:
    return int.from_bytes(raw, "big", signed=True)


def of_transport(packet: Any, above: Any) -> dict[str, int]:
    if isinstance(above, dpkt.tcp.TCP):
        return {
            "srcPort": above.sport, "destPort": above.dport, "sequence_number": above.seq, "ack_number": above.ack,
            "flags": above.flags & 0xFF, "window": above.win,
        }  # fmt: skip
    if isinstance(above, dpkt.udp.UDP):
        return {"srcPort": above.sport, "destPort": above.dport}
    if isinstance(above, dpkt.icmp.ICMP) or (isinstance(above, dpkt.icmp6.ICMP6) and isinstance(packet, dpkt.ip6.IP6)):
        return {"icmp_type": above.type, "icmp_code": above.code}
    return {}


def of_payload(packet: Any, frame: bytes, header: int) -> dict[str, int]:
    """Place and length of the payload; `header` bytes stand between IP and it."""
    offset = len(frame) - len(packet.data) + header
    unknown = isinstance(packet, dpkt.ip6.IP6) and packet.plen == 0
    return {"payload_offset": offset, "payload_length": len(frame) - offset + (PADDING if unknown else 0)}


def length(above: Any) -> int:
    """Bytes of a transport header."""
    if isinstance(above, dpkt.tcp.TCP):
        return 4 * int(above.off)
    return 0 if isinstance(above, bytes) else 8


def oracle(frame: bytes, link_type: int) -> dict[str, Any]:
    """What dpkt says of a wholly captured frame, with PADDING bytes behind it on the wire."""
    found: dict[str, Any] = dict.fromkeys(FIELDS)
    if link_type == maker.LINUX_SLL:
        cooked = dpkt.sll.SLL(frame)
        packet = cooked.data
        found["ether_type"] = cooked.ethtype
        if cooked.hlen == 6:
            found["srcMAC"] = int.from_bytes(cooked.hdr[:6], "big")
    else:
        ether = dpkt.ethernet.Ethernet(frame)
        packet = ether.data
        found |= {
            "srcMAC": int.from_bytes(ether.src, "big"), "destMAC": int.from_bytes(ether.dst, "big"),
            "ether_type": ether.type,
        }  # fmt: skip
        if getattr(ether, "vlan_tags", None):
            found["vlan_id"], found["ether_type"] = ether.vlan_tags[0].id, ether.vlan_tags[-1].type
    if isinstance(packet, dpkt.ip.IP):
        found |= {
            "ipversion": 4, "srcIP_hi": 0, "destIP_hi": 0, "srcIP_lo": int.from_bytes(packet.src, "big"),
            "destIP_lo": int.from_bytes(packet.dst, "big"), "protocol": packet.p, "total_length": packet.len,
            "ttl": packet.ttl, "tos": packet.tos, "id": packet.id, "offset": packet.offset * 8,
        }  # fmt: skip
        if not packet.offset:
            found |= of_transport(packet, packet.data)
        found |= of_payload(packet, frame, 0 if packet.offset else length(packet.data))
    elif isinstance(packet, dpkt.ip6.IP6):
        fragment = packet.extension_hdrs.get(44)
        found |= {
            "ipversion": 6, "srcIP_hi": signed(packet.src[:8]), "srcIP_lo": signed(packet.src[8:]),
            "destIP_hi": signed(packet.dst[:8]), "destIP_lo": signed(packet.dst[8:]), "protocol": packet.p,
            "total_length": packet.plen + 40, "ttl": packet.hlim, "tos": packet.fc,
            "id": fragment.id if fragment else None, "offset": fragment.frag_off * 8 if fragment else None,
        }  # fmt: skip
        later = fragment and fragment.frag_off
        if not later:
            found |= of_transport(packet, packet.data)
        found |= of_payload(packet, frame, 0 if later else length(packet.data))
    return found


ports = st.integers(0, 65535).filter(lambda port: port not in PORTS)
words = st.integers(0, (1 << 32) - 1)
bytes_ = st.integers(0, 255)
v4 = st.ip_addresses(v=4).map(str)
v6 = st.ip_addresses(v=6).map(str)
segments = st.builds(maker.tcp_header, ports, ports, bytes_, words, words, ports, st.binary(max_size=40)).map(
    lambda raw: (6, raw)
)
datagrams = st.builds(maker.udp_header, ports, ports, st.binary(max_size=40)).map(lambda raw: (17, raw))
messages4 = st.builds(
    lambda kind, code: (1, struct.pack("!BBHI", kind, code, 0, 0)), st.sampled_from([0, 8, 13]), bytes_
)
messages6 = st.builds(
    lambda kind, code: (58, struct.pack("!BBHI", kind, code, 0, 0)), st.sampled_from([128, 129]), bytes_
)
others = st.binary(max_size=40).map(lambda raw: (253, raw))


@st.composite
def packets4(draw: st.DrawFn) -> tuple[int, bytes]:
    protocol, payload = draw(segments | datagrams | messages4 | others)
    packet = maker.ipv4(
        draw(v4), draw(v4), protocol, payload,
        tos=draw(bytes_), ttl=draw(bytes_), identity=draw(ports), options=b"\x01" * 4 * draw(st.integers(0, 10)),
        offset=8 * draw(st.just(0) | st.integers(0, 8000)), more=draw(st.booleans()),
    )  # fmt: skip
    return 0x0800, packet


@st.composite
def packets6(draw: st.DrawFn) -> tuple[int, bytes]:
    kind, payload = draw(segments | datagrams | messages6 | others)
    offset = draw(st.just(0) | st.integers(0, 8000)) * 8
    if draw(st.booleans()):
        payload = maker.fragment(kind, offset, draw(st.booleans()), draw(words)) + payload
        kind = 44
    for extension in draw(st.sampled_from([(), (0,), (60,), (0, 60), (0, 43)])):
        body = bytes(6 + 8 * draw(st.integers(0, 2)))
        payload = maker.extension(kind, body) + payload
        kind = extension
    return 0x86DD, maker.ipv6(draw(v6), draw(v6), kind, payload, tos=draw(bytes_), ttl=draw(bytes_))


@st.composite
def frames(draw: st.DrawFn) -> tuple[int, bytes]:
    """Link type and frame."""
    kind, packet = draw(packets4() | packets6() | st.tuples(st.just(0x88B5), st.binary(max_size=60)))
    if draw(st.booleans()):
        return maker.LINUX_SLL, maker.linux_sll(packet, kind, draw(st.binary(min_size=6, max_size=6)))
    vlans = draw(st.lists(st.integers(0, 4095), max_size=2))
    macs = st.integers(0, (1 << 48) - 1)
    return maker.ETHERNET, maker.ethernet(packet, kind, draw(macs), draw(macs), vlans)


@given(
    st.sampled_from([maker.ETHERNET, maker.LINUX_SLL]).flatmap(
        lambda link: st.tuples(st.just(link), st.lists(frames().filter(lambda one: one[0] == link), max_size=8))
    ),
    st.sampled_from(["little", "big"]),
    st.booleans(),
    st.integers(0, 3_000_000_000_000),
)
def test_every_field_equals_dpkt(
    tmp_path_factory: Any, given_frames: tuple[int, list[tuple[int, bytes]]], order: str, nanoseconds: bool, step: int
) -> None:
    link, found = given_frames[0], given_frames[1]
    texts = [text for _, text in found]
    unit = 1 if nanoseconds else 1000
    stamps = [START + index * step // unit * unit for index in range(len(texts))]
    wires = [len(text) + PADDING for text in texts]
    data = maker.pcap_bytes(zip(stamps, texts, wires, strict=True), order, nanoseconds, link)
    decoded = rows(tmp_path_factory.mktemp("decode") / "one.pcap", data)
    assert [row["timestamp"] for row in decoded] == stamps
    assert [row["arrival"] for row in decoded] == stamps
    assert [(row["len"], row["caplen"]) for row in decoded] == [(len(text) + PADDING, len(text)) for text in texts]
    assert [row["position"] for row in decoded] == list(range(len(texts)))
    for row, text in zip(decoded, texts, strict=True):
        assert {name: row[name] for name in FIELDS} == oracle(text, link)


@given(frames(), st.integers(0, 140))
def test_a_short_snaplen_only_takes_fields_away(tmp_path_factory: Any, frame: tuple[int, bytes], snaplen: int) -> None:
    link, text = frame
    path = tmp_path_factory.mktemp("snap") / "one.pcap"
    (whole,) = rows(path, maker.pcap_bytes([(START, text)], link_type=link))
    # The same bytes follow in a second record, so that a read beyond the first would find something.
    (short, _) = rows(
        path,
        maker.pcap_bytes([(START, text, len(text)), (START, text[:snaplen][::-1])], link_type=link, snaplen=snaplen),
    )
    assert short["caplen"] == min(snaplen, len(text))
    for name in FIELDS:
        # Of cut extension headers the protocol is the number of the first one that is cut.
        named = EXTENSIONS if name == "protocol" and whole["ipversion"] == 6 else ()
        assert short[name] in (whole[name], None, *named)
    if snaplen >= len(text):
        assert {name: short[name] for name in FIELDS} == {name: whole[name] for name in FIELDS}


def test_each_field_appears_with_its_last_byte(tmp_path: Path) -> None:
    text = maker.tcp("10.1.2.3", "10.4.5.6", 1234, 80, maker.SYN, 7, 9)
    ends = {
        "destMAC": 6, "srcMAC": 12, "ether_type": 14, "ipversion": 15, "tos": 16, "total_length": 18, "id": 20,
        "offset": 22, "ttl": 23, "protocol": 24, "srcIP_lo": 30, "srcIP_hi": 30, "destIP_lo": 34, "destIP_hi": 34,
        "srcPort": 36, "destPort": 38, "sequence_number": 42, "ack_number": 46, "flags": 48, "window": 50,
        "payload_offset": 47, "payload_length": 47,
    }  # fmt: skip
    for snaplen in range(len(text) + 1):
        (row,) = rows(tmp_path / "one.pcap", maker.pcap_bytes([(START, text)], snaplen=snaplen))
        present = {name for name in FIELDS if row[name] is not None}
        assert present == {name for name, end in ends.items() if end <= snaplen}, snaplen


def one(tmp_path: Path, text: bytes, link: int = maker.ETHERNET) -> dict[str, Any]:
    (row,) = rows(tmp_path / "one.pcap", maker.pcap_bytes([(START, text)], link_type=link))
    return row


def test_a_length_of_zero_is_segmentation_offload(tmp_path: Path) -> None:
    segment = maker.tcp_header(5, 6)
    row = one(tmp_path, maker.ethernet(maker.ipv4("1.1.1.1", "2.2.2.2", 6, segment, total_length=0)))
    assert (row["srcPort"], row["destPort"], row["total_length"]) == (5, 6, 0)


def test_a_header_that_contradicts_its_type_stays_undecoded(tmp_path: Path) -> None:
    for broken in (b"\x65" + bytes(40), b"\x44" + bytes(40), b""):
        row = one(tmp_path, maker.ethernet(broken))
        assert row["ether_type"] == 0x0800
        assert row["ipversion"] is None and row["protocol"] is None


def place(row: dict[str, Any]) -> tuple[int | None, int | None]:
    return row["payload_offset"], row["payload_length"]


@pytest.mark.parametrize(
    ("protocol", "above", "header", "sport"),
    [
        (6, maker.tcp_header(5, 6, data=b"abc"), 20, 5), (17, maker.udp_header(5, 6, b"abc"), 8, 5),
        (132, maker.sctp_header(5, 6, b"abc"), 12, 5), (136, maker.udp_header(5, 6, b"abc"), 8, 5),
        (33, maker.dccp_header(5, 6, b"abc"), 16, 5), (33, maker.dccp_header(5, 6, b"abc", 7), 28, 5),
        (1, bytes(8) + b"abc", 8, None), (50, b"abc", 0, None), (59, b"abc", 0, None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("padding", [b"", bytes(9)])
def test_where_the_payload_is(
    tmp_path: Path, protocol: int, above: bytes, header: int, sport: int | None, padding: bytes
) -> None:
    """Behind the header above IP, whose length IP tells; what follows is padding of the link."""
    row = one(tmp_path, maker.ethernet(maker.ipv4("1.1.1.1", "2.2.2.2", protocol, above, options=bytes(4)) + padding))
    assert (*place(row), row["srcPort"]) == (14 + 24 + header, 3, sport)
    if protocol != 1:  # that is ICMP of IPv4 only
        chain = maker.extension(protocol, bytes(14)) + above
        packet = maker.ipv6("::1", "::2", 60, chain)
        row = one(tmp_path, maker.ethernet(packet + padding, 0x86DD, vlans=[7]))
        assert (*place(row), row["srcPort"]) == (18 + 40 + 16 + header, 3, sport)


def test_arp(tmp_path: Path) -> None:
    names = ("arp_op", "arp_ipversion", "arp_srcIP_hi", "arp_srcIP_lo", "arp_destIP_hi", "arp_destIP_lo", "ipversion")
    frame = maker.arp("10.0.0.1", "10.0.0.2", 2)
    first, second = 0x0A000001, 0x0A000002
    row = one(tmp_path, frame)
    assert [row[name] for name in names] == [2, 4, 0, first, 0, second, None]
    for other in ({"hardware": 6}, {"protocol": 0x86DD}, {"lengths": (8, 4)}):
        row = one(tmp_path, maker.arp("10.0.0.1", "10.0.0.2", 2, **other))
        assert [row[name] for name in names] == [2, None, None, None, None, None, None]
    cut = {19: [], 20: [4], 22: [2, 4], 31: [2, 4], 32: [2, 4, 0, first], 42: [2, 4, 0, first, 0, second]}
    for snaplen, known in cut.items():
        (row,) = rows(tmp_path / "one.pcap", maker.pcap_bytes([(START, frame)], snaplen=snaplen))
        assert [row[name] for name in names if row[name] is not None] == known, snaplen


@pytest.mark.slow
def test_kernels_are_compiled_anew_when_any_of_their_parts_changes() -> None:
    known = {Path(str(one)) for one in inlined()}
    root = Path(inlining.__file__).parent
    parts = {path for path in root.rglob("*.py") if re.search(r"^ *@(part|rare|intrinsic)", path.read_text(), re.M)}
    assert len(parts) >= 10 and parts - known <= {root / "headers" / "packet.py"}, "add them to inlining"
    kernels = [
        classic.scan, classic.search, pcapng.scan, pcapng.search, decode.bitmaps,
        decode._kernel(LAYERS[0], True).machine,
    ]  # fmt: skip
    digests = {kernel.py_func.__qualname__.rpartition("_")[2] for kernel in kernels}  # type: ignore[attr-defined]
    assert len(digests) == 1 and len(digests.pop()) == 16


def ipv6_saying(length: int, following: int, body: bytes) -> bytes:
    """An IPv6 packet whose header says `length`, whatever follows it."""
    packet = bytearray(maker.ipv6("::1", "::2", following, b""))
    packet[4:6] = length.to_bytes(2, "big")
    return bytes(packet) + body


JUMBO = b"\xc2\4"
SEGMENT = maker.tcp_header(5, 6)


@pytest.mark.parametrize(
    ("packet", "lengths"),
    [
        # total_length, unsaid_length, payload_length
        (ipv6_saying(0, 59, b""), (40, None, 0)),
        (ipv6_saying(0, 59, bytes(6)), (40, None, 0)),
        (ipv6_saying(0, 253, bytes(6)), (40, None, 0)),
        (ipv6_saying(0, 6, SEGMENT + bytes(50)), (40, None, None)),
        (ipv6_saying(0, 17, bytes(3000)), (40, None, None)),
        (ipv6_saying(0, 6, SEGMENT + bytes(3000)), (40, 3060, 3000)),
        (ipv6_saying(0, 6, SEGMENT + bytes(70_000)), (40, 70_060, 70_000)),
        (ipv6_saying(0, 253, bytes(70_000)), (40, 70_040, 70_000)),
        (ipv6_saying(0, 0, b"\6\0" + JUMBO + (70_028).to_bytes(4, "big") + SEGMENT + bytes(70_000)),
         (40, 70_068, 70_000)),
        (ipv6_saying(0, 0, b"\6\0" + JUMBO + (70_028).to_bytes(4, "big") + SEGMENT + bytes(70_009)),
         (40, 70_068, 70_000)),
        (ipv6_saying(0, 0, b"\6\0" + JUMBO + (128).to_bytes(4, "big") + SEGMENT + bytes(100)), (40, None, None)),
        (ipv6_saying(0, 0, b"\6\0\1\4\0\0\0\0" + SEGMENT + bytes(100)), (40, None, None)),
        (ipv6_saying(23, 6, SEGMENT + bytes(9)), (63, None, 3)),
    ],
)  # fmt: skip
def test_the_length_of_ipv6(tmp_path: Path, packet: bytes, lengths: tuple[int | None, ...]) -> None:
    path = tmp_path / "one.pcap"
    (row,) = rows(path, maker.pcap_bytes([(START, maker.ethernet(packet, 0x86DD))], snaplen=1 << 18))
    assert (row["total_length"], row["unsaid_length"], row["payload_length"]) == lengths


@pytest.mark.parametrize("size", [46, 3000, 70_000])
def test_the_length_of_ipv4_that_the_card_segments(tmp_path: Path, size: int) -> None:
    packet = maker.ipv4("1.1.1.1", "2.2.2.2", 6, SEGMENT, total_length=0) + bytes(size)
    (row,) = rows(tmp_path / "one.pcap", maker.pcap_bytes([(START, maker.ethernet(packet))], snaplen=1 << 18))
    assert (row["total_length"], row["unsaid_length"], row["payload_length"]) == (0, 40 + size, size)
