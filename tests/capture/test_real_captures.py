"""Every real classic capture of Ethernet or Linux SLL, against tshark."""

from __future__ import annotations

import csv
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lowwater.capture import read
from lowwater.catalog.values import format_ip, ip_from_words
from lowwater.errors import CaptureError

LARGEST = 5_000_000
FIELDS = (
    "frame.time_epoch", "frame.len", "frame.cap_len", "frame.protocols", "ip.src", "ip.dst", "ip.proto", "ipv6.src",
    "ipv6.dst", "tcp.srcport", "tcp.dstport", "tcp.flags", "udp.srcport", "udp.dstport", "ip.len", "ip.ttl",
)  # fmt: skip
PLAIN = {"eth", "ethertype", "vlan", "sll"}
EXCEPTIONS = {
    "suricata-verify__nfsv2": "version 2.1, which is refused by name",
    "Malcolm-Test-Artifacts__RADIUS": "more than a second of microseconds in record 16; tshark wraps to below 0",
    "crash-eec28dafde1f1ac2299674a75a914ae16d4046fa": "as above: microseconds out of range",
    "FuzzTarget-4683685084594176": "a record of 925,728 bytes, beyond both 256 KiB and the snaplen: malformed to us",
}
"""Files (by a part of their name) that are read, yet not compared with tshark, and why."""

pytestmark = pytest.mark.captures


def chosen(folder: Path, excepted: bool = False) -> list[Path]:
    with (folder / "INDEX.csv").open(newline="") as file:
        return [
            folder / row["file"]
            for row in csv.DictReader(file)
            if row["format"] in ("pcap-us", "pcap-ns")
            and row["compression"] == "none"
            and row["link_types"] in ("EN10MB", "LINUX_SLL")
            and int(row["bytes"]) <= LARGEST
            and any(part in row["file"] for part in EXCEPTIONS) == excepted
        ]


def tshark(path: Path) -> list[dict[str, str]]:
    command = ["tshark", "-n", "-r", str(path), "-T", "fields", "-E", "occurrence=f"]
    for setting in ("ip.defragment:FALSE", "ipv6.defragment:FALSE", "tcp.desegment_tcp_streams:FALSE"):
        command += ["-o", setting]
    for field in FIELDS:
        command += ["-e", field]
    # It exits with 2 after a cut file, having printed the whole records before.
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [dict(zip(FIELDS, line.split("\t"), strict=True)) for line in done.stdout.splitlines()]


def nanoseconds(epoch: str) -> int:
    seconds, _, part = epoch.partition(".")
    return int(seconds) * 1_000_000_000 + int(part.ljust(9, "0"))


def address(row: dict[str, Any], name: str) -> str | None:
    if row[f"{name}_lo"] is None:
        return None
    return format_ip(ip_from_words(row["ipversion"], row[f"{name}_hi"], row[f"{name}_lo"]))


def expected(told: dict[str, str]) -> dict[str, Any]:
    """What tshark says of the outermost network header, in our columns."""
    layers = [layer for layer in told["frame.protocols"].split(":") if not layer.startswith("ipv6.")]
    depth = next((index for index, layer in enumerate(layers) if layer in ("ip", "ipv6")), 0)
    if not depth or not set(layers[:depth]) <= PLAIN:  # in a tunnel of PPPoE, MPLS, LLC ...: not decoded
        return {}
    network, above = layers[depth], layers[depth + 1 : depth + 2]
    names = {"srcIP": f"{network}.src", "destIP": f"{network}.dst"}
    if network == "ip":
        names |= {"protocol": "ip.proto", "total_length": "ip.len", "ttl": "ip.ttl"}
    if above in (["tcp"], ["udp"]):
        names |= {"srcPort": f"{above[0]}.srcport", "destPort": f"{above[0]}.dstport"}
    if above == ["tcp"]:
        names["flags"] = "tcp.flags"
    # A field that the snaplen cut is empty.
    found: dict[str, Any] = {ours: told[theirs] for ours, theirs in names.items() if told[theirs]}
    for name in found.keys() - {"srcIP", "destIP"}:
        found[name] = int(found[name], 0) & (0xFF if name == "flags" else 0xFFFF)
    if found:
        found["ipversion"] = 4 if network == "ip" else 6
    return found


def differences(path: Path) -> list[str]:
    reader = read(path, 1 << 61)
    rows = [row for batch in reader for row in batch.to_pylist()]
    told = tshark(path)
    if len(rows) != len(told):
        return [f"{len(rows)} packets, tshark {len(told)}"]
    found = []
    for number, (row, other) in enumerate(zip(rows, told, strict=True), 1):
        ours = {"timestamp": row["timestamp"], "len": row["len"], "caplen": row["caplen"]}
        theirs: dict[str, Any] = {
            "timestamp": nanoseconds(other["frame.time_epoch"]),
            "len": int(other["frame.len"]),
            "caplen": int(other["frame.cap_len"]),
        }
        theirs |= expected(other)
        for name in theirs.keys() - ours.keys():
            ours[name] = address(row, name) if name in ("srcIP", "destIP") else row[name]
        found += [
            f"{number} {name}: {ours[name]}, tshark {theirs[name]}" for name in theirs if ours[name] != theirs[name]
        ]
    return found


def test_real_captures_equal_tshark(captures_dir: Path) -> None:
    if shutil.which("tshark") is None:
        pytest.skip("no tshark on this machine")
    files = chosen(captures_dir)
    assert len(files) > 50
    wrong = {}
    for path in files:
        if found := differences(path):
            wrong[path.name] = found[:5]
    assert wrong == {}


def test_the_exceptions_are_read_or_refused(captures_dir: Path) -> None:
    for path in chosen(captures_dir, excepted=True):
        try:
            reader = read(path, 1 << 61)
        except CaptureError as error:
            assert "version 2.1" in error.message
            continue
        rows = [row for batch in reader for row in batch.to_pylist()]
        sizes = 24 + sum(16 + row["caplen"] for row in rows) + sum(bad.length for bad in reader.malformed)
        assert sizes == path.stat().st_size
