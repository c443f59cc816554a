"""Whether the keys of a stream are unique, told in this process by a digest of 64 bits a row.

A step of the audit before Spark is asked, which takes longer than all other checks together. Rows of different digests
have different keys, so only rows that share theirs are compared. Which rows share a key only Spark says
(`high.unique`).
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

FEW = 500_000
"""Rows whose keys this process holds at once."""

MOST = 1 << 27
"""Rows whose digests this process holds at once, 8 bytes each."""


def distinct_keys(files: Sequence[Path], fields: Sequence[Field], key: Sequence[str]) -> bool:
    """Whether all rows of a stream have different keys; NULL equals NULL.

    False says nothing where a column of the key is a float (Arrow knows two zeros, Spark one), where a file is broken,
    and of more than MOST rows, or FEW that share their digest.

    Args:
        files: the files of the interval, with the columns of `fields` and CONTROL.
        fields: the fields of the query's plan node.
        key: names of columns, at least one.
    """
    if any(field.type is Type.FLOAT for field in fields if field.name in key):
        return False
    try:
        if sum(pq.read_metadata(path).num_rows for path in files) > MOST:
            return False
        whole = np.concatenate(
            [row_digests(keys.columns, keys.num_rows) for keys in _keys(files, key)] or [np.empty(0, np.uint64)]
        )
        whole.sort()
        shared = np.unique(whole[1:][whole[1:] == whole[:-1]])
        return not len(shared) or _apart(files, key, shared)
    except (OSError, pa.ArrowException):
        return False  # Spark says what is wrong with a file


def _apart(files: Sequence[Path], key: Sequence[str], shared: NDArray[np.uint64]) -> bool:
    """Whether the rows that share their digest have different keys."""
    chosen, count = [], 0
    for keys in _keys(files, key):
        part = keys.filter(pa.array(np.isin(row_digests(keys.columns, keys.num_rows), shared)))
        chosen.append(part)
        count += part.num_rows
        if count > FEW:
            return False
    rows = pa.Table.from_batches(chosen)
    return bool(rows.group_by(list(key)).aggregate([]).num_rows == rows.num_rows)


def _keys(files: Sequence[Path], key: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The columns of the key of all rows, without punctuation."""
    for path in files:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=[*key, "_kind"]):
                is_row = pc.equal(batch.column("_kind"), ROW)
                # Most files have rows only, and to copy them costs more than their digests.
                yield (batch if pc.all(is_row).as_py() else batch.filter(is_row)).select(list(key))
