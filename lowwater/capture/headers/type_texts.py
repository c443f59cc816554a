"""Texts of what the link readers did not follow, apart from `undecoded`: commands that only read such texts from a
ledger load no kernels.
"""

from __future__ import annotations

from lowwater.capture.formats.capture_file import link_name
from lowwater.capture.headers import links
from lowwater.capture.headers.undecoded import CUT, NOT_IP

_SPACES = {
    links.SNAP: "SNAP 0x{:06x}",
    links.LLC: "LLC 0x{:02x}",
    links.PPP: "PPP 0x{:04x}",
    links.BATMAN: "batman 0x{:02x}",
    links.FAMILY: "family {}",
    links.NFLOG: "nflog family {}",
    links.VERSION: "IP version {}",
    links.COOKED: "cooked 0x{:04x}",
    links.ISL: "ISL type {}",
}
_WIFI = {
    links.WIFI_MANAGEMENT: "802.11 management",
    links.WIFI_CONTROL: "802.11 control",
    links.WIFI_NO_DATA: "802.11 without data",
    links.WIFI_ENCRYPTED: "802.11 encrypted",
    links.WIFI_FRAGMENT: "802.11 fragment",
    links.WIFI_AGGREGATE: "802.11 aggregate",
}
_USB = "USB transfer"
_CHANNEL, _PSEUDOWIRE = "MPLS channel", "MPLS pseudowire"


def type_text(network: int, link: int) -> str:
    """Returns the text of what a link reader did not follow.

    Example:
        >>> type_text(0x88CC, 1), type_text(-0x88E5, 1), type_text(-1, 1), type_text(-1, 147)
        ('0x88cc', '0x88e5', 'cut', 'link type USER0')
    """
    if link not in links.LINK_TYPES:
        return f"link type {link_name(link)}"
    if network == -1:
        return CUT
    space, number = (0, network) if network >= 0 else (-network >> 24, -network & 0xFFFFFF)
    if space == 0:
        return f"0x{number:04x}"
    if space == links.WIFI:
        return _WIFI[number]
    if space == links.MPLS:
        return _CHANNEL if number == 1 else _PSEUDOWIRE
    if space == links.USB:
        return _USB
    if space == links.SNAP and f"SNAP 0x{number:06x}" not in NOT_IP:
        return "SNAP"  # one type, however many organisations a damaged capture seems to have
    return _SPACES[space].format(number)
