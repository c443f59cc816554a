"""Captures for the page of captures: one for each row of its tables of what is odd, and of what is refused."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
from collections.abc import Callable

from lowwater.instants import SECOND
from tests.capturemaker import pcap_bytes, snoop_bytes, tcp, udp
from tests.pcapngmaker import Section

BEGIN = 1_767_225_600
"""Second 0 of the captures, 2026-01-01T00:00:00Z, since the epoch."""

TEN_YEARS = 10 * 366 * 86_400
PACKETS = 60
FRAME = udp("10.0.0.1", "10.0.0.2", 1000, 53, bytes(20))
RECORD = 16 + len(FRAME)
ODD = 10
"""Number of the record that is odd."""

_NG = Section()


def _pcap(seconds: list[float]) -> bytes:
    return pcap_bytes([(round((BEGIN + second) * SECOND), FRAME) for second in seconds])


def _shifted(moved: Callable[[int], float]) -> bytes:
    """Each second and what is added to it."""
    return _pcap([number + moved(number) for number in range(PACKETS)])


def _lengths(captured: int, wire: int) -> bytes:
    """The odd record has these lengths."""
    data = bytearray(_pcap(list(range(PACKETS))))
    struct.pack_into("<II", data, 24 + ODD * RECORD + 8, captured, wire)
    return bytes(data)


def _every_ten_seconds(number: int) -> float:
    """What a clock adds that goes back by 200 s behind the thirtieth record."""
    return 9 * number - 200 * (number >= 30)


def _sub_second(microseconds: int) -> bytes:
    """The odd record has this sub-second."""
    data = bytearray(_pcap(list(range(PACKETS))))
    struct.pack_into("<I", data, 24 + ODD * RECORD + 4, microseconds)
    return bytes(data)


def _put(what: bytes) -> bytes:
    """The bytes stand before the odd record."""
    data, at = _pcap(list(range(PACKETS))), 24 + ODD * RECORD
    return data[:at] + what + data[at:]


def _block(number: int) -> bytes:
    return _NG.packet((BEGIN + number) * 1_000_000, FRAME)


def _pcapng(odd: bytes, before: bytes = b"") -> bytes:
    """A block stands in the place of the odd one; `before` is behind the only interface description."""
    head = _NG.header() + _NG.interface("eth0") + before
    return head + b"".join(odd if number == ODD else _block(number) for number in range(PACKETS))


def _of_other_interface(offset: int) -> bytes:
    """The odd packet is of a declaration of the same interface whose clock has an offset, in seconds."""
    again = _NG.interface("eth0", offset=offset)
    return _pcapng(_NG.packet(ODD * 1_000_000, FRAME, interface=1), again)


def _captured() -> bytes:
    block = bytearray(_block(ODD))
    struct.pack_into("<I", block, 20, 4000)
    return bytes(block)


WHOLE = _pcap(list(range(PACKETS)))

CASES: dict[str, bytes] = {
    "as it should be": WHOLE,
    "a file header and no packets: a quiet link": _pcap([]),
    "a pcapng that declares no interface: one without a name": _NG.header(),
    "the last record is cut: covers what it holds": WHOLE[:-7],
    "bytes that are no record at the end: as cut": WHOLE + b"\xee" * 500,
    "bytes that are no record after the tenth: a record lost at most": _put(b"\xee" * 500),
    "a captured length of 2 GiB": _lengths(0x7FFFFFFF, len(FRAME)),
    "a captured length above the wire's": _lengths(len(FRAME), 40),
    "a length on the wire of 4 GiB": _lengths(len(FRAME), 0xFFFFFFFF),
    "records out of order by less than the skew": _shifted(lambda number: 0.9 * (number % 2 == 0)),
    "one record ten years ahead": _shifted(lambda number: TEN_YEARS * (number == ODD)),
    "one record ten years behind": _shifted(lambda number: -TEN_YEARS * (number == ODD)),
    "17 records ten years ahead: the clock is believed": _shifted(lambda number: TEN_YEARS * (17 <= number < 34)),
    "from the tenth record on ten years ahead": _shifted(lambda number: TEN_YEARS * (number >= ODD - 1)),
    "from the tenth record on ten years behind": _shifted(lambda number: -TEN_YEARS * (number >= ODD - 1)),
    "the first record ten years ahead: remove it": _shifted(lambda number: TEN_YEARS * (number == 0)),
    "48 zero bytes after the tenth record": _put(bytes(48)),
    "a packet each 10 s, then the clock goes back by 200 s": _shifted(_every_ten_seconds),
    "the last 30 times are zero": _shifted(lambda number: -(BEGIN + number) * (number >= 30)),
    "a sub-second of 1.5 s: carried over": _sub_second(1_500_000),
    "a sub-second of 400 s": _sub_second(400_000_000),
    "a time before 1970": _of_other_interface(-TEN_YEARS),
    "a time after 2116": _of_other_interface((1 << 62) // SECOND),
    "a simple packet block": _pcapng(_NG.simple(FRAME)),
    "a packet of an undeclared interface": _pcapng(_NG.packet(ODD, FRAME, interface=1)),
    "a captured length above the block's": _pcapng(_captured()),
    "two lengths of a block that disagree": _pcapng(_block(ODD)[:-4] + bytes(4)),
    "gzip that ends early": gzip.compress(WHOLE[:-7], mtime=0)[:-8],
}
"""By the first cell of the row, the capture."""


def _tar(data: bytes) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as file:
        entry = tarfile.TarInfo("main1.pcap")
        entry.size = len(data)
        file.addfile(entry, io.BytesIO(data))
    return made.getvalue()


REFUSED: dict[str, bytes] = {
    "0 bytes": b"",
    "cut in its first 24 bytes": WHOLE[:20],
    "text": b"text that is no capture at all",
    "snoop of FDDI": snoop_bytes([], 8),
    "snoop, version 3": snoop_bytes([], version=3),
    "Network Monitor 2": b"GMBU" + bytes(40),
    "Network Monitor 1": b"RTSS" + bytes(40),
    "bzip2": b"BZh91AY&SY" + bytes(40),
    "tar in gzip": gzip.compress(_tar(WHOLE)),
    "zip": b"PK\x03\x04" + bytes(40),
    "7z": b"7z\xbc\xaf\x27\x1c" + bytes(40),
    "rar": b"Rar!\x1a\x07" + bytes(40),
    "lz4, legacy": b"\x02\x21\x4c\x18" + bytes(40),
    "gzip in gzip": gzip.compress(gzip.compress(WHOLE)),
    "gzip, damaged at once": gzip.compress(WHOLE)[:10] + b"\xee" * 40,
    "pcap 9.4": pcap_bytes([], version=(9, 4)),
    "pcapng 2.0": _NG.block(0x0A0D0D0A, _NG.pack("IHHq", 0x1A2B3C4D, 2, 0, -1)),
    "pcapng without a byte order": _NG.block(0x0A0D0D0A, bytes(16)),
}


def two_interfaces() -> bytes:
    """The capture of the examples: two interfaces, a simple packet block, statistics."""
    web = tcp("2001:db8::1", "2001:db8::2", 50_000, 443)
    parts = [
        _NG.header() + _NG.interface("eth0", snaplen=96) + _NG.interface("eth1", snaplen=96),
        _block(0),
        _NG.packet((BEGIN + 1) * 1_000_000, web, interface=1, wire=1514),
        _NG.simple(FRAME),
        _NG.block(5, bytes(12)),
        _NG.packet(BEGIN * 1_000_000 + 250_000, FRAME),
    ]
    return b"".join(parts)
