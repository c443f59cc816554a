"""Numbers of IP protocols by the names that tools write."""

from __future__ import annotations

_NAMES = {
    "hopopt": 0, "icmp": 1, "igmp": 2, "ipip": 4, "ipv4": 4, "ip-in-ip": 4, "tcp": 6, "egp": 8, "igp": 9, "udp": 17,
    "dccp": 33, "ipv6": 41, "ipv6-route": 43, "ipv6-frag": 44, "rsvp": 46, "gre": 47, "esp": 50, "ah": 51,
    "icmp6": 58, "ipv6-icmp": 58, "icmpv6": 58, "ipv6-nonxt": 59, "ipv6-opts": 60, "eigrp": 88, "ospf": 89,
    "ospfigp": 89, "pim": 103, "vrrp": 112, "l2tp": 115, "sctp": 132, "udplite": 136, "mpls-in-ip": 137,
}  # fmt: skip


def protocol_number(name: str | None) -> int | None:
    """Returns the number of an IP protocol by its name in any case, or by its digits; None for any other text.

    Example:
        >>> protocol_number("TCP"), protocol_number("47"), protocol_number("unknown_transport")
        (6, 47, None)
    """
    if name is None:
        return None
    text = name.strip().lower()
    if text.isascii() and text.isdigit() and len(text) <= 3:
        return int(text) if int(text) <= 0xFF else None
    return _NAMES.get(text)
