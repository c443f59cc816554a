"""Finds the rows of a stream that share their unique key.

The audit calls it where `unique_keys` leaves a doubt. Keys may not fit into memory, so they are divided by their
digests, in files.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lowwater.catalog.streams import CONTROL, LAST, ROW
from lowwater.errors import LakeError
from lowwater.high.slices.keys import codes
from lowwater.high.slices.spill import Spill
from lowwater.high.slices.values import Frame
from lowwater.plan.operators import Field
from lowwater.plan.properties.schemas import published_schema
from lowwater.quality.outputs.unique_keys import key_columns


@dataclass(frozen=True)
class KeyedStream:
    """The stream of a query with a unique key.

    Attributes:
        files: the files of the interval, with the columns of `fields` and CONTROL.
        fields: the fields of the query's plan node.
        key: columns whose values no two rows should share; NULL equals NULL.
    """

    files: Sequence[Path]
    fields: Sequence[Field]
    key: Sequence[str]


@dataclass(frozen=True)
class SharedKeys:
    """The rows of a query whose key is not unique.

    Attributes:
        keys: number of keys with several rows.
        total: number of rows with such a key.
        rows: first of these rows in order of the key, with the control columns.
    """

    keys: int
    total: int
    rows: pa.Table


def shared_keys(streams: Mapping[str, KeyedStream], most: int, folder: Path) -> dict[str, SharedKeys]:
    """Finds rows that share their unique key.

    Args:
        streams: query -> its stream with at least one file.
        most: number of rows to return for each query.
        folder: folder for files, made and removed here.

    Raises:
        LakeError: if a file cannot be read.
    """
    try:
        return {name: _shared(stream, most, folder / str(at)) for at, (name, stream) in enumerate(streams.items())}
    except (OSError, pa.ArrowException) as error:
        raise LakeError(f"a stream cannot be read: {error}", "run the high stage again") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _shared(stream: KeyedStream, most: int, folder: Path) -> SharedKeys:
    spill = Spill(folder)
    for batch in key_columns(stream.files, stream.key):
        frame = Frame(dict(zip(stream.key, batch.columns, strict=True)), batch.num_rows)
        spill.add(frame, batch.columns)
    keys = total = 0
    # `most` keys are enough for as many rows.
    first = pa.schema([published_schema(stream.fields).field(name) for name in stream.key]).empty_table()
    for part in spill.parts():
        numbers, _ = codes([part[name] for name in stream.key], part.rows)
        _, places, counts = np.unique(numbers, return_index=True, return_counts=True)
        several = counts > 1
        keys, total = keys + int(several.sum()), total + int(counts[several].sum())
        found = pa.table(part.take(places[several]).columns).cast(first.schema)
        first = _sorted(pa.concat_tables([first, found]), stream.key).slice(0, most)
    return SharedKeys(keys, total, _rows(stream, first, most))


def _rows(stream: KeyedStream, keys: pa.Table, most: int) -> pa.Table:
    """Reads the first rows with one of the keys."""
    schema = pa.schema([*published_schema(stream.fields), *CONTROL])
    chosen = [schema.empty_table()]
    for path in stream.files if keys.num_rows else ():
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=schema.names):
                table = pa.Table.from_batches([batch]).select(schema.names).cast(schema)
                table = table.filter(pc.equal(table["_kind"], ROW))
                both = pa.concat_tables([keys, table.select(keys.column_names)]).combine_chunks()
                numbers, _ = codes([_array(both[name]) for name in keys.column_names], both.num_rows)
                mine = np.isin(numbers[keys.num_rows :], numbers[: keys.num_rows])
                chosen.append(table.filter(pa.array(mine)))
    return _sorted(pa.concat_tables(chosen), (*stream.key, LAST)).slice(0, most)


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _sorted(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Sorts rows, NULL first."""
    columns = [column for name in names for column in (table[name].is_valid(), table[name])]
    keys = pa.table(columns, names=[str(at) for at in range(len(columns))])
    return table.take(pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names]))
