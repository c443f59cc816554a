"""Block numbers of a pcapng, and the content of an interface description block.

Below the scanner of the format (draft-ietf-opsawg-pcapng, sections 3.5, 4.1 and 4.2).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from lowwater.link_names import interface_name

SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, NAMES, STATISTICS, PACKET = 0x0A0D0D0A, 1, 2, 3, 4, 5, 6
JOURNAL, SECRETS, CUSTOM, CUSTOM_NOT_COPIED = 9, 10, 0x0BAD, 0x40000BAD
LEAST_BLOCK, LEAST_SECTION, LEAST_INTERFACE, LEAST_PACKET, LEAST_SIMPLE = 12, 28, 20, 32, 16
LARGEST_BLOCK = 16 << 20
"""Bytes of the longest plausible block, as in Wireshark."""

MOST_INTERFACES, MOST_DECLARED = 1 << 12, 1 << 16
"""Most interfaces of a file, and most declarations of a section. Packets of further ones are malformed (`interface`):
each interface costs its reader a batch of its own, however few packets it has."""

MULTIPLY, DIVIDE, SHIFT = range(3)
"""Conversion of ticks to ns: multiply by a number, divide by a number, or shift from units of 2^-n s."""

COUNTED = (
    "section header", "interface description", "name resolution", "interface statistics", "decryption secrets",
    "systemd journal export", "custom", "unknown", "comment",
)  # fmt: skip
"""Kinds that `CaptureSummary.blocks` counts; comments are options of packet blocks."""

_COMMENT, _NAME, _RESOLUTION, _OFFSET, _END = 1, 2, 9, 14, 0
_CODES = {"us": 6, "ns": 9}
_PER_SECOND = 1_000_000_000
_LARGEST = (1 << 63) - 1
_FARTHEST = 1 << 62


@dataclass(frozen=True)
class Description:
    """Content of an interface description block.

    Attributes:
        name: the option if_name, as `link_names.interface_name` writes it; empty without one.
        link: link type number.
        snaplen: largest captured length, 0 for no limit.
        resolution: seconds of a tick as text: `us`, `ns`, `10^-n` or `2^-n`.
        kind: MULTIPLY, DIVIDE or SHIFT.
        factor: ns of a tick (MULTIPLY), ticks of a ns (DIVIDE), or n (SHIFT); below 2^64.
        offset: ns that are added.
        most: most ticks with a representable time, for MULTIPLY; else 2^63 - 1. -1 if no ticks have a time.
    """

    name: str
    link: int
    snaplen: int
    resolution: str
    kind: int
    factor: int
    offset: int
    most: int


def describe(block: bytes, big: bool, resolution: str = "") -> Description:
    """Parses an interface description block.

    Args:
        block: the whole block, at least 20 bytes.
        big: whether its section is big endian.
        resolution: `us` or `ns` in the place of its own resolution; empty for its own.
    """
    link, snaplen = struct.unpack_from(">HxxI" if big else "<HxxI", block, 8)
    name, code, seconds = "", 6, 0
    for option, value in options(block[16:-4], big):
        if option == _NAME:
            name = interface_name(value.rstrip(b"\0"))
        elif option == _RESOLUTION and value:
            code = value[0]
        elif option == _OFFSET and len(value) == 8:
            seconds = int.from_bytes(value, "big" if big else "little", signed=True)
    kind, factor, resolution = _resolution(_CODES.get(resolution, code))
    offset = seconds * _PER_SECOND
    if not -_FARTHEST < offset < _FARTHEST:
        return Description(name, link, snaplen, resolution, kind, factor, 0, -1)
    most = (_LARGEST - max(offset, 0)) // (factor if kind == MULTIPLY else 1)
    return Description(name, link, snaplen, resolution, kind, factor, offset, most)


def _resolution(code: int) -> tuple[int, int, str]:
    exponent = code & 0x7F
    if code & 0x80:
        return SHIFT, exponent, f"2^-{exponent}"
    name = {6: "us", 9: "ns"}.get(exponent, f"10^-{exponent}")
    if exponent <= 9:
        return MULTIPLY, 10 ** (9 - exponent), name
    # 2^64 ticks of less than 10^-28 s are below a nanosecond: any larger divisor gives 0 too.
    return DIVIDE, min(10 ** (exponent - 9), (1 << 64) - 1), name


def options(data: bytes, big: bool) -> Iterator[tuple[int, bytes]]:
    """Yields code and value of the options of a block, up to the first one that is not whole."""
    at, form = 0, ">HH" if big else "<HH"
    while at + 4 <= len(data):
        code, length = struct.unpack_from(form, data, at)
        if code == _END or at + 4 + length > len(data):
            return
        yield code, data[at + 4 : at + 4 + length]
        at += 4 + length + -length % 4


def first_interface(head: bytes, big: bool) -> Description | None:
    """Finds the first interface of a pcapng, if it is declared in the first bytes of the file, before any packet.

    Args:
        head: the first bytes of the file.
        big: whether the first section is big endian.
    """
    at = 0
    while at + LEAST_BLOCK <= len(head):
        kind, size = struct.unpack_from(">II" if big else "<II", head, at)
        padded = size + -size % 4
        if size < LEAST_BLOCK or kind in (PACKET, OLD_PACKET, SIMPLE_PACKET) or (at and kind == SECTION):
            return None
        if kind == INTERFACE:
            whole = padded >= LEAST_INTERFACE and at + padded <= len(head)
            return describe(head[at : at + padded], big) if whole else None
        at += padded
    return None
