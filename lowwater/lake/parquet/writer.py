"""Writes a Parquet file from record batches: integers are encoded at once, other values by Arrow at the end.

Between `encoding` and `packing`. Arrow also encodes the numbers of a first capture of few rows, which then waits for no
compiler (docs/adr/0044). Only the pages of a file wait in memory, a sixth of the size of its rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lowwater.capture.interpretation import FirstRecords
from lowwater.lake.parquet import encoding
from lowwater.lake.parquet.footer import (
    BOOLEAN,
    DELTA,
    DICTIONARY,
    DOUBLE,
    INT32,
    INT64,
    MAGIC,
    PLAIN,
    RLE,
    TEXT,
    Column,
    ColumnChunk,
    data_header,
    dictionary_header,
    footer,
    varint,
)

_NONE = np.empty(0, np.uint8)
_NONE.flags.writeable = False
_BLOCK_ROOM = 128
_CODECS = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "ZSTD": 6, "LZ4": 7}
_KINDS = {pa.bool_(): BOOLEAN, pa.float64(): DOUBLE}
_ENCODINGS = {"PLAIN": PLAIN, "RLE": RLE, "RLE_DICTIONARY": DICTIONARY, "PLAIN_DICTIONARY": 2, "DELTA_BINARY_PACKED": 5}

_FIRST = FirstRecords(getattr(encoding.page, "py_func", encoding.page), lambda: "page")


class PageBuffers:
    """Work memory of a thread for the pages that it makes, one after another."""

    def __init__(self) -> None:
        self.present = np.empty(0, np.int64)
        self.numbers = np.empty(0, np.int64)
        self.out = np.empty(0, np.uint8)
        self.slots = np.zeros(1, np.int16)

    def fit(self, rows: int) -> None:
        """Grows the memory for a page of this number of rows."""
        if len(self.present) < rows + _BLOCK_ROOM:
            self.present = np.empty(rows + _BLOCK_ROOM, np.int64)
            self.numbers = np.empty(rows + _BLOCK_ROOM, np.int64)
            self.out = np.empty(encoding.room(rows), np.uint8)


class NumberColumn:
    """The pages of a column of 32-bit or 64-bit numbers.

    Args:
        field: name and type of the column, and whether it may be NULL.
        counter: whether it counts or has many values, so that it is written as differences. Another column is written
            as dictionary numbers while the dictionary has room.
        bounded: whether the file has its smallest and largest value (for a 64-bit column without NULL).

    Attributes:
        present: number of values so far that are not NULL.
        bounds: smallest and largest value so far.
    """

    def __init__(self, field: pa.Field, counter: bool, bounded: bool) -> None:
        self.present = 0
        self.bounds: tuple[int, int] | None = None
        self._bounded = bounded
        self._narrow = field.type == pa.int32()
        self._column = Column(field.name, INT32 if self._narrow else INT64, field.nullable)
        self._pages: list[bytes] = []
        self._uses: set[int] = set()
        self._slots = np.empty(0, np.int16)
        self._entries = np.empty(0, np.int64)
        self._numbered = not counter
        self._size = 0

    def add(self, array: pa.Array, scratch: PageBuffers) -> None:
        """Adds a page; `scratch` must have room for it."""
        values, valid, offset = _parts(array, np.int32 if self._narrow else np.int64)
        self._widen(values)
        slots = self._slots
        if self._numbered and not len(slots):
            # A page of NULLs allocates no table: many files with few columns may wait at a time.
            slots = scratch.slots if array.null_count == len(array) else self._dictionary()
        size, count, entries = encoding.page(
            values, valid, offset, self._column.nullable, self._narrow, slots, self._entries, self._size,
            scratch.present, scratch.numbers, scratch.out,
        )  # fmt: skip
        self.present += count
        if entries < 0:
            self._numbered, self._slots = False, self._slots[:0].copy()
        else:
            self._size = entries
        kind = DELTA if entries < 0 else DICTIONARY
        self._uses.add(kind)
        self._pages += data_header(len(values), kind, size), scratch.out[:size].tobytes()

    def add_pages(self, array: pa.Array, pages: bytes, uses: Collection[int]) -> None:
        """Adds an array that is pages already, of differences or plain.

        Args:
            array: the values.
            pages: them with their headers, not compressed.
            uses: numbers of the encodings.
        """
        self._widen(_parts(array, np.int32 if self._narrow else np.int64)[0])
        self.present += len(array) - array.null_count
        self._uses.update(uses)
        self._pages.append(pages)
        self._numbered = False  # DuckDB may read a page of dictionary numbers behind one of differences wrongly

    def _widen(self, values: NDArray[Any]) -> None:
        if self._bounded:
            least, most = int(values.min()), int(values.max())
            self.bounds = (min(least, self.bounds[0]), max(most, self.bounds[1])) if self.bounds else (least, most)

    def _dictionary(self) -> NDArray[np.int16]:
        self._slots = np.zeros(encoding.SLOTS, np.int16)
        self._entries = np.empty(encoding.MOST_ENTRIES, np.int64)
        return self._slots

    def chunk(self) -> tuple[ColumnChunk, list[bytes]]:
        """Returns the column chunk and its pages."""
        pages, data, uses = self._pages, 0, [RLE, *sorted(self._uses - {RLE})]
        if DICTIONARY in self._uses:
            entries = self._entries[: self._size].astype(np.int32 if self._narrow else np.int64).tobytes()
            first = dictionary_header(self._size, len(entries)), entries
            pages, data, uses = [*first, *pages], sum(map(len, first)), sorted({PLAIN, *uses})
        size = sum(map(len, pages))
        return ColumnChunk(self._column, size, uses, data, size, bounds=self.bounds), pages


@dataclass(frozen=True)
class UnfinishedFile:
    """A Parquet file with all columns and without a footer: texts that all rows share may be known later.

    Attributes:
        path: path of the file.
        rows: number of rows.
        chunks: its columns, in file order.
    """

    path: Path
    rows: int
    chunks: tuple[ColumnChunk, ...]

    def finish(self, constants: Mapping[str, str]) -> int:
        """Adds columns with the same text in all rows, and the footer; returns the size of the file, bytes."""
        columns = [_constant(name, value, self.rows) for name, value in constants.items()]
        with self.path.open("ab") as file:
            for _, pages in columns:
                file.writelines(pages)
            file.write(footer([*self.chunks, *(chunk for chunk, _ in columns)], self.rows))
            return file.tell()


def _constant(name: str, value: str, rows: int) -> tuple[ColumnChunk, list[bytes]]:
    text = value.encode()
    entry, numbers = len(text).to_bytes(4, "little") + text, b"\1" + varint(rows << 1) + b"\0"
    first = [dictionary_header(1, len(entry)), entry]
    pages = [*first, data_header(rows, DICTIONARY, len(numbers)), numbers]
    size = sum(map(len, pages))
    column = Column(name, TEXT, nullable=False, text=True)
    return ColumnChunk(column, size, [PLAIN, RLE, DICTIONARY], sum(map(len, first)), size), pages


class FileWriter:
    """A Parquet file of one row group.

    Args:
        schema: its columns, in order: integers of 32 and 64 bits, floats of 64, booleans, texts and bytes.
        counters: columns that count or have many values.
        bounded: columns whose smallest and largest value the file has.

    Attributes:
        rows: number of rows so far.
    """

    def __init__(self, schema: pa.Schema, counters: Collection[str], bounded: Collection[str]) -> None:
        self.rows = 0
        self._schema = schema
        numbers = [field for field in schema if pa.types.is_integer(field.type)]
        self._numbers = {
            field.name: NumberColumn(field, field.name in counters, field.name in bounded) for field in numbers
        }
        others = [field.name for field in schema if field.name not in self._numbers]
        self._others: dict[str, list[pa.Array]] = {name: [] for name in others}

    def add(self, batches: Sequence[pa.RecordBatch], scratch: PageBuffers) -> None:
        """Adds rows: a page for every column of numbers. Arrow writes the pages while our encoder is not compiled.

        Args:
            batches: rows of the schema; texts may be in dictionaries of 32-bit numbers.
            scratch: memory of this thread.
        """
        numbers = [batch.select(list(self._numbers)) for batch in batches]
        page = numbers[0] if len(numbers) == 1 else pa.concat_batches(numbers)
        if _FIRST.few(page.num_rows):
            for name, (pages, uses) in _arrows_pages(page, self._schema, self._numbers).items():
                self._numbers[name].add_pages(page.column(name), pages, uses)
        else:
            scratch.fit(page.num_rows)
            for name, column in self._numbers.items():
                column.add(page.column(name), scratch)
        for name, arrays in self._others.items():
            arrays += [batch.column(name) for batch in batches]
        self.rows += page.num_rows

    def bounds(self, name: str) -> tuple[int, int]:
        """Returns the smallest and the largest value of a bounded column."""
        bounds = self._numbers[name].bounds
        assert bounds is not None
        return bounds

    def write(self, path: Path) -> UnfinishedFile:
        """Writes the columns that have a value; readers take missing columns for NULL."""
        others = by_arrow({self._schema.field(name): arrays for name, arrays in self._others.items()})
        written = []
        for name in self._schema.names:
            if name in others:
                written.append(others[name])
            elif name in self._numbers and self._numbers[name].present:
                written.append(self._numbers[name].chunk())
        with path.open("wb") as file:
            file.write(MAGIC)
            for _, pages in written:
                file.writelines(pages)
        return UnfinishedFile(path, self.rows, tuple(chunk for chunk, _ in written))


def by_arrow(columns: Mapping[pa.Field, Sequence[pa.Array]]) -> dict[str, tuple[ColumnChunk, list[bytes]]]:
    """Encodes texts, bytes, booleans and floats by Arrow.

    Args:
        columns: field -> its values, in parts; texts may be in dictionaries.

    Returns:
        Chunk and pages by column name, without columns that have no value.
    """
    joined = {field: _joined(parts, field.type) for field, parts in columns.items()}
    filled = {field: values for field, values in joined.items() if values.null_count < len(values)}
    if not filled:
        return {}
    fields = [field.with_type(values.type) for field, values in filled.items()]
    table, sink = pa.Table.from_arrays(list(filled.values()), schema=pa.schema(fields)), pa.BufferOutputStream()
    texts = [field.name for field in filled if field.type == pa.string()]
    options = {"compression": "lz4", "use_dictionary": texts, "write_statistics": False, "store_schema": False}
    pq.write_table(table, sink, table.num_rows, **options)
    written = sink.getvalue()
    group = pq.read_metadata(pa.BufferReader(written)).row_group(0)
    chunks = {}
    for index, field in enumerate(filled):
        facts = group.column(index)
        start = facts.dictionary_page_offset or facts.data_page_offset
        kind = _KINDS.get(field.type, TEXT)
        column = Column(field.name, kind, field.nullable, text=field.type == pa.string())
        pages = [written.slice(start, facts.total_compressed_size).to_pybytes()]
        encodings = [_ENCODINGS[name] for name in facts.encodings]
        sizes = facts.data_page_offset - start, facts.total_uncompressed_size
        chunk = ColumnChunk(column, facts.total_compressed_size, encodings, *sizes, codec=_CODECS[facts.compression])
        chunks[field.name] = chunk, pages
    return chunks


def _joined(parts: Sequence[pa.Array], kind: pa.DataType) -> pa.ChunkedArray:
    """Returns the parts as one column, with one dictionary if all have one."""
    if parts and all(pa.types.is_dictionary(part.type) for part in parts):
        return pa.chunked_array(parts).unify_dictionaries()
    return pa.chunked_array([part.cast(kind) for part in parts], kind)


def _arrows_pages(
    batch: pa.RecordBatch, schema: pa.Schema, names: Collection[str]
) -> dict[str, tuple[bytes, set[int]]]:
    """Encodes numbers by Arrow, as differences, or plain where no value is; returns pages and encodings by name."""
    fields = [schema.field(name) for name in names]
    if not fields:
        return {}
    table = pa.Table.from_arrays([batch.column(field.name) for field in fields], schema=pa.schema(fields))
    encodings = {
        name: "PLAIN" if table.column(name).null_count == table.num_rows else "DELTA_BINARY_PACKED" for name in names
    }
    sink = pa.BufferOutputStream()
    options = {"compression": "none", "use_dictionary": False, "column_encoding": encodings}
    pq.write_table(table, sink, table.num_rows, write_statistics=False, store_schema=False, **options)
    written = sink.getvalue()
    group = pq.read_metadata(pa.BufferReader(written)).row_group(0)
    pages = {}
    for index, name in enumerate(names):
        facts = group.column(index)
        chunk = written.slice(facts.data_page_offset, facts.total_compressed_size).to_pybytes()
        pages[name] = chunk, {_ENCODINGS[encoding] for encoding in facts.encodings}
    return pages


def _parts(array: pa.Array, kind: type[np.int32] | type[np.int64]) -> tuple[NDArray[Any], NDArray[np.uint8], int]:
    """Returns the values of an array, its validity bitmap (empty without NULL), and the bit of its first row."""
    bits, data = array.buffers()
    values: NDArray[Any] = np.frombuffer(data, kind)[array.offset : array.offset + len(array)]
    valid = np.frombuffer(bits, np.uint8) if array.null_count else _NONE
    values.flags.writeable = False
    valid.flags.writeable = False
    return values, valid, array.offset
