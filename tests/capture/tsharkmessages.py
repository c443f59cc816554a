"""What tshark says of flows and applications: Community IDs, and the fields of DNS, HTTP/1, TLS, QUIC and SSH."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa

from lowwater.capture.content.applications import APPLICATIONS, application_fields
from lowwater.catalog.builtin.numbers import ICMP, ICMPV6, PORTED, community_id, community_id_without_ports
from lowwater.catalog.values import ip_from_words
from tests.capture import tsharkhellos
from tests.capture.tsharkhellos import SEPARATOR, hellos
from tests.capture.tunnelframes import TUNNELS

COMMUNITY = "community_id"
NAMES = {
    COMMUNITY: "communityid", "dns_id": "dns.id", "dns_query": "dns.qry.name", "dns_type": "dns.qry.type",
    "dns_response": "dns.flags.response", "dns_rcode": "dns.flags.rcode", "dns_answers": "dns.count.answers",
    "http_method": "http.request.method", "http_host": "http.host", "http_uri": "http.request.uri",
    "http_user_agent": "http.user_agent", "http_status": "http.response.code", "ssh_banner": "ssh.protocol",
}  # fmt: skip
SETTINGS = (
    "http.desegment_headers:FALSE", "http.desegment_body:FALSE", "http.dechunk_body:FALSE",
    "dns.desegment_dns_messages:FALSE", *tsharkhellos.SETTINGS,
)  # fmt: skip
"""One packet says what it says by itself."""
FIELDS = (*NAMES.values(), *tsharkhellos.FIELDS)
COLUMNS = (*NAMES, *tsharkhellos.TLS_NAMES)
"""The columns that are compared; captures with QUIC are few."""

DNS_PORTS = {53, 5353, 5355}
INSIDE = {"ip", "ipv6", *(made.layer for made in TUNNELS), "teredo", "ayiya", "l2tp", "capwap"}
"""Layers above the outermost IP header with another one inside, of which tshark tells."""
OTHER_PORTS = {"jxta", "udplite", "mipv6"}
"""Layers that leave numbers of their own where tshark looks for ports."""


def derived(batch: pa.RecordBatch, frames: list[bytes]) -> list[dict[str, Any]]:
    """Our rows, with the columns that are made of decoded batches."""
    begins = np.cumsum([0, *map(len, frames)])[:-1].astype(np.int64)
    buffer = np.frombuffer(bytearray().join(frames), np.uint8)  # of bytes, another kernel would be compiled
    fields = pa.record_batch(application_fields(buffer, begins, batch)).to_pylist()
    for row in fields:
        row["dns_query"] = unescaped(row["dns_query"])
    return [row | found | {COMMUNITY: community(row)} for row, found in zip(batch.to_pylist(), fields, strict=True)]


def community(row: dict[str, Any]) -> str | None:
    """The Community ID of a packet, as a query computes it of its columns."""
    words = [row[name] for name in ("srcIP_hi", "srcIP_lo", "destIP_hi", "destIP_lo")]
    if row["ipversion"] is None or row["protocol"] is None or None in words:
        return None
    ends = ip_from_words(row["ipversion"], *words[:2]), ip_from_words(row["ipversion"], *words[2:])
    if (protocol := row["protocol"]) not in PORTED:
        return community_id_without_ports(*ends, protocol)
    names = ("icmp_type", "icmp_code") if protocol in (ICMP, ICMPV6) else ("srcPort", "destPort")
    numbers = [row[name] for name in names]
    return None if None in numbers else community_id(*ends, protocol, *numbers)


def unescaped(name: str | None) -> str | None:
    """A name of DNS as tshark writes it, which marks no dot inside a label."""
    if name is None or name == ".":
        return name and "<Root>"
    return re.sub(r"\\(\d{3}|.)", lambda found: chr(int(found[1])) if len(found[1]) == 3 else found[1], name)


def messages(told: dict[str, str], layers: list[str]) -> dict[str, Any]:
    """The columns as tshark has them, the first occurrence of each."""
    found: dict[str, Any] = {}
    for name, field in NAMES.items():
        text = told[field].split(SEPARATOR)[0]
        number = name != COMMUNITY and APPLICATIONS.field(name).type == pa.int32()
        found[name] = (int(text, 0) if number else text) if text else None
    return found | hellos(told, layers)


def excuse(name: str, row: dict[str, Any], told: dict[str, str], layers: list[str], frame: bytes) -> str:
    """Why tshark may say something else in one of these columns; empty where it may not."""
    if name not in (*COLUMNS, *tsharkhellos.QUIC_NAMES):
        return ""
    if row["protocol"] is None:
        return "a cut header, or no IP to us"
    if set(layers[1:]) & INSIDE:
        return "another header inside, of which tshark tells"
    if name == COMMUNITY:
        return _of_flow(row, layers, told)
    if name.startswith(("tls_", "quic_", "ssh_")):
        return _of_hello(name, row, told, layers, frame)
    return _of_application(row[name], row, told, layers, frame)


def _of_hello(name: str, row: dict[str, Any], told: dict[str, str], layers: list[str], frame: bytes) -> str:
    ours, payload = row[name], frame[row["payload_offset"] or 0 :]
    if isinstance(ours, str) and not ours.isascii():
        return "tshark replaces bytes that are not ASCII"
    if row["caplen"] < row["len"]:
        return "cut: tshark gives the half of a line, or a record without the hello in it"
    if name.startswith("quic_"):
        several = name in ("quic_server_name", "quic_alpn", "quic_ja4")
        return "a ClientHello of several datagrams, which tshark puts together" if several else ""
    layer = "ssh" if name.startswith("ssh_") else "tls"
    if ours is not None and (layer not in layers or told[tsharkhellos.REPEATED]):
        return "a segment that came before, or a port of another protocol to tshark"
    if layer == "ssh":
        return ""
    if payload[:1] not in (b"\x16", b"\x14"):
        return "a hello of SSL 2.0, or the rest of one that began in another segment"
    if int.from_bytes(payload[3:5], "big") > len(payload) - 5:
        return "a record of several segments, of which tshark says nothing"
    return "decrypted" if name == "tls_alpn" and "8" in told[tsharkhellos.KIND].split(SEPARATOR) else ""


def _of_flow(row: dict[str, Any], layers: list[str], told: dict[str, str]) -> str:
    if set(layers) & OTHER_PORTS:
        return "numbers of another layer in place of ports"
    cut = row["payload_offset"] is None or row["payload_offset"] > row["caplen"]
    unported = row["srcPort"] is None and row["icmp_type"] is None
    if row["protocol"] in PORTED and (unported or (cut and row["caplen"] < row["len"])):
        return "no ports, or a header that is not whole: tshark hashes addresses and protocol alone"
    if not told[NAMES[COMMUNITY]] and (row["protocol"] not in PORTED or layers[:1] == ["ipv6"]):
        return "tshark names no IPv6 flow without ports, nor a cut or unknown header"
    return ""


def _of_application(ours: Any, row: dict[str, Any], told: dict[str, str], layers: list[str], frame: bytes) -> str:
    if {"ssdp", "tls"} & set(layers):
        return "HTTP over UDP, or decrypted"
    begun = told["http.request.method"] or told["http.response.code"]
    payload = frame[row["payload_offset"] or 0 :]
    if ours is None and "http" in layers and not (begun and re.search(rb"\r?\n\r?\n", payload)):
        return "a head over several segments: tshark reads on in the later ones, and takes pieces of lines for lines"
    if row["caplen"] < row["len"]:
        return "cut: tshark gives the half of a field, or gives up the message"
    if ours is not None and not {"http", "dns", "mdns", "llmnr"} & set(layers):
        return "tshark takes the port for another protocol's"
    if ours is None and "dns" in layers and not DNS_PORTS & {row["srcPort"], row["destPort"]}:
        return "another port, of whose bytes tshark guesses that they are DNS"
    return ""
