"""Packets drawn as text, for goldens that are checked by eye.

A line is `link seconds packet`, the seconds counted from an instant, in the order of the link's records:

    main1  0.5  tcp  10.0.0.1:1024 > 10.0.0.2:80  SYN seq=7
    main1  0.7  udp  10.0.0.1:53 > 10.0.0.2:53  data=12
    main2  3    icmp 10.0.0.1 > 10.0.0.2
    main2  4    arp
    main1  5    tcp  10.0.0.1:1024 > 10.0.0.2:80  ACK "GET / HTTP/1.1\\r\\n"
    main1  6    tls  10.0.0.1:1024 > 10.0.0.2:443  browser www.example.org
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests import capturemaker, hellomaker
from tests.capturemaker import Record, pcap_bytes

SECOND = 1_000_000_000
PROGRAMS = {"browser": hellomaker.browser, "script": hellomaker.script}
"""Makers of ClientHellos."""

FLAGS = {"FIN": 1, "SYN": 2, "RST": 4, "PSH": 8, "ACK": 16, "URG": 32}
LINE = re.compile(
    r"(?P<link>\w+) +(?P<seconds>[\d.]+) +(?P<kind>tcp|udp|icmp|arp|tls)(?: +(?P<src>\S+) > (?P<dest>\S+))?(?P<rest>.*)"
)


def write_captures(drawing: str, begin: int, folder: Path) -> list[tuple[str, Path]]:
    """Writes one capture a link of a drawing."""
    records: dict[str, list[Record]] = {}
    for link, stamp, frame in packets_of(drawing, begin):
        records.setdefault(link, []).append((stamp, frame))
    written = []
    for link, packets in records.items():
        path = folder / f"{link}.pcap"
        path.write_bytes(pcap_bytes(packets, nanoseconds=True))
        written.append((link, path))
    return written


def packets_of(drawing: str, begin: int) -> Iterator[tuple[str, int, bytes]]:
    """The link, the timestamp (ns) and the frame of each packet; second 0 is `begin` seconds after the epoch."""
    for line in drawing.strip().splitlines():
        found = LINE.fullmatch(line.strip())
        if found is None:
            raise ValueError(f"not a packet: {line!r}")
        yield found["link"], begin * SECOND + round(float(found["seconds"]) * SECOND), _frame(found)


def _frame(found: re.Match[str]) -> bytes:
    if found["kind"] == "arp":
        return capturemaker.arp()
    rest, quoted, text = found["rest"].partition('"')
    words = rest.split()
    numbers = {name: int(value) for name, mark, value in (word.partition("=") for word in words) if mark}
    data = text[:-1].encode().decode("unicode_escape").encode("latin-1") if quoted else bytes(numbers.get("data", 0))
    if found["kind"] == "icmp":
        return capturemaker.icmp(found["src"], found["dest"])
    src, sport = _host(found["src"])
    dest, dport = _host(found["dest"])
    if found["kind"] == "tls":
        return capturemaker.tcp(src, dest, sport, dport, data=PROGRAMS[words[0]](words[1]))
    if found["kind"] == "udp":
        return capturemaker.udp(src, dest, sport, dport, data)
    flags = sum(FLAGS[word] for word in words if "=" not in word)
    return capturemaker.tcp(src, dest, sport, dport, flags, numbers.get("seq", 0), numbers.get("ack", 0), data)


def _host(text: str) -> tuple[str, int]:
    address, _, port = text.rpartition(":")
    return address.strip("[]"), int(port)
