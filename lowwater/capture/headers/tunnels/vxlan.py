"""VXLAN (RFC 7348).

UDP ports 4789 and 8472, the former default of Linux.
"""

from __future__ import annotations

from typing import Any

from lowwater.capture.headers.fields import u8, u32
from lowwater.capture.headers.links.ethernet import ethernet
from lowwater.capture.headers.registry import Tunnel
from lowwater.capture.inlining import rare

_VALID = 0x08  # the I flag: there is a VNI


@rare
def vxlan(buffer: Any, port: int, at: int, end: int) -> tuple[int, int, int, int, int]:
    """Reads a VXLAN header; see the package.

    Args:
        buffer: uint8 array that holds the frame.
        port: the UDP destination port, which is the number of the tunnel.
        at: index behind the UDP header.
        end: index behind the last captured byte of the datagram.
    """
    flags, word = u8(buffer, at, end), u32(buffer, at + 4, end)
    if flags < 0 or not flags & _VALID:
        return -1, -1, -1, at, end
    _, _, _, _, network, at, end = ethernet(buffer, at + 8, end)
    return port, word >> 8, network, at, end


TUNNELS = (Tunnel({4789: "VXLAN", 8472: "VXLAN"}, True, vxlan),)
