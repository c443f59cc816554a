"""The types of values, and values of IP and Ethernet addresses with their texts."""

from __future__ import annotations

import ipaddress
import re
from enum import StrEnum

# Types


class Type(StrEnum):
    """The type of a value.

    Integers are signed with 64 bits (V2). IP is an IPv4 or IPv6 address; IPv4 sorts before IPv6. INSTANT is a whole
    number of microseconds since 1970, UTC (V6).
    """

    BOOL = "bool"
    INT = "int"
    FLOAT = "float"
    IP = "ip"
    MAC = "mac"
    STRING = "string"
    INSTANT = "timestamp"


# Addresses. An IP value is one byte of the version (4 or 6), then the 4 or 16 bytes of the address. The order of bytes
# is the order of addresses in every engine, IPv4 first. An IPv4-mapped IPv6 address never equals an IPv4 address.


def pack_ip(text: str) -> bytes:
    """Returns the value of an IP address text.

    Raises:
        ValueError: the text is not an IPv4 or IPv6 address, or has a zone (`fe80::1%eth0`), which a value cannot keep.

    Example:
        >>> pack_ip("10.0.0.1").hex()
        '040a000001'
    """
    if "%" in text:
        raise ValueError(f"{text!r} has a zone")
    address = ipaddress.ip_address(text)
    return bytes([address.version]) + address.packed


def ip_from_words(version: int, high: int, low: int) -> bytes:
    """Returns the IP value of an address stored as two signed 64-bit words. `high`: the upper word; 0 for IPv4."""
    mask = (1 << 64) - 1
    if version == 4:
        return b"\x04" + (low & 0xFFFFFFFF).to_bytes(4, "big")
    return b"\x06" + (high & mask).to_bytes(8, "big") + (low & mask).to_bytes(8, "big")


def words_from_ip(value: bytes) -> tuple[int, int, int]:
    """Returns version, upper and lower signed word of an IP value; the inverse of `ip_from_words`."""
    if value[0] == 4:
        return 4, 0, int.from_bytes(value[1:], "big")
    high, low = (int.from_bytes(part, "big", signed=True) for part in (value[1:9], value[9:]))
    return 6, high, low


def format_ip(value: bytes) -> str:
    """Returns the usual text of an IP value.

    Example:
        >>> format_ip(pack_ip("2001:db8::1"))
        '2001:db8::1'
    """
    if value[0] == 4:
        return ".".join(str(byte) for byte in value[1:])
    return str(ipaddress.IPv6Address(value[1:]))


def format_mac(value: int) -> str:
    """Returns the text of an Ethernet address.

    Example:
        >>> format_mac(0x020000000001)
        '02:00:00:00:00:01'
    """
    return ":".join(f"{byte:02x}" for byte in value.to_bytes(6, "big"))


def parse_mac(text: str) -> int:
    """Returns the value of an Ethernet address text. Raises ValueError if the text is not an Ethernet address."""
    if not _MAC.fullmatch(text):
        raise ValueError(f"{text!r} is no Ethernet address")
    return int.from_bytes(bytes(int(part, 16) for part in text.split(":")), "big")


_MAC = re.compile(r"[0-9A-Fa-f]{1,2}(:[0-9A-Fa-f]{1,2}){5}")


def parse_whole(text: str) -> int:
    """Returns the whole number of a text, decimal or as 0x1f. Raises ValueError for anything else, also for what only
    Python reads: underscores, spaces, digits of other scripts."""
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{text!r} is no whole number")
    return int(text, 0 if text[:2].lower() == "0x" else 10)


_WHOLE = re.compile(r"[+-]?[0-9]+|0[xX][0-9A-Fa-f]+")
