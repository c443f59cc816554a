"""What fields of TLS cost on a link of TLS: packets per second of reading and of ingest, with and without them.

`python benchmarks/bench_applications.py [--packets N] [--connection N]`. Connections have two hellos, then
full segments with an acknowledgement for every two of them. The clients are of 16 programs and ask for 1,000 names;
half of the programs put their extensions in another order each time, as browsers do since 2023, so that every JA3 of
theirs is another one. Files are read from the page cache, and their digest is computed, as ingest does. Compilation is
outside of what is measured. Processor time is compared; the runs alternate.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from lowwater.capture.content.retention import NOTHING, ContentOptions  # noqa: E402
from lowwater.capture.reader import read  # noqa: E402
from lowwater.config import Config, Link  # noqa: E402
from lowwater.lake.ingestion.ingest import ingest  # noqa: E402
from lowwater.lake.layout import open_lake  # noqa: E402
from tests import capturemaker, hellomaker  # noqa: E402

START = 1_600_000_000
MAX_JUMP = 61_000_000_000
SEGMENT = 1448
"""Bytes of a full segment."""

STEPS = {"headers": NOTHING, "headers and TLS": ContentOptions(None, ("tls",))}
PORT_AT = 16 + 14 + 20
"""Bytes of a record before the source port: its header, Ethernet, IPv4."""

HELLO, HELLO_BYTES = 3, 512
"""Which packet of a connection is the ClientHello, and its size with padding."""

PROGRAMS, NAMES, HELLOS = 16, 1000, 4096
"""Programs, names of servers, and different hellos of a capture."""

SUITES = (0x1301, 0x1302, 0x1303, 0xC02B, 0xC02F, 0xC02C, 0xC030, 0xCCA9, 0xCCA8, 0xC013, 0xC014, 156, 157, 47, 53)
KINDS = (0x17, 0xFF01, 0x23, 5, 0x12, 0x33, 0x2D, 0x1B, 0x4469)
"""Extensions of browsers whose bodies no field reads."""


def client_hello(number: int) -> bytes:
    """A ClientHello of HELLO_BYTES, in its record: one of HELLOS."""
    program, random = number % PROGRAMS, Random(number)
    extensions = [
        hellomaker.server_name(f"www{random.randrange(NAMES)}.example.org".encode()),
        hellomaker.groups(29, 23, 24),
        hellomaker.points(0),
        hellomaker.signatures(0x0403, 0x0804, 0x0401, 0x0503, 0x0805, 0x0501, 0x0806, 0x0601),
        hellomaker.alpn(b"h2", b"http/1.1"),
        hellomaker.versions(0x0304, 0x0303),
        *((kind, bytes(8)) for kind in KINDS),
    ]
    if program % 2:
        random.shuffle(extensions)
    suites = SUITES[program // 2 :]
    short = hellomaker.record(hellomaker.client(suites, [*extensions, (21, b"")]))
    return hellomaker.record(hellomaker.client(suites, [*extensions, (21, bytes(HELLO_BYTES - len(short)))]))


def frames(connection: int) -> list[bytes]:
    """The frames of a connection with so many packets; at least five."""
    chosen = hellomaker.record(hellomaker.server(0x1301, [hellomaker.versions(0x0304)]), 0x0303)
    payloads = [b"", b"", b"", client_hello(0), chosen.ljust(SEGMENT, b"\x17")]
    data = b"\x17\x03\x03\x40\x00".ljust(SEGMENT, b"x")
    payloads += [data if number % 3 else b"" for number in range(connection - len(payloads))]
    return [capturemaker.tcp("10.0.0.1", "10.0.0.2", 0, 443, data=payload) for payload in payloads]


def write(path: Path, packets: int, connection: int) -> None:
    """Writes connections, each with other ports and times."""
    records = [struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame for frame in frames(connection)]
    count = max(packets // connection, 1)
    rows = np.tile(np.frombuffer(b"".join(records), np.uint8), (count, 1))
    number, at = np.arange(count), 0

    def put(place: int, values: Any, kind: str) -> None:
        width = np.dtype(kind).itemsize
        rows[:, place : place + width] = values.astype(kind).view(np.uint8).reshape(count, width)

    hellos = np.frombuffer(b"".join(map(client_hello, range(HELLOS))), np.uint8).reshape(HELLOS, HELLO_BYTES)
    for order, record in enumerate(records):
        if order == HELLO:
            end = at + len(record)
            rows[:, end - HELLO_BYTES : end] = hellos[number % HELLOS]
        put(at, START + number // 100, "<u4")
        put(at + 4, number % 100 * 10_000 + order, "<u4")
        put(at + PORT_AT, number % 50_000 + 1024, ">u2")
        at += len(record)
    path.write_bytes(capturemaker.pcap_bytes([]) + rows.tobytes())


def seconds_of_reading(path: Path, content: ContentOptions) -> float:
    """Processor time of reading a capture."""
    began = time.process_time()
    for _ in read(path, MAX_JUMP, content=content):
        pass
    return time.process_time() - began


def seconds_of_ingest(path: Path, content: ContentOptions) -> float:
    """Processor time of ingest into a new lake."""
    with tempfile.TemporaryDirectory(prefix="lowwater-bench-") as folder:
        lake, config = open_lake(Path(folder)), Config(links={"tls": Link(applications=content.applications)})
        began = time.process_time()
        ingest(lake, "tls", [path], config)
        return time.process_time() - began


WORK = {"read": seconds_of_reading, "ingest": seconds_of_ingest}


def main() -> None:
    """Prints a line for each reading and what the fields cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packets", type=int, default=600_000)
    parser.add_argument("--connection", type=int, default=60, help="packets of a connection")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    options = parser.parse_args()
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tls.pcap"
        write(path, 100 * options.connection, options.connection)
        for content in STEPS.values():  # compilation
            seconds_of_ingest(path, content)
        write(path, options.packets, options.connection)
        packets = options.packets // options.connection * options.connection
        for work, run in WORK.items():
            best = dict.fromkeys(STEPS, float("inf"))
            for _ in range(options.repeat):
                for name, content in STEPS.items():
                    best[name] = min(best[name], run(path, content))
            for name, least in best.items():
                found[f"{work}, {name}"] = least
                rate = packets / least / 1e6
                print(f"{work:6} {name:16} {packets:>9} packets {least:.2f} cpu s {rate:.2f} M per cpu s")
            more = found[f"{work} more"] = best["headers and TLS"] / best["headers"] - 1
            print(f"{work:6} with fields of TLS: {more:.0%} slower, {options.connection} packets a connection")
    if options.json:
        options.json.write_text(json.dumps(found) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
