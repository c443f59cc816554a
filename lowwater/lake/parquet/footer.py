"""Parquet metadata: page headers and the footer, in Thrift's compact protocol.

Below `writer`, after parquet.thrift of the Parquet format.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

MAGIC = b"PAR1"

PLAIN, RLE, DELTA, DICTIONARY = 0, 3, 5, 8
"""Numbers of encodings."""

BOOLEAN, INT32, INT64, DOUBLE, TEXT = 0, 1, 2, 5, 6
"""Numbers of physical types; TEXT is BYTE_ARRAY."""

CREATOR = "lowwater"

_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2

_Field = tuple[int, int, bytes]


@dataclass(frozen=True)
class Column:
    """A column of the schema.

    Attributes:
        name: name of the column.
        kind: physical type.
        nullable: whether it has definition levels.
        text: whether its bytes are text.
    """

    name: str
    kind: int
    nullable: bool
    text: bool = False


@dataclass(frozen=True)
class ColumnChunk:
    """The pages of a column, as the footer describes them.

    Attributes:
        column: the column.
        size: bytes in the file, with headers and dictionary.
        encodings: encodings in use.
        data: bytes before the first data page.
        unpacked: bytes without compression.
        codec: number of the compression.
        bounds: smallest and largest value of a 64-bit column; None without them.
    """

    column: Column
    size: int
    encodings: Sequence[int]
    data: int
    unpacked: int
    codec: int = 0
    bounds: tuple[int, int] | None = None


def varint(value: int) -> bytes:
    """Encodes a non-negative number, seven bits a byte, the least bits first."""
    data = bytearray()
    while value >= 0x80:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


def _number(identity: int, value: int, kind: int = _I32) -> _Field:
    return identity, kind, varint(value << 1 if value >= 0 else (-value << 1) - 1)


def _text(identity: int, value: bytes) -> _Field:
    return identity, _BINARY, varint(len(value)) + value


def _list(identity: int, kind: int, values: Sequence[bytes]) -> _Field:
    head = bytes([len(values) << 4 | kind]) if len(values) < 15 else bytes([0xF0 | kind]) + varint(len(values))
    return identity, _LIST, head + b"".join(values)


def _struct(*fields: _Field) -> bytes:
    data, last = bytearray(), 0
    for identity, kind, value in fields:
        data.append(identity - last << 4 | kind)
        data += value
        last = identity
    return bytes(data) + b"\0"


def data_header(rows: int, encoding: int, size: int) -> bytes:
    """Makes the header of an uncompressed data page (version 1)."""
    before, between, behind = _around(rows, encoding)
    number = varint(size << 1)
    return before + number + between + number + behind


@lru_cache(64)
def _around(rows: int, encoding: int) -> tuple[bytes, bytes, bytes]:
    """Returns the bytes before, between and behind the two sizes in the header of a data page."""
    page = _struct(_number(1, rows), _number(2, encoding), _number(3, RLE), _number(4, RLE))
    header = _struct(_number(1, _DATA_PAGE), _number(2, 0), _number(3, 0), (5, _STRUCT, page))
    kind, field = _struct(_number(1, _DATA_PAGE))[:-1], bytes([1 << 4 | _I32])
    return kind + field, field, header[len(kind) + 4 :]


def dictionary_header(entries: int, size: int) -> bytes:
    """Makes the header of an uncompressed dictionary page."""
    page = _struct(_number(1, entries), _number(2, PLAIN))
    return _struct(_number(1, _DICTIONARY_PAGE), _number(2, size), _number(3, size), (7, _STRUCT, page))


def footer(chunks: Sequence[ColumnChunk], rows: int) -> bytes:
    """Makes the end of a file with one row group, whose column chunks follow MAGIC in this order."""
    at, placed = len(MAGIC), []
    for chunk in chunks:
        placed.append(_struct(_number(2, at, _I64), (3, _STRUCT, _facts(chunk, rows, at))))
        at += chunk.size
    size = sum(chunk.unpacked for chunk in chunks)
    group = _struct(_list(1, _STRUCT, placed), _number(2, size, _I64), _number(3, rows, _I64))
    root = _struct(_text(4, b"schema"), _number(5, len(chunks)))
    columns = [root, *(_element(chunk.column) for chunk in chunks)]
    # Without column orders, readers ignore the bounds of columns.
    orders = [_struct((1, _STRUCT, _struct()))] * len(chunks)
    metadata = _struct(
        _number(1, 2),
        _list(2, _STRUCT, columns),
        _number(3, rows, _I64),
        _list(4, _STRUCT, [group]),
        _text(6, CREATOR.encode()),
        _list(7, _STRUCT, orders),
    )
    return metadata + len(metadata).to_bytes(4, "little") + MAGIC


def _element(column: Column) -> bytes:
    fields = [_number(1, column.kind), _number(3, int(column.nullable)), _text(4, column.name.encode())]
    if column.text:
        fields += [_number(6, 0), (10, _STRUCT, _struct((1, _STRUCT, _struct())))]
    return _struct(*fields)


def _facts(chunk: ColumnChunk, rows: int, at: int) -> bytes:
    fields = [
        _number(1, chunk.column.kind),
        _list(2, _I32, [varint(encoding << 1) for encoding in chunk.encodings]),
        _list(3, _BINARY, [_text(0, chunk.column.name.encode())[2]]),
        _number(4, chunk.codec),
        _number(5, rows, _I64),
        _number(6, chunk.unpacked, _I64),
        _number(7, chunk.size, _I64),
        _number(9, at + chunk.data, _I64),
    ]
    if chunk.data:
        fields.append(_number(11, at, _I64))
    if chunk.bounds is not None:
        least, most = (value.to_bytes(8, "little", signed=True) for value in chunk.bounds)
        fields.append((12, _STRUCT, _struct(_text(5, most), _text(6, least))))
    return _struct(*fields)
