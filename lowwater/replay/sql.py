"""SQL over what is decoded: DuckDB over capture files or a lake, for one look. Standing queries are GSQL.

A view is an Arrow stream that DuckDB asks for, with the columns that the statement reads, in bounded memory. The names
are those of GSQL: `main1` has the packets of a link, `main1.TCP` those of a protocol, `TCP` those of all links. The
text of a statement reaches nothing else: no file, no network, no extension, no setting, no variable of Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from lowwater import caches, errors, extras, limits, threads
from lowwater.capture.content.retention import EVERYTHING, ContentOptions
from lowwater.capture.content.stored import payload_of
from lowwater.capture.headers.undecoded import Count, Share, Undecoded, together
from lowwater.capture.reader import CaptureChunk, CaptureIndex, Interface, index, read, read_chunk
from lowwater.capture.records.drops import total
from lowwater.catalog import expr as ex, protocols
from lowwater.catalog.builtin import CATALOG
from lowwater.catalog.schemas import FRAME, KEPT, PAYLOAD, SAMPLING_RATE, TABLE_TYPES, UNNAMED, address_parts, stored
from lowwater.columns.addresses import published
from lowwater.columns.values import evaluate
from lowwater.config import Config, Link
from lowwater.lake.ingestion.tasks import damage_table, link_names
from lowwater.lake.results.exploring import duckdb_settings, quoted
from lowwater.link_names import family_of
from lowwater.low.evaluate import addresses
from lowwater.plan.bind import sugar
from lowwater.plan.context import Context, Links
from lowwater.plan.temporal import END_OF_TIME
from lowwater.replay import remarks

if TYPE_CHECKING:
    import duckdb

INSTANT = pa.timestamp("ns")
"""Type of instants, of UTC. Those of DuckDB that have a zone have microseconds only."""

ALL, TABLES, LEDGERS = "*", "tables", "ledgers"
"""Schemas of the database; each link has one beside them, with the views of its protocols. No link is called `*`."""

FILE, POSITION = "file", "position"
"""Columns of packets beside those of GSQL: the capture file, and the number of the record in it, from 0."""


OPTIONAL = frozenset(KEPT.names) - {*UNNAMED} | {PAYLOAD}
"""Columns that are NULL where a link does not keep them."""


@dataclass(frozen=True)
class Words:
    """The text of a statement, to be searched for names before it is bound: a view has the columns of `*` in GSQL, and
    the others that the text names."""

    text: str

    def has(self, name: str) -> bool:
        """Whether the text has a name, in any case."""
        return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", self.text, re.IGNORECASE) is not None

    def alone(self, name: str) -> bool:
        """Whether a source of the statement has the name, without a schema."""
        return re.search(rf'(?:\bFROM|\bJOIN|,)\s+"?{re.escape(name)}\b(?!"?\.)', self.text, re.IGNORECASE) is not None


@dataclass(frozen=True)
class View:
    """A stream of rows under a name.

    Attributes:
        schema: schema of the database in which it is.
        scan: reads some columns, in the order in which they are named.
        notes: what is to be said of the rows, once they are read.
    """

    schema: str
    name: str
    columns: pa.Schema
    scan: Callable[[Sequence[str]], Iterator[pa.RecordBatch]]
    notes: Callable[[], Iterable[str]] = tuple


class Source(Protocol):
    """What a statement is asked of."""

    def views(self, words: Words) -> Iterator[View]:
        """Yields the views. The first one of a name counts."""
        ...

    def context(self) -> Context:
        """Returns the names that a query of GSQL over the same packets may use."""
        ...


class _Stream(pads.Dataset):  # type: ignore[misc] # Arrow has no types
    """A view as DuckDB reads it: for each scan it calls `scanner`, with the columns and the conditions of the scan.
    Other formats for Arrow are datasets in this way, too. `failed` takes the error of a scan, of which DuckDB hands on
    the text only."""

    def __init__(self, view: View, failed: list[BaseException]) -> None:
        self._view, self._failed = view, failed

    @property
    def schema(self) -> pa.Schema:
        return self._view.columns

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None, **_: Any) -> pads.Scanner:
        every = self._view.columns.names
        wanted = set(every if columns is None else columns)
        if filter is not None:  # it may read columns that the statement does not; its text has their names
            text = str(filter)
            wanted |= {name for name in every if name in text}
        names = [name for name in every if name in wanted] or every[:1]
        schema = pa.schema([self._view.columns.field(name) for name in names])
        return pads.Scanner.from_batches(self._batches(names), schema=schema, columns=columns, filter=filter)

    def _batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._view.scan(names)
        except GeneratorExit:
            raise
        except BaseException as error:
            self._failed.append(error)
            raise


# Packets, with the columns of a protocol, which are made of stored ones (`catalog.schemas`).


@dataclass(frozen=True)
class PacketColumns:
    """Columns of a protocol that a scan reads.

    Attributes:
        member: condition of the protocol; None for all packets.
        exprs: column -> its expression over stored columns; None for FILE and POSITION.
    """

    member: ex.Expr | None
    exprs: Mapping[str, ex.Expr | None]

    @property
    def stored(self) -> list[str]:
        """The stored columns of which they are made."""
        read = ex.columns_of(self.member, *(each for each in self.exprs.values() if each is not None))
        return [*stored(read), *([POSITION] if POSITION in self.exprs else [])]

    @property
    def counted(self) -> list[str]:
        """The stored columns by which packets are counted that are not of the protocol, or say no length."""
        fragments = ["offset", "protocol"] if remarks.number_of(self.member) is not None else []
        return [*fragments, *([remarks.SAID] if remarks.TOTAL in self.exprs else [])]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(name, _type_of(name, each)) for name, each in self.exprs.items()])

    @property
    def alike(self) -> bool:
        """Whether all packets of a file and an interface have the same values: a `count(*)` asks for any column."""
        same = (each == _INTERFACE if each is not None else name == FILE for name, each in self.exprs.items())
        return self.member is None and all(same)

    def batch(self, link: str, file: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Makes the columns of those packets that are of the protocol."""
        if self.member is not None:
            chosen = evaluate(self.member, partial(_column, rows, link), rows.num_rows)
            rows = rows.filter(chosen.fill_null(False))
        arrays = []
        for kind, each in zip(self.schema, self.exprs.values(), strict=True):
            if each is None:
                values = pa.repeat(pa.scalar(file), rows.num_rows) if kind.name == FILE else rows.column(kind.name)
            else:
                values = published(evaluate(each, partial(_column, rows, link), rows.num_rows), each.type)
            arrays.append(values.view(INSTANT) if kind.type == INSTANT else values.cast(kind.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


_INTERFACE = ex.Column(ex.Type.STRING, protocols.INTERFACE)


def _type_of(name: str, each: ex.Expr | None) -> pa.DataType:
    if each is None:
        return pa.string() if name == FILE else pa.int64()
    if isinstance(each, ex.Column) and each.name in ("timestamp", PAYLOAD):
        return pa.binary() if each.name == PAYLOAD else INSTANT
    return TABLE_TYPES[each.type]


def _column(rows: pa.RecordBatch, link: str, name: str) -> pa.Array:
    """Returns a column of expressions, of stored columns."""
    if name == protocols.INTERFACE:
        return pa.repeat(pa.scalar(link), rows.num_rows)
    if name == PAYLOAD:
        return payload_of(rows)
    if not (parts := address_parts(name)):
        return rows.column(name)
    words = [rows.column(part) for part in parts]
    null = np.logical_or.reduce([word.is_null().to_numpy(zero_copy_only=False) for word in words])
    family, high, low = (word.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64) for word in words)
    return addresses(family, high, low, null)


class Packets(Protocol):
    """The packets of a link and its interfaces."""

    def batches(self, columns: PacketColumns) -> Iterator[pa.RecordBatch]: ...

    def notes(self, columns: Sequence[str]) -> Iterator[str]: ...

    def beside(self) -> Mapping[str, Count]:
        """What is known of packets that a protocol leaves out (`headers.undecoded`)."""
        ...


def packet_views(links: Mapping[str, Sequence[Packets]], words: Words) -> Iterator[View]:
    """Yields the views of packets: of each link all, and of a protocol that the statement names those of a link, and of
    all links."""
    everything = [each for name, own in links.items() if family_of(name) == name for each in own]
    for protocol in protocols.PROTOCOLS.values():
        whole = _of_protocol(protocol, words)
        for name, own in links.items():
            if protocol.name == "ETH":
                yield _packet_view(ALL, name, whole, own, words)
            if words.has(protocol.name) and words.has(name):
                yield _packet_view(name, protocol.name, whole, own, words)
        if words.has(protocol.name):
            yield _packet_view(ALL, protocol.name, whole, everything, words)


def _of_protocol(protocol: protocols.Protocol, words: Words) -> PacketColumns:
    """Returns the columns of `*`, and others that the statement names. SQL does not tell upper from lower case."""
    never = {SAMPLING_RATE, *(() if words.has(protocols.INTERFACE) else (protocols.INTERFACE,))}
    shown = {name for name in protocol.columns if name not in protocol.hidden | protocols.ALIASES.keys() | never}
    shown.add(protocols.LINK)
    exprs: dict[str, ex.Expr | None] = {name: None for name in (FILE, POSITION) if words.has(name)}
    exprs[protocols.LINK] = protocol.columns[protocols.LINK]
    taken = {name.lower() for name in shown}
    for name, each in protocol.columns.items():
        if name in shown or (name.lower() not in taken and name not in never and words.has(name)):
            exprs[name] = each
    return PacketColumns(protocol.member, exprs)


def _packet_view(schema: str, name: str, whole: PacketColumns, links: Sequence[Packets], words: Words) -> View:
    def scan(names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        columns = PacketColumns(whole.member, {each: whole.exprs[each] for each in names})
        for link in links:
            yield from link.batches(columns)

    def notes() -> Iterator[str]:
        for link in links:
            yield from link.notes([*whole.exprs])
        types = together(link.beside() for link in links)
        yield from remarks.fragment_words(name, remarks.number_of(whole.member), types)
        if words.has(remarks.TOTAL) and not (words.has(remarks.SAID) or words.has("ip_length")):
            yield from remarks.unsaid_words(types)
        told = words.has(protocols.LINK) or words.has(protocols.INTERFACE)
        if schema == ALL and len(links) > 1 and words.alone(name) and not told:
            yield from _copies(name, whole.member, links)

    return View(schema, name, whole.schema, scan, notes)


def _copies(protocol: str, member: ex.Expr | None, links: Sequence[Packets]) -> Iterator[str]:
    """Says which packets two links have, of the first ones of each, where a statement reads all links as one."""
    columns = protocols.PROTOCOLS["ETH"].columns
    asked = PacketColumns(member, {name: columns[name] for name in (protocols.LINK, *remarks.IDENTIFYING)})
    seen: dict[str, set[tuple[Any, ...]]] = {}
    for link in links:
        for batch in link.batches(asked):
            name, *values = (each.to_pylist() for each in batch.columns)
            of_link = seen.setdefault(family_of(name[0]), set()) if name else set()
            of_link |= {row for row in zip(*values, strict=True) if row[_SEQUENCE] is not None or row[_ID]}
            if len(of_link) > remarks.COMPARED:
                break
    for one, other in combinations(seen, 2):
        if found := len(seen[one] & seen[other]):
            about = "at least " if max(len(seen[one]), len(seen[other])) > remarks.COMPARED else ""
            yield remarks.shared_words(protocol, one, other, found, about)


_SEQUENCE, _ID = remarks.IDENTIFYING.index("sequence_number"), remarks.IDENTIFYING.index("id")


# Capture files, each surveyed once: where damage lies and where chunks begin. Then chunks are decoded on threads, for
# each scan anew, with the columns of the scan.


class CaptureFile:
    """A capture file of a link.

    Raises CaptureError if it is no capture, or cannot be read.

    Args:
        settings: the settings of its link.
        span: first and last timestamp of packets, ns, the last one exclusive.
    """

    def __init__(self, link: str, path: Path, settings: Link, span: tuple[int, int], workers: int) -> None:
        self.link, self.path, self._settings, self._span, self._workers = link, path, settings, span, workers
        self._content = ContentOptions.of(settings)
        chunk, jump = limits.INGEST_CHUNK_BYTES, settings.jump
        self.index: CaptureIndex = index(path, jump, chunk, "-", self._content, identified=False)
        names = [each.interface.name for each in self.index.summary.interfaces]
        self.names = link_names(link, names, path, settings.interfaces == "one")
        self._undecoded: dict[int, dict[int, Undecoded]] = {}  # number of a chunk -> interface -> count

    def batches(self, columns: PacketColumns, link: str = "") -> Iterator[pa.RecordBatch]:
        """Decodes the packets of the file, or of those interfaces of it that are a `link`.
        Raises CaptureError if it has changed since it was surveyed, or cannot be read."""
        if columns.alike and self._span == EVER:
            yield from self._surveyed(columns, link)
            return
        chosen = list(dict.fromkeys(["timestamp", *columns.stored, *columns.counted]))
        read_content = ContentOptions(
            EVERYTHING if FRAME in chosen else None,
            tuple(sorted({name.partition("_")[0] for name in chosen if name in OPTIONAL})),
            key=self._content.key,
            untimed=self._content.untimed,
            resolution=self._content.resolution,
        )
        summary = self.index.summary
        if summary.compression:
            jump, order = self._settings.jump, summary.order
            reader = read(self.path, jump, sha256="-", content=read_content, columns=chosen, order=order)
            for interface, batch in reader.by_interface():
                if link in ("", self.names[interface.index]):
                    yield self._made(columns, interface, batch)
            self._noted(0, reader.undecoded(), columns)
            return

        def decoded(number: int, chunk: CaptureChunk) -> list[pa.RecordBatch]:
            counted: dict[int, Undecoded] = {}
            found = read_chunk(chunk, read_content, undecoded=counted, columns=chosen)
            made = [self._made(columns, *each) for each in found if link in ("", self.names[each[0].index])]
            self._noted(number, counted, columns)
            return made

        work = (partial(decoded, number, chunk) for number, chunk in enumerate(self.index.chunks))
        for parts in threads.on_threads(work, 2 * self._workers, self._workers):
            yield from parts

    def _surveyed(self, columns: PacketColumns, link: str) -> Iterator[pa.RecordBatch]:
        """Yields as many rows as the survey has found packets: nothing is decoded."""
        for name, interface in zip(self.names, self.index.summary.interfaces, strict=True):
            rows = interface.packets if link in ("", name) else 0
            nothing = pa.record_batch([pa.nulls(min(rows, limits.GROUP_ROWS))], ["nothing"])
            batch = columns.batch(name, str(self.path), nothing)
            for begin in range(0, rows, limits.GROUP_ROWS):
                yield batch.slice(0, rows - begin)

    def _noted(self, number: int, counted: dict[int, Undecoded], columns: PacketColumns) -> None:
        if columns.counted or number not in self._undecoded:  # another scan may have seen more columns
            self._undecoded[number] = counted

    def beside(self) -> Mapping[str, Count]:
        return together(part.types for counted in self._undecoded.values() for part in counted.values())

    def _made(self, columns: PacketColumns, interface: Interface, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._span != EVER:
            batch = batch.filter(inside(batch.column("timestamp"), self._span))
        return columns.batch(self.names[interface.index], str(self.path), batch)

    def notes(self, columns: Sequence[str]) -> Iterator[str]:
        """Says what is damaged, lost or not decoded."""
        summary = self.index.summary
        name = self.path.name
        if summary.malformed:
            yield f"{name}: {counted(summary.malformed, 'record')} malformed, in the view `malformed`"
        for each in summary.interfaces:
            lost = sum(hole.records for hole in each.holes)
            if each.holes:
                size = sum(hole.length for hole in each.holes)
                yield f"{name}: is damaged: {size:,} bytes are no records; about {counted(lost, 'record')} lost"
            if dropped := total(each.drops.alone()):
                yield f"{name}: {counted(dropped, 'record')} lost before they were written, as it says"
        if summary.damage:
            yield f"{name}: cannot be decompressed to its end: {summary.damage}"
        elif not summary.ended_cleanly:
            yield f"{name}: is cut in its last record"
        wire = sum(part.wire for counted in self._undecoded.values() for part in counted.values())
        if words := Share.of(self.beside(), summary.packets, wire).words:
            yield f"{name}: {words}"

    def malformed(self) -> pa.Table:
        rows = damage_table(self.index.malformed)
        links = [self.names[number] for number in rows.column("interface").to_pylist()]
        return pa.table(
            {
                "link": pa.array(links, pa.string()),
                FILE: pa.array([str(self.path)] * rows.num_rows, pa.string()),
                **{name: rows.column(name) for name in (POSITION, "offset", "length", "reason")},
                "arrival": rows.column("arrival").cast(pa.int64()).cast(INSTANT),
            }
        )


EVER = (0, END_OF_TIME)
"""The span of all packets, ns."""


def inside(stamps: pa.Array, span: tuple[int, int]) -> pa.Array:
    """Whether timestamps, ns, are in a span."""
    return pc.and_(pc.greater_equal(stamps, span[0]), pc.less(stamps, span[1]))


def counted(number: int, what: str) -> str:
    """Returns a number of things with its verb: `1 record is`."""
    return f"{number:,} {what}{' is' if number == 1 else 's are'}"


@dataclass(frozen=True)
class _Interface:
    """The packets of a capture file that are of a link below that of the file."""

    file: CaptureFile
    link: str

    def batches(self, columns: PacketColumns) -> Iterator[pa.RecordBatch]:
        return self.file.batches(columns, self.link)

    def notes(self, columns: Sequence[str]) -> Iterator[str]:
        return self.file.notes(columns)

    def beside(self) -> Mapping[str, Count]:
        return self.file.beside()


class CaptureFiles:
    """Capture files as a source. Each is for itself: rules between files of a link, such as that they may not overlap,
    are those of `ingest` and `run`.

    Raises CaptureError as `CaptureFile`.

    Args:
        files: (link, path) of each file; a link may have several.
    """

    def __init__(self, files: Sequence[tuple[str, Path]], config: Config | None = None, span: tuple[int, int] = EVER):
        config = config or Config()
        workers = config.replay.threads or threads.thread_count(config.replay.bytes)
        self.files = [CaptureFile(link, path, config.link(link), span, workers) for link, path in files]

    def views(self, words: Words) -> Iterator[View]:
        links: dict[str, list[Packets]] = {}
        for each in self.files:
            links.setdefault(each.link, []).append(each)
            for name in dict.fromkeys(each.names):
                if name != each.link:
                    links.setdefault(name, []).append(_Interface(each, name))
        yield from packet_views(links, words)
        yield _table_view(ALL, "malformed", pa.concat_tables([each.malformed() for each in self.files]))
        yield _table_view(ALL, "captures", pa.Table.from_pylist([*self._captures()], _CAPTURES))

    def context(self) -> Context:
        interfaces: dict[str, dict[str, None]] = {}
        for each in self.files:
            interfaces.setdefault(each.link, {}).update(dict.fromkeys(each.names))
        names = dict.fromkeys([*interfaces, *(name for own in interfaces.values() for name in own)])
        several = {link: tuple(own) for link, own in interfaces.items() if [*own] != [link]}
        return Context(Links(tuple(names), interfaces=several))

    def _captures(self) -> Iterator[dict[str, Any]]:
        for each in self.files:
            for link, interface in zip(each.names, each.index.summary.interfaces, strict=True):
                numbers = {name: getattr(interface, name) for name in ("packets", "malformed", "smallest", "largest")}
                numbers |= {"first": numbers.pop("smallest"), "last": numbers.pop("largest")}
                lost = sum(hole.records for hole in interface.holes)
                yield {
                    "link": link,
                    FILE: str(each.path),
                    **numbers,
                    "dropped": total(interface.drops.alone()),
                    "damaged": lost,
                }


_CAPTURES = pa.schema(
    [
        pa.field("link", pa.string()),
        pa.field(FILE, pa.string()),
        pa.field("packets", pa.int64()),
        pa.field("malformed", pa.int64()),
        pa.field("first", INSTANT),
        pa.field("last", INSTANT),
        pa.field("dropped", pa.int64()),  # records that the file says were lost before they were written
        pa.field("damaged", pa.int64()),  # estimated records of the bytes that are none
    ]
)


def _table_view(schema: str, name: str, table: pa.Table) -> View:
    return View(schema, name, table.schema, lambda names: iter(table.select(names).to_batches()))


# A statement: bound once, evaluated as often as its rows are asked for.


class Statement:
    """A statement over a source; use it in a `with` block.

    Args:
        memory: bytes that DuckDB may take; 0 for the usual number.
        spilled: bytes that it may put on the disk beyond those; None for what is free.

    Attributes:
        schema: its columns, each with a name of its own.

    Raises:
        AbsentExtraError: DuckDB is not installed.
        SqlError: the text is not one statement that reads, or names what is not there.
    """

    def __init__(
        self, source: Source, text: str, memory: int = 0, workers: int = 0, spilled: int | None = None
    ) -> None:
        extras.require("SQL", "sql")
        import duckdb

        self._text = text
        self._folder = caches.make_folder("lowwater-sql-")
        self._thread = ThreadPoolExecutor(1)
        self._failed: list[BaseException] = []
        self._used: list[View] = []
        self._streams: list[Any] = []  # which the views read
        workers = workers or threads.thread_count(memory)
        settings = duckdb_settings(memory or limits.SQL_BYTES, workers, str(self._folder / "spill"))
        if spilled is not None:
            settings["max_temp_directory_size"] = f"{spilled >> 20}MiB"
        self._database = duckdb.connect(config=settings)
        try:
            self._register([*source.views(Words(text))], Words(text))
            self._relation = self._bound(text)
            self.schema = _distinct(self._evaluated(self._relation.limit(0)).schema)
        except BaseException:
            self.close()
            raise

    def _register(self, views: Sequence[View], words: Words) -> None:
        database, schemas, taken = self._database, {"main"}, set[tuple[str, str]]()
        for view in views:
            key = view.schema.lower(), view.name.lower()
            if key in taken:
                continue
            taken.add(key)
            if key[0] not in schemas:
                database.execute(f"CREATE SCHEMA {quoted(view.schema)}")
                schemas.add(key[0])
            database.execute(f"SET schema = '{quoted(view.schema)}'")
            self._streams.append(database.from_arrow(_Stream(view, self._failed)))
            self._streams[-1].create_view(view.name)
            if words.has(view.name):
                self._used.append(view)
        self._names = [view.name for view in views if view.schema == ALL]
        database.execute(f"SET search_path = '{quoted(ALL)}'")
        for setting in _LAST:
            database.execute(f"SET {setting}")

    def _bound(self, text: str) -> duckdb.DuckDBPyRelation:
        import duckdb

        try:
            statements = self._database.extract_statements(text)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                what = "several statements" if len(statements) > 1 else "no statement" if not statements else "no query"
                pivots = re.match(r"(?is)\s*(?:FROM\s*\(\s*)?PIVOT\b", text)
                raise errors.SqlError(f"the text is {what}", _VALUES if pivots else "write one SELECT; it only reads")
            relation = self._database.sql(text)
        except duckdb.Error as error:
            raise self._error(error) from None
        assert relation is not None  # of a SELECT
        return relation

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Evaluates the statement, and yields its rows.
        Raises SqlError if it cannot be evaluated, and what the source raises."""
        import duckdb

        reader = self._evaluated(self._relation)
        try:
            while (batch := self._waited(partial(next, reader, None))) is not None:
                yield pa.RecordBatch.from_arrays(batch.columns, names=self.schema.names)
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            raise self._error(error) from None

    def _evaluated(self, relation: duckdb.DuckDBPyRelation) -> pa.RecordBatchReader:
        import duckdb

        self._failed.clear()
        try:
            return self._waited(partial(pa.RecordBatchReader.from_stream, relation))
        except (duckdb.Error, pa.ArrowException) as error:
            raise self._error(error) from None

    def _waited(self, work: Callable[[], Any]) -> Any:
        """Lets DuckDB work on a thread of its own: this one would see Ctrl-C when the work is done. `close` ends it."""
        return self._thread.submit(work).result()

    def _error(self, error: Exception) -> BaseException:
        """Returns the error of the source, if that failed; else what DuckDB says, in one line."""
        return self._failed[0] if self._failed else _told(error, self._names, self._text)

    def notes(self) -> list[str]:
        """What is to be said of the rows: what is missing or damaged in what the statement names."""
        return list(dict.fromkeys(note for view in self._used for note in view.notes()))

    def close(self) -> None:
        idle = self._thread.submit(int)
        while not wait([idle], CLOSING).done:  # DuckDB forgets an interrupt of work that has not begun yet
            self._database.interrupt()
        self._thread.shutdown()
        self._streams.clear()
        self._database.close()
        caches.remove_folder(self._folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


_LAST = ("enable_external_access = false", "lock_configuration = true")
"""Settings behind which no other can be made: not even files that are spilled are named by a statement."""


def _distinct(schema: pa.Schema) -> pa.Schema:
    """Returns a schema in which no two columns have one name: the second `a` is `a_1`."""
    names: list[str] = []
    for name in schema.names:
        number, unused = 0, name
        while unused in names:
            number += 1
            unused = f"{name}_{number}"
        names.append(unused)
    return pa.schema([each.with_name(name) for each, name in zip(schema, names, strict=True)])


_KIND = re.compile(r"^[A-Z][A-Za-z ]* Error: ")
_MEMORY = "group or sort less, or take a shorter time by --from and --to; `[replay] memory` of a lake gives more"
_QUOTED = 'if it is the name of a column, such as "window" or "offset", write it in double quotes'

_VALUES = "name the values that become columns: PIVOT main1 ON destPort IN (80, 443) USING sum(len)"
_TEXTS = "addresses are texts here: srcIP LIKE '10.%'; of a query of GSQL srcIP <<= '10.0.0.0/8' is a condition"
_OF_GSQL = {"umin": "write least(a, b)", "umax": "write greatest(a, b)", "count_distinct": "write count(DISTINCT a)"}
"""Function of GSQL in lower case -> what SQL has for it."""

_LONGEST_HINT = 200
CLOSING = 0.1
"""Seconds after which work that goes on is interrupted again."""


def _told(error: Exception, names: Sequence[str], statement: str) -> errors.SqlError:
    """Makes one message and a hint of what DuckDB says of a statement, in several lines."""
    text = str(error).replace(f"{quoted(ALL)}.", "")
    if "Out of Memory" in text:
        return errors.SqlError("the statement needs more memory than it may have", _MEMORY)
    first, _, rest = _KIND.sub("", text, count=1).partition("\n")
    said = " ".join(rest.partition("LINE 1:")[0].split())
    hint = said[:_LONGEST_HINT] if re.match("Did you mean|Candidate", said) else ""
    if "disabled by configuration" in text or "disabled through configuration" in text:
        hint = "a statement reads its views only, no files and no network: SHOW TABLES lists them"
    elif missing := re.search("Table with name (.+) does not exist", first):
        hint = errors.nearest(missing[1], names) or f"there are: {', '.join(dict.fromkeys(names))}"
    elif missing := re.search(r'Referenced table "([\w.]+)" not found', first):
        hint = _of_tshark(missing[1], statement) or hint
    elif '"<<=" is not in the catalog' in first or 'Type with name "inet"' in first:
        hint = _TEXTS
    elif (missing := re.search(r"Function with name (\w+) does not exist", first)) and CATALOG.named(missing[1]):
        other = "it is a function of GSQL: ask it by a query, with `lowwater run`"
        hint = _OF_GSQL.get(missing[1].lower(), other)
    elif first.startswith('syntax error at or near "AS"') and re.search(r"(?i)GROUP\s+BY", statement):
        hint = "an expression gets its name in SELECT: SELECT time//60 AS tb, count(*) FROM main1 GROUP BY tb"
    elif first.startswith("syntax error"):
        hint = _QUOTED
    return errors.SqlError(first, hint or "DESCRIBE and the name of a view list its columns and their types")


def _of_tshark(first: str, statement: str) -> str:
    """Hint for a field of tshark, of which DuckDB says that there is no such table; empty for any other name."""
    field = re.search(rf"\b{re.escape(first)}(?:\.\w+)+", statement, re.IGNORECASE)
    name = field[0].lower() if field else ""
    return f"write {sugar.TSHARK[name]}" if name in sugar.TSHARK else sugar.of_tshark(name)
