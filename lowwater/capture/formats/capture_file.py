"""What the header of a capture file says, the names of link types, and how a capture is written."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lowwater.capture.headers.links import NAMES

# Headers of capture files

# A header may claim any snaplen. A record beyond this limit counts as damage, which bounds the memory of a reader.
_SMALLEST_LIMIT = 262_144
_LARGEST_LIMIT = 1 << 24


LISTED: dict[int, str] = {
    0: "NULL", 1: "ETHERNET", 2: "EXP_ETHERNET", 3: "AX25", 4: "PRONET", 5: "CHAOS", 6: "IEEE802_5",
    7: "ARCNET_BSD", 8: "SLIP", 9: "PPP", 10: "FDDI", 50: "PPP_HDLC", 51: "PPP_ETHER", 99: "SYMANTEC_FIREWALL",
    100: "ATM_RFC1483", 101: "RAW", 102: "SLIP_BSDOS", 103: "PPP_BSDOS", 104: "C_HDLC", 105: "IEEE802_11",
    106: "ATM_CLIP", 107: "FRELAY", 108: "LOOP", 109: "ENC", 110: "LANE8023", 111: "HIPPI", 112: "NETBSD_HDLC",
    113: "LINUX_SLL", 114: "LTALK", 115: "ECONET", 116: "IPFILTER", 117: "PFLOG", 118: "CISCO_IOS",
    119: "IEEE802_11_PRISM", 120: "IEEE802_11_AIRONET", 121: "HHDLC", 122: "IP_OVER_FC", 123: "SUNATM", 124: "RIO",
    125: "PCI_EXP", 126: "AURORA", 127: "IEEE802_11_RADIOTAP", 128: "TZSP", 129: "ARCNET_LINUX",
    130: "JUNIPER_MLPPP", 131: "JUNIPER_MLFR", 132: "JUNIPER_ES", 133: "JUNIPER_GGSN", 134: "JUNIPER_MFR",
    135: "JUNIPER_ATM2", 136: "JUNIPER_SERVICES", 137: "JUNIPER_ATM1", 138: "APPLE_IP_OVER_IEEE1394",
    139: "MTP2_WITH_PHDR", 140: "MTP2", 141: "MTP3", 142: "SCCP", 143: "DOCSIS", 144: "LINUX_IRDA", 145: "IBM_SP",
    146: "IBM_SN", 147: "USER0", 148: "USER1", 149: "USER2", 150: "USER3", 151: "USER4", 152: "USER5",
    153: "USER6", 154: "USER7", 155: "USER8", 156: "USER9", 157: "USER10", 158: "USER11", 159: "USER12",
    160: "USER13", 161: "USER14", 162: "USER15", 163: "IEEE802_11_AVS", 164: "JUNIPER_MONITOR",
    165: "BACNET_MS_TP", 166: "PPP_PPPD", 167: "JUNIPER_PPPOE", 168: "JUNIPER_PPPOE_ATM", 169: "GPRS_LLC",
    170: "GPF_T", 171: "GPF_F", 172: "GCOM_T1E1", 173: "GCOM_SERIAL", 174: "JUNIPER_PIC_PEER", 175: "ERF_ETH",
    176: "ERF_POS", 177: "LINUX_LAPD", 178: "JUNIPER_ETHER", 179: "JUNIPER_PPP", 180: "JUNIPER_FRELAY",
    181: "JUNIPER_CHDLC", 182: "MFR", 183: "JUNIPER_VP", 184: "A429", 185: "A653_ICM", 186: "USB_FREEBSD",
    187: "BLUETOOTH_HCI_H4", 188: "IEEE802_16_MAC_CPS", 189: "USB_LINUX", 190: "CAN20B", 191: "IEEE802_15_4_LINUX",
    192: "PPI", 193: "IEEE802_16_MAC_CPS_RADIO", 194: "JUNIPER_ISM", 195: "IEEE802_15_4_WITHFCS", 196: "SITA",
    197: "ERF", 198: "RAIF1", 199: "IPMB_KONTRON", 200: "JUNIPER_ST", 201: "BLUETOOTH_HCI_H4_WITH_PHDR",
    202: "AX25_KISS", 203: "LAPD", 204: "PPP_WITH_DIR", 205: "C_HDLC_WITH_DIR", 206: "FRELAY_WITH_DIR",
    207: "LAPB_WITH_DIR", 209: "I2C_LINUX", 210: "FLEXRAY", 211: "MOST", 212: "LIN", 213: "X2E_SERIAL",
    214: "X2E_XORAYA", 215: "IEEE802_15_4_NONASK_PHY", 216: "LINUX_EVDEV", 217: "GSMTAP_UM", 218: "GSMTAP_ABIS",
    219: "MPLS", 220: "USB_LINUX_MMAPPED", 221: "DECT", 222: "AOS", 223: "WIHART", 224: "FC_2",
    225: "FC_2_WITH_FRAME_DELIMS", 226: "IPNET", 227: "CAN_SOCKETCAN", 228: "IPV4", 229: "IPV6",
    230: "IEEE802_15_4_NOFCS", 231: "DBUS", 232: "JUNIPER_VS", 233: "JUNIPER_SRX_E2E", 234: "JUNIPER_FIBRECHANNEL",
    235: "DVB_CI", 236: "MUX27010", 237: "STANAG_5066_D_PDU", 238: "JUNIPER_ATM_CEMIC", 239: "NFLOG",
    240: "NETANALYZER", 241: "NETANALYZER_TRANSPARENT", 242: "IPOIB", 243: "MPEG_2_TS", 244: "NG40",
    245: "NFC_LLCP", 246: "PFSYNC", 247: "INFINIBAND", 248: "SCTP", 249: "USBPCAP", 250: "RTAC_SERIAL",
    251: "BLUETOOTH_LE_LL", 252: "WIRESHARK_UPPER_PDU", 253: "NETLINK", 254: "BLUETOOTH_LINUX_MONITOR",
    255: "BLUETOOTH_BREDR_BB", 256: "BLUETOOTH_LE_LL_WITH_PHDR", 257: "PROFIBUS_DL", 258: "PKTAP", 259: "EPON",
    260: "IPMI_HPM_2", 261: "ZWAVE_R1_R2", 262: "ZWAVE_R3", 263: "WATTSTOPPER_DLM", 264: "ISO_14443", 265: "RDS",
    266: "USB_DARWIN", 267: "OPENFLOW", 268: "SDLC", 269: "TI_LLN_SNIFFER", 270: "LORATAP", 271: "VSOCK",
    272: "NORDIC_BLE", 273: "DOCSIS31_XRA31", 274: "ETHERNET_MPACKET", 275: "DISPLAYPORT_AUX", 276: "LINUX_SLL2",
    277: "SERCOS_MONITOR", 278: "OPENVIZSLA", 279: "EBHSCR", 280: "VPP_DISPATCH", 281: "DSA_TAG_BRCM",
    282: "DSA_TAG_BRCM_PREPEND", 283: "IEEE802_15_4_TAP", 284: "DSA_TAG_DSA", 285: "DSA_TAG_EDSA", 286: "ELEE",
    287: "Z_WAVE_SERIAL", 288: "USB_2_0", 289: "ATSC_ALP", 290: "ETW", 291: "NETANALYZER_NG", 292: "ZBOSS_NCP",
    293: "USB_2_0_LOW_SPEED", 294: "USB_2_0_FULL_SPEED", 295: "USB_2_0_HIGH_SPEED", 296: "AUERSWALD_LOG",
    297: "ZWAVE_TAP", 298: "SILABS_DEBUG_CHANNEL", 299: "FIRA_UCI", 300: "MDB", 301: "DECT_NR", 302: "EDK2_MM",
    303: "DEBUG_ONLY", 304: "DECT_NR_TAP",
}  # fmt: skip
"""Name by link type, without its prefix LINKTYPE_: https://www.tcpdump.org/linktypes.html, and libpcap's list.

The link layers of `headers.links` name the types that are decoded; some of those names are older, and lakes hold them.
"""

FILE_HEADER = 24
SNOOP_HEADER = 16
RECORD_HEADER = 16
ETHERNET = 1


_LINK_NAMES = LISTED | NAMES
LINK_NUMBERS = {name: number for number, name in _LINK_NAMES.items()}
"""Link type numbers by name."""


@dataclass(frozen=True)
class CaptureFile:
    """Facts of the file header of a capture; of a pcapng, facts of its first section and first interface.

    Attributes:
        format: `pcap`, `pcapng`, `snoop` or `erf`.
        byte_order: `little` or `big`.
        resolution: `us`, `ns`, or the unit of a pcapng timestamp as a part of a second, such as `10^-12` or `2^-10`;
            empty if a pcapng has no interface before its packets.
        link_number: link type of the file, without the bits about frame check sequences; -1 without an interface.
        link_type: name of the link type, or its number as text if nobody lists it; empty without an interface.
        snaplen: largest captured length, as in the file (untrusted; 0 for no limit).
        bytes: stored size of the file; 0 for a stream.
        compression: `gzip`, `zstd`, `xz` or `lz4`; empty for a plain file.
        version: version of the format.
        modified: whether records have the longer headers of Kuznetzov's modified pcap.
    """

    path: Path
    format: str
    byte_order: str
    resolution: str
    link_number: int
    link_type: str
    snaplen: int
    bytes: int
    compression: str = ""
    version: tuple[int, int] = (2, 4)
    modified: bool = False

    @property
    def decoded(self) -> bool:
        """Whether records of this link type are decoded beyond timestamp and lengths."""
        return self.link_number in NAMES

    @property
    def units(self) -> int:
        """Nanoseconds per unit of the sub-second fields of a pcap or snoop capture."""
        return 1000 if self.resolution == "us" else 1

    @property
    def limit(self) -> int:
        """Largest plausible captured length, bytes: the snaplen, at least 256 KiB and at most 16 MiB."""
        return max(_SMALLEST_LIMIT, min(self.snaplen, _LARGEST_LIMIT))


def link_name(number: int) -> str:
    """Returns the name of a link type, or its number as text if nobody lists it."""
    return _LINK_NAMES.get(number, str(number))


# Writing pcap and pcapng, little endian

SNAPLEN = 262_144
"""Snaplen of a file header, unless a frame is larger."""

PCAP_SECONDS = 1 << 32
"""First second since the epoch (in 2106) that a classic pcap cannot represent."""

PCAPNG_LINK_TYPES = 1 << 16
"""First link type that a pcapng cannot represent."""

_SECTION, _INTERFACE, _PACKET = 0x0A0D0D0A, 1, 6
_END, _NAME, _RESOLUTION = 0, 2, 9
_NANOSECONDS = bytes([9])


@dataclass(frozen=True)
class WrittenInterface:
    """An interface of a pcapng to be written."""

    name: str  # its `if_name`
    link_number: int


def pcap_header(link_number: int, nanoseconds: bool, snaplen: int = SNAPLEN) -> bytes:
    """Makes the file header of a classic pcap, version 2.4."""
    magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    return struct.pack("<IHHiIII", magic, 2, 4, 0, 0, snaplen, link_number)


def pcap_record(stamp: int, wire: int, frame: bytes, nanoseconds: bool) -> bytes:
    """Makes a record of a classic pcap.

    Args:
        stamp: ns since the epoch, below PCAP_SECONDS; whole microseconds unless `nanoseconds`.
        nanoseconds: whether the file has nanoseconds.
    """
    seconds, rest = divmod(stamp, 1_000_000_000)
    return struct.pack("<IIII", seconds, rest if nanoseconds else rest // 1000, len(frame), wire) + frame


def pcapng_header(interfaces: Sequence[WrittenInterface], snaplen: int = SNAPLEN) -> bytes:
    """Makes the section header of a pcapng and an interface block for every interface, with timestamps in ns."""
    parts = [_block(_SECTION, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))]
    for interface in interfaces:
        options = _option(_NAME, interface.name.encode()) + _option(_RESOLUTION, _NANOSECONDS) + _option(_END, b"")
        parts.append(_block(_INTERFACE, struct.pack("<HHI", interface.link_number, 0, snaplen) + options))
    return b"".join(parts)


def pcapng_record(interface: int, stamp: int, wire: int, frame: bytes) -> bytes:
    """Makes an enhanced packet block. Arguments as of `pcap_record`, and the number of the interface."""
    head = struct.pack("<IIIII", interface, stamp >> 32, stamp & 0xFFFF_FFFF, len(frame), wire)
    return _block(_PACKET, head + frame)


def _block(kind: int, body: bytes) -> bytes:
    padded = body + bytes(-len(body) % 4)
    size = struct.pack("<I", len(padded) + 12)
    return struct.pack("<I", kind) + size + padded + size


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)
