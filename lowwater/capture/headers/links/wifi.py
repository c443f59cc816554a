"""IEEE 802.11 frames: addresses, and the payload of unprotected data frames.

Link type 105, and behind radiotap. Addresses by To DS and From DS: IEEE 802.11-2020, table 9-30.
"""

from __future__ import annotations

from typing import Any

from lowwater.capture.headers.fields import u8, u16, u48
from lowwater.capture.headers.links.llc import llc
from lowwater.capture.headers.registry import LinkLayer
from lowwater.capture.inlining import part

_MANAGEMENT, _DATA = 0x00, 0x08  # type and version, bits 0 to 3 of the first byte
_NO_DATA, _QOS = 0x40, 0x80  # bits of a data frame's subtype
_TO_DS, _FROM_DS, _PROTECTED, _ORDER = 0x01, 0x02, 0x40, 0x80  # bits of the second byte
_AGGREGATE = 0x80  # bit of the first byte of QoS control: several packets in one frame


@part
def _body(buffer: Any, at: int, end: int, padded: bool) -> int:
    """Returns the index of the LLC header of a data frame; -1 if it has no readable one."""
    first, flags, sequence = u8(buffer, at, end), u8(buffer, at + 1, end), u8(buffer, at + 22, end)
    # Only the first fragment has an LLC header.
    if first & _NO_DATA or flags & _PROTECTED or sequence < 0 or sequence & 0x0F:
        return -1
    length = 30 if flags & _TO_DS and flags & _FROM_DS else 24
    if first & _QOS:
        quality = u8(buffer, at + length, end)
        if quality < 0 or quality & _AGGREGATE:
            return -1
        length += 6 if flags & _ORDER else 2  # HT control follows QoS control
    if padded:
        length = (length + 3) & ~3
    return at + length


@part
def wifi(buffer: Any, at: int, end: int, padded: bool) -> tuple[int, int, int, int, int, int, int]:
    """Reads an 802.11 header; see the package.

    Args:
        buffer: uint8 array that holds the record.
        at: index of the first byte of the 802.11 header.
        end: index behind the last captured byte.
        padded: whether radiotap says that the header is padded to a multiple of 4 bytes.
    """
    first, flags = u8(buffer, at, end) & 0x0F, u8(buffer, at + 1, end)
    if u16(buffer, at, end) < 0 or (first != _MANAGEMENT and first != _DATA):
        return -1, -1, -1, -1, -1, at, end
    destination, source = u48(buffer, at + 4, end), u48(buffer, at + 10, end)
    if first == _MANAGEMENT:
        return destination, source, -1, -1, -1, at, end
    if flags & _TO_DS:
        destination = u48(buffer, at + 16, end)
    if flags & _FROM_DS:
        source = u48(buffer, at + 24 if flags & _TO_DS else at + 16, end)
    body = _body(buffer, at, end, padded)
    if body < 0:
        return destination, source, -1, -1, -1, at, end
    kind, vlan, network, at, end = llc(buffer, body, end)
    return destination, source, kind, vlan, network, at, end


@part
def wifi_link(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Reads a record that begins with an 802.11 header; see the package."""
    return wifi(buffer, at, end, False)


LINK_LAYERS = (LinkLayer("wifi", {105: "80211"}, wifi_link),)
