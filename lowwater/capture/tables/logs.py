"""Logs of Zeek and nfdump in their own text formats, as the ready protocols of `catalog.protocols` read them.

Beside the parsers of `capture.tables`. A log is text below header lines, which say which columns the records below them
have; Zeek writes JSON lines, too, as Suricata does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lowwater.capture.formats.sources import Source
from lowwater.capture.tables.blocks import (
    Block,
    Piece,
)
from lowwater.capture.tables.delimited import Section, SectionedParser, Splitter, type_name
from lowwater.capture.tables.jsonlines import JsonParser
from lowwater.catalog.protocols import READY
from lowwater.catalog.records import LIST, RecordField, RecordLayout
from lowwater.catalog.values import Type
from lowwater.errors import CaptureError

# Flows as `nfdump -o csv` writes them: a header, the flows, and a summary behind them. A parser of `reader`. The
# columns are found by the header, since versions of nfdump have others.

_TIMES = {"ts", "firstSeen"}
"""Names of the clock; a line with one of them between commas is a header."""

_NAMED = {"sa", "da", "srcAddr", "dstAddr"}
"""Names of addresses, one of which every flow has; statistics (`nfdump -s`) have a column `val`."""

_TOTALS = b"flows,bytes,packets,"
_WORDS = (b"Summary", b"No matched flows", b"Time window:", b"Total flows processed:", b"Sys:")
_STATISTICS = "statistics"
_NULL = ("", "0000-00-00 00:00:00.000")


class NfdumpParser(SectionedParser):
    """Parses the CSV of nfdump; iterate it once. Arguments as of `SectionedParser`."""

    def __init__(self, path: Path, source: Source, layout: RecordLayout, damaged: Callable[[], bool]) -> None:
        super().__init__(path, source, layout, damaged)
        self._totals = False

    def marks(self, block: Block) -> NDArray[np.int64]:
        """Returns the lines that do not begin with a digit, and those behind them: totals follow their names."""
        if not len(block):
            return np.empty(0, np.int64)
        first = np.frombuffer(block.data, np.uint8)[block.begins]
        words = np.flatnonzero((first < ord("0")) | (first > ord("9")))
        near = np.concatenate([[0], words, words + 1])
        return np.unique(near[near < len(block)])

    def head(self, line: bytes) -> bool:
        """Reads a line that may be of a header or a summary."""
        line = line.strip()
        totals, self._totals = self._totals, line.startswith(_TOTALS)
        if self._totals or line.startswith(_WORDS):
            return False
        names = [name.strip() for name in line.decode("utf-8", "replace").split(",")]
        if not _TIMES.isdisjoint(names):
            left_out = "" if _NAMED & set(names) else _STATISTICS
            section = Section(Splitter(",", "", _NULL, 0, ()), (), left_out=left_out)
            self.begin_section(names, tuple(names), section)
            return False
        return not totals

    def no_header(self, line: bytes) -> CaptureError:
        return CaptureError(
            f"{self._path}: begins with {line[:60]!r}, and the CSV of nfdump begins with the names of its columns",
            "write it with nfdump -o csv, without -q",
        )

    def other_log(self, name: str) -> CaptureError:
        return CaptureError(
            f"{self._path}: has {name} of nfdump, and {self._layout.protocol} reads flows",
            "write it with nfdump -o csv, without -s",
        )


# Zeek's logs: text below lines `#fields`, or JSON lines. The first line of a file says which. A parser of `reader`.
# (Zeek's ASCII writer: src/logging/writers/ascii, src/threading/formatters/Ascii.cc.)

_HASH, _BRACE = ord("#"), ord("{")
_ESCAPE = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|(\\))")
_BARE = ("separator", "set_separator", "empty_field", "unset_field", "path", "fields")


class ZeekParser(SectionedParser):
    """Parses a log of Zeek; iterate it once. Arguments as of `SectionedParser`."""

    def __init__(self, path: Path, source: Source, layout: RecordLayout, damaged: Callable[[], bool]) -> None:
        super().__init__(path, source, layout, damaged)
        self._objects = JsonParser(source, layout, damaged)
        self._said: dict[str, str] = {}
        self._separator = "\t"
        self._json: bool | None = None

    def __iter__(self) -> Iterator[Callable[[], Piece]]:
        for block in self.blocks:
            if self._json is None and len(block):
                self._json = block.data[block.begins[0]] == _BRACE
            yield partial(self._objects.piece, block) if self._json else partial(self.piece, block, self.numbers(block))
        self.check()

    def marks(self, block: Block) -> NDArray[np.int64]:
        """Returns the indices of the lines that begin with `#`. Zeek escapes it where a value begins with it."""
        if not len(block):
            return np.empty(0, np.int64)
        return np.flatnonzero(np.frombuffer(block.data, np.uint8)[block.begins] == _HASH)

    def head(self, line: bytes) -> bool:
        """Reads a line with `#`; lines with other words, such as `#close`, are comments."""
        text = line.decode("utf-8", "replace").rstrip("\r\n")[1:]
        if text.startswith("separator "):
            self._separator = self._one_character(text.partition(" ")[2])
            self._said = {}
            return False
        word, _, value = text.partition(self._separator)
        if word in _BARE:
            self._said[word] = value
        if word == "fields":
            if "\ufffd" in text:
                raise CaptureError(f"{self._path}: its line #fields is not UTF-8", "check kind of the link")
            self._begin(value.split(self._separator))
        return False

    def no_header(self, line: bytes) -> CaptureError:
        """Returns the error for a log without `#fields`; `line` is its first record."""
        return CaptureError(
            f"{self._path}: has no line #fields, and is no JSON: its first record is {line[:60]!r}",
            'give the log as Zeek wrote it, or describe its columns in a PROTOCOL block and write kind = "csv"',
        )

    def _one_character(self, text: str) -> str:
        value = _unescaped(text.encode())
        if len(value) != 1 or value in b"\n\r\0#" or value[0] > 0x7E:
            raise CaptureError(
                f"{self._path}: its line #separator says {text[:40]!r}, and a separator is one character of ASCII",
                "write the log with Zeek's own separator, or as JSON",
            )
        return value.decode("ascii")

    def _begin(self, names: list[str]) -> None:
        path = self._said.get("path", "")
        unset = self._said.get("unset_field", "-")
        lists = self._said.get("set_separator", ",")
        empty = self._said.get("empty_field", "(empty)")
        key = (self._separator, lists, empty, unset, path, tuple(names))
        left_out = "" if belongs(path, self._layout.member) else type_name(path)
        section = Section(Splitter(self._separator, "", (unset,), 0, ()), (), lists, empty, left_out)
        self.begin_section(names, key, section)

    def other_log(self, name: str) -> CaptureError:
        """Returns the error for a file without records of the protocol; `name` is the type that it has."""
        named = [
            protocol.name
            for protocol in READY.values()
            if protocol.layout is not None
            and protocol.layout.format == self._layout.format
            and belongs(name, protocol.layout.member)
        ]
        hint = f"name {named[0]} in FROM" if named else 'describe it in a PROTOCOL block, and write kind = "csv"'
        message = f"{self._path}: is the log {name!r} of Zeek, and {self._layout.protocol} reads"
        return CaptureError(f"{message} {self._layout.member!r}", hint)

    def values(self, section: Section, fields: tuple[RecordField, ...], raw: list[pa.Array]) -> list[pa.Array]:
        """Returns the texts without Zeek's signs: `(empty)` is the empty text, `\\x09` a tab.

        Sets and vectors have commas between their elements, and keep `\\x2c` for a comma inside of one.
        """
        columns = []
        for field, values in zip(fields, raw, strict=True):
            if field.type is Type.STRING and not field.form:
                columns.append(_plain(_emptied(values, section.empty)))
            elif field.form == LIST:
                columns.append(_listed(_emptied(values, section.empty), section.lists))
            else:
                columns.append(values)
        return columns


def belongs(path: str, member: str) -> bool:
    """Whether a log is of a type: sites add words to the name, as in `conn_long`."""
    return not path or path == member or (path.startswith(member) and not path[len(member)].isalnum())


def _emptied(values: pa.Array, empty: str) -> pa.Array:
    return pc.if_else(pc.equal(values, empty), "", values) if empty else values


def _listed(values: pa.Array, separator: str) -> pa.Array:
    """Returns lists with commas between their elements, without escapes but `\\x2c`."""

    def written(text: str) -> str:
        elements = text.split(separator) if separator else [text]
        return ",".join(_zeek_text(element).replace(",", "\\x2c") for element in elements)

    odd = pc.match_substring(values, "\\")
    if separator != ",":
        odd = pc.or_(odd, pc.or_(pc.match_substring(values, ","), pc.match_substring(values, separator)))
    return _each_text(values, odd, written)


def _plain(values: pa.Array) -> pa.Array:
    return _each_text(values, pc.match_substring(values, "\\"), _zeek_text)


def _each_text(values: pa.Array, odd: pa.Array, change: Callable[[str], str]) -> pa.Array:
    """Changes the texts; calls the function only if one of them is odd, and once for equal texts."""
    if not pc.any(odd).as_py():
        return values
    encoded = values.dictionary_encode()
    texts = [change(text) for text in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices)


def _zeek_text(written: str) -> str:
    """Returns a text without escapes; bytes that are no UTF-8 stay `\\xff`, as in Zeek's JSON."""
    return _unescaped(written.encode()).decode("utf-8", "backslashreplace")


def _unescaped(text: bytes) -> bytes:
    return _ESCAPE.sub(lambda match: match[2] or bytes.fromhex(match[1].decode("ascii")), text)
