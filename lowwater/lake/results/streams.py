"""Tables between the stages: `lfta/<set>/<node>/` and `streams/<query>/`.

A run writes files into the folder of its attempt. Here they replace the interval's earlier files, in one commit.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from hashlib import file_digest, sha256
from itertools import groupby
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from lowwater.lake.tables import DataFile, create, interval_label, lake_errors, live_files, open_table, swap_files
from lowwater.storage import paths
from lowwater.storage.leases import Fence
from lowwater.storage.object_paths import ObjectPath

if TYPE_CHECKING:
    from deltalake import DeltaTable

LONGEST_BOUND = 64
"""Most characters of a text in the bounds of a file."""


def write_stream(
    path: PurePath,
    schema: pa.Schema,
    start: int,
    end: int,
    files: Iterable[PurePath | Sequence[PurePath]],
    owner: str,
    fence: Fence | None = None,
) -> int:
    """Replaces the interval [start, end), ns, of a stream, in one commit.

    Args:
        path: directory of the table: `lake.lfta(...)` or `lake.stream(...)`.
        schema: `layout.stream_schema` or `layout.result_schema`.
        start: begin of the interval, ns since the epoch.
        end: end of the interval, ns, exclusive.
        files: parquet files with these columns, in order, on the lake's disk or in the lake; they are moved.
            Successive files of one part of the stream are a sequence.
        owner: the query set.
        fence: lease of the run; None without one.

    Returns:
        Number of rows, punctuation included.

    Raises:
        OwnerError: if another query set owns the table.
        LakeError: if the table cannot be written.
    """
    create(path, schema, ["interval"], owner)
    label = interval_label(start, end)
    folder = path / f"interval={label}"
    attempt = uuid.uuid4().hex[:12]
    with lake_errors(f"{path}: rows of {label} cannot be written"):
        targets: list[PurePath] = []
        for part, sources in enumerate(
            [part_files] if isinstance(part_files, PurePath) else part_files for part_files in files
        ):
            for index, source in enumerate(sources):
                targets.append(folder / f"{attempt}-{part:05d}-{index:05d}.parquet")
                paths.take(source, targets[-1])
        described = [describe(path, target, {"interval": label}) for target in targets]
    replaced: list[str] = []

    def earlier(table: DeltaTable) -> list[dict[str, Any]]:
        rows = [row for row in live_files(table) if row["partition.interval"] == label]
        replaced[:] = [row["path"] for row in rows]
        return rows

    swap_files(path, described, earlier, fence=fence)
    if isinstance(folder, ObjectPath):  # a list of what dead attempts left is work for `maintain`
        with lake_errors(f"{folder}: cannot be cleaned"):
            paths.remove(*(path / unquote(name) for name in replaced))
        return sum(file.rows for file in described)
    with lake_errors(f"{folder}: cannot be cleaned"):
        # The run holds its interval's lock, so files of another attempt belong to an attempt that has ended.
        for old in paths.children(folder):
            if old.suffix == ".parquet" and not old.name.startswith(attempt):
                paths.remove(old)
    return sum(file.rows for file in described)


def stream_files(path: PurePath, start: int, end: int) -> list[PurePath]:
    """Lists the files of the interval [start, end), ns, of a stream, in order; none if it was not written."""
    table = open_table(path)
    label = interval_label(start, end)
    rows = [] if table is None else [row for row in live_files(table) if row["partition.interval"] == label]
    return sorted(path / row["path"] for row in rows)


def stream_bytes(path: PurePath, start: int, end: int) -> int:
    """Returns the size of the files of the interval [start, end), ns, of a stream."""
    table = open_table(path)
    label = interval_label(start, end)
    rows = [] if table is None else [row for row in live_files(table) if row["partition.interval"] == label]
    return sum(row["size_bytes"] for row in rows)


def stream_parts(path: PurePath, start: int, end: int) -> list[list[PurePath]]:
    """Lists the same files, grouped by part of the stream."""
    files = stream_files(path, start, end)
    return [list(part) for _, part in groupby(files, lambda file: file.stem.split("-")[1])]


def fingerprint(files: Sequence[PurePath]) -> str:
    """Computes the digest of a stream's files in order: any change of a byte changes it.

    Returns:
        64 hex digits.

    Raises:
        LakeError: if a file cannot be read.
    """
    digest = sha256()
    for path in files:
        with lake_errors(f"{path}: the stream cannot be read"), paths.local(path).open("rb") as file:
            digest.update(file_digest(file, "sha256").digest())
    return digest.hexdigest()


def describe(table: PurePath, file: PurePath, partition: Mapping[str, str]) -> DataFile:
    """Describes a file in the folder of its table, for a commit.

    Every column has its bounds: Delta's reader for Arrow takes a column without them as one without a value, and a
    filter of it finds no row.

    Args:
        table: folder of the table.
        file: a file of the table.
        partition: values of the partition columns.
    """
    content = paths.local(file)
    metadata = pq.read_metadata(content)
    bounds: dict[str, tuple[Any, Any]] = {}
    nulls: Counter[str] = Counter()
    complete = {metadata.schema.column(index).path for index in range(metadata.num_columns)}
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            column = metadata.row_group(group).column(index)
            _widen(bounds, complete, column.path_in_schema, column.statistics)
            if column.statistics is not None and column.statistics.has_null_count:
                nulls[column.path_in_schema] += column.statistics.null_count
    return DataFile(
        file.relative_to(table).as_posix(),
        content.stat().st_size,
        metadata.num_rows,
        partition,
        {name: _bound(bounds[name][0]) for name in complete & set(bounds)},
        {name: _bound(bounds[name][1], "\U0010ffff") for name in complete & set(bounds)},
        dict(nulls),
    )


def _bound(value: Any, behind: str = "") -> Any:
    """Returns a bound as JSON has it: of a long text its beginning, with what comes behind all that begin so."""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if isinstance(value, str) and len(value) > LONGEST_BOUND:
        return value[:LONGEST_BOUND] + behind
    return value


def _widen(bounds: dict[str, tuple[Any, Any]], complete: set[str], name: str, statistics: Any) -> None:
    if statistics is not None and not statistics.num_values:
        return  # NULL in all rows of this part
    if statistics is None or not statistics.has_min_max or isinstance(statistics.min, bytes):
        complete.discard(name)
    else:
        low, high = bounds.get(name, (statistics.min, statistics.max))
        bounds[name] = (min(low, statistics.min), max(high, statistics.max))


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type without the width of offsets, which Delta does not store."""
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind) else kind
