"""Logs of Zeek and Suricata for tests: a capture of conversations and the logs of it, or rows of any values."""

from __future__ import annotations

import base64
import datetime
import hashlib
import ipaddress
import json
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

from tests import capturemaker as maker, hellomaker

Row = dict[str, Any]

SECOND = 1_000_000_000
BEGIN = 1_767_225_600
MICRO = 1_000
NAMES = {1: "icmp", 6: "tcp", 17: "udp", 58: "icmp"}


@dataclass
class Talk:
    """A conversation: its ends, and its packets as (ns, whether of the client, payload)."""

    number: int
    kind: str
    client: str
    server: str
    port: int
    service: int
    packets: list[tuple[int, bool, bytes]]
    name: str = ""

    @property
    def protocol(self) -> int:
        if self.kind == "echo":
            return 58 if ":" in self.client else 1
        return 17 if self.kind == "dns" else 6

    def frames(self) -> Iterable[tuple[int, bytes]]:
        """The packets as Ethernet frames."""
        for stamp, of_client, payload in self.packets:
            ends = (self.client, self.server) if of_client else (self.server, self.client)
            ports = (self.port, self.service) if of_client else (self.service, self.port)
            if self.kind == "echo":
                kinds = (128, 129) if ":" in self.client else (8, 0)
                yield stamp, maker.icmp(*ends, kinds[0 if of_client else 1], 0, payload)
            elif self.kind == "dns":
                yield stamp, maker.udp(*ends, *ports, payload)
            else:
                yield stamp, maker.tcp(*ends, *ports, data=payload)

    def ports(self) -> tuple[int, int]:
        """The ports, or type and type of the answer, as Zeek writes them."""
        if self.kind == "echo":
            return (128, 129) if ":" in self.client else (8, 0)
        return self.port, self.service

    def count(self, of_client: bool) -> tuple[int, int, int]:
        """Packets, bytes of payloads and bytes of IP packets of one direction."""
        payloads = [payload for _, client, payload in self.packets if client == of_client]
        head = (40 if ":" in self.client else 20) + {"echo": 4, "dns": 8}.get(self.kind, 20)
        return len(payloads), sum(map(len, payloads)), sum(head + len(payload) for payload in payloads)

    def community(self, seed: int = 0) -> str:
        """The Community ID, by the words of its specification."""
        first, second = self.ports()
        ends = sorted(
            [
                (ipaddress.ip_address(self.client).packed, struct.pack("!H", first)),
                (ipaddress.ip_address(self.server).packed, struct.pack("!H", second)),
            ]
        )
        data = struct.pack("!H", seed) + ends[0][0] + ends[1][0] + bytes((self.protocol, 0)) + ends[0][1] + ends[1][1]
        return "1:" + base64.b64encode(hashlib.sha1(data).digest()).decode()


def talks(seed: int, count: int) -> list[Talk]:
    """Conversations of a minute: look-ups, pings, TLS and plain streams, over IPv4 and IPv6."""
    random = Random(seed)
    made = []
    for number in range(count):
        v6 = random.random() < 0.3
        client, server = (
            (f"2001:db8::{number + 1:x}", "2001:db8:1::1")
            if v6
            else (f"10.0.{number // 250}.{number % 250 + 1}", "192.0.2.1")
        )
        kind = random.choice(("dns", "tls", "stream", "echo"))
        at = (BEGIN * SECOND + random.randrange(60 * SECOND)) // MICRO * MICRO
        name = f"host{number}.example"
        service = {"dns": 53, "tls": 443, "stream": 80, "echo": 0}[kind]
        talk = Talk(number, kind, client, server, 1024 + number, service, [], name)
        payloads: list[tuple[bool, bytes]] = [(True, bytes(12)), (False, bytes(30))]
        if kind == "dns":
            payloads = [(True, _question(number, name)), (False, _question(number, name, answer=True))]
        elif kind == "tls":
            payloads = [(True, _hello(name)), (False, bytes(80)), (True, bytes(random.randrange(300)))]
        elif kind == "stream":
            payloads = [(random.random() < 0.4, bytes(random.randrange(900))) for _ in range(random.randrange(1, 9))]
            payloads[0] = (True, f"GET /{number} HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())
        for of_client, payload in payloads:
            talk.packets.append((at, of_client, payload))
            at += random.randrange(1, 400_000) * MICRO
        made.append(talk)
    return made


def _question(number: int, name: str, answer: bool = False) -> bytes:
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\0"
    return struct.pack("!HHHHHH", number, 0x8180 if answer else 0x0100, 1, 0, 0, 0) + labels + struct.pack("!HH", 1, 1)


def _hello(name: str) -> bytes:
    extensions = [hellomaker.server_name(name.encode()), hellomaker.groups(29, 23), hellomaker.versions(0x0304)]
    return hellomaker.record(hellomaker.client((0x1301, 0x1302), extensions))


def capture(made: list[Talk]) -> bytes:
    """A capture of all packets in the order of time."""
    return maker.pcap_bytes(sorted(frame for talk in made for frame in talk.frames()), nanoseconds=True)


def conn(made: list[Talk], seed: int = 0) -> list[Row]:
    """Rows of Zeek's conn.log, in the order of the ends of conversations."""
    rows = []
    for talk in sorted(made, key=lambda talk: talk.packets[-1][0]):
        begin, end = talk.packets[0][0], talk.packets[-1][0]
        sent, received = talk.count(True), talk.count(False)
        ports = talk.ports()
        rows.append({
            "ts": begin, "uid": f"C{talk.number}", "id.orig_h": talk.client, "id.orig_p": ports[0],
            "id.resp_h": talk.server, "id.resp_p": ports[1], "proto": NAMES[talk.protocol],
            "service": {"dns": "dns", "tls": "ssl", "stream": "http"}.get(talk.kind),
            "duration": (end - begin) / SECOND if len(talk.packets) > 1 else None,
            "orig_bytes": sent[1], "resp_bytes": received[1], "conn_state": "SF" if received[0] else "S0",
            "local_orig": talk.number % 2 == 0, "missed_bytes": 0, "history": "Dd",
            "orig_pkts": sent[0], "orig_ip_bytes": sent[2], "resp_pkts": received[0], "resp_ip_bytes": received[2],
            "tunnel_parents": [], "community_id": talk.community(seed),
        })  # fmt: skip
    return rows


def eve(made: list[Talk]) -> list[Row]:
    """Events of Suricata: a flow of every conversation, an event of every look-up, alerts, and statistics between."""
    events: list[tuple[int, Row]] = []
    for talk in made:
        begin, end = talk.packets[0][0], talk.packets[-1][0]
        sent, received = talk.count(True), talk.count(False)
        proto = {1: "ICMP", 58: "IPv6-ICMP", 6: "TCP", 17: "UDP"}[talk.protocol]
        first, second = talk.ports()
        ends = {"icmp_type": first, "icmp_code": 0} if talk.kind == "echo" else {"src_port": first, "dest_port": second}
        common = {"flow_id": 1000 + talk.number, "src_ip": talk.client, "dest_ip": talk.server, "proto": proto, **ends}
        common["community_id"] = talk.community()
        flow = {
            "pkts_toserver": sent[0], "pkts_toclient": received[0], "bytes_toserver": sent[2] + 14 * sent[0],
            "bytes_toclient": received[2] + 14 * received[0], "start": instant(begin), "end": instant(end),
            "age": (end - begin) // SECOND, "state": "closed", "alerted": talk.kind == "stream",
        }  # fmt: skip
        events.append((end, {"timestamp": instant(end), "event_type": "flow", **common, "flow": flow}))
        if talk.kind == "dns":
            query = {"type": "query", "id": talk.number, "rrname": talk.name, "rrtype": "A", "tx_id": 0}
            events.append((begin, {"timestamp": instant(begin), "event_type": "dns", **common, "dns": query}))
        if talk.kind == "stream":
            alert = {"action": "allowed", "gid": 1, "signature_id": 7, "rev": 2, "signature": "a, b", "severity": 3}
            events.append((begin, {"timestamp": instant(begin), "event_type": "alert", **common, "alert": alert}))
    events.append((0, {"timestamp": instant(BEGIN * SECOND), "event_type": "stats", "stats": {"uptime": 1}}))
    return [row for _, row in sorted(events, key=lambda event: event[0])]


def instant(stamp: int) -> str:
    """Suricata's text of a time, an hour east of UTC."""
    zone = datetime.timezone(datetime.timedelta(hours=1))
    whole = datetime.datetime.fromtimestamp(stamp // SECOND, zone)
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{stamp % SECOND // MICRO:06}+0100"


def as_lines(rows: Iterable[Row]) -> bytes:
    """JSON lines."""
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def zeek_json(rows: Iterable[Row]) -> bytes:
    """Zeek's JSON: absent members are unset, times are seconds."""
    lines = []
    for row in rows:
        members = {name: value for name, value in row.items() if value is not None and name != "ts"}
        rest = json.dumps(members)[1:]
        lines.append(f'{{"ts": {seconds(row["ts"])}{", " if members else ""}{rest}\n')
    return "".join(lines).encode()


def seconds(stamp: int) -> str:
    """A time in seconds with six digits."""
    return f"{stamp // SECOND}.{stamp % SECOND // MICRO:06}"


def zeek_header(
    path: str, names: Iterable[str], separator: str = "\t", lists: str = ",", empty: str = "(empty)", unset: str = "-"
) -> bytes:
    """The lines before the records."""
    escaped = "".join(f"\\x{byte:02x}" for byte in separator.encode())
    lines = [f"#separator {escaped}"]
    words = (("set_separator", lists), ("empty_field", empty), ("unset_field", unset), ("path", path))
    lines += [f"#{word}{separator}{value}" for word, value in (*words, ("open", "2026-01-01-00-00-00"))]
    lines.append(separator.join(["#fields", *names]))
    lines.append(separator.join(["#types", *("string" for _ in names)]))
    return "".join(f"{line}\n" for line in lines).encode()


def zeek_tsv(
    rows: Iterable[Row],
    names: list[str],
    separator: str = "\t",
    lists: str = ",",
    empty: str = "(empty)",
    unset: str = "-",
) -> bytes:
    """The records of a log of Zeek."""

    def written(name: str, value: Any) -> str:
        if value is None:
            return unset
        if isinstance(value, list):
            if not value:
                return empty
            return lists.join(escape(str(part), separator, lists, empty, unset) for part in value)
        if isinstance(value, bool):
            return "T" if value else "F"
        if name == "ts":
            return seconds(value)
        if isinstance(value, float):
            return f"{value:.6f}"
        return escape(value, separator, "", empty, unset) if isinstance(value, str) else str(value)

    lines = []
    for row in rows:
        line = separator.join(written(name, row.get(name)) for name in names)
        lines.append(("\\x23" + line[1:] if line.startswith("#") else line) + "\n")
    return "".join(lines).encode()


def escape(text: str, separator: str, lists: str, empty: str, unset: str) -> str:
    """A text as Zeek writes it: signs of the format, backslashes and control characters as `\\xNN`."""
    if not text and not lists:
        return empty
    if text in (empty, unset):
        return f"\\x{ord(text[0]):02x}{text[1:]}"
    signs = {separator, lists, "\\"}
    return "".join(
        f"\\x{ord(char):02x}" if char in signs or ord(char) < 32 or ord(char) == 127 else char for char in text
    )


def ssl(made: list[Talk]) -> list[Row]:
    """Rows of Zeek's ssl.log."""
    return [
        {**_ends(talk), "version": "TLSv13", "server_name": talk.name, "resumed": False, "established": True}
        for talk in made
        if talk.kind == "tls"
    ]


def dns(made: list[Talk]) -> list[Row]:
    """Rows of Zeek's dns.log."""
    fixed = {"qclass": 1, "qtype": 1, "rcode": 0, "answers": []}
    return [
        {**_ends(talk), "proto": "udp", "trans_id": talk.number,
         "rtt": (talk.packets[1][0] - talk.packets[0][0]) / SECOND, "query": talk.name, **fixed}
        for talk in made if talk.kind == "dns"
    ]  # fmt: skip


def http(made: list[Talk]) -> list[Row]:
    """Rows of Zeek's http.log."""
    return [
        {**_ends(talk), "trans_depth": 1, "method": "GET", "host": talk.name, "uri": f"/{talk.number}"}
        for talk in made
        if talk.kind == "stream"
    ]


def _ends(talk: Talk) -> Row:
    """The first fields of a line of Zeek."""
    ports = {"id.orig_p": talk.port, "id.resp_p": talk.service}
    ends = {"id.orig_h": talk.client, "id.resp_h": talk.server, **ports}
    return {"ts": talk.packets[0][0], "uid": f"C{talk.number}", **ends}


def nfdump(made: list[Talk]) -> bytes:
    """The CSV of nfdump 1.7.5: one flow for each direction of a conversation."""
    lines = ["firstSeen,duration,proto,srcAddr,srcPort,dstAddr,dstPort,packets,bytes,flows"]
    for talk in made:
        for of_client in (True, False):
            stamps = [stamp for stamp, client, _ in talk.packets if client == of_client]
            if not stamps:
                continue
            packets, _, size = talk.count(of_client)
            ends = [(talk.client, str(talk.port)), (talk.server, str(talk.service))]
            if talk.kind == "echo":
                kind = talk.ports()[not of_client] if ":" in talk.client else (8 if of_client else 0)
                ends = [(talk.client, f"{kind}.0"), (talk.server, f"{kind}.0")]
            (source, port), (target, service) = ends if of_client else ends[::-1]
            port = "0" if talk.kind == "echo" else port
            begin = datetime.datetime.fromtimestamp(stamps[0] // SECOND, datetime.UTC)
            first = f"{begin:%Y-%m-%d %H:%M:%S}.{stamps[0] % SECOND // 1_000_000:03}"
            duration = f"{(stamps[-1] - stamps[0]) / SECOND:.3f}"
            values = (first, duration, talk.protocol, source, port, target, service, packets, size, 1)
            lines.append(",".join(map(str, values)))
    return "".join(f"{line}\n" for line in lines).encode()


def _log(path: str, rows: list[Row]) -> bytes:
    """A log of Zeek with the fields of its first row."""
    names = list(rows[0])
    return zeek_header(path, names) + zeek_tsv(rows, names)


def pair() -> tuple[list[Talk], dict[str, bytes]]:
    """Conversations, and files of them by name: a capture, and logs of tools that did not see everything."""
    made = talks(2, 24)
    seen = [talk for talk in made if talk.number not in LOST]
    rows = conn(seen)
    for row in rows:
        row["orig_pkts"] -= row["uid"] == "C5"
    names = list(rows[0])
    events = eve(seen)
    for event in events:
        if event["event_type"] == "flow" and event["flow_id"] == 1006:
            event["flow"]["pkts_toclient"] -= 1
    questions = dns(seen)
    for question in questions:
        if question["uid"] == "C9":
            question |= {"rtt": None, "rcode": None, "answers": None}
    logs = {"ssl": ssl(seen), "dns": questions, "http": http(seen)}
    files = {
        "wire.pcap": capture(made),
        "conn.log": zeek_header("conn", names) + zeek_tsv(rows, names) + b"#close\t2026-01-01-00-05-00\n",
        **{f"{path}.log": _log(path, rows) for path, rows in logs.items()},
        "eve.json": as_lines(events),
        "flows.csv": nfdump(seen),
    }
    return made, files


LOST = (3, 11, 17, 21)
