"""Exports records of the lake that are no packets as CSV, JSON lines or parquet: a range of time, and a WHERE clause.

Beside `capture_export`. The file has the fields of the protocol under their names. A time in text is written with the
digits that the record had where it is the clock, else in whole units.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from lowwater.capture.tables.reader import READER_VERSION, TableOptions
from lowwater.catalog.records import ISO, RecordField, stored_parts
from lowwater.catalog.types import Type
from lowwater.catalog.values import format_ip, ip_from_words
from lowwater.config import Config
from lowwater.errors import LakeError
from lowwater.lake.ingestion.record_options import record_options
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.packets import read_packets
from lowwater.lake.run_inputs import outdated
from lowwater.plan.context import Links
from lowwater.plan.definitions import make_context
from lowwater.replay.command.row_files import spreadsheet_rows
from lowwater.replay.packets.predicate import Predicate, read_predicate

FORMATS = ("csv", "json", "parquet")
GROUP_ROWS = 1 << 17
"""Rows of a row group of an exported parquet file."""

_ISO, _SECONDS = pa.timestamp("ns", "UTC"), pa.decimal128(28, 9)
_BILLIONTH = Decimal("0.000000001")
_ARROW = {Type.BOOL: pa.bool_(), Type.INT: pa.int64(), Type.FLOAT: pa.float64(), Type.STRING: pa.string()}


@dataclass(frozen=True)
class RecordSelection:
    """The records of a link in a range that a predicate selects.

    Attributes:
        lake: the open lake.
        config: its settings.
        link: the link.
        options: how its records are read.
        predicate: selects the records.
        start: first timestamp, ns.
        end: end of the timestamps, ns, exclusive.
    """

    lake: Lake
    config: Config
    link: str
    options: TableOptions
    predicate: Predicate
    start: int
    end: int

    @property
    def schema(self) -> pa.Schema:
        """Schema of the exported records."""
        return pa.schema([pa.field(field.name, _exported_type(field)) for field in self.options.layout.fields])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the selected records in the order of the link; no batch is empty.

        Raises:
            LakeError: files must be ingested again, or cannot be read.
        """
        settings, layout = self.config.link(self.link), self.options.layout
        captures = read_captures(self.lake, [self.link])[self.link]
        late = outdated(captures, settings, READER_VERSION, self.start, self.end, self.options)
        if late:
            raise LakeError(late[0].removesuffix(": ingest it again"), "ingest it again")
        parts = [part for field in layout.fields for part in stored_parts(field.stored)]
        columns = list(dict.fromkeys([*parts, *(name for name in self.predicate.columns if name != "timestamp")]))
        read = read_packets(self.lake, self.link, captures, settings, self.start, self.start, self.end, columns)
        test = self.predicate.test(self.link)
        for batch in read:
            stamps = batch.column("timestamp")
            inside = batch.filter(pc.and_(pc.greater_equal(stamps, self.start), pc.less(stamps, self.end)))
            chosen = inside.filter(pa.array(test(inside))) if inside.num_rows else inside
            if chosen.num_rows:
                values = [_exported(chosen, field, field.stored == layout.clock) for field in layout.fields]
                yield pa.RecordBatch.from_arrays(values, schema=self.schema)


def select_records(lake: Lake, config: Config, link: str, where: str | None, start: int, end: int) -> RecordSelection:
    """Finds how the records of a link are read, and binds the condition.

    Args:
        lake: the open lake.
        config: its settings.
        link: a link of records that are no packets.
        where: a GSQL condition over the fields of its protocol; None for every record.
        start: first timestamp, ns since the epoch.
        end: end of the timestamps, ns, exclusive.

    Raises:
        ConfigError: the settings do not name the protocol of the link.
        QueryError: the condition is wrong.
    """
    options = record_options(config, link)
    assert options is not None, "the caller asks for links of records"
    context = make_context(Links(), [*config.link_schemas])
    predicate = read_predicate(where, options.layout.protocol, context, options.kind)
    return RecordSelection(lake, config, link, options, predicate, start, end)


def write_records(
    selection: RecordSelection,
    form: str,
    out: IO[bytes],
    progress: Callable[[int], None] = lambda records: None,
    spreadsheet: bool = False,
) -> int:
    """Writes the selected records. Returns their number.

    Args:
        selection: result of `select_records`.
        form: one of FORMATS.
        out: the file, opened for bytes.
        progress: called with the number of records so far.
        spreadsheet: whether texts are changed that a spreadsheet would take for formulas.

    Raises:
        LakeError: files must be ingested again, or cannot be read.
        OSError: the file cannot be written.
    """
    schema, batches = selection.schema, selection.batches()
    if spreadsheet:
        schema = spreadsheet_rows(pa.RecordBatch.from_pylist([], schema)).schema
        batches = map(spreadsheet_rows, batches)
    write, close = _writer(schema, form, out)
    count = 0
    for batch in batches:
        write(batch)
        count += batch.num_rows
        progress(count)
    close()
    return count


def _writer(schema: pa.Schema, form: str, out: IO[bytes]) -> tuple[Callable[[pa.RecordBatch], Any], Callable[[], Any]]:
    if form == "csv":
        # Quotes around every text: an empty one is not NULL.
        csv = pcsv.CSVWriter(out, schema)
        return csv.write_batch, csv.close
    if form == "parquet":
        parquet = pq.ParquetWriter(out, schema, compression="zstd")
        return lambda batch: parquet.write_batch(batch, row_group_size=GROUP_ROWS), parquet.close
    return lambda batch: out.writelines(_json_lines(batch)), lambda: None


def _json_lines(batch: pa.RecordBatch) -> Iterator[bytes]:
    names = [json.dumps(name) for name in batch.schema.names]
    columns = [_json_values(column) for column in batch.columns]
    for row in zip(*columns, strict=True):
        yield ("{" + ", ".join(f"{name}: {value}" for name, value in zip(names, row, strict=True)) + "}\n").encode()


def _json_values(column: pa.Array) -> list[str]:
    """Returns the values as JSON: times as texts in ISO 8601, or as numbers with all digits."""
    if column.type == _ISO:
        return [json.dumps(value) for value in column.cast(pa.string()).to_pylist()]
    if column.type == _SECONDS:
        return ["null" if value is None else str(value) for value in column.to_pylist()]
    return [json.dumps(value) for value in column.to_pylist()]


def _exported_type(field: RecordField) -> pa.DataType:
    if field.form:
        return _ISO if field.form == ISO else _SECONDS
    return _ARROW.get(field.type, pa.string())


def _exported(batch: pa.RecordBatch, field: RecordField, clock: bool) -> pa.Array:
    parts = [batch.column(name) for name in stored_parts(field.stored)]
    if field.type is Type.IP:
        return _addresses(*parts)
    if not field.form:
        return parts[0]
    instants = batch.column("timestamp") if clock else pc.multiply(parts[0], pa.scalar(field.unit, pa.int64()))
    if field.form == ISO:
        return instants.cast(_ISO)
    return pc.multiply(instants.cast(pa.decimal128(19, 0)), pa.scalar(_BILLIONTH)).cast(_SECONDS)


def _addresses(version: pa.Array, high: pa.Array, low: pa.Array) -> pa.Array:
    texts: dict[tuple[int, int, int], str] = {}
    values: list[str | None] = []
    for words in zip(version.to_pylist(), high.to_pylist(), low.to_pylist(), strict=True):
        if words[0] is None:
            values.append(None)
            continue
        if words not in texts:
            texts[words] = format_ip(ip_from_words(*words))
        values.append(texts[words])
    return pa.array(values, pa.string())
