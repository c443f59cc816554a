"""The views of a lake for SQL: packets and records of links, published tables, ledgers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads

from lowwater.capture.content.retention import contents_of
from lowwater.capture.headers.undecoded import Count
from lowwater.catalog.schemas import PAYLOAD
from lowwater.config import Config, load_config
from lowwater.lake import layout
from lowwater.lake.ledgers.captures import Captures, ingested_links, read_captures
from lowwater.lake.ledgers.coverage import hole_line
from lowwater.lake.packets import PacketFiles, read_packets
from lowwater.lake.results.exploring import LAST, result_table
from lowwater.lake.results.published_rows import published_rows
from lowwater.lake.tables import fetch_rows, lake_errors, open_table, plain_type, table_dataset
from lowwater.link_names import family_of
from lowwater.plan.context import Context
from lowwater.replay import remarks
from lowwater.replay.packets import select_records
from lowwater.replay.preview import preview_context
from lowwater.replay.schedule.due import as_they_stand
from lowwater.replay.sql import (
    ALL,
    EVER,
    INSTANT,
    LEDGERS,
    OPTIONAL,
    POSITION,
    TABLES,
    PacketColumns,
    Packets,
    View,
    Words,
    counted,
    inside,
    packet_views,
)
from lowwater.storage import paths


class LakePackets:
    """The packets of a link of a lake, or of one of its interfaces; copies of packets are packets, as in `export`."""

    def __init__(self, lake: layout.Lake, config: Config, link: str, captures: Captures, span: tuple[int, int]) -> None:
        self._lake, self._config, self.link, self._captures, self._span = lake, config, link, captures, span

    def batches(self, columns: PacketColumns) -> Iterator[pa.RecordBatch]:
        """Reads the packets. Raises LakeError if they cannot be read."""
        start, end = self._span
        names = [name for name in columns.stored if name not in ("timestamp", POSITION)]
        settings = self._config.link(self.link)
        files = dict(zip(self._captures.values("capture"), self._captures.values("path"), strict=True))
        for batch in read_packets(self._lake, self.link, self._captures, settings, start, start, end, names):
            rows = batch.filter(inside(batch.column("timestamp"), self._span))
            if rows.num_rows:
                (capture,) = rows.column("capture").slice(0, 1).to_pylist()
                yield columns.batch(self.link, files[capture], rows)

    def notes(self, columns: Sequence[str]) -> Iterator[str]:
        """Says what the lake does not keep of what is asked for, or no more, and what is damaged."""
        yield from PacketFiles.of(self._lake).removed([self.link], self._span[0])
        asked = {"payload" if name == PAYLOAD else name.partition("_")[0] for name in columns if name in OPTIONAL}
        for what in sorted(asked):
            lacking = sum(what not in contents_of(kept) for kept in self._captures.values("kept"))
            if lacking:
                texts = "no payloads" if what == "payload" else f"no fields of {what.upper()}"
                yield (
                    f"link {self.link}: {lacking:,} of {len(self._captures):,} captures have {texts} in the lake; "
                    "there these columns are NULL"
                )
        if malformed := int(self._captures.numbers("malformed").sum()):
            yield f"link {self.link}: {counted(malformed, 'record')} malformed, in `ledgers.malformed`"
        for at, hole, span in self._captures.holes:
            yield f"link {self.link}: {hole_line(self._captures[at], hole, span)}"

    def beside(self) -> Mapping[str, Count]:
        return remarks.beside(self._captures[at] for at in self._captures.meeting(*self._span))


class LakeSource:
    """A lake as a source, between two instants, ns.

    Args:
        links: the links, with their interfaces, that may be read; None for all.
        tables: the published tables that may be read, without ledgers; None for all, and the ledgers.
    """

    def __init__(
        self,
        lake: layout.Lake,
        span: tuple[int, int] = EVER,
        links: Collection[str] | None = None,
        tables: Collection[str] | None = None,
    ) -> None:
        self.lake, self._span, self._links, self._tables = lake, span, links, tables
        self._config = load_config(lake.root)

    def views(self, words: Words) -> Iterator[View]:
        names = [name for name in ingested_links(self.lake) if self._links is None or name in self._links]
        captures = read_captures(self.lake, names)
        packets: dict[str, list[Packets]] = {}
        for name in names:
            if self._config.link(name).kind != "pcap":
                yield self._records(name)
                continue
            each = LakePackets(self.lake, self._config, name, captures[name], self._span)
            for known in dict.fromkeys((family_of(name), name)):
                packets.setdefault(known, []).append(each)
        yield from packet_views(packets, words)
        for name in sorted(path.name for path in paths.folders(self.lake.root / "tables")):
            if words.has(name) and (self._tables is None or name in self._tables):
                view = self._table(name)
                yield from (View(schema, name, *view) for schema in (ALL, TABLES))
        for name in layout.LEDGERS if self._tables is None else ():
            if words.has(name) and (found := self._ledger(name)) is not None:
                yield from (View(schema, name, *found) for schema in (ALL, LEDGERS))

    def context(self) -> Context:
        links = ingested_links(self.lake) if self._links is None else self._links
        return preview_context(self.lake, self._config, "", links)

    def _records(self, link: str) -> View:
        selection = select_records(self.lake, self._config, link, None, *self._span)
        schema = _plain(selection.schema)

        def scan(names: Sequence[str]) -> Iterator[pa.RecordBatch]:
            for batch in selection.batches():
                yield batch.cast(schema).select(names)

        return View(ALL, link, schema, scan)

    def _table(self, query: str) -> tuple[Any, ...]:
        found = result_table(self.lake, query)
        opened, (start, end) = found.opened(), self._span
        schema = _plain(pa.schema([*found.columns, pa.field(LAST, INSTANT)]))
        chosen_rows = (pads.field(LAST) >= start) & (pads.field(LAST) < end)

        def scan(names: Sequence[str]) -> Iterator[pa.RecordBatch]:
            with lake_errors(f"{found.path}: the table cannot be read"):
                dataset = fetch_rows(found.path, table_dataset(found.path, opened), chosen_rows)
                chosen = pa.schema([schema.field(name) for name in names])
                for batch in dataset.to_batches(columns=list(names), filter=chosen_rows):
                    yield _cast(batch, chosen)

        def notes() -> Iterable[str]:
            bounds = (None, None) if self._span == EVER else self._span
            rows = as_they_stand(published_rows(self.lake, query, *bounds), Path("queries"))
            return (f"table {query}: {note}" for note in rows.notes)

        return schema, scan, notes

    def _ledger(self, name: str) -> tuple[Any, ...] | None:
        path = self.lake.root / name
        table = open_table(path)
        if table is None:
            return None
        known = pa.schema(table.schema().to_arrow())
        schema = pa.schema([pa.field(each.name, plain_type(each.type)) for each in known])

        def scan(names: Sequence[str]) -> Iterator[pa.RecordBatch]:
            with lake_errors(f"{path}: the table cannot be read"):
                chosen = pa.schema([schema.field(each) for each in names])
                for batch in fetch_rows(path, table_dataset(path, table)).to_batches(columns=list(names)):
                    yield batch.cast(chosen)

        return schema, scan


def _plain(schema: pa.Schema) -> pa.Schema:
    """Returns a schema whose instants are INSTANT."""
    return pa.schema([each.with_type(INSTANT) if pa.types.is_timestamp(each.type) else each for each in schema])


def _cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Casts a batch to a schema, whose instants it may have as numbers or with a zone."""
    columns = [
        column.cast(pa.int64()).cast(kind.type) if pa.types.is_integer(column.type) else column.cast(kind.type)
        for column, kind in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
