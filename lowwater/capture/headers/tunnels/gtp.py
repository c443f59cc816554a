"""GTP-U (3GPP TS 29.281).

UDP port 2152.
"""

from __future__ import annotations

from typing import Any

from lowwater.capture.headers.fields import u8, u32
from lowwater.capture.headers.links.raw import raw
from lowwater.capture.headers.registry import Tunnel
from lowwater.capture.inlining import rare

_VERSION_TYPE, _USER_PLANE = 0xF0, 0x30  # version 1, protocol type GTP; the fifth bit is spare
_PACKET = 255
_OPTIONAL, _EXTENDED = 0x07, 0x04  # any of the three flags brings all of the optional fields


@rare
def gtp(buffer: Any, port: int, at: int, end: int) -> tuple[int, int, int, int, int]:
    """Reads a GTP-U header with its extension headers; see the package. Arguments as of `vxlan`."""
    flags, message, identity = u8(buffer, at, end), u8(buffer, at + 1, end), u32(buffer, at + 4, end)
    if message != _PACKET or flags & _VERSION_TYPE != _USER_PLANE:
        return -1, -1, -1, at, end
    at += 8
    if flags & _OPTIONAL:
        following = u8(buffer, at + 3, end)
        at += 4
        if not flags & _EXTENDED:
            following = 0
        while following > 0:
            length = 4 * u8(buffer, at, end)
            if length <= 0:  # without a valid length the next header cannot be found
                return port, identity, -1, at, end
            at += length
            following = u8(buffer, at - 1, end)
        if following < 0:
            return port, identity, -1, at, end
    _, _, _, _, network, at, end = raw(buffer, at, end)
    return port, identity, network, at, end


TUNNELS = (Tunnel({2152: "GTP-U"}, True, gtp),)
