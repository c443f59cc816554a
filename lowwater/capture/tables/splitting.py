"""Splits records of delimited text into values with Arrow's reader.

Below the parsers of text. A record with another number of values than expected is malformed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
from numpy.typing import NDArray

from lowwater.capture.tables.blocks import MARK, NEWLINE, RETURN, Block
from lowwater.capture.tables.pieces import COLUMNS, Refusals
from lowwater.machine_code import cached_njit

_NONE = -1
"""Value in place of a quote where values are never quoted."""

Split = tuple[NDArray[np.int64], pa.Table]
"""Indices of records, ascending, and their values: bytes in columns `f<number from 0>`."""


@dataclass(frozen=True)
class Splitter:
    """How records are split; picklable.

    Attributes:
        separator: character between two values.
        quote: character around a quoted value; empty if values are never quoted.
        null: unquoted texts that stand for NULL.
        width: number of values of a record.
        chosen: indices of the values that are given.
    """

    separator: str
    quote: str
    null: tuple[str, ...]
    width: int
    chosen: tuple[int, ...]

    def split(
        self, block: Block, records: NDArray[np.int64], first: int, refusals: Refusals
    ) -> tuple[Any, list[pa.Array]]:
        """Splits some records of a block; refuses those with another number of values.

        Args:
            block: the block.
            records: indices of the records less `first`, ascending.
            first: index of the record of the block that `refusals` counts as 0.
            refusals: why records are malformed.

        Returns:
            The indices of the records that were split, ascending, and the values of each chosen index.
        """
        parted = self._parted(block, records + first) - first
        refusals.add(parted, COLUMNS)
        whole = np.setdiff1d(records, parted, assume_unique=True) if len(parted) else records
        parts = self._split(block, whole, first, refusals)
        indices = np.concatenate([np.empty(0, np.int64), *(found for found, _ in parts)])
        raw = [_joined([table.column(f"f{at}") for _, table in parts]) for at in self.chosen]
        return indices, raw

    def _parted(self, block: Block, records: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the records of some that Arrow would not read as one, because of a return or of an open quote."""
        open_end = block.last and len(block) > 0 and not block.record(len(block) - 1).endswith(b"\n")
        holders = np.full(int(open_end), len(block) - 1)
        if b"\r" in block.data:
            array = np.frombuffer(block.data, np.uint8)
            returns = np.flatnonzero(array[:-1] == RETURN)
            bare = returns[array[returns + 1] != NEWLINE]
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

    def _split(self, block: Block, chosen: NDArray[np.int64], first: int, refusals: Refusals) -> list[Split]:
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
            refusals.add(chosen[bad], COLUMNS)
            return [(np.delete(chosen, bad), table)]
        if len(chosen) == 1:
            refusals.add(chosen, COLUMNS)
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
    """Reads records as a table of bytes.

    Args:
        data: the records.
        splitter: how they are split; a width of 0 takes that of the first record, and gives all values.
        invalid: gets the numbers of the records with another number of values, from 1.
        widths: gets their numbers of values.

    Raises:
        ArrowInvalid: the data cannot be split.
    """
    if data.startswith(MARK):
        data = MARK + data  # Arrow drops the first one, and a value may begin with it

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
