"""Queries of tunnels, ARP, SCTP and the place of the payload, from a capture to rows."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from lowwater.capture import read
from lowwater.catalog.protocols import PROTOCOLS
from lowwater.catalog.schemas import COLUMNS
from lowwater.cli.main import cli
from lowwater.low import LowSettings
from lowwater.plan.context import Links
from lowwater.plan.operators import Lfta
from lowwater.plan.queryset import plan_texts
from tests import capturemaker as maker
from tests.lftamaker import data, run

START = 1_200_000_000_000_000
INSIDE = maker.tcp("10.0.0.1", "10.0.0.2", 7, 80, maker.SYN)
INSIDE6 = maker.ipv6("2001:db8::1", "2001:db8::2", 17, maker.udp_header(5, 53, b"xy"))
FRAMES = (
    maker.ip("192.0.2.1", "192.0.2.2", 17, maker.vxlan(INSIDE, 77)),
    maker.ip("192.0.2.1", "192.0.2.2", 47, maker.gre(INSIDE6, 0x86DD, key=5)),
    maker.ip("192.0.2.1", "192.0.2.2", 4, b""),
    maker.arp("10.0.0.1", "10.0.0.9", 1),
    maker.ip("192.0.2.3", "192.0.2.4", 132, maker.sctp_header(1000, 2905, b"chunks")),
    maker.udp("192.0.2.3", "192.0.2.4", 1000, 53, b"xyz"),
)
QUERIES = {
    "SELECT time, srcIP, tunnel, tunnel_id, inner_srcIP, inner_destIP, inner_protocol, inner_destPort FROM L.TUNNEL": [
        "1200000,192.0.2.1,4789,77,10.0.0.1,10.0.0.2,6,80",
        "1200001,192.0.2.1,47,5,2001:db8::1,2001:db8::2,17,53",
        "1200002,192.0.2.1,4,,,,,",
    ],
    "SELECT time, inner_flags FROM L.TUNNEL WHERE inner_srcIP = '10.0.0.1'": [f"1200000,{maker.SYN}"],
    "SELECT time, arp_op, arp_srcIP, arp_destIP, srcIP FROM L.ARP": ["1200003,1,10.0.0.1,10.0.0.9,"],
    "SELECT time, srcPort, destPort, payload_offset, payload_length FROM L.SCTP": ["1200004,1000,2905,46,6"],
    "SELECT time, payload_offset, payload_length FROM L.UDP WHERE tunnel IS NULL": ["1200005,42,3"],
    "SELECT tb, inner_ipversion, count(*) AS n FROM L.TUNNEL GROUP BY time/60 AS tb, inner_ipversion": [
        "20000,4,1",
        "20000,6,1",
        "20000,,1",
    ],
    "SELECT time, tunnel, payload_length FROM L.UDP UNION L.SCTP": ["1200000,4789,62", "1200004,,6", "1200005,,3"],
}


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "L.pcap"
    path.write_bytes(maker.pcap_bytes((START + index * 1_000_000_000, frame) for index, frame in enumerate(FRAMES)))
    return path


def rows(capture: Path, query: str, tmp_path: Path, protocol: str = "") -> list[list[str]]:
    """The rows of a query, after the names of its columns; `protocol` is the text of a block of its own."""
    (tmp_path / "q.gsql").write_text(f"{protocol} DEFINE {{ query_name 'q'; }} {query}", encoding="utf-8")
    words = ["run", str(tmp_path / "q.gsql"), "--capture", f"L={capture}", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(cli, [*words, "--engine", "reference"])
    assert result.exit_code == 0, result.output
    with (tmp_path / "out" / "q.csv").open(newline="") as file:
        return list(csv.reader(file))


@pytest.mark.slow
@pytest.mark.parametrize("query", QUERIES)
def test_rows_of_a_query(capture: Path, tmp_path: Path, query: str) -> None:
    assert [",".join(row) for row in rows(capture, query, tmp_path)[1:]] == QUERIES[query]


def low_rows(capture: Path, lfta: Lfta) -> list[dict[str, Any]]:
    (batch,) = read(capture, 1 << 61)
    table = pa.table({**dict(zip(batch.schema.names, batch.columns, strict=True)), "capture": ["c"] * len(batch)})
    streams, _ = run([lfta], table.combine_chunks().to_batches()[0], LowSettings(skew=0))
    return data(streams[lfta.name])


def test_the_low_level_reads_the_same_addresses(capture: Path, tmp_path: Path) -> None:
    query = "SELECT time, inner_srcIP, inner_destIP FROM L.TUNNEL WHERE inner_srcIP > '10.0.0.0'"
    text = f"DEFINE {{ query_name 'q'; }} {query}"
    plan = plan_texts([("q.gsql", text)], Links(names=frozenset({"L"})))
    (lfta,) = plan.lftas
    found = [(row["time"], row["inner_srcIP"][0]) for row in low_rows(capture, lfta)]
    assert found == [(1_200_000, 4), (1_200_001, 6)]
    assert len(rows(capture, query, tmp_path)[1:]) == 2


SHOWN = {
    "TCP": set(),
    "SCTP": set(),
    "ARP": {"arp_op", "arp_ipversion", "arp_srcIP", "arp_destIP"},
    "TUNNEL": {name for name in PROTOCOLS["ETH"].columns if name.startswith(("tunnel", "inner_"))},
}


@pytest.mark.slow
@pytest.mark.parametrize("protocol", SHOWN)
def test_what_a_star_shows(capture: Path, tmp_path: Path, protocol: str) -> None:
    """The outermost headers, and what the protocol is about."""
    head = rows(capture, f"SELECT * FROM L.{protocol}", tmp_path)[0]
    apart = {*COLUMNS.names[COLUMNS.names.index("payload_offset") :], *SHOWN["ARP"], *SHOWN["TUNNEL"]}
    assert {name for name in head if name in apart} == SHOWN[protocol]
    assert {"timestamp", "srcIP", "srcPort", "icmp_code"} <= set(head)
