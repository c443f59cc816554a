"""What tshark says of hellos of TLS and of Initial packets of QUIC, and a JA4 made of its fields."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

SEPARATOR = "\x1f"
"""Between the values of a field that occurs more than once."""

_H = "tls.handshake."
KIND, SERVER_NAME, PROTOCOL = f"{_H}type", f"{_H}extensions_server_name", f"{_H}extensions_alpn_str"
VERSION, OFFERED = f"{_H}version", f"{_H}extensions.supported_version"
CIPHER, EXTENSION, SIGNATURE = f"{_H}ciphersuite", f"{_H}extension.type", f"{_H}sig_hash_alg"
SIGNATURES = f"{_H}sig_hash_alg_len"
JA3, JA3S, RECORD = f"{_H}ja3", f"{_H}ja3s", "tls.record.version"
REPEATED = "tcp.analysis.flags"
QUIC = ("quic.version", "quic.dcil", "quic.scil")
FIELDS = (
    KIND, SERVER_NAME, PROTOCOL, VERSION, OFFERED, CIPHER, EXTENSION, SIGNATURE, SIGNATURES, JA3, JA3S, RECORD,
    REPEATED,
    *QUIC, "quic.long.packet_type", "quic.long.packet_type_v2",
)  # fmt: skip
SETTINGS = ("tls.desegment_ssl_records:FALSE",)

TLS_NAMES = (
    "tls_hello", "tls_record_version", "tls_hello_version", "tls_version", "tls_cipher", "tls_server_name", "tls_alpn",
    "tls_ja3", "tls_ja3s", "tls_ja4",
)  # fmt: skip
QUIC_NAMES = (
    "quic_version", "quic_dcid_length", "quic_scid_length", "quic_server_name", "quic_alpn", "quic_ja4",
)  # fmt: skip
JA4_VERSIONS = {0x0304: "13", 0x0303: "12", 0x0302: "11", 0x0301: "10", 0x0300: "s3", 0x0002: "s2"}


def hellos(told: dict[str, str], layers: list[str]) -> dict[str, Any]:
    """Our columns as tshark has them; NULL for packets that do not begin with a hello."""
    found: dict[str, Any] = dict.fromkeys((*TLS_NAMES, *QUIC_NAMES))
    kind = _values(told, KIND)[:1]
    if "quic" in layers:
        if not _initial(told):
            return found
        found |= {
            name: int(_values(told, field)[0], 0) for name, field in zip(QUIC_NAMES, QUIC, strict=False) if told[field]
        }
        if kind == ["1"]:
            client = _client(told, "q")
            found |= {f"quic_{name}": client[name] for name in ("server_name", "alpn", "ja4")}
        return found
    if kind not in (["1"], ["2"]) or not told[RECORD]:
        return found
    found |= {
        "tls_hello": int(kind[0]),
        "tls_record_version": int(_values(told, RECORD)[0], 0),
        "tls_hello_version": int(_values(told, VERSION)[0], 0) if told[VERSION] else None,
    }
    fields = _client(told, "t") if kind == ["1"] else _server(told)
    return found | {f"tls_{name}": value for name, value in fields.items()}


def _initial(told: dict[str, str]) -> bool:
    return _values(told, "quic.long.packet_type")[:1] == ["0"] or _values(told, "quic.long.packet_type_v2")[:1] == ["1"]


def _values(told: dict[str, str], field: str) -> list[str]:
    return told[field].split(SEPARATOR) if told[field] else []


def grease(number: int) -> bool:
    """Whether RFC 8701 keeps the number for tests of robustness."""
    high, low = divmod(number, 256)
    return high == low and low % 16 == 10


def _numbers(told: dict[str, str], field: str) -> list[int]:
    return [number for number in (int(value, 0) for value in _values(told, field)) if not grease(number)]


def _signatures(told: dict[str, str]) -> list[int]:
    """Of extension 13; tshark gives those of 34 and 50 the same name."""
    at, listed = 0, [int(value, 0) for value in _values(told, SIGNATURE)]
    kinds = [kind for kind in _values(told, EXTENSION) if kind in ("13", "34", "50")]
    for kind, length in zip(kinds, _values(told, SIGNATURES), strict=False):
        count = int(length) // 2
        if kind == "13":
            return [number for number in listed[at : at + count] if not grease(number)]
        at += count
    return []


def _client(told: dict[str, str], transport: str) -> dict[str, Any]:
    names, protocols = _values(told, SERVER_NAME), _values(told, PROTOCOL)
    offered, version = _numbers(told, OFFERED), _numbers(told, VERSION)
    return {
        "version": max(offered or version, default=None),
        "server_name": names[0] if names else None,
        "alpn": ",".join(protocols) or None,
        "ja3": told[JA3] or None,
        "ja4": ja4(transport, max(offered or version, default=0), _numbers(told, CIPHER), _numbers(told, EXTENSION),
                   _signatures(told), protocols[0].encode("latin-1", "replace") if protocols else b""),
    }  # fmt: skip


def _server(told: dict[str, str]) -> dict[str, Any]:
    chosen, protocols, cipher = _numbers(told, OFFERED), _values(told, PROTOCOL), _values(told, CIPHER)
    version = chosen or _numbers(told, VERSION)
    return {
        "version": version[0] if version else None,
        "cipher": int(cipher[0], 0) if cipher else None,
        "alpn": protocols[0] if protocols else None,
        "ja3s": told[JA3S].split(SEPARATOR)[0] or None,
    }


def ja4(
    transport: str, version: int, ciphers: list[int], extensions: list[int], signatures: list[int], protocol: bytes
) -> str:
    """The fingerprint by its specification, of numbers without GREASE."""
    letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    ends = "00"
    if protocol:
        ends = protocol[:1].decode("latin-1") + protocol[-1:].decode("latin-1")
        if not set(ends) <= set(letters):
            ends = protocol.hex()[0] + protocol.hex()[-1]
    target = "d" if 0 in extensions else "i"
    first = "".join([transport, JA4_VERSIONS.get(version, "00"), target, counted(ciphers), counted(extensions), ends])
    kept = ",".join(sorted(format(number, "04x") for number in extensions if number not in (0, 16)))
    signed = "_" + ",".join(format(number, "04x") for number in signatures) if signatures else ""
    second = shortened(",".join(sorted(format(number, "04x") for number in ciphers)))
    return f"{first}_{second}_{shortened(kept + signed) if kept else shortened('')}"


def counted(numbers: list[int]) -> str:
    """Two digits."""
    return str(min(len(numbers), 99)).rjust(2, "0")


def shortened(listed: str) -> str:
    """Twelve digits of a digest; zeros for nothing."""
    return sha256(listed.encode()).hexdigest()[:12] if listed else "000000000000"
