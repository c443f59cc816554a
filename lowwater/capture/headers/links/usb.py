"""Transfers of USB that Linux's usbmon records, of network adapters whose blocks say that they hold Ethernet frames.

Link types 189 and 220. Two formats of adapters name themselves in their first bytes: RNDIS, and the network control
model (NCM) of the USB Implementers Forum, with offsets of 16 or 32 bits. The first frame of a block is read; numbers of
USB are little endian on every machine. The header of usbmon has the byte order of the capturing machine, but for single
bytes, which are all that is read of it.
"""

from __future__ import annotations

from typing import Any

from lowwater.capture.headers.fields import u32
from lowwater.capture.headers.links.ethernet import ethernet
from lowwater.capture.headers.loads import byte, little16, little32
from lowwater.capture.headers.registry import LinkLayer
from lowwater.capture.inlining import rare

_HEADER, _LONG_HEADER = 48, 64
_TRANSFER, _DATA = 9, 15  # type of the transfer, and 0 where data follow
_BULK = 3
_RNDIS_PACKET, _RNDIS_HEADER, _RNDIS_COUNTED_FROM = 1, 44, 8
_BLOCK16, _BLOCK32 = 0x4E43_4D48, 0x6E63_6D68  # "NCMH", "ncmh"
_FRAMES16, _FRAMES32 = 0x4E43_4D30, 0x6E63_6D30  # "NCM0", "ncm0"; with 1 a checksum (CRC-32) ends each frame
_CHECKSUM = 4
_ETHERNET = 14


@rare
def _rndis(buffer: Any, at: int, end: int) -> tuple[int, int]:
    """Returns begin and end of the frame in a message of RNDIS; -1 each if the bytes are none."""
    if at + _RNDIS_HEADER > end or little32(buffer, at) != _RNDIS_PACKET:
        return -1, -1
    length, offset, size = little32(buffer, at + 4), little32(buffer, at + 8), little32(buffer, at + 12)
    begin = _RNDIS_COUNTED_FROM + offset
    if begin < _RNDIS_HEADER or begin + size > length:
        return -1, -1
    return at + begin, at + begin + size


@rare
def _ncm(buffer: Any, at: int, end: int) -> tuple[int, int]:
    """Returns begin and end of the first frame in a block of NCM; -1 each if the bytes are none."""
    block = u32(buffer, at, end)
    wide = block == _BLOCK32
    if (not wide and block != _BLOCK16) or at + 16 > end:
        return -1, -1
    least = 16 if wide else 12
    table = little32(buffer, at + 12) if wide else little16(buffer, at + 10)
    entry = at + table + (16 if wide else 8)
    if little16(buffer, at + 4) != least or table < least or entry + 8 > end:
        return -1, -1
    checked = u32(buffer, at + table, end) - (_FRAMES32 if wide else _FRAMES16)
    if checked != 0 and checked != 1:
        return -1, -1
    offset = little32(buffer, entry) if wide else little16(buffer, entry)
    size = little32(buffer, entry + 4) if wide else little16(buffer, entry + 2)
    size -= _CHECKSUM * checked
    if offset < least:
        return -1, -1
    return at + offset, at + offset + size


@rare
def _transfer(buffer: Any, at: int, end: int, header: int) -> tuple[int, int, int, int, int, int, int]:
    """Reads the Ethernet header of a transfer behind `header` bytes of usbmon."""
    if at + header > end or byte(buffer, at + _TRANSFER) != _BULK or byte(buffer, at + _DATA) != 0:
        return -1, -1, -1, -1, -1, at, end
    at += header
    begin, stop = _rndis(buffer, at, end)
    if begin < 0:
        begin, stop = _ncm(buffer, at, end)
    if begin < 0 or begin >= end or stop - begin < _ETHERNET:
        return -1, -1, -1, -1, -1, at, end
    return ethernet(buffer, begin, min(end, stop))


@rare
def usb(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Reads a header of 48 bytes and an Ethernet header behind it; see the package."""
    return _transfer(buffer, at, end, _HEADER)


@rare
def usb_mmapped(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Reads a header of 64 bytes and an Ethernet header behind it; see the package."""
    return _transfer(buffer, at, end, _LONG_HEADER)


LINK_LAYERS = (
    LinkLayer("usb", {189: "USB_LINUX"}, usb),
    LinkLayer("usbmapped", {220: "USB_LINUX_MMAPPED"}, usb_mmapped),
)
