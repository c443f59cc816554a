"""Computes the Community ID of a flow, version 1, as Zeek, Suricata and Wireshark do.

A family of the built-in catalog; `capture.content.community_id` computes the IDs of whole batches. Corelight publishes
the specification (github.com/corelight/community-id-spec).
"""

from __future__ import annotations

import base64
import hashlib

from lowwater.catalog.expr import Type
from lowwater.catalog.functions import Cost, Function
from lowwater.catalog.limits import between

ICMP, TCP, UDP, ICMPV6, SCTP = 1, 6, 17, 58, 132
PORTED = frozenset((ICMP, TCP, UDP, ICMPV6, SCTP))
"""Protocols whose flows have ports; for ICMP, type and code replace the ports."""

_PAIRS = {
    ICMP: ((8, 0), (13, 14), (15, 16), (10, 9), (17, 18)),
    ICMPV6: ((128, 129), (130, 131), (133, 134), (135, 136), (139, 140), (144, 145)),
}
# A request and its reply are one flow: the type of the reply replaces the destination port. A type without a reply
# keeps its code as the destination port; such a flow has one direction.
_ANSWERS = {
    protocol: {sent: answer for pair in pairs for sent, answer in (pair, pair[::-1])}
    for protocol, pairs in _PAIRS.items()
}


def community_id(
    source: bytes, destination: bytes, protocol: int, source_port: int, destination_port: int, seed: int = 0
) -> str | None:
    """Returns the Community ID of a flow with ports, equal for both directions.

    Args:
        source: the source address, as a value of `catalog.values`.
        destination: the destination address, of the same family.
        protocol: the number of the IP protocol; outside `PORTED`, the function ignores the ports.
        source_port: the source port; the type for ICMP and ICMPv6.
        destination_port: the destination port; the code for ICMP and ICMPv6.
        seed: the seed of the hash, 16 bits.

    Returns:
        `1:` and the SHA-1 in base64; None if the families differ or a number is too large for its field.

    Example:
        >>> from lowwater.catalog.values import pack_ip
        >>> community_id(pack_ip("128.232.110.120"), pack_ip("66.35.250.204"), 6, 34855, 80)
        '1:LQU9qZlK+B5F3KDmev6m5PMibrg='
    """
    if not (0 <= source_port <= 0xFFFF and 0 <= destination_port <= 0xFFFF):
        return None
    if protocol not in PORTED:
        return community_id_without_ports(source, destination, protocol, seed)
    one_way = False
    if protocol in _ANSWERS:
        answer = _ANSWERS[protocol].get(source_port)
        one_way = answer is None
        destination_port = destination_port if answer is None else answer
    ends = [(source[1:], source_port.to_bytes(2, "big")), (destination[1:], destination_port.to_bytes(2, "big"))]
    if not one_way:
        ends.sort()
    ports = b"".join(port for _, port in ends)
    return _hashed([address for address, _ in ends], protocol, ports, seed)


def community_id_without_ports(source: bytes, destination: bytes, protocol: int, seed: int = 0) -> str | None:
    """Returns the Community ID of a flow of a protocol without ports, such as GRE.

    Arguments as of `community_id`.

    Returns:
        The Community ID; None for a protocol with ports, whose flows differ in their ports.
    """
    if protocol in PORTED:
        return None
    return _hashed(sorted((source[1:], destination[1:])), protocol, b"", seed)


def _hashed(addresses: list[bytes], protocol: int, ports: bytes, seed: int) -> str | None:
    if len(addresses[0]) != len(addresses[1]) or not 0 <= protocol <= 0xFF:
        return None
    text = seed.to_bytes(2, "big") + b"".join(addresses) + bytes((protocol, 0)) + ports
    return "1:" + base64.b64encode(hashlib.sha1(text, usedforsecurity=False).digest()).decode("ascii")


_ENDS = (Type.IP, Type.IP, Type.INT)
_PORTS = (Type.INT, Type.INT)
_PROTOCOL = ((2, between(0, 0xFF)),)
_NUMBERS = (*_PROTOCOL, (3, between(0, 0xFFFF)), (4, between(0, 0xFFFF)))
FLOWS: tuple[Function, ...] = (
    Function("community_id", (*_ENDS, *_PORTS), Type.STRING, community_id, Cost.HIGH, partial=True, limits=_NUMBERS),
    Function(
        "community_id",
        (*_ENDS, *_PORTS, Type.INT),
        Type.STRING,
        community_id,
        Cost.HIGH,
        partial=True,
        constant=(5,),
        limits=(*_NUMBERS, (5, between(0, 0xFFFF))),
    ),
    Function("community_id", _ENDS, Type.STRING, community_id_without_ports, Cost.HIGH, partial=True, limits=_PROTOCOL),
)
