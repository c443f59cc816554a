"""Parses text logs whose header lines say which columns the records below them have.

Between `blocks` and `reader`. A log may have several headers: of files that were joined, or of a tool that started
again. A record is read by the header above it. Ends of flows (ports, types of ICMP, the protocol) get the form that
they have in packets, so one expression gives the Community ID of packets and of logs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lowwater.capture.formats.sources import Source
from lowwater.capture.tables.blocks import (
    ENCODING,
    HEADER,
    LONG,
    Block,
    Piece,
    Places,
    Refusals,
    TextBlocks,
    make_piece,
)
from lowwater.capture.tables.delimited import Splitter
from lowwater.catalog.logs import NFDUMP_KIND, ZEEK_KIND
from lowwater.catalog.records import RecordField, RecordLayout
from lowwater.errors import CaptureError


def with_ends(layout: RecordLayout, raw: list[pa.Array]) -> list[pa.Array]:
    """Returns the texts of the fields with the ends of flows in the form of packets.

    Zeek calls ICMP of both versions `icmp`. nfdump writes type and code of ICMP as one destination port.

    Args:
        layout: the fields, in the order of `raw`.
        raw: the texts of each field, UTF-8.
    """
    names = [field.name for field in layout.fields]
    raw = list(raw)
    if layout.format == ZEEK_KIND and "protocol" in names:
        protocol, source = names.index("protocol"), names.index("srcIP")
        of_ipv6 = pc.match_substring(_text(raw[source]), ":")
        of_icmp = pc.equal(_text(raw[protocol]), "icmp")
        both = pc.and_(of_icmp, of_ipv6).fill_null(False)
        raw[protocol] = pc.if_else(both, "icmp6", _text(raw[protocol]))
    if layout.format == NFDUMP_KIND:
        protocol, source, target = (names.index(name) for name in ("protocol", "srcPort", "destPort"))
        written = _text(raw[protocol])
        of_icmp = pc.or_(pc.starts_with(written, "ICMP"), pc.is_in(written, pa.array(("1", "58")))).fill_null(False)
        if pc.any(of_icmp).as_py():
            port = _text(raw[target])
            parts = [_type_and_code(text) for text in pc.if_else(of_icmp, port, None).to_pylist()]
            for at, place in enumerate((source, target)):
                texts = pa.array([part[at] for part in parts], pa.string())
                raw[place] = pc.if_else(of_icmp, texts, _text(raw[place]))
    return raw


def _text(values: pa.Array) -> pa.Array:
    return values.cast(pa.string())


def _type_and_code(port: str | None) -> tuple[str | None, str | None]:
    """Returns type and code of a port of ICMP: `2048` and `8.0` are type 8, code 0; any other text stays a port."""
    if port is None:
        return None, None
    kind, dot, code = port.partition(".")
    if dot:
        return kind, code
    if not (port.isascii() and port.isdigit() and len(port) <= 5):
        return port, port
    return str(int(port) >> 8), str(int(port) & 0xFF)


MOST_SECTIONS = 1000
"""Most different headers of a file. A log has one; a hostile file would make a section of every line."""


MOST_COLUMNS = 4096
"""Most columns of a header."""


MOST_HEADER = 1 << 17
"""Most characters of the names in a header: all headers of a file stay in memory."""


_NO_RECORD, _NO_HEADER = -1, -2


Numbers = NDArray[np.int16]
"""For each line of a block, the number of the section by which it is read; _NO_RECORD or _NO_HEADER without one."""


@dataclass(frozen=True)
class Section:
    """How the records below a header are read.

    Attributes:
        splitter: splits them.
        places: for each field of the layout, its place among the values that the splitter gives; -1 for no value.
        lists: separator of the elements of sets and vectors.
        empty: text of an empty value; empty for none.
        left_out: name of the type of its records, where they are left out; empty where they are read.
    """

    splitter: Splitter
    places: tuple[int, ...]
    lists: str = ","
    empty: str = ""
    left_out: str = ""


class SectionedParser(ABC):
    """Parses a log with header lines; iterate it once.

    Args:
        path: path of the file, for messages.
        source: its decompressed bytes.
        layout: the fields, by name.
        damaged: as for `TextBlocks`.

    Attributes:
        blocks: the blocks of the file.
        overhead: 0; a piece counts the bytes of its lines that are no records.
        absent: fields that a header lacks.
        unknown: columns of a header that no field reads.

    Raises:
        CaptureError: a header cannot be read, or no header is one of the protocol.
    """

    overhead = 0

    def __init__(self, path: Path, source: Source, layout: RecordLayout, damaged: Callable[[], bool]) -> None:
        self.blocks = TextBlocks(source, damaged=damaged)
        self._path, self._layout = path, layout
        self._sections: list[Section] = []
        self._headers: dict[object, int] = {}
        self._section = _NO_HEADER
        self._first = b""
        self._foreign = ""
        self.absent: set[str] = set()
        self.unknown: set[str] = set()

    def __iter__(self) -> Iterator[Callable[[], Piece]]:
        """Yields the work on each block, in order; headers are read here, since a block depends on those before it."""
        for block in self.blocks:
            yield partial(self.piece, block, self.numbers(block))
        self.check()

    def check(self) -> None:
        """Checks, at the end of the file, that a header was one of the protocol, unless there is no record.

        Raises:
            CaptureError: none was.
        """
        if any(not section.left_out for section in self._sections):
            return
        if self._foreign:
            raise self.other_log(self._foreign)
        if self._first:
            raise self.no_header(self._first)

    @abstractmethod
    def marks(self, block: Block) -> NDArray[np.int64]:
        """Returns the indices of the lines that may be no records, ascending."""

    @abstractmethod
    def head(self, line: bytes) -> bool:
        """Reads a line that may be no record, and changes the section. Returns whether it is a record after all."""

    @abstractmethod
    def no_header(self, line: bytes) -> CaptureError:
        """Returns the error for a file without a header; `line` is its first record."""

    @abstractmethod
    def other_log(self, name: str) -> CaptureError:
        """Returns the error for a file whose records are all of another type."""

    def values(self, section: Section, fields: tuple[RecordField, ...], raw: list[pa.Array]) -> list[pa.Array]:
        """Returns the texts of the fields of a section without the signs of its format."""
        return raw

    def numbers(self, block: Block) -> Numbers:
        """Finds the section of each line; the call for a block comes after the call for the block before it."""
        numbers = np.empty(len(block), np.int16)
        begin = 0
        for mark in self.marks(block).tolist():
            before = self._section
            if self.head(block.record(mark)):
                continue
            numbers[begin:mark], numbers[mark] = before, _NO_RECORD
            begin = mark + 1
        numbers[begin:] = self._section
        headless = np.flatnonzero(numbers == _NO_HEADER)
        if len(headless) and not self._first:
            self._first = block.record(int(headless[0]))
        for number in np.unique(numbers[numbers >= 0]).tolist() if not self._foreign else ():
            self._foreign = self._foreign or self._sections[number].left_out
        return numbers

    def piece(self, block: Block, numbers: Numbers) -> Piece:
        """Parses the records of a block.

        Args:
            block: the block.
            numbers: what `numbers` gives for it.
        """
        places = Places(block.offset + block.begins, block.ends - block.begins, block.lines)
        refusals = Refusals(len(block))
        out = numbers == _NO_RECORD
        refusals.add(np.flatnonzero(numbers == _NO_HEADER), HEADER)
        left_out: dict[str, int] = {}
        used = np.unique(numbers[numbers >= 0]).tolist()
        for number in used:
            name = self._sections[number].left_out
            if name:
                left_out[name] = left_out.get(name, 0) + int(np.count_nonzero(numbers == number))
                out |= numbers == number
        refusals.add(np.flatnonzero(block.long & ~out), LONG)
        odd = block.no_utf8()
        refusals.add(odd[~out[odd]], ENCODING)
        read = [number for number in used if not self._sections[number].left_out]
        parts = [
            self._split(block, self._sections[number], np.flatnonzero(numbers == number), refusals) for number in read
        ]
        indices = np.concatenate([np.empty(0, np.int64), *(split for split, _ in parts)])
        raw = [_joined([columns[at] for _, columns in parts]) for at in range(len(self._layout.fields))]
        if len(parts) > 1:
            order = np.argsort(indices, kind="stable")
            indices, raw = indices[order], [values.take(pa.array(order)) for values in raw]
        piece = make_piece(self._layout, places, indices, with_ends(self._layout, raw), refusals)
        return replace(piece, left_out=tuple(left_out.items()), overhead=int(places.lengths[out].sum()))

    def _split(
        self, block: Block, section: Section, records: NDArray[np.int64], refusals: Refusals
    ) -> tuple[NDArray[np.int64], list[pa.Array]]:
        whole = records[refusals.codes[records] == 0]
        indices, values = section.splitter.split(block, whole, 0, refusals)
        raw = [
            values[at].cast(pa.string()) if at >= 0 else pa.nulls(len(indices), pa.string()) for at in section.places
        ]
        return indices, self.values(section, self._layout.fields, raw)

    def begin_section(self, names: list[str], key: object, section: Section) -> None:
        """Begins a section: the lines that follow are its records.

        Args:
            names: names of the columns.
            key: what a header must have in common with an earlier one to be the same one.
            section: the section without width, chosen columns and places.

        Raises:
            CaptureError: too many columns or headers, or the file lacks the clock.
        """
        if key not in self._headers:
            many = ""
            if len(names) > MOST_COLUMNS:
                many = f"{len(names):,} columns"
            elif sum(map(len, names)) > MOST_HEADER:
                many = f"a header of more than {MOST_HEADER:,} characters"
            elif len(self._headers) == MOST_SECTIONS:
                many = f"more than {MOST_SECTIONS:,} different headers"
            if many:
                raise CaptureError(f"{self._path}: has {many}, which no log has", "check kind of the link")
            self._headers[key] = len(self._sections)
            self._sections.append(self._placed(names, section))
        self._section = self._headers[key]

    def _placed(self, names: list[str], section: Section) -> Section:
        at = {name: index for index, name in reversed(list(enumerate(names)))}
        chosen: dict[int, int] = {}
        places = []
        for field in self._layout.fields:
            name = next((name for path in (field.path, *field.others) if (name := ".".join(path)) in at), None)
            places.append(-1 if name is None else chosen.setdefault(at[name], len(chosen)))
            if name is None and not section.left_out:
                self.absent.add(field.name)
            if name is None and field.stored == self._layout.clock and not section.left_out:
                raise CaptureError(
                    f"{self._path}: has no column {'.'.join(field.path)!r}, the clock of {self._layout.protocol}",
                    f"its columns are: {', '.join(names)}"[:500],
                )
        if not section.left_out:
            known = {".".join(path) for field in self._layout.fields for path in (field.path, *field.others)}
            self.unknown.update(type_name(name) for name in names if name and name not in known)
        splitter = replace(section.splitter, width=len(names), chosen=tuple(chosen) or (0,))
        return replace(section, splitter=splitter, places=tuple(places))


def type_name(name: str) -> str:
    """Returns the name of a type of records as counts show it: printable, at most 40 characters."""
    return "".join(char if char.isprintable() else "?" for char in name[:40]) or "no type"


def _joined(columns: list[pa.Array]) -> pa.Array:
    return pa.concat_arrays(columns) if columns else pa.nulls(0, pa.string())
