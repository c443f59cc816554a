"""The identification string of SSH (RFC 4253, section 4.2): the first line of a client and of a server."""

from __future__ import annotations

from typing import Any

LONGEST_LINE = 255
"""Most bytes of the line, with its end."""


def ssh_fields(payload: bytes) -> dict[str, Any]:
    """Parses an identification string.

    Args:
        payload: payload of a TCP segment that begins with `SSH-`.

    Example:
        >>> ssh_fields(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\\r\\n")
        {'ssh_banner': 'SSH-2.0-OpenSSH_9.2p1 Debian-2'}
    """
    line, end, _ = payload[:LONGEST_LINE].partition(b"\n")
    return {"ssh_banner": line.removesuffix(b"\r").decode("latin-1")} if end else {}
