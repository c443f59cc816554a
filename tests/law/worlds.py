"""Random worlds for the law: packets on links, written as captures, and the admitted ones as DuckDB rows.

Admission is computed here by the definition (SEMANTICS T2), from the packets that were drawn, not read back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
from hypothesis import strategies as st

from tests.capturemaker import arp, icmp, pcap_bytes, tcp, udp

SECOND = 1_000_000_000
BASE = 1_767_225_600 * SECOND  # 2026-01-01, on the hour
LINKS = ("control", "main1", "main2")
HOSTS = ("10.0.0.1", "10.0.0.2", "10.0.0.9", "2001:db8::1")
FLAGS = (2, 18, 16, 17, 4)


@dataclass(frozen=True)
class Packet:
    """One drawn packet; ports and flags are None where its kind has none."""

    stamp: int
    kind: str
    src: str
    dest: str
    sport: int
    dport: int
    flags: int
    size: int

    @property
    def frame(self) -> bytes:
        body = bytes(self.size)
        if self.kind == "tcp":
            return tcp(self.src, self.dest, self.sport, self.dport, self.flags, data=body)
        if self.kind == "udp":
            return udp(self.src, self.dest, self.sport, self.dport, body)
        if self.kind == "icmp":
            return icmp(self.src, self.dest, 8, 0, body)
        return arp()

    def row(self, link: str) -> tuple[object, ...]:
        """The packet as a row of the oracle's table."""
        ip = self.kind != "arp"
        ports = self.kind in ("tcp", "udp")
        six = ":" in self.src
        protocol = {"tcp": 6, "udp": 17, "icmp": 58 if six else 1}.get(self.kind)
        return (
            link,
            self.stamp,
            len(self.frame),
            protocol,
            self.src if ip else None,
            self.dest if ip else None,
            self.sport if ports else None,
            self.dport if ports else None,
            self.flags if self.kind == "tcp" else None,
        )


@dataclass(frozen=True)
class World:
    """Packets of each link in order of their records, the skew of each link, and where its captures are split."""

    packets: dict[str, tuple[Packet, ...]]
    skews: dict[str, int]
    splits: dict[str, int]

    def admitted(self) -> Iterator[tuple[object, ...]]:
        """Rows of the packets that are no violations, by the definition."""
        for link, packets in self.packets.items():
            clock = 0
            for packet in packets:
                clock = max(clock, packet.stamp)
                if clock - packet.stamp <= self.skews[link]:
                    yield packet.row(link)

    def violations(self, link: str) -> int:
        """How many packets of a link are later than its skew."""
        clock, count = 0, 0
        for packet in self.packets[link]:
            clock = max(clock, packet.stamp)
            count += clock - packet.stamp > self.skews[link]
        return count

    def write(self, folder: Path) -> list[tuple[str, Path]]:
        """Writes the captures; a split one is two files that meet."""
        written = []
        for link, packets in self.packets.items():
            at = self.splits[link]
            for number, part in enumerate((packets[:at], packets[at:]) if at else (packets,)):
                path = folder / f"{link}-{number}.pcap"
                records = [(packet.stamp, packet.frame) for packet in part]
                path.write_bytes(pcap_bytes(records, nanoseconds=True))
                written.append((link, path))
        return written

    def oracle(self) -> duckdb.DuckDBPyConnection:
        """A DuckDB with the admitted packets as table `p`."""
        connection = duckdb.connect()
        connection.execute(
            "CREATE TABLE p (link TEXT, ts BIGINT, len BIGINT, protocol BIGINT, src TEXT, dest TEXT, "
            "sport BIGINT, dport BIGINT, flags BIGINT)"
        )
        rows = list(self.admitted())
        if rows:
            connection.executemany("INSERT INTO p VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        return connection


@st.composite
def worlds(draw: st.DrawFn, most: int = 40) -> World:
    """Links with packets that are disordered, quiet for long, late, and in several captures."""
    packets, skews, splits = {}, {}, {}
    for link in LINKS:
        skews[link] = draw(st.sampled_from((0, SECOND // 2, SECOND, 3 * SECOND)))
        clock, found = BASE, []
        for _ in range(draw(st.sampled_from((0, 3, most // 2, most, most)))):
            gap = draw(st.sampled_from((0, 1, 300_000_000, SECOND, 2 * SECOND, 7 * SECOND, 45 * SECOND)))
            clock += gap
            late = draw(st.sampled_from((0, 0, 0, 1, 400_000_000, SECOND, 2_500_000_000, 9 * SECOND)))
            found.append(draw(_packets(max(BASE, clock - late))))
        packets[link] = tuple(found)
        splits[link] = _split(found, draw(st.integers(0, most)))
    return World(packets, skews, splits)


def _split(packets: list[Packet], wanted: int) -> int:
    """A place where a capture may end: one before and after which the ranges of timestamps do not overlap (T1)."""
    for at in range(min(wanted, len(packets) - 1), 0, -1):
        if max(p.stamp for p in packets[:at]) < min(p.stamp for p in packets[at:]):
            return at
    return 0


def _packets(stamp: int) -> st.SearchStrategy[Packet]:
    pairs = st.sampled_from(
        [(a, b) for a in HOSTS for b in HOSTS if a != b and (":" in a) == (":" in b)] + [(HOSTS[3],) * 2]
    )
    ports = st.sampled_from((53, 80, 1024))
    kinds = st.sampled_from(("tcp", "tcp", "udp", "icmp", "arp"))
    return st.builds(
        lambda kind, pair, sport, dport, flags, size: Packet(stamp, kind, *pair, sport, dport, flags, size),
        kinds,
        pairs,
        ports,
        ports,
        st.sampled_from(FLAGS),
        st.sampled_from((0, 1, 6, 40)),
    )
