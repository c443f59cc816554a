"""Hellos of TLS, and Initial packets of QUIC with one in them, made by hand."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

CLIENT, SERVER = 1, 2
SERVER_NAME, GROUPS, POINTS, SIGNATURES, ALPN, VERSIONS = 0, 10, 11, 13, 16, 43
TLS_12, TLS_13 = 0x0303, 0x0304
SALTS = {1: "38762cf7f55934b34d179ae6a4c80cadccbb7f0a", 0x6B3343CF: "0dede3def700a6db819381be6e269dcbf9bd2ed9"}

Extension = tuple[int, bytes]


def numbers(values: Sequence[int]) -> bytes:
    """16 bits each."""
    return b"".join(value.to_bytes(2, "big") for value in values)


def vector(body: bytes, width: int = 2) -> bytes:
    """A length and the bytes."""
    return len(body).to_bytes(width, "big") + body


def server_name(name: bytes) -> Extension:
    return SERVER_NAME, vector(b"\x00" + vector(name))


def alpn(*names: bytes) -> Extension:
    return ALPN, vector(b"".join(vector(name, 1) for name in names))


def groups(*values: int) -> Extension:
    return GROUPS, vector(numbers(values))


def points(*values: int) -> Extension:
    return POINTS, vector(bytes(values), 1)


def signatures(*values: int) -> Extension:
    return SIGNATURES, vector(numbers(values))


def versions(*values: int) -> Extension:
    return VERSIONS, vector(numbers(values), 1)


def client(
    ciphers: Sequence[int], extensions: Sequence[Extension] | None, version: int = TLS_12, session: bytes = bytes(32)
) -> bytes:
    """A ClientHello; without extensions it ends before their length."""
    body = numbers([version]) + bytes(range(32)) + vector(session, 1) + vector(numbers(ciphers)) + vector(b"\x00", 1)
    return _message(CLIENT, body, extensions)


def server(cipher: int, extensions: Sequence[Extension] | None, version: int = TLS_12) -> bytes:
    """A ServerHello."""
    body = numbers([version]) + bytes(range(32)) + vector(b"", 1) + numbers([cipher]) + b"\x00"
    return _message(SERVER, body, extensions)


def _message(kind: int, body: bytes, extensions: Sequence[Extension] | None) -> bytes:
    if extensions is not None:
        body += vector(b"".join(numbers([number]) + vector(data) for number, data in extensions))
    return bytes([kind]) + vector(body, 3)


def record(message: bytes, version: int = 0x0301, kind: int = 22) -> bytes:
    """A record of TLS."""
    return bytes([kind]) + numbers([version]) + vector(message)


def browser(name: str) -> bytes:
    """The ClientHello of a program that knows TLS 1.3 and HTTP/2, in its record."""
    return record(
        client(
            [0x3A3A, 0x1301, 0x1302, 0x1303, 0xC02B, 0xC02F],
            [
                (0x7A7A, b""),
                server_name(name.encode()),
                groups(0x2A2A, 29, 23),
                points(0),
                signatures(0x0403, 0x0804),
                alpn(b"h2", b"http/1.1"),
                versions(0x1A1A, TLS_13, TLS_12),
            ],
        )
    )


def script(name: str) -> bytes:
    """The ClientHello of a program that knows TLS 1.2, in its record."""
    return record(
        client(
            [0xC02F, 0xC030, 0x009C],
            [server_name(name.encode()), groups(23, 24), points(0), signatures(0x0401, 0x0501)],
        )
    )


def varint(value: int) -> bytes:
    """An integer of QUIC."""
    bits = next(bits for bits in range(4) if value < 1 << (8 * (1 << bits) - 2))
    width = 1 << bits
    return (value | bits << (8 * width - 2)).to_bytes(width, "big")


def crypto(data: bytes, offset: int = 0) -> bytes:
    """A CRYPTO frame."""
    return b"\x06" + varint(offset) + varint(len(data)) + data


def label(secret: bytes, name: str, length: int) -> bytes:
    """HKDF-Expand-Label of TLS 1.3."""
    named = b"tls13 " + name.encode()
    info = length.to_bytes(2, "big") + vector(named, 1) + vector(b"", 1)
    return hmac.new(secret, info + b"\x01", hashlib.sha256).digest()[:length]


def initial(
    frames: bytes,
    identity: bytes,
    source: bytes = b"",
    *,
    version: int = 1,
    number: int = 2,
    size: int = 4,
    token: bytes = b"",
    length: int = 1162,
    side: str = "client in",
) -> bytes:
    """An Initial packet, protected as RFC 9001 and RFC 9369 say."""
    frames = frames.ljust(length, b"\x00")
    first = (0xC0 if version == 1 else 0xD0) | size - 1
    header = bytes([first]) + version.to_bytes(4, "big") + vector(identity, 1) + vector(source, 1)
    header += varint(len(token)) + token + (0x4000 | len(frames) + size + 16).to_bytes(2, "big")
    header += number.to_bytes(size, "big")
    secret = label(hmac.new(bytes.fromhex(SALTS[version]), identity, hashlib.sha256).digest(), side, 32)
    prefix = "quic " if version == 1 else "quicv2 "
    key, iv, mask_key = (
        label(secret, f"{prefix}key", 16),
        label(secret, f"{prefix}iv", 12),
        label(secret, f"{prefix}hp", 16),
    )
    nonce = (int.from_bytes(iv, "big") ^ number).to_bytes(12, "big")
    sealed = AESGCM(key).encrypt(nonce, frames, header)
    sample = sealed[4 - size : 20 - size]
    mask = Cipher(algorithms.AES(mask_key), modes.ECB()).encryptor().update(sample)
    hidden = bytearray(header)
    hidden[0] ^= mask[0] & 15
    for at in range(size):
        hidden[len(header) - size + at] ^= mask[1 + at]
    return bytes(hidden) + sealed
