"""Rows of `streams/` made visible in `tables/`: the last stage of a run.

A publication replaces exactly its range of `_last` (SEMANTICS S2) in one commit (S4).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from lowwater.catalog.streams import ROW, published
from lowwater.errors import LakeError, LawError
from lowwater.instants import HOUR, format_instant
from lowwater.lake.layout import Lake, table_schema
from lowwater.lake.records import last_published
from lowwater.lake.streams import fingerprint, stream_files
from lowwater.lake.tables import create, hours, lake_errors, open_table, replace_rows
from lowwater.plan.nodes import Field

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
        start: of the interval; `end` its end.
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
        fields: of the query's plan node.
        start: of the interval; `end` its end.
        digest: of the run's inputs (S1).
        audited: fingerprint of the stream that the audit found good.

    Raises:
        OwnerError: if another query set owns the table (S3).
        LakeError: if a column has changed its type, or the table cannot be written.
        LawError: if the stream has changed since its audit.
    """
    path = lake.table(query)
    last = last_published(lake, query_set, query, start, end)
    if last is not None and last.digest == digest and open_table(path) is not None:
        return Published(query, last.rows or 0, False)
    schema = table_schema(fields)
    table = create(path, schema, ["_hour"], query_set)
    grown = _refuse_changes(path, pa.schema(table.schema().to_arrow()), schema)
    files = check_unchanged(lake, query, start, end, audited)
    first, final = hours(start, end)
    # The hours keep parallel publications apart; `_last` alone would read the whole table.
    predicate = f"_hour >= {first} AND _hour <= {final} AND _last >= {start} AND _last < {end}"
    with lake_errors("the rows of the stream cannot be read"):
        count = sum(batch.num_rows for batch in _scan(files, ["_last"]))
    replace_rows(path, lambda: _published(files, fields, schema), predicate, merge=grown)
    return Published(query, count, True)


def _scan(files: list[Path], columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Data rows of stream files, in bounded memory."""
    if files:
        dataset = pads.dataset([str(file) for file in files], format="parquet", partitioning=None)
        rows = pads.field("_kind") == ROW
        yield from dataset.to_batches(
            columns=columns, filter=rows, batch_size=BATCH, batch_readahead=2, fragment_readahead=1
        )


def _refuse_changes(path: Path, old: pa.Schema, new: pa.Schema) -> bool:
    """Whether the columns differ in a way that merges; a changed type does not."""
    for field in new:
        index = old.get_field_index(field.name)
        if index >= 0 and _plain(old.field(index).type) != _plain(field.type):
            before = old.field(index).type
            raise LakeError(
                f"table {path.name!r}: column {field.name!r} was {before}, the query now gives {field.type}",
                f"name the column otherwise, or remove {path} and replay every interval",
            )
    return bool(set(old.names) != set(new.names))


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type without the widths of offsets, which Delta does not keep."""
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind) else kind


def _published(files: list[Path], fields: tuple[Field, ...], schema: pa.Schema) -> pa.RecordBatchReader:
    """Rows of stream files in their published form."""

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in _scan(files, [*(field.name for field in fields), "_last"]):
            columns = [published(batch.column(field.name), field.type) for field in fields]
            last = batch.column("_last")
            # Timestamps are never negative (T3), so truncation is the floor.
            yield pa.RecordBatch.from_arrays([*columns, last, pc.divide(last, HOUR)], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())
