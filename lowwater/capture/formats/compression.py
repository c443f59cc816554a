"""Captures inside gzip, zstd, xz or lz4 frames, as the stream of bytes that they hold.

Between the file and the reader's window: `Unpacked` decompresses in a thread of its own, a bounded amount ahead. A
file is one or more members (gzip members, zstd or lz4 frames, xz streams) of one format, known by their magic.
Whatever the file holds, at any time there are at most `AHEAD` blocks of 2 MiB, the history of the decompressor
(gzip 32 KiB, lz4 some 8 MiB, zstd and xz at most `HISTORY`) and a record of 4 MiB of the file itself.
"""

from __future__ import annotations

import errno
import io
import lzma
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa

from lowwater.capture.formats.sources import Source
from lowwater.capture.formats.window import BrokenFrame, Stored, lz4_pieces, zstd_pieces

HISTORY = 128 << 20
"""Largest history (bytes) that a zstd or xz stream may ask for: what the tools' own highest levels use."""

AHEAD = 16
"""Blocks that are decompressed before they are asked for."""

_BLOCK = 1 << 20
_STEP = 256 << 10
_XZ_OVERHEAD = 16 << 20
_GZIP_FRAMING = 16 + zlib.MAX_WBITS
_SKIPPABLE = tuple(bytes([0x50 + number]) + b"\x2a\x4d\x18" for number in range(16))
_MAGIC = {"gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd", "xz": b"\xfd7zXZ\0", "lz4": b"\x04\x22\x4d\x18"}
_HEAD = 6

_Member = Callable[[Stored, int, int | None], Iterator[bytes]]
"""One member of a stored file, in pieces of at most so many bytes; byte by byte once so many bytes are given."""


class Damage(Exception):
    """What follows the position of the stored file cannot be decompressed; the message says why."""


def compression_of(head: bytes) -> str:
    """The name of the compression whose magic these first bytes are, or an empty string.

    A file that begins with a skippable frame counts as zstd: pzstd writes such.
    """
    if head.startswith(_SKIPPABLE):
        return "zstd"
    return next((name for name, magic in _MAGIC.items() if head.startswith(magic)), "")


def members(stored: Stored, step: int = _STEP) -> Iterator[bytes]:
    """All bytes that a compressed file holds, in pieces of at most `step` bytes.

    Args:
        stored: the file, at its start; afterwards at its end.
        step: largest piece, bytes; at least 1.

    Raises:
        Damage: once everything before the damage is given; `stored` then stands where the damage begins.
        OSError: if the file cannot be read.
    """
    format = compression_of(stored.peek(_HEAD))
    while head := stored.peek(_HEAD):
        if format in ("zstd", "lz4") and head.startswith(_SKIPPABLE):
            _skip(stored)
        elif compression_of(head) == format:
            yield from _member(stored, _FORMATS[format], step)
        elif format == "xz" and head[:4] == bytes(4):
            stored.take(4)  # the padding that the format allows behind a stream
        elif format == "gzip" and head[0] == 0:
            _skip_zeros(stored)
        else:
            raise Damage(f"bytes that are no {format} data follow")


def _skip_zeros(stored: Stored) -> None:
    """Zeros to the end of the file: tapes and block devices leave them behind the last gzip member."""
    while piece := stored.piece():
        zeros = len(piece) - len(bytes(piece).lstrip(b"\0"))
        stored.position += zeros
        if zeros < len(piece):
            raise Damage("bytes follow the zeros behind the last gzip member")


def _skip(stored: Stored) -> None:
    start = stored.position
    head = stored.take(8)
    left = int.from_bytes(head[4:], "little")
    while left and (piece := stored.piece(left)):
        stored.position += len(piece)
        left -= len(piece)
    if left or len(head) < 8:
        stored.position = start
        raise Damage("it ends inside a skippable frame")


def _member(stored: Stored, member: _Member, step: int) -> Iterator[bytes]:
    """One member; where it is damaged, everything before the damage.

    A decompressor that fails keeps to itself what the failing call had made. So the member is read a second time, up
    to that call as before and then byte by byte; where its source no longer has it, what that call had made is lost.
    """
    start, given, seen = stored.position, 0, 0
    try:
        for piece in member(stored, step, None):
            given += len(piece)
            yield piece
        return
    except (zlib.error, lzma.LZMAError, pa.ArrowException, OSError) as error:
        _raise_of_disk(error)
        if not stored.holds(start):
            raise Damage(str(error)) from error
    stored.position = start
    try:
        for piece in member(stored, step, given):
            seen += len(piece)
            if seen > given:
                yield piece[max(len(piece) - (seen - given), 0) :]
    except (zlib.error, lzma.LZMAError, pa.ArrowException, OSError) as error:
        _raise_of_disk(error)
        raise Damage(str(error)) from error


def _raise_of_disk(error: Exception) -> None:
    # pyarrow tells of damage by an OSError too, but one without a number.
    if isinstance(error, OSError) and error.errno is not None:
        raise error


def _gzip(stored: Stored, step: int, fine: int | None) -> Iterator[bytes]:
    """One gzip member; byte by byte once `fine` bytes are given."""
    engine, given = zlib.decompressobj(_GZIP_FRAMING), 0
    while not engine.eof:
        slow = fine is not None and given >= fine
        piece = stored.piece(1 if slow else None)
        made = engine.decompress(piece, 1 if slow else step)
        # At the end of a member zlib leaves the rest in `unused_data`, and in `unconsumed_tail` too if one was there.
        rest = engine.unused_data if engine.eof else engine.unconsumed_tail
        stored.position += len(piece) - len(rest)
        given += len(made)
        if made:
            yield made
        if not piece and not made and not engine.eof:
            raise Damage("it ends inside a gzip member")


def _xz(stored: Stored, step: int, fine: int | None) -> Iterator[bytes]:
    """One xz stream, as `_gzip`."""
    engine, given = lzma.LZMADecompressor(lzma.FORMAT_XZ, HISTORY + _XZ_OVERHEAD), 0
    while not engine.eof:
        slow = fine is not None and given >= fine
        piece = stored.piece(1 if slow else None) if engine.needs_input else memoryview(b"")
        if engine.needs_input and not piece:
            raise Damage("it ends inside an xz stream")
        made = engine.decompress(piece, 1 if slow else step)
        stored.position += len(piece)
        given += len(made)
        if made:
            yield made
    stored.position -= len(engine.unused_data)


class _Pieces(io.RawIOBase):
    """The pieces of a frame (header, blocks, end) as a file, so that one read never takes more than one of them.

    Attributes:
        begun: position in the stored file of the last piece taken, or of the one that is not whole.
    """

    def __init__(self, stored: Stored, pieces: Iterator[bytes]) -> None:
        super().__init__()
        self.begun = stored.position
        self.broken = ""
        self._stored = stored
        self._pieces = pieces
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if not self._rest and not self.broken:
            self.begun = self._stored.position
            try:
                self._rest = memoryview(next(self._pieces, b""))
            except BrokenFrame as error:
                self.broken = str(error)
        taken, self._rest = self._rest[:size], self._rest[size:]
        return bytes(taken)


def _frame(codec: str, split: Callable[[Stored], Iterator[bytes]]) -> _Member:
    def frame(stored: Stored, step: int, fine: int | None) -> Iterator[bytes]:
        """One frame, as `_gzip`."""
        pieces, given = _Pieces(stored, split(stored)), 0
        try:
            with pa.CompressedInputStream(pa.PythonFile(pieces, mode="r"), codec) as stream:
                while made := stream.read(step if fine is None or given < fine else 1):
                    given += len(made)
                    yield made
        except (pa.ArrowException, OSError):
            stored.position = pieces.begun
            if fine is None or not pieces.broken:
                raise
        if pieces.broken:
            stored.position = pieces.begun
            raise Damage(pieces.broken)

    return frame


_FORMATS: dict[str, _Member] = {
    "gzip": _gzip,
    "xz": _xz,
    "zstd": _frame("zstd", lambda stored: zstd_pieces(stored, HISTORY)),
    "lz4": _frame("lz4", lz4_pieces),
}


class Unpacked:
    """What a compressed file holds, decompressed in a thread of its own; a `Source` that does not rewind.

    Args:
        file: the bytes of the file, at their start.
        hashed: whether to compute the sha256 of the file as it is stored.

    Attributes:
        damage: why decompression stopped before the end of the file; empty while it has not. This and the next two
            are right once `readinto` has given 0.
        skipped: bytes of the file that were not decompressed: from where the damage begins to its end.
        stored: size of the file in bytes.
    """

    rewinds = False

    def __init__(self, file: Source, hashed: bool) -> None:
        self.damage = ""
        self.skipped = 0
        self.stored = 0
        self._source = Stored(file, hashed)
        self._pieces = members(self._source)
        self._thread = ThreadPoolExecutor(1)
        self._blocks: deque[Future[bytes]] = deque(self._thread.submit(self._block) for _ in range(AHEAD))
        self._rest = memoryview(b"")

    def readinto(self, target: memoryview) -> int:
        """Fills the beginning of `target`; gives how many bytes, 0 at the end of what the file holds.

        Raises:
            OSError: if the file cannot be read.
        """
        if not self._rest:
            self._rest = memoryview(self._blocks.popleft().result())
            self._blocks.append(self._thread.submit(self._block))
        count = min(len(target), len(self._rest))
        target[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def rewind(self, offset: int) -> None:
        raise OSError(errno.ESPIPE, "what was decompressed cannot be read again")

    def sha256(self) -> str:
        """The sha256 of the stored file, in hex, once it is read."""
        return self._source.sha256()

    def close(self) -> None:
        """Ends the thread and closes the file."""
        self._thread.shutdown(cancel_futures=True)
        self._source.close()

    def _block(self) -> bytes:
        parts: list[bytes] = []
        size = 0
        try:
            while size < _BLOCK and (piece := next(self._pieces, b"")):
                parts.append(piece)
                size += len(piece)
        except Damage as error:
            self.damage = str(error)
            start = self._source.position
            self._source.drain()
            self.skipped = self._source.position - start
        if not size:
            self.stored = self._source.position
        return b"".join(parts)
