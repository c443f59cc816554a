"""Whether the keys of a stream are unique, told in this process where rows are few.

A step of the audit before Spark is asked, which takes longer over a thousand rows than all other checks together. Which
rows share a key only Spark says (`high.unique`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lowwater.catalog.expr import Type
from lowwater.catalog.streams import ROW
from lowwater.plan.nodes import Field

FEW = 500_000
"""Rows whose keys this process holds at once."""


def distinct_keys(files: Sequence[Path], fields: Sequence[Field], key: Sequence[str]) -> bool:
    """Whether all rows of a stream have different keys; NULL equals NULL.

    False says nothing where a column of the key is a float (Arrow knows two zeros, Spark one), or a file is broken.

    Args:
        files: of the interval, with the columns of `fields` and CONTROL.
        fields: of the query's plan node.
        key: names of columns, at least one.
    """
    if any(field.type is Type.FLOAT for field in fields if field.name in key):
        return False
    try:
        rows = pa.concat_tables(pq.ParquetFile(path).read(columns=[*key, "_kind"]) for path in files)
    except (OSError, pa.ArrowException):
        return False  # Spark says what is wrong with a file
    rows = rows.filter(pc.equal(rows.column("_kind"), ROW)).select(list(key))
    return bool(rows.group_by(list(key)).aggregate([]).num_rows == rows.num_rows)
