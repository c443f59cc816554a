"""Follows an ether type over VLAN tags, MACsec, MPLS and PPPoE to the network header.

The link layers with ether types share it.
"""

from __future__ import annotations

from typing import Any

from lowwater.capture.headers.fields import u8, u16
from lowwater.capture.headers.links.ppp import ppp
from lowwater.capture.headers.macsec import macsec
from lowwater.capture.headers.mpls import mpls
from lowwater.capture.inlining import part, rare

IPV4, IPV6 = 0x0800, 0x86DD
FIRST_TYPE = 0x0600
"""Smaller values in place of an ether type are lengths, or numbers of another kind."""

_VLAN, _PROVIDER_VLAN, _OLD_QINQ = 0x8100, 0x88A8, 0x9100
_MPLS, _MPLS_MULTICAST, _PPPOE_SESSION, _MACSEC = 0x8847, 0x8848, 0x8864, 0x88E5


@part
def follow_ether_type(buffer: Any, kind: int, at: int, end: int) -> tuple[int, int, int, int, int]:
    """Follows an ether type over tags and labels to the network header.

    Args:
        buffer: uint8 array that holds the frame.
        kind: the ether type; -1 if it is not captured.
        at: index behind the ether type.
        end: index behind the last captured byte that belongs to the frame.

    Returns:
        Ether type behind the VLAN tags, outermost VLAN, network, index of the network header, and end of its bytes.
    """
    if kind in (IPV4, IPV6):  # fast path for most frames
        return kind, -1, kind, at, end
    kind, vlan, at = _tags(buffer, kind, -1, at, end)
    network = kind
    if kind == _MACSEC:
        network, at, end = macsec(buffer, at, end)
        network, vlan, at = _tags(buffer, network, vlan, at, end)
    if network in (_MPLS, _MPLS_MULTICAST):
        network, at = mpls(buffer, at, end)
    elif network == _PPPOE_SESSION:
        network, at, end = _pppoe(buffer, at, end)
    return kind, vlan, network, at, end


@part
def _tags(buffer: Any, kind: int, vlan: int, at: int, end: int) -> tuple[int, int, int]:
    """Skips VLAN tags; returns the ether type behind them, the VLAN, and the index behind the type.

    Args:
        buffer: uint8 array that holds the frame.
        kind: the ether type; -1 if it is not captured.
        vlan: VLAN of a tag before it; -1 without one. Otherwise the first tag gives the VLAN.
        at: index behind the ether type.
        end: index behind the last captured byte that belongs to the frame.
    """
    while kind in (_VLAN, _PROVIDER_VLAN, _OLD_QINQ):
        tag = u16(buffer, at, end)
        if vlan < 0 and tag >= 0:  # the outermost tag
            vlan = tag & 0x0FFF
        kind = u16(buffer, at + 2, end)
        at += 4
    return kind, vlan, at


@rare
def _pppoe(buffer: Any, at: int, end: int) -> tuple[int, int, int]:
    """Reads a PPPoE session header (RFC 2516, section 4); returns the network, its index, and its end."""
    code, length = u8(buffer, at + 1, end), u16(buffer, at + 4, end)
    if code != 0 or length < 0:
        return -1, at, end
    end = min(end, at + 6 + length)
    network, at = ppp(buffer, at + 6, end)
    return network, at, end
