"""Tunnels: one small file for each protocol, and the rule for what is one.

Between `network` and the second decoding kernel. A tunnel is what stands behind an IP header (not of a later fragment)
whose protocol is 4, 41 or 47, or behind a UDP header whose destination port is 2152, 4789, 6081 or 8472 and whose first
bytes are those of the protocol of this port. Every reader here is given the bytes [at, end) behind the outer header,
reads nothing else, and returns the tunnel (-1 where it is none), its id (-1: it has none, or it is not captured), the
network of what it carries (0x0800 IPv4, 0x86DD IPv6, else nothing that is read), where that begins, and its end.

| `tunnel` | file | is one where | `tunnel_id` | carries |
| --- | --- | --- | --- | --- |
| 4, 41 | `opened` | always | none | IPv4, IPv6 |
| 47 | `gre` | always | key; of version 1 the call id, of ERSPAN the session | by its protocol type |
| 2152 | `gtp` | GTP-U: version 1, message 255 (G-PDU) | TEID | IPv4 or IPv6, by its first four bits |
| 4789, 8472 | `vxlan` | the I flag is set | VNI | Ethernet |
| 6081 | `geneve` | version 0 | VNI | by its protocol type |
"""
