"""Zeek's own logs beside the captures that it made them of, in the tests of Zeek's repository: flows and messages."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest

from lowwater.capture.content.community_id import community_ids
from lowwater.capture.content.retention import ContentOptions
from lowwater.capture.reader import read as read_capture
from lowwater.catalog.builtin.numbers import community_id
from lowwater.catalog.protocols import READY
from lowwater.catalog.values import pack_ip
from lowwater.errors import LowwaterError
from tests.capture.logmaker import BEGIN
from tests.capture.tablemaker import write
from tests.capture.test_logs import accounted, read

pytestmark = pytest.mark.captures

EXEC = re.compile(r"^[#@% ]*TEST-EXEC:\s*(zeek .*)$", re.MULTILINE)
TRACE = re.compile(r"-r\s+\$TRACES/(\S+)")

ASIDE = ("core.", "scripts.base.frameworks.netcontrol.", "scripts.base.protocols.ftp.gridftp")
"""Tests about encapsulations, of whose connections Zeek logs the inner ones, and about packets that Zeek drops."""


UNLIKE = {
    "scripts.base.protocols.quic.39264-rand": "its ClientHello is cut over several datagrams",
    "scripts.base.protocols.dns.dynamic-update": "Zeek logs the updated record, packets have the zone",
    "scripts.base.protocols.dns.mdns-no-assoc": "answers without a question",
    "scripts.base.protocols.http.http-09": "requests of HTTP/0.9",
    "scripts.base.protocols.http.http-methods": "requests without a target, which are none of HTTP/1",
    "scripts.policy.protocols.ssl.decryption": "Zeek has the keys of the connection",
}
"""Tests of Zeek that log messages which no packet says by itself, and why."""

Row = dict[str, Any]


@pytest.fixture(scope="module")
def btest() -> Path:
    folder = Path(os.environ.get("LOWWATER_ZEEK", "no-checkout")) / "testing" / "btest"
    if not folder.is_dir():
        pytest.skip("no checkout of Zeek (set LOWWATER_ZEEK)")
    return folder


def logs(btest: Path, name: str) -> list[Path]:
    """The baselines of a log with Zeek's header."""
    paths = sorted(path for path in btest.glob(f"Baseline/*/{name}*.log") if path.is_file())
    return [path for path in paths if b"\n#fields\tts\t" in path.read_bytes()]


def timed(path: Path) -> bytes:
    return path.read_bytes().replace(b"XXXXXXXXXX.XXXXXX", f"{BEGIN}.000000".encode())


@pytest.mark.parametrize("name", ["conn", "dns", "http", "ssl"])
def test_every_record_of_zeek_is_read(name: str, btest: Path, tmp_path: Path) -> None:
    protocol = f"ZEEK_{name.upper()}"
    layout = READY[protocol].layout
    assert layout is not None
    plain = {field.path[0]: field.name for field in layout.fields if not field.form and field.type == "string"}
    count = 0
    for path in logs(btest, name):
        data = timed(path)
        if f"\n#path\t{name}\n".encode() not in data:
            continue
        rows, reader = read(write(tmp_path / "log", data), protocol)
        assert not reader.malformed.num_rows, path
        assert accounted(reader, len(data))
        lines = [line.split("\t") for line in data.decode().split("\n") if line and not line.startswith("#")]
        (names, *others) = [line.split("\t")[1:] for line in data.decode().split("\n") if line.startswith("#fields")]
        assert len(rows) == len(lines), path
        for row, values in zip(rows, lines, strict=True) if not others else ():
            for column, value in zip(names, values, strict=True):
                if column in plain and "\\" not in value:
                    assert row[plain[column]] == {"-": None, "(empty)": ""}.get(value, value), path
        count += len(rows)
    assert count > 50


def flows_of(path: Path) -> Counter[str]:
    """Packets of a capture by Community ID."""
    counts: Counter[str] = Counter()
    for batch in read_capture(path, 1 << 62):
        counts.update(name for name in community_ids(batch).to_pylist() if name is not None)
    return counts


def test_packets_join_zeeks_connections(btest: Path, tmp_path: Path) -> None:
    equal = different = 0
    for _, trace, rows in beside(btest, "conn", tmp_path):
        if not rows or None in (rows[0]["orig_pkts"], rows[0]["srcIP"]):
            continue
        logged: Counter[str] = Counter()
        for row in rows:
            ends = pack_ip(row["srcIP"]), pack_ip(row["destIP"])
            name = community_id(*ends, row["protocol"] or row["ip_proto"] or 0, row["srcPort"], row["destPort"])
            logged[str(name)] += (row["orig_pkts"] or 0) + (row["resp_pkts"] or 0)
        try:
            packets = flows_of(trace)
        except LowwaterError:
            continue
        same = sum(logged[name] == packets[name] for name in logged)
        equal, different = equal + same, different + len(logged) - same
    assert equal > 50
    assert not different


MESSAGES: dict[str, tuple[tuple[str, ...], Callable[[Row], Any], Callable[[Row], Sequence[Any]], int]] = {
    "ssl": (
        ("tls", "quic"),
        lambda row: row["server_name"],
        lambda packet: (packet["tls_server_name"], packet["quic_server_name"]),
        15,
    ),
    "dns": (
        ("dns",),
        lambda row: row["query"] and (row["trans_id"], row["query"]),
        lambda packet: ((packet["dns_id"], packet["dns_query"] and packet["dns_query"].lower()),),
        25,
    ),
    "http": (
        ("http",),
        lambda row: row["uri"] and (row["method"], plain_uri(row["uri"])),
        lambda packet: ((packet["http_method"], packet["http_uri"] and plain_uri(packet["http_uri"])),),
        85,
    ),
}
"""Log -> applications whose fields are kept, what a line says, what a packet says, least number of equal lines."""


@pytest.mark.parametrize("name", MESSAGES)
def test_packets_say_what_zeek_logged_of_messages(name: str, btest: Path, tmp_path: Path) -> None:
    applications, logged, sent, least = MESSAGES[name]
    equal, different = 0, []
    for path, trace, rows in beside(btest, name, tmp_path):
        said: set[Any] = set()
        try:
            for batch in read_capture(trace, 1 << 62, content=ContentOptions(None, applications)):
                for packet in batch.to_pylist():
                    said.update(sent(packet))
        except LowwaterError:
            continue
        for line in filter(None, map(logged, rows)):
            equal += line in said
            if line not in said:
                different.append((path.parent.name, line))
    assert {test for test, _ in different} <= UNLIKE.keys(), different
    assert equal > least


def plain_uri(uri: str) -> str:
    """A target of a request without its percent signs, which Zeek decodes."""
    return unquote_to_bytes(uri.replace("\\x", "%")).decode("latin-1")


def beside(btest: Path, name: str, folder: Path) -> Iterator[tuple[Path, Path, list[Row]]]:
    """The baselines of a log whose test reads one capture whole: log, capture, records."""
    for path in logs(btest, name):
        script = next((file for file in scripts(btest, path.parent.name) if file.is_file()), None)
        commands = EXEC.findall(script.read_text(encoding="utf-8", errors="replace")) if script is not None else []
        traces = [TRACE.findall(command) for command in commands]
        if path.name != f"{name}.log" or len(commands) != 1 or len(traces[0]) != 1 or " -f " in commands[0]:
            continue
        trace = btest / "Traces" / traces[0][0]
        if path.parent.name.startswith(ASIDE) or not trace.is_file():
            continue
        rows, _ = read(write(folder / "log", timed(path)), f"ZEEK_{name.upper()}")
        yield path, trace, rows


def scripts(btest: Path, name: str) -> list[Path]:
    """Files that the test of a baseline may be in."""
    stem = btest / name.replace(".", "/")
    return [stem.with_name(stem.name + ending) for ending in (".zeek", ".test", ".bro", ".sh", "")]
