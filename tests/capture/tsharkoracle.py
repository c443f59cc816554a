"""What tshark says of the packets of a capture, in the columns of the reader."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from lowwater.capture import read
from lowwater.capture.formats.capture_file import RECORD_HEADER
from lowwater.capture.formats.classic import CAPTURED, OFFSET
from lowwater.catalog.schemas import ADDRESSES
from lowwater.catalog.values import format_ip, ip_from_words
from tests.capture.linkframes import BEHIND, LINKS, TAGGED, WRAPPING
from tests.capture.tsharkmessages import FIELDS as MESSAGES, SEPARATOR, SETTINGS, derived, excuse, messages
from tests.capture.tunnelframes import TUNNELS

TAGS = (0x8100, 0x88A8, 0x9100, 0x8926, 0x893F, 0x892F, 0xF1C1, 0x8909, 0xD28B)
"""Ours is the type behind them, which a cut frame may not have."""
LAYERS = "frame.protocols"
FRAME = {"timestamp": "frame.time_epoch", "len": "frame.len", "caplen": "frame.cap_len"}
ADDRESSED = {made.layers[-1]: made.addresses for made in LINKS.values() if made.addresses}
"""Layer of a link -> fields of source and destination."""
MACS = tuple(dict.fromkeys(field for fields in ADDRESSED.values() for field in fields if field))
LINK_TYPES = tuple(dict.fromkeys(("llc.type", *(field for made in LINKS.values() for field in made.types))))
"""Fields of an ether type that no VLAN tag has."""
VLANS = ("ieee8021ad.id", "vlan.id")  # tshark has an outer tag of type 0x88A8 apart
NETWORK = (
    "ip.src", "ip.dst", "ip.proto", "ipv6.src", "ipv6.dst", "tcp.srcport", "tcp.dstport", "tcp.flags", "udp.srcport",
    "udp.dstport", "ip.len", "ip.ttl", "ipv6.nxt", "sctp.srcport", "sctp.dstport", "dccp.srcport", "dccp.dstport",
    "ip.frag_offset",
)  # fmt: skip
PAYLOAD_BYTES = "payload"
PAYLOAD = ("tcp.len", "tcp.payload", "udp.payload")
ARP = ("arp.opcode", "arp.src.proto_ipv4", "arp.dst.proto_ipv4", "arp.hw.type")
IDS = {
    layer: tuple(field for made in TUNNELS if made.layer == layer for field in made.ids)
    for layer in dict.fromkeys(made.layer for made in TUNNELS if made.layer != "ip")
}
"""Layer of a tunnel with a header -> fields of its id."""
TUNNEL_FIELDS = (*(field for fields in IDS.values() for field in fields), "gtp.message", "l2tp.type")
FIELDS = (
    LAYERS, *FRAME.values(), *MACS, *LINK_TYPES, "vlan.etype", *TAGGED.values(), *VLANS, "isl.vlan_id", *NETWORK,
    *PAYLOAD, *ARP, *TUNNEL_FIELDS, *MESSAGES,
)  # fmt: skip
LAYERS_OF_LINKS = {*BEHIND, *(layer for made in LINKS.values() for layer in made.layers)}
"""Layers of tshark that the link readers look through."""


OVER_IP = {"gre": 47, "etherip": 97, "mpls": 137}
"""Layer of a tunnel that may stand upon IP -> its protocol."""

GPE = 4790
"""Port of VXLAN-GPE, which tshark names in no layer."""

PORTED = {"tcp": "tcp", "udp": "udp", "sctp": "sctp", "dccp": "dccp", "udplite": "udp"}
"""Layer with ports -> the prefix of their fields."""
WITHIN = {"eth", *BEHIND, "erspan"}
"""Layers between a tunnel's header and the IP header in it."""


BELOW = (*WRAPPING, "ip", "ipv6")
"""Layers behind the ether type of the link."""


def need_tshark() -> None:
    """Skips the test where there is no tshark."""
    if shutil.which("tshark") is None:
        pytest.skip("no tshark on this machine")


def tshark(path: Path, most: int = 0) -> list[dict[str, str]]:
    """One row a packet: the fields, with `SEPARATOR` between the values of one that occurs more than once."""
    need_tshark()
    command = ["tshark", "-n", "-r", str(path), "-T", "fields", "-E", "occurrence=a", "-E", f"aggregator={SEPARATOR}"]
    command += ["-d", "udp.port==8472,vxlan", "--enable-protocol", "communityid"]
    # One packet says what it says by itself: nothing is put together, and nothing is known from others.
    for setting in (
        "ip.defragment:FALSE", "ipv6.defragment:FALSE", "tcp.desegment_tcp_streams:FALSE", "wlan.defragment:FALSE",
        "wlan.enable_decryption:FALSE", *SETTINGS,
    ):  # fmt: skip
        command += ["-o", setting]
    for field in FIELDS:
        command += ["-e", field]
    if most:
        command += ["-c", str(most)]
    # It exits with 2 after a cut file, having printed the whole records before.
    done = subprocess.run(command, capture_output=True, text=True, errors="surrogateescape", check=False)
    return [dict(zip(FIELDS, line.split("\t"), strict=True)) for line in done.stdout.split("\n")[:-1]]


def nanoseconds(epoch: str) -> int:
    """`frame.time_epoch` in ns."""
    seconds, _, part = epoch.partition(".")
    return int(seconds) * 1_000_000_000 + int(part.ljust(9, "0"))


def _address(row: dict[str, Any], name: str) -> str | None:
    if row[f"{name}_lo"] is None:
        return None
    return format_ip(ip_from_words(row[ADDRESSES[name]], row[f"{name}_hi"], row[f"{name}_lo"]))


def _first(told: dict[str, str], *names: str) -> str | None:
    return next((told[name].split(SEPARATOR)[0] for name in names if told[name]), None)


def _link(told: dict[str, str], layers: list[str]) -> dict[str, Any]:
    """Addresses, type and VLAN of the outermost link; what a cut or a kind of link does not have is left out."""
    found: dict[str, Any] = {}
    outer = next((layer for layer in layers if layer in ADDRESSED), None)
    if outer is None:
        return dict.fromkeys(("srcMAC", "destMAC", "ether_type", "vlan_id"))
    for name, field in zip(("srcMAC", "destMAC"), ADDRESSED[outer], strict=True):
        value = _first(told, field) if field else None
        found[name] = None if value is None else int(value.replace(":", ""), 16)
    behind = layers[layers.index(outer) + 1 + bool(told["isl.vlan_id"]) :]
    before = behind[: next((n for n, layer in enumerate(behind) if layer in BELOW or layer == "eth"), None)]
    tags = [layer for layer in before if layer in ("vlan", "ieee8021ad") or layer in TAGGED]
    inner = {"eth.type"} if outer != "eth" else set()  # of a frame inside
    inner |= {"llc.type"} if before[:1] != ["llc"] else set()
    value = _first(told, *(name for name in LINK_TYPES if name not in inner))
    if tags:
        field = TAGGED.get(tags[-1], "vlan.etype")
        values = told[field].split(SEPARATOR) if told[field] else []
        nth = sum(TAGGED.get(layer, "vlan.etype") == field for layer in tags)
        value = values[nth - 1] if nth <= len(values) else None
        if "ieee8021ad" in before and "vlan" in behind[len(before) :]:
            value = None  # it does not say its own type, so the next ones are not in their places
    if value is not None:
        found["ether_type"] = None if int(value, 16) in TAGS else int(value, 16)
    if {"vlan", "ieee8021ad"} & set(behind):
        vlan = _first(told, *VLANS)
        found["vlan_id"] = None if vlan is None else int(vlan)
    if told["isl.vlan_id"]:
        found["vlan_id"] = int(told["isl.vlan_id"], 0)
    return found


def _tunnels(told: dict[str, str], layers: list[str], depth: int) -> Iterator[tuple[str, int | None]]:
    """Layers of the tunnels from the network layer at `depth` on, and where the next network layer is."""
    at: int | None = depth
    while at is not None:
        above = [*layers[at + 1 : at + 3], "", ""]
        if above[0] in ("ip", "ipv6"):
            at += 1
            yield above[0], at
            continue
        length = 1 if above[0] in OVER_IP else 2
        name = above[length - 1]
        ports, nth = told["udp.dstport"].split(SEPARATOR), layers[: at + 2].count("udp")
        if above[0] == "udp" and ports[nth - 1 : nth] == [str(GPE)]:
            length, name = 1, "vxlan"
        if name not in IDS or (length == 2 and above[0] != "udp"):
            return
        if name == "l2tp" and _first(told, "l2tp.type") == "1":
            return
        if name == "gtp" and _first(told, "gtp.message") != "0xff":
            return
        inside = next((n for n in range(at + 1 + length, len(layers)) if layers[n] not in WITHIN), len(layers))
        at = inside if layers[inside : inside + 1] in (["ip"], ["ipv6"]) else None
        yield name, at


def _tunnel(told: dict[str, str], layers: list[str], depth: int) -> dict[str, Any]:
    """The outermost tunnel and the innermost network header within four."""
    found: dict[str, Any] = {}
    passed = list(islice(_tunnels(told, layers, depth), 4))
    protocol = int(_first(told, "ip.proto") or 0) if layers[depth] == "ip" else 0
    if layers[depth] == "ip" and (_first(told, "ip.frag_offset") or "0") != "0":
        protocol = 0
    if not passed:
        return {"tunnel": protocol if protocol in (4, 41, 47, 137) else None, "inner_ipversion": None}
    name = passed[0][0]
    ports = OVER_IP | {"ip": 4, "ipv6": 41}
    over_udp = layers[depth + 1 : depth + 2] == ["udp"]
    found["tunnel"] = int(_first(told, "udp.dstport") or 0) if over_udp else ports[name]
    if IDS.get(name) and layers.count(name) <= 1:  # of several it does not say which has a key
        identity = _first(told, *IDS[name])
        found["tunnel_id"] = None if identity is None else int(identity, 0)
    inner = next((at for _, at in reversed(passed) if at is not None), None)
    return found | (_inner(told, layers, inner) if inner is not None else {"inner_ipversion": None})


def _inner(told: dict[str, str], layers: list[str], at: int) -> dict[str, Any]:
    """The columns of the network header at layer `at`, and of the layer above it."""
    network = layers[at]
    found: dict[str, Any] = {"inner_ipversion": 4 if network == "ip" else 6}
    nth = layers[:at].count(network)
    names = {"inner_srcIP": (f"{network}.src", nth), "inner_destIP": (f"{network}.dst", nth)}
    if network == "ip":
        names["inner_protocol"] = ("ip.proto", nth)
    above = layers[at + 1] if at + 1 < len(layers) else ""
    if above in PORTED:
        prefix = PORTED[above]
        nth = sum(PORTED.get(layer) == prefix for layer in layers[: at + 1])
        names |= {"inner_srcPort": (f"{prefix}.srcport", nth), "inner_destPort": (f"{prefix}.dstport", nth)}
        if above == "tcp":
            names["inner_flags"] = ("tcp.flags", nth)
    for name, (field, which) in names.items():
        values = told[field].split(SEPARATOR) if told[field] else []
        if which < len(values):
            value = values[which]
            found[name] = value if name.endswith("IP") else int(value, 0) & (0xFF if name == "inner_flags" else 0xFFFF)
    return found


def _arp(told: dict[str, str]) -> dict[str, Any]:
    """The columns of ARP; its addresses are of IPv4 over Ethernet."""
    operation = _first(told, "arp.opcode")
    found: dict[str, Any] = {"arp_op": None if operation is None else int(operation)}
    known = told["arp.hw.type"] == "1"
    for name, field in (("arp_srcIP", "arp.src.proto_ipv4"), ("arp_destIP", "arp.dst.proto_ipv4")):
        found[name] = _first(told, field) if known else None
    return found


def _payload(told: dict[str, str], above: str) -> dict[str, Any]:
    """The length of the payload, and the bytes of it that are captured."""
    found: dict[str, Any] = {}
    length = _first(told, "tcp.len") if above == "tcp" else None
    if length is not None:
        found["payload_length"] = int(length)
    if length != "0" and above in ("tcp", "udp") and (text := _first(told, f"{above}.payload")):
        found[PAYLOAD_BYTES] = bytes.fromhex(text)
    return found


def layers_of(told: dict[str, str]) -> tuple[list[str], int]:
    """The layers without extension headers and marks, and where the outermost IP header is among them."""
    layers = [layer for layer in told[LAYERS].split(":") if not layer.startswith("ipv6.") and layer != "communityid"]
    return layers, next((index for index, layer in enumerate(layers) if layer in ("ip", "ipv6")), len(layers))


def framed(told: dict[str, str]) -> dict[str, Any]:
    """What tshark says of the record."""
    lengths = {name: int(told[FRAME[name]]) for name in ("len", "caplen")}
    return {"timestamp": nanoseconds(told[FRAME["timestamp"]]), **lengths}


def expected(told: dict[str, str]) -> dict[str, Any]:
    """What tshark says of the link, of ARP, and of network headers; what it does not say is left out."""
    layers, depth = layers_of(told)
    found = framed(told)
    if "cfp" not in layers:  # tshark's eth.* are those of the frame inside FabricPath, ours those of the outer one
        found |= _link(told, layers[:depth])
    strange = [layer for layer in layers[:depth] if layer not in LAYERS_OF_LINKS]
    if strange == ["arp"] and found.get("ether_type") == 0x0806:
        return found | _arp(told) | {"ipversion": None}
    if strange:  # something else, or a tunnel
        return found
    found |= {"arp_op": None} | messages(told, layers)
    if depth == len(layers):
        return found | {"ipversion": None, "tunnel": None, "payload_offset": None, "payload_length": None}
    network, above = layers[depth], (layers[depth + 1] if depth + 1 < len(layers) else "")
    names = {"srcIP": f"{network}.src", "destIP": f"{network}.dst"}
    if network == "ip":
        names |= {"protocol": "ip.proto", "total_length": "ip.len", "ttl": "ip.ttl"}
    if above in PORTED:
        names |= {"srcPort": f"{PORTED[above]}.srcport", "destPort": f"{PORTED[above]}.dstport"}
    if above == "tcp":
        names["flags"] = "tcp.flags"
    # A field that the snaplen cut is empty.
    values = {ours: value for ours, theirs in names.items() if (value := _first(told, theirs)) is not None}
    for name, value in values.items():
        address = name in ("srcIP", "destIP")
        found[name] = value if address else int(value, 0) & (0xFF if name == "flags" else 0xFFFF)
    if values:
        found |= {"ipversion": 4 if network == "ip" else 6}
        found |= _payload(told, above) | _tunnel(told, layers, depth)
    return found


def frames(path: Path) -> dict[int, bytes]:
    """The captured bytes of the sane records of a capture, by position."""
    reader, found = read(path, 1 << 61), {}
    for span in reader.spans():
        for index in span.sane.tolist():
            begin = int(span.records[OFFSET, index]) + RECORD_HEADER
            found[span.position + index] = span.buffer[begin : begin + int(span.records[CAPTURED, index])].tobytes()
        reader.count(span)
    return found


def _ours(row: dict[str, Any], name: str, frame: bytes, theirs: Any) -> Any:
    if name in ADDRESSES:
        return _address(row, name)
    if name == PAYLOAD_BYTES:
        place, length = row["payload_offset"], row["payload_length"]
        if place is None:
            return None
        whole = frame[place : place + length]
        return whole[: len(theirs)] if row["protocol"] == 17 else whole  # its own length may be less than IP's
    return row[name]


def compare(path: Path, most: int = 0) -> tuple[Counter[str], list[str]]:
    """How often each column is what tshark says, and the differences: number, column, ours, tshark's, its layers."""
    reader, captured, rows = read(path, 1 << 61), frames(path), []
    for interface, batch in reader.by_interface():
        if most:
            batch = batch.filter(pc.less(batch.column("position"), most))
        own = [captured[position] for position in batch.column("position").to_pylist()]
        rows += [(row, interface) for row in derived(batch, own)]
    rows.sort(key=lambda one: one[0]["position"])
    told = tshark(path, most)
    found = [f"{bad.position + 1} {bad.reason}" for bad in reader.malformed if (bad.position or 0) < len(told)]
    if len(rows) + len(found) != len(told):
        found.append(f"{len(rows)} packets, tshark {len(told)}")
    equal: Counter[str] = Counter()
    for row, interface in rows:
        position = row["position"]
        if position >= len(told):
            break
        other, frame = told[position], captured[position]
        layers, depth = layers_of(other)
        known = interface.link_number in LINKS and LINKS[interface.link_number].layers
        for name, theirs in (expected if known else framed)(other).items():
            ours = _ours(row, name, frame, theirs)
            # tshark gives up on a layer that is cut where it is not whole; we give what is there.
            unsaid = theirs is None and row["caplen"] < row["len"]
            if ours == theirs:
                equal[name] += ours is not None
            elif not unsaid and not excuse(name, row, other, layers[depth:], frame):
                found.append(f"{position + 1} {name}: {ours}, tshark {theirs} ({other[LAYERS]})")
    return equal, found
