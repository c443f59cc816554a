"""Beginnings of messages of TLS, SSH and QUIC, by which the kernel in `applications` marks packets."""

from __future__ import annotations

from typing import Any

from lowwater.capture.headers.loads import big16, big32, byte
from lowwater.capture.inlining import part

CHANGE_CIPHER_SPEC, HANDSHAKE = 20, 22
"""Types of TLS records."""

RECORD_HEADER = 5
CHANGED = RECORD_HEADER + 1
"""Bytes of a record that changes the cipher. A client whose first hello was refused sends one before its second."""

CLIENT, SERVER = 1, 2
"""Types of the messages ClientHello and ServerHello."""

SHORTEST = 6
"""Bytes of a hello up to the end of its version."""

SSH = int.from_bytes(b"SSH-", "big")

VERSION_1, VERSION_2 = 1, 0x6B3343CF
"""Versions of QUIC."""


@part
def begins_hello(buffer: Any, at: int, end: int) -> bool:
    """Whether the record of a TLS hello begins at an index; its version must be captured."""
    if end - at >= CHANGED and byte(buffer, at) == CHANGE_CIPHER_SPEC and big16(buffer, at + 3) == 1:
        at += CHANGED
    if end - at < RECORD_HEADER + SHORTEST or byte(buffer, at) != HANDSHAKE or byte(buffer, at + 1) != 3:
        return False
    kind = byte(buffer, at + RECORD_HEADER)
    # An encrypted message may begin with any byte: the high byte of the length and the version make it unlikely.
    plausible = byte(buffer, at + RECORD_HEADER + 1) == 0 and byte(buffer, at + RECORD_HEADER + 4) == 3
    return kind in (CLIENT, SERVER) and plausible


@part
def begins_initial(buffer: Any, at: int, end: int) -> bool:
    """Whether an Initial packet of QUIC begins at an index: long header, fixed bit, type and version."""
    if end - at < 5:
        return False
    kind, version = byte(buffer, at) & 0xF0, big32(buffer, at + 1)
    return (kind == 0xC0 and version == VERSION_1) or (kind == 0xD0 and version == VERSION_2)
