"""A lake may be somebody else's: nothing leads out of it, and no file takes more memory than it has a right to."""

from __future__ import annotations

import errno
import math
import os
import re
import stat
import struct
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from io import BufferedReader, FileIO, RawIOBase
from pathlib import Path, PurePath
from select import POLLIN, poll
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import unquote

from lowwater import errors, limits
from lowwater.storage.object_paths import ObjectPath

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


# Nothing of a lake leads out of it: neither a link in its folders nor a path in the log of a table. A lake may come
# from somebody else. What it names is read, overwritten and removed by commands, so a path is followed only where it
# ends inside of the folder of the lake. The folder itself may be a link, and lie below some.

REMEDY = "if the lake is yours, move what lies there into its folder, or mount it there; do not use a lake of strangers"

_ROOTS: dict[str, str] = {}
"""Folder of each lake of this process -> where it really is."""

_OUT = re.compile(r"(^|/)\.\.(/|$)|^/|^[A-Za-z][A-Za-z0-9+.-]*:|\\|\x00")


def know(root: PurePath) -> None:
    """Notes that a folder is a lake; `require_inside` then judges the paths below it. Stores have no links."""
    if not isinstance(root, ObjectPath) and str(root) not in _ROOTS:
        _ROOTS[str(root)] = os.path.realpath(root)


def require_inside(path: PurePath) -> None:
    """Checks that a path of a known lake ends inside of it, whatever its folders and its last part are.
    Raises LakeError if a link leads out of the lake."""
    if not isinstance(path, ObjectPath):
        require_folder(path if os.path.islink(path) else path.parent)


def require_folder(folder: PurePath) -> None:
    """Checks that a folder of a known lake is inside of it; what lies in it may lead elsewhere.
    Raises LakeError if a link leads out of the lake."""
    if isinstance(folder, ObjectPath):
        return
    above = [str(folder), *map(str, folder.parents)]
    lake = next((place for place in above if place in _ROOTS), None)
    if lake is None or lake == above[0] or _below(_real(above[0]), _ROOTS[lake]):
        return
    link = next(place for place in reversed(above[: above.index(lake)]) if not _below(_real(place), _ROOTS[lake]))
    raise errors.LakeError(f"{link}: is a link that leads out of the lake, to {_real(link)}", REMEDY)


# An honest lake has thousands of files in each folder, which is looked at once.
@lru_cache(maxsize=4096)
def _real(folder: str) -> str:
    return os.path.realpath(folder)


def _below(target: str, root: str) -> bool:
    return target == root or target.startswith(root.rstrip("/") + "/")


def open_file(path: PurePath | str) -> BufferedReader:
    """Opens a file to read it: in a lake a regular one, elsewhere also a stream, such as <(...) of a shell.
    Raises OSError if it cannot be read, or is no file."""
    if not any(str(place) in _ROOTS for place in PurePath(path).parents):
        return BufferedReader(open_stream(path))
    return open_regular(path)


def open_stream(path: PurePath | str) -> RawIOBase:
    """Opens a regular file, or a stream that a person names. Whoever reads it waits `limits.STREAM_WAIT` for a byte, no
    longer: into a pipe or a terminal perhaps nobody writes.
    Raises OSError if it cannot be opened; reads raise one after this wait."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    mode = os.fstat(handle).st_mode
    if stat.S_ISDIR(mode):
        os.close(handle)
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    file = FileIO(handle)
    return file if stat.S_ISREG(mode) else _Waited(file)


class _Waited(RawIOBase):
    """A stream that is waited for, as it comes."""

    def __init__(self, file: FileIO) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._file.fileno()

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, target: Any) -> int:
        ready, until = poll(), time.monotonic() + limits.STREAM_WAIT
        ready.register(self._file, POLLIN)
        while (left := until - time.monotonic()) > 0:
            # Without an event, a read of a pipe that nobody has opened to write says that it has ended.
            if ready.poll(math.ceil(1000 * left)) and (count := self._file.readinto(target)) is not None:
                return count
        raise OSError(errno.ETIMEDOUT, f"it is no file but a stream, and for {limits.STREAM_WAIT:g} s no byte came")


def open_regular(path: PurePath | str) -> BufferedReader:
    """Opens a regular file to read it, and waits for nobody. Raises OSError if it cannot be read, or is no file."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is no file", str(path))
    return os.fdopen(handle, "rb")


def require_names(folder: PurePath | str, names: Iterable[str]) -> None:
    """Checks that paths in the log of a table, written as URLs, name files below its folder.
    Raises LakeError if one leads elsewhere."""
    for name in names:
        if _OUT.search(name) or ("%" in name and _OUT.search(unquote(name))):
            raise errors.LakeError(
                f"{folder}: its log names a file outside of the table: {name!a}",
                "another program wrote this log, and nothing of it was read; restore the table, or do not use the lake",
            )


def require_plain_folder(folder: PurePath) -> None:
    """Checks that neither a folder of a lake nor what lies directly in it leads out of the lake.
    Raises LakeError if a link does."""
    if isinstance(folder, ObjectPath):
        return
    require_folder(folder)
    try:
        with os.scandir(folder) as entries:
            links = [entry.name for entry in entries if entry.is_symlink()]
    except OSError:
        return  # whoever opens it says why it cannot
    for name in links:
        require_inside(Path(folder) / name)


# Looks at parquet files of a lake before they are decoded: a small file can say that it is gigabytes of memory.
# Decoders take memory by what the headers of pages say, not by the footer. So the headers are walked, which
# decompresses nothing, and the few pages whose values can stand for many others, dictionaries, are read.


NEAR = 1 << 18
"""Bytes of a column above which the length of each text is looked at where it matters: that costs time."""

HINT = (
    "it is damaged, or another program wrote it: `lowwater verify` with --data says how it is made again; do not use a "
    "lake of strangers"
)


class UnreadableError(errors.LakeError, OSError):
    """A parquet file that is damaged, or takes more memory than is given to it.

    It is an OSError too, for callers to whom any file that cannot be read is one that is not there.
    """

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.errno, self.strerror = errno.EINVAL, message


_DATA, _DICTIONARY, _DATA_2 = 0, 2, 3
_CODED = (2, 8)  # encodings by a dictionary
_PREFIXES = 7  # the encoding in which a text is said by the one before it
_TEXTS = ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_USUAL_HEADER = 512  # bytes; of many small pages each would be read with 64 KiB behind it
_OWN = ("UNCOMPRESSED", "SNAPPY")
"""Compressions that all decoders bound by the size in the header."""


@dataclass(frozen=True, slots=True)
class _Page:
    kind: int
    packed: int
    unpacked: int
    values: int
    encoding: int
    place: int
    plain: int
    """Bytes that are not compressed: the levels of pages of version 2, or all."""


class _Other(Exception):
    """It is no parquet file: whoever opens it says so."""


def require_modest(name: object, path: str | os.PathLike[str], whole: int | None = None) -> None:
    """Checks that a parquet file takes a bounded memory; a file that has not changed is looked at once. `whole`: most
    bytes of all of it, for a decoder that decodes it as a whole and takes memory by what comes out of a page; None for
    Arrow's, which goes by row groups.
    Raises UnreadableError if it takes more, or too long; or it cannot be read as a whole."""
    try:
        state = os.stat(path)
    except OSError:
        return  # whoever opens it says why it cannot
    _look(str(name), os.fspath(path), whole, (state.st_ino, state.st_mtime_ns, state.st_size))


@lru_cache(maxsize=1 << 15)
def _look(name: str, path: str, whole: int | None, state: object) -> None:
    import pyarrow as pa

    try:
        with open_file(path) as file:
            _require(name, file, path, whole)
    except _Other:
        if whole is not None:
            raise UnreadableError(f"{name}: is no parquet file", HINT) from None
    except UnreadableError:
        raise  # it says why
    except (pa.ArrowException, OSError, ValueError, IndexError, struct.error, OverflowError) as error:
        reason = (str(error).splitlines() or [""])[0][:200]
        raise UnreadableError(f"{name}: is no readable parquet file: {reason}", HINT) from None


def require_footer(name: object, file: BinaryIO) -> None:
    """Checks that what a parquet file says of itself is read in a bounded memory. Raises UnreadableError if not."""
    if file.seek(0, os.SEEK_END) < 12:
        return  # whoever opens it says that it is no parquet file
    file.seek(-8, os.SEEK_END)
    size, magic = file.read(4), file.read(4)
    if magic not in (b"PAR1", b"PARE"):
        return  # whoever opens it says so
    footer = int.from_bytes(size, "little")
    if footer > limits.PARQUET_FOOTER_BYTES:
        raise UnreadableError(
            f"{name}: its footer has {footer:,} bytes, at most {limits.PARQUET_FOOTER_BYTES:,} are read", HINT
        )


def require_pages(name: object, file: BinaryIO, metadata: pq.FileMetaData, columns: Collection[str]) -> None:
    """Checks that columns of a parquet file are read page by page in a bounded memory and time, where texts stay
    dictionaries. Raises UnreadableError if they are not, and ValueError if the file is damaged.

    `columns`: dotted names; those below them in structs and lists are looked at too."""
    wanted = {f"{column}." for column in columns}
    made = 0
    for number in range(metadata.num_row_groups):
        group, held = metadata.row_group(number), 0
        for at in range(group.num_columns):
            chunk = group.column(at)
            ends = (match.end() for match in re.finditer(r"\.", f"{chunk.path_in_schema}."))
            if not any(f"{chunk.path_in_schema}."[:end] in wanted for end in ends):
                continue
            values, repeated = 0, metadata.schema.column(at).max_repetition_level > 0
            largest = {_DATA: 0, _DICTIONARY: 0}  # of a column one page of each kind is in memory
            for page in _pages(file, chunk):
                _require_page(name, page)
                kind = _DICTIONARY if page.kind == _DICTIONARY else _DATA
                largest[kind] = max(largest[kind], page.unpacked)
                values += page.values
                made += page.unpacked + 8 * page.values
                if repeated and 8 * values > limits.PARQUET_PAGE_BYTES:  # they may all be of one row
                    raise UnreadableError(f"{name}: a list of it may have {values:,} values", HINT)
                if made > limits.PARQUET_FILE_BYTES:
                    raise UnreadableError(f"{name}: it becomes more than {limits.PARQUET_FILE_BYTES:,} bytes", HINT)
            held += sum(largest.values())
        if held > limits.PARQUET_GROUP_BYTES:
            raise UnreadableError(
                f"{name}: the pages of its columns take {held:,} bytes of memory at a time, at most "
                f"{limits.PARQUET_GROUP_BYTES:,} are given to them",
                HINT,
            )


def _require_page(name: object, page: _Page) -> None:
    if page.unpacked > limits.PARQUET_PAGE_BYTES or page.unpacked < 0 or page.values < 0:
        raise UnreadableError(
            f"{name}: a page of it has {page.unpacked:,} bytes, at most {limits.PARQUET_PAGE_BYTES:,} are read", HINT
        )


def _require(name: str, file: BinaryIO, path: str, whole: int | None) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if file.seek(0, os.SEEK_END) < 12:
        raise _Other
    require_footer(name, file)
    try:
        metadata = pq.read_metadata(path)
    except (pa.ArrowException, OSError):
        raise _Other from None
    chunks: list[tuple[int, pq.ColumnChunkMetaData, int]] = []
    made, longest = 0, limits.PARQUET_FILE_BYTES if whole is None else 2 * whole
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for at in range(group.num_columns):
            memory, decoded = _memory(name, file, group.column(at), whole is not None, longest)
            chunks.append((number, group.column(at), memory))
            made += decoded
            if made > longest:  # before the rest of it is looked at
                raise UnreadableError(f"{name}: takes too long to read: it becomes more than {longest:,} bytes", HINT)
        if whole is None:
            made += _require_room(name, path, chunks, limits.PARQUET_GROUP_BYTES)
            chunks = []
    _require_room(name, path, chunks, limits.PARQUET_GROUP_BYTES if whole is None else whole)


def _require_room(name: str, path: str, chunks: list[tuple[int, pq.ColumnChunkMetaData, int]], most: int) -> int:
    """Checks that columns fit into memory together; returns the bytes that they take."""
    taken = sum(memory for _, _, memory in chunks)
    for number, chunk, memory in sorted(chunks, key=lambda each: -each[2]):
        if taken <= most or memory <= NEAR:
            break
        taken += _exact(path, number, chunk, memory) - memory
    if taken > most:
        raise UnreadableError(f"{name}: would take {taken:,} bytes of memory, at most {most:,} are given to it", HINT)
    return taken


def _memory(name: str, file: BinaryIO, chunk: pq.ColumnChunkMetaData, strict: bool, most: int) -> tuple[int, int]:
    """Returns an upper bound of the bytes of a column of a row group in memory, and those that its pages become, which
    are counted until they are more than `most`."""
    text, longest, memory, decoded = chunk.physical_type in _TEXTS, 0, 0, 0
    for page in _pages(file, chunk):
        _require_page(name, page)
        decoded += page.unpacked + 8 * page.values
        if decoded > most:
            break
        if strict and chunk.compression not in _OWN:
            _unpacked(file, chunk, page)
        if text and page.kind == _DICTIONARY:
            longest = _longest(_unpacked(file, chunk, page), chunk.physical_type, page.values)
        elif text and page.encoding in _CODED:
            memory += page.values * longest
        elif text and page.encoding == _PREFIXES:
            memory += page.values * page.unpacked
    return memory + decoded, decoded


def _pages(file: BinaryIO, chunk: pq.ColumnChunkMetaData) -> Iterator[_Page]:
    at, dictionary = chunk.data_page_offset, chunk.dictionary_page_offset or 0
    if dictionary:
        if dictionary > at and chunk.num_values:
            raise ValueError("a dictionary stands behind its values")  # decoders would begin at different places
        at = dictionary
    end = at + chunk.total_compressed_size
    while at < end:
        header, length = _page_header(file, at)
        kind, unpacked, packed = (_number(header, place) for place in (1, 2, 3))
        inner = header.get({_DATA: 5, _DICTIONARY: 7, _DATA_2: 8}.get(kind, 0), {})
        if packed < 0 or not isinstance(inner, dict):
            raise ValueError("the header of a page is damaged")
        encoding = _number(inner, 4 if kind == _DATA_2 else 2, 0)
        plain = _number(inner, 5, 0) + _number(inner, 6, 0) if kind == _DATA_2 else 0
        if kind == _DATA_2 and inner.get(7) is False:
            plain = packed
        yield _Page(kind, packed, unpacked, _number(inner, 1, 0), encoding, at + length, plain)
        at += length + packed


def _page_header(file: BinaryIO, at: int) -> tuple[dict[int, Any], int]:
    for size in (_USUAL_HEADER, limits.PARQUET_PAGE_HEADER_BYTES):
        file.seek(at)
        try:
            return _struct(file.read(size), 0, 0)
        except IndexError:
            if size > _USUAL_HEADER:
                raise
    raise AssertionError


def _number(fields: Mapping[int, Any], number: int, default: int | None = None) -> int:
    value = fields.get(number, default)
    if type(value) is not int:
        raise ValueError("the header of a page is damaged")
    return value


def _unpacked(file: BinaryIO, chunk: pq.ColumnChunkMetaData, page: _Page) -> bytes:
    """Returns what a page holds, without more memory than its header says."""
    import pyarrow as pa

    file.seek(page.place)
    data = file.read(page.packed)
    if chunk.compression == "UNCOMPRESSED" or len(data) == page.plain:
        return data
    codec = {"LZ4": "lz4_raw"}.get(chunk.compression, chunk.compression.lower())
    size = page.unpacked - page.plain
    rest: bytes = pa.decompress(data[page.plain :], decompressed_size=size, codec=codec, asbytes=True)
    return data[: page.plain] + rest


def _longest(data: bytes, kind: str, values: int) -> int:
    if kind != "BYTE_ARRAY":
        return len(data) // max(1, values)
    at, longest, end = 0, 0, len(data)
    while at < end:  # over a million texts in some stages, for which they wait
        (length,) = _length_at(data, at)
        if length > longest:
            longest = length
        at += 4 + length
    return longest


_length_at = struct.Struct("<I").unpack_from


def _exact(path: str, number: int, chunk: pq.ColumnChunkMetaData, bound: int) -> int:
    """Returns the bytes of a column of a row group where its texts are as long as they are, not as the longest one."""
    import pyarrow.parquet as pq

    if chunk.physical_type != "BYTE_ARRAY" or chunk.num_values > limits.PARQUET_TEXTS:
        return bound
    name = chunk.path_in_schema
    with pq.ParquetFile(path, read_dictionary=[name]) as file:
        column = file.read_row_group(number, [name], use_threads=False).column(0)
    return sum(_size(part) for part in column.chunks)


def _size(values: pa.Array) -> int:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(values.type):
        texts: int = pc.sum(pc.binary_length(values.dictionary).take(values.indices.drop_null())).as_py() or 0
        return texts + 8 * len(values)
    if pa.types.is_struct(values.type):
        return sum(_size(field) for field in values.flatten())
    if pa.types.is_map(values.type):
        return _size(values.keys) + _size(values.items)
    if pa.types.is_list(values.type):
        return _size(values.values)
    return int(values.nbytes)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number in the header of a page is too long")


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    """Reads a struct in Thrift's compact protocol: number of each field -> its value; and the place behind it."""
    fields: dict[int, Any] = {}
    if depth > 8:
        raise ValueError("the header of a page is nested too deeply")
    number = 0
    while True:
        byte = data[at]
        at += 1
        if byte == 0:
            return fields, at
        if byte >> 4:
            number += byte >> 4
        else:
            value, at = _varint(data, at)
            number = (value >> 1) ^ -(value & 1)
        fields[number], at = _value(data, at, byte & 15, depth)


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (1, 2):
        return kind == 1, at
    if kind == 3:
        return data[at], at + 1
    if kind in (4, 5, 6):
        value, at = _varint(data, at)
        return (value >> 1) ^ -(value & 1), at
    if kind == 7:
        return None, at + 8
    if kind == 8:
        length, at = _varint(data, at)
        return None, at + length
    if kind == 12:
        return _struct(data, at, depth + 1)
    raise ValueError("the header of a page has a list")  # which no version of the format has
