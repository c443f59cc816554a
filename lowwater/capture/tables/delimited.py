"""Delimited text (CSV): parses blocks of records with Arrow's reader.

Between `blocks` and `reader`. Arrow splits the values of a record; a record with another number of values than the file
is malformed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
from numba import njit
from numpy.typing import NDArray

from lowwater.capture.formats.sources import Source
from lowwater.capture.tables.blocks import Block, TextBlocks
from lowwater.capture.tables.pieces import COLUMNS, ENCODING, LONG, Piece, Places, Refusals, make_piece
from lowwater.catalog.records import RecordField, RecordLayout
from lowwater.errors import CaptureError

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
        self._chosen = [0] * len(layout.fields)

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
        if self._header:
            names = self._names(block.record(0))
            self.overhead = int(block.ends[0] - block.begins[0])
        self._chosen = [self._index(field, names) for field in self._layout.fields]
        return int(self._header)

    def _names(self, line: bytes) -> list[str]:
        try:
            line.decode("utf-8")
            table = self._read(_closed(line), self.width, None)
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
        candidates = np.flatnonzero(refusals.codes == 0)
        odd = self._with_returns(block, candidates + first) - first
        groups = [candidates[~np.isin(candidates, odd)] if len(odd) else candidates, *odd.reshape(-1, 1)]
        parts = [part for chosen in groups for part in self._parse(block, chosen, first, refusals)]
        indices = np.concatenate([np.empty(0, np.int64), *(found for found, _ in parts)])
        raw = [_joined([table.column(f"f{at}") for _, table in parts]) for at in self._chosen]
        if len(odd):
            order = np.argsort(indices, kind="stable")
            indices, raw = indices[order], [values.take(pa.array(order)) for values in raw]
        return make_piece(self._layout, places, indices, raw, refusals)

    @staticmethod
    def _with_returns(block: Block, candidates: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the records with a carriage return that ends no line: Arrow would take it for an end of line."""
        if b"\r" not in block.data:
            return np.empty(0, np.int64)
        array = np.frombuffer(block.data, np.uint8)
        returns = np.flatnonzero(array[:-1] == 13)
        bare = returns[array[returns + 1] != 10]
        if not len(bare) or not len(candidates):
            return np.empty(0, np.int64)
        holders = np.unique(np.searchsorted(block.begins, bare, side="right") - 1)
        return np.intersect1d(holders, candidates)

    def _parse(
        self, block: Block, chosen: NDArray[np.int64], first: int, refusals: Refusals
    ) -> list[tuple[NDArray[np.int64], pa.Table]]:
        """Parses some records: all at once, and where that fails, by halves down to the records that fail."""
        if not len(chosen):
            return []
        invalid: list[int] = []
        try:
            table = self._read(block.joined(chosen + first), self.width, invalid)
        except pa.ArrowInvalid:
            table = None
        if table is not None and table.num_rows + len(invalid) == len(chosen):
            bad = np.array(invalid, np.int64) - 1
            refusals.add(chosen[bad], COLUMNS)
            return [(np.delete(chosen, bad), table)]
        if len(chosen) == 1:
            refusals.add(chosen, COLUMNS)
            return []
        middle = len(chosen) // 2
        return [
            *self._parse(block, chosen[:middle], first, refusals),
            *self._parse(block, chosen[middle:], first, refusals),
        ]

    def _read(self, data: bytes, width: int, invalid: list[int] | None) -> pa.Table:
        """Splits the values of records; all columns without `invalid`, else those of the fields.

        Args:
            data: whole records.
            width: number of their values.
            invalid: gets the number, from 1, of each record with another number of values.
        """

        def skip(row: Any) -> str:
            if invalid is not None:
                invalid.append(row.number)
            return "skip"

        names = [f"f{at}" for at in range(width)]
        # The columns that no field reads are parsed, but not converted.
        wanted = names if invalid is None else [f"f{at}" for at in sorted(set(self._chosen))]
        return pcsv.read_csv(
            pa.BufferReader(data),
            read_options=pcsv.ReadOptions(use_threads=False, block_size=max(len(data) + 1, 1024), column_names=names),
            parse_options=pcsv.ParseOptions(
                delimiter=self._options.separator,
                quote_char=self._options.quote or False,
                newlines_in_values=bool(self._options.quote),
                invalid_row_handler=skip,
            ),
            convert_options=pcsv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.binary()),
                null_values=list(self._options.null),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                include_columns=wanted,
                check_utf8=False,
            ),
        )


@njit(nogil=True, cache=True)
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


def _closed(line: bytes) -> bytes:
    return line if line.endswith(b"\n") else line + b"\n"


def _joined(columns: list[pa.ChunkedArray]) -> pa.Array:
    chunks = [chunk for column in columns for chunk in column.chunks]
    return pa.concat_arrays(chunks) if chunks else pa.nulls(0, pa.binary())
