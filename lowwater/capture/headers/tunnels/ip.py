"""IP in IP (RFC 2003), and IPv6 in either version (RFC 2473, RFC 4213).

IP protocols 4 and 41.
"""

from __future__ import annotations

from typing import Any

from lowwater.capture.headers.links.ether_types import IPV4, IPV6
from lowwater.capture.headers.registry import Tunnel
from lowwater.capture.inlining import rare

_IN_IP4 = 4


@rare
def ip(buffer: Any, protocol: int, at: int, end: int) -> tuple[int, int, int, int, int]:
    """Returns the inner IP packet, because this tunnel has no header; see the package. Arguments as of `gre`."""
    return protocol, -1, IPV4 if protocol == _IN_IP4 else IPV6, at, end


TUNNELS = (Tunnel({4: "IPv4-in-IP", 41: "IPv6-in-IP"}, False, ip),)
