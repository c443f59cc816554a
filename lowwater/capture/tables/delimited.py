"""Delimited text (CSV): parses blocks of records with Arrow's reader.

Between `blocks` and `reader`. Arrow splits the values of a record; a record with another number of values than the file
is malformed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.capture.formats.sources import Source
from lowwater.capture.tables.blocks import Block, TextBlocks
from lowwater.capture.tables.pieces import ENCODING, LONG, Piece, Places, Refusals, make_piece
from lowwater.capture.tables.splitting import Splitter, read_values
from lowwater.catalog.records import RecordField, RecordLayout
from lowwater.errors import CaptureError
from lowwater.machine_code import cached_njit

SAMPLED = 1000
"""First records of a file without a header, whose most frequent number of values is that of the file."""

MOST_COLUMNS = 10_000
"""Most columns of a file. Each costs memory, whatever is in it."""


@dataclass(frozen=True)
class TextOptions:
    """How delimited text is written; picklable.

    Attributes:
        separator: character between two values.
        quote: character around a quoted value; empty if values are never quoted.
        header: whether the first line has the names of the columns; None if the layout reads columns by name.
        null: unquoted texts that stand for NULL.
    """

    separator: str = ","
    quote: str = '"'
    header: bool | None = None
    null: tuple[str, ...] = ("",)

    def __str__(self) -> str:
        return repr((self.separator, self.quote, self.header, self.null))


class DelimitedParser:
    """Parses a delimited text file; iterate it once.

    Args:
        path: path of the file, for messages.
        source: its decompressed bytes.
        layout: the fields.
        options: how the text is written.
        damaged: as for `TextBlocks`.

    Attributes:
        blocks: the blocks of the file.
        overhead: bytes of the header line.
        width: number of values of a record; 0 before the first block.
    """

    def __init__(
        self, path: Path, source: Source, layout: RecordLayout, options: TextOptions, damaged: Callable[[], bool]
    ) -> None:
        quote = ord(options.quote) if options.quote else None
        self.blocks = TextBlocks(source, ord(options.separator), quote, damaged)
        self.overhead = 0
        self._path, self._layout, self._options = path, layout, options
        self._header = any(field.path for field in layout.fields) if options.header is None else options.header
        self.width = 0
        self._splitter = Splitter(options.separator, options.quote, options.null, 0, (0,) * len(layout.fields))

    def __iter__(self) -> Iterator[Callable[[], Piece]]:
        """Yields the work on each block, in order; a thread may do it while the next block is read."""
        for block in self.blocks:
            first = 0
            if not self.width and len(block):
                first = self._begin(block)
            yield partial(self._piece, block, first)

    def _begin(self, block: Block) -> int:
        """Finds the columns of the file. Returns the number of records of the block that are its header.

        Raises:
            CaptureError: there are too many columns, or the file lacks a column of the layout.
        """
        names: list[str] | None = None
        sampled = block.joined(np.arange(1 if self._header else min(len(block), SAMPLED)))
        widths = block_widths(sampled, ord(self._options.separator), ord(self._options.quote or "\n"))
        self.width = _most_frequent(widths)
        if self.width > MOST_COLUMNS:
            raise CaptureError(
                f"{self._path}: has {self.width:,} columns, and at most {MOST_COLUMNS:,} are read",
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
        """Returns the index of a field's column.

        Raises:
            CaptureError: the file does not have it.
        """
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

    def _piece(self, block: Block, first: int) -> Piece:
        places = Places(block.offset + block.begins[first:], (block.ends - block.begins)[first:], block.lines[first:])
        refusals = Refusals(len(places))
        refusals.add(np.flatnonzero(block.long[first:]), LONG)
        unreadable = block.no_utf8() - first
        refusals.add(unreadable[unreadable >= 0], ENCODING)
        indices, raw = self._splitter.split(block, np.flatnonzero(refusals.codes == 0), first, refusals)
        return make_piece(self._layout, places, indices, raw, refusals)


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
        data: records, each with its end of line.
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
