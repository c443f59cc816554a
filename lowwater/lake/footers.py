"""Parquet files whose bytes are those of several others, one behind the other, and a footer that names all row groups.

A reader finds the rows of all of them; each file is still there as it was, byte for byte, from its place on. Footers
are in Thrift's compact protocol, after parquet.thrift: what is not changed is copied as it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow.parquet as pq

from lowwater.errors import LakeError

MAGIC = b"PAR1"
MEMBERS = b"lowwater.members"
"""Key of the metadata of a footer with the files that are in it: JSON, name -> offset and bytes."""

_I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 4, 5, 6, 7, 8, 9, 10, 12
_VERSION, _SCHEMA, _ROWS, _GROUPS, _KEYS, _ORDERS = 1, 2, 3, 4, 5, 7
_OFFSETS: Mapping[tuple[int, ...], Any] = {
    (): {5},  # of a row group: its offset
    (1,): {2, 4, 6},  # of a column chunk: its offset, and those of its indexes
    (1, 3): {9, 10, 11, 14},  # of its metadata: of pages, dictionary and Bloom filter
}
"""Path of fields from a row group on -> its fields that are places in the file."""


def varint(value: int) -> bytes:
    """Encodes a non-negative number, seven bits a byte, the least bits first."""
    data = bytearray()
    while value >= 0x80:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


@dataclass
class _Value:
    """A value: its type, and what it is. A structure is its fields, number -> value; a list its values."""

    kind: int
    value: Any
    inner: int = 0  # type of the values of a list


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def struct(self) -> dict[int, _Value]:
        fields: dict[int, _Value] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            kind = head & 15
            fields[number] = _Value(kind, kind == 1) if kind in (1, 2) else self._value(kind)
        return fields

    def _value(self, kind: int) -> _Value:
        if kind == _STRUCT:
            return _Value(kind, self.struct())
        if kind in (_LIST, _SET):
            head = self._byte()
            count, inner = head >> 4, head & 15
            count = self._unsigned() if count == 15 else count
            if inner in (1, 2):
                return _Value(kind, [_Value(inner, self._byte() == 1) for _ in range(count)], inner)
            return _Value(kind, [self._value(inner) for _ in range(count)], inner)
        if kind == _BINARY:
            return _Value(kind, self._bytes(self._unsigned()))
        if kind == _DOUBLE:
            return _Value(kind, self._bytes(8))
        if kind in (_I16, _I32, _I64):
            return _Value(kind, self._signed())
        if kind == 3:
            return _Value(kind, self._byte())
        raise ValueError(f"a value of type {kind}")

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _bytes(self, count: int) -> bytes:
        self._at += count
        if self._at > len(self._data):
            raise ValueError("ends before its last value")
        return self._data[self._at - count : self._at]

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def _signed(self) -> int:
        value = self._unsigned()
        return value >> 1 ^ -(value & 1)


def _signed(value: int) -> bytes:
    return varint(value << 1 if value >= 0 else (-value << 1) - 1)


def _written(value: _Value) -> bytes:
    if value.kind == _STRUCT:
        return _struct(value.value)
    if value.kind in (_LIST, _SET):
        count = len(value.value)
        head = bytes([count << 4 | value.inner]) if count < 15 else bytes([0xF0 | value.inner]) + varint(count)
        return head + b"".join(map(_written, value.value))
    if value.kind in (1, 2):  # of a list
        return bytes([1 if value.value else 2])
    if value.kind == _BINARY:
        return varint(len(value.value)) + bytes(value.value)
    if value.kind in (_I16, _I32, _I64):
        return _signed(value.value)
    return bytes([value.value]) if value.kind == 3 else bytes(value.value)


def _struct(fields: Mapping[int, _Value]) -> bytes:
    data, last = bytearray(), 0
    for number, value in sorted(fields.items()):
        kind = (1 if value.value else 2) if value.kind in (1, 2) else value.kind
        data += bytes([number - last << 4 | kind]) if 0 < number - last < 16 else bytes([kind]) + _signed(number)
        if value.kind not in (1, 2):
            data += _written(value)
        last = number
    return bytes(data) + b"\0"


def _footer(data: bytes) -> dict[int, _Value]:
    size = int.from_bytes(data[-8:-4], "little")
    if data[:4] != MAGIC or data[-4:] != MAGIC or size + 12 > len(data):
        raise ValueError("is no parquet file")
    return _Reader(data[-8 - size : -8]).struct()


def _moved(fields: Mapping[int, _Value], by: int, path: tuple[int, ...] = ()) -> dict[int, _Value]:
    """Returns a row group, or a part of it, whose bytes lie so much further behind."""
    moved = {}
    for number, value in fields.items():
        below = (*path, number)
        if number in _OFFSETS.get(path, ()) and value.value > 0:
            value = _Value(value.kind, value.value + by)
        elif value.kind == _STRUCT and below in _OFFSETS:
            value = _Value(_STRUCT, _moved(value.value, by, below))
        elif value.kind == _LIST and value.inner == _STRUCT and below in _OFFSETS:
            moved_parts = [_Value(_STRUCT, _moved(each.value, by, below)) for each in value.value]
            value = _Value(_LIST, moved_parts, _STRUCT)
        moved[number] = value
    return moved


def form(data: bytes) -> bytes:
    """What the contents of parquet files that are put together have alike: schema and order of columns.
    Raises ValueError if it is none."""
    fields = _footer(data)
    return _struct({number: fields[number] for number in (_SCHEMA, _ORDERS) if number in fields})


def write_together(target: BinaryIO, files: Mapping[str, bytes]) -> None:
    """Writes a file of the contents of parquet files of one `form`, by name. Raises ValueError if one is none."""
    target.write(MAGIC)
    at, groups, rows, places = len(MAGIC), list[_Value](), 0, dict[str, tuple[int, int]]()
    first: dict[int, _Value] = {}
    for name, data in files.items():
        fields = _footer(data)
        first = first or fields
        for group in fields[_GROUPS].value:
            shifted = _moved(group.value, at)
            shifted.pop(7, None)  # its number
            groups.append(_Value(_STRUCT, shifted))
        rows += fields[_ROWS].value
        places[name] = at, len(data)
        at += target.write(data)
    keys = [each for each in (first[_KEYS].value if _KEYS in first else ()) if each.value[1].value == b"ARROW:schema"]
    text = json.dumps(places, separators=(",", ":")).encode()
    keys.append(_Value(_STRUCT, {1: _Value(_BINARY, MEMBERS), 2: _Value(_BINARY, text)}))
    changed = {
        _ROWS: _Value(_I64, rows),
        _GROUPS: _Value(_LIST, groups, _STRUCT),
        _KEYS: _Value(_LIST, keys, _STRUCT),
    }
    footer = _struct({**first, **changed})
    target.write(footer + len(footer).to_bytes(4, "little") + MAGIC)


def members(file: Path) -> dict[str, tuple[int, int]]:
    """Returns the files in a file of `write_together`: name -> offset and bytes; none in another one.
    Raises LakeError if it says of them what cannot be."""
    found = json.loads((pq.read_metadata(file).metadata or {}).get(MEMBERS, b"{}"))
    size = file.stat().st_size
    for name, (at, count) in found.items():
        if "/" in name or not 0 <= at <= at + count <= size:
            raise LakeError(f"{file}: names a file in it that cannot be there", "run `lowwater verify` with --data")
    return {name: (at, count) for name, (at, count) in found.items()}


def content(file: Path, places: Sequence[tuple[int, int]]) -> list[bytes]:
    """Reads files in a file, given their places."""
    with file.open("rb") as opened:
        found = []
        for at, count in places:
            opened.seek(at)
            found.append(opened.read(count))
        return found
