"""Packets whose headers are not decoded to IP: what stands in place of an IP header, and whether IP could be behind it.

The kernels of `headers.packet` list such records with the network of their link reader (`links`). `Undecoded` counts
them by a short text that the ledger of captures keeps, such as `0x8926` or `PPP 0x00fd`; what the text means is looked
up where it is read, so that a better table needs no new ingest.

Whether a type can carry IP is a table of those that cannot (`NOT_IP`): a type that nobody lists may carry it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lowwater import documents

MOST_TYPES = 32
"""Most types of a capture that are kept apart; the rest is `OTHER`."""

OTHER = "other"
CUT = "cut"
"""Texts of many types together, and of records whose headers are cut or damaged before a type is known."""

FRAGMENT, UNSAID = "later fragment of ", "length 0"
"""Texts of packets with an IP header that are counted beside: the later fragments of a protocol, by its number, which
have no ports; and those whose header leaves their length to the frame."""

TOLD = 0.001
"""Share of packets or bytes from which `init`, `ingest` and `run` say what is not decoded."""


class Count(NamedTuple):
    """Packets, and their bytes on the wire."""

    packets: int
    bytes: int

    def plus(self, other: Count) -> Count:
        return Count(self.packets + other.packets, self.bytes + other.bytes)


NONE = Count(0, 0)


@dataclass
class Undecoded:
    """Counts the packets of an interface, and those without an IP header by type."""

    wire: int = 0
    types: dict[str, Count] = field(default_factory=dict)

    @property
    def packets(self) -> int:
        """Number of packets without an IP header."""
        return sum(count.packets for text, count in self.types.items() if not is_beside(text))

    def add(self, wires: NDArray[np.int64], rows: NDArray[np.int64], networks: NDArray[np.int64], link: int) -> None:
        """Counts records.

        Args:
            wires: shape (n), bytes on the wire of all records.
            rows: shape (m), indices of those without an IP header.
            networks: shape (m), the networks that the link reader returned for them.
            link: link type number.
        """
        from lowwater.capture.headers.type_texts import type_text

        self.wire += int(wires.sum(dtype=np.int64))
        if not len(rows):
            return
        numbers, inverse, packets = np.unique(networks, return_inverse=True, return_counts=True)
        sizes = np.zeros(len(numbers), np.int64)
        np.add.at(sizes, inverse, wires[rows])
        for number, *count in zip(numbers.tolist(), packets.tolist(), sizes.tolist(), strict=True):
            self._put(type_text(number, link), Count(*count))

    def add_beside(
        self, wires: NDArray[np.int64], later: NDArray[np.int32], rows: NDArray[np.intp], unsaid: NDArray[np.intp]
    ) -> None:
        """Counts packets with an IP header that a query may miss.

        Args:
            wires: shape (n), bytes on the wire of all records.
            later: shape (m), protocols of later fragments.
            rows: shape (m), their indices.
            unsaid: indices of packets whose header leaves the length to the frame.
        """
        for protocol in np.unique(later).tolist():
            of = rows[later == protocol]
            self._put(f"{FRAGMENT}{protocol}", Count(len(of), int(wires[of].sum(dtype=np.int64))))
        if len(unsaid):
            self._put(UNSAID, Count(len(unsaid), int(wires[unsaid].sum(dtype=np.int64))))

    def merge(self, other: Undecoded) -> None:
        """Adds what another one has counted."""
        self.wire += other.wire
        for text, count in other.types.items():
            self._put(text, count)

    @staticmethod
    def stored(text: str) -> Undecoded:
        """Reads what `stored_types` wrote.

        Example:
            >>> Undecoded.stored(stored_types({"0x8926": Count(2, 120)}, 900))
            Undecoded(wire=900, types={'0x8926': Count(packets=2, bytes=120)})
        """
        document = documents.stored_object(text)
        return Undecoded(document["wire"], {name: Count(*count) for name, count in document["types"].items()})

    def _put(self, text: str, count: Count) -> None:
        self.types[text] = self.types.get(text, NONE).plus(count)

    @property
    def largest(self) -> dict[str, Count]:
        """The `MOST_TYPES` types of most packets, and the others as one."""
        return largest(self.types)


def together(counts: Iterable[Mapping[str, Count]]) -> dict[str, Count]:
    """Returns the sums of several counts by type."""
    total = Undecoded()
    for types in counts:
        total.merge(Undecoded(0, dict(types)))
    return total.types


def largest(types: Mapping[str, Count], most: int = MOST_TYPES) -> dict[str, Count]:
    """Returns the types with most packets, and the others as `OTHER`.

    Example:
        >>> largest({"0x88cc": Count(1, 60), "0x8926": Count(9, 900), "cut": Count(2, 20)}, 1)
        {'0x8926': Count(packets=9, bytes=900), 'other': Count(packets=3, bytes=80)}
    """
    beside = {text: count for text, count in types.items() if is_beside(text)}
    others = [item for item in types.items() if item[0] not in beside]
    ordered = sorted(others, key=lambda item: (item[0] == OTHER, -item[1].packets, item[0]))
    kept = dict(ordered[:most])
    for _, count in ordered[most:]:
        kept[OTHER] = kept.get(OTHER, NONE).plus(count)
    return kept | beside


def is_beside(text: str) -> bool:
    """Whether a text is of packets with an IP header, which are decoded.

    Example:
        >>> is_beside("later fragment of 17"), is_beside("length 0"), is_beside("0x88cc")
        (True, True, False)
    """
    return text == UNSAID or text.startswith(FRAGMENT)


NOT_IP: dict[str, str] = {
    # Ether types of IEEE, IETF and Ethernet itself.
    "0x0806": "ARP", "0x8035": "RARP", "0x0842": "Wake-on-LAN", "0x22ea": "SRP", "0x22f0": "AVTP",
    "0x22f4": "IS-IS of TRILL", "0x8808": "flow control", "0x8809": "LACP, OAM", "0x8863": "PPPoE discovery",
    "0x888e": "EAPOL", "0x88b7": "vendor protocols of IEEE 802", "0x88c7": "RSN", "0x88cc": "LLDP", "0x88ee": "E-LMI",
    "0x88f5": "MVRP", "0x88f6": "MMRP", "0x88f7": "PTP", "0x88f8": "NC-SI", "0x88fb": "supervision of HSR and PRP",
    "0x8902": "CFM", "0x890d": "802.11 over Ethernet", "0x8917": "MIH", "0x8929": "MIRP", "0x893a": "IEEE 1905",
    "0x8940": "ECP", "0x8942": "LLDP", "0x8946": "TRILL channel", "0x9000": "loopback test",
    # Industry, energy, vehicles and buildings.
    "0x8892": "PROFINET", "0x88a4": "EtherCAT", "0x88ab": "POWERLINK", "0x3e3f": "POWERLINK", "0x88b8": "GOOSE",
    "0x88b9": "GSE", "0x88ba": "sampled values", "0x88cd": "SERCOS III", "0x88e3": "MRP", "0x890f": "CC-Link IE",
    "0x891d": "TTEthernet", "0x8819": "CobraNet", "0x8947": "GeoNetworking", "0x88dc": "WSMP", "0x80e1": "DLR",
    "0xb62c": "OPC UA", "0xaefe": "eCPRI", "0x88f0": "FlexRay", "0x9021": "RTmac", "0x9022": "RTcfg",
    "0x0c15": "C15", "0xd00d": "TDM over Ethernet", "0x88d8": "circuit emulation",
    # Disks, clusters and home networks.
    "0x8906": "FCoE", "0x8914": "FIP", "0x8915": "RoCE", "0x88a2": "ATA over Ethernet", "0x889a": "HyperSCSI",
    "0xcafe": "LLT", "0x886d": "Intel ANS", "0x886f": "NLB heartbeat", "0x88d9": "LLTD", "0x88ca": "TIPC",
    "0x887b": "HomePlug", "0x88e1": "HomePlug AV", "0x886c": "HomePNA", "0x8912": "mediaxtream",
    # Vendors' protocols between devices.
    "0x2000": "CDP", "0x2001": "CGMP", "0x2003": "VTP", "0x2004": "DTP", "0x8783": "MiNT", "0x8988": "heartbeat",
    "0x8102": "BOFL", "0x8103": "LACP", "0x8133": "NSRP", "0x88b4": "WAPI", "0x872d": "WLCCP", "0xfcfc": "MDS header",
    # Other network protocols.
    "0x00fe": "IS-IS, CLNP", "0xfefe": "IS-IS, CLNP", "0x0600": "XNS", "0x0bad": "VINES", "0x0baf": "VINES",
    "0x6000": "DEC", "0x6001": "DEC", "0x6002": "DEC", "0x6003": "DECnet", "0x6004": "LAT", "0x6005": "DEC",
    "0x6006": "DEC", "0x6007": "LAVC", "0x8038": "DEC spanning tree", "0x809b": "AppleTalk", "0x80f3": "AARP",
    "0x80d5": "SNA", "0x8137": "IPX", "0x8138": "IPX", "0x814c": "SNMP", "0x8181": "STP", "0x8204": "QNX",
    # LLC and SNAP.
    "LLC 0x00": "LLC test", "LLC 0x04": "SNA", "LLC 0x08": "SNA", "LLC 0x42": "STP", "LLC 0x4e": "MMS",
    "LLC 0x80": "XNS", "LLC 0x86": "LLC management", "LLC 0x8e": "PROFIBUS", "LLC 0x98": "ARP", "LLC 0xbc": "VINES",
    "LLC 0xe0": "IPX", "LLC 0xf0": "NetBIOS", "LLC 0xf4": "LAN management", "LLC 0xf8": "remote load",
    "LLC 0xfc": "remote load", "LLC 0xfe": "IS-IS, CLNP", "LLC 0xff": "IPX",
    "SNAP 0x00000c": "CDP, VTP, DTP, PVST", "SNAP 0x000081": "SONMP", "SNAP 0x0001af": "SONMP",
    "SNAP 0x00e02b": "EDP", "SNAP 0x00e052": "FDP", "SNAP 0x080007": "AppleTalk", "SNAP 0x004096": "Aironet",
    # PPP, but for its protocols of control.
    "PPP 0x0023": "CLNP", "PPP 0x0025": "XNS", "PPP 0x0027": "DECnet", "PPP 0x0029": "AppleTalk", "PPP 0x002b": "IPX",
    "PPP 0x0035": "VINES", "PPP 0x003f": "NetBIOS", "PPP 0x004b": "SNA",
    # Frames without a packet.
    "802.11 management": "", "802.11 control": "", "802.11 without data": "", "USB transfer": "", "MPLS channel": "",
    "batman 0x00": "OGM", "batman 0x03": "ELP", "batman 0x04": "OGM2", "batman 0x43": "ICMP", "batman 0x44": "TVLV",
    "nflog family 3": "ARP", "family 7": "DECnet", "family 16": "AppleTalk",
    "cooked 0x0001": "IPX", "cooked 0x000c": "CAN", "cooked 0x000d": "CAN FD",
    **{
        f"link type {name}": ""
        for name in (
            "AUERSWALD_LOG", "BACNET_MS_TP", "BLUETOOTH_BREDR_BB", "BLUETOOTH_HCI_H4", "BLUETOOTH_HCI_H4_WITH_PHDR",
            "BLUETOOTH_LE_LL", "BLUETOOTH_LE_LL_WITH_PHDR", "BLUETOOTH_LINUX_MONITOR", "CAN20B", "CAN_SOCKETCAN",
            "DBUS", "DISPLAYPORT_AUX", "ETW", "FLEXRAY", "I2C_LINUX", "ISO_14443", "LAPD", "LIN", "LINUX_EVDEV",
            "LINUX_LAPD", "MOST", "MTP2", "MTP2_WITH_PHDR", "MTP3", "NETLINK", "NORDIC_BLE", "OPENVIZSLA", "PCI_EXP",
            "PROFIBUS_DL", "RTAC_SERIAL", "SCCP", "SERCOS_MONITOR", "USBPCAP", "USB_2_0", "USB_2_0_FULL_SPEED",
            "USB_2_0_HIGH_SPEED", "USB_2_0_LOW_SPEED", "USB_DARWIN", "USB_FREEBSD", "WIHART", "WIRESHARK_UPPER_PDU",
            "ZBOSS_NCP", "ZWAVE_R1_R2", "ZWAVE_R3", "ZWAVE_TAP", "Z_WAVE_SERIAL",
        )
    },
}  # fmt: skip
"""Types that carry no IP, with the name of the protocol: none of them is missed in a row of IP."""

_PPP_CONTROL = "PPP 0x8000"  # protocols from here on configure a link

NAMES: dict[str, str] = {
    "0x0800": "IPv4, without a whole header", "0x86dd": "IPv6, without a whole header", "0x8847": "MPLS",
    "0x8848": "MPLS", "0x8864": "PPPoE", "0x88e5": "MACsec, encrypted", "0x8909": "Cisco metadata", "0x894f": "NSH",
    "0x22f3": "TRILL", "0xd28b": "Arista timestamp", "0x8874": "Broadcom tag", "0xdada": "EDSA", "0x8899": "Realtek",
    "0x88bb": "LWAPP", "0x22e5": "Gigamon header", "0x22f1": "ROHC", "0x99fe": "TECMP", "0x2090": "TECMP",
    "0x9104": "eero", "0x88b5": "experiments", "0x88b6": "experiments", "0x4305": "B.A.T.M.A.N.",
    "0xa0ed": "6LoWPAN", "0x809a": "IEEE 802.15.4", "0x8904": "Cisco", "0x88a9": "Extreme mesh",
    "PPP 0x002d": "compressed TCP", "PPP 0x002f": "compressed TCP", "PPP 0x0031": "bridging", "PPP 0x003d": "multilink",
    "PPP 0x0053": "encrypted", "PPP 0x0055": "encrypted", "PPP 0x00fd": "compressed", "PPP 0x00fb": "compressed",
    "LLC 0x06": "IP", "LLC 0xaa": "SNAP", "LLC 0x7e": "X.25", "batman 0x41": "fragment", "batman 0x02": "coded",
}  # fmt: skip
"""Names of types that may carry IP."""


def may_carry_ip(text: str) -> bool:
    """Whether packets of a type can have IP that is not decoded.

    Example:
        >>> may_carry_ip("0x8926"), may_carry_ip("0x88cc"), may_carry_ip("PPP 0xc021"), may_carry_ip("802.11 encrypted")
        (True, False, False, True)
    """
    return text not in NOT_IP and not is_beside(text) and not (text.startswith("PPP ") and text >= _PPP_CONTROL)


def name_of(text: str) -> str:
    """Returns the name of a type; empty if it has none.

    Example:
        >>> name_of("0x88e5"), name_of("0x88cc"), name_of("0x1234")
        ('MACsec, encrypted', 'LLDP', '')
    """
    return NAMES.get(text) or NOT_IP.get(text, "")


def carriers(types: Mapping[str, Count]) -> dict[str, Count]:
    """Returns the types that may carry IP, the one of most packets first."""
    found = [(text, count) for text, count in types.items() if may_carry_ip(text)]
    return dict(sorted(found, key=lambda item: (-item[1].packets, item[0])))


def stored_types(types: Mapping[str, Count], wire: int) -> str:
    """Returns counts by type, and the bytes of all packets, as the ledger of captures keeps them.

    Example:
        >>> stored_types({"0x8926": Count(2, 120)}, 900)
        '{"wire": 900, "types": {"0x8926": [2, 120]}}'
    """
    return json.dumps({"wire": wire, "types": dict(sorted(types.items()))})


_SHOWN = 4


@dataclass(frozen=True)
class Share:
    """What of some packets may carry IP and is not decoded.

    Attributes:
        types: by type; of those that may carry IP alone.
        packets: number of all packets.
        wire: their bytes on the wire.
    """

    types: Mapping[str, Count]
    packets: int
    wire: int

    @staticmethod
    def of(types: Mapping[str, Count], packets: int, wire: int) -> Share:
        """Takes the types that may carry IP from any."""
        return Share(carriers(types), packets, wire)

    def plus(self, other: Share) -> Share:
        """Returns the share of the packets of both."""
        types = together([self.types, other.types])
        return Share.of(types, self.packets + other.packets, self.wire + other.wire)

    @property
    def count(self) -> Count:
        """Packets and bytes that are not decoded."""
        return Count(*(sum(each[at] for each in self.types.values()) for at in (0, 1)))

    @property
    def largest(self) -> float:
        """The share of packets or that of bytes, whichever is larger."""
        count = self.count
        return max(count.packets / (self.packets or 1), count.bytes / (self.wire or 1))

    @property
    def words(self) -> str:
        """Says what is not decoded; empty if it is less than `TOLD`.

        Example:
            >>> Share.of({"0x8874": Count(1, 90), "0x88cc": Count(5, 300)}, 8, 500).words
            '1 of 8 packets (12.50%, 18.00% of the bytes) may carry IP and are not decoded: 0x8874 (Broadcom tag) 1'
        """
        if self.largest < TOLD:
            return ""
        count = self.count
        shares = f"{count.packets / (self.packets or 1):.2%}, {count.bytes / (self.wire or 1):.2%} of the bytes"
        told = f"{count.packets:,} of {self.packets:,} packets ({shares}) may carry IP and are not decoded"
        return f"{told}: {types_words(self.types)}"


NOTHING = Share({}, 0, 0)
"""The share of no packets."""


def types_words(types: Mapping[str, Count]) -> str:
    """Names types with their packets.

    Example:
        >>> types_words({"0x1234": Count(1200, 0), "0x88e5": Count(3, 0)})
        '0x1234 1,200, 0x88e5 (MACsec, encrypted) 3'
    """
    shown = list(types.items())[:_SHOWN]
    words = [f"{text} ({name}) {count.packets:,}" if (name := name_of(text)) else f"{text} {count.packets:,}"
             for text, count in shown]  # fmt: skip
    rest = sum(count.packets for count in list(types.values())[_SHOWN:])
    return ", ".join(words) + (f", {len(types) - _SHOWN} more types {rest:,}" if rest else "")
