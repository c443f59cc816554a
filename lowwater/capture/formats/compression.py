"""Decompression of captures in gzip, zstd, xz or lz4 frames.

Between the file and the reader's window: `DecompressedSource` decompresses in its own thread, a bounded amount ahead.
A file is one or more members (gzip members, zstd or lz4 frames, xz streams) of one format, recognised by its magic.
Memory is bounded for every file: `AHEAD` blocks of 2 MiB, the history of the decompressor (gzip 32 KiB, lz4 about
8 MiB, zstd and xz at most `HISTORY`), and 4 MiB of the stored file.
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

from lowwater.capture.formats.sources import BrokenFrame, PieceSource, Source, lz4_pieces, zstd_pieces

HISTORY = 128 << 20
"""Largest history (bytes) that a zstd or xz stream may request; the highest levels of the tools use as much."""

AHEAD = 16
"""Blocks that are decompressed in advance."""

_BLOCK = 1 << 20
_STEP = 256 << 10
_XZ_OVERHEAD = 16 << 20
_GZIP_FRAMING = 16 + zlib.MAX_WBITS
_SKIPPABLE = tuple(bytes([0x50 + number]) + b"\x2a\x4d\x18" for number in range(16))
_MAGIC = {"gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd", "xz": b"\xfd7zXZ\0", "lz4": b"\x04\x22\x4d\x18"}
_HEAD = 6

_Member = Callable[[PieceSource, int, int | None], Iterator[bytes]]
"""Decompresses one member: arguments are the file, most bytes of a piece, and the output size after which each piece is
one byte."""


class Damage(Exception):
    """The bytes at the position of the stored file cannot be decompressed; the message says why."""


def compression_of(head: bytes) -> str:
    """Returns the name of the compression with this magic, or an empty string.

    A file that begins with a skippable frame counts as zstd, since pzstd writes one.
    """
    if head.startswith(_SKIPPABLE):
        return "zstd"
    return next((name for name, magic in _MAGIC.items() if head.startswith(magic)), "")


def members(stored: PieceSource, step: int = _STEP) -> Iterator[bytes]:
    """Yields the decompressed bytes of a file in pieces of at most `step` bytes.

    Args:
        stored: the file at its start; at its end afterwards.
        step: largest piece, bytes, at least 1.

    Raises:
        Damage: after all bytes before the damage; `stored` then stands where the damage begins.
        OSError: if the file cannot be read.
    """
    format = compression_of(stored.peek(_HEAD))
    while head := stored.peek(_HEAD):
        if format in ("zstd", "lz4") and head.startswith(_SKIPPABLE):
            _skip(stored)
        elif compression_of(head) == format:
            yield from _member(stored, _FORMATS[format], step)
        elif format == "xz" and head[:4] == bytes(4):
            stored.take(4)  # padding that the format allows behind a stream
        elif format == "gzip" and head[0] == 0:
            _skip_zeros(stored)
        else:
            raise Damage(f"bytes that are no {format} data follow")


def _skip_zeros(stored: PieceSource) -> None:
    """Skips zeros up to the end of the file: tapes and block devices leave them behind the last gzip member."""
    while piece := stored.piece():
        zeros = len(piece) - len(bytes(piece).lstrip(b"\0"))
        stored.position += zeros
        if zeros < len(piece):
            raise Damage("bytes follow the zeros behind the last gzip member")


def _skip(stored: PieceSource) -> None:
    start = stored.position
    head = stored.take(8)
    left = int.from_bytes(head[4:], "little")
    while left and (piece := stored.piece(left)):
        stored.position += len(piece)
        left -= len(piece)
    if left or len(head) < 8:
        stored.position = start
        raise Damage("it ends inside a skippable frame")


def _member(stored: PieceSource, member: _Member, step: int) -> Iterator[bytes]:
    """Yields one member; if it is damaged, all bytes before the damage.

    A decompressor that fails drops the output of the failing call. So the member is read again: up to that call as
    before, then byte by byte. If the source cannot rewind so far, that output is lost.
    """
    start, size_out, seen = stored.position, 0, 0
    try:
        for piece in member(stored, step, None):
            size_out += len(piece)
            yield piece
        return
    except (zlib.error, lzma.LZMAError, pa.ArrowException, OSError) as error:
        _raise_of_disk(error)
        if not stored.holds(start):
            raise Damage(str(error)) from error
    stored.position = start
    try:
        for piece in member(stored, step, size_out):
            seen += len(piece)
            if seen > size_out:
                yield piece[max(len(piece) - (seen - size_out), 0) :]
    except (zlib.error, lzma.LZMAError, pa.ArrowException, OSError) as error:
        _raise_of_disk(error)
        raise Damage(str(error)) from error


def _raise_of_disk(error: Exception) -> None:
    # pyarrow reports damage as an OSError without a number.
    if isinstance(error, OSError) and error.errno is not None:
        raise error


def _gzip(stored: PieceSource, step: int, fine: int | None) -> Iterator[bytes]:
    """Yields one gzip member; byte by byte after `fine` bytes of output."""
    engine, size_out = zlib.decompressobj(_GZIP_FRAMING), 0
    while not engine.eof:
        slow = fine is not None and size_out >= fine
        piece = stored.piece(1 if slow else None)
        output = engine.decompress(piece, 1 if slow else step)
        # At the end of a member zlib leaves the rest in `unused_data`, and maybe in `unconsumed_tail` too.
        rest = engine.unused_data if engine.eof else engine.unconsumed_tail
        stored.position += len(piece) - len(rest)
        size_out += len(output)
        if output:
            yield output
        if not piece and not output and not engine.eof:
            raise Damage("it ends inside a gzip member")


def _xz(stored: PieceSource, step: int, fine: int | None) -> Iterator[bytes]:
    """Yields one xz stream; arguments as for `_gzip`."""
    engine, size_out = lzma.LZMADecompressor(lzma.FORMAT_XZ, HISTORY + _XZ_OVERHEAD), 0
    while not engine.eof:
        slow = fine is not None and size_out >= fine
        piece = stored.piece(1 if slow else None) if engine.needs_input else memoryview(b"")
        if engine.needs_input and not piece:
            raise Damage("it ends inside an xz stream")
        output = engine.decompress(piece, 1 if slow else step)
        stored.position += len(piece)
        size_out += len(output)
        if output:
            yield output
    stored.position -= len(engine.unused_data)


class _FrameFile(io.RawIOBase):
    """The pieces of a frame (header, blocks, end) as a file in which a read never crosses the end of a piece.

    Attributes:
        piece_start: position in the stored file of the last piece read, or of the piece that is not whole.
        broken: reason why the next piece is not whole; empty if there is none.
    """

    def __init__(self, stored: PieceSource, pieces: Iterator[bytes]) -> None:
        super().__init__()
        self.piece_start = stored.position
        self.broken = ""
        self._stored = stored
        self._pieces = pieces
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if not self._rest and not self.broken:
            self.piece_start = self._stored.position
            try:
                self._rest = memoryview(next(self._pieces, b""))
            except BrokenFrame as error:
                self.broken = str(error)
        piece, self._rest = self._rest[:size], self._rest[size:]
        return bytes(piece)


def _frame(codec: str, split: Callable[[PieceSource], Iterator[bytes]]) -> _Member:
    def frame(stored: PieceSource, step: int, fine: int | None) -> Iterator[bytes]:
        """Yields one frame; arguments as for `_gzip`."""
        pieces, size_out = _FrameFile(stored, split(stored)), 0
        try:
            with pa.CompressedInputStream(pa.PythonFile(pieces, mode="r"), codec) as stream:
                while output := stream.read(step if fine is None or size_out < fine else 1):
                    size_out += len(output)
                    yield output
        except (pa.ArrowException, OSError):
            stored.position = pieces.piece_start
            if fine is None or not pieces.broken:
                raise
        if pieces.broken:
            stored.position = pieces.piece_start
            raise Damage(pieces.broken)

    return frame


_FORMATS: dict[str, _Member] = {
    "gzip": _gzip,
    "xz": _xz,
    "zstd": _frame("zstd", lambda stored: zstd_pieces(stored, HISTORY)),
    "lz4": _frame("lz4", lz4_pieces),
}


class DecompressedSource:
    """Decompressed content of a file, produced by a thread; a `Source` that does not rewind.

    Args:
        file: the stored bytes, at their start.
        hashed: whether to compute the sha256 of the stored file.

    Attributes:
        damage: reason why decompression stopped before the end of the file; empty if it did not. This and the next two
            are complete once `readinto` has returned 0.
        skipped: number of stored bytes that were not decompressed, from the damage to the end.
        stored: size of the stored file in bytes.
    """

    rewinds = False

    def __init__(self, file: Source, hashed: bool) -> None:
        self.damage = ""
        self.skipped = 0
        self.stored = 0
        self._source = PieceSource(file, hashed)
        self._pieces = members(self._source)
        self._thread = ThreadPoolExecutor(1)
        self._blocks: deque[Future[bytes]] = deque(self._thread.submit(self._block) for _ in range(AHEAD))
        self._rest = memoryview(b"")

    def readinto(self, target: memoryview) -> int:
        """Fills the beginning of `target`. Returns the number of bytes; 0 at the end of the content.

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
        """Returns the sha256 of the stored file, in hex, once it is read."""
        return self._source.sha256()

    def close(self) -> None:
        """Stops the thread and closes the file."""
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
