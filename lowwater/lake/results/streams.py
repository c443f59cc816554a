"""The tables between the stages: `lfta/<set>/<node>/` and `streams/<query>/`.

A run writes its files anywhere in its attempt's folder; here they take the place of the interval's earlier ones, in
one commit.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from hashlib import file_digest, sha256
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lowwater.lake.tables import DataFile, create, interval_label, lake_errors, live_files, open_table, swap_files

MEASURED = ("_last", "_tick")


def write_stream(
    path: Path,
    schema: pa.Schema,
    start: int,
    end: int,
    files: Iterable[Path | Sequence[Path]],
    owner: str,
) -> int:
    """Replaces the interval [start, end), ns, of a stream, in one commit.

    Args:
        path: the path of the table: `lake.lfta(...)` or `lake.stream(...)`.
        schema: the schema of the table: `layout.stream_schema` or `layout.result_schema`.
        start: the start of the interval; `end` its end.
        files: parquet files of these columns on the lake's disk, in order, which are moved, those that follow each
            other in one part of the stream together.
        owner: the query set.

    Returns:
        Number of rows, punctuation included.

    Raises:
        OwnerError: if another query set owns the table.
        LakeError: if it cannot be written.
    """
    create(path, schema, ["interval"], owner)
    label = interval_label(start, end)
    folder = path / f"interval={label}"
    attempt = uuid.uuid4().hex[:12]
    with lake_errors(f"{path}: rows of {label} cannot be written"):
        folder.mkdir(parents=True, exist_ok=True)
        targets = []
        for part, sources in enumerate([each] if isinstance(each, Path) else each for each in files):
            for index, source in enumerate(sources):
                targets.append(folder / f"{attempt}-{part:05d}-{index:05d}.parquet")
                os.replace(source, targets[-1])
        described = [describe(path, target, {"interval": label}) for target in targets]
    swap_files(path, described, lambda table: [row for row in live_files(table) if row["partition.interval"] == label])
    with lake_errors(f"{folder}: cannot be cleaned"):
        # The run holds its interval's lock, so what is not of this attempt is of one that is over.
        for old in folder.glob("*.parquet"):
            if not old.name.startswith(attempt):
                old.unlink()
    return sum(file.rows for file in described)


def stream_files(path: Path, start: int, end: int) -> list[Path]:
    """The files of the interval [start, end), ns, of a stream, in their order; none if it was not written."""
    table = open_table(path)
    label = interval_label(start, end)
    rows = [] if table is None else [row for row in live_files(table) if row["partition.interval"] == label]
    return sorted(path / row["path"] for row in rows)


def stream_parts(path: Path, start: int, end: int) -> list[list[Path]]:
    """The files of `stream_files`, those that follow each other in one part of the stream together."""
    files = stream_files(path, start, end)
    return [list(part) for _, part in groupby(files, lambda file: file.stem.split("-")[1])]


def fingerprint(files: Sequence[Path]) -> str:
    """What the contents of a stream's files are, in their order: equal only if no byte differs.

    Returns:
        64 hex digits.

    Raises:
        LakeError: one cannot be read.
    """
    whole = sha256()
    for path in files:
        with lake_errors(f"{path}: the stream cannot be read"), path.open("rb") as file:
            whole.update(file_digest(file, "sha256").digest())
    return whole.hexdigest()


def describe(table: Path, file: Path, partition: Mapping[str, str]) -> DataFile:
    """What a commit says of a file that lies in the folder of its table.

    Args:
        table: the folder.
        file: with the columns MEASURED, of which it says the bounds.
        partition: values of the partition columns.
    """
    metadata = pq.read_metadata(file)
    bounds: dict[str, tuple[int, int]] = {}
    complete = set(MEASURED)
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            column = metadata.row_group(group).column(index)
            name = column.path_in_schema
            if name in MEASURED:
                _widen(bounds, complete, name, column.statistics)
    return DataFile(
        file.relative_to(table).as_posix(),
        file.stat().st_size,
        metadata.num_rows,
        partition,
        {name: bounds[name][0] for name in complete & set(bounds)},
        {name: bounds[name][1] for name in complete & set(bounds)},
    )


def _widen(bounds: dict[str, tuple[int, int]], complete: set[str], name: str, found: Any) -> None:
    if found is None or not found.has_min_max:
        complete.discard(name)
    else:
        low, high = bounds.get(name, (found.min, found.max))
        bounds[name] = (min(low, found.min), max(high, found.max))
