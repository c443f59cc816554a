"""IP packets without a link header.

Link types 12, 14 and 101 (either version), 228 (IPv4) and 229 (IPv6).
"""

from __future__ import annotations

from typing import Any

from lowwater.capture.headers.fields import u8
from lowwater.capture.headers.registry import LinkLayer
from lowwater.capture.inlining import rare


@rare
def raw(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Determines the network from the IP version, since there is no header; see the package."""
    version = u8(buffer, at, end) >> 4
    network = 0x0800 if version == 4 else 0x86DD if version == 6 else -1
    return -1, -1, -1, -1, network, at, end


LINK_LAYERS = (LinkLayer("raw", {12: "RAW12", 14: "RAW14", 101: "RAW", 228: "IPV4", 229: "IPV6"}, raw),)
