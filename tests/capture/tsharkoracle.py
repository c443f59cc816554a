"""What tshark says of the packets of a capture, in the columns of the reader."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from lowwater.capture import read
from lowwater.catalog.values import format_ip, ip_from_words

TAGS = (0x8100, 0x88A8, 0x9100)  # ours is the type behind them, which a cut frame may not have
LAYERS = "frame.protocols"
FRAME = {"timestamp": "frame.time_epoch", "len": "frame.len", "caplen": "frame.cap_len"}
MACS = ("eth.src", "eth.dst", "sll.src.eth", "wlan.sa", "wlan.da")
TYPES = ("eth.type", "sll.etype", "llc.type", "vlan.etype")
VLANS = ("ieee8021ad.id", "vlan.id")  # tshark has an outer tag of type 0x88A8 apart
NETWORK = (
    "ip.src", "ip.dst", "ip.proto", "ipv6.src", "ipv6.dst", "tcp.srcport", "tcp.dstport", "tcp.flags", "udp.srcport",
    "udp.dstport", "ip.len", "ip.ttl",
)  # fmt: skip
FIELDS = (LAYERS, *FRAME.values(), *MACS, *TYPES, *VLANS, *NETWORK)
LINKS = {
    "eth", "ethertype", "vlan", "ieee8021ad", "sll", "llc", "mpls", "pppoes", "ppp", "null", "raw", "radiotap",
    "wlan_radio", "wlan",
}  # fmt: skip
"""Layers of tshark that the link readers look through."""


def tshark(path: Path) -> list[dict[str, str]]:
    """One row a packet: the fields, values of a field that occurs more than once separated by commas."""
    command = ["tshark", "-n", "-r", str(path), "-T", "fields", "-E", "occurrence=a"]
    # One packet says what it says by itself: nothing is put together, and nothing is known from others.
    for setting in (
        "ip.defragment:FALSE", "ipv6.defragment:FALSE", "tcp.desegment_tcp_streams:FALSE", "wlan.defragment:FALSE",
        "wlan.enable_decryption:FALSE",
    ):  # fmt: skip
        command += ["-o", setting]
    for field in FIELDS:
        command += ["-e", field]
    # It exits with 2 after a cut file, having printed the whole records before.
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [dict(zip(FIELDS, line.split("\t"), strict=True)) for line in done.stdout.splitlines()]


def nanoseconds(epoch: str) -> int:
    """`frame.time_epoch` in ns."""
    seconds, _, part = epoch.partition(".")
    return int(seconds) * 1_000_000_000 + int(part.ljust(9, "0"))


def _address(row: dict[str, Any], name: str) -> str | None:
    if row[f"{name}_lo"] is None:
        return None
    return format_ip(ip_from_words(row["ipversion"], row[f"{name}_hi"], row[f"{name}_lo"]))


def _first(told: dict[str, str], *names: str) -> str | None:
    return next((told[name].split(",")[0] for name in names if told[name]), None)


def _link(told: dict[str, str], layers: list[str]) -> dict[str, Any]:
    """Addresses, type and VLAN of the outermost link; what a cut or a kind of link does not have is left out."""
    found: dict[str, Any] = {}
    outer = next((layer for layer in layers if layer in ("eth", "sll", "wlan")), None)
    if outer is None:
        return dict.fromkeys(("srcMAC", "destMAC", "ether_type", "vlan_id"))
    sources = {"eth": ("eth.src", "eth.dst"), "sll": ("sll.src.eth", None), "wlan": ("wlan.sa", "wlan.da")}[outer]
    for name, field in zip(("srcMAC", "destMAC"), sources, strict=True):
        value = _first(told, field) if field else None
        found[name] = None if value is None else int(value.replace(":", ""), 16)
    tags = told["vlan.etype"].split(",") if told["vlan.etype"] else []
    before = layers[: next((n for n, layer in enumerate(layers) if layer in ("mpls", "pppoes", "ip", "ipv6")), None)]
    depth = before.count("vlan") + before.count("ieee8021ad")
    value = tags[depth - 1] if 0 < depth <= len(tags) else _first(told, "llc.type", "eth.type", "sll.etype")
    if value is not None and (depth == 0 or depth <= len(tags)):
        found["ether_type"] = None if int(value, 16) in TAGS else int(value, 16)
    if depth:
        vlan = _first(told, *VLANS)
        found["vlan_id"] = None if vlan is None else int(vlan)
    return found


def expected(told: dict[str, str]) -> dict[str, Any]:
    """What tshark says of the link and of the outermost network header; what it does not say is left out."""
    layers = [layer for layer in told[LAYERS].split(":") if not layer.startswith("ipv6.")]
    depth = next((index for index, layer in enumerate(layers) if layer in ("ip", "ipv6")), len(layers))
    found = {"timestamp": nanoseconds(told[FRAME["timestamp"]])}
    found |= {name: int(told[FRAME[name]]) for name in ("len", "caplen")}
    if "cfp" not in layers:  # tshark's eth.* are those of the frame inside FabricPath, ours those of the outer one
        found |= _link(told, layers[:depth])
    if not set(layers[:depth]) <= LINKS:  # something else, or a tunnel
        return found
    if depth == len(layers):
        return found | {"ipversion": None}
    network, above = layers[depth], layers[depth + 1 : depth + 2]
    names = {"srcIP": f"{network}.src", "destIP": f"{network}.dst"}
    if network == "ip":
        names |= {"protocol": "ip.proto", "total_length": "ip.len", "ttl": "ip.ttl"}
    if above in (["tcp"], ["udp"]):
        names |= {"srcPort": f"{above[0]}.srcport", "destPort": f"{above[0]}.dstport"}
    if above == ["tcp"]:
        names["flags"] = "tcp.flags"
    # A field that the snaplen cut is empty.
    values = {ours: value for ours, theirs in names.items() if (value := _first(told, theirs)) is not None}
    for name, value in values.items():
        address = name in ("srcIP", "destIP")
        found[name] = value if address else int(value, 0) & (0xFF if name == "flags" else 0xFFFF)
    if values:
        found["ipversion"] = 4 if network == "ip" else 6
    return found


def compare(path: Path) -> tuple[int, list[str]]:
    """Packets of a capture, and the differences: number, column, ours, tshark's, its layers."""
    rows = [row for batch in read(path, 1 << 61) for row in batch.to_pylist()]
    told = tshark(path)
    if len(rows) != len(told):
        return len(rows), [f"{len(rows)} packets, tshark {len(told)}"]
    found = []
    for number, (row, other) in enumerate(zip(rows, told, strict=True), 1):
        for name, theirs in expected(other).items():
            ours = _address(row, name) if name in ("srcIP", "destIP") else row[name]
            # tshark gives up on a layer that is cut where it is not whole; we give what is there.
            unsaid = theirs is None and row["caplen"] < row["len"]
            if ours != theirs and not unsaid:
                found.append(f"{number} {name}: {ours}, tshark {theirs} ({other[LAYERS]})")
    return len(rows), found
