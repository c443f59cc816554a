"""Link layers: one module each, and their registry.

`formats.header` takes the names of link types from here, and `headers.packet` compiles a kernel for each link layer. A
module declares its `LINK_LAYERS`; no other list exists. A reader reads only the bytes [at, end) of a record. It returns
seven integers, -1 for a value that is not captured: destination address, source address, ether type, VLAN, network
(0x0800 IPv4, 0x86DD IPv6), index of the network header, and end of its bytes. The readers fill these columns:

| name | link types | destMAC, srcMAC | ether_type |
| --- | --- | --- | --- |
| `ethernet` | 1 | destination, source | type; with a length (802.3): SNAP's |
| `cooked` | 113 | none, source of 6 bytes | protocol from 0x0600 on, or SNAP's |
| `cooked2` | 276 | none, source of 6 bytes | protocol from 0x0600 on, or SNAP's |
| `null` | 0, 108 | none | none |
| `raw` | 12, 14, 101, 228, 229 | none | none |
| `ppp` | 9, 50 | none | none |
| `wifi` | 105 | by To DS and From DS; of control frames none | SNAP's |
| `radiotap`, `prism`, `avs` | 127, 119, 163 | as `wifi` | as `wifi` |
| `ppi` | 192 | as the record after it (105, 1 or 101) | as the record after it |
| `hdlc` | 104 | none | protocol from 0x0600 on |
| `infiniband` | 242 | none | type from 0x0600 on |
| `nflog` | 239 | none | none |
| `usb`, `usbmapped` | 189, 220 | as `ethernet` | as `ethernet` |

For link layers with ether types, `ether_type` is the one behind all VLAN tags (MACsec, MPLS and PPPoE keep theirs), and
`vlan_id` is the VLAN of the outermost tag. tshark names the same fields eth.dst, eth.src,
sll.src.eth, wlan.da, wlan.sa, eth.type, llc.type, sll.etype, chdlc.protocol, ipoib.type, vlan.etype and vlan.id.
"""

from __future__ import annotations

from lowwater.capture.headers.registry import LinkLayer, by_number, module_entries

LAYERS: tuple[LinkLayer, ...] = module_entries(__name__, __path__, "LINK_LAYERS")
"""All link layers that are decoded; records of other link types have only timestamp and lengths."""

_NUMBERED = by_number([(layer, layer.link_types) for layer in LAYERS])

LINK_TYPES: dict[int, LinkLayer] = {number: layer for number, (layer, _) in _NUMBERED.items()}
"""Link layer by link type."""

NAMES: dict[int, str] = {number: name for number, (_, name) in _NUMBERED.items()}
"""Name by link type."""
