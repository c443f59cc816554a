"""Tunnels: one module for each protocol, their registry, and the conditions that identify a tunnel.

The third kernel of the reader uses them. A tunnel follows an IP header whose protocol has an entry here (unless it is a
later fragment), or a UDP header whose destination port has one. The first bytes must fit the protocol of this port. A
module declares its `TUNNELS`; no other list exists. A reader gets the number of its entry, and reads only the bytes
[at, end) after the outer header. It returns the tunnel (-1: the bytes are no tunnel), its id (-1: none, or not
captured), the network of the inner packet (0x0800 IPv4, 0x86DD IPv6, others are not read), the index of the inner
packet, and its end.

| `tunnel` | file | condition | `tunnel_id` | carries |
| --- | --- | --- | --- | --- |
| 4, 41 | `ip` | always | none | IPv4, IPv6 |
| 47 | `gre` | always | key; of version 1 the call id, of ERSPAN the session | by its protocol type |
| 2152 | `gtp` | GTP-U: version 1, message 255 (G-PDU) | TEID | IPv4 or IPv6, by its first four bits |
| 4789, 8472 | `vxlan` | the I flag is set | VNI | Ethernet |
| 6081 | `geneve` | version 0 | VNI | by its protocol type |
"""

from __future__ import annotations

from lowwater.capture.headers.registry import Tunnel, by_number, module_entries

ALL: tuple[Tunnel, ...] = module_entries(__name__, __path__, "TUNNELS")
"""All tunnels that are decoded."""

NAMES: dict[int, str] = {
    number: name for number, (_, name) in by_number([(tunnel, tunnel.names) for tunnel in ALL]).items()
}
"""Names of tunnels, by IP protocol or UDP port."""

PORTS: tuple[int, ...] = tuple(number for tunnel in ALL if tunnel.over_udp for number in tunnel.names)
"""UDP destination ports of tunnels."""

PROTOCOLS: tuple[int, ...] = tuple(number for tunnel in ALL if not tunnel.over_udp for number in tunnel.names)
"""IP protocols of tunnels."""
