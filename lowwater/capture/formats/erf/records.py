"""Record types of ERF, and the detection of a file by its first records, since ERF has no file header.

Below `formats.header` and the kernels of the format. A record is a header of 16 bytes, extension headers of 8 bytes
each, a header of its type, and the packet. Times are little endian, lengths are big endian.
"""

from __future__ import annotations

HEADER = 16
EXTENSION = 8
MORE_HEADERS = 0x80
"""Bit of a type, and of the first byte of an extension header: an extension header follows."""

ETHERNET_TYPES = (2, 11, 16, 20)
HDLC_TYPES = (1, 10, 15, 19)
CHANNEL_HDLC_TYPES = (5, 17)
CHANNEL_TYPES = (6, 7, 8, 9, 12, 18)
"""Types behind whose header the place of a channel stands, but for those of HDLC."""

IPV4_TYPE, IPV6_TYPE, INFINIBAND_TYPE, PROVENANCE, PADDING = 22, 23, 21, 27, 48
LARGEST_TYPE, UNUSED_TYPES = 29, 26
"""Types from 1 to 29 but one are records; PADDING is none."""

ETHERNET, IPV4, IPV6, CISCO_HDLC, PPP, INFINIBAND, WHOLE = range(7)
"""Kinds of frames. WHOLE is a record of any other type, with its headers."""

LINK_NUMBERS = (1, 228, 229, 104, 9, 247, 197)
"""Link type by kind of frame."""

PORTS, KINDS = 8, len(LINK_NUMBERS)

YEAR_1990 = 631_152_000
"""Seconds since the epoch; no record is older."""

_DAY, _ENOUGH = 86_400, 4


def is_known(kind: int) -> bool:
    """Whether a record of this type may be in a file."""
    return (1 <= kind <= LARGEST_TYPE and kind != UNUSED_TYPES) or kind == PADDING


def first_link(head: bytes) -> int | None:
    """Detects ERF: records of known types, within a day of each other, follow one another from the first byte on.

    Args:
        head: the first bytes of a file.

    Returns:
        Link type of the first packet, -1 without one; None if the file is no ERF. Four records in a row are enough, or
        two in a shorter head, or all of the file.
    """
    at, count, before, link = 0, 0, -1, -1
    while count < _ENOUGH and at + HEADER <= len(head):
        seconds, kind = int.from_bytes(head[at + 4 : at + 8], "little"), head[at + 8] & 0x7F
        size = int.from_bytes(head[at + 10 : at + 12], "big")
        if not is_known(kind) or size < HEADER:
            return None
        if kind != PADDING:
            if seconds < YEAR_1990 or (before >= 0 and abs(seconds - before) > _DAY):
                return None
            before = seconds
            if link < 0 and kind != PROVENANCE:
                link = LINK_NUMBERS[_kind_of(head, at, kind)]
        at, count = at + size, count + 1
    whole = count > 1 or (count == 1 and at == len(head))
    return link if whole and before >= 0 else None


def _kind_of(head: bytes, at: int, kind: int) -> int:
    """Returns the kind of frame of a record; a record that is not in `head` is WHOLE."""
    place, more = at + HEADER, head[at + 8]
    while more & MORE_HEADERS and place < len(head):
        more, place = head[place], place + EXTENSION
    place += 4 if kind in CHANNEL_HDLC_TYPES else 0
    if place >= len(head):
        return WHOLE
    if kind in ETHERNET_TYPES:
        return ETHERNET
    if kind in HDLC_TYPES or kind in CHANNEL_HDLC_TYPES:
        return CISCO_HDLC if head[place] & 0x7F == 0x0F else PPP
    return {IPV4_TYPE: IPV4, IPV6_TYPE: IPV6, INFINIBAND_TYPE: INFINIBAND}.get(kind, WHOLE)
