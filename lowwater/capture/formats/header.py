"""Reads the file header of a capture, and refuses unsupported formats with a remedy.

The reader calls it first. Only classic pcap, pcapng, snoop and ERF files pass.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lowwater.capture.formats.capture_file import ETHERNET, FILE_HEADER, SNOOP_HEADER, CaptureFile, link_name
from lowwater.capture.formats.erf import first_link
from lowwater.capture.formats.pcapng import first_interface
from lowwater.capture.formats.sources import DecompressedSource, PeekableSource, compression_of, open_source
from lowwater.errors import CaptureError

SECTION_HEADER = b"\x0a\x0d\x0d\x0a"
"""The type of a pcapng section header, the same in either byte order."""

HEAD = 64 << 10
"""Maximum number of bytes of a pcapng that are searched for its first interface, and of another file for the first
records of ERF, which has no file header."""

_MAGIC = {
    b"\xd4\xc3\xb2\xa1": ("little", "us", False),
    b"\xa1\xb2\xc3\xd4": ("big", "us", False),
    b"\x4d\x3c\xb2\xa1": ("little", "ns", False),
    b"\xa1\xb2\x3c\x4d": ("big", "ns", False),
    b"\x34\xcd\xb2\xa1": ("little", "us", True),
    b"\xa1\xb2\xcd\x34": ("big", "us", True),
}
_ORDERS = {b"\x4d\x3c\x2b\x1a": "little", b"\x1a\x2b\x3c\x4d": "big"}
_AGAIN = "if it is still being written, read it again later; else copy it again"
UNREADABLE = "check the path and the disk; of a stream, what writes it"
_CONVERTED = "convert it: editcap -F pcap IN OUT"
_CONVERTED_NETMON = "convert it: `TZ=ZONE editcap -F pcap IN OUT`, in the time zone of the machine that captured it"
_REFUSED = {
    b"BZh": ("a bzip2 file", "bunzip2 it first"),
    b"\x02\x21\x4c\x18": ("an lz4 file of the legacy format", "lz4 -d it first"),
    b"GMBU": ("a capture of Network Monitor 2", _CONVERTED_NETMON),
    b"RTSS": ("a capture of Network Monitor 1", _CONVERTED_NETMON),
}
_SNOOP = b"snoop\0\0\0"
_DATALINKS = {0: ETHERNET, 2: 6, 4: ETHERNET, 0x8000_0005: 226}
"""Link type by datalink type of snoop: IEEE 802.3, token ring, Ethernet, ipnet."""


def header_bytes(head: bytes) -> int:
    """Returns how many bytes `parse_header` needs, from the first 24 bytes of a capture."""
    return FILE_HEADER if head[:4] in _MAGIC or head.startswith(_SNOOP) else HEAD


def parse_header(path: Path, head: bytes, size: int, compression: str = "", damage: str = "") -> CaptureFile:
    """Parses the file header of a capture.

    Args:
        head: its first bytes, decompressed: as many as `header_bytes` returns, or all of a smaller file.
        size: stored size of the file, bytes.
        compression: name of the compression, or an empty string.
        damage: why decompression stopped early, or an empty string.

    Raises:
        CaptureError: the file is empty, cut in the header, not a capture, or of an unsupported format.
    """
    name = f"{path}, inside {compression}" if compression else str(path)
    if damage and len(head) < FILE_HEADER:
        raise CaptureError(
            f"{name}: cannot be decompressed: {damage}", "copy the file again, or decompress it by its own tool"
        )
    if not head:
        raise CaptureError(f"{name}: empty file (0 bytes), not a capture", _AGAIN)
    if inner := compression_of(head):
        raise CaptureError(f"{name}: compressed again, as {inner}, which is not supported", "decompress it once")
    for magic, (kind, remedy) in _REFUSED.items():
        if head.startswith(magic):
            raise CaptureError(f"{name}: {kind}, which is not supported", remedy)
    if head.startswith(_SNOOP):
        return _snoop(name, path, head, size, compression)
    if head[:4] not in _MAGIC and not head.startswith(SECTION_HEADER):
        if (link := first_link(head)) is not None:
            kind = link_name(link) if link >= 0 else ""
            return CaptureFile(path, "erf", "little", "2^-32", link, kind, 0, size, compression, (0, 0))
        raise CaptureError(
            f"{name}: not a capture: it begins with {head[:4].hex(' ')}",
            "give a pcap, pcapng, snoop or ERF, plain or in gzip, zstd, xz or lz4; `capinfos FILE` may say what it is",
        )
    if len(head) < FILE_HEADER:
        raise _cut(name, head, FILE_HEADER)
    return (_section if head.startswith(SECTION_HEADER) else _classic)(name, path, head, size, compression)


def _cut(name: str, head: bytes, wanted: int) -> CaptureError:
    return CaptureError(f"{name}: cut inside the file header: {len(head)} of {wanted} bytes", _AGAIN)


def _snoop(name: str, path: Path, head: bytes, size: int, compression: str) -> CaptureFile:
    if len(head) < SNOOP_HEADER:
        raise _cut(name, head, SNOOP_HEADER)
    version, datalink = struct.unpack_from(">II", head, len(_SNOOP))
    if version != 2:
        raise CaptureError(f"{name}: snoop version {version} is not supported", _CONVERTED)
    if datalink not in _DATALINKS:
        raise CaptureError(f"{name}: a snoop capture of datalink type {datalink}, which is not supported", _CONVERTED)
    link = _DATALINKS[datalink]
    return CaptureFile(path, "snoop", "big", "us", link, link_name(link), 0, size, compression, (version, 0))


def _classic(name: str, path: Path, head: bytes, size: int, compression: str) -> CaptureFile:
    byte_order, resolution, modified = _MAGIC[head[:4]]
    order = "<" if byte_order == "little" else ">"
    major, minor, snaplen, network = struct.unpack(order + "4xHH8xII", head[:FILE_HEADER])
    if (major, minor) != (543, 0) and major != 2:
        raise CaptureError(
            f"{name}: pcap version {major}.{minor} is not supported",
            "2.x and 543.0 are read; is it damaged?",
        )
    link = network & 0x03FF_FFFF  # the upper bits are the length of the frame check sequence
    return CaptureFile(
        path,
        "pcap",
        byte_order,
        resolution,
        link,
        link_name(link),
        snaplen,
        size,
        compression,
        (major, minor),
        modified,
    )


def _section(name: str, path: Path, head: bytes, size: int, compression: str) -> CaptureFile:
    byte_order = _ORDERS.get(head[8:12], "")
    if not byte_order:
        raise CaptureError(
            f"{name}: a pcapng whose first section has no byte order: {head[8:12].hex(' ')}", "copy the file again"
        )
    major, minor = struct.unpack("<HH" if byte_order == "little" else ">HH", head[12:16])
    if major == 1 << 8:  # writers of an old draft swapped the bytes of both numbers
        major, minor = 1, minor >> 8
    if major != 1:
        raise CaptureError(f"{name}: pcapng version {major}.{minor} is not supported", "1.x is read; is it damaged?")
    first = first_interface(head, byte_order == "big")
    number, snaplen, resolution = (first.link, first.snaplen, first.resolution) if first else (-1, 0, "")
    kind = link_name(number) if first else ""
    version = (major, minor)
    return CaptureFile(path, "pcapng", byte_order, resolution, number, kind, snaplen, size, compression, version)


@contextmanager
def open_with_header(
    capture: str | Path | Any, hashed: bool
) -> Iterator[tuple[CaptureFile, PeekableSource, DecompressedSource | None]]:
    """Opens a capture and reads its header. Closes the capture only if the block fails.

    Args:
        capture: as `sources.open_source`.
        hashed: whether to compute the SHA-256 of a compressed file.

    Yields:
        Header, source of the decompressed content from its first byte, and decompressor if the file is compressed.

    Raises:
        CaptureError: as `parse_header`, or the file cannot be read.
    """
    path, stream = open_source(capture)
    source, unpacked = PeekableSource(stream), None
    try:
        compression = compression_of(source.peek(FILE_HEADER))
        if compression:
            unpacked = DecompressedSource(source, hashed)
            source = PeekableSource(unpacked)
        head = source.peek(header_bytes(source.peek(FILE_HEADER)))
        damage = unpacked.damage if unpacked else ""
        yield parse_header(path, head, stream.size, compression, damage), source, unpacked
    except OSError as error:
        source.close()
        raise CaptureError(f"{path}: cannot be read: {error.strerror}", UNREADABLE) from error
    except BaseException:
        source.close()
        raise


def open_capture(path: str | Path) -> CaptureFile:
    """Reads the file header of a capture.

    Raises:
        CaptureError: as `parse_header`, or the file cannot be read.
    """
    with open_with_header(path, hashed=False) as (header, source, _):
        source.close()
        return header
