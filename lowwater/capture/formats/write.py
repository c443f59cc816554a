"""Writing captures: headers and records of a classic pcap and of a pcapng, little endian.

The counterpart of the reader; `lowwater export` calls it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

SNAPLEN = 262_144
"""Snaplen of a file header, unless a frame is larger."""

PCAP_SECONDS = 1 << 32
"""First second since the epoch (in 2106) that a classic pcap cannot represent."""

PCAPNG_LINK_TYPES = 1 << 16
"""First link type that a pcapng cannot represent."""

_SECTION, _INTERFACE, _PACKET = 0x0A0D0D0A, 1, 6
_END, _NAME, _RESOLUTION = 0, 2, 9
_NANOSECONDS = bytes([9])


@dataclass(frozen=True)
class WrittenInterface:
    """An interface of a pcapng to be written.

    Attributes:
        name: its `if_name`.
        link_number: link type of its frames.
    """

    name: str
    link_number: int


def pcap_header(link_number: int, nanoseconds: bool, snaplen: int = SNAPLEN) -> bytes:
    """Makes the file header of a classic pcap, version 2.4."""
    magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    return struct.pack("<IHHiIII", magic, 2, 4, 0, 0, snaplen, link_number)


def pcap_record(stamp: int, wire: int, frame: bytes, nanoseconds: bool) -> bytes:
    """Makes a record of a classic pcap.

    Args:
        stamp: ns since the epoch, below PCAP_SECONDS; whole microseconds unless `nanoseconds`.
        wire: length of the frame on the wire.
        frame: captured bytes of the frame.
        nanoseconds: whether the file has nanoseconds.
    """
    seconds, rest = divmod(stamp, 1_000_000_000)
    return struct.pack("<IIII", seconds, rest if nanoseconds else rest // 1000, len(frame), wire) + frame


def pcapng_header(interfaces: Sequence[WrittenInterface], snaplen: int = SNAPLEN) -> bytes:
    """Makes the section header of a pcapng and an interface block for every interface, with timestamps in ns."""
    parts = [_block(_SECTION, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))]
    for interface in interfaces:
        options = _option(_NAME, interface.name.encode()) + _option(_RESOLUTION, _NANOSECONDS) + _option(_END, b"")
        parts.append(_block(_INTERFACE, struct.pack("<HHI", interface.link_number, 0, snaplen) + options))
    return b"".join(parts)


def pcapng_record(interface: int, stamp: int, wire: int, frame: bytes) -> bytes:
    """Makes an enhanced packet block. Arguments as of `pcap_record`, and the number of the interface."""
    head = struct.pack("<IIIII", interface, stamp >> 32, stamp & 0xFFFF_FFFF, len(frame), wire)
    return _block(_PACKET, head + frame)


def _block(kind: int, body: bytes) -> bytes:
    padded = body + bytes(-len(body) % 4)
    size = struct.pack("<I", len(padded) + 12)
    return struct.pack("<I", kind) + size + padded + size


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)
