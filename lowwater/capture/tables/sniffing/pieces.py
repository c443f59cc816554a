"""Sample of a text file: whole lines from its begin, its middle and its end, in bounded time and memory.

First step of a proposal. A compressed file is decompressed up to MOST_UNPACKED bytes.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from lowwater.capture.formats.compression import DecompressedSource, compression_of
from lowwater.capture.formats.sources import PeekableSource, Source, open_source
from lowwater.errors import CaptureError

FIRST_BYTES = 1 << 20
"""Bytes of the first piece."""

LATER_BYTES = 1 << 18
"""Bytes of the pieces from the middle and the end."""

MOST_UNPACKED = 64 << 20
"""Most bytes of a compressed file that are decompressed for a sample."""

_STEP = 1 << 20


@dataclass(frozen=True)
class TextSample:
    """Some lines of a text file.

    Attributes:
        compression: name of the compression; empty for a plain file.
        pieces: whole lines in the order of the file, the first piece from its begin.
        whole: whether the pieces are the file.
    """

    compression: str
    pieces: tuple[bytes, ...]
    whole: bool


def sample_text(path: Path) -> TextSample:
    """Reads a sample of a text file.

    Raises:
        CaptureError: the file cannot be read.
    """
    _, stream = open_source(path)
    try:
        stored = PeekableSource(stream)
        with closing(stored):
            compression = compression_of(stored.peek(32))
            if not compression:
                return _plain(stored, stream.size)
            unpacked = DecompressedSource(stored, hashed=False)
            with closing(unpacked):
                return _unpacked(compression, unpacked)
    except OSError as error:
        raise CaptureError(f"{path}: cannot be read: {error.strerror}", "check the path") from error


def _plain(source: PeekableSource, size: int) -> TextSample:
    first = _take(source, FIRST_BYTES)
    if len(first) < FIRST_BYTES or not source.rewinds:
        return TextSample("", (_lines(first, begin=True, end=True),), True)
    pieces = [_lines(first, begin=True, end=False)]
    for offset in (size // 2, size - LATER_BYTES):
        if offset >= FIRST_BYTES:
            source.rewind(offset)
            pieces.append(_lines(_take(source, LATER_BYTES), begin=False, end=False))
    return TextSample("", tuple(pieces), False)


def _unpacked(compression: str, source: Source) -> TextSample:
    first = _take(source, FIRST_BYTES)
    if len(first) < FIRST_BYTES:
        return TextSample(compression, (_lines(first, begin=True, end=True),), True)
    steps: list[bytes] = []
    size = len(first)
    while size < MOST_UNPACKED and (step := _take(source, _STEP)):
        size += len(step)
        steps.append(step[:LATER_BYTES] if len(step) == _STEP else step[-LATER_BYTES:])
    chosen = dict.fromkeys((len(steps) // 2, len(steps) - 1)) if steps else {}
    later = tuple(_lines(steps[number], begin=False, end=False) for number in chosen)
    return TextSample(compression, (_lines(first, begin=True, end=False), *later), False)


def _take(source: Source, size: int) -> bytes:
    """Reads so many bytes, fewer at the end."""
    buffer, filled = bytearray(size), 0
    view = memoryview(buffer)
    while filled < size and (count := source.readinto(view[filled:])):
        filled += count
    return bytes(view[:filled])


def _lines(data: bytes, begin: bool, end: bool) -> bytes:
    """Returns the whole lines of a piece.

    Args:
        data: bytes of a file.
        begin: whether the piece begins with a line.
        end: whether the file ends with the piece.
    """
    first = 0 if begin else data.find(b"\n") + 1
    last = len(data) if end else data.rfind(b"\n") + 1
    return data[first:last]
