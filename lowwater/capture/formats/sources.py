"""Sources of capture bytes: files, streams, decompression; and a capture file as a moving window of them."""

from __future__ import annotations

import errno
import hashlib
import io
import lzma
import os
import stat
import tempfile
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.errors import CaptureError
from lowwater.limits import DECOMPRESSED_AHEAD, DECOMPRESSOR_HISTORY
from lowwater.storage.captures import ObjectFile, StoredCapture, capture_path
from lowwater.storage.failures import hint_of
from lowwater.storage.untrusted import open_stream

# Sources of bytes. A source is a path, or an object that yields its bytes once, such as a pipe or a socket; the first
# bytes tell the format. Memory is bounded for every file size, and the sha256 is computed beside the decoding. The
# parts of a zstd or lz4 frame (RFC 8878, section 3.1.1; LZ4 frame format description 1.6) say how much of a file is
# good, where a frame ends, and how much memory it will request.

UNNAMED = Path("<stream>")
"""Name of a stream without a name, in errors."""


class Source(Protocol):
    """A sequence of bytes.

    Attributes:
        rewinds: whether `rewind` works.
    """

    @property
    def rewinds(self) -> bool: ...

    def readinto(self, target: memoryview, /) -> int:
        """Fills the beginning of `target`. Returns the number of bytes; 0 at the end."""

    def rewind(self, offset: int) -> None:
        """Continues at an offset of the bytes, if the source can rewind."""

    def close(self) -> None:
        """Closes the source."""


class Stream:
    """An opened file, or any object with `readinto` or `read`, as a source.

    Args:
        file: opened for reading bytes.
        owned: whether `close` closes it; False for a file of the caller.
    """

    def __init__(self, file: Any, owned: bool) -> None:
        self._file = file
        self._owned = owned
        self._fill: Callable[[memoryview], int | None] = getattr(file, "readinto", self._fill_from_read)
        size = _regular_size(file)
        self.size = size or 0
        self.rewinds = owned and size is not None

    def readinto(self, target: memoryview, /) -> int:
        count = self._fill(target)
        if count is None:
            raise BlockingIOError(errno.EAGAIN, "it has no bytes yet, and does not wait for them")
        return count

    def rewind(self, offset: int) -> None:
        self._file.seek(offset)

    def close(self) -> None:
        if self._owned:
            self._file.close()

    def _fill_from_read(self, target: memoryview) -> int | None:
        data = self._file.read(len(target))
        if data is None:
            return None
        target[: len(data)] = data
        return len(data)


class PeekableSource:
    """A source whose first bytes can be looked at before they are read."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._head = b""
        self._position = 0

    @property
    def rewinds(self) -> bool:
        return self._source.rewinds

    def peek(self, size: int) -> bytes:
        """Returns the first `size` bytes, fewer if there are no more; only before the first read."""
        head = bytearray(self._head)
        target = memoryview(bytearray(size))
        while len(head) < size and (count := self._source.readinto(target[: size - len(head)])):
            head += target[:count]
        self._head = bytes(head)
        return self._head[:size]

    def readinto(self, target: memoryview, /) -> int:
        part = self._head[self._position : self._position + len(target)]
        if not part:
            return self._source.readinto(target)
        target[: len(part)] = part
        self._position += len(part)
        return len(part)

    def rewind(self, offset: int) -> None:
        self._position = len(self._head)
        self._source.rewind(offset)

    def close(self) -> None:
        self._source.close()


class RangesSource:
    """Ranges of a file, one behind the other.

    Args:
        file: can rewind.
        ranges: [begin, end) of each, bytes.
    """

    rewinds = False

    def __init__(self, file: Source, ranges: Sequence[tuple[int, int]]) -> None:
        self._file = file
        self._ranges = deque(ranges)
        self._left = 0

    def readinto(self, target: memoryview, /) -> int:
        while not self._left and self._ranges:
            begin, end = self._ranges.popleft()
            self._file.rewind(begin)
            self._left = end - begin
        count = self._file.readinto(target[: self._left]) if self._left else 0
        self._left -= count
        return count

    def rewind(self, offset: int) -> None:
        raise OSError(errno.ESPIPE, "ranges of a file are read once")

    def close(self) -> None:
        self._file.close()


def unpacked_file(source: Source) -> Stream:
    """Copies a source to a temporary file, which can rewind, and closes it.
    Raises OSError if it cannot be read, or the file cannot be written."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as its reader
    buffer = bytearray(1 << 20)
    try:
        while count := source.readinto(memoryview(buffer)):
            file.write(memoryview(buffer)[:count])
        file.flush()
    except BaseException:
        file.close()
        raise
    source.close()
    return Stream(file, owned=True)


def open_source(capture: str | Path | Any) -> tuple[Path, Stream]:
    """Opens a capture. Returns its path, or name, and its bytes.

    Args:
        capture: a path (also of a FIFO), or an object with `readinto` or `read` that yields bytes.

    Raises:
        CaptureError: if the file cannot be opened.
    """
    if not isinstance(capture, (str, os.PathLike)):
        name = getattr(capture, "name", None)
        return Path(name) if isinstance(name, str) and name else UNNAMED, Stream(capture, owned=False)
    try:
        path = capture_path(capture)
        opened = path.open("rb", buffering=0) if isinstance(path, StoredCapture) else open_stream(path)
        return path, Stream(opened, owned=True)
    except OSError as error:
        hint = hint_of(error, "check the path and its permissions")
        raise CaptureError(f"{capture}: cannot be read: {error.strerror}", hint) from error
    except ValueError as error:
        raise CaptureError(str(error), "name a file, or s3://BUCKET/KEY") from None


def _regular_size(file: Any) -> int | None:
    """Returns the size of a regular file, or of an object; None for a stream."""
    if isinstance(file, ObjectFile):
        return file.size
    try:
        status = os.fstat(file.fileno())
    except (AttributeError, OSError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


_PIECE = 64 << 10
_LARGEST_ZSTD_BLOCK = 128 << 10
_RLE = 1


def digest(path: str | Path) -> str:
    """Returns the sha256 of a file, in hex, by one sequential pass."""
    with capture_path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class PieceSource:
    """A source in pieces of at most 64 KiB; `position` may be set back.

    Pieces always begin and end at the same offsets. Bytes are hashed once, when first read.

    Args:
        source: the source, at its start. If it cannot rewind, `position` may only go back to the last two pieces.
        hashed: whether to compute the sha256.
        size: size of a piece, bytes; if the source cannot rewind, at least the longest header that is peeked at (18).

    Attributes:
        position: offset of the next byte.
    """

    def __init__(self, source: Source, hashed: bool, size: int = _PIECE) -> None:
        self.position = 0
        self._size = size
        self._source = source
        self._start = 0
        self._buffer = b""
        self._before = b""
        self._hash = hashlib.sha256() if hashed else None
        self._read = 0

    def holds(self, position: int) -> bool:
        """Whether `position` may be set back to this offset."""
        return self._source.rewinds or position >= self._start - len(self._before)

    def piece(self, most: int | None = None) -> memoryview:
        """Returns the next bytes, at most `most`; empty at the end of the file. `position` stays."""
        buffer, start = self._buffer, self._start
        if start - len(self._before) <= self.position < start:
            buffer, start = self._before, start - len(self._before)
        elif not start <= self.position < start + len(buffer):
            if self._at_end():
                return memoryview(b"")
            self._load()
            buffer, start = self._buffer, self._start
        begin = self.position - start
        return memoryview(buffer)[begin : len(buffer) if most is None else begin + most]

    def take(self, size: int) -> bytes:
        """Returns the next `size` bytes, fewer at the end of the file, and moves `position` behind them."""
        parts = bytearray()
        while len(parts) < size and (piece := self.piece(size - len(parts))):
            parts += piece
            self.position += len(piece)
        return bytes(parts)

    def peek(self, size: int) -> bytes:
        """As `take`, but `position` stays."""
        start = self.position
        data = self.take(size)
        self.position = start
        return data

    def drain(self) -> None:
        """Reads to the end of the file; `position` is then its size."""
        self.position = max(self.position, self._start + len(self._buffer))
        while piece := self.piece():
            self.position += len(piece)

    def sha256(self) -> str:
        """Returns the sha256 of the bytes up to the farthest one read, in hex; empty if they are not hashed."""
        return "" if self._hash is None else self._hash.hexdigest()

    def close(self) -> None:
        self._source.close()

    def _at_end(self) -> bool:
        return 0 < len(self._buffer) < self._size and self.position == self._start + len(self._buffer)

    def _load(self) -> None:
        start = self.position - self.position % self._size
        if start == self._start + self._size:
            self._before = self._buffer
        elif start != self._start + len(self._buffer):
            self._source.rewind(start)
            self._before = b""
        buffer = bytearray(self._size)
        filled = 0
        while filled < self._size and (count := self._source.readinto(memoryview(buffer)[filled:])):
            filled += count
        self._start, self._buffer = start, bytes(buffer[:filled])
        end = start + filled
        if self._hash is not None and end > self._read:
            self._hash.update(memoryview(self._buffer)[self._read - start :])
            self._read = end


class FileWindow:
    """A moving window of a file: the valid bytes are buffer[begin:end], and buffer[0] lies in the file at `origin`.

    Args:
        size: bytes read at a time; the window grows if a record needs more.
        hashed: whether to compute the sha256, in its own thread.
    """

    def __init__(self, file: Source, size: int, hashed: bool) -> None:
        self.buffer: NDArray[np.uint8] = np.empty(size, np.uint8)
        self.begin = 0
        self.end = 0
        self.origin = 0
        self.at_end = False
        self._file = file
        self._hash = hashlib.sha256()
        self._thread = ThreadPoolExecutor(1) if hashed else None
        self._pending: Future[None] | None = None

    def take_out(self, begin: int, end: int) -> None:
        """Discards buffer[begin:end]. The bytes before it move up, so their index no longer gives their file offset."""
        self._wait()
        size = begin - self.begin
        self.buffer[end - size : end] = self.buffer[self.begin : begin].copy()
        self.begin = end - size

    def fill(self) -> int:
        """Moves the valid bytes to the front and fills the rest of the buffer. Returns how far they moved, bytes."""
        self._wait()
        moved = self.begin
        unread = self.buffer[self.begin : self.end]
        target = self.buffer if len(unread) <= len(self.buffer) // 2 else np.empty(2 * len(self.buffer), np.uint8)
        target[: len(unread)] = unread.copy() if target is self.buffer else unread
        self.buffer, self.begin, self.end = target, 0, len(unread)
        self.origin += moved
        start = self.end
        while self.end < len(self.buffer):
            count = self._file.readinto(self.buffer[self.end :].data)
            if not count:
                self.at_end = True
                break
            self.end += count
        if self._thread is not None:
            self._pending = self._thread.submit(self._hash.update, self.buffer[start : self.end].data)
        return moved

    def sha256(self) -> str:
        """Returns the sha256 of all bytes read so far, in hex."""
        self._wait()
        return self._hash.hexdigest()

    def close(self) -> None:
        """Stops the hashing thread and closes the file."""
        if self._thread is not None:
            self._thread.shutdown()
        self._file.close()

    def _wait(self) -> None:
        if self._pending is not None:
            self._pending.result()
            self._pending = None


class BrokenFrame(Exception):
    """The next part of a frame is not whole, or is not supported; the message says why."""


def zstd_pieces(stored: PieceSource, history: int) -> Iterator[bytes]:
    """Yields the header of a zstd frame, its blocks with their headers, and its checksum.

    Args:
        stored: the file, at the magic of a frame; behind the frame afterwards.
        history: largest history that the frame may request, bytes.

    Raises:
        BrokenFrame: if the file ends in a part, the frame requests too much history, or a block is too long, or a
            dictionary is needed.
    """
    head = stored.peek(18)
    flags = head[4] if len(head) > 4 else 0
    single, checked = flags >> 5 & 1, flags >> 2 & 1
    identity = (0, 1, 2, 4)[flags & 3]
    content = (single, 2, 4, 8)[flags >> 6]
    size = 5 + (1 - single) + identity + content
    if len(head) < max(size, 5):
        raise BrokenFrame("it ends inside the header of a zstd frame")
    if single:
        wanted = int.from_bytes(head[size - content : size], "little")
    else:
        base = 1 << 10 + (head[5] >> 3)
        wanted = base + base // 8 * (head[5] & 7)
    if wanted > history:
        raise BrokenFrame(f"a zstd frame asks for {wanted:,} bytes of history, more than {history:,}")
    if any(head[size - content - identity : size - content]):
        raise BrokenFrame("a zstd frame was compressed with a dictionary")
    yield stored.take(size)
    last = 0
    while not last:
        word = int.from_bytes(_whole(stored.peek(3), 3, "zstd"), "little")
        last, kind, length = word & 1, word >> 1 & 3, word >> 3
        if length > _LARGEST_ZSTD_BLOCK:
            raise BrokenFrame("a zstd block is too long")
        yield _take(stored, 3 + (1 if kind == _RLE else length), "zstd")
    if checked:
        yield _take(stored, 4, "zstd")


def lz4_pieces(stored: PieceSource) -> Iterator[bytes]:
    """Yields the header of an lz4 frame, its blocks with lengths and checksums, and its end.

    Args:
        stored: the file, at the magic of a frame; behind the frame afterwards.

    Raises:
        BrokenFrame: if the file ends in a part, the frame needs a dictionary, or a block is too long.
    """
    head = _whole(stored.peek(6), 6, "lz4")
    flags, largest = head[4], 1 << 8 + 2 * (head[5] >> 4 & 7)
    if flags & 1:
        raise BrokenFrame("an lz4 frame was compressed with a dictionary")
    yield _take(stored, 7 + (8 if flags & 8 else 0), "lz4")
    while length := int.from_bytes(_whole(stored.peek(4), 4, "lz4"), "little") & 0x7FFF_FFFF:
        if length > largest:
            raise BrokenFrame("an lz4 block is too long")
        yield _take(stored, 4 + length + (4 if flags & 16 else 0), "lz4")
    yield _take(stored, 4 + (4 if flags & 4 else 0), "lz4")


def _take(stored: PieceSource, size: int, name: str) -> bytes:
    start = stored.position
    piece = stored.take(size)
    if len(piece) < size:
        stored.position = start
    return _whole(piece, size, name)


def _whole(piece: bytes, size: int, name: str) -> bytes:
    if len(piece) < size:
        raise BrokenFrame(f"it ends inside {'an' if name == 'lz4' else 'a'} {name} frame")
    return piece


# Decompression. A file is one or more members (gzip members, zstd or lz4 frames, xz streams) of one format, recognised
# by its magic. Memory is bounded for every file: `DECOMPRESSED_AHEAD` blocks of 2 MiB, the history of the decompressor
# (gzip 32 KiB, lz4 about 8 MiB, zstd and xz at most `DECOMPRESSOR_HISTORY`), and 4 MiB of the stored file.


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
    engine, size_out = lzma.LZMADecompressor(lzma.FORMAT_XZ, DECOMPRESSOR_HISTORY + _XZ_OVERHEAD), 0
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
    "zstd": _frame("zstd", lambda stored: zstd_pieces(stored, DECOMPRESSOR_HISTORY)),
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
        self._blocks: deque[Future[bytes]] = deque(self._thread.submit(self._block) for _ in range(DECOMPRESSED_AHEAD))
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
