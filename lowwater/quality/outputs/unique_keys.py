"""Checks that the keys of a stream are unique, by a 64-bit digest of each key.

Rows with different digests have different keys; only rows with equal digests are compared. Where this leaves a doubt,
`shared_keys` finds the rows that share a key, which takes longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lowwater.capture.digests import row_digests
from lowwater.catalog.expr import Type
from lowwater.catalog.streams import ROW
from lowwater.plan.operators import Field

LARGEST_COMPARISON = 500_000
"""Most rows whose keys are compared in memory."""

LARGEST_STREAM = 1 << 27
"""Most rows whose digests are held in memory, 8 bytes each."""


def distinct_keys(files: Sequence[Path], fields: Sequence[Field], key: Sequence[str]) -> bool:
    """Whether all rows of a stream certainly have different keys; NULL equals NULL.

    False may also mean "unknown": a column of the key is a float (digests know two zeros), a file cannot be
    read, or the limits LARGEST_STREAM or LARGEST_COMPARISON are exceeded.

    Args:
        files: the files of the interval, with the columns of `fields` and CONTROL.
        fields: the fields of the query's plan node.
        key: names of columns, at least one.
    """
    if any(field.type is Type.FLOAT for field in fields if field.name in key):
        return False
    try:
        if sum(pq.read_metadata(path).num_rows for path in files) > LARGEST_STREAM:
            return False
        whole = np.concatenate(
            [row_digests(keys.columns, keys.num_rows) for keys in key_columns(files, key)] or [np.empty(0, np.uint64)]
        )
        whole.sort()
        shared = np.unique(whole[1:][whole[1:] == whole[:-1]])
        return not len(shared) or _all_different(files, key, shared)
    except (OSError, pa.ArrowException):
        return False  # `shared_keys` says what is wrong with a file


def _all_different(files: Sequence[Path], key: Sequence[str], shared: NDArray[np.uint64]) -> bool:
    """Whether the rows that share their digest have different keys."""
    chosen, count = [], 0
    for keys in key_columns(files, key):
        part = keys.filter(pa.array(np.isin(row_digests(keys.columns, keys.num_rows), shared)))
        chosen.append(part)
        count += part.num_rows
        if count > LARGEST_COMPARISON:
            return False
    rows = pa.Table.from_batches(chosen)
    return bool(rows.group_by(list(key)).aggregate([]).num_rows == rows.num_rows)


def key_columns(files: Sequence[Path], key: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yields the key columns of all rows, without punctuation."""
    for path in files:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=[*key, "_kind"]):
                is_row = pc.equal(batch.column("_kind"), ROW)
                # Most files have rows only, and to copy them costs more than their digests.
                yield (batch if pc.all(is_row).as_py() else batch.filter(is_row)).select(list(key))
