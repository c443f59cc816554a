"""Prefix-preserving anonymisation of the addresses of a decoded batch.

It runs after decoding, and before addresses are hashed or stored. The scheme is Crypto-PAn (Xu, Fan, Ammar, Moon:
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
import os
import stat
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.errors import ConfigError
from lowwater.limits import ANONYMISED_ADDRESSES

KEY_BYTES = 32

_HINT = "make one: `openssl rand -hex 32 > KEY; chmod 600 KEY`"
_MOST = 1024  # bytes of a key file
_BLOCK = 16
_PIECE = 1 << 12  # addresses that are encrypted at a time: 8 MiB of blocks for IPv6
_GROUP_BIT = 1 << 40
_V4, _V6, _MAC = 32, 128, 48
Words = NDArray[np.uint64]


def read_key(path: str | Path) -> bytes:
    """Reads a key: 32 bytes, or 64 hexadecimal digits with white space around them.

    Raises:
        ConfigError: if the file cannot be read, holds no key, or is open to every user of the machine.
    """
    try:
        with open(path, "rb", opener=_open_nonblocking) as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(_MOST + 1) if stat.S_ISREG(mode) else b""
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"{path}: the key cannot be read: {cause}", _HINT) from None
    if mode & stat.S_IRWXO:
        raise ConfigError(f"{path}: the key is open to every user of this machine", f"chmod o= {path}")
    if len(content) == KEY_BYTES:
        return content
    try:
        key = bytes.fromhex(content.decode("ascii").strip())
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise ConfigError(f"{path}: no key: neither {KEY_BYTES} bytes nor {2 * KEY_BYTES} hexadecimal digits", _HINT)
    return key


def _open_nonblocking(path: str, flags: int) -> int:
    # Opening a FIFO would wait for a writer.
    return os.open(path, flags | os.O_NONBLOCK)


def key_digest(key: bytes) -> str:
    """Returns 16 bytes in hex that identify a key in the ledger; captures under another digest are stale."""
    return hmac.digest(key, b"lowwater: which key", "sha256")[:16].hex()


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
