"""Random traffic, written byte by byte: the generator knows what each packet holds, so no decoder is asked."""

from __future__ import annotations

import gzip
import random
import struct
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

SECOND = 1_000_000_000
PROTOCOLS = {"tcp": 6, "udp": 17, "icmp": 1}
FORMATS = ("pcap", "pcap-big-endian", "pcap-ns", "pcapng-ns", "pcapng-us", "pcap.gz")
STARTS = (0, 3 * SECOND, 1_200_000 * SECOND, (1 << 31) * SECOND - 20 * SECOND, 1_767_225_600 * SECOND)
"""Where a world begins: the epoch itself, an odd instant behind it, round minutes, the last 32-bit second, 2026."""


@dataclass(frozen=True)
class Packet:
    """A packet and what is true of it."""

    link: str
    file: int
    position: int
    ts: int
    arrival: int
    fields: dict[str, Any]
    frame: bytes

    @property
    def lateness(self) -> int:
        """How far behind the clock of the link it comes, ns."""
        return self.arrival - self.ts


@dataclass
class World:
    """Traffic of some links."""

    skews: dict[str, int]
    files: dict[str, list[Path]] = field(default_factory=dict)
    packets: list[Packet] = field(default_factory=list)
    groups: tuple[str, dict[str, int]] = ("", {})

    def admitted(self) -> list[Packet]:
        """The packets that are no violations (T2), by the skew of their link or of their value (T8)."""
        column, values = self.groups
        return [
            packet
            for packet in self.packets
            if packet.lateness <= values.get(str(packet.fields.get(column)), self.skews[packet.link])
        ]


def make_world(seed: int, folder: Path) -> World:
    """Two or three links of one or two captures each, 20 to 90 seconds long, with disorder, lulls and late packets."""
    rng = random.Random(f"traffic {seed}")
    links = ["main1", "main2", "control"][: rng.choice((2, 3, 3))]
    world = World({link: rng.choice((0, SECOND // 2, SECOND, 3 * SECOND)) for link in links})
    start = rng.choice(STARTS)
    length = rng.randrange(20, 90) * SECOND
    folder.mkdir(parents=True, exist_ok=True)
    hosts = [f"10.0.0.{n}" for n in range(1, rng.randrange(3, 9))] + ["2001:db8::1", "2001:db8::2"]
    for link in links:
        _fill(world, rng, link, start, length, hosts, folder)
    return world


def _fill(world: World, rng: random.Random, link: str, start: int, length: int, hosts: list[str], folder: Path) -> None:
    """Draws the packets of a link and writes its captures."""
    count = rng.randrange(10, 160)
    resolution = rng.choice((1, 1000))
    instants = sorted(start + rng.randrange(length) // resolution * resolution for _ in range(count))
    parts = rng.choice((1, 1, 2))
    skew, clock = world.skews[link], 0
    for number in range(parts):
        part = instants[number * count // parts : (number + 1) * count // parts]
        packets = []
        for position, instant in enumerate(part):
            # Captures of a link follow one another, so no packet of one is older than all of the one before.
            floor = part[0] if number else start
            back = rng.choice((0, 0, 0, rng.randrange(skew + 1), rng.randrange(2 * skew + 2 * SECOND)))
            stamp = instant if position == 0 else max(instant - back // resolution * resolution, floor)
            clock = max(clock, stamp)
            fields, frame = _frame(rng, hosts)
            fields |= {"timestamp": stamp, "time": stamp // SECOND, "timestamp_ms": stamp // 1_000_000}
            fields |= {"timestamp_us": stamp // 1000, "len": len(frame), "caplen": len(frame), "interface": link}
            packets.append(Packet(link, number, position, stamp, clock, fields, frame))
        if packets:
            kinds = FORMATS if resolution == 1000 else ("pcap-ns", "pcapng-ns")
            path = folder / f"{link}-{number}.cap"
            path.write_bytes(write_capture(packets, rng.choice(kinds)))
            world.files.setdefault(link, []).append(path)
            world.packets += packets


def _frame(rng: random.Random, hosts: list[str]) -> tuple[dict[str, Any], bytes]:
    """A frame of Ethernet and its fields."""
    kind = rng.choice(("tcp", "tcp", "tcp", "udp", "udp", "icmp", "arp"))
    fields: dict[str, Any] = dict.fromkeys(("srcIP", "destIP", "ipversion", "protocol", "srcPort", "destPort"))
    fields |= dict.fromkeys(("total_length", "ttl", "tos", "id", "flags", "window", "icmp_type", "icmp_code"))
    fields |= dict.fromkeys(("sequence_number", "ack_number", "arp_op"))
    ethernet = bytes.fromhex("0200000000010200000000 02".replace(" ", ""))
    if kind == "arp":
        fields["arp_op"] = rng.choice((1, 2))
        fields["ether_type"] = 0x0806
        sender, target = (ip_address(f"10.0.0.{rng.randrange(1, 9)}").packed for _ in range(2))
        body = struct.pack(">HHBBH", 1, 0x0800, 6, 4, fields["arp_op"])
        return fields, ethernet + b"\x08\x06" + body + bytes(6) + sender + bytes(6) + target
    source = rng.choice(hosts)
    family = [host for host in hosts if (":" in host) == (":" in source)]
    target = rng.choice(family)
    # ICMP inside IPv6 is another protocol; TCP and UDP are the same in both.
    if kind == "icmp" and ":" in source:
        kind = "udp"
    fields |= {"srcIP": source, "destIP": target, "protocol": PROTOCOLS[kind]}
    fields |= {"ttl": rng.choice((1, 63, 64, 255)), "tos": rng.choice((0, 0, 0, 184))}
    body = _transport(rng, kind, fields)
    if ":" in source:
        fields |= {"ipversion": 6, "total_length": 40 + len(body), "ether_type": 0x86DD}
        head = struct.pack(">IHBB", 6 << 28 | fields["tos"] << 20, len(body), fields["protocol"], fields["ttl"])
        ether = b"\x86\xdd"
    else:
        fields |= {"ipversion": 4, "total_length": 20 + len(body), "id": rng.randrange(65536), "ether_type": 0x0800}
        head = struct.pack(">BBHHHBBH", 0x45, fields["tos"], 20 + len(body), fields["id"], 0, fields["ttl"],
                           fields["protocol"], 0)  # fmt: skip
        ether = b"\x08\x00"
    return fields, ethernet + ether + head + ip_address(source).packed + ip_address(target).packed + body


def _transport(rng: random.Random, kind: str, fields: dict[str, Any]) -> bytes:
    """The transport header with its payload; fills its fields."""
    data = bytes(rng.choice((0, 0, 1, 46, 400, 1400)))
    if kind == "icmp":
        fields |= {"icmp_type": rng.choice((0, 8, 3)), "icmp_code": rng.choice((0, 1))}
        return struct.pack(">BBHI", fields["icmp_type"], fields["icmp_code"], 0, 0) + data
    # No port of a tunnel or of DNS, whose payloads would be looked into.
    fields |= {"srcPort": rng.choice((0, 1, 80, 443, 1024, 40000, 65535)), "destPort": rng.choice((22, 80, 443, 65535))}
    if kind == "udp":
        return struct.pack(">HHHH", fields["srcPort"], fields["destPort"], 8 + len(data), 0) + data
    fields |= {"flags": rng.choice((2, 18, 16, 24, 17, 4, 0, 255)), "window": rng.choice((0, 1, 65535))}
    fields |= {"sequence_number": rng.choice((0, 1, 1 << 31, (1 << 32) - 1)), "ack_number": rng.randrange(1 << 32)}
    fields |= {name: bool(fields["flags"] & 1 << bit) for bit, name in enumerate(("FIN", "SYN", "RST", "PSH", "ACK"))}
    head = struct.pack(">HHIIBBHHH", fields["srcPort"], fields["destPort"], fields["sequence_number"],
                       fields["ack_number"], 0x50, fields["flags"], fields["window"], 0, 0)  # fmt: skip
    return head + data


def write_capture(packets: list[Packet], kind: str) -> bytes:
    """The bytes of a capture file of Ethernet frames."""
    if kind.startswith("pcapng"):
        return _pcapng([(packet.ts, packet.frame) for packet in packets], 9 if kind.endswith("ns") else 6)
    order = ">" if kind == "pcap-big-endian" else "<"
    unit, magic = (1, 0xA1B23C4D) if kind == "pcap-ns" else (1000, 0xA1B2C3D4)
    out = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65535, 1)]
    for packet in packets:
        seconds, rest = divmod(packet.ts, SECOND)
        out += [struct.pack(order + "IIII", seconds, rest // unit, len(packet.frame), len(packet.frame)), packet.frame]
    return gzip.compress(b"".join(out), 1, mtime=0) if kind.endswith(".gz") else b"".join(out)


def _pcapng(records: list[tuple[int, bytes]], digits: int, offset: int = 0) -> bytes:
    """One section with one interface, whose timestamps have so many digits and this offset in seconds."""

    def block(kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)

    options = struct.pack("<HHBxxx", 9, 1, digits) + struct.pack("<HHq", 14, 8, offset) + struct.pack("<HH", 0, 0)
    out = [block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))]
    out.append(block(1, struct.pack("<HHI", 1, 0, 65535) + options))
    for ts, frame in records:
        stamp = (ts - offset * SECOND) // 10 ** (9 - digits)
        head = struct.pack("<IIIII", 0, stamp >> 32, stamp & 0xFFFFFFFF, len(frame), len(frame))
        out.append(block(6, head + frame))
    return b"".join(out)


def pcapng_with_offset(records: list[tuple[int, bytes]], offset: int) -> bytes:
    """A pcapng in ns whose interface has an offset, s: so timestamps before 1970 can be written."""
    return _pcapng(records, 9, offset)
