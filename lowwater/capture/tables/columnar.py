"""Parquet files: reads the columns of a layout with Arrow's reader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lowwater.capture.tables.blocks import LONG, Piece, Places, Refusals, make_piece
from lowwater.catalog.records import RecordField, RecordLayout
from lowwater.errors import CaptureError
from lowwater.limits import BATCH_ROWS, PARQUET_TEXT_BYTES, RECORD_BYTES, SEPARATED_COLUMNS
from lowwater.storage import untrusted
from lowwater.storage.captures import arrow_source

MOST_VALUE = RECORD_BYTES
"""Longest text, bytes, as in text files."""

_WRITE_AGAIN = "write the file again, with smaller pages and the columns that queries read"

_NUMBERS, _ZEROS = np.arange(BATCH_ROWS, dtype=np.int64), np.broadcast_to(np.int64(0), BATCH_ROWS)
_NUMBERS.flags.writeable = False

_TEXTS = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
)


def open_parquet(path: Path) -> pq.ParquetFile:
    """Opens a parquet file. Its texts are read as dictionaries: each different one is in memory, and converted, once.
    Raises CaptureError if the file is no parquet file, or says more of itself than is read."""
    try:
        with path.open("rb") as file:
            untrusted.require_footer(path, file)
        with pq.ParquetFile(arrow_source(path)) as plain:
            width = len(plain.schema_arrow.names)
            if width > SEPARATED_COLUMNS or plain.metadata.num_columns > SEPARATED_COLUMNS:
                raise CaptureError(
                    f"{path}: has {max(width, plain.metadata.num_columns):,} columns, and at most "
                    f"{SEPARATED_COLUMNS:,} are read",
                    "write a file of those columns that queries read",
                )
            texts = [".".join(leaf) for column in plain.schema_arrow for leaf in _text_leaves(column)]
        return pq.ParquetFile(arrow_source(path), read_dictionary=texts)
    except untrusted.UnreadableError as error:
        raise CaptureError(error.message, _WRITE_AGAIN) from None
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise CaptureError(f"{path}: is no readable parquet file: {reason}", "check kind of the link") from error


def require_pages(path: Path, file: pq.ParquetFile, columns: Iterable[tuple[str, ...]]) -> None:
    """Checks that columns, each the names that lead to it, are read in a bounded memory: Arrow takes what the headers
    of pages say. Raises CaptureError if they are not."""
    try:
        with path.open("rb") as pages:
            untrusted.require_pages(path, pages, file.metadata, {".".join(column) for column in columns})
    except untrusted.UnreadableError as error:
        raise CaptureError(error.message, _WRITE_AGAIN) from None
    except (OSError, ValueError, IndexError) as error:
        raise CaptureError(f"{path}: is no readable parquet file: {error}", "write the file again") from error


class ParquetParser:
    """Reads a parquet file; iterate it once. Raises CaptureError if the file is no parquet file, or lacks a column."""

    def __init__(self, path: Path, layout: RecordLayout) -> None:
        self._path, self._layout = path, layout
        self._file = open_parquet(path)
        self._paths = [self._path_of(field) for field in layout.fields]
        require_pages(path, self._file, self._paths)

    def __iter__(self) -> Iterator[Callable[[], Piece]]:
        """Yields the work on each batch of rows, in order; a thread may do it while the next batch is read."""
        offset = 0
        columns = [".".join(path) for path in dict.fromkeys(self._paths)]
        try:
            for batch in self._file.iter_batches(BATCH_ROWS, columns=columns, use_threads=False):
                raw = [column_at(batch, path) for path in self._paths]
                for first, end in _spans(raw, batch.num_rows):
                    yield partial(self._piece, offset + first, [values[first:end] for values in raw])
                offset += batch.num_rows
        except (pa.ArrowException, OSError, ValueError) as error:
            raise CaptureError(
                f"{self._path}: cannot be read behind row {offset:,}: {str(error).splitlines()[0]}",
                "write the file again",
            ) from error
        finally:
            self._file.close()

    def _piece(self, offset: int, raw: list[pa.Array]) -> Piece:
        rows = _NUMBERS[: len(raw[0])]
        refusals = Refusals(len(rows))
        for number, values in enumerate(raw):
            if longest_text(values) <= MOST_VALUE:
                continue
            long = _text_lengths(values) > MOST_VALUE
            refusals.add(np.flatnonzero(long), LONG)
            kept = pc.if_else(pa.array(long), pa.scalar(None, values.indices.type), values.indices)
            raw[number] = pa.DictionaryArray.from_arrays(kept, values.dictionary)
        return make_piece(self._layout, Places(offset + rows, _ZEROS[: len(rows)]), rows, raw, refusals)

    def _path_of(self, field: RecordField) -> tuple[str, ...]:
        """Returns the names that lead to the column of a field.
        Raises CaptureError if the file does not have the column, or has several of its name."""
        names = self._file.schema_arrow.names
        name = field.path[0] if field.position is None else names[min(field.position, len(names)) - 1] if names else ""
        if names.count(name) > 1:
            raise CaptureError(
                f"{self._path}: has several columns {name!r}, and {field.name} of {self._layout.protocol} reads one",
                "give each column a name of its own",
            )
        return self._named(field)

    def _named(self, field: RecordField) -> tuple[str, ...]:
        schema = self._file.schema_arrow
        if field.position is not None:
            if field.position <= len(schema.names):
                return (schema.names[field.position - 1],)
            raise CaptureError(
                f"{self._path}: has {len(schema.names)} columns, and {field.name} of {self._layout.protocol} reads "
                f"column {field.position}",
                "check the positions in the PROTOCOL",
            )
        kind: pa.DataType = pa.struct(list(schema))
        for name in field.path:
            if not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
                raise CaptureError(
                    f"{self._path}: has no column {'.'.join(field.path)!r}, which {field.name} of "
                    f"{self._layout.protocol} reads",
                    f"its columns are: {', '.join(schema.names)}"[:500],
                )
            kind = kind.field(name).type
        return field.path


def column_at(batch: pa.RecordBatch, path: tuple[str, ...]) -> pa.Array:
    """Returns the column of a batch at a path of names, through structs.
    Raises ArrowInvalid if a value of a dictionary is none of it; Arrow does not look."""
    column = batch.column(path[0])
    for name in path[1:]:
        column = pc.struct_field(column, [name])
    if pa.types.is_dictionary(column.type):
        bounds = pc.min_max(column.indices)
        least, most = bounds["min"].as_py(), bounds["max"].as_py()
        if least is not None and not 0 <= least <= most < len(column.dictionary):
            raise pa.ArrowInvalid(f"a value of {'.'.join(path)} is outside of its dictionary")
    return column


def _text_leaves(column: pa.Field, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yields the paths of texts in a column and its structs."""
    path = (*above, column.name)
    if pa.types.is_struct(column.type):
        for inner in column.type:
            yield from _text_leaves(inner, path)
    elif any(is_text(column.type) for is_text in _TEXTS):
        yield path


def longest_text(values: pa.Array) -> int:
    """Returns the bytes of the longest text of a dictionary; 0 for other columns."""
    kind = values.type
    if not pa.types.is_dictionary(kind) or not len(values.dictionary):
        return 0
    if not (pa.types.is_string(kind.value_type) or pa.types.is_binary(kind.value_type)):
        return 0
    return pc.max(pc.binary_length(values.dictionary)).as_py() or 0


def _text_lengths(values: pa.DictionaryArray) -> NDArray[np.int64]:
    """Returns the bytes of each text of a column that is a dictionary; 0 for NULL."""
    lengths = pc.fill_null(pc.binary_length(values.dictionary), 0).to_numpy().astype(np.int64)
    if not len(lengths):
        return np.zeros(len(values), np.int64)
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    return np.where(valid, lengths[values.indices.fill_null(0).to_numpy()], 0)


def _spans(raw: list[pa.Array], rows: int) -> Iterator[tuple[int, int]]:
    """Divides rows so that the texts of a part have PARQUET_TEXT_BYTES, or more in a single row."""
    texts = [values for values in raw if longest_text(values) * rows > PARQUET_TEXT_BYTES // max(len(raw), 1)]
    total = np.sum([np.zeros(rows, np.int64), *map(_text_lengths, texts)], axis=0)
    if int(total.sum()) <= PARQUET_TEXT_BYTES:
        yield 0, rows
        return
    parts = np.cumsum(np.minimum(total, PARQUET_TEXT_BYTES)) // PARQUET_TEXT_BYTES
    begins = np.flatnonzero(np.diff(parts, prepend=-1))
    yield from zip(begins.tolist(), [*begins[1:].tolist(), rows], strict=True)
