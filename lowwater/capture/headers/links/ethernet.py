"""Ethernet, with an ether type or with a length (IEEE 802.3).

Link type 1.
"""

from __future__ import annotations

from typing import Any

from lowwater.capture.headers.fields import u16, u48
from lowwater.capture.headers.links.ether_types import FIRST_TYPE, follow_ether_type
from lowwater.capture.headers.links.llc import llc
from lowwater.capture.headers.registry import LinkLayer
from lowwater.capture.inlining import part

_LARGEST_LENGTH = 1500


@part
def ethernet(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Reads an Ethernet header; see the package."""
    destination, source, kind = u48(buffer, at, end), u48(buffer, at + 6, end), u16(buffer, at + 12, end)
    at += 14
    if kind >= FIRST_TYPE:
        kind, vlan, network, at, end = follow_ether_type(buffer, kind, at, end)
    elif 0 <= kind <= _LARGEST_LENGTH:  # bytes after this length are padding
        kind, vlan, network, at, end = llc(buffer, at, min(end, at + kind))
    else:
        kind, vlan, network = -1, -1, -1
    return destination, source, kind, vlan, network, at, end


LINK_LAYERS = (LinkLayer("ethernet", {1: "EN10MB"}, ethernet),)
