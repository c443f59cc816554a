"""The first bytes of a capture: what it is, or why it is refused.

Before the reader: everything that is no classic pcap stops here, by name.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from lowwater.errors import CaptureError

FILE_HEADER = 24
RECORD_HEADER = 16
ETHERNET = 1
LINUX_SLL = 113

_MAGIC = {
    b"\xd4\xc3\xb2\xa1": ("little", "us"),
    b"\xa1\xb2\xc3\xd4": ("big", "us"),
    b"\x4d\x3c\xb2\xa1": ("little", "ns"),
    b"\xa1\xb2\x3c\x4d": ("big", "ns"),
}
_REFUSED = {
    b"\x0a\x0d\x0d\x0a": ("a pcapng capture", "editcap -F pcap IN OUT"),
    b"\x1f\x8b": ("a gzip file", "gunzip it first"),
    b"\x28\xb5\x2f\xfd": ("a zstd file", "zstd -d it first"),
    b"\xfd7zXZ": ("an xz file", "unxz it first"),
    b"BZh": ("a bzip2 file", "bunzip2 it first"),
    b"\x04\x22\x4d\x18": ("an lz4 file", "lz4 -d it first"),
    b"snoop\0": ("a snoop capture", "editcap -F pcap IN OUT"),
    b"\x34\xcd\xb2\xa1": ("a modified (Kuznetzov) pcap capture", "editcap -F pcap IN OUT"),
    b"\xa1\xb2\xcd\x34": ("a modified (Kuznetzov) pcap capture", "editcap -F pcap IN OUT"),
}
_LINK_TYPES = {
    0: "NULL", 1: "EN10MB", 9: "PPP", 12: "RAW12", 101: "RAW", 105: "80211", 108: "LOOP", 113: "LINUX_SLL",
    127: "RADIOTAP", 228: "IPV4", 229: "IPV6", 276: "LINUX_SLL2",
}  # fmt: skip

# A header may claim any snaplen. Beyond this, a record is taken for damage: it bounds the memory of a reader.
_SMALLEST_LIMIT = 262_144
_LARGEST_LIMIT = 1 << 24


@dataclass(frozen=True)
class CaptureFile:
    """Facts of a capture's file header.

    Attributes:
        path: the file.
        format: `pcap`.
        byte_order: `little` or `big`.
        resolution: `us` or `ns`.
        link_number: the link type, as in the file.
        link_type: its name, or the number as text where it has none here.
        snaplen: largest captured length, as in the file (untrusted).
        bytes: size of the file.
    """

    path: Path
    format: str
    byte_order: str
    resolution: str
    link_number: int
    link_type: str
    snaplen: int
    bytes: int

    @property
    def decoded(self) -> bool:
        """Whether records of this link type are decoded beyond timestamp and lengths."""
        return self.link_number in (ETHERNET, LINUX_SLL)

    @property
    def limit(self) -> int:
        """The largest captured length that is believed: the snaplen, within 256 KiB and 16 MiB."""
        return max(_SMALLEST_LIMIT, min(self.snaplen, _LARGEST_LIMIT))


def parse_header(path: Path, head: bytes, size: int) -> CaptureFile:
    """Reads a capture's file header.

    Args:
        path: the file, for errors.
        head: its first 24 bytes, or all of them where there are fewer.
        size: its size in bytes.

    Raises:
        CaptureError: if it is empty, cut in the header, no capture, or a format that is not supported yet.
    """
    if not head:
        raise CaptureError(f"{path}: empty file (0 bytes), not a capture", "was the capture still being written?")
    for magic, (name, remedy) in _REFUSED.items():
        if head.startswith(magic):
            raise CaptureError(f"{path}: {name}, which is not supported yet", f"make it a classic pcap: {remedy}")
    known = _MAGIC.get(head[:4])
    if known is None:
        raise CaptureError(f"{path}: not a capture: it begins with {head[:4].hex(' ')}", "give a classic pcap file")
    if len(head) < FILE_HEADER:
        raise CaptureError(
            f"{path}: cut inside the file header: {len(head)} of {FILE_HEADER} bytes", "copy the file again"
        )
    byte_order, resolution = known
    order = "<" if byte_order == "little" else ">"
    major, minor, snaplen, network = struct.unpack(order + "4xHH8xII", head[:FILE_HEADER])
    if major != 2 or minor < 3:
        raise CaptureError(f"{path}: pcap version {major}.{minor} is not supported yet", "only 2.3 and 2.4 are read")
    link = network & 0x03FF_FFFF  # the upper bits tell the length of the frame check sequence
    name = _LINK_TYPES.get(link, str(link))
    return CaptureFile(path, "pcap", byte_order, resolution, link, name, snaplen, size)


def open_capture(path: str | Path) -> CaptureFile:
    """Reads the file header of a capture.

    Raises:
        CaptureError: as `parse_header`, or if the file cannot be read.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            return parse_header(path, file.read(FILE_HEADER), path.stat().st_size)
    except OSError as error:
        raise CaptureError(f"{path}: cannot be read: {error.strerror}", "check the path and its permissions") from error
