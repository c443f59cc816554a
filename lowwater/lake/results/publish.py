"""Rows of `streams/` made visible in `tables/`: the last stage of a run.

A publication replaces exactly its range of `_last` (SEMANTICS S2) in one commit (S4). The very files that were audited
are copied into the table; no row of them is read or written again (docs/adr/0050).
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq

from lowwater.catalog.streams import PUNCTUATION, ROW
from lowwater.errors import LakeError, LawError
from lowwater.high.sink.hours import HourFiles
from lowwater.instants import HOUR, format_instant
from lowwater.lake.layout import Lake, table_schema
from lowwater.lake.ledgers.runs import last_published
from lowwater.lake.results.streams import describe, fingerprint, stream_files
from lowwater.lake.tables import DataFile, create, hours, lake_errors, live_files, open_table, swap_files, widened
from lowwater.plan.operators import Field
from lowwater.plan.properties.schemas import result_schema

if TYPE_CHECKING:
    from deltalake import DeltaTable

BATCH = 65536


@dataclass(frozen=True)
class Published:
    """What a publication did.

    Attributes:
        query: name of the table.
        rows: published in the interval.
        committed: False if the same inputs were published already, so that nothing was written.
    """

    query: str
    rows: int
    committed: bool


def check_unchanged(lake: Lake, query: str, start: int, end: int, audited: str) -> list[Path]:
    """Checks that the stream of a query over [start, end), ns, is the one that was audited.

    Args:
        lake: the lake.
        query: its name.
        start: the start of the interval; `end` its end.
        audited: fingerprint of the files that the audit found good.

    Returns:
        The files of the stream.

    Raises:
        LawError: they have changed since.
    """
    files = stream_files(lake.stream(query), start, end)
    if fingerprint(files) != audited:
        raise LawError(
            f"interval {format_instant(start)} to {format_instant(end)}: the stream of query {query} has changed since "
            "its audit",
            "run the interval again with --stage high, then audit and publish",
        )
    return files


def publish(
    lake: Lake, query_set: str, query: str, fields: tuple[Field, ...], start: int, end: int, digest: str, audited: str
) -> Published:
    """Publishes the rows of a query whose `_last` is in [start, end), ns.

    If what is visible there was published by this very interval from inputs of the same digest, nothing is committed.
    The caller records the publication in `replays`.

    Args:
        lake: the lake.
        query_set: owner of the table.
        query: its name; its stream of the same interval is the source.
        fields: the fields of the query's plan node.
        start: the start of the interval; `end` its end.
        digest: the digest of the run's inputs (S1).
        audited: fingerprint of the stream that the audit found good.

    Raises:
        OwnerError: if another query set owns the table (S3).
        LakeError: if a column has changed its type, or the table cannot be written.
        LawError: if the stream has changed since its audit, or its files are not what a table takes.
    """
    path = lake.table(query)
    last = last_published(lake, query_set, query, start, end)
    if last is not None and last.digest == digest and open_table(path) is not None:
        return Published(query, last.rows or 0, False)
    schema = table_schema(fields)
    table = create(path, schema, ["_hour"], query_set)
    _refuse_changes(path, pa.schema(table.schema().to_arrow()), schema)
    table = widened(path, table, schema)
    files = check_unchanged(lake, query, start, end, audited)
    attempt = uuid.uuid4().hex[:12]
    with lake_errors(f"{path}: the rows of the stream cannot be put there"):
        found = enumerate(_row_files(files, result_schema(fields), start, end))
        added = [_put(path, f"{attempt}-{at:05d}.parquet", file, as_stored) for at, (file, as_stored) in found]

    def rest(going: list[dict[str, Any]]) -> list[DataFile]:
        parted = [path / row["path"] for row in going if not _inside(row, start, end)]
        return _without(path, parted, pa.schema(table.schema().to_arrow()), start, end) if parted else []

    swap_files(path, added, lambda newest: _meeting(newest, start, end), rest)
    return Published(query, sum(file.rows for file in added), True)


def _row_files(files: Sequence[Path], schema: pa.Schema, start: int, end: int) -> Iterator[tuple[Path, DataFile]]:
    """The files of a stream that have rows of one hour, each with what is known of it; punctuation has its own files.

    Raises:
        LawError: a file is not what a table takes.
    """
    hint = "run the interval again with --stage high, then audit and publish"
    for file in files:
        with pq.ParquetFile(file) as stored:
            found, metadata = stored.schema_arrow, stored.metadata
        kinds = _kinds(metadata, found.get_field_index("_kind"))
        if kinds <= {PUNCTUATION}:
            continue
        alike = [(each.name, each.type) for each in found] == [(each.name, each.type) for each in schema]
        if not alike or kinds != {ROW}:
            raise LawError(f"{file} is no file of published rows: another version of Lowwater wrote it", hint)
        as_stored = describe(file.parent, file, {})
        least, most = as_stored.smallest["_last"], as_stored.largest["_last"]
        if least < start or most >= end or least // HOUR != most // HOUR:
            raise LawError(f"{file} has rows that are not of the interval, or of several hours", hint)
        yield file, as_stored


def _kinds(metadata: pq.FileMetaData, column: int) -> set[str | None]:
    """The least and the greatest value of `_kind` in each part of a file; None where nobody measured them."""
    parts = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    found = [part.column(column).statistics for part in parts if part.num_rows]
    return {value for each in found for value in ((each.min, each.max) if each is not None else (None,))}


def _put(table: Path, name: str, file: Path, as_stored: DataFile) -> DataFile:
    """A file of rows of one hour, copied into the folder of a table.

    A second name of the same file would do, but what then damages the one damages the other.
    """
    hour = _hour(as_stored)
    target = table / f"_hour={hour}" / name
    target.parent.mkdir(exist_ok=True)
    shutil.copyfile(file, target)
    return replace(as_stored, path=target.relative_to(table).as_posix(), partition={"_hour": hour})


def _hour(file: DataFile) -> str:
    """The partition of a file of rows of one hour."""
    return str(file.smallest["_last"] // HOUR)


def _meeting(table: DeltaTable, start: int, end: int) -> list[dict[str, Any]]:
    """The files of a table that may have rows with `_last` in [start, end), ns."""
    first, final = hours(start, end)
    found = []
    for row in live_files(table):
        least, most = _bounds(row)
        if first <= int(row["partition._hour"]) <= final and least < end and most >= start:
            found.append(row)
    return found


def _inside(row: Mapping[str, Any], start: int, end: int) -> bool:
    """Whether a file of a table has no row outside of [start, end), ns."""
    least, most = _bounds(row)
    return start <= least and most < end


def _bounds(row: Mapping[str, Any]) -> tuple[float, float]:
    """The least and greatest `_last` (ns) of a file; all of time where nobody measured them."""
    least, most = row.get("min._last"), row.get("max._last")
    return -inf if least is None else least, inf if most is None else most


def _without(table: Path, files: Sequence[Path], schema: pa.Schema, start: int, end: int) -> list[DataFile]:
    """New files of the rows of old ones that are outside of [start, end): intervals once had another length, or files
    of an hour were joined.

    Args:
        table: its folder.
        files: at least one.
        schema: the schema of the table, whatever the columns of the query are now.
        start: ns; `end` too.
    """
    last = pads.field("_last")
    columns = pa.schema([pa.field(each.name, _plain(each.type)) for each in schema if each.name != "_hour"])
    rows = pads.dataset([str(file) for file in files], columns, format="parquet", partitioning=None)
    with HourFiles(table, f"rest-{uuid.uuid4().hex[:12]}", columns) as out:
        for batch in rows.to_batches(filter=(last < start) | (last >= end), batch_size=BATCH, batch_readahead=2):
            if batch.num_rows:
                out.write(pa.table(batch))
    plain = [describe(table, path, {}) for path in out.files]
    return [replace(each, partition={"_hour": _hour(each)}) for each in plain]


def _refuse_changes(path: Path, old: pa.Schema, new: pa.Schema) -> None:
    """Refuses a column of another type; new columns are added."""
    for field in new:
        index = old.get_field_index(field.name)
        if index >= 0 and _plain(old.field(index).type) != _plain(field.type):
            before = old.field(index).type
            raise LakeError(
                f"table {path.name!r}: column {field.name!r} was {before}, the query now gives {field.type}",
                f"name the column otherwise, or remove {path} and replay every interval",
            )


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type without the widths of offsets, which Delta does not keep."""
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind) else kind
