"""Publication: the last stage of a run puts the rows of `streams/` into `tables/`.

A publication replaces exactly its range of `_last` (SEMANTICS S2) in one commit (S4). The audited files themselves are
copied into the table; their rows are not read or written again (docs/adr/0050).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq

from lowwater.catalog.streams import PUNCTUATION, ROW
from lowwater.errors import LakeError, LawError
from lowwater.high.sink.hours import HourFiles
from lowwater.instants import HOUR, format_instant
from lowwater.lake.described import describe, plain_type
from lowwater.lake.layout import Lake, table_schema
from lowwater.lake.ledgers.runs import last_published
from lowwater.lake.results.instants import TAKEN_OVER
from lowwater.lake.results.published_log import (
    NOTE,
    Act,
    act_of,
    interval_key,
    joined,
    ledger_ranges,
    next_publication,
)
from lowwater.lake.results.streams import fingerprint, stream_files
from lowwater.lake.results.table_state import damage_of, state_at, table_state
from lowwater.lake.tables import (
    DataFile,
    create,
    hours,
    lake_errors,
    live_files,
    swap_files,
    with_columns,
    with_constraints,
    with_properties,
)
from lowwater.plan.operators import Field
from lowwater.plan.properties.schemas import result_schema
from lowwater.storage import paths

if TYPE_CHECKING:
    from deltalake import DeltaTable

BATCH = 65536


@dataclass(frozen=True)
class PublishResult:
    """Result of a publication.

    Attributes:
        query: name of the table.
        rows: number of rows published in the interval.
        committed: False if the same inputs were published before, so that no row was written.
        number: number of the publication that made the visible rows of the interval; None where none has one.
    """

    query: str
    rows: int
    committed: bool
    number: int | None = None


def check_unchanged(lake: Lake, query: str, start: int, end: int, audited: str) -> list[PurePath]:
    """Checks that the stream of a query over [start, end), ns, is still the audited one.

    Args:
        lake: the lake.
        query: name of the query.
        start: begin of the interval, ns since the epoch.
        end: end of the interval, ns, exclusive.
        audited: fingerprint of the files that passed the audit.

    Returns:
        The files of the stream.

    Raises:
        LawError: if they have changed since the audit.
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
    lake: Lake,
    query_set: str,
    query: str,
    fields: tuple[Field, ...],
    start: int,
    end: int,
    digest: str,
    audited: str,
    act: Act | None = None,
    words: Mapping[str, str] = MappingProxyType({}),
    checks: Mapping[str, str] = MappingProxyType({}),
) -> PublishResult:
    """Publishes the rows of a query whose `_last` is in [start, end), ns.

    If this interval published rows from inputs with the same digest before, and the table still has them, the commit
    only says that they belong to this act too. The caller records the publication in `replays`.

    Args:
        lake: the lake.
        query_set: owner of the table.
        query: name of the query; its stream of the interval is the source.
        fields: fields of the query's plan node.
        start: begin of the interval, ns since the epoch.
        end: end of the interval, ns, exclusive.
        digest: digest of the run's inputs (S1).
        audited: fingerprint of the stream that passed the audit.
        act: the publication of the whole set; None for one of this table alone.
        words: properties of the table that tell other tools what it holds.
        checks: name -> SQL of what other writers of the table must keep too.

    Raises:
        OwnerError: if another query set owns the table (S3).
        LakeError: if a column has changed its type, or the table cannot be written.
        LawError: if the stream has changed since its audit, or the table cannot take its files.
    """
    path = lake.table(query)
    last = last_published(lake, query_set, query, start, end)
    if last is not None and last.digest == digest and not damage_of(lake, query_set, query, start, end):
        number = last.publication if act is None else mark(lake, query, start, end, act)
        return PublishResult(query, last.rows or 0, False, number)
    schema = table_schema(fields)
    about = f"rows of the query {query} of the query set {query_set}, published by Lowwater"
    table = create(path, schema, ["_hour"], query_set, {**TAKEN_OVER, **words}, about)
    _refuse_changes(path, pa.schema(table.schema().to_arrow()), schema)
    table = with_properties(path, with_columns(path, table, schema), words, lake.fence)
    files = check_unchanged(lake, query, start, end, audited)
    attempt = uuid.uuid4().hex[:12]
    with lake_errors(f"{path}: the rows of the stream cannot be put there"):
        row_files = enumerate(_row_files(files, result_schema(fields), start, end))
        added = [copy_file(path, f"{attempt}-{at:05d}.parquet", file, as_stored) for at, (file, as_stored) in row_files]

    def rewrite(old_files: list[dict[str, Any]]) -> list[DataFile]:
        cut_files = there(path / row["path"] for row in old_files if not is_inside(row, start, end))
        return parts_of(path, cut_files, pa.schema(table.schema().to_arrow()), rest_of(start, end)) if cut_files else []

    notes = Notes(lake, query_set, query, fields, start, end, act or Act.begin(1))
    swap_files(path, added, lambda newest: meeting_files(newest, start, end), rewrite, lake.fence, notes)
    with_constraints(path, table, checks, lake.fence)
    return PublishResult(query, sum(file.rows for file in added), True, notes.number)


@dataclass
class Notes:
    """What a commit says that publishes an interval, for the version that is changed.

    Attributes:
        number: number of the publication, once the commit has succeeded.
    """

    lake: Lake
    query_set: str
    query: str
    fields: Sequence[Field]
    start: int
    end: int
    act: Act
    number: int = 0

    def __call__(self, newest: DeltaTable) -> dict[str, str | int]:
        state = state_at(self.lake.table(self.query), newest)
        self.number = self.act.number(newest.version() + 1)
        earlier: Sequence[tuple[int, int]] = ()
        if state.note is None and (state.numbers or state.names):
            earlier = joined(state.numbers) if state.numbers else ledger_ranges(self.lake, self.query_set, self.query)
        publication = next_publication(
            state.note,
            earlier,
            self.fields,
            self.start,
            self.end,
            [each for each in state.damage if state.is_published(each.start, each.end)] + state.strays,
            {**state.recent, (self.start, self.end): self.number},
            state.checkpoint,
        )
        return {NOTE: publication.text(), interval_key(self.start, self.end): self.number}


def mark(lake: Lake, query: str, start: int, end: int, act: Act) -> int:
    """Says in the log of a table that the visible rows of an interval belong to an act too; no row changes.

    The caller knows that they are the published ones.

    Returns:
        The number of the interval.
    """
    path = lake.table(query)
    state = table_state(path)
    before = None if state is None else state.number(start, end)
    if before is not None and act_of(before) == act:
        return before
    number = 0

    def note(newest: DeltaTable) -> dict[str, str | int]:
        nonlocal number
        number = act.number(newest.version() + 1)
        return {interval_key(start, end): number}

    swap_files(path, [], lambda _: [], fence=lake.fence, note=note)
    return number


def there(files: Iterable[PurePath]) -> list[PurePath]:
    """Leaves out files that are gone: the other intervals that had rows in them are damaged too."""
    return [file for file in files if paths.exists(file)]


def rest_of(start: int, end: int) -> pads.Expression:
    """Returns the condition on rows that stay of files that [start, end), ns, cuts: they are of the hours of the files.

    What another program put into the partition of another hour goes.
    """
    first, final = hours(start, end)
    outside = (pads.field("_last") < start) | (pads.field("_last") >= end)
    return outside & (pads.field("_last") >= first * HOUR) & (pads.field("_last") < (final + 1) * HOUR)


def _row_files(
    files: Sequence[PurePath], schema: pa.Schema, start: int, end: int
) -> Iterator[tuple[PurePath, DataFile]]:
    """Yields the files with rows of a stream, each with its description; punctuation has files of its own.

    Raises:
        LawError: if a file has other columns, other rows, or rows of several hours.
    """
    hint = "run the interval again with --stage high, then audit and publish"
    for file in files:
        with pq.ParquetFile(paths.local(file)) as stored:
            file_schema, metadata = stored.schema_arrow, stored.metadata
        kinds = _kinds(metadata, file_schema.get_field_index("_kind"))
        if kinds <= {PUNCTUATION}:
            continue
        same_columns = [(column.name, column.type) for column in file_schema] == [
            (column.name, column.type) for column in schema
        ]
        if not same_columns or kinds != {ROW}:
            raise LawError(f"{file} is not a file of published rows: another version of Lowwater wrote it", hint)
        as_stored = describe(file.parent, file, {})
        least, most = as_stored.smallest["_last"], as_stored.largest["_last"]
        if least < start or most >= end or least // HOUR != most // HOUR:
            raise LawError(f"{file} has rows outside of the interval, or of several hours", hint)
        yield file, as_stored


def _kinds(metadata: pq.FileMetaData, column: int) -> set[str | None]:
    """Returns the bounds of `_kind` in the row groups of a file; None in them if one has no statistics."""
    parts = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    statistics = [part.column(column).statistics for part in parts if part.num_rows]
    return {value for bounds in statistics for value in ((bounds.min, bounds.max) if bounds is not None else (None,))}


def copy_file(table: PurePath, name: str, file: PurePath, as_stored: DataFile) -> DataFile:
    """Copies a file with rows of one hour into the folder of a table, and describes the copy.

    Args:
        table: folder of the table.
        name: name of the copy.
        file: the file.
        as_stored: what it holds.
    """
    hour = _hour(as_stored)
    target = table / f"_hour={hour}" / name
    paths.copy(file, target)
    return replace(as_stored, path=target.relative_to(table).as_posix(), partition={"_hour": hour})


def _hour(file: DataFile) -> str:
    """Returns the partition of a file with rows of one hour."""
    return str(file.smallest["_last"] // HOUR)


def meeting_files(table: DeltaTable, start: int, end: int) -> list[dict[str, Any]]:
    """Returns the files of a table that may have rows with `_last` in [start, end), ns."""
    first, final = hours(start, end)
    meeting = []
    for row in live_files(table):
        least, most = _bounds(row)
        hour = row.get("partition._hour")
        # Another program may have put rows there that are not of the hour, or of none.
        strays = hour is None or least < int(hour) * HOUR or most >= (int(hour) + 1) * HOUR
        if hour is None or (first <= int(hour) <= final and (strays or (least < end and most >= start))):
            meeting.append(row)
    return meeting


def is_inside(row: Mapping[str, Any], start: int, end: int) -> bool:
    """Whether all rows of a file lie in [start, end), ns."""
    least, most = _bounds(row)
    return start <= least and most < end


def _bounds(row: Mapping[str, Any]) -> tuple[float, float]:
    """Returns the smallest and largest `_last` (ns) of a file; infinite bounds without statistics."""
    least, most = row.get("min._last"), row.get("max._last")
    return -inf if least is None else least, inf if most is None else most


def parts_of(table: PurePath, files: Sequence[PurePath], schema: pa.Schema, chosen: pads.Expression) -> list[DataFile]:
    """Writes new files with some rows of old files, whose other rows are of another interval.

    Such files exist where intervals once had another length, or files of an hour were joined.

    Args:
        table: folder of the table.
        files: old files, at least one.
        schema: schema of the table, which may have other columns than the query has now.
        chosen: condition on `_last` of the rows.
    """
    columns = pa.schema([pa.field(column.name, plain_type(column.type)) for column in schema if column.name != "_hour"])
    rows = pads.dataset([str(file) for file in paths.locals_of(files)], columns, format="parquet", partitioning=None)
    name = f"rest-{uuid.uuid4().hex[:12]}"
    with HourFiles(paths.draft(table / name).parent, name, columns) as out:
        for batch in rows.to_batches(filter=chosen, batch_size=BATCH, batch_readahead=2):
            if batch.num_rows:
                out.write(pa.table(batch))
    rest_files = [table / file.name for file in out.files]
    for file in rest_files:
        paths.place(file)
    plain = [describe(table, file, {}) for file in rest_files]
    return [replace(described, partition={"_hour": _hour(described)}) for described in plain]


def _refuse_changes(path: PurePath, old: pa.Schema, new: pa.Schema) -> None:
    """Raises an error if a column has another type; new columns are allowed."""
    for field in new:
        index = old.get_field_index(field.name)
        if index >= 0 and plain_type(old.field(index).type) != plain_type(field.type):
            before = old.field(index).type
            raise LakeError(
                f"table {path.name!r}: column {field.name!r} was {before}, the query now gives {field.type}",
                f"name the column otherwise, or remove {path} and replay every interval",
            )
