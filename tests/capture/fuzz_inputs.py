"""Inputs of the fuzzers of captures: seeds from the tests' own makers, and what damages them."""

from __future__ import annotations

import bz2
import gzip
import lzma
import struct
from functools import cache
from random import Random

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tests import capturemaker as maker, hellomaker
from tests.capture.linkframes import LINKS
from tests.capture.tunnelframes import TUNNELS
from tests.pcapngmaker import OTHERS, Section

SECOND = 1_000_000_000
START = 1_600_000_000 * SECOND
LINK_TYPES = (*LINKS, 147)
_SMALL = (0, 1, 2, 4, 6, 16, 17, 24, 41, 44, 47, 58, 96, 127, 128, 255)
_NUMBERS = (*_SMALL, 1500, 0x0800, 0x86DD, 0x8100, 65535, 1 << 31, (1 << 32) - 1)


def packet(src: str, dest: str, protocol: int, payload: bytes) -> bytes:
    """An IP packet of the version of its addresses."""
    return (maker.ipv6 if ":" in src else maker.ipv4)(src, dest, protocol, payload)


def packets() -> list[bytes]:
    """IP packets, and what IP carries."""
    tcp = maker.tcp_header(1, 80)
    walked = maker.extension(60) + maker.extension(44)
    found = [
        packet("10.0.0.1", "10.0.0.2", 6, tcp),
        packet("10.0.0.1", "10.0.0.2", 17, maker.udp_header(53, 53, bytes(range(40)))),
        packet("10.0.0.1", "10.0.0.2", 1, bytes(16)),
        packet("2001:db8::1", "2001:db8::2", 6, tcp),
        packet("2001:db8::1", "2001:db8::2", 58, bytes([128, 0]) + bytes(10)),
        packet("2001:db8::1", "2001:db8::2", 0, walked + maker.fragment(6, 0, True) + tcp),
        packet("10.0.0.1", "10.0.0.2", 132, struct.pack("!HHII", 1, 2, 3, 4) + bytes(16)),
    ]
    for inner in (found[0], found[3]):
        found += [packet("10.0.0.1", "10.0.0.2", *tunnel.around(inner)) for tunnel in TUNNELS]
    return found


def frames() -> list[bytes]:
    """Frames of every link type that is decoded; each may stand under any of them."""
    found = [maker.arp(), *messages()]
    for packet in packets():
        kind = 0x0800 if packet[0] >> 4 == 4 else 0x86DD
        found += [
            *dict.fromkeys(made.around(packet, kind) for made in LINKS.values()),
            maker.ethernet(packet, kind, vlans=[5, 6]),
            maker.ethernet(maker.mpls(packet, [16, 17]), 0x8847),
            maker.ethernet(maker.pppoe(maker.ppp(packet)), 0x8864),
        ]
    return found


def messages() -> list[bytes]:
    """Frames of Ethernet with the beginnings of messages of applications."""
    clients = [hellomaker.browser("a.example"), hellomaker.script("b.example"), b"SSH-2.0-x\r\n", b"GET / HTTP/1.1\r\n"]
    chosen = hellomaker.record(hellomaker.server(0x1301, [hellomaker.alpn(b"h2")]))
    return [
        *(maker.tcp("10.0.0.1", "10.0.0.2", 1, 443, data=data) for data in (*clients, chosen)),
        maker.udp("10.0.0.1", "10.0.0.2", 1, 443, hellomaker.initial(b"", bytes(8), bytes(4), length=30)),
    ]


@cache
def files() -> list[bytes]:
    """Whole captures: formats, byte orders, precisions, link types, compressions."""
    pool = frames()
    found = []
    for number, link in enumerate(LINK_TYPES):
        records = [(START + n * SECOND // 3, pool[(number * 7 + n * 11) % len(pool)][:120]) for n in range(5)]
        order = ("little", "big")[number % 2]
        found.append(maker.pcap_bytes(records, order, number % 3 == 0, link))
    found += [pcapng(order, pool) for order in ("little", "big")]
    found += [found[-1] + found[-2], gzip.compress(found[-1])]
    found.append(maker.pcap_bytes([]))
    found.append(maker.pcap_bytes([(START + n, b"") for n in range(40)]))
    one = found[0]
    found += [gzip.compress(one), lzma.compress(one), pa.Codec("zstd").compress(one, asbytes=True), bz2.compress(one)]
    found += [gzip.compress(one) + gzip.compress(found[1])]
    found.append(maker.snoop_bytes((START + n * SECOND // 3, pool[n * 11][:120]) for n in range(6)))
    found.append(maker.snoop_bytes([(START + n * SECOND, pool[n][:60], 1500) for n in range(4)], padding=16))
    found.append(maker.erf_bytes((START + n * SECOND // 3, pool[n * 11][:120]) for n in range(6)))
    found.append(erf(pool))
    return found


def erf(pool: list[bytes]) -> bytes:
    """Records of every type of ERF, of several ports, with extension headers, and padding among them."""
    parts = []
    for number, kind in enumerate((1, 2, 48, *range(3, 26), 27, 22, 23, 28, 29)):
        stamp, packet = START + number * SECOND // 7, pool[number * 5][:90]
        parts.append(maker.erf_record(stamp, packet, kind, number % 5, extensions=number % 3))
    return b"".join(parts)


def pcapng(byte_order: str, pool: list[bytes]) -> bytes:
    """A section with interfaces of several link types and resolutions, and every kind of block."""
    section = Section(byte_order)
    parts = [section.header(), section.interface("one"), section.interface("two", 113, 96, 9, 5)]
    for number, kind in enumerate((*OTHERS, 77)):
        parts += [
            section.packet((START + number * SECOND) // 1000, pool[number * 5][:90]),
            section.block(kind, b"12345"),
        ]
        parts.append(section.packet(START + number, pool[number * 7][:90], 1, 1500, [(1, b"a comment")]))
    parts += [section.interface("", 101, 0, 0x83), section.simple(pool[1][:60])]
    parts += [section.old_packet((START + number) >> 20, pool[number][:60], 2) for number in range(4)]
    return b"".join(parts)


def damaged(random: Random, seeds: list[bytes]) -> bytes:
    """A file: a seed, or parts of several, with a few things wrong."""
    data = bytearray(random.choice(seeds))
    for _ in range(random.choice((0, 1, 1, 2, 3, 8))):
        at = random.randrange(len(data) + 1)
        kind = random.randrange(7)
        if kind == 0 and data:
            data[at % len(data)] ^= 1 << random.randrange(8)
        elif kind == 1:
            size = random.choice((1, 2, 4, 4, 8))
            order = random.choice(("little", "big"))
            number = random.choice(_NUMBERS) + random.randint(-1, 1)
            data[at : at + size] = (number % (1 << 8 * size)).to_bytes(size, order)
        elif kind == 2:
            del data[at : at + random.choice((1, 4, 16, 100))]
        elif kind == 3:
            data[at:at] = random.randbytes(random.choice((1, 3, 4, 16, 60)))
        elif kind == 4:
            del data[at:]
        elif kind == 5:
            other = random.choice(seeds)
            begin = random.randrange(len(other) + 1)
            data[at:at] = other[begin : begin + random.choice((24, 60, 400))]
        else:
            begin = random.randrange(len(data) + 1)
            data[at:at] = data[begin : begin + random.choice((16, 32, 90))]
    if random.random() < 0.1:  # captures that are joined in any order
        data = bytearray(b"".join(random.choice((data, *seeds)) for _ in range(random.randint(2, 4))))
    return bytes(data)


def damaged_frames(
    seed: int, count: int, pool: list[bytes], gap: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Many frames at once."""
    random = np.random.default_rng(seed)
    widest = max(map(len, pool))
    table = np.zeros((len(pool), widest), np.uint8)
    for row, frame in enumerate(pool):
        table[row, : len(frame)] = np.frombuffer(frame, np.uint8)
    chosen = random.integers(len(pool), size=count)
    rows = table[chosen]
    full = np.array([len(frame) for frame in pool])[chosen]
    for _ in range(4):
        hit = random.random(count) < 0.6
        at = (random.random(count) * full).astype(np.int64)
        value = np.where(
            random.random(count) < 0.5, random.integers(256, size=count), random.choice(np.array(_NUMBERS) % 256, count)
        )
        rows[hit, at[hit]] = value[hit]
    lengths = np.where(random.random(count) < 0.5, (random.random(count) * (full + 1)).astype(np.int64), full)
    buffer = np.zeros((count, widest + gap), np.uint8)
    buffer[:, gap : gap + widest] = rows
    begins = np.arange(count, dtype=np.int64) * (widest + gap) + gap
    return buffer.reshape(-1), begins, lengths
