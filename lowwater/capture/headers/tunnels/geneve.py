"""Geneve (RFC 8926).

UDP port 6081.
"""

from __future__ import annotations

from typing import Any

from lowwater.capture.headers.fields import u8, u16, u32
from lowwater.capture.headers.registry import Tunnel
from lowwater.capture.headers.tunnels.gre import behind_type
from lowwater.capture.inlining import rare

_OPTION_WORDS = 0x3F


@rare
def geneve(buffer: Any, port: int, at: int, end: int) -> tuple[int, int, int, int, int]:
    """Reads a Geneve header and skips its options; see the package. Arguments as of `vxlan`."""
    first, kind, word = u8(buffer, at, end), u16(buffer, at + 2, end), u32(buffer, at + 4, end)
    if first < 0 or first > _OPTION_WORDS:  # the upper two bits are the version
        return -1, -1, -1, at, end
    network, at, end = behind_type(buffer, kind, at + 8 + 4 * first, end)
    return port, word >> 8, network, at, end


TUNNELS = (Tunnel({6081: "Geneve"}, True, geneve),)
