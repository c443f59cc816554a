"""Random worlds for the law: packets on links, written as captures, and the same packets for the two oracles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import duckdb
import pyarrow as pa

from lowwater.catalog.schemas import TYPES
from lowwater.catalog.values import pack_ip
from tests.capturemaker import arp, ethernet, ipv4, ipv6, pcap_bytes, tcp_header, udp_header
from tests.database import database
from tests.law.segments import add_segments
from tests.plan import batch_rows

SECOND = 1_000_000_000
BASE = 1_767_225_600 * SECOND  # 2026-01-01, on the hour
LINKS = ("control", "main1", "main2")
SETS = {"pair": ("main1", "main2")}
HOSTS = ("10.0.0.1", "10.0.0.2", "10.0.0.9", "2001:db8::1")
FLAGS = (2, 18, 16, 17, 4)
DATA = (
    *(b"", b"\x00", bytes(6), bytes(40), b"GET nothing", b"\xff\x00bytes", b"POST / HTTP/1.1\r\nHost: C\r\n"),
    *(b"GET / HTTP/1.1\r\nHost: WWW.EXAMPLE.ORG\r\n", b"GET /a HTTP/1.1\r\nHOST: A.B:80\r\n"),
)
WATCH = [(host, number, f"h{number}") for number, host in enumerate(HOSTS[1:])] + [(HOSTS[1], 7, "again")]
"""Rows of the watch list: address, id, name."""

PROTOCOLS = {"tcp": 6, "udp": 17}


@dataclass(frozen=True)
class Packet:
    """One drawn packet; ports and flags count for nothing where its kind has none."""

    stamp: int
    kind: str
    src: str
    dest: str
    sport: int
    dport: int
    flags: int
    data: bytes
    ttl: int = 64
    beyond: int = 0
    drawn_ttl: int | None = None  # of which its numbers are drawn; None for its own: a copy has those of its original

    @property
    def frame(self) -> bytes:
        """The captured bytes."""
        six = ":" in self.src
        if self.kind == "arp":
            return arp()
        if self.kind == "tcp":
            body = tcp_header(self.sport, self.dport, self.flags, *self.numbers, data=self.data)
        elif self.kind == "udp":
            body = udp_header(self.sport, self.dport, self.data)
        else:
            body = bytes([8, 0, 0, 0, 0, 0, 0, 0]) + self.data
        if six:
            return ethernet(ipv6(self.src, self.dest, self.protocol, body, ttl=self.ttl), 0x86DD)
        return ethernet(ipv4(self.src, self.dest, self.protocol, body, ttl=self.ttl))

    @property
    def numbers(self) -> tuple[int, int, int]:
        """Sequence number, acknowledged number and window of a segment: few, so that segments repeat one another."""
        drawn = crc32(bytes([self.flags, self.ttl if self.drawn_ttl is None else self.drawn_ttl]) + self.data)
        seq, ack = ((2**32 - 20 + (0, 0, 1, 6, 7, 46)[(drawn >> shift) % 6]) % 2**32 for shift in (0, 8))
        return seq, ack, (0, 512, 512)[(drawn >> 16) % 3]

    @property
    def protocol(self) -> int:
        """The number above IP."""
        return PROTOCOLS.get(self.kind) or (58 if ":" in self.src else 1)

    @property
    def columns(self) -> dict[str, Any]:
        """Its columns, as queries name them; addresses as text."""
        ip, ports, size = self.kind != "arp", self.kind in PROTOCOLS, len(self.frame)
        seq, ack, window = self.numbers if self.kind == "tcp" else (None, None, None)
        return {
            "timestamp": self.stamp,
            "len": size + self.beyond,
            "caplen": size,
            "protocol": self.protocol if ip else None,
            "srcIP": self.src if ip else None,
            "destIP": self.dest if ip else None,
            "srcPort": self.sport if ports else None,
            "destPort": self.dport if ports else None,
            "flags": self.flags if self.kind == "tcp" else None,
            "sequence_number": seq,
            "ack_number": ack,
            "window": window,
            "payload_length": None if seq is None else len(self.data),
            "icmp_type": 8 if self.kind == "icmp" else None,
            "ttl": self.ttl if ip else None,
            "ipversion": (6 if ":" in self.src else 4) if ip else None,
            "payload": self.data.decode("latin-1") if ip else None,
        }


@dataclass(frozen=True)
class World:
    """Packets of each link in order of their records, and what is odd about its captures."""

    packets: dict[str, tuple[Packet, ...]]
    skews: dict[str, int]
    splits: dict[str, int]
    cuts: tuple[str, ...] = ()

    def records(self, links: Sequence[str] = LINKS) -> Iterator[tuple[str, int, int, bool, Packet]]:
        """Link, position, arrival, whether it is admitted, and the packet; by the definition."""
        for link in links:
            packets = self.packets[link]
            arrivals = accumulate((packet.stamp for packet in packets), max)
            for position, (packet, arrival) in enumerate(zip(packets, arrivals, strict=True)):
                yield link, position, arrival, arrival - packet.stamp <= self.skews[link], packet

    def violations(self, link: str) -> int:
        """How many packets of a link are later than its skew."""
        return sum(not admitted for _, _, _, admitted, _ in self.records([link]))

    def write(self, folder: Path, links: Sequence[str] = LINKS) -> list[tuple[str, Path]]:
        """Writes the captures; a split one is two files that meet."""
        written = []
        for link in links:
            packets, at = self.packets[link], self.splits[link]
            for number, part in enumerate((packets[:at], packets[at:]) if at else (packets,)):
                path = folder / f"{link}-{number}.pcap"
                records = [(packet.stamp, packet.frame, len(packet.frame) + packet.beyond) for packet in part]
                content = pcap_bytes(records, nanoseconds=True)
                if link in self.cuts and part and part[-1] is packets[-1]:
                    content += pcap_bytes(records[-1:], nanoseconds=True)[24:-1]
                path.write_bytes(content)
                written.append((link, path))
        return written

    def oracle(self) -> duckdb.DuckDBPyConnection:
        """A DuckDB with all records as `records`, the admitted ones as `p`, and the watch list as `w`."""
        connection = database()
        add_segments(connection)
        connection.execute("SET error_on_division_by_zero = false")
        rows = [
            {"link": link, "position": position, "arrival": arrival, "admitted": admitted, **packet.columns}
            for link, position, arrival, admitted, packet in self.records()
        ]
        connection.register("drawn", pa.Table.from_pylist(rows, RECORDS))
        address = ", ".join(
            f"CASE WHEN {c} LIKE '%:%' THEN '~' || {c} ELSE {c} END AS {c}" for c in ("srcIP", "destIP")
        )
        connection.execute(
            f"CREATE TEMP TABLE records AS SELECT *, timestamp // {SECOND} AS time, timestamp AS ts, srcIP AS src, "
            "destIP AS dest, srcPort AS sport, destPort AS dport "
            f"FROM (SELECT * REPLACE ({address}) FROM drawn); "
            "CREATE TEMP VIEW p AS SELECT * FROM records WHERE admitted; "
            "CREATE TEMP TABLE w (address TEXT, id BIGINT, name TEXT)"
        )
        connection.execute("CREATE TEMP TABLE told (link TEXT, kind TEXT, a BIGINT, b BIGINT)")
        if told := [*self._told()]:
            connection.executemany("INSERT INTO told VALUES (?, ?, ?, ?)", told)
        listed = [(f"~{address}" if ":" in address else address, *rest) for address, *rest in WATCH]
        connection.executemany("INSERT INTO w VALUES (?, ?, ?)", listed)
        return connection

    def _told(self) -> Iterator[tuple[str, str, int, int]]:
        """The life of each link, from its first file to its last, and what of it no file covers, of pauses those of
        more than 2 s (SEMANTICS T5)."""
        for link, packets in self.packets.items():
            at, clock, spans = self.splits[link], -1, []
            for part in (packets[:at], packets[at:]) if at else (packets,):
                clock = max([clock, *(packet.stamp for packet in part)])
                spans += [(part[0].stamp, clock)] if part else []
            if not spans or spans[0][0] >= spans[-1][1]:
                continue
            yield link, "life", spans[0][0], spans[-1][1]
            covered = [span for span in spans if span[0] < span[1]]
            edges = [spans[0][0], *(edge for span in covered for edge in span), spans[-1][1]]
            for number, (before, after) in enumerate(zip(edges[::2], edges[1::2], strict=True)):
                inner = 0 < number < len(covered)
                if after > before + 2 * SECOND * inner:
                    yield link, "gap", before, after

    def batch(self, links: Sequence[str]) -> batch_rows.World:
        """Some links as the batch evaluator reads them."""
        found: dict[str, list[batch_rows.Packet]] = {link: [] for link in links}
        for link, position, arrival, admitted, packet in self.records(links):
            columns = packet.columns
            packed = {name: columns[name] and pack_ip(columns[name]) for name in ("srcIP", "destIP")}
            values: Mapping[str, Any] = {**dict.fromkeys(TYPES), **columns, **packed}
            found[link].append(batch_rows.Packet(link, position, arrival, admitted, values))
        watch = [{"address": pack_ip(address), "id": number, "name": name} for address, number, name in WATCH]
        return batch_rows.World(found, {"watch": watch})


_NUMBERS = ("timestamp", "len", "caplen", "protocol", "srcPort", "destPort", "flags", "ttl", "ipversion")
_NUMBERS += ("sequence_number", "ack_number", "window", "payload_length")
RECORDS = pa.schema(
    [("link", pa.string()), ("position", pa.int64()), ("arrival", pa.int64()), ("admitted", pa.bool_())]
    + [(name, pa.int64()) for name in _NUMBERS]
    + [(name, pa.string()) for name in ("srcIP", "destIP", "payload")]
)


def world(seed: int, most: int = 40) -> World:
    """Links with packets that are disordered, quiet for long, late, and in several captures, some of them cut."""
    random = Random(seed)
    packets, skews, splits, cuts = {}, {}, {}, []
    for link in LINKS:
        skews[link] = random.choice((0, SECOND // 2, SECOND, 3 * SECOND))
        gaps = random.choice((SLOW, SLOW, BURSTS))
        clock, found = BASE, []
        for _ in range(random.choice((0, 3, most // 2, most, most))):
            clock += random.choice(gaps)
            late = random.choice((0, 0, 0, 1, 400_000_000, SECOND, 2_500_000_000, 9 * SECOND))
            found.append(_packet(random, max(BASE, clock - late)))
        packets[link] = tuple(found)
        splits[link] = _split(found, random.randint(0, most))
        if random.random() < 0.25:
            cuts.append(link)
    return World(packets, skews, splits, tuple(cuts))


SLOW = (0, 1, 300_000_000, SECOND, 2 * SECOND, 7 * SECOND, 45 * SECOND)
BURSTS = (0, 1, 1_000_000, 70_000_000, 150_000_000, 150_000_000, 4 * SECOND)
"""Gaps between packets, ns: so that epochs hold few packets, or many."""


def _split(packets: list[Packet], wanted: int) -> int:
    """A place where a capture may end: one before and after which the ranges of timestamps do not overlap (T1)."""
    for at in range(min(wanted, len(packets) - 1), 0, -1):
        if max(p.stamp for p in packets[:at]) < min(p.stamp for p in packets[at:]):
            return at
    return 0


_PAIRS = [(a, b) for a in HOSTS for b in HOSTS if a != b and (":" in a) == (":" in b)] + [(HOSTS[3],) * 2]


def _packet(random: Random, stamp: int) -> Packet:
    kind, pair = random.choice(("tcp", "tcp", "udp", "icmp", "arp")), random.choice(_PAIRS)
    ports = random.choices((53, 80, 1024), k=2)
    flags, data, ttl = random.choice(FLAGS), random.choice(DATA), random.choice((1, 64))
    return Packet(stamp, kind, *pair, *ports, flags, data, ttl, random.choice((0, 0, 0, 9)))
