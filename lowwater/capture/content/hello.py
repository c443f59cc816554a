"""ClientHello and ServerHello: names, versions, and the fingerprints JA3, JA3S and JA4.

TLS over TCP (`tls`) and QUIC (`quic`) share this parser. A hello may be cut anywhere. An extension has a value where
all of its bytes are there; a fingerprint needs the whole hello. Lengths in the message never allocate: every slice
ends with the bytes that were captured.

GREASE (RFC 8701) is left out of versions and fingerprints. JA3 is the MD5 digest of the salesforce/ja3 text, JA4 is
FoxIO's specification of clients. Few programs make most of the hellos, so readings of lists are cached by their bytes.
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
_READ = frozenset((_SERVER_NAME, _GROUPS, _POINTS, _SIGNATURES, _ALPN, _VERSIONS))
_JA4_VERSIONS = {0x0304: "13", 0x0303: "12", 0x0302: "11", 0x0301: "10", 0x0300: "s3", 0x0002: "s2"}
_NO_HASH = "0" * 12
_MOST = 99
_CACHED = 256  # lists, of at most 16 KiB each
_two = struct.Struct(">HH").unpack_from


class Extensions(NamedTuple):
    """The extensions of a hello.

    Attributes:
        kinds: types in their order.
        bodies: type -> bytes, for whole extensions that are read; the first one of a type.
        whole: whether all extensions are whole, up to the end of the hello.
    """

    kinds: list[int]
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
    return fields | _client(ciphers, _extensions(message, at, whole), version, transport)


def _client(ciphers: bytes, extensions: Extensions, version: int, transport: str) -> dict[str, Any]:
    """Returns the offers of a client, and its fingerprints if the hello is whole."""
    found: dict[str, Any] = {}
    bodies = extensions.bodies
    offered = bodies.get(_VERSIONS)
    highest = version if offered is None else _highest(offered)
    if highest is not None and (extensions.whole or offered is not None):
        found["version"] = highest
    body = bodies.get(_SERVER_NAME, b"")
    # The list has a length, its first entry a type (0: a name of a host) and a length.
    if len(body) > 5 and body[2] == 0:
        length = int.from_bytes(body[3:5], "big")
        if 0 < length <= len(body) - 5:
            found["server_name"] = text(body[5 : 5 + length])
    protocols, ends = _protocols(bodies.get(_ALPN, b""))
    if protocols:
        found["alpn"] = text(b",".join(protocols))
    if not extensions.whole:
        return found
    listed, count, digest = _ciphers(ciphers)
    kinds = [kind for kind in extensions.kinds if kind not in GREASE]
    groups, points = _groups(bodies.get(_GROUPS, b"")), "-".join(map(str, bodies.get(_POINTS, b"")[1:]))
    found["ja3"] = _md5(f"{version},{listed},{'-'.join(map(str, kinds))},{groups},{points}")
    first = f"{transport}{_JA4_VERSIONS.get(highest or 0, '00')}{'d' if _SERVER_NAME in bodies else 'i'}"
    kept = sorted([kind for kind in kinds if kind not in (_SERVER_NAME, _ALPN)])
    last = _sha256(_hexadecimal(kept) + _signed(bodies.get(_SIGNATURES, b""))) if kept else _NO_HASH
    found["ja4"] = f"{first}{count:02}{min(len(kinds), _MOST):02}{ends}_{digest}_{last}"
    return found


def _server(message: bytes, at: int, version: int, whole: bool) -> dict[str, Any]:
    """Returns the choices of a server, and its JA3S."""
    if at + 2 > len(message):
        return {}
    cipher = int.from_bytes(message[at : at + 2], "big")
    extensions = _extensions(message, at + 3, whole)
    found: dict[str, Any] = {"cipher": cipher}
    chosen = extensions.bodies.get(_VERSIONS)
    if chosen is not None and len(chosen) == 2:
        found["version"] = int.from_bytes(chosen, "big")
    elif chosen is None and extensions.whole:
        found["version"] = version
    protocols, _ = _protocols(extensions.bodies.get(_ALPN, b""))
    if protocols:
        found["alpn"] = text(protocols[0])
    if extensions.whole:
        kinds = "-".join([str(kind) for kind in extensions.kinds if kind not in GREASE])
        found["ja3s"] = _md5(f"{version},{cipher},{kinds}")
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
    kinds: list[int] = []
    bodies: dict[int, bytes] = {}
    if at >= len(message):
        # A hello may end before the length of extensions.
        return Extensions(kinds, bodies, whole and at == len(message))
    end = at + 2 + int.from_bytes(message[at : at + 2], "big")
    at, last = at + 2, min(end, len(message))
    while at + 4 <= last:
        kind, length = _two(message, at)
        at += 4 + length
        if at > last:
            return Extensions(kinds, bodies, False)
        kinds.append(kind)
        if kind in _READ and kind not in bodies:
            bodies[kind] = message[at - length : at]
    return Extensions(kinds, bodies, whole and at == end == len(message))


def _numbers(body: bytes) -> list[int]:
    """Returns the 16-bit numbers of a list without GREASE; an odd byte at its end is dropped."""
    return [number for number in struct.unpack_from(f">{len(body) // 2}H", body) if number not in GREASE]


def _hexadecimal(numbers: list[int]) -> str:
    """Returns numbers as four digits each, with commas between them."""
    return struct.pack(f">{len(numbers)}H", *numbers).hex(",", 2)


@lru_cache(_CACHED)
def _ciphers(body: bytes) -> tuple[str, int, str]:
    """Returns cipher suites as JA3 writes them, and their count and digest in a JA4."""
    numbers = _numbers(body)
    digest = _sha256(_hexadecimal(sorted(numbers))) if numbers else _NO_HASH
    return "-".join(map(str, numbers)), min(len(numbers), _MOST), digest


@lru_cache(_CACHED)
def _groups(body: bytes) -> str:
    """Returns the groups of an extension as JA3 writes them."""
    return "-".join(map(str, _numbers(body[2:])))


@lru_cache(_CACHED)
def _signed(body: bytes) -> str:
    """Returns the signature algorithms of an extension as JA4 adds them to the extensions."""
    numbers = _numbers(body[2:])
    return f"_{_hexadecimal(numbers)}" if numbers else ""


@lru_cache(_CACHED)
def _highest(body: bytes) -> int | None:
    """Returns the highest version of supported_versions; None without one."""
    return max(_numbers(body[1:]), default=None)


@lru_cache(_CACHED)
def _protocols(body: bytes) -> tuple[tuple[bytes, ...], str]:
    """Returns the protocols of ALPN up to the first that is not whole, and the two characters of a JA4."""
    names: list[bytes] = []
    at = 2
    while at < len(body):
        name, at = _vector(body, at, 1)
        if name is None:
            break
        names.append(name)
    if not names or not names[0]:
        return tuple(names), "00"
    ends = bytes((names[0][0], names[0][-1]))
    return tuple(names), ends.decode("ascii") if ends.isalnum() else ends.hex()[0] + ends.hex()[3]


def _md5(words: str) -> str:
    return md5(words.encode("ascii"), usedforsecurity=False).hexdigest()


def _sha256(words: str) -> str:
    return sha256(words.encode("ascii")).hexdigest()[:12]
