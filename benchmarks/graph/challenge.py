"""The statistics of the graph challenge, computed from packets with numpy alone.

It shares nothing with the engines: it reads the bytes of a classic pcap of Ethernet, anonymises addresses with
Crypto-PAn bit by bit, and counts in sorted arrays. The formulas are those of the challenge (arXiv 2409.08115): of a
traffic matrix A of a window, valid packets 1ᵀA1, unique links 1ᵀ|A|₀1, sources and destinations with a row or column
that is not empty, and the largest elements of A, A1, |A|₀1, 1ᵀA and 1ᵀ|A|₀.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

WINDOW = 1 << 17
STATISTICS = (
    "valid_packets", "unique_links", "max_link_packets", "unique_sources", "max_source_packets", "max_fan_out",
    "unique_destinations", "max_destination_packets", "max_fan_in",
)  # fmt: skip
_HEADER, _RECORD = 24, struct.Struct("<IIII")
_IPV4, _VLAN = b"\x08\x00", b"\x81\x00"
_BROADCAST = 0xFFFFFFFF
Addresses = NDArray[np.int64]


def valid_packets(capture: Path) -> tuple[Addresses, Addresses]:
    """Source and destination of every packet of IPv4 between two hosts, in the order of the file."""
    content = capture.read_bytes()
    pairs = []
    at = _HEADER
    while at < len(content):
        length = _RECORD.unpack_from(content, at)[2]
        frame = at + _RECORD.size
        ip = frame + 14
        if content[ip - 2 : ip] == _VLAN:
            ip += 4
        if content[ip - 2 : ip] == _IPV4 and content[ip] >> 4 == 4 and ip + 20 <= frame + length:
            source, destination = struct.unpack_from(">II", content, ip + 12)
            if _BROADCAST not in (source, destination):
                pairs.append((source, destination))
        at = frame + length
    array = np.array(pairs, np.int64).reshape(-1, 2)
    return array[:, 0], array[:, 1]


def anonymised(addresses: Addresses, key: bytes) -> Addresses:
    """Maps IPv4 addresses with Crypto-PAn (AES-128), one bit after the other.

    Args:
        addresses: 32-bit numbers.
        key: 32 bytes: the key of AES, then the block that is encrypted for the padding.
    """
    cipher = Cipher(algorithms.AES(key[:16]), modes.ECB()).encryptor()
    pad = cipher.update(key[16:])
    head = int.from_bytes(pad[:4], "big")
    mapped = {}
    for address in np.unique(addresses).tolist():
        flips = 0
        for bit in range(32):
            keep = ((1 << bit) - 1) << (32 - bit)
            block = ((address & keep) | (head & ~keep & _BROADCAST)).to_bytes(4, "big") + pad[4:]
            flips = flips << 1 | cipher.update(block)[0] >> 7
        mapped[address] = address ^ flips
    return np.array([mapped[address] for address in addresses.tolist()], np.int64)


def statistics(sources: Addresses, destinations: Addresses, window: int = WINDOW) -> list[dict[str, int]]:
    """The statistics of every full window, in order.

    Args:
        sources: 32-bit number of each valid packet.
        destinations: as long as `sources`.
        window: valid packets of a window.
    """
    rows = []
    for begin in range(0, len(sources) - window + 1, window):
        part = slice(begin, begin + window)
        links, packets = np.unique(sources[part] << 32 | destinations[part], return_counts=True)
        _, of_source, out = np.unique(links >> 32, return_inverse=True, return_counts=True)
        _, of_destination, into = np.unique(links & _BROADCAST, return_inverse=True, return_counts=True)
        sent, received = np.bincount(of_source, packets), np.bincount(of_destination, packets)
        values = (packets.sum(), len(links), packets.max(), len(out), sent.max(), out.max())
        values = (*values, len(into), received.max(), into.max())
        rows.append({name: int(value) for name, value in zip(STATISTICS, values, strict=True)})
    return rows
