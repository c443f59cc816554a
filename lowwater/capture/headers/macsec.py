"""MACsec (IEEE 802.1AE): the security tag behind an ether type, and what it protects without encryption.

Behind ether types. What is encrypted keeps the outer fields: addresses, tags and ether type 0x88E5.
"""

from __future__ import annotations

from typing import Any

from lowwater.capture.headers.fields import u8, u16
from lowwater.capture.inlining import rare

_VERSION, _SCI, _CHANGED = 0x80, 0x20, 0x0C  # bits of the first byte; the last two: encrypted, changed text
_SHORT = 0x3F  # bits of the short length


@rare
def macsec(buffer: Any, at: int, end: int) -> tuple[int, int, int]:
    """Reads a security tag.

    Args:
        buffer: uint8 array that holds the frame.
        at: index behind the ether type 0x88E5.
        end: index behind the last captured byte that belongs to the frame.

    Returns:
        Ether type of the protected data (-1 if it is encrypted or not captured), the index behind it, and the end of
        the data.
    """
    control, short = u8(buffer, at, end), u8(buffer, at + 1, end)
    if short < 0 or control & (_VERSION | _CHANGED):
        return -1, at, end
    at += 14 if control & _SCI else 6
    if short & _SHORT:  # the protected data; the check value and padding follow
        end = min(end, at + (short & _SHORT))
    return u16(buffer, at, end), at + 2, end
