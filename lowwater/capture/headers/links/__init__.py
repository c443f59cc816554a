"""Link layers: one small file for each kind, and the table from link type to kind.

Between `formats.header`, which names the link type of a capture, and the kernels of `headers.packet`, one for each
kind. Every reader here is given the bytes [at, end) of a record, reads nothing else, and returns seven integers, -1
for what is not there: destination address, source address, ether type, VLAN, network (0x0800 IPv4, 0x86DD IPv6), where
the network header begins, and where its bytes end. What they fill of the stored columns:

| kind | link types | destMAC, srcMAC | ether_type |
| --- | --- | --- | --- |
| `ethernet` | 1 | destination, source | type; with a length (802.3): SNAP's |
| `cooked` | 113 | none, source of 6 bytes | protocol from 0x0600 on, or SNAP's |
| `cooked2` | 276 | none, source of 6 bytes | protocol from 0x0600 on, or SNAP's |
| `null` | 0, 108 | none | none |
| `raw` | 12, 14, 101, 228, 229 | none | none |
| `ppp` | 9, 50 | none | none |
| `wifi` | 105 | by To DS and From DS; of control frames none | SNAP's |
| `radiotap` | 127 | as `wifi` | as `wifi` |

Wherever there are ether types, `ether_type` is the one behind all VLAN tags (MPLS and PPPoE keep theirs), and `vlan_id`
is that of the outermost tag. tshark names the same fields eth.dst, eth.src, sll.src.eth, wlan.da, wlan.sa, eth.type,
llc.type, sll.etype, vlan.etype and vlan.id.
"""

from __future__ import annotations

from lowwater.capture.formats import header

UNKNOWN, ETHERNET, COOKED, COOKED2, NULL, RAW, PPP, WIFI, RADIOTAP = range(9)

KINDS: dict[int, int] = {
    header.ETHERNET: ETHERNET,
    header.LINUX_SLL: COOKED,
    header.LINUX_SLL2: COOKED2,
    **dict.fromkeys(header.LOOPBACKS, NULL),
    **dict.fromkeys(header.RAW_IP, RAW),
    **dict.fromkeys(header.PPP, PPP),
    header.IEEE802_11: WIFI,
    header.RADIOTAP: RADIOTAP,
}
"""Kind of each link type that is decoded; the records of others keep timestamp and lengths."""
