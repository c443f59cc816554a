"""Finding where the blocks of a pcapng go on after damage.

Beside `pcapng.scan`, for the stretches that it cannot read.
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
    """Least bytes of a block of a known kind; 0 of others."""
    if kind in (PACKET, OLD_PACKET):
        return blocks.LEAST_PACKET
    if kind == INTERFACE:
        return blocks.LEAST_INTERFACE
    if kind == SIMPLE_PACKET:
        return blocks.LEAST_SIMPLE
    return 0 if tallied(kind) == UNKNOWN else blocks.LEAST_BLOCK


@part
def _chained(buffer: Any, at: int, end: int, big: bool, at_end: bool) -> int:
    """FOUND if blocks may go on at buffer[at], NOT_FOUND, or MORE."""
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
        # The blocks of a section in the other byte order look like blocks three bytes later, but for this number.
        if kind == PACKET and word(buffer, at + 8, big) >= MOST_DECLARED:
            return NOT_FOUND
        at += size
    return FOUND


@kernel
def search(buffer: Any, begin: int, end: int, big: bool, at_end: bool) -> tuple[int, int]:
    """Where in buffer[begin:end] blocks go on after damage.

    That is at a section header; or where CHAIN blocks of known kinds follow one another whose two lengths agree, or at
    least one and then a section header or the end of the file; the interfaces of their packets have numbers that are
    believed, the captured lengths lie within the blocks. Every byte is tried: what is lost need not have been
    a multiple of 4 bytes.

    Args:
        buffer: uint8 array.
        begin: first place to try.
        end: where the valid bytes end.
        big: byte order of the section.
        at_end: whether the file ends there.

    Returns:
        As `capture.formats.scan.search`.
    """
    for at in range(begin, end - blocks.LEAST_BLOCK + 1):
        found = _chained(buffer, at, end, big, at_end)
        if found != NOT_FOUND:
            return at, found
    return (end, NOT_FOUND) if at_end else (max(begin, end - blocks.LEAST_BLOCK + 1), MORE)


@kernel
def doubtful(buffer: Any, at: int, end: int, big: bool) -> bool:
    """Whether the block that the end of the file cuts may be damage: its length is out of keeping with its kind.

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
