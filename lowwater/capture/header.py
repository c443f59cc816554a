"""The first bytes of a capture: what it is, or why it is refused.

Before the reader: everything that is no classic pcap stops here, by name.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from lowwater.capture.compression import compression_of, unpack_head
from lowwater.errors import CaptureError

FILE_HEADER = 24
RECORD_HEADER = 16
ETHERNET, LINUX_SLL, LINUX_SLL2, IEEE802_11, RADIOTAP = 1, 113, 276, 105, 127
LOOPBACKS, RAW_IP, PPP = (0, 108), (12, 14, 101, 228, 229), (9, 50)
DECODED = frozenset((ETHERNET, LINUX_SLL, LINUX_SLL2, IEEE802_11, RADIOTAP, *LOOPBACKS, *RAW_IP, *PPP))
"""Link types whose records are decoded (`links` says how)."""

_MAGIC = {
    b"\xd4\xc3\xb2\xa1": ("little", "us"),
    b"\xa1\xb2\xc3\xd4": ("big", "us"),
    b"\x4d\x3c\xb2\xa1": ("little", "ns"),
    b"\xa1\xb2\x3c\x4d": ("big", "ns"),
}
_REFUSED = {
    b"\x0a\x0d\x0d\x0a": ("a pcapng capture", "editcap -F pcap IN OUT"),
    b"BZh": ("a bzip2 file", "bunzip2 it first"),
    b"\x02\x21\x4c\x18": ("an lz4 file of the legacy format", "lz4 -d it first"),
    b"snoop\0": ("a snoop capture", "editcap -F pcap IN OUT"),
    b"\x34\xcd\xb2\xa1": ("a modified (Kuznetzov) pcap capture", "editcap -F pcap IN OUT"),
    b"\xa1\xb2\xcd\x34": ("a modified (Kuznetzov) pcap capture", "editcap -F pcap IN OUT"),
}
_LINK_TYPES = {
    0: "NULL", 1: "EN10MB", 9: "PPP", 12: "RAW12", 14: "RAW14", 50: "PPP_SERIAL", 101: "RAW", 105: "80211", 108: "LOOP",
    113: "LINUX_SLL", 127: "RADIOTAP", 228: "IPV4", 229: "IPV6", 276: "LINUX_SLL2",
}  # fmt: skip

LINK_NUMBERS = {name: number for number, name in _LINK_TYPES.items()}
"""Link types by the names that they have here."""

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
        bytes: size of the file, as it is stored.
        compression: `gzip`, `zstd`, `xz` or `lz4`; empty for a plain file.
    """

    path: Path
    format: str
    byte_order: str
    resolution: str
    link_number: int
    link_type: str
    snaplen: int
    bytes: int
    compression: str = ""

    @property
    def decoded(self) -> bool:
        """Whether records of this link type are decoded beyond timestamp and lengths."""
        return self.link_number in DECODED

    @property
    def limit(self) -> int:
        """The largest captured length that is believed: the snaplen, within 256 KiB and 16 MiB."""
        return max(_SMALLEST_LIMIT, min(self.snaplen, _LARGEST_LIMIT))


def parse_header(path: Path, head: bytes, size: int, compression: str = "", damage: str = "") -> CaptureFile:
    """Reads a capture's file header.

    Args:
        path: the file, for errors.
        head: its first 24 bytes, decompressed, or all of them where there are fewer.
        size: its size in bytes, as it is stored.
        compression: its name, or an empty string.
        damage: why no more could be decompressed, or an empty string.

    Raises:
        CaptureError: if it is empty, cut in the header, no capture, or a format that is not supported yet.
    """
    name = f"{path}, inside {compression}" if compression else str(path)
    if damage and len(head) < FILE_HEADER:
        raise CaptureError(
            f"{name}: cannot be decompressed: {damage}", "copy the file again, or decompress it by its own tool"
        )
    if not head:
        raise CaptureError(f"{name}: empty file (0 bytes), not a capture", "was the capture still being written?")
    if inner := compression_of(head):
        raise CaptureError(f"{name}: compressed again, as {inner}, which is not supported", "decompress it once")
    for magic, (kind, remedy) in _REFUSED.items():
        if head.startswith(magic):
            raise CaptureError(f"{name}: {kind}, which is not supported yet", f"make it a classic pcap: {remedy}")
    known = _MAGIC.get(head[:4])
    if known is None:
        raise CaptureError(f"{name}: not a capture: it begins with {head[:4].hex(' ')}", "give a classic pcap file")
    if len(head) < FILE_HEADER:
        raise CaptureError(
            f"{name}: cut inside the file header: {len(head)} of {FILE_HEADER} bytes", "copy the file again"
        )
    byte_order, resolution = known
    order = "<" if byte_order == "little" else ">"
    major, minor, snaplen, network = struct.unpack(order + "4xHH8xII", head[:FILE_HEADER])
    if major != 2 or minor < 3:
        raise CaptureError(f"{name}: pcap version {major}.{minor} is not supported yet", "only 2.3 and 2.4 are read")
    link = network & 0x03FF_FFFF  # the upper bits tell the length of the frame check sequence
    link_type = _LINK_TYPES.get(link, str(link))
    return CaptureFile(path, "pcap", byte_order, resolution, link, link_type, snaplen, size, compression)


def open_capture(path: str | Path) -> CaptureFile:
    """Reads the file header of a capture.

    Raises:
        CaptureError: as `parse_header`, or if the file cannot be read.
    """
    path = Path(path)
    try:
        with path.open("rb", buffering=0) as file:
            head = file.read(FILE_HEADER)
            compression, damage = compression_of(head), ""
            if compression:
                head, damage = unpack_head(file, FILE_HEADER)
            return parse_header(path, head, path.stat().st_size, compression, damage)
    except OSError as error:
        raise CaptureError(f"{path}: cannot be read: {error.strerror}", "check the path and its permissions") from error
