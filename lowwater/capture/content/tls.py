"""TLS over TCP (RFC 8446, RFC 5246): the hello at the beginning of a segment.

Segments are not put together, nor are records. A hello that goes on in the next segment or in a second record is cut
there. A hello of SSL 2.0 is not read, and DTLS is not TLS over TCP.
"""

from __future__ import annotations

from typing import Any

from lowwater.capture.content.hello import hello_fields
from lowwater.capture.content.starts import CHANGE_CIPHER_SPEC, CHANGED, RECORD_HEADER, SHORTEST

_NAMES = {
    name: f"tls_{name}"
    for name in ("hello", "hello_version", "version", "cipher", "server_name", "alpn", "ja3", "ja3s", "ja4")
}


def tls_fields(payload: bytes) -> dict[str, Any]:
    """Parses the hello of a segment.

    Args:
        payload: payload of a TCP segment that begins with the record of a hello, or with CHANGED bytes before it. The
            payload has at least SHORTEST bytes of it.
    """
    at = CHANGED if payload[0] == CHANGE_CIPHER_SPEC else 0
    begin = at + RECORD_HEADER
    length = int.from_bytes(payload[at + 3 : begin], "big")
    if length < SHORTEST:
        return {}
    found = hello_fields(payload[begin : begin + length], "t")
    fields = {_NAMES[name]: value for name, value in found.items()}
    fields["tls_record_version"] = int.from_bytes(payload[at + 1 : at + 3], "big")
    return fields
