"""Files of rows: row groups by share of the keys, a file for each hour in published form, and how they are read.

What runs kernels is imported at its first use: who only reads promises and closes parts needs none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lowwater.catalog import expr as ex, schemas
from lowwater.columns.values import Frame, first, normal
from lowwater.instants import HOUR
from lowwater.limits import GROUP_ROWS, OPEN_HOUR_FILES, SHARED_GROUP_ROWS
from lowwater.plan import properties
from lowwater.plan.operators import Field
from lowwater.plan.shares import texts
from lowwater.storage import paths

# A row is in a share by a digest of its keys (`plan.shares`). The low level and the stages of a plan write row groups
# by FINEST shares, and name them in the metadata of the file; a part reads the row groups that meet its share. Files
# without such an index are read as a whole, and their rows chosen by digest. So rows never depend on how a file is
# divided.

FINEST = 64
"""The shares of an index, and the most shares of a part."""
_BITS = 32
"""Digests of shares have so many bits; the spills of an operator divide by the other ones."""
FEWEST = 1 << 13
"""Rows of a row group by share, at least: below it, reading row groups costs more than choosing rows."""
FEWEST_EXCHANGED = 1 << 10
"""The same where each of many parts leaves rows for all parts of the next stage."""
_INDEX = b"lowwater.shares"
_MIX = np.uint64(0xFF51AFD7ED558CCD)

Digests = npt.NDArray[np.uint32]
Choices = Sequence[tuple[ex.Expr, ...]]


def digests(frame: Frame, keys: Sequence[ex.Expr]) -> Digests:
    """Computes the digest of each row by which it is in a share."""
    from lowwater.capture.digests import row_digests

    mixed = row_digests([normal(frame.of_expr(key)) for key in keys], frame.rows)
    mixed ^= mixed >> np.uint64(33)
    return (mixed * _MIX >> np.uint64(64 - _BITS)).astype(np.uint32)


@dataclass(frozen=True)
class Bounds:
    """Digests from `first` to `end`, exclusive."""

    first: int = 0
    end: int = 1 << _BITS

    @staticmethod
    def of(number: int, shares: int) -> Bounds:
        return Bounds((number << _BITS) // shares, (number + 1 << _BITS) // shares)

    def meets(self, other: Bounds) -> bool:
        """Whether a digest is in both."""
        return self.first < other.end and other.first < self.end

    def holds(self, other: Bounds) -> bool:
        """Whether all digests of the other are in this one."""
        return self.first <= other.first and other.end <= self.end

    def chosen(self, values: Digests) -> pa.Array:
        """Marks the digests within the bounds."""
        return pa.array((values >= self.first) & (values.astype(np.int64) < self.end))


EVERYTHING = Bounds()


@dataclass(frozen=True)
class Share:
    """One of several shares of the rows of a part."""

    number: int  # from 0
    shares: int
    # leaf -> the expressions that divide its rows; of a leaf that is not here any rows are a share
    keys: Mapping[str, tuple[ex.Expr, ...]] = field(default_factory=dict)

    @property
    def bounds(self) -> Bounds:
        return Bounds.of(self.number, self.shares)


@dataclass(frozen=True)
class Index:
    """By what the row groups of a file are divided."""

    by: tuple[str, ...] = ()  # texts of the keys; empty for a file without an index
    groups: Sequence[Bounds] = ()

    @staticmethod
    def of(stored: pq.ParquetFile) -> Index:
        text = (stored.metadata.metadata or {}).get(_INDEX)
        if text is None:
            return Index()
        content = json.loads(text)
        return Index(tuple(content["by"]), [Bounds(*pair) for pair in content["groups"]])

    def bounds(self, group: int) -> Bounds:
        return self.groups[group] if self.by else EVERYTHING


class DividedWriter:
    """A parquet file whose row groups are divided by share where there are many rows.

    Args:
        choices: what may divide its rows: the first that divides evenly the first rows that are many, else the last;
            empty to divide nothing.
        most: rows of a row group, at most.
        fewest: rows of a row group by share, at least.
    """

    def __init__(
        self, path: Path, schema: pa.Schema, choices: Choices, most: int, fewest: int = FEWEST, **options: Any
    ) -> None:
        self._writer = pq.ParquetWriter(path, schema, write_page_checksum=True, **options)
        self._choices, self._most, self._fewest = choices, most, fewest
        self._keys: tuple[ex.Expr, ...] = ()
        self._groups: list[Bounds] = []

    def write(self, rows: pa.Table, divided: bool = True) -> None:
        """Writes rows; all of them have keys, unless they are not to be divided."""
        if divided and self._choices and not self._keys and rows.num_rows >= self._fewest:
            self._keys = _even(rows, self._choices)
        for bounds, piece in divide(rows, self._keys if divided else (), self._fewest):
            self._writer.write_table(piece, row_group_size=self._most)
            self._groups += [bounds] * -(-piece.num_rows // self._most)

    def close(self) -> None:
        if any(bounds != EVERYTHING for bounds in self._groups):
            groups = [[bounds.first, bounds.end] for bounds in self._groups]
            index = {"by": texts(self._keys), "groups": groups}
            self._writer.add_key_value_metadata({_INDEX.decode(): json.dumps(index)})
        self._writer.close()


class StreamWriter:
    """Writes a stream to a parquet file: small batches of rows become row groups, its promises others, whose order is
    that of their ticks (SEMANTICS P5). `keys` may divide its rows by share, from so many rows as `shared` of so long a
    time as `span`, ns: its readers begin slices at multiples of it (`plan.shares.undivided_spans`)."""

    def __init__(
        self,
        path: PurePath,
        schema: pa.Schema,
        keys: Choices = (),
        span: int = 1,
        shared: int = 1,
    ) -> None:
        self.path = path
        # The high level reads a file as soon as it has its name.
        self._open = paths.draft(path).with_suffix(".open")
        options = {"compression": "zstd", "compression_level": 1}
        fewest = min(FEWEST, -(-shared // 8))
        # What waits is one group, and not one and a small rest, unless the batches of a large table are larger.
        self._writer = DividedWriter(self._open, schema, keys, 2 * GROUP_ROWS, fewest, **options)
        self._schema, self._keys, self._span, self._least = schema, keys, span, shared
        self._waiting: list[pa.RecordBatch] = []
        self._promises: list[pa.RecordBatch] = []
        self._rows = 0
        self._epochs: set[int] = set()

    def write(self, batch: pa.RecordBatch) -> None:
        """Takes a batch of data rows, or one of promises."""
        if batch.column("_kind")[0].as_py() != schemas.ROW:
            self._promises.append(batch)
            if sum(map(len, self._promises)) >= GROUP_ROWS:
                self._promise()
            return
        self._waiting.append(batch)
        self._rows += batch.num_rows
        if self._keys:
            self._epochs.update((np.unique(batch.column(schemas.LAST).to_numpy()) // self._span).tolist())
        if self._rows >= (SHARED_GROUP_ROWS if self._shared else GROUP_ROWS):
            self._flush()

    def close(self) -> None:
        self._flush()
        self._promise()
        self._writer.close()
        paths.take(self._open, self.path)

    @property
    def _shared(self) -> bool:
        """Whether slices of time would have too many of the waiting rows, so that shares divide them."""
        return 0 < len(self._epochs) * self._least <= self._rows

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write(pa.Table.from_batches(self._waiting, self._schema), self._shared)
        self._waiting, self._rows = [], 0
        self._epochs.clear()

    def _promise(self) -> None:
        if self._promises:
            self._writer.write(pa.Table.from_batches(self._promises, self._schema), divided=False)
        self._promises = []


def _even(rows: pa.Table, choices: Choices) -> tuple[ex.Expr, ...]:
    """Returns the first choice by which no share has more than twice its part of the rows; else the last."""
    for keys in choices[:-1]:
        numbers = digests(Frame.of(rows.select(ex.columns_of(*keys))), keys) >> np.uint32(_BITS - 6)
        if np.bincount(numbers).max() * FINEST <= 2 * rows.num_rows:
            return keys
    return choices[-1]


def divide(rows: pa.Table, keys: Sequence[ex.Expr], fewest: int) -> Iterator[tuple[Bounds, pa.Table]]:
    """Yields rows by share, in as many shares as leave so many rows in each."""
    shares = FINEST
    while shares > 1 and rows.num_rows < shares * fewest:
        shares //= 2
    if not keys or shares == 1:
        yield EVERYTHING, rows
        return
    frame = Frame.of(rows.select(ex.columns_of(*keys)))
    numbers = (digests(frame, keys) >> np.uint32(_BITS - shares.bit_length() + 1)).astype(np.uint8)
    order = np.argsort(numbers, kind="stable")
    edges = np.cumsum(np.bincount(numbers, minlength=shares)).tolist()
    ordered = rows.take(pa.array(order))
    for number, (begin, end) in enumerate(zip([0, *edges], edges, strict=False)):
        if end > begin:
            yield Bounds.of(number, shares), ordered.slice(begin, end - begin)


# Published form: addresses as texts. `tables/` are partitioned by the hour of `_last`, so a file of one hour becomes
# part of a table unchanged.

ROW_GROUP = 1 << 20


def file_schema(fields: Sequence[Field], published: bool) -> pa.Schema:
    """The schema of a stream's files: fields, in published types with their instants or in stream types; CONTROL."""
    return properties.result_schema(fields) if published else properties.stream_schema(fields)


def file_columns(rows: pa.RecordBatch | pa.Table, fields: Sequence[Field], published: bool) -> list[pa.ChunkedArray]:
    """Converts rows in stream types to the columns of `file_schema`; other columns are dropped."""
    if not published:
        return [pa.table(rows).column(f.name) for f in fields]
    return [*published_columns(rows, fields), *instants_of(pa.table(rows), fields)]


def instants_of(rows: pa.Table, fields: Sequence[Field]) -> list[pa.ChunkedArray]:
    """Computes the columns of instants of a query from its temporal columns, NULL where they are NULL."""
    return [instants(column, rows.column(column.of)) for column in properties.instant_columns(fields)]


def instants(column: properties.InstantColumn, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Computes a column of instants from the values of its temporal column."""
    chunks = []
    for chunk in values.chunks:
        numbers = first(column.begins, chunk.fill_null(0).to_numpy(zero_copy_only=False))
        instants_us = np.maximum(numbers, 0) // 1000  # division truncates, so the epoch of 0 would begin before 1970
        empty = chunk.is_null().to_numpy(zero_copy_only=False)
        chunks.append(pa.array(instants_us, pa.int64(), mask=empty).cast(properties.INSTANT))
    return pa.chunked_array(chunks, properties.INSTANT)


def published_columns(rows: pa.RecordBatch | pa.Table, fields: Sequence[Field]) -> list[pa.ChunkedArray]:
    """Converts the fields of rows from stream types to published types."""
    from lowwater.columns.addresses import published

    table, schema = pa.table(rows), properties.published_schema(fields)
    return [
        pa.chunked_array([published(chunk, f.type) for chunk in table.column(f.name).chunks], schema.field(f.name).type)
        for f in fields
    ]


class HourFiles:
    """Writes rows to one file for each hour of `_last`.

    Args:
        folder: folder for the files: of this machine, or of the lake for readers on other machines.
        schema: schema of the rows, with `_last`.
        keys: what divides the row groups of a file by share; empty for nothing.

    Attributes:
        files: path -> number of rows, in the order of creation.
    """

    def __init__(self, folder: PurePath, name: str, schema: pa.Schema, keys: Sequence[ex.Expr] = ()) -> None:
        self.files: dict[PurePath, int] = {}
        self._folder, self._name, self._schema = folder, name, schema
        self._choices = [tuple(keys)] if keys else []
        self._open: dict[int, tuple[PurePath, DividedWriter]] = {}

    def __enter__(self) -> HourFiles:
        return self

    def __exit__(self, *raised: object) -> None:
        for hour in [*self._open]:
            self._close(hour)

    def write(self, rows: pa.Table) -> None:
        lasts = rows.column("_last").to_numpy()
        one = len(lasts) and int(lasts.min()) // HOUR == int(lasts.max()) // HOUR
        hours = lasts[:1] // HOUR if one else lasts // HOUR
        for hour in np.unique(hours).tolist():
            mine = rows if one else rows.filter(pa.array(hours == hour))
            path, writer = self._writer(hour)
            writer.write(mine)
            self.files[path] += mine.num_rows

    def _writer(self, hour: int) -> tuple[PurePath, DividedWriter]:
        entry = self._open.pop(hour, None)
        if entry is None:
            if len(self._open) == OPEN_HOUR_FILES:
                self._close(next(iter(self._open)))
            path = self._folder / f"{self._name}-{len(self.files):05d}.parquet"
            draft = paths.draft(path)
            entry = (
                path,
                DividedWriter(draft, self._schema, self._choices, ROW_GROUP, FEWEST_EXCHANGED, compression="lz4"),
            )
            self.files[path] = 0
        self._open[hour] = entry
        return entry

    def _close(self, hour: int) -> None:
        path, writer = self._open.pop(hour)
        writer.close()
        paths.put(path)


# A row group of a stored stream: rows of an LFTA on a link, or of a part of a cut plan.


def only_rows(stored: pq.ParquetFile, group: int) -> bool:
    """Whether the statistics of a row group say that it has data rows alone: nobody then has to read `_kind`, a text a
    row."""
    facts = stored.metadata.row_group(group)
    known = facts.column(stored.schema_arrow.get_field_index("_kind")).statistics
    return known is not None and known.has_min_max and known.min == known.max == schemas.ROW and not known.null_count


PLACE = "_place"
"""Column with the canonical order of a row: the number of its link in the query, and in the lower LINK_BITS its number
in the stream of the link.
"""
LINK_BITS = 40


@dataclass(frozen=True)
class Chunk:
    """A row group with data rows.

    Attributes:
        low, high: smallest and largest `_last` of its data rows, ns.
        before: number of rows of the stream before this group.
        size: number of its rows, with punctuation.
        by: texts of the keys by which the row groups of the file are divided.
        bounds: digests of its keys.
    """

    file: str
    group: int
    low: int
    high: int
    before: int
    size: int
    by: tuple[str, ...] = ()
    bounds: Bounds = EVERYTHING

    def known(self, by: tuple[str, ...]) -> Bounds:
        """Returns the digests of its rows by these keys: any, unless the file is divided by them."""
        return self.bounds if self.by == by else EVERYTHING

    def ending(
        self,
        stored: pq.ParquetFile,
        names: list[str],
        first: int,
        end: int,
        link: int | None = None,
        number: str = "",
        rows: slice = slice(None),
    ) -> pa.Table:
        """Reads the data rows with `_last` in [first, end).

        Args:
            link: number of the link, to add the column PLACE; None to leave it out.
            number: column with the number of the record on its link, for PLACE; empty takes the number of the row.
        """
        alone, inside = only_rows(stored, self.group), first <= self.low and self.high < end
        tested = [*([] if alone else ["_kind"]), *([] if inside else [schemas.LAST])]
        columns = [*names, *([number] if number else []), *tested]
        table = stored.read_row_group(self.group, columns=[*dict.fromkeys(columns)], use_threads=False)
        if link is not None:
            numbers = table[number] if number else pa.array(np.arange(self.before, self.before + table.num_rows))
            table = table.append_column(PLACE, pc.add(numbers, link << LINK_BITS))
            names = [*names, PLACE]
        if rows != slice(None):
            table = table.slice(rows.start, rows.stop - rows.start)
        if not alone:
            table = table.filter(pc.equal(table["_kind"], schemas.ROW))
        if not inside:
            last = table[schemas.LAST]
            table = table.filter(pc.and_(pc.greater_equal(last, first), pc.less(last, end)))
        return table.select(names)
