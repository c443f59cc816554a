"""The Community ID of a flow, version 1: the name that Zeek, Suricata and Wireshark give to it too.

A family of the shipped catalog; `capture.content.community_id` names the flows of whole batches. The specification is
Corelight's (github.com/corelight/community-id-spec).
"""

from __future__ import annotations

import base64
import hashlib

from lowwater.catalog.expr import Type
from lowwater.catalog.functions import Cost, Function

ICMP, TCP, UDP, ICMPV6, SCTP = 1, 6, 17, 58, 132
PORTED = frozenset((ICMP, TCP, UDP, ICMPV6, SCTP))
"""Protocols whose flows have ports; of ICMP these are type and code."""

_PAIRS = {
    ICMP: ((8, 0), (13, 14), (15, 16), (10, 9), (17, 18)),
    ICMPV6: ((128, 129), (130, 131), (133, 134), (135, 136), (139, 140), (144, 145)),
}
# Request and reply are one flow, the type of the other side in place of a port. A type without an answer has its
# code there and flows one way.
_ANSWERS = {
    protocol: {one: other for pair in pairs for one, other in (pair, pair[::-1])} for protocol, pairs in _PAIRS.items()
}


def community_id(
    source: bytes, destination: bytes, protocol: int, source_port: int, destination_port: int, seed: int = 0
) -> str | None:
    """The Community ID of a flow with ports: the same in both directions.

    Args:
        source: address value, as `catalog.values` has them.
        destination: address value of the same family.
        protocol: number of the IP protocol; of another than `PORTED` the ports are left out.
        source_port: or the type, for ICMP and ICMPv6.
        destination_port: or the code.
        seed: the seed of the hash, 16 bits.

    Returns:
        `1:` and the SHA-1 in base64; None where the families differ or a number is too large for its field.

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
    """The Community ID of a flow of a protocol without ports, such as GRE.

    Arguments as of `community_id`.

    Returns:
        As `community_id`; None for a protocol that has ports, since its flows cannot be told without them.
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
FUNCTIONS: tuple[Function, ...] = (
    Function("community_id", (*_ENDS, Type.INT, Type.INT), Type.STRING, community_id, Cost.HIGH, partial=True),
    Function("community_id", _ENDS, Type.STRING, community_id_without_ports, Cost.HIGH, partial=True),
)
