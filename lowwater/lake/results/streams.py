"""Tables between the stages: `lfta/<set>/<node>/` and `streams/<query>/`.

A run writes files into the folder of its attempt. Here they replace the interval's earlier files, in one commit.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from hashlib import file_digest, sha256
from itertools import groupby
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from lowwater.lake.described import describe
from lowwater.lake.tables import create, interval_label, lake_errors, live_files, open_table, swap_files
from lowwater.storage import paths
from lowwater.storage.containment import open_regular
from lowwater.storage.leases import Fence
from lowwater.storage.object_paths import ObjectPath

if TYPE_CHECKING:
    from deltalake import DeltaTable


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
        # The run has the lock of its interval: files of another attempt are of one that has ended. They are looked for
        # before the commit, which a run that lost its lease cannot make. In a store they are work for `maintain`, since
        # to look for them takes a list for each interval.
        others: list[PurePath] = []
        if not isinstance(folder, ObjectPath):
            others = [old for old in paths.children(folder) if old.suffix == ".parquet" and old not in targets]

    def earlier(table: DeltaTable) -> list[dict[str, Any]]:
        rows = [row for row in live_files(table) if row["partition.interval"] == label]
        if isinstance(folder, ObjectPath):
            others[:] = [path / unquote(row["path"]) for row in rows]
        return rows

    swap_files(path, described, earlier, fence=fence)
    with lake_errors(f"{folder}: cannot be cleaned"):
        paths.remove(*others)
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
        with lake_errors(f"{path}: the stream cannot be read"), open_regular(paths.local(path)) as file:
            digest.update(file_digest(file, "sha256").digest())
    return digest.hexdigest()
