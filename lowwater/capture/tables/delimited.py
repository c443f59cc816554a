"""Delimited text (CSV), and text logs whose header lines say which columns follow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
from numpy.typing import NDArray

from lowwater.capture.formats.sources import Source
from lowwater.capture.tables import blocks
from lowwater.capture.tables.options import TextOptions
from lowwater.catalog.protocols import NFDUMP_KIND, ZEEK_KIND
from lowwater.catalog.records import SECONDS, RecordField, RecordLayout
from lowwater.catalog.values import Type
from lowwater.errors import CaptureError
from lowwater.limits import LOG_COLUMNS, LOG_HEADER_CHARACTERS, LOG_HEADERS, SEPARATED_COLUMNS
from lowwater.machine_code import cached_njit

# Delimited text (CSV): parses blocks of records with Arrow's reader. Between `blocks` and `reader`. Arrow splits the
# values of a record; a record with another number of values than the file is malformed.

# Splits records of delimited text into values with Arrow's reader. Below the parsers of text. A record with another
# number of values than expected is malformed.

_NONE = -1
"""Value in place of a quote where values are never quoted."""

Split = tuple[NDArray[np.int64], pa.Table]
"""Indices of records, ascending, and their values: bytes in columns `f<number from 0>`."""


@dataclass(frozen=True)
class Splitter:
    """How records are split; picklable."""

    separator: str
    quote: str  # character around a quoted value; empty if values are never quoted
    null: tuple[str, ...]  # unquoted texts that stand for NULL
    width: int
    chosen: tuple[int, ...]  # indices of the values that are given

    def split(
        self, block: blocks.Block, records: NDArray[np.int64], first: int, refusals: blocks.Refusals
    ) -> tuple[Any, list[pa.Array]]:
        """Splits some records of a block; refuses those with another number of values. Returns the indices of the
        records that were split, ascending, and the values of each chosen index.

        Args:
            records: indices of the records less `first`, ascending.
            first: index of the record of the block that `refusals` counts as 0.
        """
        parted = self._parted(block, records + first) - first
        refusals.add(parted, blocks.COLUMNS)
        whole = np.setdiff1d(records, parted, assume_unique=True) if len(parted) else records
        parts = self._split(block, whole, first, refusals)
        indices = np.concatenate([np.empty(0, np.int64), *(found for found, _ in parts)])
        raw = [_joined([table.column(f"f{at}") for _, table in parts]) for at in self.chosen]
        return indices, raw

    def _parted(self, block: blocks.Block, records: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the records of some that Arrow would not read as one, because of a return or of an open quote."""
        open_end = block.last and len(block) > 0 and not block.record(len(block) - 1).endswith(b"\n")
        holders = np.full(int(open_end), len(block) - 1)
        if b"\r" in block.data:
            array = np.frombuffer(block.data, np.uint8)
            returns = np.flatnonzero(array[:-1] == blocks.RETURN)
            bare = returns[array[returns + 1] != blocks.NEWLINE]
            holders = np.append(holders, np.searchsorted(block.begins, bare, side="right") - 1)
        chosen = np.intersect1d(holders, records)
        if not len(chosen):
            return chosen
        parted = np.zeros(len(chosen), np.bool_)
        data, signs = (
            np.frombuffer(block.data, np.uint8),
            (ord(self.separator), ord(self.quote) if self.quote else _NONE),
        )
        _is_parted(data, block.begins[chosen], block.ends[chosen], *signs, parted)
        return chosen[parted]

    def _split(
        self, block: blocks.Block, chosen: NDArray[np.int64], first: int, refusals: blocks.Refusals
    ) -> list[Split]:
        """Splits some records: all at once, and where that fails, by halves down to the records that fail."""
        if not len(chosen):
            return []
        invalid: list[int] = []
        try:
            table = read_values(block.joined(chosen + first), self, invalid)
        except pa.ArrowInvalid:
            table = None
        if table is not None and table.num_rows + len(invalid) == len(chosen):
            bad = np.array(invalid, np.int64) - 1
            refusals.add(chosen[bad], blocks.COLUMNS)
            return [(np.delete(chosen, bad), table)]
        if len(chosen) == 1:
            refusals.add(chosen, blocks.COLUMNS)
            return []
        middle = len(chosen) // 2
        return [
            *self._split(block, chosen[:middle], first, refusals),
            *self._split(block, chosen[middle:], first, refusals),
        ]


@cached_njit(nogil=True)
def _is_parted(data: Any, begins: Any, ends: Any, separator: int, quote: int, parted: Any) -> None:
    """Marks the records that Arrow reads as none or several: a carriage return outside of quotes ends a line for it.

    Empty lines are nothing for it, so a return at the begin or the end of a record divides nothing.
    """
    for index in range(len(begins)):
        lines, filled, start, quoted, at = 0, False, True, False, begins[index]
        while at < ends[index]:
            byte = data[at]
            if not quoted and (byte == 13 or byte == 10):
                filled, start = False, True
            else:
                lines += not filled
                filled = True
                if quoted and byte == quote and at + 1 < ends[index] and data[at + 1] == quote:
                    at += 1
                elif byte == quote and (quoted or start):
                    quoted, start = not quoted, False
                else:
                    start = not quoted and byte == separator
            at += 1
        parted[index] = lines != 1 or quoted


def read_values(
    data: bytes, splitter: Splitter, invalid: list[int] | None = None, widths: list[int] | None = None
) -> pa.Table:
    """Reads records as a table of bytes. Raises ArrowInvalid if the data cannot be split.

    Args:
        splitter: how they are split; a width of 0 takes that of the first record, and gives all values.
        invalid: gets the numbers of the records with another number of values, from 1.
    """
    if data.startswith(blocks.MARK):
        data = blocks.MARK + data  # Arrow drops the first one, and a value may begin with it

    def skip(row: Any) -> str:
        if widths is not None:
            widths.append(row.actual_columns)
        if invalid is not None:
            invalid.append(row.number)
        return "skip"

    width = splitter.width
    most = width or max(line.count(splitter.separator.encode()) for line in data.split(b"\n")) + 1
    # The columns that no field reads are parsed, but not converted.
    wanted: Sequence[str] | None = [f"f{at}" for at in sorted(set(splitter.chosen))] if width else None
    names = [f"f{at}" for at in range(most)]
    return pcsv.read_csv(
        pa.BufferReader(data),
        read_options=pcsv.ReadOptions(
            use_threads=False,
            block_size=max(len(data) + 1, 1024),
            column_names=names if width else None,
            autogenerate_column_names=not width,
        ),
        parse_options=pcsv.ParseOptions(
            delimiter=splitter.separator,
            quote_char=splitter.quote or False,
            newlines_in_values=bool(splitter.quote),
            invalid_row_handler=skip,
        ),
        convert_options=pcsv.ConvertOptions(
            column_types={name: pa.binary() for name in names},
            null_values=list(splitter.null),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            include_columns=wanted,
            check_utf8=False,
        ),
    )


def _joined(columns: list[pa.ChunkedArray]) -> pa.Array:
    chunks = [chunk for column in columns for chunk in column.chunks]
    return pa.concat_arrays(chunks) if chunks else pa.nulls(0, pa.binary())


SAMPLED = 1000
"""First records of a file without a header, whose most frequent number of values is that of the file."""


class DelimitedParser:
    """Parses a delimited text file; iterate it once.

    Args:
        source: its decompressed bytes.
        damaged: as for `TextBlocks`.

    Attributes:
        overhead: bytes of the header line.
        width: number of values of a record; 0 before the first block.
    """

    def __init__(
        self, path: Path, source: Source, layout: RecordLayout, options: TextOptions, damaged: Callable[[], bool]
    ) -> None:
        quote = ord(options.quote) if options.quote else None
        self.blocks = blocks.TextBlocks(source, ord(options.separator), quote, damaged)
        self.overhead = 0
        self._path, self._layout, self._options = path, layout, options
        self._header = any(field.path for field in layout.fields) if options.header is None else options.header
        self.width = 0
        self._splitter = Splitter(options.separator, options.quote, options.null, 0, (0,) * len(layout.fields))

    def __iter__(self) -> Iterator[Callable[[], blocks.Piece]]:
        """Yields the work on each block, in order; a thread may do it while the next block is read."""
        for block in self.blocks:
            first = 0
            if not self.width and len(block):
                first = self._begin(block)
            yield partial(self._piece, block, first)

    def _begin(self, block: blocks.Block) -> int:
        """Finds the columns of the file. Returns the number of records of the block that are its header.
        Raises CaptureError if there are too many columns, or the file lacks a column of the layout."""
        names: list[str] | None = None
        sampled = block.joined(np.arange(1 if self._header else min(len(block), SAMPLED)))
        widths = block_widths(sampled, ord(self._options.separator), ord(self._options.quote or "\n"))
        self.width = _most_frequent(widths)
        if self.width > SEPARATED_COLUMNS:
            raise CaptureError(
                f"{self._path}: has {self.width:,} columns, and at most {SEPARATED_COLUMNS:,} are read",
                "check separator and quote in the settings of the link",
            )
        self._splitter = replace(self._splitter, width=self.width, chosen=tuple(range(self.width)))
        if self._header:
            names = self._names(block.record(0))
            self.overhead = int(block.ends[0] - block.begins[0])
        chosen = tuple(self._index(field, names) for field in self._layout.fields)
        self._splitter = replace(self._splitter, chosen=chosen)
        return int(self._header)

    def _names(self, line: bytes) -> list[str]:
        try:
            line.decode("utf-8")
            table = read_values(line if line.endswith(b"\n") else line + b"\n", self._splitter)
            return [(column[0].as_py() or b"").decode("utf-8").strip() for column in table.columns]
        except (pa.ArrowInvalid, IndexError, UnicodeDecodeError) as error:
            raise CaptureError(
                f"{self._path}: its first line has no names of columns: {error}", "write header = false"
            ) from error

    def _index(self, field: RecordField, names: list[str] | None) -> int:
        """Returns the index of a field's column. Raises CaptureError if the file does not have it."""
        if field.position is not None:
            if field.position <= self.width:
                return field.position - 1
            raise CaptureError(
                f"{self._path}: has {self.width} columns, and {field.name} of {self._layout.protocol} reads column "
                f"{field.position}",
                "check separator in the settings of the link, and the positions in the PROTOCOL",
            )
        name = ".".join(field.path)
        if names is None:
            raise CaptureError(
                f"{self._path}: has no names of columns, and {field.name} of {self._layout.protocol} reads {name!r}",
                "write header = true in the settings of the link, or read columns by position: get_csv_uint_pos1",
            )
        if name not in names:
            raise CaptureError(
                f"{self._path}: has no column {name!r}, which {field.name} of {self._layout.protocol} reads",
                f"its columns are: {', '.join(names)}"[:500],
            )
        return names.index(name)

    def _piece(self, block: blocks.Block, first: int) -> blocks.Piece:
        places = blocks.Places(
            block.offset + block.begins[first:], (block.ends - block.begins)[first:], block.lines[first:]
        )
        refusals = blocks.Refusals(len(places))
        refusals.add(np.flatnonzero(block.long[first:]), blocks.LONG)
        unreadable = block.no_utf8() - first
        refusals.add(unreadable[unreadable >= 0], blocks.ENCODING)
        indices, raw = self._splitter.split(block, np.flatnonzero(refusals.codes == 0), first, refusals)
        if self._options.decimal == ".":
            return blocks.make_piece(self._layout, places, indices, raw, refusals)
        read = [
            with_point(texts) if has_fraction(field) else texts
            for field, texts in zip(self._layout.fields, raw, strict=True)
        ]
        return blocks.make_piece(self._layout, places, indices, read, refusals)


def has_fraction(field: RecordField) -> bool:
    """Whether the text of a value may have a fraction: a float, or decimal seconds."""
    return field.type is Type.FLOAT or field.form == SECONDS


def with_point(texts: pa.Array) -> pa.Array:
    """Returns numbers with a decimal comma as numbers with a point. A point in them stands between thousands, or the
    number is of another form: such a text is none of a number then, since its value would be wrong.

    Args:
        texts: strings, or bytes.
    """
    return pc.replace_substring(pc.replace_substring(texts, ".", "\0"), ",", ".")


def as_written(texts: pa.Array) -> pa.Array:
    """Returns the texts of which `with_point` made these."""
    return pc.replace_substring(pc.replace_substring(texts, ".", ","), "\0", ".")


@cached_njit(nogil=True)
def _count_values(data: Any, separator: int, quote: int, counts: Any) -> int:
    """Counts the values of each record, as Arrow splits them; returns the number of records."""
    records, values, start, quoted, at = 0, 1, True, False, 0
    while at < len(data) and records < len(counts):
        byte = data[at]
        if quoted:
            if byte == quote:
                if at + 1 < len(data) and data[at + 1] == quote:
                    at += 1
                else:
                    quoted = False
        elif byte == 10:
            counts[records] = values
            records += 1
            values, start = 1, True
        elif byte == separator:
            values += 1
            start = True
        elif start and byte == quote:
            quoted, start = True, False
        else:
            start = False
        at += 1
    return records


def block_widths(data: bytes, separator: int, quote: int) -> NDArray[np.int64]:
    """Returns the number of values of each whole record of some bytes, SAMPLED at most.

    Args:
        separator: the byte between two values.
        quote: the byte around a quoted value; a line feed for none.
    """
    counts = np.zeros(SAMPLED, np.int64)
    return counts[: _count_values(np.frombuffer(data, np.uint8), separator, quote, counts)]


def _most_frequent(widths: NDArray[np.int64]) -> int:
    """Returns the most frequent number of values, of several the largest; 1 without a record."""
    if not len(widths):
        return 1
    values, counts = np.unique(widths, return_counts=True)
    return int(values[counts == counts.max()].max())


# Parses text logs whose header lines say which columns the records below them have. Between `blocks` and `reader`. A
# log may have several headers: of files that were joined, or of a tool that started again. A record is read by the
# header above it. Ends of flows (ports, types of ICMP, the protocol) get the form that they have in packets, so one
# expression gives the Community ID of packets and of logs.


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


_NO_RECORD, _NO_HEADER = -1, -2


Numbers = NDArray[np.int16]
"""For each line of a block, the number of the section by which it is read; _NO_RECORD or _NO_HEADER without one."""


@dataclass(frozen=True)
class Section:
    """How the records below a header are read."""

    splitter: Splitter
    # for each field of the layout, its place among the values that the splitter gives; -1 for no value
    places: tuple[int, ...]
    lists: str = ","  # separator of the elements of sets and vectors
    empty: str = ""  # text of an empty value; empty for none
    left_out: str = ""  # name of the type of its records, where they are left out; empty where they are read


class SectionedParser(ABC):
    """Parses a log with header lines; iterate it once.
    Raises CaptureError if a header cannot be read, or no header is one of the protocol.

    Args:
        source: its decompressed bytes.
        damaged: as for `TextBlocks`.

    Attributes:
        overhead: 0; a piece counts the bytes of its lines that are no records.
        absent: fields that a header lacks.
        unknown: columns of a header that no field reads.
    """

    overhead = 0

    def __init__(self, path: Path, source: Source, layout: RecordLayout, damaged: Callable[[], bool]) -> None:
        self.blocks = blocks.TextBlocks(source, damaged=damaged)
        self._path, self._layout = path, layout
        self._sections: list[Section] = []
        self._headers: dict[object, int] = {}
        self._section = _NO_HEADER
        self._first = b""
        self._foreign = ""
        self.absent: set[str] = set()
        self.unknown: set[str] = set()

    def __iter__(self) -> Iterator[Callable[[], blocks.Piece]]:
        """Yields the work on each block, in order; headers are read here, since a block depends on those before it."""
        for block in self.blocks:
            yield partial(self.piece, block, self.numbers(block))
        self.check()

    def check(self) -> None:
        """Checks, at the end of the file, that a header was one of the protocol, unless there is no record.
        Raises CaptureError if none was."""
        if any(not section.left_out for section in self._sections):
            return
        if self._foreign:
            raise self.other_log(self._foreign)
        if self._first:
            raise self.no_header(self._first)

    @abstractmethod
    def marks(self, block: blocks.Block) -> NDArray[np.int64]:
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

    def numbers(self, block: blocks.Block) -> Numbers:
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

    def piece(self, block: blocks.Block, numbers: Numbers) -> blocks.Piece:
        places = blocks.Places(block.offset + block.begins, block.ends - block.begins, block.lines)
        refusals = blocks.Refusals(len(block))
        out = numbers == _NO_RECORD
        refusals.add(np.flatnonzero(numbers == _NO_HEADER), blocks.HEADER)
        left_out: dict[str, int] = {}
        used = np.unique(numbers[numbers >= 0]).tolist()
        for number in used:
            name = self._sections[number].left_out
            if name:
                left_out[name] = left_out.get(name, 0) + int(np.count_nonzero(numbers == number))
                out |= numbers == number
        refusals.add(np.flatnonzero(block.long & ~out), blocks.LONG)
        odd = block.no_utf8()
        refusals.add(odd[~out[odd]], blocks.ENCODING)
        read = [number for number in used if not self._sections[number].left_out]
        parts = [
            self._split(block, self._sections[number], np.flatnonzero(numbers == number), refusals) for number in read
        ]
        indices = np.concatenate([np.empty(0, np.int64), *(split for split, _ in parts)])
        raw = [_sections_joined([columns[at] for _, columns in parts]) for at in range(len(self._layout.fields))]
        if len(parts) > 1:
            order = np.argsort(indices, kind="stable")
            indices, raw = indices[order], [values.take(pa.array(order)) for values in raw]
        piece = blocks.make_piece(self._layout, places, indices, with_ends(self._layout, raw), refusals)
        return replace(piece, left_out=tuple(left_out.items()), overhead=int(places.lengths[out].sum()))

    def _split(
        self, block: blocks.Block, section: Section, records: NDArray[np.int64], refusals: blocks.Refusals
    ) -> tuple[NDArray[np.int64], list[pa.Array]]:
        whole = records[refusals.codes[records] == 0]
        indices, values = section.splitter.split(block, whole, 0, refusals)
        raw = [
            values[at].cast(pa.string()) if at >= 0 else pa.nulls(len(indices), pa.string()) for at in section.places
        ]
        return indices, self.values(section, self._layout.fields, raw)

    def begin_section(self, names: list[str], key: object, section: Section) -> None:
        """Begins a section: the lines that follow are its records.
        Raises CaptureError: too many columns or headers, or the file lacks the clock.

        Args:
            key: what a header must have in common with an earlier one to be the same one.
            section: the section without width, chosen columns and places.
        """
        if key not in self._headers:
            many = ""
            if len(names) > LOG_COLUMNS:
                many = f"{len(names):,} columns"
            elif sum(map(len, names)) > LOG_HEADER_CHARACTERS:
                many = f"a header of more than {LOG_HEADER_CHARACTERS:,} characters"
            elif len(self._headers) == LOG_HEADERS:
                many = f"more than {LOG_HEADERS:,} different headers"
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


def _sections_joined(columns: list[pa.Array]) -> pa.Array:
    return pa.concat_arrays(columns) if columns else pa.nulls(0, pa.string())
