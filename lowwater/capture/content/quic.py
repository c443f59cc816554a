"""Initial packets of QUIC: version, lengths of connection ids, and the ClientHello in it (RFC 9001, RFC 9369).

The keys of a client's first packets follow from the destination connection id, so everybody who sees such a packet can
decrypt it. The work for a datagram is bounded: its first packet, at most LONGEST_PACKET bytes, one derivation of keys,
one block of AES and one decryption. Datagrams are not put together: a ClientHello of several packets is cut at its
first gap. Packets of servers, and of clients after the answer of a server, have other keys: their names are NULL.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from lowwater.capture.content.hello import CLIENT, VERSION_1, VERSION_2, hello_columns

LONGEST_PACKET = 1 << 14
LEAST_DATAGRAM = 1200
"""Bytes of a datagram with an Initial packet of a client (RFC 9000, section 14.1); smaller ones are not decrypted."""

LEAST_ID = 8
"""Bytes of the destination connection id that a client chooses (RFC 9000, section 7.2)."""

MOST_ID = 20

_SALTS = {
    VERSION_1: bytes.fromhex("38762cf7f55934b34d179ae6a4c80cadccbb7f0a"),
    VERSION_2: bytes.fromhex("0dede3def700a6db819381be6e269dcbf9bd2ed9"),
}
_LABELS = {VERSION_1: b"quic ", VERSION_2: b"quicv2 "}
_NAMES = ("server_name", "alpn", "ja4")
_CLEAR = {"quic_version": pa.int64(), "quic_dcid_length": pa.int32(), "quic_scid_length": pa.int32()}
_SAMPLE = 16  # bytes of ciphertext that protect the header, from 4 bytes behind the begin of the packet number on
_PADDING, _PING, _ACK, _ACK_ECN, _CRYPTO = 0, 1, 2, 3, 6
_ZEROS = re.compile(rb"\x00+")


def quic_columns(payloads: list[bytes]) -> dict[str, pa.Array]:
    """Reads the Initial packets at the beginning of datagrams.

    Args:
        payloads: payloads of UDP datagrams that begin as `starts.begins_initial` says.

    Returns:
        Column -> a value for each payload.
    """
    rows: list[dict[str, int]] = []
    hellos: list[bytes] = []
    for payload in payloads:
        fields, at = _clear(payload)
        rows.append(fields)
        hello = _client_hello(payload, at) if at else b""
        hellos.append(hello if hello[:1] == bytes([CLIENT]) else b"")
    columns = {name: pa.array([row.get(name) for row in rows], kind) for name, kind in _CLEAR.items()}
    ends = np.cumsum([0, *map(len, hellos)])
    found = hello_columns(np.frombuffer(bytearray(b"".join(hellos)), np.uint8), ends[:-1], ends[1:], "q")
    return columns | {f"quic_{name}": found[name] for name in _NAMES}


def _clear(payload: bytes) -> tuple[dict[str, int], int]:
    """Returns the fields in the clear, and the index behind them; 0 if no ClientHello can be read."""
    fields = {"quic_version": int.from_bytes(payload[1:5], "big")}
    at = 5
    for name in ("quic_dcid_length", "quic_scid_length"):
        if at >= len(payload):
            return fields, 0
        if payload[at] > MOST_ID:
            return {}, 0
        fields[name] = payload[at]
        at += 1 + payload[at]
    whole = len(payload) >= LEAST_DATAGRAM and fields["quic_dcid_length"] >= LEAST_ID
    return fields, at if whole else 0


def _client_hello(payload: bytes, at: int) -> bytes:
    """Returns the beginning of the handshake stream in a packet whose token begins at an index."""
    token, at = _varint(payload, at)
    length, at = _varint(payload, at + token)
    if not 4 + _SAMPLE <= length <= LONGEST_PACKET or at + length > len(payload):
        return b""
    version, identity = int.from_bytes(payload[1:5], "big"), payload[6 : 6 + payload[5]]
    return _stream(_decrypt(payload[: at + length], at, identity, version))


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Returns an integer of variable length and the index behind it; if it is cut, an integer that is too large."""
    if at >= len(data):
        return 1 << 62, at
    width = 1 << (data[at] >> 6)
    if at + width > len(data):
        return 1 << 62, at
    return int.from_bytes(data[at : at + width], "big") & ((1 << (8 * width - 2)) - 1), at + width


def _expand(secret: bytes, label: bytes, length: int) -> bytes:
    """HKDF-Expand-Label of TLS 1.3 for up to 32 bytes: one block of the digest."""
    label = b"tls13 " + label
    information = length.to_bytes(2, "big") + bytes([len(label)]) + label + b"\x00\x01"
    return hmac.digest(secret, information, hashlib.sha256)[:length]


def _decrypt(packet: bytes, at: int, identity: bytes, version: int) -> bytes:
    """Returns the frames of a client's packet whose number begins at an index; nothing if the keys do not fit."""
    # Most processes decrypt nothing, and need not load the library.
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    secret = _expand(hmac.digest(_SALTS[version], identity, hashlib.sha256), b"client in", 32)
    key, iv, mask_key = (
        _expand(secret, _LABELS[version] + name, length) for name, length in ((b"key", 16), (b"iv", 12), (b"hp", 16))
    )
    sample = packet[at + 4 : at + 4 + _SAMPLE]
    mask = Cipher(algorithms.AES(mask_key), modes.ECB()).encryptor().update(sample)
    first = packet[0] ^ mask[0] & 0x0F
    size = 1 + (first & 3)
    number = bytes(left ^ right for left, right in zip(packet[at : at + size], mask[1:], strict=False))
    header = bytes([first]) + packet[1:at] + number
    nonce = iv[: 12 - size] + bytes(left ^ right for left, right in zip(iv[12 - size :], number, strict=True))
    try:
        return AESGCM(key).decrypt(nonce, packet[at + size :], header)
    except InvalidTag:
        return b""


def _stream(frames: bytes) -> bytes:
    """Returns the beginning of the handshake stream, up to its first gap."""
    stream = b""
    for offset, data in sorted(_pieces(frames)):
        if offset > len(stream):
            break
        stream += data[len(stream) - offset :]
    return stream


def _pieces(frames: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields offset and bytes of every CRYPTO frame, up to a frame that no Initial packet has."""
    at = 0
    while at < len(frames):
        kind = frames[at]
        if kind == _PADDING:
            zeros = _ZEROS.match(frames, at)
            at = len(frames) if zeros is None else zeros.end()
        elif kind == _PING:
            at += 1
        elif kind in (_ACK, _ACK_ECN):
            at = _after_ack(frames, at + 1, kind == _ACK_ECN)
        elif kind == _CRYPTO:
            offset, at = _varint(frames, at + 1)
            length, at = _varint(frames, at)
            if at + length > len(frames):
                return
            yield offset, frames[at : at + length]
            at += length
        else:
            return


def _after_ack(frames: bytes, at: int, counted: bool) -> int:
    """Returns the index behind an ACK frame whose type ends at an index."""
    _, at = _varint(frames, at)
    _, at = _varint(frames, at)
    ranges, at = _varint(frames, at)
    # The first range, a gap and a range for each other one, and three counts: a byte or more each.
    for _ in range(min(1 + 2 * ranges + (3 if counted else 0), len(frames) - at)):
        _, at = _varint(frames, at)
    return at
