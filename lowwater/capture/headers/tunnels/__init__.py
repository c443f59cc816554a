"""Tunnels: a module for each protocol, the registry of them, and the rule for what is one.

Between `network` and the second decoding kernel. A tunnel stands behind an IP header (not of a later fragment) whose
protocol has an entry here, or behind a UDP header whose destination port has one, if its first bytes are those of the
protocol of this port. A module states its `TUNNELS`; nothing else lists them. A reader gets the number of its entry and
the bytes [at, end) behind the outer header, and reads no others. It returns the tunnel (-1 where the bytes are none),
its id (-1: it has none, or it is not captured), the network of the packet that it carries (0x0800 IPv4, 0x86DD IPv6,
else nothing that is read), where that begins, and its end.

| `tunnel` | file | is one where | `tunnel_id` | carries |
| --- | --- | --- | --- | --- |
| 4, 41 | `ip` | always | none | IPv4, IPv6 |
| 47 | `gre` | always | key; of version 1 the call id, of ERSPAN the session | by its protocol type |
| 2152 | `gtp` | GTP-U: version 1, message 255 (G-PDU) | TEID | IPv4 or IPv6, by its first four bits |
| 4789, 8472 | `vxlan` | the I flag is set | VNI | Ethernet |
| 6081 | `geneve` | version 0 | VNI | by its protocol type |
"""

from __future__ import annotations

from lowwater.capture.headers.registry import Tunnel, numbered, stated

ALL: tuple[Tunnel, ...] = stated(__name__, __path__, "TUNNELS")
"""Every tunnel that is decoded."""

NAMES: dict[int, str] = {number: name for number, (_, name) in numbered([(each, each.names) for each in ALL]).items()}
"""Names of tunnels, by IP protocol or UDP port."""

PORTS: tuple[int, ...] = tuple(number for tunnel in ALL if tunnel.over_udp for number in tunnel.names)
"""Destination ports of UDP that may mean a tunnel."""

PROTOCOLS: tuple[int, ...] = tuple(number for tunnel in ALL if not tunnel.over_udp for number in tunnel.names)
"""Protocols of IP that are tunnels."""
