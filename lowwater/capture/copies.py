"""A copy of a capture without some of its records; all other bytes are as they were."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import shutil
import struct
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from lowwater.capture.formats.capture_file import FILE_HEADER, RECORD_HEADER
from lowwater.capture.formats.sources import Damage, PieceSource, Stream, compression_of, members
from lowwater.errors import CaptureError

_CLASSIC = {b"\xd4\xc3\xb2\xa1": "<", b"\x4d\x3c\xb2\xa1": "<", b"\xa1\xb2\xc3\xd4": ">", b"\xa1\xb2\x3c\x4d": ">"}
_SECTION = 0x0A0D0D0A
_MAGIC = 0x1A2B3C4D
_SIMPLE = 3
_PACKETS = {2: 28, _SIMPLE: 12, 6: 28}
"""Type of a pcapng block with a packet -> bytes before its frame."""
_DISPENSABLE = {4, 5, 10, 0x0BAD, 0x40000BAD}
"""Blocks that may go as a whole: names of addresses, statistics, secrets of decryption, and what others defined."""
_MOST = 1 << 28

Test = Callable[[bytes], bool]


def without(path: Path, frames: Mapping[int, bytes], test: Test, target: Path | None) -> int:
    """Copies a pcap or pcapng, plain or compressed as it was, without chosen records; returns how many they are.

    Args:
        frames: number of a record to leave out -> its bytes, by which it is found out whether this is that record.
        test: which other records, and which blocks of a pcapng that are no packets, are left out, by all their bytes.
        target: to write; None to count only.

    Raises CaptureError if it is another file, is damaged, or a record is not what it was, and OSError if it cannot be
    read or written."""
    with path.open("rb") as raw:
        packed, source = unpacked(raw)
        if target is None:
            return _copy(path, source, io.BytesIO(), frames, test, False)
        with target.open("xb") as plain:
            out = _PACKERS[packed](plain) if packed else plain
            count = _copy(path, source, out, frames, test, True)
            if packed:
                out.close()
            plain.flush()
            os.fsync(plain.fileno())
        return count


def unpacked(raw: IO[bytes]) -> tuple[str, IO[bytes]]:
    """Returns how an opened file is compressed, empty for not at all, and its bytes, which raise ValueError where they
    are damaged."""
    packed = compression_of(raw.read(FILE_HEADER))
    raw.seek(0)
    return packed, io.BufferedReader(_Unpacked(raw)) if packed else raw


class _Unpacked(io.RawIOBase):
    """The bytes of a compressed file. Raises ValueError where they are damaged."""

    def __init__(self, packed: IO[bytes]) -> None:
        self._pieces = members(PieceSource(Stream(packed, owned=False), hashed=False))
        self._piece = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        try:
            while not self._piece:
                self._piece = memoryview(next(self._pieces))
        except StopIteration:
            return 0
        except Damage as error:
            raise ValueError(str(error)) from error
        count = min(len(target), len(self._piece))
        target[:count], self._piece = self._piece[:count], self._piece[count:]
        return count


class _Frames(io.RawIOBase):
    """Writes bytes as frames of a codec of Arrow, one behind the other, as pzstd does."""

    def __init__(self, codec: str, plain: IO[bytes]) -> None:
        self._codec, self._plain, self._waiting = pa.Codec(codec), plain, bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._waiting += data
        if len(self._waiting) >= _FRAME:
            self._pack()
        return len(data)

    def close(self) -> None:
        if not self.closed and self._waiting:
            self._pack()
        super().close()

    def _pack(self) -> None:
        self._plain.write(self._codec.compress(bytes(self._waiting), asbytes=True))
        self._waiting.clear()


_FRAME = 4 << 20
_PACKERS: dict[str, Callable[[IO[bytes]], Any]] = {
    "gzip": lambda plain: gzip.GzipFile("", "wb", 6, plain, 0),
    "xz": partial(lzma.LZMAFile, mode="wb"),
    "zstd": partial(_Frames, "zstd"),
    "lz4": partial(_Frames, "lz4"),
}


def replace_without(path: Path, frames: Mapping[int, bytes], test: Test) -> int:
    """Puts such a copy in the place of a capture, once it is whole; returns how many records are left out. Rights and
    owner stay. Raises as `without`."""
    target = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.part")
    try:
        count = without(path, frames, test, target)
        if count:
            shutil.copymode(path, target)
            status = path.stat()
            if os.geteuid() == 0:
                os.chown(target, status.st_uid, status.st_gid)
            os.replace(target, path)
        return count
    finally:
        target.unlink(missing_ok=True)


def _copy(path: Path, source: IO[bytes], out: IO[bytes], frames: Mapping[int, bytes], test: Test, writes: bool) -> int:
    left = dict(frames)
    try:
        head = source.read(4)
    except ValueError as error:
        raise _unlike(path) from error
    walk = _classic if head in _CLASSIC else _blocks if head == struct.pack("<I", _SECTION) else None
    if walk is None:
        raise CaptureError(
            f"{path}: is no pcap or pcapng, plain or compressed", "leave the records out by its own tools"
        )
    count = 0
    try:
        for each in walk(head, source):
            if each.number is not None and each.number in left:
                if each.frame != left.pop(each.number):
                    raise ValueError(each.number)
                gone = True
            else:
                gone = test(each.data)
            if gone and not each.may_go:
                raise CaptureError(f"{path}: its header has what is to go", "write it anew by another tool (editcap)")
            count += gone
            if writes and not gone:
                out.write(each.data)
    except (ValueError, struct.error, EOFError) as error:
        raise _unlike(path) from error
    if left:
        raise _unlike(path)
    return count


def _unlike(path: Path) -> CaptureError:
    return CaptureError(
        f"{path}: is damaged, or not what the lake has read of it", "leave the packets out by another tool (editcap)"
    )


def _exactly(source: IO[bytes], size: int) -> bytes:
    if not 0 <= size <= _MOST:
        raise ValueError(size)
    data = source.read(size)
    if len(data) != size:
        raise ValueError(size)
    return data


@dataclass(frozen=True)
class _Part:
    """A record, or a block of a pcapng, or a header, whose `data` is all of its bytes."""

    data: bytes
    number: int | None = None  # of the record
    frame: bytes = b""
    may_go: bool = True


def _classic(head: bytes, source: IO[bytes]) -> Iterator[_Part]:
    order = _CLASSIC[head]
    yield _Part(head + _exactly(source, FILE_HEADER - 4), may_go=False)
    number = 0
    while record := source.read(RECORD_HEADER):
        (size,) = struct.unpack_from(f"{order}I", record, 8)
        frame = _exactly(source, size)
        yield _Part(record + frame, number, frame)
        number += 1


def _blocks(head: bytes, source: IO[bytes]) -> Iterator[_Part]:
    order, number, kind = "<", 0, head
    while kind:
        length, rest = _exactly(source, 4), b""
        if kind == struct.pack("<I", _SECTION):
            rest = _exactly(source, 4)
            order = "<" if rest == struct.pack("<I", _MAGIC) else ">"
        size = struct.unpack(f"{order}I", length)[0]
        body = rest + _exactly(source, size - 8 - len(rest))
        block, data = struct.unpack(f"{order}I", kind)[0], kind + length + body
        if block in _PACKETS:
            begin = _PACKETS[block] - 8
            if block == _SIMPLE:  # its frame ends with the block, but for padding that its length does not tell
                captured = min(size - 16, struct.unpack_from(f"{order}I", body)[0])
            else:
                captured = struct.unpack_from(f"{order}I", body, 12)[0]
            if begin + captured > len(body):
                raise ValueError(captured)
            yield _Part(data, number, body[begin : begin + captured])
            number += 1
        else:
            yield _Part(data, may_go=block in _DISPENSABLE)
        kind = source.read(4)
