"""Publication: the rows of `streams/` are put into `tables/`; an earlier version is published again the same way."""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq

from lowwater import errors, limits
from lowwater.catalog.schemas import PUNCTUATION, ROW
from lowwater.columns.files import HourFiles, instants
from lowwater.instants import HOUR, format_instant
from lowwater.lake import layout, tables
from lowwater.lake.ledgers import intervals, runs
from lowwater.lake.results import exploring, published, streams
from lowwater.plan.operators import Field
from lowwater.plan.properties import INSTANT, InstantColumn, instant_columns, result_schema
from lowwater.storage import digests, paths
from lowwater.storage.locks import Fence
from lowwater.storage.untrusted import UnreadableError

if TYPE_CHECKING:
    from deltalake import DeltaTable

# Tables of older versions get the columns of instants: their files are written again with them. No row changes, so
# digests stay, and subscribers are told nothing.

WITH_INSTANTS: Mapping[str, str] = MappingProxyType({"lowwater.instants": "1"})
"""Property of a table whose rows all have their instants: of each new one, and of an older one once it is filled."""


class _ChangedError(Exception):
    """A run replaced one of the files meanwhile."""


def fill_instants(lake: layout.Lake, query: str, fields: Sequence[Field], dry_run: bool = False) -> tuple[int, int]:
    """Fills the columns of instants of a table that an older version made, or with `dry_run` only counts. It may be
    killed at any moment, and go on later; runs may publish meanwhile. Returns the number of files that were written
    again, or would be, and their bytes.
    Raises LakeError if the table cannot be read or written."""
    path = lake.table(query)
    table, columns = tables.open_table(path), instant_columns(fields)
    if table is None or not columns:
        return 0, 0
    with tables.lake_errors(f"{path}: the instants of its rows cannot be written"):
        if table.metadata().configuration.get(next(iter(WITH_INSTANTS))):
            return 0, 0
        fitting = _fitting(table, columns)
        if dry_run:
            waiting = list(_waiting(path, table, fitting))
            return len(waiting), sum(row["size_bytes"] for row in waiting)
        return _fill(lake, path, fitting)


def _fitting(table: DeltaTable, columns: Sequence[InstantColumn]) -> list[InstantColumn]:
    """Returns the columns whose name no column of another type has, and whose values the table has."""
    kinds = {field.name.lower(): field.type for field in pa.schema(table.schema().to_arrow())}
    return [
        column
        for column in columns
        if kinds.get(column.of.lower()) == pa.int64() and kinds.get(column.name.lower(), INSTANT) == INSTANT
    ]


def _fill(lake: layout.Lake, path: PurePath, columns: Sequence[InstantColumn]) -> tuple[int, int]:
    count = size = 0
    table = tables.open_table(path)
    assert table is not None
    tables.with_columns(path, table, pa.schema([pa.field(column.name, INSTANT) for column in columns]))
    while True:
        table = tables.open_table(path)
        assert table is not None
        waiting = list(_waiting(path, table, columns))
        for at in range(0, len(waiting), limits.COMMIT_FILES):
            chosen = waiting[at : at + limits.COMMIT_FILES]
            try:
                _rewrite(lake, path, chosen, columns)
            except _ChangedError:
                break
            count += len(chosen)
            size += sum(row["size_bytes"] for row in chosen)
        else:
            break

    def settled(table: DeltaTable, options: dict[str, Any]) -> None:
        table.alter.set_table_properties(dict(WITH_INSTANTS), False, commit_properties=options["commit_properties"])

    tables.commit(path, settled)
    return count, size


def completed(path: PurePath, file: tables.DataFile, fields: Sequence[Field]) -> tables.DataFile:
    """Returns a file of rows that is not committed yet, written again if it lacks instants."""
    columns = instant_columns(fields)
    if not _lacks(path / file.path, columns):
        return file
    row = {"path": file.path, "partition._hour": file.partition["_hour"]}
    return _filled(path, row, f"times-{uuid.uuid4().hex[:12]}.parquet", columns)


def _waiting(path: PurePath, table: DeltaTable, columns: Sequence[InstantColumn]) -> Iterator[dict[str, Any]]:
    """Yields the files in which an instant is missing where its temporal column has a value."""
    return (row for row in tables.live_files(table) if _lacks(path / row["path"], columns))


def _lacks(file: PurePath, columns: Sequence[InstantColumn]) -> bool:
    metadata = pq.read_metadata(paths.local(file))
    return any(_nulls(metadata, column.name) != _nulls(metadata, column.of) for column in columns)


def _nulls(metadata: pq.FileMetaData, name: str) -> int:
    """Returns the number of NULLs of a column; all rows where it is absent, -1 where it is unknown."""
    found = [statistics for column, statistics in tables.columns_of(metadata) if column == name]
    if any(statistics is None or not statistics.has_null_count for statistics in found):
        return -1
    return sum(statistics.null_count for statistics in found) if found else metadata.num_rows


def _rewrite(
    lake: layout.Lake, path: PurePath, rows: Sequence[dict[str, Any]], columns: Sequence[InstantColumn]
) -> None:
    attempt = uuid.uuid4().hex[:12]
    added = [_filled(path, row, f"times-{attempt}-{at:05d}.parquet", columns) for at, row in enumerate(rows)]
    names = {row["path"] for row in rows}

    def present(newest: DeltaTable) -> list[dict[str, Any]]:
        found = [row for row in tables.live_files(newest) if row["path"] in names]
        if len(found) < len(names):
            raise _ChangedError
        return found

    tables.swap_files(path, added, present, fence=lake.fence, rows_change=False)


def _filled(path: PurePath, row: Mapping[str, Any], name: str, columns: Sequence[InstantColumn]) -> tables.DataFile:
    """Writes a file of a table again with the instants of its rows."""
    partition = {"_hour": str(row["partition._hour"])}
    target = path / f"_hour={partition['_hour']}" / name
    with pq.ParquetFile(paths.local(path / row["path"])) as stored:
        writer = None
        for batch in stored.iter_batches(1 << 20):
            table = pa.Table.from_batches([batch])
            for column in columns:
                values = instants(column, table.column(column.of))
                at = table.schema.get_field_index(column.name)
                field = pa.field(column.name, INSTANT)
                table = table.append_column(field, values) if at < 0 else table.set_column(at, field, values)
            writer = writer or pq.ParquetWriter(
                paths.draft(target), table.schema, compression="lz4", write_page_checksum=True
            )
            writer.write_table(table)
        if writer is not None:
            writer.close()
    return tables.describe(path, paths.seal(target), partition)


# A publication replaces exactly its range of `_last` (SEMANTICS S2) in one commit (S4). The audited files themselves
# are copied into the table; their rows are not read or written again (docs/adr/0050).

BATCH = 65536


@dataclass(frozen=True)
class PublishResult:
    """Result of a publication."""

    query: str
    rows: int
    committed: bool  # False if the same inputs were published before, so that no row was written
    # number of the publication that made the visible rows of the interval; None where none has one
    number: int | None = None


def check_unchanged(lake: layout.Lake, query: str, start: int, end: int, audited: str) -> list[PurePath]:
    """Checks that the stream of a query over [start, end), ns, is still the audited one.
    Raises LawError if they have changed since the audit."""
    files = streams.stream_files(lake.stream(query), start, end)
    if streams.fingerprint(files) != audited:
        raise errors.LawError(
            f"interval {format_instant(start)} to {format_instant(end)}: the stream of query {query} has changed since "
            "its audit",
            "run the interval again with --stage high, then audit and publish",
        )
    return files


@dataclass(frozen=True)
class Audited:
    """An interval of a query whose stream was audited."""

    digest: str  # digest of the inputs (S1)
    fingerprint: str  # digest of the stream when it was audited


def description(query: str, query_set: str) -> str:
    """What a published table says of itself to other programs."""
    return f"rows of the query {query} of the query set {query_set}, published by Lowwater"


def publish(
    lake: layout.Lake,
    query_set: str,
    query: str,
    fields: tuple[Field, ...],
    audited: Mapping[published.Range, Audited],
    act: published.Act | None = None,
    words: Mapping[str, str] = MappingProxyType({}),
    checks: Mapping[str, str] = MappingProxyType({}),
) -> dict[published.Range, PublishResult]:
    """Publishes the rows of a query in intervals that follow one another, each from its stream, in one commit.

    Of an interval that published rows from inputs with the same digest before, and whose rows the table still has, a
    commit only says that they belong to this act too; those between which such a one lies have commits of their own.
    The caller records the publication in `replays`.
    Raises OwnerError if another query set owns the table (S3), LakeError if a column has changed its type, or the table
    cannot be written, and LawError if the stream has changed since its audit, or the table cannot take its files.

    Args:
        audited: intervals [start, end), ns, in order.
        act: the publication of the whole set; None for one of this table alone.
        checks: name -> SQL of what other writers of the table must keep too.
    """
    path = lake.table(query)
    rows = runs.interval_replays(lake, query_set, next(iter(audited))[0], [*audited][-1][1])
    damages = published.damages(lake, query, rows)
    standing: dict[published.Range, runs.ReplayRow] = {}
    spans: list[list[published.Range]] = []
    for span, of_interval in audited.items():
        last = runs.last_of(rows, query, *span)
        if last is not None and last.digest == of_interval.digest and not damages.get(span):
            standing[span] = last
        elif spans and spans[-1][-1][1] == span[0]:
            spans[-1].append(span)
        else:
            spans.append([span])
    numbers = {span: last.publication for span, last in standing.items()}
    if act is not None and standing:
        numbers |= mark(lake, query, [*standing], act)
    results = {span: PublishResult(query, last.rows or 0, False, numbers[span]) for span, last in standing.items()}
    if not spans:
        return results
    schema = layout.table_schema(fields)
    about = description(query, query_set)
    table = tables.create(path, schema, ["_hour"], query_set, {**WITH_INSTANTS, **words}, about)
    _refuse_changes(path, pa.schema(table.schema().to_arrow()), schema)
    table = tables.with_properties(path, tables.with_columns(path, table, schema), words, lake.fence)
    for together in spans:
        added: dict[published.Range, list[tables.DataFile]] = {}
        attempt, number = uuid.uuid4().hex[:12], itertools.count()
        for span in together:
            files = check_unchanged(lake, query, *span, audited[span].fingerprint)
            with tables.lake_errors(f"{path}: the rows of the stream cannot be put there"):
                added[span] = [
                    copy_file(path, f"{attempt}-{next(number):05d}.parquet", file, as_stored)
                    for file, as_stored in _row_files(files, result_schema(fields), *span)
                ]
        bounds = together[0][0], together[-1][1]
        notes = Notes(lake, query_set, query, fields, together, act or published.Act.begin(1))
        copies = [file for of_interval in added.values() for file in of_interval]
        _replace(path, copies, *bounds, lambda: pa.schema(table.schema().to_arrow()), lake.fence, notes)
        for span, of_span in added.items():
            count = sum(file.rows for file in of_span)
            results[span] = PublishResult(query, count, True, notes.number)
    tables.with_constraints(path, table, checks, lake.fence)
    return results


@dataclass
class Notes:
    """What a commit says that publishes intervals, of which each begins where the one before ends, for the version that
    is changed."""

    lake: layout.Lake
    query_set: str
    query: str
    fields: Sequence[Field]
    intervals: Sequence[published.Range]
    act: published.Act
    number: int = 0  # number of the publication, once the commit has succeeded

    def __call__(self, newest: DeltaTable) -> dict[str, str | int]:
        state = published.state_at(self.lake.table(self.query), newest)
        self.number = self.act.number(newest.version() + 1)
        numbers = dict.fromkeys(self.intervals, self.number)
        earlier: Sequence[tuple[int, int]] = ()
        if state.note is None and state.numbers:
            earlier = intervals.merged(state.numbers)
        elif state.note is None and state.names:
            earlier = published.ledger_ranges(self.lake, self.query_set, self.query)
        publication = published.next_publication(
            state.note,
            earlier,
            self.fields,
            self.intervals[0][0],
            self.intervals[-1][1],
            state.damage,
            {**state.recent, **numbers},
            state.checkpoint,
        )
        publication = replace(publication, damage=tuple(filter(state.stands, publication.damage)))
        keys = {published.interval_key(*span): number for span, number in numbers.items()}
        return {published.NOTE: publication.text(), **keys}


def mark(
    lake: layout.Lake, query: str, intervals: Sequence[published.Range], act: published.Act
) -> dict[published.Range, int]:
    """Says in the log of a table, in one commit, that the visible rows of intervals belong to an act too; no row
    changes. The caller knows that they are the published ones. Returns their numbers."""
    path = lake.table(query)
    state = published.table_state(path)
    numbers = {span: number for span in intervals if state is not None and (number := state.number(*span)) is not None}
    numbers = {span: number for span, number in numbers.items() if published.act_of(number) == act}
    if not (new := [span for span in intervals if span not in numbers]):
        return numbers

    def note(newest: DeltaTable) -> dict[str, str | int]:
        nonlocal numbers
        numbers |= dict.fromkeys(new, act.number(newest.version() + 1))
        return {published.interval_key(*span): numbers[span] for span in new}

    tables.swap_files(path, [], lambda _: [], fence=lake.fence, note=note)
    return numbers


def rest_of(start: int, end: int) -> pads.Expression:
    """Returns the condition on rows that stay of files that [start, end), ns, cuts: they are of the hours of the files.
    What another program put into the partition of another hour goes."""
    first, final = tables.hours(start, end)
    return tables.within("_last", first * HOUR, (final + 1) * HOUR) & ~tables.within("_last", start, end)


def _replace(
    path: PurePath,
    added: Sequence[tables.DataFile],
    start: int,
    end: int,
    schema: Callable[[], pa.Schema],
    fence: Fence | None,
    notes: Callable[[DeltaTable], Mapping[str, str | int]],
) -> None:
    """Puts files into the place of all rows of [start, end), ns, in one commit; what it cuts files off is written anew,
    with the schema of the table."""

    def rewrite(old_files: list[dict[str, Any]]) -> list[tables.DataFile]:
        # Of a file that is gone or damaged the other intervals that had rows in it are damaged too.
        cut = [path / row["path"] for row in old_files if not is_inside(row, start, end) and _is_sound(path, row)]
        return parts_of(path, cut, schema(), rest_of(start, end)) if cut else []

    tables.swap_files(
        path,
        added,
        lambda newest: meeting_files(newest, start, end),
        rewrite,
        fence,
        notes,
        predicate=f"_last >= {start} AND _last < {end}",
    )


def _is_sound(path: PurePath, row: Mapping[str, Any]) -> bool:
    """Whether a file of a table is there as it was written."""
    file = path / row["path"]
    try:
        return paths.has_size(file, row["size_bytes"]) and bool(paths.local(file))
    except UnreadableError:
        return False


def _row_files(
    files: Sequence[PurePath], schema: pa.Schema, start: int, end: int
) -> Iterator[tuple[PurePath, tables.DataFile]]:
    """Yields the files with rows of a stream, each with its description; punctuation has files of its own.
    Raises LawError if a file has other columns, other rows, or rows of several hours."""
    hint = "run the interval again with --stage high, then audit and publish"
    for file in files:
        with pq.ParquetFile(paths.local(file)) as stored:
            file_schema, metadata = stored.schema_arrow, stored.metadata
        kinds = _kinds(metadata, file_schema.get_field_index("_kind"))
        if kinds <= {PUNCTUATION}:
            continue
        columns, wanted = ([(column.name, column.type) for column in each] for each in (file_schema, schema))
        if columns != wanted or kinds != {ROW}:
            raise errors.LawError(f"{file} is not a file of published rows: another version of Lowwater wrote it", hint)
        as_stored = tables.describe(file.parent, file)
        least, most = as_stored.smallest["_last"], as_stored.largest["_last"]
        if least < start or most >= end or least // HOUR != most // HOUR:
            raise errors.LawError(f"{file} has rows outside of the interval, or of several hours", hint)
        yield file, as_stored


def _kinds(metadata: pq.FileMetaData, column: int) -> set[str | None]:
    """Returns the bounds of `_kind` in the row groups of a file; None in them if one has no statistics."""
    parts = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    statistics = [part.column(column).statistics for part in parts if part.num_rows]
    return {value for bounds in statistics for value in ((bounds.min, bounds.max) if bounds is not None else (None,))}


def copy_file(table: PurePath, name: str, file: PurePath, as_stored: tables.DataFile) -> tables.DataFile:
    """Copies a file with rows of one hour into the folder of a table, and describes the copy."""
    hour = _hour(as_stored)
    digest = digests.said(file.name) or digests.compute(paths.local(file))
    target = digests.named(table / f"_hour={hour}" / name, digest)
    paths.copy(file, target)
    return replace(as_stored, path=target.relative_to(table).as_posix(), partition={"_hour": hour})


def _hour(file: tables.DataFile) -> str:
    """Returns the partition of a file with rows of one hour."""
    return str(file.smallest["_last"] // HOUR)


def meeting_files(table: DeltaTable, start: int, end: int) -> list[dict[str, Any]]:
    """Returns the files of a table that may have rows with `_last` in [start, end), ns."""
    first, final = tables.hours(start, end)
    meeting = []
    for row in tables.live_files(table):
        (least, most), hour = _bounds(row), int(row["partition._hour"])
        strays = least < hour * HOUR or most >= (hour + 1) * HOUR  # by another program
        if first <= hour <= final and (strays or (least < end and most >= start)):
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


def parts_of(
    table: PurePath, files: Sequence[PurePath], schema: pa.Schema, chosen: pads.Expression
) -> list[tables.DataFile]:
    """Writes new files with the chosen rows of old files, at least one, whose other rows are of another interval. Such
    files exist where intervals once had another length, or files of an hour were joined. The schema is that of the
    table, which may have other columns than the query has now."""
    columns = pa.schema(
        [pa.field(column.name, tables.plain_type(column.type)) for column in schema if column.name != "_hour"]
    )
    rows = pads.dataset([str(file) for file in paths.locals_of(files)], columns, format="parquet", partitioning=None)
    name = f"rest-{uuid.uuid4().hex[:12]}"
    with HourFiles(paths.draft(table / name).parent, name, columns) as out:
        for batch in rows.to_batches(filter=chosen, batch_size=BATCH, batch_readahead=2):
            if batch.num_rows:
                out.write(pa.table(batch))
    rest_files = [paths.seal(table / file.name) for file in out.files]
    plain = [tables.describe(table, file) for file in rest_files]
    return [replace(described, partition={"_hour": _hour(described)}) for described in plain]


def require_types(lake: layout.Lake, query: str, fields: tuple[Field, ...]) -> None:
    """Checks that the table of a query, if there is one, has its columns in the types that the query gives.
    Raises LakeError if it has not, so that no run could publish, and if it cannot be read."""
    path = lake.table(query)
    if (table := tables.open_table(path)) is not None:
        _refuse_changes(path, pa.schema(table.schema().to_arrow()), layout.table_schema(fields))


def _refuse_changes(path: PurePath, old: pa.Schema, new: pa.Schema) -> None:
    """Raises an error if a column has another type; new columns are allowed."""
    for column in new:
        index = old.get_field_index(column.name)
        if index >= 0 and tables.plain_type(old.field(index).type) != tables.plain_type(column.type):
            before = old.field(index).type
            raise errors.LakeError(
                f"table {path.name!r}: column {column.name!r} was {before}, the query now gives {column.type}",
                f"name the column otherwise; or `lowwater retire` query {path.name} with --drop, then "
                "`lowwater backfill`, which makes every interval again",
            )


# An earlier version again, for one interval, in one commit. Subscribers are told of it as a restatement.

ROLLED_BACK_NOTE = "lowwater.rolled_back"
"""Key of what a commit says of a roll back, beside the note of a publication: JSON of version, person and reason."""


def restore(
    lake: layout.Lake,
    query_set: str,
    query: str,
    fields: Sequence[Field],
    start: int,
    end: int,
    version: int,
    told: dict[str, str],
    act: published.Act | None = None,
) -> PublishResult:
    """Replaces the rows with `_last` in [start, end), ns, by those of an earlier version of the table; the commit says
    what is `told`, who did it and why. `act`: the publication of the whole set; None for one of this table alone.
    Raises LakeError if the version does not have the interval, its files are gone, or the table cannot be written."""
    path = lake.table(query)
    earlier = exploring.result_table(lake, query, version)
    if version == earlier.newest:
        raise errors.LakeError(f"table {query}: version {version} is the newest one", "name an earlier version")
    note = published.last_note(path, version)
    files = meeting_files(earlier.opened(), start, end)
    # An older version of Lowwater wrote no notes: an interval without rows is then taken for one that is not there.
    present = bool(files) if note is None else any(first <= start and end <= last for first, last in note.ranges)
    if not present:
        raise errors.LakeError(
            f"table {query}: in version {version} the interval of {format_instant(start)} is not published",
            "name a later version: `lowwater history` lists them",
        )
    attempt = uuid.uuid4().hex[:12]
    added: list[tables.DataFile] = []
    cut = []
    with tables.lake_errors(f"{path}: the rows of version {version} cannot be put there"):
        for at, row in enumerate(files):
            file = path / row["path"]
            if is_inside(row, start, end):
                added.append(copy_file(path, f"{attempt}-{at:05d}.parquet", file, tables.describe(path, file)))
            else:
                cut.append(file)
        if cut:
            added += parts_of(path, cut, earlier.stored, tables.within("_last", start, end))
        added = [completed(path, file, fields) for file in added]
    notes = Notes(lake, query_set, query, fields, [(start, end)], act or published.Act.begin(1))

    def told_notes(newest: DeltaTable) -> dict[str, str | int]:
        return {**notes(newest), ROLLED_BACK_NOTE: json.dumps({"version": version, **told})}

    _replace(path, added, start, end, lambda: exploring.result_table(lake, query).stored, lake.fence, told_notes)
    return PublishResult(query, sum(file.rows for file in added), True, notes.number)
