"""Kernels that find where the blocks of a pcapng go on after damage.

Beside `pcapng.scan`, for bytes that it cannot read.
"""

from __future__ import annotations

from typing import Any

from lowwater.capture.formats.pcapng import blocks
from lowwater.capture.formats.pcapng.blocks import INTERFACE, MOST_DECLARED, OLD_PACKET, PACKET, SECTION, SIMPLE_PACKET
from lowwater.capture.formats.pcapng.scan import FIXED, UNKNOWN, section, tallied, word
from lowwater.capture.formats.scan import CHAIN, FOUND, MORE, NOT_FOUND
from lowwater.capture.inlining import kernel, part, rare

_LONGEST_OPTIONS = 64 << 10


@rare
def _least(kind: int) -> int:
    """Returns the smallest size of a block of a known kind; 0 for other kinds."""
    if kind in (PACKET, OLD_PACKET):
        return blocks.LEAST_PACKET
    if kind == INTERFACE:
        return blocks.LEAST_INTERFACE
    if kind == SIMPLE_PACKET:
        return blocks.LEAST_SIMPLE
    return 0 if tallied(kind) == UNKNOWN else blocks.LEAST_BLOCK


@part
def _chained(buffer: Any, at: int, end: int, big: bool, at_end: bool) -> int:
    """Whether blocks may go on at buffer[at]: FOUND, NOT_FOUND or MORE."""
    for whole in range(CHAIN):
        rest = NOT_FOUND if whole == 0 else FOUND
        left = end - at
        if left < blocks.LEAST_BLOCK:
            return rest if at_end else MORE
        kind = word(buffer, at, big)
        if kind == SECTION:
            size, _ = section(buffer, at, end)
            return FOUND if size > 0 else NOT_FOUND if size < 0 else rest if at_end else MORE
        size, least = word(buffer, at + 4, big), _least(kind)
        if least == 0 or size < least or size > blocks.LARGEST_BLOCK or size & 3:
            return NOT_FOUND
        if left < size:
            return rest if at_end else MORE
        if word(buffer, at + size - 4, big) != size:
            return NOT_FOUND
        if least == blocks.LEAST_PACKET and word(buffer, at + 20, big) > size - least:
            return NOT_FOUND
        # Three bytes later, blocks of the other byte order look like blocks of this one, except for this number.
        if kind == PACKET and word(buffer, at + 8, big) >= MOST_DECLARED:
            return NOT_FOUND
        at += size
    return FOUND


@kernel
def search(buffer: Any, begin: int, end: int, big: bool, at_end: bool) -> tuple[int, int]:
    """Finds where blocks go on after damage in buffer[begin:end].

    Blocks go on at a section header. They also go on where CHAIN blocks of known kinds follow one another, or at least
    one and then a section header or the end of the file. Their two lengths must agree, the interface numbers of their
    packets must be plausible, and captured lengths must lie within the blocks. Every index is tried: the number of lost
    bytes need not be a multiple of 4.

    Args:
        buffer: uint8 array.
        begin: first index to try.
        end: index behind the last valid byte.
        big: whether the section is big endian.
        at_end: whether the file ends there.

    Returns:
        As `capture.formats.scan.search`.
    """
    for at in range(begin, end - blocks.LEAST_BLOCK + 1):
        outcome = _chained(buffer, at, end, big, at_end)
        if outcome != NOT_FOUND:
            return at, outcome
    return (end, NOT_FOUND) if at_end else (max(begin, end - blocks.LEAST_BLOCK + 1), MORE)


@kernel
def doubtful(buffer: Any, at: int, end: int, big: bool) -> bool:
    """Whether the block that the end of the file cuts may be damage: its length does not fit its kind.

    Args:
        buffer: uint8 array, the last window of the file.
        at: index at which the block begins.
        end: index behind the last byte of the file.
        big: whether the section is big endian.
    """
    if end - at < FIXED:
        return False
    kind, size = word(buffer, at, big), word(buffer, at + 4, big)
    if kind in (PACKET, OLD_PACKET):
        options = size - blocks.LEAST_PACKET - word(buffer, at + 20, big)
        return not 0 <= options <= _LONGEST_OPTIONS
    return kind != SECTION and (size > _LONGEST_OPTIONS or _least(kind) == 0)
