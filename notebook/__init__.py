"""The door of notebooks and programs to a lake: tables, packets, records and ledgers, as Arrow, pandas, polars or
DuckDB. It writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.catalog.schemas import ADDRESSES, COLUMNS, KEPT, READABLE, address_parts
from lowwater.catalog.values import Type
from lowwater.columns.addresses import published
from lowwater.config import Config, load_config
from lowwater.errors import AbsentExtraError, LakeError, nearest
from lowwater.instants import parse_instant
from lowwater.lake import layout
from lowwater.lake.layout import LEDGERS
from lowwater.lake.ledgers.captures import ingested_links, read_captures
from lowwater.lake.ledgers.missing import lost_of_link
from lowwater.lake.packets import KEYS, read_packets
from lowwater.lake.results.exploring import LAST, result_table
from lowwater.lake.results.published_rows import published_rows, sorted_rows
from lowwater.lake.tables import fetch_rows, lake_errors, open_table, plain_type, table_dataset
from lowwater.limits import SORTED_ROWS
from lowwater.low.evaluate import addresses
from lowwater.low.predicate import Predicate
from lowwater.plan.readings import Reading, readings
from lowwater.plan.temporal import END_OF_TIME
from lowwater.replay.evidence import owner_of
from lowwater.replay.packets import read_predicate, require_frames, select_records
from lowwater.replay.schedule.due import as_they_stand
from lowwater.storage import paths
from lowwater.terminal import shown

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars


# Rows are read when they are asked for, each time anew. The packages of frames are no part of the light core, so a
# method that needs an absent one names it.

INSTANT = pa.timestamp("ns", "UTC")
"""Type of columns that are instants."""

PLAIN = Reading()
"""How numbers are read that nothing is beside."""

_PANDAS_RELEASES = "pandas<3"
"""What the extra `quality` asks for, too."""


@dataclass(frozen=True)
class Rows:
    """Rows of a lake, not read yet. Arrow-aware libraries take the object as it is: `polars.DataFrame(rows)`.

    Attributes:
        name: what the rows are of: a query, a link or a ledger.
        schema: columns and types. Instants are timestamps of UTC in nanoseconds, addresses are texts.
        version: version of the Delta table; None for packets and records.
        notes: ranges of time without rows or with rows that may change, as sentences.
    """

    name: str
    schema: pa.Schema
    version: int | None
    notes: tuple[str, ...]
    _read: Callable[[], Iterator[pa.RecordBatch]] = field(repr=False, compare=False)

    def __repr__(self) -> str:
        at = "" if self.version is None else f" at version {self.version}"
        return shown(f"<Rows of {self.name}{at}: {', '.join(self.schema.names)}>")

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows in Arrow batches, in bounded memory: of a table by time, of a link in the order of packets.

        Raises:
            LakeError: the lake cannot be read.
        """
        return self._read()

    def reader(self) -> pa.RecordBatchReader:
        """Returns a reader over `batches`, for libraries that take one."""
        return pa.RecordBatchReader.from_batches(self.schema, self._read())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.reader().__arrow_c_stream__(requested_schema)

    def count(self) -> int:
        """Counts the rows; reads them."""
        return sum(batch.num_rows for batch in self._read())

    def arrow(self) -> pa.Table:
        """Returns all rows as an Arrow table."""
        return pa.Table.from_batches(self._read(), self.schema)

    def pandas(self) -> pandas.DataFrame:
        """Returns all rows as a pandas frame. Integers and booleans with NULL have pandas' nullable types.

        Raises:
            AbsentExtraError: pandas is not installed.
        """
        _require("pandas", _PANDAS_RELEASES)
        import pandas

        table = self.arrow()
        frame: pandas.DataFrame = table.to_pandas()
        for column, kind in zip(table.columns, table.schema, strict=True):  # NULL would make floats of integers
            if column.null_count and (nullable := _nullable(kind.type)):
                frame[kind.name] = pandas.Series(nullable.__from_arrow__(column), index=frame.index)
        return frame

    def polars(self) -> polars.DataFrame:
        """Returns all rows as a polars frame.

        Raises:
            AbsentExtraError: polars is not installed.
        """
        _require("polars", "polars")
        import polars

        frame = polars.from_arrow(self.arrow())
        assert isinstance(frame, polars.DataFrame)
        return frame

    def duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Returns a DuckDB relation that streams the rows each time it is evaluated; instants are TIMESTAMP_NS in UTC.

        Args:
            connection: connection of the relation; None for DuckDB's own.

        Raises:
            AbsentExtraError: DuckDB is not installed.
        """
        _require("duckdb", "duckdb")
        import duckdb

        source = _WithoutZones(self)
        return (connection or duckdb).from_arrow(source)


@dataclass(frozen=True)
class _WithoutZones:
    """Rows as DuckDB takes them: its timestamps with a zone have microseconds only, those without have nanoseconds."""

    rows: Rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        plain = [each.with_type(pa.timestamp("ns")) if each.type == INSTANT else each for each in self.rows.schema]
        schema = pa.schema(plain)
        batches = (batch.cast(schema) for batch in self.rows.batches())
        return pa.RecordBatchReader.from_batches(schema, batches).__arrow_c_stream__(requested_schema)


def _nullable(kind: pa.DataType) -> Any:
    """Returns pandas' type of integers or booleans with NULL; None for other types."""
    import pandas

    if pa.types.is_boolean(kind):
        return pandas.BooleanDtype()
    return pandas.Int64Dtype() if pa.types.is_signed_integer(kind) else None


def _require(package: str, named: str) -> None:
    if find_spec(package) is None:
        quoted = f"'{named}'" if named != package else named
        raise AbsentExtraError(
            f"rows as a frame of {package} need a package that is not installed: {package}",
            f"pip install {quoted}; `arrow` and `batches` need nothing more",
        )


# Packets of a link as rows that people read: addresses as texts, instants as timestamps.

INSTANTS = ("arrival", "timestamp")
MACS = ("srcMAC", "destMAC")

HEADERS = tuple(
    dict.fromkeys(
        [*KEYS, *(name.removesuffix("_hi") for name in COLUMNS.names if not name.endswith("_lo"))],
    )
)
"""Columns of packets where nobody names others."""
NAMED = (*HEADERS, *KEPT.names)
"""All columns of packets."""


@dataclass(frozen=True)
class PacketRows:
    """The packets of a link with a timestamp in [start, end), within its life, copies included.

    Attributes:
        lake: the lake.
        config: its settings.
        link: a link of packets with captures.
        start: first timestamp, ns since the epoch.
        end: end of the timestamps, ns, exclusive.
        predicate: selects packets.
        columns: columns of `NAMED`.
    """

    lake: layout.Lake
    config: Config
    link: str
    start: int
    end: int
    predicate: Predicate
    columns: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        """Schema of the batches."""
        return pa.schema([pa.field(name, _type(name)) for name in self.columns])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the packets in the order of the link: by capture, then by position.

        Raises:
            LakeError: files of packets cannot be read, or a condition asks for payloads that are not stored.
        """
        captures = read_captures(self.lake, [self.link])[self.link]
        parts = [part for name in self.columns for part in address_parts(name) or (name,)]
        stored = [name for name in dict.fromkeys([*parts, *self.predicate.columns]) if name not in KEYS]
        settings = self.config.link(self.link)
        test = self.predicate.test(self.link)
        everything = self.predicate.member is None and self.predicate.condition is None
        for batch in read_packets(self.lake, self.link, captures, settings, self.start, self.start, self.end, stored):
            stamps = batch.column("timestamp")
            inside = batch.filter(pc.and_(pc.greater_equal(stamps, self.start), pc.less(stamps, self.end)))
            if inside.num_rows and not everything:
                if self.predicate.reads_payload:
                    require_frames(inside, self.link, "whose payload the condition asks for")
                inside = inside.filter(pa.array(test(inside)))
            if inside.num_rows:
                yield pa.RecordBatch.from_arrays([_shown(inside, name) for name in self.columns], schema=self.schema)


def packet_columns(names: Sequence[str]) -> tuple[str, ...]:
    """Returns the columns of packets that are asked for; `HEADERS` for none.

    Raises:
        LakeError: packets have no such column.
    """
    for name in names:
        if name not in NAMED:
            raise LakeError(
                f"packets have no column {name!r}",
                nearest(name, NAMED) or "docs/packets.md lists the stored columns; `where` takes all of a protocol",
            )
    return tuple(dict.fromkeys(names)) or HEADERS


def _type(name: str) -> pa.DataType:
    if name in INSTANTS:
        return INSTANT
    return pa.string() if name in ADDRESSES or name in MACS else READABLE.field(name).type


def _shown(batch: pa.RecordBatch, name: str) -> pa.Array:
    """Returns a column of packets as people read it."""
    if name in ADDRESSES:
        words = [batch.column(part) for part in address_parts(name)]
        null = np.logical_or.reduce([word.is_null().to_numpy(zero_copy_only=False) for word in words])
        family, high, low = (word.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64) for word in words)
        return published(addresses(family, high, low, null), Type.IP)
    column = batch.column(name)
    return published(column, Type.MAC) if name in MACS else column.cast(_type(name))


# `from lowwater import Lake` is this `Lake`. Inside of the package the paths of a lake are `lake.layout.Lake`.

Instant = str | int | date | datetime
"""ISO 8601 (UTC without an offset), ns since the epoch, or Python's date or datetime."""


class Lake:
    """A lake, to be read.

    Args:
        root: folder of the lake, or its address such as `s3://bucket/prefix`.

    Raises:
        LakeError: there is no lake.
    """

    def __init__(self, root: str | PurePath) -> None:
        self._lake = layout.lake_to_read(root)

    def __repr__(self) -> str:
        return f"<Lake {self._lake.root}>"

    @property
    def tables(self) -> list[str]:
        """Names of the published queries."""
        return sorted(path.name for path in paths.folders(self._lake.root / "tables"))

    @property
    def links(self) -> list[str]:
        """Names of the links with captures."""
        return ingested_links(self._lake)

    def table(
        self,
        query: str,
        start: Instant | None = None,
        end: Instant | None = None,
        version: int | None = None,
        columns: Sequence[str] = (),
        names: bool = False,
    ) -> Rows:
        """Returns published rows, by time (`_last`), then by all columns.

        Args:
            query: an output query.
            start: first instant of `_last`; None for the first published one.
            end: end of the instants, exclusive; None for the last published one.
            version: version of the table; None for the newest now. The rows stay those of the version.
            columns: columns of the query; none for all. `_last` always comes last.
            names: whether a column `<column>_text` stands behind each whose numbers people read by names, or as bytes
                or durations: 6 TCP, 443 HTTPS, 1536 1.54 kB. It is NULL where there is nothing to read.

        Raises:
            LakeError: there is no such query, version or column, or the files of the version are gone; with names also
                where the query set of the query has it no more.
            LowwaterError: with names, its query set cannot be planned.
        """
        first, until = _range(start, end)
        found = result_table(self._lake, query, version)
        opened = found.opened()
        for name in columns:
            found.require(name)
        chosen = [found.columns.field(name) for name in dict.fromkeys(columns or found.columns.names)]
        schema = pa.schema([*chosen, pa.field(LAST, INSTANT)])
        notes: tuple[str, ...] = ()
        if version is None:
            bounds = None if start is None else first, None if end is None else until
            notes = as_they_stand(published_rows(self._lake, query, *bounds), Path("queries")).notes
        stored = tuple(each.name for each in chosen)

        def read() -> Iterator[pa.RecordBatch]:
            for batch in sorted_rows(found.path, opened, stored, first, until, SORTED_ROWS):
                yield batch.cast(schema)

        rows = Rows(query, schema, found.version, notes, read)
        if not names:
            return rows
        _, plan = owner_of(self._lake.root, Path("queries"), query)
        return _with_texts(rows, {name: how for name, how in readings(plan.logical).items() if name in stored})

    def packets(
        self,
        link: str,
        start: Instant | None = None,
        end: Instant | None = None,
        where: str | None = None,
        protocol: str = "ETH",
        columns: Sequence[str] = (),
    ) -> Rows:
        """Returns packets of a link in its order, as `lowwater export` selects them.

        Args:
            link: a link of packets.
            start: first timestamp; None for the first packet.
            end: end of the timestamps, exclusive; None for the last packet.
            where: a condition in GSQL, such as `destPort = 53`; None for every packet.
            protocol: protocol of the packets, and of the columns in `where`.
            columns: columns of docs/packets.md, with `srcIP` for the three columns of an address; none for all that
                every link has.

        Raises:
            LakeError: the link has no captures or no packets, or there is no such column.
            QueryError: the condition is wrong.
        """
        config = load_config(self._lake.root)
        self._require(link)
        if config.link(link).kind != "pcap":
            raise LakeError(f"link {link!r} has {config.link(link).kind} records, no packets", f"records({link!r})")
        first, until = _range(start, end)
        predicate = read_predicate(where, protocol)
        chosen = PacketRows(self._lake, config, link, first, until, predicate, packet_columns(columns))
        return Rows(link, chosen.schema, None, (), chosen.batches)

    def records(
        self, link: str, start: Instant | None = None, end: Instant | None = None, where: str | None = None
    ) -> Rows:
        """Returns records of a link that has no packets, such as logs, in their order, with the fields of its protocol.

        Args:
            link: a link of records.
            start: first timestamp; None for the first record.
            end: end of the timestamps, exclusive; None for the last record.
            where: a condition in GSQL over the fields of the protocol; None for every record.

        Raises:
            LakeError: the link has no captures, or packets.
            QueryError: the condition is wrong.
        """
        config = load_config(self._lake.root)
        self._require(link)
        if config.link(link).kind == "pcap":
            raise LakeError(f"link {link!r} has packets, no records", f"packets({link!r})")
        selection = select_records(self._lake, config, link, where, *_range(start, end))
        return Rows(link, selection.schema, None, (), selection.batches)

    def sql(self, text: str, start: Instant | None = None, end: Instant | None = None) -> Rows:
        """Returns the rows of one SELECT over the lake, evaluated by DuckDB each time they are asked for.

        Args:
            text: a statement that reads views: `main1`, `main1.TCP`, `TCP`, a table, a ledger; see docs/sql.md.
            start: first instant of packets and rows; None for the first one.
            end: end of the instants, exclusive; None for the last one.

        Raises:
            AbsentExtraError: DuckDB is not installed.
            SqlError: the text is not one statement that reads, or names what is not there.
            LakeError: the lake cannot be read.
        """
        from lowwater.replay.lake_views import LakeSource  # they import much that other rows do not need
        from lowwater.replay.sql import Statement

        source, replay = LakeSource(self._lake, _range(start, end)), load_config(self._lake.root).replay

        def ask() -> Statement:
            return Statement(source, text, replay.bytes, replay.threads)

        with ask() as asked:
            instants = [each for each in asked.schema.names if pa.types.is_timestamp(asked.schema.field(each).type)]
            fields = [each.with_type(INSTANT) if each.name in instants else each for each in asked.schema]
            schema, notes = pa.schema(fields), tuple(asked.notes())

        def read() -> Iterator[pa.RecordBatch]:
            with ask() as asked:
                for batch in asked.batches():
                    yield batch.cast(schema)

        return Rows("sql", schema, None, notes, read)

    def drops(self, link: str) -> pa.Table:
        """Returns the records that the captures of a link say were lost: between which instants, how many, and who
        counted them. Different sources tell of the same losses.

        Raises:
            LakeError: the link has no captures.
        """
        self._require(link)
        captures = read_captures(self._lake, [link])[link]
        lost = [each for each in lost_of_link(self._lake, link, captures) if each.drops.count]
        columns = {
            "file": pa.array([each.file for each in lost], pa.string()),
            "from": pa.array([each.begin for each in lost], INSTANT),
            "to": pa.array([each.end for each in lost], INSTANT),
            "records": pa.array([each.drops.count for each in lost], pa.int64()),
            "source": pa.array([each.drops.source for each in lost], pa.string()),
        }
        return pa.table(columns)

    def ledger(self, name: str) -> Rows:
        """Returns the rows of a ledger as they are stored, in no order.

        Args:
            name: `contents`, `replays`, `quality` or another one of docs/results.md.

        Raises:
            LakeError: there is no such ledger.
        """
        if name not in LEDGERS:
            raise LakeError(
                f"there is no ledger {name!r}", nearest(name, LEDGERS) or f"there are: {', '.join(LEDGERS)}"
            )
        path = self._lake.root / name
        table = open_table(path)
        if table is None:
            raise LakeError(
                f"{path}: the ledger is not there",
                "nothing was audited yet, or the lake is older than this version: run an interval",
            )
        known = pa.schema(table.schema().to_arrow())
        schema = pa.schema([pa.field(each.name, plain_type(each.type)) for each in known])

        def read() -> Iterator[pa.RecordBatch]:
            with lake_errors(f"{path}: the table cannot be read"):
                for batch in fetch_rows(path, table_dataset(path, table)).to_batches(columns=schema.names):
                    yield batch.cast(schema)

        return Rows(name, schema, table.version(), (), read)

    def _require(self, link: str) -> None:
        known = self.links
        if link not in known:
            raise LakeError(f"link {link!r} has no captures in the lake", nearest(link, known) or "`links` lists them")


def _with_texts(rows: Rows, read_as: Mapping[str, Reading]) -> Rows:
    """Returns rows with a column of what people read behind each column of numbers that are read so."""
    columns = [
        [each, *_text_field(each, rows.schema)] if read_as.get(each.name, PLAIN) != PLAIN else [each]
        for each in rows.schema
    ]
    schema = pa.schema([each for one in columns for each in one])

    def read() -> Iterator[pa.RecordBatch]:
        for batch in rows.batches():
            arrays = list[pa.Array]()
            for array, one in zip(batch.columns, columns, strict=True):
                arrays += [array, *(_texts(array, read_as[one[0].name]) for _ in one[1:])]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return replace(rows, schema=schema, _read=read)


def _text_field(column: pa.Field, schema: pa.Schema) -> Iterator[pa.Field]:
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        name = f"{column.name}_text"
        while name in schema.names:
            name += "_"
        yield pa.field(name, pa.string())


def _texts(numbers: pa.Array, how: Reading) -> pa.Array:
    coded = numbers.dictionary_encode()  # few of many rows differ
    texts = pa.array([how.text(value) or None for value in coded.dictionary.to_pylist()], pa.string())
    return texts.take(coded.indices)


def _range(start: Instant | None, end: Instant | None) -> tuple[int, int]:
    """Returns a range in ns since the epoch.

    Raises:
        LakeError: a bound is no instant, or the range ends before it begins.
    """
    first = 0 if start is None else _instant(start, "start")
    until = END_OF_TIME if end is None else _instant(end, "end")
    if first >= until:
        raise LakeError("the range ends before it begins", "give an `end` after `start`")
    return first, until


def _instant(value: Instant, name: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    try:
        return parse_instant(value)
    except ValueError as error:
        raise LakeError(f"{name}: {error}", "or give ns since the epoch, or a datetime") from None
