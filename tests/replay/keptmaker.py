"""A lake whose links keep frames and fields of applications: random packets, and the same ones as a table of SQL."""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping
from pathlib import Path

import duckdb

from lowwater.config import Config, Link
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.plan.context import Links
from lowwater.plan.queryset import plan_texts
from lowwater.plan.temporal import END_OF_TIME
from lowwater.replay.stages.inputs import LowInputs
from tests.capturemaker import ACK, arp, icmp, pcap_bytes, tcp, udp

SECOND = 1_000_000_000
BASE = 1_767_225_600 * SECOND
LINKS = ("a", "b", "bare")
PAYLOADS = (
    b"",
    b"GET / HTTP/1.1\r\nHost: www.example.org\r\n\r\n",
    b"GET /a?b=1 HTTP/1.0\r\nUser-Agent: curl\r\n\r\n",
    b"POST /form HTTP/1.1\r\nHost: example.net\r\n\r\nx=1",
    b"HTTP/1.1 200 OK\r\n\r\n",
    b"\x16\x03\x01\xff\xfe",
    b"GET",
    b"GET /x HTTP/1.1\r\nHOST: WWW.EXAMPLE.ORG\r\n\r\n",
    b"caf\xe9 \xa3",
)
NAMES = ("www.example.org", "example.net", "xn--bcher-kva.example", "", "EXAMPLE.net")
KEEPS = 40
"""Bytes of a payload that are kept."""

VIEW = """CREATE VIEW p AS SELECT link, timestamp AS ts, timestamp // 1000000000 AS time, * EXCLUDE (link, timestamp),
  CASE WHEN payload_offset IS NOT NULL AND frame IS NOT NULL THEN array_to_string(list_transform(
    range(payload_offset, least(payload_offset + payload_length, octet_length(frame))),
    lambda i: chr(('0x' || hex(array_slice(frame, i + 1, i + 1)))::INT)), '') END AS payload
FROM read_parquet('{files}', hive_partitioning = true, union_by_name = true)"""


def make_lake(seed: int, folder: Path) -> Lake:
    """Random packets on each link; `bare` keeps nothing of what the others keep."""
    drawn = random.Random(seed)
    lake, config = open_lake(folder / "lake"), settings()
    for link in LINKS:
        stamps = sorted(BASE + drawn.randrange(50 * SECOND) for _ in range(drawn.randrange(200, 240)))
        records = [(stamp, _frame(drawn)) for stamp in stamps]
        path = folder / f"{link}.pcap"
        path.write_bytes(pcap_bytes(records, nanoseconds=True))
        ingest(lake, link, [path], config)
    return lake


def _frame(drawn: random.Random) -> bytes:
    ends = drawn.choice(("10.0.0.1", "10.0.0.2")), "10.0.0.3"
    data, ports = drawn.choice(PAYLOADS), (drawn.choice((53, 80)), drawn.choice((80, 1024)))
    kind = drawn.choice(("tcp", "tcp", "tcp", "udp", "udp", "udp", "icmp", "arp"))
    if kind == "udp" and 53 in ports:
        data = _query(drawn.choice(NAMES), drawn.choice((1, 28)))
    if kind == "tcp":
        # Ethernet pads a short frame: what lies behind the payload is none.
        return tcp(*ends, *ports, ACK, data=data) + bytes(drawn.choice((0, 6)))
    return udp(*ends, *ports, data) if kind == "udp" else icmp(*ends) if kind == "icmp" else arp()


def _query(name: str, kind: int) -> bytes:
    """A DNS query."""
    labels = b"".join(bytes([len(label)]) + label for label in name.encode("ascii").split(b".") if label)
    return struct.pack("!6H", kind, 0x0100, 1, 0, 0, 0) + labels + struct.pack("!BHH", 0, kind, 1)


def settings() -> Config:
    """Of the links."""
    keeps = {link: Link(payload=KEEPS, applications=("dns", "http")) for link in LINKS if link != "bare"}
    return Config(links={**keeps, "bare": Link()})


def inputs(lake: Lake, queries: Mapping[str, str]) -> LowInputs:
    """What queries over the whole lake are evaluated from."""
    texts = [(name, text if "query_name" in text else _named(name, text)) for name, text in queries.items()]
    plan = plan_texts(texts, Links(LINKS, {}))
    return LowInputs(lake, plan, settings(), 0, END_OF_TIME, read_captures(lake, LINKS))


def _named(name: str, text: str) -> str:
    define = f"DEFINE {{ query_name '{name}';"
    return text.replace("DEFINE {", define, 1) if "DEFINE {" in text else f"{define} }} {text}"


def oracle(lake: Lake) -> duckdb.DuckDBPyConnection:
    """A DuckDB with the stored packets as view `p`, the payload cut out of the frame by SQL."""
    connection = duckdb.connect()
    connection.execute(VIEW.format(files=lake.packets / "*" / "*" / "*.parquet"))
    return connection
