"""Cisco HDLC: an address, a control byte, and an ether type.

Link type 104.
"""

from __future__ import annotations

from typing import Any

from lowwater.capture.headers.fields import u16
from lowwater.capture.headers.links.ether_types import FIRST_TYPE, follow_ether_type
from lowwater.capture.headers.registry import LinkLayer
from lowwater.capture.inlining import rare


@rare
def hdlc(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Reads a Cisco HDLC header; see the package."""
    kind, vlan, network = u16(buffer, at + 2, end), -1, -1
    at += 4
    if kind >= FIRST_TYPE:
        kind, vlan, network, at, end = follow_ether_type(buffer, kind, at, end)
    else:
        kind = -1
    return -1, -1, kind, vlan, network, at, end


LINK_LAYERS = (LinkLayer("hdlc", {104: "C_HDLC"}, hdlc),)
