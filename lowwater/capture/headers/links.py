"""Link layers: the headers in front of the network header.

`formats.capture_file` takes the names of link types from here, and `headers.packet` compiles a kernel for each link
layer. A link layer is a reader and an entry of `LAYERS`; no other list exists. A reader reads only the bytes [at, end)
of a record. It returns seven integers, -1 for a value that is not captured: destination address, source address, ether
type, VLAN, network (0x0800 IPv4, 0x86DD IPv6), index of the network header, and end of its bytes. A network below -1
is a `stop`: the reader names what it does not follow (`headers.undecoded`). The readers fill these columns:

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

For link layers with ether types, `ether_type` is the one behind all tags of the frame; what wraps another packet or
frame (`_opened`: MACsec, MPLS, PPPoE, 802.1ah and others) keeps its own. `vlan_id` is the VLAN of the outermost tag.
tshark names the same fields eth.dst, eth.src, sll.src.eth, wlan.da, wlan.sa, eth.type, llc.type, sll.etype,
chdlc.protocol, ipoib.type, vlan.etype, vntag.etype, etag.etype, hsr.type and vlan.id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lowwater.capture.headers.fields import byte, little16, little32, u8, u16, u32, u48
from lowwater.capture.inlining import part, rare

LinkReader = Callable[[Any, int, int], tuple[int, int, int, int, int, int, int]]


@dataclass(frozen=True, eq=False)
class LinkLayer:
    """A header in front of the network header.

    Attributes:
        name: name of its kernel; a Python identifier.
        link_types: displayed names by link type number of capture files.
        read: the compiled reader, as described in the module.
    """

    name: str
    link_types: Mapping[int, str]
    read: LinkReader


def by_number(entries: Sequence[tuple[Any, Mapping[int, str]]]) -> dict[int, tuple[Any, str]]:
    """Returns entries and displayed names by number.

    Args:
        entries: (entry, names by number).

    Raises:
        ValueError: two entries have the same number.

    Example:
        >>> by_number([("a", {1: "one"}), ("b", {2: "two"})])
        {1: ('a', 'one'), 2: ('b', 'two')}
    """
    table: dict[int, tuple[Any, str]] = {}
    for entry, names in entries:
        for number, name in names.items():
            if number in table:
                raise ValueError(f"two entries have the number {number}: {table[number][1]} and {name}")
            table[number] = entry, name
    return table


# What a reader does not follow: a network below -1 is -(space << 24 | number). Ether types whose content is not
# followed are the space 0.

_SPACE = 24
SNAP, LLC, PPP, MPLS, BATMAN, WIFI, FAMILY, NFLOG, VERSION, COOKED, USB, ISL = range(1, 13)
"""Spaces of numbers: the organisation of SNAP, an access point of LLC, a protocol of PPP, the first four bits behind
labels of MPLS, a packet type of B.A.T.M.A.N., a kind of 802.11 frames, an address family of BSD and of netfilter, a
version of IP, a protocol below the ether types of a cooked capture, a transfer of USB, and a type of ISL."""

WIFI_MANAGEMENT, WIFI_CONTROL, WIFI_NO_DATA, WIFI_ENCRYPTED, WIFI_FRAGMENT, WIFI_AGGREGATE = range(1, 7)
"""Numbers of the space `WIFI`."""


@part
def stop(space: int, number: int) -> int:
    """Returns the network that stands for a number of a space, which is not followed."""
    return -(space << _SPACE | number)


# MACsec (IEEE 802.1AE): the security tag behind an ether type, and what it protects without encryption. What is
# encrypted keeps the outer fields: addresses, tags and ether type 0x88E5.

_VERSION, _SCI, _CHANGED = 0x80, 0x20, 0x0C  # bits of the first byte; the last two: encrypted, changed text
_SHORT = 0x3F  # bits of the short length


@rare
def macsec(buffer: Any, at: int, end: int) -> tuple[int, int, int]:
    """Reads a security tag; returns as `_opened`.

    Args:
        at: index behind the ether type 0x88E5.
    """
    control, short = u8(buffer, at, end), u8(buffer, at + 1, end)
    if short < 0:
        return -1, at, end
    if control & (_VERSION | _CHANGED):
        return -_MACSEC, at, end
    at += 14 if control & _SCI else 6
    if short & _SHORT:  # the protected data; the check value and padding follow
        end = min(end, at + (short & _SHORT))
    return u16(buffer, at, end), at + 2, end


# MPLS label stacks (RFC 3032). Labels do not say what follows. As routers do, the next four bits are taken for an IP
# version; 1 is an associated channel (RFC 5586), which names its protocol. 0 is the control word of a pseudowire
# (RFC 4385). Behind it, and where another number stands, an Ethernet frame (RFC 4448) is known by its type.

_BOTTOM = 0x100
_CHANNEL, _CONTROL_WORD = 1, 0
_CHANNEL_IPV4, _CHANNEL_IPV6 = 0x21, 0x57
_FRAME_HEADER = 14
_BRIDGED_SAPS = (0x42, 0xAA, 0xFE)  # spanning tree, SNAP, and ISO's routing: what bridges send with a length


@rare
def mpls(buffer: Any, at: int, end: int) -> tuple[int, int]:
    """Skips a label stack; returns the kind behind it, as `_opened`, and its index."""
    label = 0
    while label >= 0 and not label & _BOTTOM:
        label = u32(buffer, at, end)
        at += 4
    version = u8(buffer, at, end) >> 4
    if version == 4:
        return IPV4, at
    if version == 6:
        return IPV6, at
    if version == _CHANNEL:
        channel = u16(buffer, at + 2, end)
        if channel == _CHANNEL_IPV4:
            return IPV4, at + 4
        if channel == _CHANNEL_IPV6:
            return IPV6, at + 4
        return stop(MPLS, version) if channel >= 0 else -1, at
    if _is_frame(buffer, at, end):
        return FRAME, at
    if version == _CONTROL_WORD and _is_frame(buffer, at + 4, end):
        return FRAME, at + 4
    return stop(MPLS, version) if at + 4 + _FRAME_HEADER < end else -1, at


@rare
def _is_frame(buffer: Any, at: int, end: int) -> bool:
    """Whether an Ethernet frame of a usual kind can begin here."""
    kind = u16(buffer, at + 12, end)
    if 0 < kind <= _LARGEST_LENGTH:
        return u8(buffer, at + _FRAME_HEADER, end) in _BRIDGED_SAPS
    return kind in _USUAL or kind in _TAGS or kind in _ENVELOPES


# PPP (RFC 1661), with or without HDLC-like framing (RFC 1662). Link types 9 and 50, and inside PPPoE.

_ADDRESS_CONTROL = 0xFF03
_IPV4, _IPV6, _MPLS, _MPLS_MULTICAST = 0x0021, 0x0057, 0x0281, 0x0283


@rare
def _ppp(buffer: Any, at: int, end: int) -> tuple[int, int]:
    """Reads the protocol field, which is one byte if compressed; returns the kind behind it, as `_opened`."""
    protocol = u8(buffer, at, end)
    if protocol >= 0 and protocol & 1:  # only the last byte of a protocol number is odd
        at += 1
    else:
        protocol = u16(buffer, at, end)
        at += 2
    if protocol == _IPV4:
        return IPV4, at
    if protocol == _IPV6:
        return IPV6, at
    if protocol in (_MPLS, _MPLS_MULTICAST):
        return LABELS, at
    return stop(PPP, protocol) if protocol >= 0 else -1, at


@rare
def ppp_link(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Reads a record that begins with PPP; see the module."""
    if u16(buffer, at, end) == _ADDRESS_CONTROL:
        at += 2
    _, vlan, network, at, end = _followed(buffer, _PPP, -1, at, end)
    return -1, -1, -1, vlan, network, at, end


# Follows an ether type to the network header: over tags of the frame, which end with the next type, and into what wraps
# another packet or frame. The link layers with ether types share it. Tags and wrappings nest in any order.

IPV4, IPV6 = 0x0800, 0x86DD
FIRST_TYPE = 0x0600
"""Smaller values in place of an ether type are lengths, or numbers of another kind."""

_MOST_HEADERS = 16
"""Most headers between the link layer and the network header, VLAN tags that follow one another as one."""

_VLANS = (0x8100, 0x88A8, 0x9100, 0x9200, 0x9300)  # IEEE 802.1Q, 802.1ad, and the types of QinQ before it
_VN_TAG, _E_TAG, _HSR, _R_TAG = 0x8926, 0x893F, 0x892F, 0xF1C1  # Cisco; IEEE 802.1BR; IEC 62439-3; IEEE 802.1CB
_METADATA, _TIMESTAMP = 0x8909, 0xD28B  # security groups of Cisco; timestamps of Arista's switches
_TAGS = (_VN_TAG, _E_TAG, _HSR, _R_TAG, _METADATA, _TIMESTAMP)
_PPPOE, _MACSEC, LABELS, _MPLS_OTHERS = 0x8864, 0x88E5, 0x8847, 0x8848
_BACKBONE, _TRILL, NSH, _FABRIC_PATH, _BATMAN = 0x88E7, 0x22F3, 0x894F, 0x8903, 0x4305
FRAME, _LLC_FRAME, _PPP = 0x6558, 0x8870, 0x880B  # an Ethernet frame (bridging); LLC without a length; PPP
_ENVELOPES = (
    _PPPOE, _MACSEC, LABELS, _MPLS_OTHERS, _BACKBONE, _TRILL, NSH, _FABRIC_PATH, _BATMAN, FRAME, _LLC_FRAME,
    _PPP,
)  # fmt: skip
_USUAL = (IPV4, IPV6, 0x0806, 0x8863, 0x88CC, *_VLANS)  # ARP, PPPoE's discovery, LLDP


@part
def follow_ether_type(buffer: Any, kind: int, at: int, end: int) -> tuple[int, int, int, int, int]:
    """Follows an ether type over tags and labels to the network header.

    Args:
        kind: the ether type; -1 if it is not captured.

    Returns:
        Ether type behind the tags, outermost VLAN, network, index of the network header, and end of its bytes.
    """
    if kind in (IPV4, IPV6):  # fast path for most frames
        return kind, -1, kind, at, end
    kind, vlan, at = _vlan_tags(buffer, kind, -1, at, end)
    if kind in (IPV4, IPV6):
        return kind, vlan, kind, at, end
    return _followed(buffer, kind, vlan, at, end)


@rare
def _followed(buffer: Any, kind: int, vlan: int, at: int, end: int) -> tuple[int, int, int, int, int]:
    """Follows any ether type; returns as `follow_ether_type`.

    Args:
        kind: the ether type, or one of `_ENVELOPES`, of what stands at `at`.
        vlan: VLAN of a tag before it; -1 without one.
    """
    shown, wrapped = kind, False
    for _ in range(_MOST_HEADERS):
        if kind in _VLANS:
            kind, vlan, at = _vlan_tags(buffer, kind, vlan, at, end)
        elif kind in _TAGS:
            kind, at = _behind_tag(buffer, kind, at, end)
        elif kind in _ENVELOPES:
            wrapped = True
            kind, at, end = _opened(buffer, kind, at, end)
        else:
            return shown, vlan, kind, at, end
        if not wrapped and kind >= -1:
            shown = kind
    return shown, vlan, kind if kind in (IPV4, IPV6) else -1, at, end


@part
def _vlan_tags(buffer: Any, kind: int, vlan: int, at: int, end: int) -> tuple[int, int, int]:
    """Skips VLAN tags; returns the ether type behind them, the VLAN, and the index behind the type.

    Args:
        kind: the ether type; -1 if it is not captured.
        vlan: VLAN of a tag before it; -1 without one. Otherwise the first tag gives the VLAN.
    """
    while kind in _VLANS:
        tag = u16(buffer, at, end)
        if vlan < 0 and tag >= 0:  # the outermost tag
            vlan = tag & 0x0FFF
        kind = u16(buffer, at + 2, end)
        at += 4
    return kind, vlan, at


@rare
def _behind_tag(buffer: Any, kind: int, at: int, end: int) -> tuple[int, int]:
    """Skips a tag of another kind than VLAN; returns the ether type behind it, as `_opened`, and the index behind."""
    size = 6
    if kind == _E_TAG:
        size = 8
    elif kind in (_METADATA, _TIMESTAMP):
        first = u32(buffer, at, end)
        if first < 0:
            return -1, at
        if kind == _METADATA and (first >> 16) & 0xFF <= 1:  # words of options; tshark takes any number for one
            size = 8
        elif kind == _TIMESTAMP and first >> 16 == 1 and first & 0xFF in (_TIME_64, _TIME_48):
            size = 14 if first & 0xFF == _TIME_64 else 12
        else:
            return -kind, at
    return u16(buffer, at + size - 2, end), at + size


_TIME_64, _TIME_48 = 0x10, 0x20


@rare
def _opened(buffer: Any, kind: int, at: int, end: int) -> tuple[int, int, int]:
    """Reads what wraps a packet or frame.

    Args:
        kind: one of `_ENVELOPES`.
        at: index behind its ether type.

    Returns:
        Ether type of the content (-1 if it is not captured, a `stop` if it is not followed), the index behind the type,
        and the end of the content.
    """
    if kind == _MACSEC:
        return macsec(buffer, at, end)
    if kind in (LABELS, _MPLS_OTHERS):
        kind, at = mpls(buffer, at, end)
    elif kind == _PPPOE:
        return _pppoe(buffer, at, end)
    elif kind == _PPP:
        kind, at = _ppp(buffer, at, end)
    elif kind == _BACKBONE:  # a service tag, then a frame
        kind, at = FRAME, at + 4
    elif kind == _FABRIC_PATH:
        kind, at = FRAME, at + 2
    elif kind == _TRILL:
        kind, at = _trill(buffer, at, end)
    elif kind == NSH:
        kind, at = _nsh(buffer, at, end)
    elif kind == _BATMAN:
        kind, at = _batman(buffer, at, end)
    elif kind == _LLC_FRAME:
        kind, at = _behind_llc(buffer, at, end)
    else:
        kind = u16(buffer, at + 12, end)
        at += _FRAME_HEADER
        if 0 <= kind <= _LARGEST_LENGTH:
            end = min(end, at + kind)
            kind, at = _behind_llc(buffer, at, end)
        elif 0 <= kind < FIRST_TYPE:
            kind = -kind
    return kind, at, end


@rare
def _pppoe(buffer: Any, at: int, end: int) -> tuple[int, int, int]:
    """Reads a PPPoE session header (RFC 2516, section 4); returns as `_opened`."""
    code, length = u8(buffer, at + 1, end), u16(buffer, at + 4, end)
    if code != 0 or length < 0:
        return -_PPPOE if code > 0 else -1, at, end
    end = min(end, at + 6 + length)
    kind, at = _ppp(buffer, at + 6, end)
    return kind, at, end


@rare
def _trill(buffer: Any, at: int, end: int) -> tuple[int, int]:
    """Reads a TRILL header (RFC 6325) with its options, in front of a frame; returns the kind and its index."""
    first = u16(buffer, at, end)
    if first < 0:
        return -1, at
    return FRAME if first >> 14 == 0 else -_TRILL, at + 6 + 4 * (first >> 6 & 0x1F)


_NSH_NEXT = (-NSH, IPV4, IPV6, FRAME, NSH, LABELS)


@rare
def _nsh(buffer: Any, at: int, end: int) -> tuple[int, int]:
    """Reads a network service header (RFC 8300); returns the kind behind it, as `_opened`, and its index."""
    first = u32(buffer, at, end)
    if first < 0:
        return -1, at
    words, following = first >> 16 & 0x3F, first & 0xFF
    if first >> 30 or words < 2 or following >= len(_NSH_NEXT):
        return -NSH, at
    return _NSH_NEXT[following], at + 4 * words


@rare
def _batman(buffer: Any, at: int, end: int) -> tuple[int, int]:
    """Reads a header of B.A.T.M.A.N. advanced, version 14 or 15, before a frame; returns the kind and its index."""
    first = u16(buffer, at, end)
    if first < 0:
        return -1, at
    if first in (_UNICAST, _OLD_UNICAST):
        return FRAME, at + 10
    if first in (_BROADCAST, _OLD_BROADCAST):
        return FRAME, at + 14
    if first in (_FOUR_ADDRESSES, _OLD_FOUR_ADDRESSES):
        return FRAME, at + 18
    return stop(BATMAN, first >> 8), at


_UNICAST, _BROADCAST, _FOUR_ADDRESSES = 0x400F, 0x010F, 0x420F  # packet type and version
_OLD_UNICAST, _OLD_BROADCAST, _OLD_FOUR_ADDRESSES = 0x030E, 0x040E, 0x060E


# IEEE 802.2 LLC, with SNAP (RFC 1042). Inside IEEE 802.3, 802.11 and cooked captures.

_SNAP, _IP, _UNNUMBERED = 0xAAAA, 0x0606, 0x03
_ENCAPSULATED, _BRIDGED = 0x000000, 0x0000F8
_BARE, _WITH_SNAP = 3, 8  # bytes of the header


@rare
def _behind_llc(buffer: Any, at: int, end: int) -> tuple[int, int]:
    """Reads an LLC header, with SNAP; returns the ether type behind it, as `_opened`, and the index behind."""
    access, control = u16(buffer, at, end), u8(buffer, at + 2, end)
    if control < 0:
        return -1, at
    if control == _UNNUMBERED and access == _IP:
        return IPV4, at + _BARE
    if control == _UNNUMBERED and access == _SNAP:
        high, low = u8(buffer, at + 3, end), u16(buffer, at + 4, end)
        if low < 0:
            return -1, at
        organisation = high << 16 | low
        if organisation in (_ENCAPSULATED, _BRIDGED):
            return u16(buffer, at + 6, end), at + _WITH_SNAP
        return stop(SNAP, organisation), at
    return stop(LLC, access >> 8), at


@rare
def llc(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int]:
    """Reads an LLC header; returns as `follow_ether_type`."""
    kind, behind = _behind_llc(buffer, at, end)
    if behind - at != _WITH_SNAP:
        return -1, -1, kind, behind, end
    return follow_ether_type(buffer, kind, behind, end)


# Ethernet, with an ether type or with a length (IEEE 802.3). Link type 1.

_LARGEST_LENGTH = 1500
_ISL = (0x01000C0000, 0x03000C0000)  # the first five bytes of Cisco's address for frames of an inter-switch link
_ISL_HEADER = 26


@part
def ethernet(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Reads an Ethernet header; see the module."""
    destination, source, kind = u48(buffer, at, end), u48(buffer, at + 6, end), u16(buffer, at + 12, end)
    at += _FRAME_HEADER
    if kind >= FIRST_TYPE:
        kind, vlan, network, at, end = follow_ether_type(buffer, kind, at, end)
    elif kind <= _LARGEST_LENGTH and destination >> 8 in _ISL:
        return _isl(buffer, at - _FRAME_HEADER, end)
    elif 0 <= kind <= _LARGEST_LENGTH:  # bytes after this length are padding
        kind, vlan, network, at, end = llc(buffer, at, min(end, at + kind))
    else:
        kind, vlan, network = -1, -1, -kind if kind > 0 else -1
    return destination, source, kind, vlan, network, at, end


@rare
def _isl(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Reads Cisco's inter-switch link, an Ethernet frame around a frame, whose addresses these are; see the module."""
    kind, length, vlan = u8(buffer, at + 5, end) >> 4, u16(buffer, at + 12, end), u16(buffer, at + 20, end)
    if length < 0 or vlan < 0:
        return -1, -1, -1, -1, -1, at, end
    vlan >>= 1
    end = min(end, at + _FRAME_HEADER + length)
    if kind != 0:  # a frame of token ring, FDDI or ATM
        return -1, -1, -1, vlan, stop(ISL, kind), at, end
    at += _ISL_HEADER
    destination, source = u48(buffer, at, end), u48(buffer, at + 6, end)
    kind = u16(buffer, at + 12, end)
    at += _FRAME_HEADER
    if kind >= FIRST_TYPE:
        kind, _, network, at, end = follow_ether_type(buffer, kind, at, end)
    elif 0 <= kind <= _LARGEST_LENGTH:
        kind, _, network, at, end = llc(buffer, at, min(end, at + kind))
    else:
        kind, network = -1, -kind if kind > 0 else -1
    return destination, source, kind, vlan, network, at, end


# Linux cooked captures, both versions. Link types 113 and 276, as libpcap writes them for the device `any`.

_MAC_BYTES = 6
_LLC = 0x0004


@rare
def _protocol(buffer: Any, kind: int, at: int, end: int) -> tuple[int, int, int, int, int]:
    """Follows a cooked header's protocol; returns as `follow_ether_type`."""
    if kind >= FIRST_TYPE:
        return follow_ether_type(buffer, kind, at, end)
    if kind == _LLC:
        return llc(buffer, at, end)
    return -1, -1, stop(COOKED, kind) if kind >= 0 else -1, at, end


@part
def cooked(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Reads a Linux cooked header; see the module."""
    source = u48(buffer, at + 6, end) if u16(buffer, at + 4, end) == _MAC_BYTES else -1
    kind, vlan, network, at, end = _protocol(buffer, u16(buffer, at + 14, end), at + 16, end)
    return -1, source, kind, vlan, network, at, end


@part
def cooked2(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Reads a Linux cooked header of version 2; see the module."""
    source = u48(buffer, at + 12, end) if u8(buffer, at + 11, end) == _MAC_BYTES else -1
    kind, vlan, network, at, end = _protocol(buffer, u16(buffer, at, end), at + 20, end)
    return -1, source, kind, vlan, network, at, end


# Cisco HDLC: an address, a control byte, and an ether type. Link type 104.


@rare
def hdlc(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Reads a Cisco HDLC header; see the module."""
    kind, vlan, network = u16(buffer, at + 2, end), -1, -1
    at += 4
    if kind >= FIRST_TYPE:
        kind, vlan, network, at, end = follow_ether_type(buffer, kind, at, end)
    elif kind > 0:
        kind, network = -1, -kind
    return -1, -1, kind, vlan, network, at, end


# IP over InfiniBand (RFC 4391, section 6), behind a pseudo-header with the addresses. Link type 242. The addresses
# have 16 and 20 bytes, so they are no MAC addresses.

_ADDRESSES = 40  # bytes of the global routing header, or of zeros and the destination


@rare
def infiniband(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Reads the pseudo-header, the type, and two reserved bytes; see the module."""
    kind, vlan, network = u16(buffer, at + _ADDRESSES, end), -1, -1
    at += _ADDRESSES + 4
    if kind >= FIRST_TYPE:
        kind, vlan, network, at, end = follow_ether_type(buffer, kind, at, end)
    elif kind > 0:
        kind, network = -1, -kind
    return -1, -1, kind, vlan, network, at, end


# Packets that Linux's netfilter logs: attributes, one of which is the packet. Link type 239. Lengths and types are in
# the byte order of the capturing machine, which the type of each attribute shows.

_NFLOG_IPV4, _NFLOG_IPV6 = 2, 10  # address families of Linux
_PAYLOAD = 9
_NUMBER = 0x3F  # the upper bits of a type are flags
_HEADER = 4


@rare
def _attribute(buffer: Any, at: int, end: int) -> tuple[int, int]:
    """Reads length and type of an attribute; -1 each if they are not captured or not possible."""
    first, second, low, high = u8(buffer, at, end), u8(buffer, at + 1, end), u8(buffer, at + 2, end), -1
    if low >= 0:
        high = u8(buffer, at + 3, end)
    if high < 0:
        return -1, -1
    # All types are from 1 to 255, so one of the two bytes is zero but for flags, and the other one is not.
    if low > 0 and high & _NUMBER == 0:
        length, kind = second << 8 | first, low
    elif high > 0 and low & _NUMBER == 0:
        length, kind = first << 8 | second, high
    else:
        return -1, -1
    return (length, kind) if length >= _HEADER else (-1, -1)


@rare
def nflog(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Reads the attributes up to the packet; see the module."""
    family, network = u8(buffer, at, end), -1
    if family == _NFLOG_IPV4:
        network = 0x0800
    elif family == _NFLOG_IPV6:
        network = 0x86DD
    elif family >= 0:
        network = stop(NFLOG, family)
    at += _HEADER
    length, kind = _attribute(buffer, at, end)
    while length > 0 and kind != _PAYLOAD:
        at += length + 3 & ~3
        length, kind = _attribute(buffer, at, end)
    if length < 0:
        return -1, -1, -1, -1, -1, at, end
    return -1, -1, -1, -1, network, at + _HEADER, min(end, at + length)


# BSD loopback: the address family of a packet, in the byte order of the capturing machine or of the network. Link
# types 0 (NULL) and 108 (LOOP). The file does not state the byte order. Families are small numbers, which shows it.

_SWAPPED = 0x0001_0000  # a family in the other byte order is at least this, in its own at most 0xFFFF
_NULL_IPV4 = 2
_NULL_IPV6 = (10, 23, 24, 28, 30)  # Linux, Windows, NetBSD and OpenBSD, FreeBSD, Darwin


@rare
def null(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Reads a loopback header; see the module."""
    family = u32(buffer, at, end)
    if family >= _SWAPPED:
        family = (family & 0xFF) << 24 | (family & 0xFF00) << 8 | (family >> 8) & 0xFF00 | family >> 24
    network = -1
    if family == _NULL_IPV4:
        network = 0x0800
    elif family in _NULL_IPV6:
        network = 0x86DD
    elif family >= 0:
        network = stop(FAMILY, family & 0xFFFF)
    return -1, -1, -1, -1, network, at + 4, end


# IP packets without a link header. Link types 12, 14 and 101 (either version), 228 (IPv4) and 229 (IPv6).


@rare
def raw(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Determines the network from the IP version, since there is no header; see the module."""
    version = u8(buffer, at, end) >> 4
    network = 0x0800 if version == 4 else 0x86DD if version == 6 else -1 if version < 0 else stop(VERSION, version)
    return -1, -1, -1, -1, network, at, end


# IEEE 802.11 frames: addresses, and the payload of unprotected data frames. Link type 105, and behind radiotap.
# Addresses by To DS and From DS: IEEE 802.11-2020, table 9-30.

_MANAGEMENT, _DATA = 0x00, 0x08  # type and version, bits 0 to 3 of the first byte
_NO_DATA, _QOS = 0x40, 0x80  # bits of a data frame's subtype
_TO_DS, _FROM_DS, _PROTECTED, _ORDER = 0x01, 0x02, 0x40, 0x80  # bits of the second byte
_AGGREGATE = 0x80  # bit of the first byte of QoS control: several packets in one frame


@part
def _body(buffer: Any, at: int, end: int, padded: bool) -> int:
    """Returns the index of the LLC header of a data frame; negative if it has no readable one: why, as a network."""
    first, flags, sequence = u8(buffer, at, end), u8(buffer, at + 1, end), u8(buffer, at + 22, end)
    if first & _NO_DATA:
        return stop(WIFI, WIFI_NO_DATA)
    if flags & _PROTECTED:
        return stop(WIFI, WIFI_ENCRYPTED)
    if sequence < 0:
        return -1
    if sequence & 0x0F:  # only the first fragment has an LLC header
        return stop(WIFI, WIFI_FRAGMENT)
    length = 30 if flags & _TO_DS and flags & _FROM_DS else 24
    if first & _QOS:
        quality = u8(buffer, at + length, end)
        if quality < 0:
            return -1
        if quality & _AGGREGATE:
            return stop(WIFI, WIFI_AGGREGATE)
        length += 6 if flags & _ORDER else 2  # HT control follows QoS control
    if padded:
        length = (length + 3) & ~3
    return at + length


@part
def wifi(buffer: Any, at: int, end: int, padded: bool) -> tuple[int, int, int, int, int, int, int]:
    """Reads an 802.11 header; see the module.

    Args:
        at: index of the first byte of the 802.11 header.
        padded: whether radiotap says that the header is padded to a multiple of 4 bytes.
    """
    first, flags = u8(buffer, at, end) & 0x0F, u8(buffer, at + 1, end)
    if u16(buffer, at, end) < 0:
        return -1, -1, -1, -1, -1, at, end
    if first != _MANAGEMENT and first != _DATA:
        return -1, -1, -1, -1, stop(WIFI, WIFI_CONTROL), at, end
    destination, source = u48(buffer, at + 4, end), u48(buffer, at + 10, end)
    if first == _MANAGEMENT:
        return destination, source, -1, -1, stop(WIFI, WIFI_MANAGEMENT), at, end
    if flags & _TO_DS:
        destination = u48(buffer, at + 16, end)
    if flags & _FROM_DS:
        source = u48(buffer, at + 24 if flags & _TO_DS else at + 16, end)
    body = _body(buffer, at, end, padded)
    if body < 0:
        return destination, source, -1, -1, body, at, end
    kind, vlan, network, at, end = llc(buffer, body, end)
    return destination, source, kind, vlan, network, at, end


@part
def wifi_link(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Reads a record that begins with an 802.11 header; see the module."""
    return wifi(buffer, at, end, False)


# The radiotap header of a captured 802.11 frame: only its length and its padding flag are read. Link type 127.

_SMALLEST = 8
_TIME, _FLAGS, _MORE = 0x01, 0x02, 0x80  # bits of the first, and of the last byte of a word of presence
_PADDED = 0x20  # bit of the flags


@part
def _flags(buffer: Any, at: int, end: int) -> int:
    """Reads the flags of a radiotap header in [at, end); 0 if it has none."""
    present = u8(buffer, at + 4, end)
    if present < 0 or not present & _FLAGS:
        return 0
    field = at + 8
    while u8(buffer, field - 1, end) >= _MORE:  # u8 is -1 beyond the end
        field += 4
    if present & _TIME:  # 8 bytes, aligned to 8 from the start of the header
        field += -(field - at) % 8 + 8
    return max(u8(buffer, field, end), 0)


@part
def radiotap(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Reads a radiotap header and the 802.11 header after it; see the module."""
    low, high = u8(buffer, at + 2, end), u8(buffer, at + 3, end)
    length = low | high << 8
    if u8(buffer, at, end) != 0 or high < 0 or length < _SMALLEST or length > end - at:
        return -1, -1, -1, -1, -1, at, end
    padded = _flags(buffer, at, at + length) & _PADDED != 0
    return wifi(buffer, at + length, end, padded)


# Headers about the reception of an 802.11 frame, older than radiotap: Prism and AVS. Only their length is read. Link
# types 119 and 163. Drivers write AVS headers under the number of Prism, too, and some write none. Prism's numbers
# are in the byte order of the capturing machine.

_CODES = (0x44, 0x41)  # "sniff frame" of the Prism II and of the wlan-ng driver
_LEAST, _LEAST_AVS = 24, 8
_AVS, _PRISM_VERSION = 0x8021_1000, 0xFFF


@rare
def avs(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Reads an AVS header and the 802.11 header after it; see the module."""
    length = u32(buffer, at + 4, end)
    if u32(buffer, at, end) & ~_PRISM_VERSION != _AVS or length < _LEAST_AVS or length > end - at:
        return -1, -1, -1, -1, -1, at, end
    return wifi(buffer, at + length, end, False)


@rare
def prism(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Reads a Prism header and the 802.11 header after it; see the module."""
    if at + 8 > end:
        return -1, -1, -1, -1, -1, at, end
    code, length = u32(buffer, at, end), u32(buffer, at + 4, end)
    if code & ~_PRISM_VERSION == _AVS:
        return avs(buffer, at, end)
    if code not in _CODES:
        code, length = little32(buffer, at), little32(buffer, at + 4)
    if code not in _CODES:
        return wifi(buffer, at, end, False)
    if length < _LEAST or length > end - at:
        return -1, -1, -1, -1, -1, at, end
    return wifi(buffer, at + length, end, False)


# Per-packet information (PPI) of a wireless capture: fields about the reception, then a record of a named link type.
# Link type 192. Only the length of the header and the link type are read.

_PPI_HEADER = 8
_ETHERNET, _WIFI, _RAW = 1, 105, 101


@rare
def ppi(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Reads a PPI header and the header after it; see the module."""
    if at + _PPI_HEADER > end or u8(buffer, at, end) != 0:
        return -1, -1, -1, -1, -1, at, end
    length = u8(buffer, at + 2, end) | u8(buffer, at + 3, end) << 8
    kind = little32(buffer, at + 4)
    if length < _PPI_HEADER or length > end - at:
        return -1, -1, -1, -1, -1, at, end
    at += length
    if kind == _WIFI:
        return wifi(buffer, at, end, False)
    if kind == _ETHERNET:
        return ethernet(buffer, at, end)
    if kind == _RAW:
        return raw(buffer, at, end)
    return -1, -1, -1, -1, -1, at, end


# Transfers of USB that Linux's usbmon records, of network adapters whose blocks say that they hold Ethernet frames.
# Link types 189 and 220. Two formats of adapters name themselves in their first bytes: RNDIS, and the network control
# model (NCM) of the USB Implementers Forum, with offsets of 16 or 32 bits. The first frame of a block is read;
# numbers of USB are little endian on every machine. The header of usbmon has the byte order of the capturing machine,
# but for single bytes, which are all that is read of it.

_USB_HEADER, _LONG_HEADER = 48, 64
_TRANSFER, _USB_DATA = 9, 15  # type of the transfer, and 0 where data follow
_BULK = 3
_RNDIS_PACKET, _RNDIS_HEADER, _RNDIS_COUNTED_FROM = 1, 44, 8
_BLOCK16, _BLOCK32 = 0x4E43_4D48, 0x6E63_6D68  # "NCMH", "ncmh"
_FRAMES16, _FRAMES32 = 0x4E43_4D30, 0x6E63_6D30  # "NCM0", "ncm0"; with 1 a checksum (CRC-32) ends each frame
_CHECKSUM = 4
_USB_ETHERNET = 14


@rare
def _rndis(buffer: Any, at: int, end: int) -> tuple[int, int]:
    """Returns begin and end of the frame in a message of RNDIS; -1 each if the bytes are none."""
    if at + _RNDIS_HEADER > end or little32(buffer, at) != _RNDIS_PACKET:
        return -1, -1
    length, offset, size = little32(buffer, at + 4), little32(buffer, at + 8), little32(buffer, at + 12)
    begin = _RNDIS_COUNTED_FROM + offset
    if begin < _RNDIS_HEADER or begin + size > length:
        return -1, -1
    return at + begin, at + begin + size


@rare
def _ncm(buffer: Any, at: int, end: int) -> tuple[int, int]:
    """Returns begin and end of the first frame in a block of NCM; -1 each if the bytes are none."""
    block = u32(buffer, at, end)
    wide = block == _BLOCK32
    if (not wide and block != _BLOCK16) or at + 16 > end:
        return -1, -1
    least = 16 if wide else 12
    table = little32(buffer, at + 12) if wide else little16(buffer, at + 10)
    entry = at + table + (16 if wide else 8)
    if little16(buffer, at + 4) != least or table < least or entry + 8 > end:
        return -1, -1
    checked = u32(buffer, at + table, end) - (_FRAMES32 if wide else _FRAMES16)
    if checked != 0 and checked != 1:
        return -1, -1
    offset = little32(buffer, entry) if wide else little16(buffer, entry)
    size = little32(buffer, entry + 4) if wide else little16(buffer, entry + 2)
    size -= _CHECKSUM * checked
    if offset < least:
        return -1, -1
    return at + offset, at + offset + size


@rare
def _transfer(buffer: Any, at: int, end: int, header: int) -> tuple[int, int, int, int, int, int, int]:
    """Reads the Ethernet header of a transfer behind `header` bytes of usbmon."""
    if at + header > end:
        return -1, -1, -1, -1, -1, at, end
    if byte(buffer, at + _TRANSFER) != _BULK or byte(buffer, at + _USB_DATA) != 0:
        return -1, -1, -1, -1, stop(USB, 0), at, end
    at += header
    begin, behind = _rndis(buffer, at, end)
    if begin < 0:
        begin, behind = _ncm(buffer, at, end)
    if begin < 0 or behind - begin < _USB_ETHERNET:
        return -1, -1, -1, -1, stop(USB, 0), at, end
    if begin >= end:
        return -1, -1, -1, -1, -1, at, end
    return ethernet(buffer, begin, min(end, behind))


@rare
def usb(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Reads a header of 48 bytes and an Ethernet header behind it; see the module."""
    return _transfer(buffer, at, end, _USB_HEADER)


@rare
def usb_mmapped(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Reads a header of 64 bytes and an Ethernet header behind it; see the module."""
    return _transfer(buffer, at, end, _LONG_HEADER)


LAYERS = (
    LinkLayer("cooked", {113: "LINUX_SLL"}, cooked),
    LinkLayer("cooked2", {276: "LINUX_SLL2"}, cooked2),
    LinkLayer("ethernet", {1: "EN10MB"}, ethernet),
    LinkLayer("hdlc", {104: "C_HDLC"}, hdlc),
    LinkLayer("infiniband", {242: "IPOIB"}, infiniband),
    LinkLayer("nflog", {239: "NFLOG"}, nflog),
    LinkLayer("null", {0: "NULL", 108: "LOOP"}, null),
    LinkLayer("ppi", {192: "PPI"}, ppi),
    LinkLayer("ppp", {9: "PPP", 50: "PPP_SERIAL"}, ppp_link),
    LinkLayer("prism", {119: "IEEE802_11_PRISM"}, prism),
    LinkLayer("avs", {163: "IEEE802_11_AVS"}, avs),
    LinkLayer("radiotap", {127: "RADIOTAP"}, radiotap),
    LinkLayer("raw", {12: "RAW12", 14: "RAW14", 101: "RAW", 228: "IPV4", 229: "IPV6"}, raw),
    LinkLayer("usb", {189: "USB_LINUX"}, usb),
    LinkLayer("usbmapped", {220: "USB_LINUX_MMAPPED"}, usb_mmapped),
    LinkLayer("wifi", {105: "80211"}, wifi_link),
)
"""All link layers that are decoded; records of other link types have only timestamp and lengths."""

_NUMBERED = by_number([(layer, layer.link_types) for layer in LAYERS])

LINK_TYPES: dict[int, LinkLayer] = {number: layer for number, (layer, _) in _NUMBERED.items()}
"""Link layer by link type."""

NAMES: dict[int, str] = {number: name for number, (_, name) in _NUMBERED.items()}
"""Name by link type."""
