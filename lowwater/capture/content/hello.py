"""ClientHello and ServerHello: names, versions, and the fingerprints JA3, JA3S and JA4.

TLS over TCP (`tls`) and QUIC (`quic`) share this parser. A hello may be cut anywhere. An extension has a value where
all of its bytes are there; a fingerprint needs the whole hello. Lengths in the message never allocate: every slice
ends with the bytes that were captured.

GREASE (RFC 8701) is left out of versions and fingerprints. JA3 is the MD5 digest of the salesforce/ja3 text, JA4 is
FoxIO's specification of clients.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from hashlib import md5, sha256
from typing import Any, NamedTuple

from lowwater.capture.content.starts import SERVER, SHORTEST
from lowwater.capture.content.texts import text

GREASE = frozenset(0x0A0A + 0x1010 * step for step in range(16))

_SESSION = SHORTEST + 32  # the session id is behind the random
_SERVER_NAME, _GROUPS, _POINTS, _SIGNATURES, _ALPN, _VERSIONS = 0, 10, 11, 13, 16, 43
_JA4_VERSIONS = {0x0304: "13", 0x0303: "12", 0x0302: "11", 0x0301: "10", 0x0300: "s3", 0x0002: "s2"}
_NO_HASH = "0" * 12
_MOST = 99
_TWO = struct.Struct(">HH")


class Extensions(NamedTuple):
    """The extensions of a hello.

    Attributes:
        kinds: types in their order.
        bodies: type -> bytes, for those that are whole; the first one of a type.
        whole: whether all of them are whole, up to the end of the hello.
    """

    kinds: tuple[int, ...]
    bodies: dict[int, bytes]
    whole: bool


def hello_fields(message: bytes, transport: str) -> dict[str, Any]:
    """Parses a ClientHello or ServerHello.

    Args:
        message: handshake message, or the beginning of one; at least SHORTEST bytes.
        transport: first letter of a JA4: `t` for TCP, `q` for QUIC.

    Returns:
        Names without a prefix -> values: hello, hello_version, version, server_name, alpn, cipher, ja3, ja3s, ja4.
    """
    kind, version = message[0], int.from_bytes(message[4:6], "big")
    end = 4 + int.from_bytes(message[1:4], "big")
    whole, message = len(message) >= end, message[:end]
    fields: dict[str, Any] = {"hello": kind, "hello_version": version}
    at = _after(message, _SESSION, 1)
    if kind == SERVER:
        return fields | _server(message, at, version, whole)
    ciphers, at = _vector(message, at, 2)
    at = _after(message, at, 1)  # compression methods
    if ciphers is None:
        return fields
    extensions = _extensions(message, at, whole)
    found = _offers(extensions, version)
    if not extensions.whole:
        return fields | found
    listed = _numbers(ciphers)
    groups, points = extensions.bodies.get(_GROUPS, b"")[2:], extensions.bodies.get(_POINTS, b"")[1:]
    parts = (_decimal(listed), _decimal(extensions.kinds), _decimal(_numbers(groups)), _decimal(points))
    first = f"{transport}{_ja4_version(extensions, version)}{'d' if _SERVER_NAME in extensions.bodies else 'i'}"
    return fields | found | {"ja3": _md5(f"{version},{','.join(parts)}"), "ja4": first + _ja4(ciphers, extensions)}


def _server(message: bytes, at: int, version: int, whole: bool) -> dict[str, Any]:
    """Returns the choices of a server, and its JA3S."""
    if at + 2 > len(message):
        return {}
    cipher = int.from_bytes(message[at : at + 2], "big")
    extensions = _extensions(message, at + 3, whole)
    found: dict[str, Any] = {"cipher": cipher}
    chosen = extensions.bodies.get(_VERSIONS, b"")
    if len(chosen) == 2:
        found["version"] = int.from_bytes(chosen, "big")
    elif extensions.whole and _VERSIONS not in extensions.bodies:
        found["version"] = version
    names = _protocols(extensions)
    if names:
        found["alpn"] = text(names[0])
    if extensions.whole:
        found["ja3s"] = _md5(f"{version},{cipher},{_decimal(extensions.kinds)}")
    return found


def _offers(extensions: Extensions, version: int) -> dict[str, Any]:
    """Returns what the extensions of a client say."""
    found: dict[str, Any] = {}
    highest = _highest(extensions)
    if highest is not None:
        found["version"] = highest
    elif extensions.whole and _VERSIONS not in extensions.bodies:
        found["version"] = version
    body = extensions.bodies.get(_SERVER_NAME, b"")
    # The list has a length, its first entry a type (0: a name of a host) and a length.
    if len(body) > 5 and body[2] == 0:
        length = int.from_bytes(body[3:5], "big")
        if 0 < length <= len(body) - 5:
            found["server_name"] = text(body[5 : 5 + length])
    names = _protocols(extensions)
    if names:
        found["alpn"] = text(b",".join(names))
    return found


def _after(message: bytes, at: int, width: int) -> int:
    """Returns the index behind a vector; behind the message if it is cut."""
    if at + width > len(message):
        return len(message) + 1
    return at + width + int.from_bytes(message[at : at + width], "big")


def _vector(message: bytes, at: int, width: int) -> tuple[bytes | None, int]:
    """Returns the bytes of a vector, None if it is cut, and the index behind it."""
    after = _after(message, at, width)
    return (message[at + width : after] if after <= len(message) else None), after


def _extensions(message: bytes, at: int, whole: bool) -> Extensions:
    """Returns the extensions that begin with their length at an index."""
    if at >= len(message):
        # A hello may end before the length of extensions.
        return Extensions((), {}, whole and at == len(message))
    end = at + 2 + int.from_bytes(message[at : at + 2], "big")
    at, last = at + 2, min(end, len(message))
    kinds: list[int] = []
    bodies: dict[int, bytes] = {}
    while at + 4 <= last:
        kind, length = _TWO.unpack_from(message, at)
        at += 4
        if at + length > last:
            return Extensions(tuple(kinds), bodies, False)
        kinds.append(kind)
        bodies.setdefault(kind, message[at : at + length])
        at += length
    return Extensions(tuple(kinds), bodies, whole and at == end == len(message))


def _numbers(body: bytes) -> tuple[int, ...]:
    """Returns the 16-bit numbers of a list; an odd byte at its end is dropped."""
    count = len(body) // 2
    return struct.unpack_from(f">{count}H", body)


def _decimal(numbers: tuple[int, ...] | bytes) -> str:
    return "-".join([str(number) for number in numbers if number not in GREASE])


def _protocols(extensions: Extensions) -> list[bytes]:
    """Returns the protocols of ALPN, up to the first that is not whole."""
    body, names = extensions.bodies.get(_ALPN, b""), []
    at = 2
    while at < len(body):
        name, at = _vector(body, at, 1)
        if name is None:
            break
        names.append(name)
    return names


def _highest(extensions: Extensions) -> int | None:
    """Returns the highest version of supported_versions; None without one."""
    offered = [number for number in _numbers(extensions.bodies.get(_VERSIONS, b"")[1:]) if number not in GREASE]
    return max(offered, default=None)


def _ja4_version(extensions: Extensions, version: int) -> str:
    if _VERSIONS in extensions.bodies:
        version = _highest(extensions) or 0
    return _JA4_VERSIONS.get(version, "00")


def _ja4(ciphers: bytes, extensions: Extensions) -> str:
    """Returns a JA4 from its count of ciphers on."""
    count, digest = _ja4_ciphers(ciphers)
    kinds = [kind for kind in extensions.kinds if kind not in GREASE]
    words = sorted(f"{kind:04x}" for kind in kinds if kind not in (_SERVER_NAME, _ALPN))
    signatures = _numbers(extensions.bodies.get(_SIGNATURES, b"")[2:])
    listed = ",".join(words)
    if signed := ",".join([f"{number:04x}" for number in signatures if number not in GREASE]):
        listed = f"{listed}_{signed}"
    kept = _sha256(listed) if words else _NO_HASH
    return f"{count:02}{min(len(kinds), _MOST):02}{_ja4_protocol(extensions)}_{digest}_{kept}"


def _ja4_protocol(extensions: Extensions) -> str:
    """Returns the two characters of the first protocol of ALPN."""
    first = next(iter(_protocols(extensions)), b"")
    if not first:
        return "00"
    ends = bytes((first[0], first[-1]))
    if ends.isalnum():
        return ends.decode("ascii")
    return f"{ends[0]:02x}"[0] + f"{ends[1]:02x}"[1]


@lru_cache(256)
def _ja4_ciphers(ciphers: bytes) -> tuple[int, str]:
    """Returns the count of ciphers and their digest; few programs make most of the hellos."""
    words = sorted(f"{number:04x}" for number in _numbers(ciphers) if number not in GREASE)
    return min(len(words), _MOST), _sha256(",".join(words)) if words else _NO_HASH


def _md5(words: str) -> str:
    return md5(words.encode("ascii"), usedforsecurity=False).hexdigest()


def _sha256(words: str) -> str:
    return sha256(words.encode("ascii")).hexdigest()[:12]
