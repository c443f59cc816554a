"""Stored content: the columns that the options of a link add to decoded batches, and the anonymisation of addresses.

It runs after decoding, in the reader and in `reader.read_chunk`. Bytes of frames are stored so that `export` can write
them as a capture with a shorter snaplen; digests of their first bytes choose packets for sampling (SEMANTICS O5).
`applications` extracts fields of applications.

Anonymisation comes before addresses are hashed or stored. The scheme is Crypto-PAn (Xu, Fan, Ammar, Moon:
Prefix-preserving IP address anonymization, ICNP 2002) with AES-128. Two addresses that share exactly k leading bits
share exactly k leading bits afterwards. The scheme hides identities. An attacker who injects packets or knows some
addresses learns the prefixes of others. Times, ports and lengths stay as they are.

Every IP address is mapped, including multicast, broadcast, loopback and 0.0.0.0, as in Crypto-PAn, nfanon and
cryptopANT: an exception would map two addresses to one. IPv4 and IPv6 are separate, so the result of
`::ffff:10.0.0.1` says nothing of the result of 10.0.0.1. An Ethernet address is mapped over 48 bits with a derived key.
Its group bit stays, so multicast frames are still visible; vendors and the broadcast address are not.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.capture.content.applications import application_fields
from lowwater.capture.content.packet_hashes import packet_hashes
from lowwater.capture.content.retention import EVERYTHING, KEY_BYTES, NOTHING, ContentOptions
from lowwater.capture.digests import heads
from lowwater.capture.formats.capture_file import RECORD_HEADER
from lowwater.capture.headers.fields import big64, put_big64
from lowwater.capture.headers.packet import WHOLE, shape_of
from lowwater.capture.inlining import kernel
from lowwater.catalog.schemas import BATCH, FRAME, HEAD, PACKET_HASH
from lowwater.errors import ConfigError
from lowwater.limits import ANONYMISED_ADDRESSES

_BLOCK = 16
_PIECE = 1 << 12  # addresses that are encrypted at a time: 8 MiB of blocks for IPv6
_GROUP_BIT = 1 << 40
_V4, _V6, _MAC = 32, 128, 48
Words = NDArray[np.uint64]


class Anonymiser:
    """Maps the addresses of batches by one key; for one thread at a time.

    Args:
        key: 32 bytes: an AES-128 key, then the seed of the padding, as in the authors' implementation.
        cache_size: most addresses of every kind in the cache; bounds the memory and does not change results.
    """

    def __init__(self, key: bytes, cache_size: int = ANONYMISED_ADDRESSES) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"a key has {KEY_BYTES} bytes, not {len(key)}")
        self._keys = {_V4: key, _V6: key, _MAC: hmac.digest(key, b"lowwater: Ethernet addresses", "sha256")}
        self._cache_size = cache_size
        self._cache: dict[int, dict[tuple[int, int], tuple[int, int]]] = {_V4: {}, _V6: {}, _MAC: {}}

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Replaces every IP and Ethernet address of a batch.

        Args:
            batch: n rows. IP addresses are column pairs `<name>_hi`, `<name>_lo` with `ipversion`, `inner_ipversion` or
                `arp_ipversion`; Ethernet addresses are the columns `...MAC`. Each of them may be missing.
        """
        columns = {name: batch.column(name) for name in batch.schema.names}
        for name in batch.schema.names:
            prefix, is_address, _ = name.partition("srcIP_hi")
            if is_address:
                for address in ("srcIP", "destIP"):
                    columns |= self._addresses(batch, prefix + address, f"{prefix}ipversion")
            elif name.endswith("MAC"):
                columns[name] = self._ethernet(columns[name])
        return pa.RecordBatch.from_arrays(list(columns.values()), schema=batch.schema)

    def v4(self, addresses: NDArray[np.int64]) -> NDArray[np.int64]:
        """Maps IPv4 addresses, shape (n), 32-bit numbers."""
        high, _ = self._distinct(addresses.astype(np.uint64) << np.uint64(32), None, _V4)
        return (high >> np.uint64(32)).astype(np.int64)

    def v6(self, high: NDArray[np.int64], low: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Maps IPv6 addresses, shape (n), as two signed 64-bit words."""
        mapped_high, mapped_low = self._distinct(high.view(np.uint64), low.view(np.uint64), _V6)
        return mapped_high.view(np.int64), mapped_low.view(np.int64)

    def mac(self, addresses: NDArray[np.int64]) -> NDArray[np.int64]:
        """Maps Ethernet addresses, shape (n), 48-bit numbers."""
        high, _ = self._distinct(addresses.astype(np.uint64) << np.uint64(16), None, _MAC)
        mapped = (high >> np.uint64(16)).astype(np.int64)
        return mapped & ~_GROUP_BIT | addresses & _GROUP_BIT

    def _addresses(self, batch: pa.RecordBatch, name: str, version: str) -> dict[str, pa.Array]:
        columns = [batch.column(f"{name}_{word}") for word in ("hi", "lo")]
        high, low = (column.fill_null(0).to_numpy(False).copy() for column in columns)
        there = columns[1].is_valid().to_numpy(False)
        versions = batch.column(version).fill_null(0).to_numpy(False)
        four, six = there & (versions == 4), there & (versions == 6)
        low[four] = self.v4(low[four])
        high[six], low[six] = self.v6(high[six], low[six])
        arrays = [pa.array(words, pa.int64(), mask=~(four | six)) for words in (high, low)]
        return {f"{name}_hi": arrays[0], f"{name}_lo": arrays[1]}

    def _ethernet(self, column: pa.Array) -> pa.Array:
        absent = column.is_null().to_numpy(False)
        addresses = column.fill_null(0).to_numpy(False)
        return pa.array(self.mac(addresses), pa.int64(), mask=absent)

    def _distinct(self, high: Words, low: Words | None, bits: int) -> tuple[Words, Words]:
        """Maps every distinct address once, or takes it from the cache."""
        if not len(high):
            return high, high
        if low is None:
            encoded = pa.array(high, pa.uint64()).dictionary_encode()
            highs = encoded.dictionary.to_numpy()
            lows = np.zeros_like(highs)
        else:
            pairs = pa.py_buffer(np.stack([high, low], axis=1))
            encoded = pa.Array.from_buffers(pa.binary(_BLOCK), len(high), [None, pairs]).dictionary_encode()
            highs, lows = (
                np.frombuffer(encoded.dictionary.buffers()[1], np.uint64).reshape(-1, 2)[: len(encoded.dictionary)].T
            )
        cache = self._cache[bits]
        keys = list(zip(highs.tolist(), lows.tolist(), strict=True))
        new = [index for index, key in enumerate(keys) if key not in cache]
        mapped = [words.tolist() for words in _mapped(self._keys[bits], highs[new], lows[new], bits)]
        results = {keys[index]: pair for index, pair in zip(new, zip(*mapped, strict=True), strict=True)}
        values = np.array([results.get(key) or cache[key] for key in keys], np.uint64)[encoded.indices.to_numpy()]
        if len(cache) + len(results) > self._cache_size:
            cache.clear()
            results = dict(list(results.items())[: self._cache_size])
        cache |= results
        return values[:, 0], values[:, 1]


@cache
def _masks(bits: int) -> tuple[Words, Words]:
    """Returns, for every k below `bits`, the two words of the mask of the first k of 128 bits."""
    masks = [((1 << k) - 1) << (128 - k) for k in range(bits)]
    high = np.array([mask >> 64 for mask in masks], np.uint64)
    return high, np.array([mask & ((1 << 64) - 1) for mask in masks], np.uint64)


def _mapped(key: bytes, highs: Words, lows: Words, bits: int) -> tuple[Words, Words]:
    """Maps addresses whose `bits` stand at the left of 128 bits.

    The block for bit k holds the k bits before it, then the padding. Bit k is inverted if the first bit of the
    encrypted block is set.
    """
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes  # few processes need it

    # ECB is right here: the blocks are inputs of a pseudorandom function, not a text.
    cipher = Cipher(algorithms.AES(key[:_BLOCK]), modes.ECB())
    pad = np.frombuffer(cipher.encryptor().update(key[_BLOCK:]), ">u8").astype(np.uint64)
    inverted = np.zeros((len(highs), _BLOCK), np.uint8)
    for first in range(0, len(highs), _PIECE):
        piece = slice(first, first + _PIECE)
        blocks = np.empty((len(highs[piece]), bits, 2), ">u8")
        for word, (mask, addresses) in enumerate(zip(_masks(bits), (highs[piece], lows[piece]), strict=True)):
            blocks[:, :, word] = (addresses[:, None] & mask) | (pad[word] & ~mask)
        coded = np.frombuffer(cipher.encryptor().update(blocks.tobytes()), np.uint8).reshape(-1, bits, _BLOCK)
        inverted[piece, : bits // 8] = np.packbits(coded[:, :, 0] >> 7, axis=1)
    flips = inverted.view(">u8").astype(np.uint64)
    return highs ^ flips[:, 0], lows ^ flips[:, 1]


# Stored bytes of frames, and the payloads in them. It runs after decoding, for links that store bytes. Ranges of the
# buffer are copied into an Arrow binary column. Stored are the first bytes of every frame, so that `export` can write
# them as a capture with a shorter snaplen.

UNKNOWN_HEADERS = 64
"""Bytes taken for headers in a frame whose payload offset is unknown."""

_LARGEST = (1 << 31) - 1  # bytes of a binary array, whose offsets are 32 bits wide


@kernel
def _copy(source: Any, begins: Any, offsets: Any, target: Any) -> None:
    """Copies n ranges of `source`, which start at `begins`, to the places of `target` that `offsets` bound."""
    for row in range(len(begins)):
        begin, place = begins[row], offsets[row]
        length = offsets[row + 1] - place
        words = length & ~7
        for index in range(0, words, 8):
            put_big64(target, place + index, big64(source, begin + index))
        for index in range(words, length):
            target[place + index] = source[begin + index]


def frame_prefixes(
    buffer: NDArray[np.uint8], begins: NDArray[np.int64], batch: pa.RecordBatch, keep: int, largest: int = _LARGEST
) -> pa.ChunkedArray:
    """Copies the beginning of every frame: its headers and the first `keep` bytes of its payload.

    Args:
        begins: shape (n), index of the frames in the buffer.
        batch: the decoded frames, n rows with `caplen` and `payload_offset`. If the offset is NULL (ARP, protocols
            without a decoder), UNKNOWN_HEADERS bytes count as headers.
        keep: bytes of the payload, or EVERYTHING.
        largest: most bytes of a chunk; a longer frame gets a chunk of its own.

    Returns:
        n values of type binary, in one chunk unless they have more than `largest` bytes. A table splits its other
        columns alike (`pa.Table.from_batches([batch]).append_column("frame", frames).to_batches()`).
    """
    lengths = batch.column("caplen").to_numpy().astype(np.int64)
    if keep != EVERYTHING:
        headers = _numbers(batch.column("payload_offset"), UNKNOWN_HEADERS)
        lengths = np.minimum(lengths, np.maximum(headers, 0) + keep)
    return _gather(buffer, begins, lengths, None, largest)


def payload_of(batch: pa.RecordBatch) -> pa.BinaryArray:
    """Returns the stored part of every payload.

    Args:
        batch: n rows with `frame`, `payload_offset` and `payload_length` (NULL: to the end of the frame).

    Returns:
        n values: NULL if the offset or the frame is NULL, empty if nothing of the payload is stored.
    """
    frames = batch.column("frame")
    _, offsets, data = frames.buffers()
    ends = np.zeros(1, np.int32) if offsets is None else np.frombuffer(offsets, np.int32)
    ends = ends[frames.offset : frames.offset + len(frames) + 1].astype(np.int64)
    place = _numbers(batch.column("payload_offset"), 0)
    begins = np.minimum(ends[:-1] + np.maximum(place, 0), ends[1:])
    lengths = np.minimum(ends[1:] - begins, np.maximum(_numbers(batch.column("payload_length"), _LARGEST), 0))
    absent = batch.column("payload_offset").is_null().to_numpy(False) | frames.is_null().to_numpy(False)
    lengths[absent] = 0
    source = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    # A payload is no longer than its frame, so the payloads fit into one array as the frames do.
    return _gather(source, begins, lengths, absent, _LARGEST).chunk(0)


def _numbers(column: pa.Array, missing: int) -> NDArray[np.int64]:
    """Returns a column of integers, with `missing` for NULL."""
    numbers: NDArray[np.int64] = column.fill_null(missing).to_numpy(False).astype(np.int64)
    return numbers


def _gather(
    source: NDArray[np.uint8],
    begins: NDArray[np.int64],
    lengths: NDArray[np.int64],
    absent: NDArray[np.bool_] | None,
    largest: int,
) -> pa.ChunkedArray:
    """Copies n ranges of `source` into binary chunks, at least one."""
    ends = np.cumsum(lengths)
    chunks: list[pa.Array] = []
    first, before = 0, 0
    while first < len(lengths) or not chunks:
        last = max(int(np.searchsorted(ends, before + largest, "right")), min(first + 1, len(lengths)))
        offsets = np.zeros(last - first + 1, np.int32)
        offsets[1:] = ends[first:last] - before
        target = pa.allocate_buffer(int(offsets[-1]))
        _copy(source, begins[first:last], offsets, np.frombuffer(target, np.uint8))
        valid = None
        if absent is not None and absent.any():
            valid = pa.py_buffer(np.packbits(~absent[first:last], bitorder="little"))
        chunks.append(pa.Array.from_buffers(pa.binary(), last - first, [valid, pa.py_buffer(offsets), target]))
        first, before = last, int(ends[last - 1]) if last else 0
    return pa.chunked_array(chunks, pa.binary())


_ALWAYS_DECODED = "ipversion"
"""Column that a reader needs for its counts, whatever columns the caller asks for."""


class ContentBuilder:
    """Adds the stored content columns to the batches of a reader.
    Raises ConfigError if a column does not exist, or is named twice.

    Args:
        columns: names of the columns that the caller asks for; None for all.
    """

    def __init__(self, content: ContentOptions, columns: Sequence[str] | None = None) -> None:
        self._keeping = content
        self._schema = content.schema
        self._extra = self._schema.names[len(BATCH) :]
        self._columns = None if columns is None else _check_columns(columns, self._schema)
        self.shape = WHOLE
        if self._columns is not None and content == NOTHING:
            self.shape = shape_of(tuple(dict.fromkeys([*self._columns, _ALWAYS_DECODED])))
        self._pan = None if content.key is None else Anonymiser(content.key)

    def select(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the columns that the caller asks for, in that order."""
        return batch if self._columns is None else batch.select(self._columns)

    def batch(
        self, buffer: NDArray[np.uint8], offsets: NDArray[np.int64], batch: pa.RecordBatch, link: int
    ) -> pa.RecordBatch:
        """Adds the content columns to a decoded batch. Returns n rows of the options' schema; the batch itself if the
        link stores headers only.

        Args:
            offsets: shape (n), offsets of the records: a frame begins RECORD_HEADER bytes behind its offset.
            batch: n rows of the shape.
        """
        content, columns = self._keeping, {}
        if content == NOTHING:
            return batch
        begins = offsets + RECORD_HEADER
        if content.payload is not None:
            # The frames of one buffer always fit into one binary array.
            columns[FRAME] = frame_prefixes(buffer, begins, batch, content.payload).chunk(0)
        if content.sampling:
            columns[HEAD] = heads(buffer, begins, batch)
        if content.compared:
            hashes = packet_hashes(buffer, begins, batch, link, content.compared)
            columns |= dict(zip(PACKET_HASH, hashes, strict=True))
        if content.applications:
            columns |= application_fields(buffer, begins, batch, content.applications)
        if self._pan is not None:
            batch = self._pan.batch(batch)
        extra = [columns[name] for name in self._extra]
        return pa.RecordBatch.from_arrays([*batch.columns, *extra], schema=self._schema)


def _check_columns(columns: Sequence[str], schema: pa.Schema) -> list[str]:
    unknown = [name for name in columns if name not in schema.names]
    if unknown:
        similar = get_close_matches(unknown[0], schema.names, 3) or schema.names
        raise ConfigError(f"{unknown[0]!r} is not a stored column of a packet", f"columns are {', '.join(similar)}")
    if len(set(columns)) < len(columns):
        raise ConfigError(f"of the columns {', '.join(columns)} one is asked for twice", "name each once")
    return list(columns)
