"""Hashes of packets, by which copies of a packet are found (SEMANTICS D1).

It runs after decoding, for links that store the hashes. A hash is of the bytes above the link layer, so that a copy
with another VLAN tag or other MAC addresses has the same one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.capture.headers.fields import big64, byte, u16
from lowwater.capture.headers.links import IPV4, LINK_TYPES, LinkLayer
from lowwater.capture.headers.packet import ARP, IP6_BYTES, UNKNOWN, above4, above6, is_header, length4, length6
from lowwater.capture.inlining import kernel, part
from lowwater.capture.interpretation import announce

CONTENT, PACKET = "content", "packet"
"""Bytes of a packet that are compared: without TTL, hop limit and checksums, or all of them."""

_FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_TURN, _MORE = np.uint64(29), np.uint64(32)
_TCP, _UDP, _ICMP, _ICMPV6, _SCTP = 6, 17, 1, 58, 132

read_link = UNKNOWN.read
"""Placeholder for the reader of the link layer; each kernel replaces it with its own."""


@part
def _absorb(first: Any, second: Any, word: Any) -> tuple[Any, Any]:
    """Mixes 8 bytes into the two halves of a hash. Each half is a permutation of its state, for every word."""
    first = (first ^ word) * _FIRST
    second = (second + word) * _SECOND
    return first ^ (first >> _TURN), second ^ (second >> _MORE)


@part
def _range(buffer: Any, at: int, end: int, first: Any, second: Any) -> tuple[Any, Any]:
    """Mixes the bytes of [at, end) into a hash: whole words, then the rest as one word."""
    while at + 8 <= end:
        first, second = _absorb(first, second, np.uint64(big64(buffer, at)))
        at += 8
    if at < end:
        word = 0
        while at < end:
            word = word << 8 | byte(buffer, at)
            at += 1
        first, second = _absorb(first, second, np.uint64(word))
    return first, second


@part
def _checksum(protocol: int, version: int) -> tuple[int, int]:
    """Returns the place of the checksum in a transport header, and its length; (0, 0) for a protocol without."""
    if protocol == _TCP:
        return 16, 2
    if protocol == _UDP:
        return 6, 2
    if (protocol == _ICMP and version == 4) or (protocol == _ICMPV6 and version == 6):
        return 2, 2
    if protocol == _SCTP:
        return 8, 4
    return 0, 0


@part
def _without(buffer: Any, at: int, end: int, place: int, length: int, first: Any, second: Any) -> tuple[int, Any, Any]:
    """Mixes the bytes of [at, place) into a hash, and skips `length` bytes; returns the index behind them first."""
    first, second = _range(buffer, at, min(place, end), first, second)
    return min(place + length, end), first, second


@cache
def _kernel(layer: LinkLayer) -> Callable[..., None]:
    def hashes(buffer: Any, begins: Any, captured: Any, wires: Any, content: bool, high: Any, low: Any) -> None:
        for row in range(len(begins)):
            begin = begins[row]
            stop = begin + captured[row]
            _, _, _, _, network, at, end = read_link(buffer, begin, stop)
            if network < 0 or at > end:  # no link header that names what follows: the whole frame is compared
                network, at, end = -1, begin, stop
            first, second = _absorb(_SECOND, _FIRST, np.uint64(network + 1))
            wire = wires[row] - (at - begin)
            if is_header(buffer, network, at, end):
                version, behind = 4 if network == IPV4 else 6, begin + max(wires[row], captured[row])
                said = u16(buffer, at + 2 if network == IPV4 else at + 4, end)
                if network == IPV4:
                    length = length4(buffer, at, end, behind)
                    protocol, offset, _, above, end, _ = above4(buffer, at, end, behind)
                else:
                    length = length6(buffer, at, end, behind)
                    protocol, offset, _, above, end, _ = above6(buffer, at, end, behind)
                by_frame = length == behind - at and (version == 4 or length > IP6_BYTES)
                wire = wire if said < 0 or length < 0 or (said == 0 and by_frame) else 0  # else what IP says
                if content:
                    place, size = _checksum(protocol, version)
                    if version == 4:
                        at, first, second = _without(buffer, at, end, at + 8, 1, first, second)
                        at, first, second = _without(buffer, at, end, at + 1, 2, first, second)
                    else:
                        at, first, second = _without(buffer, at, end, at + 7, 1, first, second)
                    if size > 0 and offset <= 0 and above >= at:
                        at, first, second = _without(buffer, at, end, above + place, size, first, second)
            elif network == ARP and at + 8 <= end:  # what follows the message is padding of the link layer
                length = 8 + 2 * (byte(buffer, at + 4) + byte(buffer, at + 5))
                end, wire = min(end, at + length), 0
            first, second = _range(buffer, at, end, first, second)
            first, second = _absorb(first, second, np.uint64(end - at))
            first, second = _absorb(first, second, np.uint64(wire))
            high[row], low[row] = first, second

    # As in `headers.packet`: numba does not find cached kernels whose closure holds a function.
    bound = FunctionType(hashes.__code__, {**globals(), "read_link": layer.read}, "hashes", None, hashes.__closure__)
    bound.__qualname__ = f"packet_hashes_{layer.name}"
    announce(bound, f"compare packets of {layer.name}")
    return kernel(bound)


def packet_hashes(
    buffer: NDArray[np.uint8], begins: NDArray[np.int64], batch: pa.RecordBatch, link: int, compared: str
) -> tuple[pa.Int64Array, pa.Int64Array]:
    """Computes the 128-bit hash of every packet. Returns the upper and the lower 64 bits of n hashes, as signed words,
    without NULL.

    Args:
        begins: shape (n), index of the frames in the buffer.
        batch: the decoded frames, n rows with `len` and `caplen`.
        compared: `CONTENT` or `PACKET`.
    """
    lengths = (batch.column(name).to_numpy().astype(np.int64) for name in ("caplen", "len"))
    halves = np.empty((2, batch.num_rows), np.uint64)
    _kernel(LINK_TYPES.get(link, UNKNOWN))(buffer, begins, *lengths, compared == CONTENT, halves[0], halves[1])
    return pa.array(halves[0].view(np.int64)), pa.array(halves[1].view(np.int64))
